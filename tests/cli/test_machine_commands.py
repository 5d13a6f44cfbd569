"""`vx machine`: what it shows of a machine file."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from vx import resources
from vx.cli.app import app
from vx.diagnostics.report import Reporter
from vx.diagnostics.source import SourceMap
from vx.machine.cost import Cost
from vx.machine.describe import describe, price_text, spec_of
from vx.machine.load import load_file

FLEET = resources.directory("fleet")

NODE = """// A node.
import "part.vx";
Topology Device {
    memory: Memory::HBM,
    arch: nvptx64,
    instances: 2,
    peer: 450 GB/s latency 10 us,   // spec: a data sheet
    transfer Memory::CPU_DRAM -> Memory::HBM : 50 GB/s latency 8 us copy_engine
    transfer Memory::HBM -> Memory::L2
    // spec: a slide,
    // spec: and a footnote
    transfer Memory::HBM -> Memory::CPU_DRAM : 7 sync
}
"""
PART = """Memory HBM { capacity: 1 GiB,   // spec: the card
    managed: explicit }
Memory L2 { within: Memory::HBM, capacity: 1 MiB }
"""
EXPECTED = """{folder}/node.vx
imports part.vx

Topology Device × 2
  memory     Memory::HBM
  arch       nvptx64
  instances  2
  peer       450 GB/s latency 10 us  a data sheet

Memory HBM
│ capacity   1 GiB               the card
│ managed    explicit
└─ Memory L2
     capacity   1 MiB

Memory CPU_DRAM  (built in)

Transfers, and what 1 GiB takes
  CPU_DRAM -> HBM  21.48 ms    50 GB/s latency 8 us copy_engine
  HBM -> L2        unpriced
  HBM -> CPU_DRAM  unpriced    7 sync                    a slide, and a footnote
"""


@pytest.fixture
def node(tmp_path: Path) -> Path:
    (tmp_path / "part.vx").write_text(PART, encoding="utf-8")
    (tmp_path / "node.vx").write_text(NODE, encoding="utf-8")
    return tmp_path / "node.vx"


def test_show(node: Path) -> None:
    result = CliRunner().invoke(app, ["machine", "show", str(node)])
    assert result.exit_code == 0
    assert result.stdout == EXPECTED.format(folder=node.parent)


def test_a_malformed_file_is_not_shown(node: Path) -> None:
    node.write_text("Memory M { capacity: 1.1 KiB }", encoding="utf-8")
    for words in (["show", str(node)], ["graph", str(node), "-o", str(node.with_suffix(".svg"))]):
        result = CliRunner().invoke(app, ["machine", *words])
        assert result.exit_code == 1 and "E6040" in result.stderr and not result.stdout
    assert not node.with_suffix(".svg").exists()


def test_list() -> None:
    lines = CliRunner().invoke(app, ["machine", "list"]).stdout.splitlines()
    named = {line.split()[0]: line for line in lines[1:]}
    shipped = {path.relative_to(FLEET).as_posix() for path in FLEET.rglob("*.vx")}
    assert set(named) == {name for name in shipped if not name.startswith("parts/")}
    assert "8 × nvptx64 sm_90, HBM, 80 GiB, 3.35 TB/s" in named["node-8gpu.vx"]
    assert "this CPU" in named["cpu.vx"] and "host, CPU_DRAM" in named["host-x86-epyc-9654.vx"]


def test_graph(node: Path) -> None:
    out = node.with_suffix(".svg")
    assert CliRunner().invoke(app, ["machine", "graph", str(node), "-o", str(out)]).exit_code == 0
    root = ElementTree.fromstring(out.read_text(encoding="utf-8"))
    tag = "{http://www.w3.org/2000/svg}"
    texts = [element.text or "" for element in root.iter(f"{tag}text")]
    assert {"HBM", "L2", "CPU_DRAM", "capacity: 1 GiB"} <= set(texts)
    assert any("50 GB/s latency 8 us" in text and "21.48 ms" in text for text in texts)
    arrows = [line for line in root.iter(f"{tag}line") if line.get("class") == "edge"]
    assert len(arrows) == 3
    width, height = int(root.get("width", "0")), int(root.get("height", "0"))
    for box in root.iter(f"{tag}rect"):
        assert int(box.get("x", "0")) + int(box.get("width", "0")) <= width
        assert int(box.get("y", "0")) + int(box.get("height", "0")) <= height


def test_a_drawing_is_of_every_file_of_the_fleet(tmp_path: Path) -> None:
    from vx.machine.graph import svg

    for path in FLEET.rglob("*.vx"):
        sources = SourceMap()
        machine = load_file(path, Reporter(), sources)
        ElementTree.fromstring(svg(machine, sources))
        assert describe(machine, sources).startswith(str(path))


def test_an_output_that_cannot_be_written(node: Path) -> None:
    result = CliRunner().invoke(app, ["machine", "graph", str(node), "-o", "/nonexistent/a.svg"])
    assert result.exit_code == 1 and "E9021" in result.stderr


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (None, "unpriced"),
        (Cost(512, "cyc", "containment"), "512 cycles"),
        (Cost(979, "ps", "containment"), "979 ps"),
        (Cost(19_116, "ps", "containment"), "19.12 ns"),
        (Cost(126_322_567_530, "ps", "link_rate"), "126.3 ms"),
        (Cost(2 * 10**12, "ps", "link_rate"), "2 s"),
    ],
)
def test_prices_for_people(cost: Cost | None, text: str) -> None:
    assert price_text(cost) == text


def test_a_figure_without_a_source_has_none() -> None:
    sources, reporter = SourceMap(), Reporter()
    sources.add("m.vx", "Memory M {\n  // spec: of another line\n\n  capacity: 1 B,\n}")
    from vx.machine.builtin import builtin_machine
    from vx.machine.load import machine_from_module
    from vx.syntax.parser import parse_module

    module = parse_module(sources.text("m.vx"), "m.vx", reporter)
    machine = machine_from_module(module, builtin_machine("x86_64"), "machine", reporter)
    assert spec_of(machine.spaces["M"].fields["capacity"], sources) == ""

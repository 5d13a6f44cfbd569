"""Malformed machine files: each is refused with a code, at the place that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from vx.diagnostics.report import Reporter
from vx.diagnostics.source import SourceMap
from vx.machine.load import load_machine

T = "Topology T { memory: Memory::M }"
M = "Memory M {}"
PAIR = "Memory P { bandwidth: 2 TB/s }\nMemory C { within: Memory::P, bandwidth: 1 TB/s }"


def found(path: Path, host: str = "default") -> list[tuple[str, str]]:
    """The errors in a machine file, as code and `line:column`."""
    sources, reporter = SourceMap(), Reporter()
    load_machine(path, host, reporter, sources, "x86_64")
    return [(d.code, "{}:{}".format(*sources.line_col(d.span))) for d in reporter.diagnostics]


@pytest.mark.parametrize(
    ("text", "code", "position"),
    [
        # syntax
        ("Memory { capacity: 1 GiB }", "E0110", "1:8"),
        ("Memory M { capacity 1 GiB }", "E0110", "1:21"),
        ("Memory M { capacity: }", "E0110", "1:22"),
        ("Memory M { capacity: 1 GiB", "E0112", "1:10"),
        ("Memory M { capacty: 1 GiB }", "E0113", "1:12"),
        ("Memory M { memory: Memory::N }", "E0113", "1:12"),
        (f"{M}\nTopology T {{ memory: Memory::M, capacity: 1 GiB }}", "E0113", "2:33"),
        ("Memory M { within: HBM }", "E0110", "1:20"),
        (f"{M}\nTopology T {{ memory: Memory::M transfer Memory::M Memory::CPU_DRAM }}", "E0110", "2:51"),
        ("Memory M { capacity: -1 GiB }", "E0110", "1:22"),
        # figures
        ("Memory M { capacity: 1.1 KiB }", "E6040", "1:22"),
        ("Memory M { capacity: 1e3 B }", "E6040", "1:22"),
        ("Memory M { capacity: 0x10 GiB }", "E6040", "1:22"),
        ("Memory M { bandwidth: 0.5 B/s }", "E6040", "1:23"),
        ("Memory M { capacity: 1 gib }", "E6041", "1:22"),
        ("Memory M { capacity: 40 }", "E6041", "1:22"),
        ("Memory M { capacity: 40 GB/s }", "E6041", "1:22"),
        ("Memory M { bandwidth: 40 GB }", "E6041", "1:23"),
        ("Memory M { bandwidth: 40 GB/min }", "E6041", "1:23"),
        ("Memory M { clock: 1.98 }", "E6041", "1:19"),
        ("Memory M { clock: 1.98 Ghz }", "E6041", "1:19"),
        ("Memory M { replicas: 4 KiB }", "E6041", "1:22"),
        (f"{M}\nTopology T {{ memory: Memory::M, peer: 450 }}", "E6041", "2:39"),
        (f"{M}\nTopology T {{ memory: Memory::M, peer: 450 GB/s latency 10 }}", "E6041", "2:56"),
        (f"{M}\nTopology T {{ memory: Memory::M, peer: 450 GB/s latency 10 KiB }}", "E6041", "2:56"),
        (f"{M}\nTopology T {{ memory: Memory::M transfer Memory::M -> Memory::M : 63 GB }}", "E6041", "2:66"),
        (f"{M}\nTopology T {{ memory: Memory::M transfer Memory::M -> Memory::CPU_DRAM : 7 latency 1 us }}", "E6041", "2:32"),
        ("Memory M { capacity: 9000 PiB }", "E6042", "1:22"),
        ("Memory M { reserve: 100% , capacity: 1 GiB }", "E6042", "1:21"),
        ("Memory M { capacity: 1 KiB, reserve: 1 KiB }", "E6042", "1:29"),
        ("Memory M { capacity: 1 KiB, granule: 2 KiB }", "E6042", "1:29"),
        (f"{M}\nTopology T {{ memory: Memory::M, instances: 4000000000 }}", "E6042", "2:33"),
        ("Memory M { capacity: 0 B }", "E6008", "1:22"),
        (f"{M}\nTopology T {{ memory: Memory::M, instances: 0 }}", "E6008", "2:44"),
        (f"{M}\nTopology T {{ memory: Memory::M, instances: 1.5 }}", "E6040", "2:44"),
        # words
        ("Memory M { scope: grid }", "E6047", "1:12"),
        ("Memory M { managed: explict }", "E6047", "1:12"),
        ("Memory M { crossing: parallel }", "E6047", "1:12"),
        (f"{M}\nTopology T {{ memory: Memory::M, dtypes: [f33] }}", "E6047", "2:33"),
        # declarations together
        ("Topology T { arch: x86_64 }", "E6044", "1:1"),
        (f"{M}\nTopology T {{ memory: Memory::M, visible: [] }}", "E6005", "2:33"),
        ("Memory M { within: Memory::M }", "E6006", "1:12"),
        ("Memory A { capacity: 1 KiB }\nMemory B { within: Memory::A, capacity: 1025 B }", "E6007", "2:31"),
        ("Memory A { scope: sm }\nMemory B { within: Memory::A, scope: device }", "E6011", "2:31"),
        (f"{M}\nMemory M {{ capacity: 1 B }}", "E6012", "2:1"),
        (f"{PAIR}\nTopology T {{ memory: Memory::P transfer Memory::P -> Memory::C : 5 }}", "E6013", "3:32"),
        (f"{M}\nTopology GPU {{ memory: Memory::M }}", "E6016", "2:1"),
        ("Memory CPU_DRAM { bandwidth: 1 GB/s }", "E6016", "1:1"),
        ("Memory M { within: Memory::N }", "E6025", "1:12"),
        ("Topology T { memory: Memory::Nowhere }", "E6025", "1:14"),
        (f"{M}\nTopology T {{ memory: Memory::M, visible: [Memory::M, Memory::N] }}", "E6025", "2:33"),
        (f"{M}\nTopology T {{ memory: Memory::M transfer Memory::M -> Memory::N }}", "E6025", "2:32"),
        ("Memory M { capacity: 1 B, capacity: 1 B }", "E6043", "1:27"),
        (f"{M}\nfn main() -> i32 {{ return 0; }}", "E6045", "2:1"),
        ('import "machine.vx";', "E6046", "1:1"),
    ],
)  # fmt: skip
def test_refused(tmp_path: Path, text: str, code: str, position: str) -> None:
    path = tmp_path / "machine.vx"
    path.write_text(text, encoding="utf-8")
    assert found(path) == [(code, position)]


def test_a_contradiction_names_both_files(tmp_path: Path) -> None:
    (tmp_path / "part.vx").write_text("Memory M { capacity: 1 GiB }", encoding="utf-8")
    node = tmp_path / "node.vx"
    node.write_text('import "part.vx";\nMemory M { capacity: 2 GiB }', encoding="utf-8")
    reporter = Reporter()
    load_machine(node, "default", reporter, SourceMap(), "x86_64")
    (only,) = reporter.diagnostics
    assert only.code == "E6012"
    assert "part.vx" in only.message and "node.vx" in only.message
    assert [label.span.file for label in only.labels] == [str(tmp_path / "part.vx")]


def test_files_of_one_name_are_named_in_full(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "a.vx").write_text("Memory M { capacity: 1 GiB }", encoding="utf-8")
    main = tmp_path / "a.vx"
    main.write_text('import "parts/a.vx";\nMemory M { capacity: 2 GiB }', encoding="utf-8")
    reporter = Reporter()
    load_machine(main, "default", reporter, SourceMap(), "x86_64")
    assert str(folder / "a.vx") in reporter.diagnostics[0].message


def test_the_host_and_the_machine_may_not_contradict(tmp_path: Path) -> None:
    host, part = tmp_path / "host.vx", tmp_path / "part.vx"
    host.write_text("Memory CPU_DRAM { bandwidth: 1 GB/s }\nMemory M { capacity: 1 B }", encoding="utf-8")
    part.write_text("Memory M { capacity: 2 B }", encoding="utf-8")
    assert found(part, str(host)) == [("E6012", "1:1")]


def test_a_host_describes_its_memory_once(tmp_path: Path) -> None:
    host, part = tmp_path / "host.vx", tmp_path / "part.vx"
    host.write_text("Memory CPU_DRAM { bandwidth: 1 GB/s }\nMemory CPU_DRAM { bandwidth: 2 GB/s }", encoding="utf-8")
    part.write_text(M, encoding="utf-8")
    assert found(part, str(host)) == [("E6012", "2:1")]
    host.write_text("Memory NPU_HBM { capacity: 1 B }", encoding="utf-8")
    assert found(part, str(host)) == [("E6016", "1:1")]


def test_an_import_that_is_missing(tmp_path: Path) -> None:
    from vx.diagnostics.report import CompileError

    path = tmp_path / "machine.vx"
    path.write_text('import "none.vx";', encoding="utf-8")
    with pytest.raises(CompileError, match="E9001"):
        found(path)

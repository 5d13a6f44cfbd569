"""Measured machine files: tables, what they price, and measured figures beside declared ones."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.machine.declared import machine_of
from vx.cli.app import app
from vx.diagnostics.report import Reporter
from vx.diagnostics.source import SourceMap
from vx.machine.cost import Cost, hop_cost, peer_cost, table_time_ps
from vx.machine.load import load_machine
from vx.machine.machine import Machine, Measurement, Table
from vx.machine.route import find_path, find_route, per_byte

MARK = 'Measured { date: "2026-11-29T23:10:02Z", part: "a card", driver: "580.1", tool: "vx 1", uuid: "GPU-1" }'
POINTS = "4 KiB: 1.5 us, 8 KiB: 1.5 us, 64 KiB: 9 us, 1 MiB: 100 us, 4 MiB: 500 us"
US = 10**6
TABLE = Table(((4096, 1_500_000), (8192, 1_500_000), (65536, 9 * US), (2**20, 100 * US), (2**22, 500 * US)))


def measured(edges: str = "", more: str = "", memory: str = "") -> Machine:
    topology = f"Topology Device {{ memory: Memory::HBM {more} {edges} }}"
    return machine_of(f"{MARK} Memory HBM {{ {memory} }} {topology}")


def loaded(folder: Path, **files: str) -> Machine:
    """The machine of `main`, which may import the other files."""
    for name, text in files.items():
        (folder / f"{name}.vx").write_text(text, encoding="utf-8")
    reporter = Reporter()
    machine = load_machine(folder / "main.vx", "default", reporter, SourceMap(), "x86_64")
    assert not reporter.diagnostics, reporter.diagnostics
    return machine


UP = f"transfer Memory::CPU_DRAM -> Memory::HBM : measured [{POINTS}] copy_engine"


def test_a_table_prices_a_hop() -> None:
    machine = measured(UP)
    (edge,) = [edge for edge in machine.edges if edge.measured]
    assert (edge.table, edge.markers, edge.rate, edge.latency_ps) == (TABLE, ("copy_engine",), None, None)
    assert hop_cost(machine, "CPU_DRAM", "HBM", 65536) == Cost(9 * US, "ps", "table", measured=True)


@pytest.mark.parametrize(
    ("size", "time"),
    [
        (0, 1_500_000),
        (1, 1_500_000),
        (6000, 1_500_000),
        (8193, 1_500_131),  # 7.5 us over 57,344 bytes, rounded up
        (36864, 5_250_000),
        (2**22, 500 * US),
        (2**23, 500 * US + 400 * US * 4 // 3 + 1),  # the last slope, 400 us for 3 MiB
        (2**62, 500 * US + -(-(2**62 - 2**22) * 400 * US // (3 * 2**20))),
    ],
)
def test_between_and_beyond_the_points(size: int, time: int) -> None:
    assert table_time_ps(TABLE, size) == time


def tables() -> st.SearchStrategy[Table]:
    def built(steps: list[tuple[int, int]], last: int) -> Table:
        size = time = 1
        points = []
        for more, longer in steps:
            size, time = size + more, time + longer
            points.append((size, time))
        points[-1] = (points[-1][0], points[-1][1] + last)
        return Table(tuple(points))

    steps = st.lists(st.tuples(st.integers(1, 2**40), st.integers(0, 2**50)), min_size=5, max_size=20)
    return st.builds(built, steps, st.integers(1, 2**40))


@given(tables(), st.integers(0, 2**62), st.integers(0, 2**62))
def test_times_never_fall(table: Table, one: int, other: int) -> None:
    small, large = sorted((one, other))
    assert table_time_ps(table, small) <= table_time_ps(table, large)


@given(tables(), st.integers(0, 18), st.integers(0, 2**40))
def test_exact_at_the_points_and_within_a_picosecond_between(table: Table, number: int, offset: int) -> None:
    assert all(table_time_ps(table, size) == time for size, time in table.points)
    (before, elapsed), (after, until) = list(pairwise(table.points))[number % (len(table.points) - 1)]
    size = before + offset % (after - before)
    exact = elapsed + Fraction((size - before) * (until - elapsed), after - before)
    assert 0 <= table_time_ps(table, size) - exact < 1


def test_a_table_of_peers() -> None:
    device = measured(more=f", instances: 2, peer: measured [{POINTS}]").topologies["Device"]
    assert device.peer is not None and device.peer.table == TABLE
    assert peer_cost(device, 2**20) == Cost(100 * US, "ps", "table", measured=True)


def test_a_rate_in_a_measured_file_is_measured() -> None:
    machine = measured("transfer Memory::CPU_DRAM -> Memory::HBM : 1 GB/s latency 1 us")
    assert hop_cost(machine, "CPU_DRAM", "HBM", 1000) == Cost(2 * US, "ps", "link_rate", measured=True)


def test_containment_is_measured_if_all_of_it_is(tmp_path: Path) -> None:
    main = 'import "{}.vx"; Memory L2 {{ within: Memory::HBM, bandwidth: 2 B/s }}'
    parts = {"declared": "Memory HBM { bandwidth: 1 B/s }", "probed": f"{MARK} Memory HBM {{ bandwidth: 1 B/s }}"}
    for name, is_measured in (("declared", False), ("probed", True)):
        machine = loaded(tmp_path, main=f"{MARK} {main.format(name)}", **parts)
        cost = hop_cost(machine, "HBM", "L2", 2)
        assert cost == Cost(3 * 10**12, "ps", "containment", measured=is_measured)


def test_the_way_depends_on_the_size() -> None:
    """Straight for small transfers, by way of the host for large ones."""
    machine = measured(
        f"transfer Memory::HBM -> Memory::NIC_RAM : measured [{POINTS}] "
        "transfer Memory::HBM -> Memory::CPU_DRAM : 100 GB/s latency 4 us "
        "transfer Memory::CPU_DRAM -> Memory::NIC_RAM : 100 GB/s latency 4 us"
    )
    straight, around = ("HBM", "NIC_RAM"), ("HBM", "CPU_DRAM", "NIC_RAM")
    assert find_path(machine, "HBM", "NIC_RAM", 4096) == straight
    assert find_path(machine, "HBM", "NIC_RAM", 2**20) == around
    assert find_path(machine, "HBM", "NIC_RAM") == around  # by the slopes alone
    route = find_route(machine, "HBM", "NIC_RAM", 4096)
    assert route is not None and route.total_ps == 1_500_000
    edge = next(edge for edge in machine.edges if edge.table is not None)
    assert per_byte(machine, edge) == Fraction(400 * US * 10**6, 3 * 2**20)


DECLARED = """Memory HBM { capacity: 1 GiB, scope: device }
Memory L2 { within: Memory::HBM }
Topology Device { memory: Memory::HBM, arch: nvptx64
    transfer Memory::CPU_DRAM -> Memory::HBM : 100 GB/s
    transfer Memory::HBM -> Memory::CPU_DRAM : 100 GB/s
    transfer Memory::HBM -> Memory::L2 : 100 GB/s }
"""
PROBED = f"""import "part.vx"; {MARK}
Topology Device {{ memory: Memory::HBM, arch: nvptx64 {UP} transfer Memory::HBM -> Memory::CPU_DRAM }}
"""


def test_a_measured_figure_takes_the_place_of_a_declared_one(tmp_path: Path) -> None:
    """Also where the declared one is quicker; and both stay in the machine, each with its origin."""
    machine = loaded(tmp_path, part=DECLARED, main=PROBED)
    assert hop_cost(machine, "CPU_DRAM", "HBM", 65536) == Cost(9 * US, "ps", "table", measured=True)
    assert hop_cost(machine, "HBM", "L2", 100) == Cost(1000, "ps", "link_rate")
    route = find_route(machine, "CPU_DRAM", "L2", 65536)
    assert route is not None and [hop.cost.measured for hop in route.hops if hop.cost] == [True, False]
    assert [edge.measured for edge in machine.edges if (edge.source, edge.target) == ("CPU_DRAM", "HBM")] == [
        False,
        True,
    ]
    assert find_path(machine, "CPU_DRAM", "HBM") == ("CPU_DRAM", "HBM")


def test_an_edge_without_a_measured_figure_keeps_the_declared_one(tmp_path: Path) -> None:
    machine = loaded(tmp_path, part=DECLARED, main=PROBED)
    assert hop_cost(machine, "HBM", "CPU_DRAM", 100) == Cost(1000, "ps", "link_rate")


def test_what_a_figure_was_measured_on(tmp_path: Path) -> None:
    machine = loaded(tmp_path, part=DECLARED, main=PROBED)
    mark = Measurement("2026-11-29T23:10:02Z", "a card", "580.1", "vx 1", "GPU-1")
    assert machine.measurements == {str(tmp_path / "main.vx"): mark}
    ups = [edge for edge in machine.edges if (edge.source, edge.target) == ("CPU_DRAM", "HBM")]
    assert [machine.measurement(edge) for edge in ups] == [None, mark]
    assert machine.measurement(machine.spaces["HBM"]) is None
    assert machine.measurement(machine.topologies["Device"]) == mark


def test_an_equal_declaration_leaves_a_figure_measured(tmp_path: Path) -> None:
    """Whichever file imports the other."""
    for main, part in ((MARK, ""), ("", MARK)):
        text = "Memory HBM { capacity: 1 GiB } Topology Device { memory: Memory::HBM }"
        machine = loaded(tmp_path, part=f"{part} {text}", main=f'import "part.vx"; {main} {text}')
        for thing in (machine.spaces["HBM"], machine.topologies["Device"]):
            assert machine.measurement(thing) is not None


def test_measured_and_declared_may_not_contradict(tmp_path: Path) -> None:
    (tmp_path / "part.vx").write_text("Memory HBM { capacity: 1 GiB }", encoding="utf-8")
    main = tmp_path / "main.vx"
    main.write_text(f'import "part.vx"; {MARK} Memory HBM {{ capacity: 2 GiB }}', encoding="utf-8")
    reporter = Reporter()
    load_machine(main, "default", reporter, SourceMap(), "x86_64")
    assert [found.code for found in reporter.diagnostics] == ["E6012"]


def test_a_program_may_name_things_measured() -> None:
    """`Measured` starts a declaration only before a brace; it is no keyword."""
    machine = machine_of("struct Measured { measured : i32 } fn f(x : Measured) -> void { let y = x.measured; }")
    assert not machine.measurements


SHOWN = f"""{MARK}
Memory HBM {{}}
Topology Device {{
    memory: Memory::HBM,
    peer: measured [{POINTS}],
    transfer Memory::CPU_DRAM -> Memory::HBM : measured [
        {POINTS},
    ] copy_engine  // spec: two repeats
}}
"""


def test_show(tmp_path: Path) -> None:
    main = tmp_path / "main.vx"
    main.write_text(SHOWN, encoding="utf-8")
    result = CliRunner().invoke(app, ["machine", "show", str(main)])
    assert result.exit_code == 0, result.stderr
    assert "main.vx was measured: 2026-11-29T23:10:02Z, a card, GPU-1, 580.1, vx 1\n" in result.stdout
    ends = "measured 4 KiB 1.5 us … 4 MiB 500 us, 5 sizes"
    assert f"  peer       {ends}\n" in result.stdout
    assert f"  CPU_DRAM -> HBM  136.5 ms    {ends} copy_engine  two repeats\n" in result.stdout
    assert CliRunner().invoke(app, ["machine", "graph", str(main), "-o", str(tmp_path / "m.svg")]).exit_code == 0
    assert f"{ends} copy_engine · 1 GiB: 136.5 ms" in (tmp_path / "m.svg").read_text(encoding="utf-8")

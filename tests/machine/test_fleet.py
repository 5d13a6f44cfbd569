"""The machine files that ship: they load, each figure has its source, the figures are the ones meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from vx import resources
from vx.diagnostics.report import Reporter
from vx.diagnostics.source import SourceMap
from vx.machine.cost import Cost, hop_cost, peer_cost
from vx.machine.describe import spec_of
from vx.machine.load import load_file, load_machine
from vx.machine.machine import Machine, Rate

FLEET = resources.directory("fleet")
FILES = sorted(path.relative_to(FLEET).as_posix() for path in FLEET.rglob("*.vx"))
HOSTS = [name for name in FILES if name.startswith("host-")]
PARTS = [name for name in FILES if name not in HOSTS and "/" not in name]
GIB, MIB, KIB = 2**30, 2**20, 2**10
FIGURES = ("capacity", "granule", "bandwidth", "clock", "replicas", "reserve", "peer")


def load(name: str, host: str | None = "default") -> Machine:
    reporter = Reporter()
    machine = load_machine(FLEET / name, host, reporter, SourceMap(), "x86_64")
    assert not reporter.diagnostics, reporter.diagnostics
    return machine


def gigabytes(figure: float) -> Rate:
    return Rate(int(figure * 10**9), "s")


@pytest.mark.parametrize("name", FILES)
def test_each_figure_has_its_source(name: str) -> None:
    reporter, sources = Reporter(), SourceMap()
    machine = load_file(FLEET / name, reporter, sources)
    assert not reporter.diagnostics, reporter.diagnostics
    declared = [*machine.spaces.values(), *machine.topologies.values()]
    spans = [thing.fields[field] for thing in declared for field in FIGURES if field in thing.fields]
    spans += [edge.span for edge in machine.edges if edge.rate is not None]
    missing = [sources.line_col(span) for span in spans if not spec_of(span, sources)]
    assert spans or name == "cpu.vx"
    assert not missing


@pytest.mark.parametrize("name", PARTS)
def test_a_part_loads_with_every_host(name: str) -> None:
    for host in ("default", *(str(FLEET / host) for host in HOSTS)):
        machine = load(name, host)
        device = machine.topology("Device")
        assert device is not None and machine.space_owner("HBM") == device
        assert machine.route("CPU_DRAM", "HBM") == ("CPU_DRAM", "HBM")
        assert machine.route("HBM", "CPU_DRAM") == ("HBM", "CPU_DRAM")
        assert machine.in_force


@pytest.mark.parametrize("name", HOSTS)
def test_a_host_declares_no_capacity(name: str) -> None:
    memory = load("h200.vx", str(FLEET / name)).spaces["CPU_DRAM"]
    assert memory.bandwidth is not None and memory.capacity is None and memory.layer == "builtin"


@pytest.mark.parametrize(
    ("name", "capacity", "bandwidth", "link", "peer", "instances"),
    [
        ("a100-40", 40 * GIB, 1555, 31.5, None, 1),
        ("a100-80", 80 * GIB, 2039, 31.5, 300, 1),
        ("h100-sxm", 80 * GIB, 3350, 63, 450, 1),
        ("h200", 143_771 * MIB, 4800, 63, 450, 1),
        ("b200", 180 * GIB, 8000, 63, 900, 1),
        ("mi300x", 192 * GIB, 5300, 63, 64, 1),
        ("node-2gpu-a100", 80 * GIB, 2039, 31.5, 300, 2),
        ("node-2gpu-h100", 80 * GIB, 3350, 63, 450, 2),
        ("node-2gpu-h200", 143_771 * MIB, 4800, 63, 450, 2),
        ("node-8gpu", 80 * GIB, 3350, 63, 450, 8),
    ],
)
def test_memory_and_links(
    name: str, capacity: int, bandwidth: float, link: float, peer: float | None, instances: int
) -> None:
    machine = load(f"{name}.vx")
    memory, device = machine.spaces["HBM"], machine.topologies["Device"]
    assert (memory.capacity, memory.bandwidth) == (capacity, gigabytes(bandwidth))
    assert (memory.managed, memory.scope, memory.reserve) == ("explicit", "device", None)
    assert device.instances == instances
    assert (device.peer and device.peer.rate) == (peer and gigabytes(peer))
    links = [edge.rate for edge in machine.edges if {edge.source, edge.target} == {"CPU_DRAM", "HBM"}]
    assert links == [gigabytes(link)] * 2


@pytest.mark.parametrize(
    ("name", "l2", "l2_rate", "smem", "clock_mhz", "replicas"),
    [
        ("a100-40", 40 * MIB, 7000, 163 * KIB, 1410, 108),
        ("a100-80", 40 * MIB, 7000, 163 * KIB, 1410, 108),
        ("h100-sxm", 50 * MIB, 12000, 227 * KIB, 1980, 132),
        ("h200", 50 * MIB, 12000, 227 * KIB, 1980, 132),
        ("b200", 126 * 10**6, None, 227 * KIB, None, 148),
        ("mi300x", 256 * 10**6, 17000, 64 * KIB, 2100, 304),
    ],
)
def test_on_the_die(name: str, l2: int, l2_rate: float | None, smem: int, clock_mhz: int | None, replicas: int) -> None:
    machine = load(f"{name}.vx")
    cache, shared = machine.spaces["L2"], machine.spaces["SMEM"]
    assert (cache.capacity, cache.bandwidth) == (l2, l2_rate and gigabytes(l2_rate))
    assert (shared.capacity, shared.bandwidth, shared.replicas) == (smem, Rate(128, "cyc"), replicas)
    assert shared.clock_hz == (clock_mhz and clock_mhz * 10**6)
    assert (cache.within, shared.within) == ("HBM", "L2")


def test_the_card_and_its_node_agree() -> None:
    for card, node in (("a100-80", "node-2gpu-a100"), ("h100-sxm", "node-8gpu"), ("h200", "node-2gpu-h200")):
        one, many = load(f"{card}.vx"), load(f"{node}.vx")
        assert one.spaces == many.spaces
        assert one.topologies["Device"].dtypes == many.topologies["Device"].dtypes


def test_element_types_of_the_generations() -> None:
    eights = {"f8e4m3", "f8e5m2"}
    found = {name: set(load(f"{name}.vx").topologies["Device"].dtypes or ()) for name in ("a100-40", "h200", "b200")}
    assert not found["a100-40"] & (eights | {"f4e2m1"})
    assert found["h200"] == found["a100-40"] | eights
    assert found["b200"] == found["h200"] | {"f4e2m1"}


def test_the_network_of_the_large_node() -> None:
    machine = load("node-8gpu.vx")
    assert machine.route("HBM", "Remote_HBM") == ("HBM", "NIC_RAM", "Remote_HBM")
    assert hop_cost(machine, "HBM", "NIC_RAM", 63_000) == Cost(10**6, "ps", "link_rate")
    assert hop_cost(machine, "NIC_RAM", "Remote_HBM", 50_000) == Cost(10**6, "ps", "link_rate")


def test_prices_on_the_h200() -> None:
    machine = load("h200.vx")
    moves = [("CPU_DRAM", "HBM"), ("HBM", "L2"), ("L2", "SMEM")]
    costs = [hop_cost(machine, source, target, 65_536) for source, target in moves]
    assert [cost and cost.amount for cost in costs] == [1_040_254, 19_116, 979_483]
    assert peer_cost(load("node-2gpu-h200.vx").topologies["Device"], 450_000) == Cost(10**6, "ps", "link_rate")


def test_what_is_not_published_has_no_price() -> None:
    assert hop_cost(load("b200.vx"), "HBM", "L2", 65_536) is None
    assert hop_cost(load("b200.vx"), "L2", "SMEM", 65_536) is None


@pytest.mark.parametrize(
    ("name", "arch", "capacity", "bandwidth"),
    [
        ("xeon-8480", "x86_64", 512, 307.2),
        ("epyc-9654", "x86_64", 768, 460.8),
        ("graviton3", "aarch64", 256, 307.2),
        ("graviton4", "aarch64", 768, 537.6),
    ],
)
def test_processors(name: str, arch: str, capacity: int, bandwidth: float) -> None:
    machine = load(f"{name}.vx")
    memory = machine.spaces["HBM"]
    assert machine.topologies["Device"].arch == arch
    assert (memory.capacity, memory.bandwidth) == (capacity * GIB, gigabytes(bandwidth))
    assert "SMEM" not in machine.spaces


@pytest.mark.parametrize(
    ("name", "gib"),
    [("a100-40", 40), ("a100-80", 80), ("h100", 80), ("h200", 141), ("b200", 192), ("mi300x", 192)],
)
def test_published_capacities(name: str, gib: int) -> None:
    machine = load(f"published/{name}.vx")
    assert machine.spaces["HBM"].capacity == gib * GIB
    assert machine.route("CPU_DRAM", "HBM") == ("CPU_DRAM", "HBM")


def test_nothing_else_is_published() -> None:
    assert sorted(path.stem for path in (FLEET / "published").glob("*")) == [
        "a100-40", "a100-80", "b200", "h100", "h200", "mi300x",
    ]  # fmt: skip


def test_every_file_is_somewhere_in_the_fleet() -> None:
    assert Path(FLEET / "cpu.vx").is_file() and len(PARTS) == 15 and len(HOSTS) == 4

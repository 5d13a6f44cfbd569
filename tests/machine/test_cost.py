"""The cost of a move, to the picosecond."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine.declared import machine_of

from vx.machine.cost import Cost, containment_cost, containment_walk, hop_cost, peer_cost
from vx.machine.machine import Edge, Machine, Rate, Space

H200 = """
Memory HBM { capacity: 141 GiB, bandwidth: 4.8 TB/s, managed: explicit, scope: device }
Memory L2 { within: Memory::HBM, capacity: 50 MiB, bandwidth: 12 TB/s, scope: device }
Memory SMEM { within: Memory::L2, capacity: 228 KiB, bandwidth: 128 B/cyc, clock: 1.98 GHz, replicas: 132, scope: sm }
Topology Device {
    memory: Memory::HBM,
    peer: 450 GB/s latency 10 us,
    transfer Memory::CPU_DRAM -> Memory::HBM : 63 GB/s
    transfer Memory::HBM -> Memory::L2
    transfer Memory::L2 -> Memory::SMEM
}
"""


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("CPU_DRAM", "HBM", Cost(1_040_254, "ps", "link_rate")),
        ("HBM", "L2", Cost(19_116, "ps", "containment")),
        ("L2", "SMEM", Cost(979_483, "ps", "containment")),
    ],
)
def test_h200(source: str, target: str, expected: Cost) -> None:
    assert hop_cost(machine_of(H200), source, target, 65_536) == expected


@pytest.mark.parametrize(("rate", "expected"), [("68 GB/s", 126_322_567_530), ("38 GB/s", 226_050_910_316)])
def test_link(rate: str, expected: int) -> None:
    machine = machine_of(
        f"Memory A {{}}\nMemory B {{}}\nTopology T {{ memory: Memory::A transfer Memory::A -> Memory::B : {rate} }}"
    )
    assert hop_cost(machine, "A", "B", 8 * 2**30) == Cost(expected, "ps", "link_rate")


def test_latency_adds_once_for_each_hop() -> None:
    text = H200.replace("63 GB/s", "63 GB/s latency 8 us")
    assert hop_cost(machine_of(text), "CPU_DRAM", "HBM", 65_536) == Cost(9_040_254, "ps", "link_rate")
    assert hop_cost(machine_of(text), "CPU_DRAM", "HBM", 0) == Cost(8_000_000, "ps", "link_rate")


def test_peer() -> None:
    device = machine_of(H200).topologies["Device"]
    assert peer_cost(device, 450_000) == Cost(11_000_000, "ps", "link_rate")
    assert peer_cost(machine_of(H200).topologies["CPU"], 1) is None


def spaces(*declared: Space, edges: tuple[Edge, ...] = ()) -> Machine:
    base = machine_of("")
    return Machine({s.name: s for s in declared}, base.topologies, edges, {}, {}, {})


def rate(figure: int, per: str = "s") -> Rate:
    return Rate(figure, per)


def test_the_common_ancestor_counts_only_as_an_endpoint() -> None:
    root, left, right = Space("R"), Space("A", "R"), Space("B", "R")
    leaf = Space("C", "B")
    machine = spaces(root, left, right, leaf, Space("Elsewhere"))
    walk = [space.name for space in containment_walk(machine, "A", "C")]
    assert walk == ["A", "B", "C"]
    assert [space.name for space in containment_walk(machine, "C", "R")] == ["C", "B", "R"]
    assert [space.name for space in containment_walk(machine, "R", "C")] == ["R", "B", "C"]
    assert containment_walk(machine, "A", "Elsewhere") == ()


def test_a_link_rate_wins() -> None:
    parent, child = Space("P", bandwidth=rate(1000)), Space("C", "P", bandwidth=rate(1000))
    machine = spaces(parent, child, edges=(Edge("P", "C", rate=rate(10)),))
    assert hop_cost(machine, "P", "C", 10) == Cost(10**12, "ps", "link_rate")


def test_of_two_equal_edges_the_cheapest_wins() -> None:
    edges = (Edge("A", "B", rate=rate(10)), Edge("A", "B", rate=rate(20)), Edge("A", "B"))
    assert hop_cost(spaces(Space("A"), Space("B"), edges=edges), "A", "B", 20) == Cost(10**12, "ps", "link_rate")


def test_a_leg_without_bandwidth_is_unpriced() -> None:
    machine = spaces(Space("P", bandwidth=rate(10)), Space("M", "P"), Space("C", "M", bandwidth=rate(10)))
    assert containment_cost(machine, "P", "C", 10) is None
    assert hop_cost(machine, "P", "M", 0) is None


def test_cycles_stay_cycles() -> None:
    machine = spaces(Space("P", bandwidth=rate(64, "cyc")), Space("C", "P", bandwidth=rate(128, "cyc")))
    assert containment_cost(machine, "P", "C", 1000) == Cost(16 + 8, "cyc", "containment")
    link = spaces(Space("A"), Space("B"), edges=(Edge("A", "B", rate=rate(3, "cyc")),))
    assert hop_cost(link, "A", "B", 10) == Cost(4, "cyc", "link_rate")


def test_cycles_of_two_clocks_are_not_added() -> None:
    parent = Space("P", bandwidth=rate(64, "cyc"), clock_hz=10**9)
    child = Space("C", "P", bandwidth=rate(64, "cyc"), clock_hz=2 * 10**9)
    assert containment_cost(spaces(parent, child), "P", "C", 640) == Cost(10_000 + 5_000, "ps", "containment")


def test_mixed_legs_need_a_clock() -> None:
    parent, child = Space("P", bandwidth=rate(10**9)), Space("C", "P", bandwidth=rate(64, "cyc"))
    assert containment_cost(spaces(parent, child), "P", "C", 64) is None
    clocked = Space("C", "P", bandwidth=rate(64, "cyc"), clock_hz=10**9)
    assert containment_cost(spaces(parent, clocked), "P", "C", 64) == Cost(64_000 + 1_000, "ps", "containment")


def test_replicas_share_what_is_not_replicated() -> None:
    parent = Space("P", bandwidth=rate(1000))
    twice = Space("C", "P", bandwidth=rate(10), replicas=4)
    assert containment_cost(spaces(parent, twice), "P", "C", 1000) == Cost((4 + 100) * 10**12, "ps", "containment")
    tiny = Space("P", bandwidth=rate(3))
    assert containment_cost(spaces(tiny, twice), "P", "C", 1000) is None


@pytest.mark.parametrize(
    ("crossing", "middle", "expected"),
    [("sequenced", "cta", 60), ("streamed", "cta", 30), ("streamed", "thread", 60)],
)
def test_crossing(crossing: str, middle: str, expected: int) -> None:
    machine = spaces(
        Space("P", bandwidth=rate(60)),
        Space("M", "P", bandwidth=rate(30), scope=middle),
        Space("C", "M", bandwidth=rate(20), crossing=crossing),
    )
    assert containment_cost(machine, "P", "C", 600) == Cost(expected * 10**12, "ps", "containment")


def test_streaming_out_of_a_space_is_not_streaming_into_one() -> None:
    machine = spaces(Space("P", bandwidth=rate(10)), Space("C", "P", bandwidth=rate(10), crossing="streamed"))
    assert containment_cost(machine, "C", "P", 10) == Cost(2 * 10**12, "ps", "containment")


@given(st.integers(1, 2**50), st.integers(1, 10**14))
def test_a_link_takes_the_exact_time_rounded_up(size: int, figure: int) -> None:
    machine = spaces(Space("A"), Space("B"), edges=(Edge("A", "B", rate=rate(figure)),))
    cost = hop_cost(machine, "A", "B", size)
    assert cost is not None and cost.amount == ceil(Fraction(size * 10**12, figure)) > 0

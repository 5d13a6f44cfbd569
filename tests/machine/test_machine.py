"""The built-in machine and the questions asked of a `Machine`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vx.machine.builtin import builtin_machine
from vx.machine.machine import BUILTIN_IDS, Edge, Space, Topology, topology_id

MACHINE = builtin_machine("x86_64")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("PrefillWorker", 1180846465),
        ("DecodeWorker", 702233669),
        ("HBM", 1855308478),
        ("PEER_HBM", 489426827),
        ("TPU", 912088492),
    ],
)
def test_declared_id(name: str, expected: int) -> None:
    assert topology_id(name) == expected
    assert topology_id(name, 3) == expected + 3


def test_builtin_ids() -> None:
    assert topology_id("GPU", 1) == 501
    assert topology_id("CPU") == topology_id("Current") == 0


def test_builtin_ids_do_not_overlap() -> None:
    used: dict[int, str] = {}
    for topology in MACHINE.topologies.values():
        for instance in range(topology.instances):
            number = topology_id(topology.name, instance)
            if topology.name != "Current":
                assert used.setdefault(number, topology.name) == topology.name
    assert set(MACHINE.topologies) | set(MACHINE.topology_aliases) == set(BUILTIN_IDS)


def test_owner_and_sight() -> None:
    owner = MACHINE.space_owner("CPU_DRAM")
    assert owner is not None and owner.name == "CPU"
    assert MACHINE.space_owner("Remote_HBM") is None
    assert MACHINE.sees("GPU", "CPU_DRAM")
    assert not MACHINE.sees("NPU", "CPU_DRAM")
    assert MACHINE.topology("CPU_AVX512") == MACHINE.topology("CpuAvx512")


def test_route_is_the_cheapest() -> None:
    assert MACHINE.route("CPU_DRAM", "NPU_HBM") == ("CPU_DRAM", "NPU_HBM")
    assert MACHINE.route("CPU_DRAM", "Remote_HBM") == ("CPU_DRAM", "NPU_HBM", "NIC_RAM", "Remote_HBM")
    assert MACHINE.route("GPU_HBM", "GPU_HBM") == ("GPU_HBM",)
    assert MACHINE.route("Remote_HBM", "CPU_DRAM") is None
    assert MACHINE.route("nowhere", "CPU_DRAM") is None


def test_route_does_not_depend_on_declaration_order() -> None:
    spaces = {name: Space(name) for name in "abcd"}
    edges = (Edge("a", "b"), Edge("a", "c"), Edge("b", "d"), Edge("c", "d"))
    for order in (edges, edges[::-1]):
        assert replace(MACHINE, spaces=spaces, edges=order).route("a", "d") == ("a", "b", "d")


def test_machine_is_in_force_only_with_a_declared_device_space() -> None:
    assert not MACHINE.in_force
    assert replace(MACHINE, spaces={"HBM": Space("HBM", scope="device", layer="machine")}).in_force
    assert not replace(MACHINE, spaces={"HBM": Space("HBM", scope="device", layer="default")}).in_force


def test_topology_is_data() -> None:
    with pytest.raises(AttributeError):
        Topology("T", "M", ("M",)).name = "U"  # type: ignore[misc]

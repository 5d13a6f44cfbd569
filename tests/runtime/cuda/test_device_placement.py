"""Work and memory are on the device that the program names, or refused."""

from __future__ import annotations

import ctypes
import json
from ctypes import c_float, c_int32

import pytest
from runtime.device_plugin import (
    MIB,
    Pair,
    Plugin,
    Refused,
    World,
    add_params,
    refused,
    two_devices,
)

from vx.runtime.device_abi import Status


def test_driver_that_selects_another_device(plugin: Plugin, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_CUDA_DEVICES", "2")
    monkeypatch.setenv("FAKE_CUDA_LIE", "1")
    found = refused(plugin, two_devices(world))
    assert found.status is Status.DRIVER and "the driver is on device 0" in found.message
    monkeypatch.delenv("FAKE_CUDA_LIE")


def test_memory_that_lands_on_another_device(plugin: Plugin, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_CUDA_DEVICES", "2")
    monkeypatch.setenv("FAKE_CUDA_MISPLACE", "1")
    found = refused(plugin, two_devices(world))
    assert "for Device[1] is on device 0" in found.message


def test_each_arena_is_where_it_should_be(pair: Pair) -> None:
    plugin, _, first, second = pair
    for address, expected in ((first, 0), (second, 1)):
        ordinal = c_int32(-1)
        plugin.owner(address, ctypes.byref(ordinal))
        assert ordinal.value == expected


def test_a_role_that_uses_only_the_second_device(plugin: Plugin, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_CUDA_DEVICES", "2")
    world.devices = [{"name": "Device[1]", "ordinal": 1, "topology": 501}]
    plugin.open(world.manifest())
    ordinal = c_int32(-1)
    plugin.owner(plugin.tile(0, 0, 16), ctypes.byref(ordinal))
    assert ordinal.value == 1
    assert (
        '"device":"Device[1]","ordinal":1,"uuid":"GPU-fafafafa-fafa-fafa-fafa-fafafafafa01"'
        in dict(world.events)["device"]
    )


def test_region_on_the_wrong_device(pair: Pair) -> None:
    plugin, _, _, second = pair
    with pytest.raises(
        Refused, match=r"region add runs on Device\[0\], but .* is memory of Device\[1\]: transfer it first"
    ):
        plugin.run(0, 0, add_params(second, 4), (second, 16, True))
    host = ctypes.create_string_buffer(16)
    with pytest.raises(Refused, match="is memory of the host"):
        plugin.run(0, 0, add_params(ctypes.addressof(host), 4), (ctypes.addressof(host), 16, True))


def test_an_empty_tensor_is_nowhere(pair: Pair) -> None:
    plugin, _, first, _ = pair
    plugin.run(0, 0, add_params(first, 0), (first, 16, True), (first + 3 * MIB, 0, True), (8, 0, False))
    plugin.copy(first + 3 * MIB, first, 0)
    assert plugin.traffic(0).local_calls == 0


def test_both_devices_compute(pair: Pair) -> None:
    """Dispatches, launches and results of each, and not of the other."""
    plugin, world, first, second = pair
    for address in (first, second):
        plugin.copy(address, bytes(16), 16)
    for _ in range(3):
        plugin.run(0, 0, add_params(first, 4), (first, 16, True))
    plugin.run(0, 1, add_params(second, 4), (second, 16, True))
    assert plugin.read(first, 16) == bytes(c_float(3)) * 4
    assert plugin.read(second, 16) == bytes(c_float(1)) * 4
    assert (plugin.traffic(0).graph_launches, plugin.traffic(0).graphs) == (3, 1)
    assert (plugin.traffic(1).graph_launches, plugin.traffic(1).graphs) == (1, 1)
    ordinals = [json.loads("{" + fields + "}")["ordinal"] for event, fields in world.events if event == "dispatch"]
    assert ordinals == [0, 0, 0, 1]


@pytest.mark.parametrize("peer", ["0", "1"])
def test_peer_copy(pair: Pair, monkeypatch: pytest.MonkeyPatch, peer: str) -> None:
    """Between devices, ordered with the regions on both sides; says how it went."""
    monkeypatch.setenv("FAKE_CUDA_PEER", peer)
    plugin, world, first, second = pair
    plugin.copy(first, bytes(16), 16)
    plugin.run(0, 0, add_params(first, 4), (first, 16, True))
    plugin.copy(second, first, 16)
    plugin.run(0, 1, add_params(second, 4), (second, 16, True))
    plugin.run(0, 0, add_params(first, 4), (first, 16, True))
    assert plugin.read(second, 16) == bytes(c_float(2)) * 4
    assert plugin.traffic(0).peer_bytes == 16
    [fields] = [json.loads("{" + fields + "}") for event, fields in world.events if event == "peer"]
    assert fields == {
        "from": "Device[0]",
        "to": "Device[1]",
        "bytes": 16,
        "by": "direct" if peer == "1" else "host staging",
    }


def test_tiles_lie_in_their_arena(pair: Pair) -> None:
    plugin, _, first, _ = pair
    assert plugin.tile(0, 3 * MIB, 0) == first + 3 * MIB
    for arena, offset, size in ((0, 3 * MIB, 1), (0, -1, 4), (0, 8, -1), (2, 0, 1), (-1, 0, 1), (0, 2**62, 2**62)):
        with pytest.raises(Refused):
            plugin.tile(arena, offset, size)


def test_copies_that_leave_the_arena(pair: Pair) -> None:
    plugin, _, first, _ = pair
    data = bytes(64)
    plugin.copy(first + 3 * MIB - 64, data, 64)
    with pytest.raises(Refused, match="past the end"):
        plugin.copy(first + 3 * MIB - 63, data, 64)
    with pytest.raises(Refused, match="into"):
        plugin.copy(first - 1, data, 64)
    with pytest.raises(Refused, match="on a device"):
        plugin.copy(ctypes.addressof(ctypes.create_string_buffer(64)), data, 64)
    with pytest.raises(Refused, match="overlaps itself"):
        plugin.copy(first, first + 8, 16)
    with pytest.raises(Refused):
        plugin.copy(None, first, 16)

"""libvx_host.so, the stand-in: separate poisoned memories, kernels that are host functions, the same interface."""

from __future__ import annotations

import ctypes
import json
import math
from collections.abc import Iterator
from ctypes import c_float, c_int32, c_int64
from pathlib import Path
from typing import Any

import pytest
from runtime.device_plugin import MIB, Plugin, Refused, World, build_plugin, launch, load_plugin, two_devices

from vx.runtime.device_abi import Status


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return load_plugin(build_plugin("host", tmp_path_factory.mktemp("host")))


@pytest.fixture
def plugin(library: ctypes.CDLL) -> Iterator[Plugin]:
    yield Plugin(library)
    library.vx_close()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def add(args: Any, grid: Any) -> None:
    """x[0..n] += v, once for each program of the grid."""
    x = c_int64.from_address(args[0]).value
    n, v = c_int32.from_address(args[1]).value, c_float.from_address(args[2]).value
    for i in range(n):
        c_float.from_address(x + 4 * i).value += v * grid[0]


def test_memory_is_poisoned_and_separate(plugin: Plugin, world: World) -> None:
    """What was never written is NaN in every float type; what one instance writes the other does not see."""
    plugin.open(two_devices(world).manifest())
    first, second = plugin.tile(0, 0, 64), plugin.tile(1, 0, 64)
    for address in (first, second):
        assert plugin.read(address, 64) == b"\xff" * 64
        assert math.isnan(c_float.from_buffer_copy(plugin.read(address, 4)).value)
    plugin.copy(first, bytes(64), 64)
    assert plugin.read(second, 64) == b"\xff" * 64
    plugin.copy(second, first, 64)
    assert plugin.read(second, 64) == bytes(64)
    ordinal = c_int32()
    plugin.owner(second, ctypes.byref(ordinal))
    assert ordinal.value == 1


def test_regions_run_the_host_functions(plugin: Plugin, world: World) -> None:
    two_devices(world).host_kernel("add", add, 3)
    world.region(
        "add",
        lambda at: launch(plugin.library, 0, c_int64.from_address(at or 0), c_int32(4), c_float(2), grid=(3, 1, 1)),
    )
    plugin.open(world.manifest())
    for arena in range(2):
        plugin.copy(plugin.tile(arena, 0, 16), bytes(16), 16)
    tile = plugin.tile(1, 0, 16)
    for _ in range(2):
        plugin.run(0, 1, bytes(c_int64(tile)), (tile, 16, True))
    assert plugin.read(tile, 16) == bytes(c_float(12)) * 4
    assert plugin.read(plugin.tile(0, 0, 16), 16) == bytes(16)
    dispatches = [json.loads("{" + fields + "}") for event, fields in world.events if event == "dispatch"]
    assert [(d["device"], d["by"], d["host"], d["emitted"]) for d in dispatches] == [
        ("Device[1]", "launches", 1, 0)
    ] * 2
    assert plugin.traffic(1).launches == 2 and plugin.traffic(1).graphs == 0


def test_wrong_device_is_refused_here_too(plugin: Plugin, world: World) -> None:
    two_devices(world).host_kernel("add", add, 3)
    world.region("add", lambda at: 0)
    plugin.open(world.manifest())
    tile = plugin.tile(1, 0, 16)
    with pytest.raises(Refused, match=r"runs on Device\[0\], but .* is memory of Device\[1\]"):
        plugin.run(0, 0, b"", (tile, 16, True))


def test_it_never_claims_to_be_a_device(plugin: Plugin, world: World) -> None:
    plugin.open(two_devices(world).manifest())
    opened = json.loads("{" + dict(world.events)["open"] + "}")
    assert (opened["tier"], opened["plugin"], opened["library"]) == ("T1", "host", "stand-in")
    devices = [json.loads("{" + fields + "}") for event, fields in world.events if event == "device"]
    assert [d["uuid"] for d in devices] == ["standin-a", "standin-b"]
    assert all("stand-in" in d["name"] for d in devices)


def test_a_kernel_without_a_host_function(plugin: Plugin, world: World) -> None:
    world.host_kernel("add", add, 3)
    world.kernels[0]["host"] = None
    with pytest.raises(Refused, match="--devices host") as found:
        plugin.open(world.manifest())
    assert found.value.status is Status.KERNEL


def test_tokens_counters_and_memory(plugin: Plugin, world: World) -> None:
    """The same evidence as from a device: count = launches = tokens, and the memory equalities."""
    world.devices[0] |= {"counter_arena": 0, "counters": 1, "counter_offset": 64}
    place: list[int] = []

    def token(args: Any, grid: Any) -> None:
        position = c_int32.from_address(place[0])
        ctypes.c_uint64.from_address(place[1] + 8 * (position.value % 16)).value = position.value << 32 | 11
        position.value += 1
        c_int64.from_address(place[0] + 64).value += 1

    world.host_kernel("token", token, 0)
    world.region("decode", lambda _: launch(plugin.library, 0), counter=0)
    plugin.open(world.manifest())
    place += [plugin.tile(0, 0, 128), plugin.ring(0, 16)]
    plugin.set(place[0], bytes(4), 4)
    found = c_int32()
    for position in range(40):
        plugin.run(0, 0, b"", (place[0], 128, True))
        plugin.token(place[1], position, 0, ctypes.byref(found))
        assert found.value == 11
    with pytest.raises(Refused, match="stored no token for position 40"):
        plugin.token(place[1], 40, 0, ctypes.byref(found))
    plugin.warm()
    count, f = c_int64(), plugin.figures()
    plugin.counter(0, 0, ctypes.byref(count))
    assert count.value == plugin.traffic().launches == 40
    assert f.free_before - f.free_after == f.arena_rounded == 4 * MIB and f.allocations == f.arenas == 1
    assert f.driver_bytes == 0 and f.free_warm == f.free_end


def test_everything_is_given_back(plugin: Plugin, world: World) -> None:
    """Two hundred roles in one process."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    manifest = two_devices(world).manifest(trace=False)
    for i in range(200):
        plugin.open(manifest)
        plugin.pin(4096)
        plugin.ring(0, 64)
        plugin.close()
        if i == 20:
            before = resident()
    assert resident() - before < 4 * MIB


def test_load_and_rows(plugin: Plugin, world: World) -> None:
    plugin.open(world.manifest())
    data = bytes(range(256)) * 64
    plugin.load(plugin.tile(0, 256, len(data)), data, len(data))
    assert plugin.read(plugin.tile(0, 256, len(data)), len(data)) == data
    plugin.copy_rows(plugin.tile(0, 0, 256), 8, plugin.tile(0, 256, 4096), 256, 8, 4)
    assert plugin.read(plugin.tile(0, 0, 32), 32) == bytes(range(8)) * 4
    assert plugin.traffic().loaded_bytes == len(data)


def test_a_region_that_computes_by_itself(plugin: Plugin, world: World) -> None:
    """The stand-in's usual form: the record function is the code of the region; it may give back a scalar."""
    result = c_float(0)

    def record(at: int | None) -> int:
        result.value = c_float.from_address(c_int64.from_address(at or 0).value).value * 2
        return 0

    region = world.region("double", record)
    plugin.open(world.manifest())
    tile = plugin.tile(0, 0, 4)
    plugin.copy(tile, bytes(c_float(21)), 4)
    plugin.run(region, 0, bytes(c_int64(tile)), (tile, 4, False), (ctypes.addressof(result), 8, True))
    plugin.access(ctypes.addressof(result), 8, 0)
    assert result.value == 42
    assert json.loads("{" + dict(world.events)["dispatch"] + "}")["host"] == 1
    large = ctypes.create_string_buffer(64)
    with pytest.raises(Refused, match="memory of the host"):
        plugin.run(region, 0, bytes(c_int64(tile)), (ctypes.addressof(large), 64, False))

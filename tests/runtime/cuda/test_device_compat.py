"""The vx_plugin_ entries, and evidence."""

from __future__ import annotations

import ctypes
import json
import os
from ctypes import c_float, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Any

import pytest
from evidence.runs import sealed
from runtime.device_plugin import (
    MIB,
    Decoder,
    Pair,
    Plugin,
    Refused,
    World,
    step,
    token_at,
)

from vx.evidence.checks import check
from vx.evidence.trace import read_trace


def memref(address: int, sizes: list[int], strides: list[int], offset: int = 0) -> Any:
    return (c_int64 * (3 + 2 * len(sizes)))(address, address, offset, *sizes, *strides)


def dispatch(plugin: Plugin, payload: str, *arguments: tuple[Any, int]) -> int:
    pointers = (c_void_p * max(1, len(arguments)))(*(ctypes.addressof(value) for value, _ in arguments))
    tags = (c_int32 * max(1, len(arguments)))(*(tag for _, tag in arguments))
    return int(plugin.plugin_dispatch_async(payload.encode(), len(payload), pointers, tags, len(arguments)))


F32_RANK1 = 0 | 6 << 8 | 1 << 16


def test_alloc_dispatch_await_read_free(pair: Pair) -> None:
    plugin, world, _, _ = pair
    data = (c_float * 8)(*range(8))
    tile = plugin.plugin_alloc_and_transfer(32, data, 500, 1)
    future = dispatch(
        plugin,
        "add abi=1 topo=500 toponame=Device[0]",
        (memref(tile, [4], [1], 2), F32_RANK1),
        (c_int32(4), 4),
        (c_float(10), 6),
    )
    plugin.plugin_await_future(future)
    plugin.plugin_release_future(future)
    found = json.loads("{" + dict(world.events)["dispatch"] + "}")
    assert (found["region"], found["device"], found["by"], found["emitted"]) == ("add", "Device[0]", "launches", 1)
    back = (c_float * 8)()
    plugin.plugin_transfer_device_to_host(tile, back, 32, 500)
    assert list(back) == [0, 1, 12, 13, 14, 15, 6, 7]
    plugin.plugin_free(tile, 500)
    for call in (plugin.plugin_await_future, plugin.plugin_release_future):
        with pytest.raises(Refused, match="released already"):
            call(future)
    with pytest.raises(Refused, match="freed already"):
        plugin.plugin_free(tile, 500)


def test_a_released_future_stays_refused(pair: Pair) -> None:
    """Also when its place has been given to another one."""
    plugin, _, _, _ = pair
    tile = plugin.plugin_alloc_and_transfer(64, None, 500, 1)
    arguments = (memref(tile, [4], [1]), F32_RANK1), (c_int32(4), 4), (c_float(1), 6)
    old = dispatch(plugin, "add abi=1 topo=500", *arguments)
    plugin.plugin_release_future(old)
    new = dispatch(plugin, "add abi=1 topo=500", *arguments)
    assert old & 0xFFFFFFFF == new & 0xFFFFFFFF
    with pytest.raises(Refused, match="released already"):
        plugin.plugin_await_future(old)
    plugin.plugin_await_future(new)


def test_awaiting_always_waits(pair: Pair, fake: ctypes.CDLL) -> None:
    """Also for work that was issued again since."""
    plugin, _, first, _ = pair
    tile = plugin.plugin_alloc_and_transfer(64, None, 500, 1)
    pinned = plugin.pin(64)
    futures = []
    for _ in range(2):
        arguments = (memref(tile, [4], [1]), F32_RANK1), (c_int32(4), 4), (c_float(1), 6)
        futures.append(dispatch(plugin, "add abi=1 topo=500", *arguments))
        plugin.copy(pinned, first, 16)
    for future in futures:
        fake.fake_reset()
        plugin.plugin_await_future(future)
        assert fake.fake_calls(b"cuEventSynchronize") == 1


def test_windows_are_what_the_plan_admits(pair: Pair) -> None:
    """4096 bytes on Device[1]: blocks are of 256, freed ones are used again, more is refused."""
    plugin, _, _, second = pair
    blocks = [plugin.plugin_alloc_and_transfer(1, None, 501, 0) for _ in range(16)]
    assert blocks == [second - 8192 + 256 * i for i in range(16)]
    with pytest.raises(Refused, match="that the Plan admits"):
        plugin.plugin_alloc_and_transfer(1, None, 501, 0)
    plugin.plugin_free(blocks[3], 501)
    plugin.plugin_free(blocks[4], 501)
    with pytest.raises(Refused):
        plugin.plugin_alloc_and_transfer(513, None, 501, 0)
    assert plugin.plugin_alloc_and_transfer(512, None, 501, 0) == blocks[3]


def test_frees_and_reads_name_their_owner(pair: Pair) -> None:
    plugin, _, first, _ = pair
    tile = plugin.plugin_alloc_and_transfer(64, None, 500, 0)
    host = ctypes.create_string_buffer(64)
    with pytest.raises(Refused, match=r"is not memory of Device\[1\] but of Device\[0\]"):
        plugin.plugin_free(tile, 501)
    with pytest.raises(Refused, match=r"is not memory of Device\[1\] but of Device\[0\]"):
        plugin.plugin_transfer_device_to_host(tile, host, 64, 501)
    for address in (tile + 8, first, ctypes.addressof(host)):
        with pytest.raises(Refused):
            plugin.plugin_free(address, 500)
    with pytest.raises(Refused, match="no device of this program"):
        plugin.plugin_alloc_and_transfer(64, None, 1668, 0)
    with pytest.raises(Refused, match="not readable by the host"):
        plugin.plugin_alloc_and_transfer(64, None, 500, 2)
    for size in (0, 2**40, 2**64 - 1):
        with pytest.raises(Refused):
            plugin.plugin_alloc_and_transfer(size, None, 500, 0)


def test_transfer_peer(pair: Pair) -> None:
    plugin, _, _, _ = pair
    data = os.urandom(64)
    tile = plugin.plugin_alloc_and_transfer(64, data, 500, 1)
    there = plugin.plugin_transfer_peer(tile, 500, 501, 64)
    ordinal = c_int32()
    plugin.owner(there, ctypes.byref(ordinal))
    assert ordinal.value == 1
    back = ctypes.create_string_buffer(64)
    plugin.plugin_transfer_device_to_host(there, back, 64, 501)
    assert back.raw == data
    for source, target, size in ((501, 500, 64), (500, 501, 65), (500, 777, 64)):
        with pytest.raises(Refused):
            plugin.plugin_transfer_peer(tile, source, target, size)


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ("", "name of a kernel"),
        ("abi=1 topo=500", "name of a kernel"),
        ("add topo=500", "no abi"),
        ("add abi=1", "no topo"),
        ("add abi=2 topo=500", "abi is not 1"),
        ("add abi=1 topo=500 topo=501", "twice"),
        ("add abi=1 topo=500,", "no number"),
        ("add abi=1 topo=4294967296", "no number"),
        ("add abi=1 topo=500 colour=red", "is not one of"),
        ("add abi=1 topo=500 kind=matmul", "kind is not"),
        ("add abi=1 topo=500 rubbish", "no `=`"),
        ("add abi=1 topo=500 toponame=", "empty"),
        ("add abi=1 topo=500 toponame=Device[1]", "is Device"),
        ("sub abi=1 topo=500", "no kernel `sub`"),
        ("add abi=1 topo=502", "no device"),
        ("add " + "abi=1 " * 20, "too many"),
    ],
)  # fmt: skip
def test_payloads_are_never_guessed(pair: Pair, payload: str, words: str) -> None:
    plugin, _, _, _ = pair
    tile = plugin.plugin_alloc_and_transfer(64, None, 500, 0)
    with pytest.raises(Refused, match=words):
        dispatch(plugin, payload, (memref(tile, [4], [1]), F32_RANK1), (c_int32(4), 4), (c_float(10), 6))


def test_arguments_are_checked_against_memory(pair: Pair) -> None:
    plugin, _, first, _ = pair
    tile = plugin.plugin_alloc_and_transfer(64, None, 500, 0)
    elsewhere = plugin.plugin_alloc_and_transfer(64, None, 501, 0)
    good = (c_int32(4), 4), (c_float(10), 6)
    end = first + 3 * MIB
    for descriptor, tag in (
        (memref(elsewhere, [4], [1]), F32_RANK1),
        (memref(end - 8, [4], [1]), F32_RANK1),
        (memref(tile, [2**40], [2**40]), F32_RANK1),
        (memref(tile, [4], [-1]), F32_RANK1),
        (memref(tile, [4], [1], -4), F32_RANK1),
        (memref(tile, [4], [1]), 0 | 0 << 8 | 1 << 16),
        (memref(tile, [4], [1]), 0 | 30 << 8 | 1 << 16),
        (memref(tile, [4] * 9, [1] * 9), 0 | 6 << 8 | 9 << 16),
        (memref(tile, [4], [1]), F32_RANK1 | 1 << 24),
        (memref(tile, [4], [1]), 9),
    ):
        with pytest.raises(Refused):
            dispatch(plugin, "add abi=1 topo=500", (descriptor, tag), *good)
    with pytest.raises(Refused, match="takes 3 arguments, not 2"):
        dispatch(plugin, "add abi=1 topo=500", *good)


def test_control(plugin: Plugin, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_CUDA_DEVICES", "3")
    count = c_int32()
    plugin.plugin_control(3, ctypes.byref(count))
    assert count.value == 3
    plugin.plugin_control(1, world.manifest())
    plugin.plugin_control(2, None)
    for opcode in (0, 4):
        with pytest.raises(Refused, match="opcode"):
            plugin.plugin_control(opcode, None)


def test_evidence_of_a_fake_is_never_of_a_device(plugin: Plugin, world: World) -> None:
    plugin.open(world.manifest())
    opened = json.loads("{" + dict(world.events)["open"] + "}")
    assert opened["tier"] == "T1" and opened["library"].endswith("libcuda.so.1")


def test_errors_are_in_the_evidence(pair: Pair) -> None:
    plugin, world, _, _ = pair
    with pytest.raises(Refused):
        plugin.tile(0, -1, 4)
    assert world.events[-1][0] == "error" and '"status":1' in world.events[-1][1]


def test_every_event_is_json(decoder: Decoder) -> None:
    plugin, world, _ = decoder
    step(plugin)
    plugin.close()
    for _, fields in world.events:
        json.loads("{" + fields + "}")
    assert {"open", "device", "arena", "dispatch", "counter", "traffic", "memory", "close"} <= {
        event for event, _ in world.events
    }


def test_evidence_holds_before_every_check(decoder: Decoder, tmp_path: Path) -> None:
    """What the plugin writes is what the report reads, and on a run that went well nothing fails."""
    plugin, world, ring = decoder
    plugin.load(plugin.tile(0, 4096, 4096), bytes(4096), 4096)
    plugin.phase(b"decode", 1)
    for position in range(5):
        step(plugin)
        token_at(plugin, ring, position)
    step(plugin)
    plugin.phase(b"decode", 0)
    plugin.ring_clear(ring, ctypes.byref(c_int64()))
    plugin.warm()
    plugin.close()
    lines = [{"event": event} | json.loads("{" + fields + "}") for event, fields in world.events]
    run = {"event": "run", "schema": "vx-evidence", "version": 1, "abi": 1, "unix_ns": 1}
    (tmp_path / "trace").write_bytes(sealed([run, *lines]))
    trace = read_trace(tmp_path / "trace")
    results = {result.name: result for result in check(trace)}
    assert [result for result in results.values() if result.ok is False] == []
    for name in ("decode steps", "device counters", "graph launches", "tokens", "weights once", "memory is flat"):
        assert results[name].ok, results[name]
    opened = next(trace.of("open"))
    assert len(opened.text("library_sha256")) == 64 and opened.number("driver") == 13000

"""Work waits for exactly the work in flight that it overlaps; copies, fills and weights."""

from __future__ import annotations

import ctypes
import json
import os
from ctypes import c_float, c_int64, c_void_p

import pytest
from runtime.device_plugin import (
    MIB,
    Pair,
    Plugin,
    Refused,
    World,
    add_params,
    launch,
)

from vx.runtime import device_abi


def test_work_waits_for_overlapping_work_and_for_no_other(pair: Pair, fake: ctypes.CDLL) -> None:
    """The fake does work as late as it may: a wait too few is a wrong number, a wait too many a counted call."""
    plugin, _, first, _ = pair
    pinned = plugin.pin(64)
    ctypes.memset(pinned, 0, 64)
    fake.fake_reset()
    plugin.copy(first, pinned, 16)  # in
    plugin.copy(first + 256, pinned, 16)  # in: the same queue
    assert fake.fake_calls(b"cuStreamWaitEvent") == 0
    plugin.run(0, 0, add_params(first, 4), (first, 16, True))  # waits for the first copy
    assert fake.fake_calls(b"cuStreamWaitEvent") == 1
    plugin.run(0, 0, add_params(first + 512, 4), (first + 512, 16, True))  # waits for nothing
    assert fake.fake_calls(b"cuStreamWaitEvent") == 1
    plugin.copy(pinned + 32, first, 16)  # out: waits for the region, and for the copy in that it waited for
    assert fake.fake_calls(b"cuStreamWaitEvent") == 3
    plugin.copy(first, pinned + 16, 16)  # in: waits for the copy out, which reads it
    assert fake.fake_calls(b"cuStreamWaitEvent") == 5
    plugin.access(pinned + 32, 16, 0)
    assert ctypes.string_at(pinned + 32, 16) == bytes(c_float(1)) * 4
    assert fake.fake_calls(b"cuCtxSynchronize") == 0


def test_readers_do_not_wait_for_readers(pair: Pair, fake: ctypes.CDLL) -> None:
    plugin, _, first, _ = pair
    plugin.copy(first, bytes(64), 64)
    plugin.sync()
    fake.fake_reset()
    pinned = plugin.pin(64)
    plugin.copy(pinned, first, 16)
    plugin.run(0, 0, add_params(first + 16, 4), (first, 16, False), (first + 16, 16, True))
    assert fake.fake_calls(b"cuStreamWaitEvent") == 0
    plugin.copy(first, bytes(16), 16)
    assert fake.fake_calls(b"cuStreamWaitEvent") == 2, "a writer waits for both readers"


def test_no_queue_waits_twice(pair: Pair, fake: ctypes.CDLL) -> None:
    """For the latest of another queue only, and once for each of them."""
    plugin, _, first, _ = pair
    pinned = plugin.pin(64)
    ctypes.memset(pinned, 0, 64)
    for _ in range(3):
        plugin.copy(first, pinned, 16)
        plugin.copy(first + 16, pinned, 32)
    fake.fake_reset()
    plugin.run(0, 0, add_params(first, 4), (first, 64, True))
    assert fake.fake_calls(b"cuStreamWaitEvent") == 1
    plugin.run(0, 0, add_params(first, 8), (first, 32, True))
    assert fake.fake_calls(b"cuStreamWaitEvent") == 1


def test_the_host_never_waits_for_what_it_has_just_issued(plugin: Plugin, world: World) -> None:
    """A region that is repeated for ever, between copies that differ; it counts in memory that the host sees."""
    world.fake_file(("count", "count"))
    pinned: list[int] = []
    world.region("count", lambda _: launch(plugin.library, 0, c_void_p(pinned[0])))
    plugin.open(world.manifest(trace=False))
    pinned.append(plugin.pin(16384))
    ctypes.memset(pinned[0], 0, 16384)
    tile, counter = plugin.tile(0, 0, 4096), c_int64.from_address(pinned[0])
    for i in range(2000):
        plugin.run(0, 0, b"", (tile, 16, True))
        for k in range(4):
            plugin.copy(pinned[0] + 64 + 16 * ((4 * i + k) % 1000), tile + 64, 4)
        assert counter.value <= i, "everything was waited for"
    plugin.access(pinned[0] + 64, 16000, 0)
    plugin.copy(tile, pinned[0] + 8, 4)
    plugin.sync()
    assert counter.value == 2000


def test_set_waits_for_who_reads(pair: Pair) -> None:
    plugin, _, first, _ = pair
    pinned = plugin.pin(64)
    plugin.set(first, b"\1" * 16, 16)
    plugin.copy(pinned, first, 16)
    plugin.set(first, b"\2" * 8, 8)
    plugin.copy(first + 4, pinned + 32, 8)
    plugin.access(pinned + 32, 8, 1)  # makes the fake do the second set before anything that it does not wait for
    plugin.sync()
    assert ctypes.string_at(pinned, 16) == b"\1" * 16
    assert plugin.read(first, 4) == b"\2" * 4


def test_host_waits_exactly_for_what_it_touches(pair: Pair, fake: ctypes.CDLL) -> None:
    plugin, _, first, _ = pair
    pinned = plugin.pin(64)
    ctypes.memset(pinned, 7, 64)
    plugin.copy(first, pinned, 16)
    fake.fake_reset()
    plugin.access(pinned, 16, 0)  # reading what a copy reads
    plugin.access(pinned + 16, 16, 1)  # something else
    assert fake.fake_calls(b"cuEventSynchronize") == 0
    plugin.access(pinned, 16, 1)
    assert fake.fake_calls(b"cuEventSynchronize") == 1
    ctypes.memset(pinned, 9, 16)
    assert plugin.read(first, 16) == b"\x07" * 16


def test_a_thousand_random_orders(pair: Pair) -> None:
    """Any program of copies and regions gives what it gives when run one step after the other."""
    import random

    plugin, _, first, second = pair
    choose = random.Random(4)
    pinned = plugin.pin(1024)
    places = [first, first + 64, second, second + 64, pinned, pinned + 64]
    expected = {place: float(i) for i, place in enumerate(places)}
    for place in places:
        if place >= pinned and place < pinned + 1024:
            continue
        plugin.copy(place, (c_float * 4)(*[expected[place]] * 4), 16)
    for place in places[4:]:
        ctypes.memmove(place, (c_float * 4)(*[expected[place]] * 4), 16)
    for _ in range(1000):
        if choose.random() < 0.4:
            place = choose.choice(places[:4])
            device = int(place in (second, second + 64))
            plugin.run(0, device, add_params(place, 4), (place, 16, True))
            expected[place] += 1
        else:
            source, target = choose.sample(places, 2)
            if source in places[4:] and target in places[4:]:
                continue
            plugin.copy(target, source, 16)
            expected[target] = expected[source]
    for place in places[:4]:
        assert plugin.read(place, 16) == bytes(c_float(expected[place])) * 4
    for place in places[4:]:
        plugin.access(place, 16, 0)
        assert ctypes.string_at(place, 16) == bytes(c_float(expected[place])) * 4


def test_rows(pair: Pair) -> None:
    plugin, _, first, second = pair
    data = bytes(range(64))
    plugin.copy_rows(first, 32, data, 16, 8, 4)
    plugin.copy_rows(first + 1024, 8, first, 32, 8, 4)
    assert plugin.read(first + 1024, 32) == b"".join(data[i * 16 : i * 16 + 8] for i in range(4))
    back = ctypes.create_string_buffer(64)
    plugin.copy_rows(back, 16, first, 32, 8, 4)
    assert back.raw[16:24] == data[16:24]
    for bad in (
        (first, 4, data, 16, 8, 4),
        (first, 32, data, 16, 8, -1),
        (first, 2**61, data, 16, 8, 4),
        (first, 32, second, 32, 8, 2),
    ):
        with pytest.raises(Refused):
            plugin.copy_rows(*bad)


@pytest.mark.parametrize("value", [b"\0", b"\1\2", b"\1\2\3\4", bytes(range(8)), b"\7\7\7\7"])
def test_fill(pair: Pair, value: bytes) -> None:
    """Of any element size, more than a first piece of it; ordered like a copy, and the value is read at once."""
    plugin, _, first, _ = pair
    count = 100_000 // len(value)
    plugin.run(0, 0, add_params(first, 4), (first, 16, True))
    held = ctypes.create_string_buffer(value, len(value))
    plugin.fill(first, held, len(value), count)
    ctypes.memset(held, 0xAA, len(value))
    assert plugin.read(first, len(value) * count + 1) == value * count + b"\xff"
    for bad in ((first, held, 3, 1), (first, held, 4, -1), (held, held, 1, 1), (first + 3 * MIB - 4, held, 8, 1)):
        with pytest.raises(Refused):
            plugin.fill(*bad)


def test_weights_cross_once_and_are_counted(plugin: Plugin, world: World) -> None:
    """Through a staging of two pages, several times round."""
    world.top["staging"] = 8192
    plugin.open(world.manifest())
    data = os.urandom(100_003)
    for offset in (0, 200_000):
        source = ctypes.create_string_buffer(data, len(data))
        plugin.load(plugin.tile(0, offset, len(data)), source, len(data))
        ctypes.memset(source, 0, len(data))  # it was read already
    for offset in (0, 200_000):
        assert plugin.read(plugin.tile(0, offset, len(data)), len(data)) == data
    assert plugin.traffic().loaded_bytes == plugin.traffic().to_device_bytes == 2 * len(data)
    stages = [json.loads("{" + fields + "}") for event, fields in world.events if event == "stage"]
    assert [(s["offset"], s["bytes"]) for s in stages] == [(0, len(data)), (200_000, len(data))]


def test_weights_need_staging_and_host_memory(plugin: Plugin, world: World) -> None:
    world.top["staging"] = 0
    plugin.open(world.manifest())
    with pytest.raises(Refused, match="no staging"):
        plugin.load(plugin.tile(0, 0, 16), bytes(16), 16)
    with pytest.raises(Refused, match="reads host memory"):
        plugin.load(plugin.tile(0, 0, 16), plugin.tile(0, 64, 16), 16)


def test_set(pair: Pair) -> None:
    """More writes than there are slots, each in order with the regions; the value is read at once."""
    plugin, _, first, _ = pair
    for i in range(200):
        plugin.set(first + 1024 + 4 * i, bytes(c_float(i)), 4)
    assert plugin.read(first + 1024, 800) == b"".join(bytes(c_float(i)) for i in range(200))
    for i in range(200):
        value = (c_float * 4)(*[float(i)] * 4)
        plugin.set(first, value, 16)
        ctypes.memset(value, 0xFF, 16)
    plugin.run(0, 0, add_params(first, 4), (first, 16, True))
    assert plugin.read(first, 16) == bytes(c_float(200)) * 4
    for bad in (0, 3, 6, device_abi.SET_BYTES + 4):
        with pytest.raises(Refused):
            plugin.set(first, bytes(512), bad)
    with pytest.raises(Refused, match="on no device"):
        plugin.set(ctypes.create_string_buffer(16), bytes(16), 16)

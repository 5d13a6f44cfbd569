"""Tokens, counters, memory: what a decode loop relies on."""

from __future__ import annotations

import ctypes
import json
import os
import resource
from ctypes import c_float, c_int32, c_int64

import pytest
from runtime.device_plugin import (
    MIB,
    Decoder,
    Refused,
    step,
    token_at,
)


def test_steps_on_the_device_are_launches_are_tokens(decoder: Decoder) -> None:
    plugin, world, ring = decoder
    for position in range(100):
        step(plugin)
        if position >= 10:  # ten steps ahead
            assert token_at(plugin, ring, position - 10) == 7 * (position - 10) % 97
    count = c_int64()
    plugin.counter(0, 0, ctypes.byref(count))
    assert count.value == plugin.traffic().graph_launches == 100
    assert plugin.traffic().graphs == plugin.traffic().launches == 1
    dropped = c_int64()
    plugin.ring_clear(ring, ctypes.byref(dropped))
    assert dropped.value == 10
    plugin.close()
    events = [event for event, _ in world.events]
    assert events.count("token") == 90 and events.count("dispatch") == 100
    assert json.loads("{" + dict(world.events)["counter"] + "}")["count"] == 100
    assert events[-1] == "close"


def test_a_token_that_never_comes(decoder: Decoder) -> None:
    plugin, _, ring = decoder
    step(plugin)
    with pytest.raises(Refused, match="stored no token for position 3"):
        token_at(plugin, ring, 3)
    for _ in range(17):
        step(plugin)
    plugin.sync()
    with pytest.raises(Refused, match="overwritten by that at 16"):
        token_at(plugin, ring, 0)
    assert token_at(plugin, ring, 16) == 7 * 16 % 97
    with pytest.raises(Refused):  # taken already
        token_at(plugin, ring, 16)
    for _ in range(40):
        step(plugin)
    with pytest.raises(Refused, match="in time"):
        token_at(plugin, ring, 50, deadline=0)


def test_logits_that_are_not_finite(decoder: Decoder) -> None:
    plugin, _, ring = decoder
    plugin.set(plugin.tile(0, 0, 8), bytes(c_int32(5)) + bytes(c_int32(-1)), 8)
    step(plugin)
    with pytest.raises(Refused, match=r"NOT_FINITE: the logits at position 5 on Device\[0\]"):
        token_at(plugin, ring, 5)


def test_failure_of_the_device_reaches_who_waits_for_a_token(
    decoder: Decoder, monkeypatch: pytest.MonkeyPatch, fake: ctypes.CDLL
) -> None:
    plugin, world, _ = decoder
    plugin.close()
    monkeypatch.setenv("FAKE_CUDA_FAIL", "cuStreamQuery:1")
    plugin.open(world.manifest())
    ring = plugin.ring(0, 16)
    with pytest.raises(Refused, match=r"the work of a device: .*injected"):
        token_at(plugin, ring, 0)


def test_rings_are_checked(decoder: Decoder) -> None:
    plugin, _, ring = decoder
    for slots in (0, 8, 17, 2**21):
        with pytest.raises(Refused, match="power of two"):
            plugin.ring(0, slots)
    with pytest.raises(Refused, match="no token ring"):
        token_at(plugin, ring + 8, 0)
    with pytest.raises(Refused):
        token_at(plugin, ring, -1)
    for _ in range(15):
        plugin.ring(0, 16)
    with pytest.raises(Refused, match="more than 16"):
        plugin.ring(0, 16)


def test_memory_equalities(decoder: Decoder) -> None:
    plugin, world, _ = decoder
    step(plugin)
    assert plugin.figures().free_warm == -1
    plugin.warm()
    for _ in range(20):
        step(plugin)
    f = plugin.figures()
    assert f.free_before - f.free_after == f.arena_rounded == 4 * MIB and f.arena_bytes == 3 * MIB
    assert f.allocations == f.arenas == 1
    assert f.free_warm == f.free_end
    assert f.driver_bytes == 3 * MIB and f.total == 64 * MIB
    plugin.close()
    memory = json.loads("{" + dict(world.events)["memory"] + "}")
    assert memory["driver_bytes"] == 3 * MIB and memory["free_warm"] == memory["free_end"]


def test_counters_and_stamps_are_checked(decoder: Decoder) -> None:
    plugin, _, _ = decoder
    for index in (-1, 1):
        with pytest.raises(Refused, match="counter"):
            plugin.counter(0, index, ctypes.byref(c_int64()))
    seconds = c_float()
    plugin.stamp(0)
    with pytest.raises(Refused, match="two vx_stamp"):
        plugin.seconds(0, ctypes.byref(seconds))
    step(plugin)
    plugin.stamp(0)
    plugin.seconds(0, ctypes.byref(seconds))
    assert seconds.value > 0


def test_pinned_memory_is_given_back_once(decoder: Decoder) -> None:
    plugin, _, _ = decoder
    pinned = plugin.pin(64)
    plugin.copy(pinned, plugin.tile(0, 0, 64), 64)
    plugin.unpin(pinned)  # waits for the copy: the fake would count a violation
    with pytest.raises(Refused, match="given back already"):
        plugin.unpin(pinned)
    with pytest.raises(Refused):
        plugin.pin(0)


def test_ten_thousand_steps_are_flat(decoder: Decoder, fake: ctypes.CDLL) -> None:
    """Memory, descriptors and everything the driver owns; one call of the driver launches a step."""
    plugin, world, _ = decoder
    plugin.library.vx_close()
    plugin.open(world.manifest(trace=False))
    ring_again = plugin.ring(0, 16)
    assert ring_again
    base = plugin.tile(0, 0, 2048)
    pinned = plugin.pin(64)

    def run(steps: int) -> None:
        for i in range(steps):
            step(plugin)
            if i % 8 == 0:
                plugin.copy(pinned, base, 8)
                plugin.access(pinned, 8, 0)
        plugin.sync()

    def state() -> list[int]:
        kinds = (b"event", b"exec", b"memory", b"pinned", b"stream")
        return [len(os.listdir("/proc/self/fd")), *(fake.fake_alive(kind) for kind in kinds)]

    run(1000)
    before, peak = state(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run(10_000)
    assert state() == before
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 2048, "KiB"


def test_a_step_is_one_call_of_the_driver(decoder: Decoder, fake: ctypes.CDLL) -> None:
    plugin, world, _ = decoder
    plugin.close()
    plugin.open(world.manifest(trace=False))
    plugin.ring(0, 16)
    for _ in range(3):
        step(plugin)
    fake.fake_reset()
    for _ in range(10):
        step(plugin)
    assert fake.fake_calls(b"cuGraphLaunch") == 10
    for name in (
        b"cuLaunchKernelEx",
        b"cuEventRecord",
        b"cuStreamWaitEvent",
        b"cuCtxSynchronize",
        b"cuEventSynchronize",
        b"cuMemcpyHtoDAsync_v2",
    ):
        assert fake.fake_calls(name) == 0, name

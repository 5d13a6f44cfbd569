"""Regions: recorded once, replayed, left in order when a recording fails; checks in kernels."""

from __future__ import annotations

import ctypes
import json
from ctypes import c_float, c_int32, c_void_p

import pytest
from runtime.device_plugin import (
    MIB,
    Pair,
    Plugin,
    Refused,
    World,
    add_params,
    launch,
    refused,
    token_at,
)

from vx.runtime.device_abi import Status


def test_graphs_are_recorded_once_for_each_content(pair: Pair, fake: ctypes.CDLL) -> None:
    plugin, world, first, _ = pair
    plugin.copy(first, bytes(4096), 4096)
    for n in (4, 4, 8, 4, 8):
        plugin.run(0, 0, add_params(first, n), (first, 4 * n, True))
    assert plugin.traffic().graphs == 2 and plugin.traffic().graph_launches == 5 and plugin.traffic().launches == 2
    assert plugin.read(first, 32) == bytes(c_float(5)) * 4 + bytes(c_float(2)) * 4
    recorded = [json.loads("{" + fields + "}")["recorded"] for event, fields in world.events if event == "dispatch"]
    assert recorded == [1, 0, 1, 0, 0]


def test_more_graphs_than_are_kept(pair: Pair, fake: ctypes.CDLL) -> None:
    plugin, _, first, _ = pair
    plugin.copy(first, bytes(4096), 4096)
    for i in range(200):
        plugin.run(0, 0, add_params(first + 4 * (i % 100), 1), (first, 4096, True))
    assert fake.fake_alive(b"exec") == 64
    assert plugin.read(first, 400) == bytes(c_float(2)) * 100


def test_the_graph_that_was_used_last_is_kept(pair: Pair) -> None:
    """One that every other step needs is recorded once, however many come between."""
    plugin, _, first, _ = pair
    plugin.copy(first, bytes(4096), 4096)
    for i in range(1, 200):
        plugin.run(0, 0, add_params(first, 1), (first, 4096, True))
        plugin.run(0, 0, add_params(first + 4 * i, 1), (first, 4096, True))
    assert plugin.traffic().graphs == 200
    assert plugin.read(first, 8) == bytes(c_float(199)) + bytes(c_float(1))


def test_a_file_is_loaded_once(pair: Pair, fake: ctypes.CDLL) -> None:
    assert fake.fake_alive(b"module") == 2, "two devices, one file for both kernels"


def test_a_region_that_is_no_graph(plugin: Plugin, world: World) -> None:
    world.fake_file(("add", "add"))
    calls: list[int] = []

    def record(params: int | None) -> int:
        calls.append(1)
        return launch(plugin.library, 0, c_void_p(plugin.tile(0, 0, 16)), c_int32(4), c_float(2))

    world.region("plain", record, graph=False)
    plugin.open(world.manifest())
    tile = plugin.tile(0, 0, 16)
    plugin.copy(tile, bytes(16), 16)
    for _ in range(3):
        plugin.run(0, 0, b"", (tile, 16, True))
    assert len(calls) == 3 and plugin.traffic().graphs == 0 and plugin.traffic().launches == 3
    assert plugin.read(tile, 16) == bytes(c_float(6)) * 4


@pytest.mark.parametrize("what", ["cuLaunchKernelEx:2", "cuStreamEndCapture:1", "cuGraphInstantiateWithFlags:1", "cuGraphUpload:1",
                                  "cuStreamBeginCapture_v2:1", "cuGraphLaunch:1"])  # fmt: skip
def test_failure_while_recording(plugin: Plugin, world: World, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """The recording is ended and thrown away, the first message stays, and the region can be run again."""
    world.fake_file(("add", "add"))
    monkeypatch.setenv("FAKE_CUDA_FAIL", what)

    def record(params: int | None) -> int:
        for _ in range(3):
            launch(plugin.library, 0, c_void_p(plugin.tile(0, 0, 16)), c_int32(4), c_float(1))
        return 0  # careless: the plugin remembers by itself

    world.region("three", record)
    plugin.open(world.manifest())
    tile = plugin.tile(0, 0, 16)
    plugin.copy(tile, bytes(16), 16)
    with pytest.raises(Refused, match=r"^DRIVER: region three: .*injected by the test"):
        plugin.run(0, 0, b"", (tile, 16, True))
    assert plugin.traffic().graph_launches == 0
    plugin.run(0, 0, b"", (tile, 16, True))
    result = plugin.read(tile, 16)
    assert result == bytes(c_float(3)) * 4


def test_recordings_that_misbehave(plugin: Plugin, world: World) -> None:
    world.fake_file(("add", "add"))
    library = plugin.library
    inner = world.region("inner", lambda params: int(library.vx_run(0, 0, None, 0, None, 0)))
    gives_up = world.region("gives up", lambda params: 7)
    no_kernel = world.region("no kernel", lambda params: launch(library, 5))
    bad_grid = world.region(
        "bad grid", lambda params: launch(library, 0, c_void_p(0), c_int32(1), c_float(1), grid=(0, 1, 1))
    )
    no_args = world.region("no args", lambda params: int(library.vx_launch(0, 1, 1, 1, None)))
    plugin.open(world.manifest())
    for region, words in (
        (inner, "inside another"),
        (gives_up, "gave up"),
        (no_kernel, "kernel 5 of 1"),
        (bad_grid, "a grid of 0 x 1 x 1"),
        (no_args, "no parameters"),
    ):
        with pytest.raises(Refused, match=words):
            plugin.run(region, 0, b"")
    with pytest.raises(Refused, match="record function"):
        plugin.launch(0, 1, 1, 1, None)
    for region, device in ((5, 0), (-1, 0), (0, 1), (0, -1)):
        with pytest.raises(Refused):
            plugin.run(region, device, b"")
    with pytest.raises(Refused, match="at most 4096"):
        plugin.run(0, 0, bytes(5000))


def test_dependent_launches_and_clusters(plugin: Plugin, world: World, fake: ctypes.CDLL) -> None:
    world.fake_file(("first", "nothing"), ("second", "nothing"))
    world.kernels[1] |= {"dependent": 1, "cluster_x": 2, "cluster_y": 1, "cluster_z": 1, "shared": 100_000}
    world.region("both", lambda params: launch(plugin.library, 0) or launch(plugin.library, 1))
    plugin.open(world.manifest())
    plugin.run(0, 0, b"")
    assert fake.fake_calls(b"dependent launch") == fake.fake_calls(b"cluster launch") == 1
    assert fake.fake_calls(b"cuFuncSetAttribute") == 1


@pytest.mark.parametrize("change", [{"threads": 2048}, {"shared": 300_000}])
def test_kernel_that_the_device_cannot_run(plugin: Plugin, world: World, change: dict[str, int]) -> None:
    world.fake_file(("k", "nothing"))
    world.kernels[0] |= change
    assert refused(plugin, world).status is Status.KERNEL


@pytest.fixture
def failing(plugin: Plugin, world: World) -> tuple[Plugin, World, list[int]]:
    """A region that stores a code, given in the list, in the error word of the second region."""
    world.fake_file(("fail", "fail"), ("add", "add"))
    world.devices[0] |= {"counter_arena": 0, "error_offset": 512}
    code = [0]
    world.region("fine", lambda _: launch(plugin.library, 1, c_void_p(plugin.tile(0, 0, 16)), c_int32(4), c_float(1)))
    world.region(
        "checks", lambda _: launch(plugin.library, 0, c_void_p(plugin.tile(0, 516, 4)), c_int32(code[0])), graph=False
    )
    world.regions[1] |= world.messages("index 7 is outside 0..5", "token outside the vocabulary")
    plugin.open(world.manifest())
    return plugin, world, code


@pytest.mark.parametrize(
    ("code", "words"), [(1, "index 7 is outside 0..5"), (2, "token outside the vocabulary"), (3, "without saying how")]
)
@pytest.mark.parametrize("how", ["read", "sync", "warm", "close", "token"])
def test_failed_check_is_seen_where_the_host_waits(
    failing: tuple[Plugin, World, list[int]], code: int, words: str, how: str
) -> None:
    plugin, _, codes = failing
    tile = plugin.tile(0, 0, 16)
    ring = plugin.ring(0, 16)
    plugin.run(0, 0, b"", (tile, 16, True))
    assert len(plugin.read(tile, 16)) == 16
    codes[0] = code
    plugin.run(1, 0, b"", (tile, 16, True))
    with pytest.raises(Refused, match=rf"FAILED: region checks on Device\[0\]: .*{words}"):
        {"read": lambda: plugin.read(tile, 16), "sync": plugin.sync, "warm": plugin.warm, "close": plugin.close,
         "token": lambda: token_at(plugin, ring, 0)}[how]()  # fmt: skip


def test_error_words_lie_in_the_arena(plugin: Plugin, world: World) -> None:
    world.region("fine", lambda _: 0)
    world.devices[0] |= {"counter_arena": 0, "error_offset": 3 * MIB}
    assert refused(plugin, world).status is Status.ABI

"""The cuda plugin over the fake driver, and what most of its tests begin with."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from ctypes import c_float, c_int32, c_void_p
from pathlib import Path

import pytest
from runtime.device_plugin import (
    MIB,
    Decoder,
    Pair,
    Plugin,
    World,
    build_fake,
    build_plugin,
    launch,
    load_plugin,
    two_devices,
)


@pytest.fixture(scope="package")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """The plugin, and the driver that it finds as libcuda.so.1 because it is loaded already."""
    folder = tmp_path_factory.mktemp("cuda")
    fake = ctypes.CDLL(str(build_fake(folder)), mode=ctypes.RTLD_GLOBAL)
    fake.fake_violation_text.restype = ctypes.c_char_p
    return load_plugin(build_plugin("cuda", folder)), fake


@pytest.fixture
def plugin(built: tuple[ctypes.CDLL, ctypes.CDLL], monkeypatch: pytest.MonkeyPatch) -> Iterator[Plugin]:
    """The plugin, closed; afterwards everything must be given back and no rule of the driver broken."""
    library, fake = built
    for name in [key for key in os.environ if key.startswith("FAKE_CUDA")]:
        monkeypatch.delenv(name)
    fake.fake_reset()
    yield Plugin(library)
    library.vx_close()
    assert fake.fake_violations() == 0, fake.fake_violation_text().decode()
    live = {
        kind: fake.fake_alive(kind.encode())
        for kind in ("context", "stream", "event", "module", "memory", "pinned", "graph", "exec")
    }
    assert set(live.values()) == {0}, live


@pytest.fixture
def fake(built: tuple[ctypes.CDLL, ctypes.CDLL]) -> ctypes.CDLL:
    return built[1]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def pair(plugin: Plugin, world: World, monkeypatch: pytest.MonkeyPatch) -> Pair:
    """Two devices, open, one kernel `add` and a region that adds 1 to n floats at an address."""
    monkeypatch.setenv("FAKE_CUDA_DEVICES", "2")
    two_devices(world).fake_file(("add", "add"), ("count", "count"))

    def record(params: int | None) -> int:
        assert params
        address, n = c_void_p.from_address(params), c_int32.from_address(params + 8)
        return launch(plugin.library, 0, address, n, c_float(1))

    world.region("add", record)
    world.arenas[0] |= {"window_offset": 2 * MIB, "window_bytes": MIB}
    world.arenas[1] |= {"window_offset": 0, "window_bytes": 4096}
    plugin.open(world.manifest())
    return plugin, world, plugin.tile(0, 0, 4096), plugin.tile(1, 8192, 4096)


@pytest.fixture
def decoder(plugin: Plugin, world: World) -> Decoder:
    """A region that stores a token and steps on; block at 0, its counter at 1024; the ring."""
    world.fake_file(("token", "token"))
    world.devices[0] |= {"counter_arena": 0, "counters": 1, "counter_offset": 1024}
    ring: list[int] = []

    def record(params: int | None) -> int:
        base = plugin.tile(0, 0, 2048)
        return launch(plugin.library, 0, c_void_p(ring[0]), c_void_p(base), c_void_p(base + 1024), c_int32(16))

    world.region("decode", record, counter=0)
    plugin.open(world.manifest())
    ring.append(plugin.ring(0, 16))
    plugin.set(plugin.tile(0, 0, 8), bytes(8), 8)
    return plugin, world, ring[0]

"""libvx_cuda.so on a real GPU: every entry, checked results, and what each costs. One JSON line a finding.

    python bench/gpu_plugin.py build DIR [--isa sm_90]     # where zig and nvcc are: plugin and kernel file
    python3 bench/gpu_plugin.py run DIR                    # on the GPU machine: only Python's standard library

Ends with status 1 if any check failed. With two devices it also tests the second one and peer copies.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from ctypes import c_float, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "tests")]

from runtime.device_plugin import MIB, Plugin, Refused, World, build_plugin, launch, load_plugin  # noqa: E402

GIB = 1 << 30
SECOND = 10**9
KERNELS = {"add": 3, "late_add": 4, "token": 4, "link": 1, "read_all": 3}
ADD, LATE_ADD, TOKEN, LINK, READ_ALL = range(5)
ODD = 123 * 512
"""So that an arena is no whole number of the driver's granules."""
RING_SLOTS = 64
CHAIN = 160
failed: list[str] = []


def say(what: str, **figures: object) -> None:
    print(json.dumps({"what": what, **figures}), flush=True)


def check(what: str, holds: bool, **figures: object) -> None:
    say(what, ok=holds, **figures)
    if not holds:
        failed.append(what)


def build(folder: Path, isa: str) -> None:
    """The plugin for glibc 2.28, and the kernels."""
    folder.mkdir(parents=True, exist_ok=True)
    build_plugin("cuda", folder, "-O2", "-s")
    nvcc = os.environ.get("NVCC", "nvcc")
    subprocess.run(
        [nvcc, "-cubin", f"-arch={isa}", "-O3", HERE / "gpu_plugin.cu", "-o", folder / "test.cubin"], check=True
    )
    (folder / "isa").write_text(isa)


def world_of(folder: Path, devices: int, large: int) -> World:
    """A manifest with an arena for 64 MiB of small tiles and one of `large` bytes on each device."""
    world = World(folder)
    digest = world.blob(hashlib.sha256((folder / "test.cubin").read_bytes()).digest())
    world.devices = [{"name": f"Device[{i}]", "ordinal": i, "topology": 500 + i, "counter_arena": i, "counters": 2,
                      "counter_offset": 4096} for i in range(devices)]  # fmt: skip
    world.arenas = [{"space": "HBM", "device": i, "bytes": 64 * MIB + large + ODD, "reserve": min(GIB, large), "window_offset": MIB, "window_bytes": MIB}
                    for i in range(devices)]  # fmt: skip
    world.kernels = [{"name": name, "file": "test.cubin", "sha256": digest, "provenance": "emitted", "threads": 256,
                      "params": count, "trailing": 2, "grid_x": 1, "grid_y": 1, "grid_z": 1} for name, count in KERNELS.items()]  # fmt: skip
    world.kernels[TOKEN]["threads"] = 1
    world.kernels[LINK]["dependent"] = 1
    world.top = {"isa": (folder / "isa").read_text(), "staging": 32 * MIB}
    return world


def refusals(plugin: Plugin, folder: Path, large: int) -> None:
    """Each must be refused before anything is taken, with its status."""

    def refused(what: str, expected: str, change: Callable[[World], object]) -> None:
        world = world_of(folder, 1, large)
        change(world)
        try:
            plugin.open(world.manifest(trace=False))
            plugin.close()
            check(what, False, found="opened")
        except Refused as found:
            check(what, found.status.name == expected, status=found.status.name, message=found.message)

    refused("index too high", "NO_DEVICE", lambda w: w.devices[0].update(name="Device[9]", ordinal=9))
    refused("driver too old", "OLD_DRIVER", lambda w: w.top.update(min_driver=99000))
    refused("wrong architecture", "ARCH", lambda w: w.top.update(isa="sm_70"))
    refused("too little memory", "NO_MEMORY", lambda w: w.arenas[0].update(bytes=1 << 40))
    refused("other interface", "ABI", lambda w: w.top.update(abi=99))
    altered = folder / "altered"
    altered.mkdir(exist_ok=True)
    data = bytearray((folder / "test.cubin").read_bytes())
    data[len(data) // 2] ^= 1
    (altered / "test.cubin").write_bytes(data)
    refused("altered kernel file", "KERNEL", lambda w: w.top.update(directory=str(altered)))
    refused("no such kernel", "KERNEL", lambda w: w.kernels[0].update(name="nothing"))
    refused("too many threads", "KERNEL", lambda w: w.kernels[0].update(threads=2048))


class Session:
    """The plugin, open, with the regions of this benchmark."""

    def __init__(self, plugin: Plugin, folder: Path, devices: int, large: int, trace: bool) -> None:
        self.plugin = plugin
        self.large = large
        self.world = world_of(folder, devices, large)
        library = plugin.library

        def add(params: int | None) -> int:
            assert params
            return launch(library, ADD, c_void_p.from_address(params), c_int32(1024), c_float(1), grid=(4, 1, 1))

        def late_add(params: int | None) -> int:
            assert params
            args = c_void_p.from_address(params), c_int32(1024), c_float(1), c_int32(20_000_000)
            return launch(library, LATE_ADD, *args, grid=(4, 1, 1))

        def token(params: int | None) -> int:
            assert params
            base, ring = c_void_p.from_address(params), c_void_p.from_address(params + 8)
            assert base.value
            return launch(library, TOKEN, ring, base, c_void_p(base.value + 4096), c_int32(RING_SLOTS))

        def chain(params: int | None) -> int:
            assert params
            status = 0
            for _ in range(CHAIN):
                status = status or launch(library, LINK, c_void_p.from_address(params), grid=(132, 1, 1))
            return status

        def read_all(params: int | None) -> int:
            assert params
            base = c_void_p.from_address(params)
            return launch(library, READ_ALL, base, c_int64(large // 16), base, grid=(132 * 8, 1, 1))

        self.add, self.late_add = self.world.region("add", add), self.world.region("late_add", late_add)
        self.token = self.world.region("token", token, counter=0)
        self.chain, self.plain = self.world.region("chain", chain), self.world.region("plain", chain, graph=False)
        self.read_all = self.world.region("read_all", read_all)
        plugin.open(self.world.manifest(trace=trace))

    def floats(self, device: int, offset: int) -> int:
        return int(self.plugin.tile(device, offset, 4096))

    def run(self, region: int, device: int, *words: int, size: int = 4096) -> None:
        self.plugin.run(region, device, b"".join(bytes(c_int64(w)) for w in words), (words[0], size, True))

    def first_float(self, address: int) -> float:
        return float(c_float.from_buffer_copy(self.plugin.read(address, 4)).value)


def identity(s: Session) -> None:
    for event, fields in s.world.events:
        say(event, **json.loads("{" + fields + "}"))
    for device in range(len(s.world.devices)):
        ordinal = c_int32(-1)
        s.plugin.owner(s.floats(device, 0), ctypes.byref(ordinal))
        check("arena lies on its device", ordinal.value == device, device=device)


def order(s: Session, device: int) -> None:
    """A kernel that is late by 10 ms between copies: without waits the numbers would be others."""
    p, tile = s.plugin, s.floats(device, 8192)
    one = (c_float * 1024)(*[1.0] * 1024)
    pinned = p.pin(8192)
    p.copy(tile, one, 4096)
    s.run(s.late_add, device, tile)
    begin = time.monotonic_ns()
    p.copy(pinned, tile, 4096)
    issued = time.monotonic_ns() - begin
    s.run(s.late_add, device, tile)
    p.access(pinned, 4096, 0)
    early = c_float.from_address(pinned).value
    check("copy out waits for the kernel, not for the next", early == 2.0, value=early, issue_us=issued / 1000)
    check("issue does not wait", issued < 5_000_000, issue_us=issued / 1000)
    p.copy(tile, pinned, 4096)  # waits for the second kernel, which reads and writes the tile
    check("copy in waits for the kernel before it", s.first_float(tile) == 2.0)
    p.unpin(pinned)
    p.set(tile, bytes(c_float(7)), 4)
    s.run(s.add, device, tile)
    check("words are set in order", s.first_float(tile) == 8.0)


def tokens(s: Session, device: int) -> None:
    """Steps on the device, graph launches and tokens are the same number."""
    p = s.plugin
    base = p.tile(device, 0, 8192)
    ring = p.ring(device, RING_SLOTS)
    p.set(base, bytes(8), 8)
    steps, wrong, before = 2000, 0, p.traffic(device).graph_launches
    word = c_int32()

    def read(position: int) -> int:
        p.token(ring, position, time.monotonic_ns() + 5 * SECOND, ctypes.byref(word))
        return int(word.value != 7 * position % 97)

    begin = time.monotonic_ns()
    for position in range(steps):
        s.run(s.token, device, base, ring)
        if position >= 16:
            wrong += read(position - 16)
    wrong += sum(read(position) for position in range(steps - 16, steps))
    ahead = (time.monotonic_ns() - begin) / steps / 1000
    count = c_int64()
    p.counter(device, 0, ctypes.byref(count))
    launches = p.traffic(device).graph_launches - before
    check("steps on the device = graph launches = tokens", wrong == 0 and count.value == launches == steps,
          counter=count.value, graph_launches=launches, tokens=steps, wrong=wrong, device=device, us_per_step_16_ahead=ahead)  # fmt: skip
    waits = []
    for position in range(steps, steps + 500):
        begin = time.monotonic_ns()
        s.run(s.token, device, base, ring)
        read(position)
        waits.append((time.monotonic_ns() - begin) / 1000)
    say("one step and its token, round trip", us_median=statistics.median(waits), us_least=min(waits))


def timed(s: Session, device: int, region: int, base: int, size: int, times: int) -> list[float]:
    """Seconds by the device's clock."""
    found = []
    for _ in range(times):
        seconds = c_float()
        s.plugin.stamp(device)
        s.run(region, device, base, size=size)
        s.plugin.stamp(device)
        s.plugin.seconds(device, ctypes.byref(seconds))
        found.append(float(seconds.value))
    return found[2:]


def speed(s: Session, device: int) -> None:
    p = s.plugin
    large = s.large
    base = p.tile(device, 64 * MIB, large)
    tile = s.floats(device, 65536)
    for name, region in (("graph", s.chain), ("launches", s.plain)):
        p.set(tile, bytes(c_float(0)), 4)
        seconds = timed(s, device, region, tile, 4096, 12)
        check(f"chain of {CHAIN} kernels as {name}", s.first_float(tile) == 12 * CHAIN, value=s.first_float(tile),
              us_per_kernel=statistics.median(seconds) / CHAIN * 1e6)  # fmt: skip
    data = ctypes.create_string_buffer(large)
    ctypes.memset(data, 0x3C, large)
    begin = time.monotonic_ns()
    p.load(base, data, large)
    p.sync()
    check("weights cross once", p.traffic(device).loaded_bytes == large, gb_per_s=large / (time.monotonic_ns() - begin))
    check("weights arrived", p.read(base + large - 16, 16) == b"\x3c" * 16)
    pinned = p.pin(large)
    for name, target, source in (("host to device, pinned", base, pinned), ("device to host, pinned", pinned, base)):
        rates = []
        for _ in range(5):
            begin = time.monotonic_ns()
            p.copy(target, source, large)
            p.sync()
            rates.append(large / (time.monotonic_ns() - begin))
        say(name, gb_per_s_median=statistics.median(rates))
    p.unpin(pinned)
    reads = timed(s, device, s.read_all, base, large, 12)
    say("device read", tb_per_s_median=large / statistics.median(reads) / 1e12, tb_per_s_best=large / min(reads) / 1e12)


def peers(s: Session) -> None:
    """Device 0 to device 1 and back, between kernels of both."""
    p, here, there = s.plugin, s.floats(0, 16384), s.floats(1, 32768)
    p.set(here, bytes(c_float(1)), 4)
    s.run(s.late_add, 0, here)
    p.copy(there, here, 4096)
    s.run(s.late_add, 1, there)
    p.copy(here, there, 4096)
    s.run(s.add, 0, here)
    check("peer copies are ordered with both devices", (s.first_float(here), s.first_float(there)) == (4.0, 3.0))
    source, target = p.tile(0, 64 * MIB, s.large), p.tile(1, 64 * MIB, s.large)
    for size in (442_368, 16 * MIB, s.large):
        rates = []
        for _ in range(12):
            p.sync()
            begin = time.monotonic_ns()
            p.copy(target, source, size)
            p.sync()
            rates.append((time.monotonic_ns() - begin) / 1000)
        say(
            "peer copy",
            bytes=size,
            us_median=statistics.median(rates[2:]),
            gb_per_s=size / statistics.median(rates[2:]) / 1000,
        )


def equalities(s: Session, device: int) -> None:
    f = s.plugin.figures(device)
    figures: dict[str, Any] = {name: getattr(f, name) for name, _ in f._fields_} | {"device": device}
    check("drop of free memory = arena, rounded", f.free_before - f.free_after == f.arena_rounded, **figures)
    check("device allocations = spaces x instances", f.allocations == f.arenas, device=device)
    check("free memory after warm-up = at the end", f.free_warm == f.free_end, device=device)
    check("driver_bytes fit the reserve", f.driver_bytes <= f.reserve, driver_bytes=f.driver_bytes, reserve=f.reserve)


def steady(s: Session) -> None:
    """10,000 steps: host memory and descriptors stay what they were."""
    base, tile = s.plugin.tile(0, 0, 4096), s.floats(0, 8192)
    pinned = s.plugin.pin(4096)

    def steps(count: int) -> None:
        for i in range(count):
            s.run(s.add, 0, tile)
            if i % 8 == 0:
                s.plugin.copy(pinned, tile, 64)
        s.plugin.sync()

    steps(2000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(os.listdir("/proc/self/fd"))
    begin = time.monotonic_ns()
    steps(10_000)
    spent = (time.monotonic_ns() - begin) / 10_000 / 1000
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(os.listdir("/proc/self/fd"))
    check("10,000 steps are flat", after[0] - before[0] < 4096 and after[1] == before[1], rss_kib=after[0] - before[0],
          descriptors=after[1] - before[1], us_per_step=spent, base=base % 256)  # fmt: skip
    s.plugin.unpin(pinned)


def run(folder: Path, large: int) -> None:
    plugin = Plugin(load_plugin(folder / "libvx_cuda.so"))
    count = c_int32()
    plugin.plugin_control(3, ctypes.byref(count))
    devices = min(2, count.value)
    say("devices", count=count.value)
    refusals(plugin, folder, large)
    evidence = Session(plugin, folder, devices, large, trace=True)
    identity(evidence)
    order(evidence, 0)
    plugin.close()
    for event, fields in evidence.world.events[-8:]:
        say(event, **json.loads("{" + fields + "}"))
    s = Session(plugin, folder, devices, large, trace=False)
    for device in range(devices):
        order(s, device)
        tokens(s, device)
        speed(s, device)
    if devices == 2:
        peers(s)
    steady(s)
    plugin.warm()
    for device in range(devices):
        s.run(s.chain, device, s.floats(device, 65536))
    plugin.sync()
    for device in range(devices):
        equalities(s, device)
    plugin.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=["build", "run"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--isa", default="sm_90")
    parser.add_argument("--mib", type=int, default=4096, help="size of what is copied and read, MiB")
    options = parser.parse_args()
    if options.do == "build":
        build(options.folder, options.isa)
        return 0
    run(options.folder, options.mib * MIB)
    say("end", failed=failed)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())

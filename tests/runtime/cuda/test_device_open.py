"""What is checked before anything is taken, and what is given back when it fails."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
from runtime.device_plugin import (
    MIB,
    Plugin,
    Refused,
    World,
    refused,
    two_devices,
)

from vx.runtime import device_abi
from vx.runtime.device_abi import Status


def test_without_libcuda(built: tuple[ctypes.CDLL, ctypes.CDLL], tmp_path: Path) -> None:
    """In a process of its own: here the fake is loaded."""
    library = built[0]._name
    code = (
        "import sys, ctypes; from pathlib import Path; from runtime.device_plugin import *\n"
        f"p = Plugin(load_plugin(Path({library!r}))); w = World(Path({str(tmp_path)!r}))\n"
        "try: p.open(w.manifest())\n"
        "except Refused as found: print(found.status.name, found.message)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False
    )
    if done.returncode == 0 and not done.stdout:
        pytest.skip("this machine has a libcuda.so.1")
    assert done.stdout.startswith("NO_LIBRARY the NVIDIA driver's library libcuda.so.1 cannot be opened"), done
    assert "nothing runs elsewhere by itself" in done.stdout


def test_no_device(plugin: Plugin, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_CUDA_DEVICES", "0")
    assert refused(plugin, world).status is Status.NO_DEVICE


@pytest.mark.parametrize("ordinal", [1, 7, -1])
def test_index_too_high(plugin: Plugin, world: World, ordinal: int) -> None:
    world.devices[0] |= {"name": f"Device[{ordinal}]", "ordinal": ordinal}
    found = refused(plugin, world)
    assert found.status is Status.NO_DEVICE
    assert f"Device[{ordinal}]" in found.message and "has 1 device:" in found.message


def test_old_driver(plugin: Plugin, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_CUDA_VERSION", "12040")
    world.top["min_driver"] = 12080
    found = refused(plugin, world)
    assert found.status is Status.OLD_DRIVER
    assert "12.4" in found.message and "12.8" in found.message


@pytest.mark.parametrize(("isa", "device", "fits"), [("sm_90", "90", True), ("sm_80", "86", True), ("sm_90", "80", False),
                                                    ("sm_90a", "90", True), ("sm_100a", "103", False), ("gfx942", "90", False)])  # fmt: skip
def test_architecture(
    plugin: Plugin, world: World, monkeypatch: pytest.MonkeyPatch, isa: str, device: str, fits: bool
) -> None:
    monkeypatch.setenv("FAKE_CUDA_SM", device)
    world.top["isa"] = isa
    if fits:
        plugin.open(world.manifest())
    else:
        found = refused(plugin, world)
        assert found.status is Status.ARCH and isa in found.message and f"sm_{device}" in found.message


def test_abi(plugin: Plugin, world: World) -> None:
    world.top["abi"] = device_abi.DEVICE_ABI + 1
    assert refused(plugin, world).status is Status.ABI


def test_too_little_memory(plugin: Plugin, world: World, fake: ctypes.CDLL) -> None:
    """The fake has 64 MiB, 3 of them taken by the context: 60 + 1 fit, 60 + 2 do not; nothing was allocated."""
    world.arenas[0] |= {"bytes": 60 * MIB, "reserve": 2 * MIB}
    found = refused(plugin, world)
    assert found.status is Status.NO_MEMORY
    assert str(60 * MIB) in found.message and str(61 * MIB) in found.message
    assert fake.fake_calls(b"cuMemAlloc_v2") == 0
    world.arenas[0] |= {"reserve": MIB}
    plugin.open(world.manifest())


@pytest.mark.parametrize("how", ["altered", "missing", "empty", "not a kernel file", "no such kernel"])
def test_kernel_file(plugin: Plugin, world: World, how: str, fake: ctypes.CDLL) -> None:
    world.fake_file(("k", "nothing"))
    path = world.folder / "all.cubin"
    if how == "altered":
        data = bytearray(path.read_bytes())
        data[12] ^= 1
        path.write_bytes(data)
    elif how == "missing":
        path.unlink()
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "not a kernel file":
        path.write_bytes(b"ELF")
        world.kernels[0]["sha256"] = world.blob(hashlib.sha256(b"ELF").digest())
    else:
        world.kernels[0]["name"] = "other"
    found = refused(plugin, world)
    assert found.status is Status.KERNEL and "all.cubin" in found.message
    assert fake.fake_calls(b"cuMemAlloc_v2") == 0
    if how in ("altered", "missing", "empty"):
        assert fake.fake_calls(b"cuDevicePrimaryCtxRetain") == 0, "no device may be touched for a wrong file"


@pytest.mark.parametrize(
    "change", [{"bytes": 0}, {"device": 1}, {"reserve": -1}, {"window_offset": 2 * MIB, "window_bytes": 2 * MIB}]
)
def test_manifest_arena(plugin: Plugin, world: World, change: dict[str, int]) -> None:
    world.arenas[0] |= change
    assert refused(plugin, world).status is Status.ABI


def test_manifest_names_one_thing_twice(plugin: Plugin, world: World) -> None:
    world.arenas *= 2
    assert refused(plugin, world).status is Status.ABI
    two_devices(world).devices[1]["ordinal"] = 0
    assert refused(plugin, world).status is Status.ABI


def test_open_twice_and_close_twice(plugin: Plugin, world: World) -> None:
    plugin.open(world.manifest())
    with pytest.raises(Refused, match="open already"):
        plugin.open(world.manifest())
    plugin.close()
    with pytest.raises(Refused, match="not open"):
        plugin.close()
    plugin.open(world.manifest())


def test_every_entry_refuses_a_closed_plugin(plugin: Plugin) -> None:
    for name, entry in device_abi.ENTRIES.items():
        if name in ("vx_open", "vx_device_abi", "vx_plugin_name", "vx_last_error", "vx_plugin_control"):
            continue
        with pytest.raises(Refused, match="not open"):
            plugin.entry(name)(*(None if t.llvm == "ptr" else 0 for _, t in entry.params))


@pytest.mark.parametrize("function", ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuStreamCreate", "cuMemGetInfo_v2",
                                      "cuModuleLoadData", "cuModuleGetFunction", "cuMemAlloc_v2", "cuMemHostAlloc",
                                      "cuPointerGetAttribute", "cuEventCreate", "cuMemsetD8Async", "cuCtxSynchronize",
                                      "cuDeviceGetUuid_v2"])  # fmt: skip
def test_driver_failure_while_opening(
    plugin: Plugin, world: World, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    """Whatever fails, all that was taken is given back (the fixture looks), and a later open works."""
    two_devices(world).fake_file(("k", "count"))
    world.devices[0] |= {"counter_arena": 0, "counters": 1}
    monkeypatch.setenv("FAKE_CUDA_DEVICES", "2")
    monkeypatch.setenv("FAKE_CUDA_FAIL", f"{function}:1")
    found = refused(plugin, world)
    assert found.status in (Status.DRIVER, Status.KERNEL) and "injected by the test" in found.message
    monkeypatch.delenv("FAKE_CUDA_FAIL")
    plugin.open(world.manifest())

"""How tests build, open and call a device plugin: its structures as `ctypes`, and manifests of a few lines."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runtime.native import TARGET

from vx.runtime import abi, device_abi
from vx.runtime.device_abi import Status

RUNTIME = Path(abi.__file__).parent
SOURCES = RUNTIME / "device"
FAKE = Path(__file__).parent / "fake_cuda"
FLAGS = ("-std=c17", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-fvisibility=hidden", "-shared")
SANITIZE = ("-fsanitize=undefined", "-fno-sanitize-recover=undefined")
_DRIVERS = {"host": ("host",), "cuda": ("cuda_library", "cuda_device", "cuda_queue", "cuda_kernel")}
MIB = 1 << 20

_C = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "float": ctypes.c_float, "ptr": ctypes.c_void_p}


def sources(name: str) -> list[Path]:
    """The C files of `libvx_<name>.so`."""
    others = {stem for stems in _DRIVERS.values() for stem in stems} | {"loader"}
    common = [path for path in sorted(SOURCES.glob("*.c")) if path.stem not in others]
    return [*common, *(SOURCES / f"{stem}.c" for stem in _DRIVERS[name]), RUNTIME / "sha256.c"]


def compile_c(output: Path, inputs: Sequence[Path], *flags: str) -> Path:
    """A shared library by zig, warnings as errors."""
    command = [sys.executable, "-m", "ziglang", "cc", "-target", TARGET, *FLAGS, f"-I{RUNTIME}", f"-I{SOURCES}"]
    done = subprocess.run(
        [*command, *flags, *map(str, inputs), "-o", str(output), "-ldl"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return output


def build_plugin(name: str, folder: Path, *flags: str) -> Path:
    return compile_c(folder / f"libvx_{name}.so", sources(name), "-Wl,-Bsymbolic", *(flags or SANITIZE))


def build_fake(folder: Path) -> Path:
    return compile_c(
        folder / "libcuda.so.1", sorted(FAKE.glob("*.c")), "-fvisibility=default", "-Wl,-soname,libcuda.so.1"
    )


def _structure(name: str) -> type[ctypes.Structure]:
    fields = [(key, _C[type_.llvm]) for key, type_, _ in device_abi.STRUCTS[name]]
    return type(name, (ctypes.Structure,), {"_fields_": fields})


Device, Arena, Kernel, Region, Manifest, Touch, Memory, Traffic = map(
    _structure,
    ("vx_device", "vx_arena", "vx_kernel", "vx_region", "vx_manifest", "vx_touch", "vx_memory", "vx_traffic"),
)  # fmt: skip
Record = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
HostKernel = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int32))
Sink = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.c_char_p)


def load_plugin(path: Path) -> ctypes.CDLL:
    """The library with the types of every entry."""
    plugin = ctypes.CDLL(str(path))
    for entry in device_abi.ENTRIES.values():
        function = getattr(plugin, entry.name)
        function.argtypes = [_C[type_.llvm] for _, type_ in entry.params]
        function.restype = ctypes.c_char_p if entry.ret.c == "const char *" else _C[entry.ret.llvm]
    plugin.vx_plugin_dispatch_async.restype = ctypes.c_uint64
    for entry in ("vx_plugin_await_future", "vx_plugin_release_future"):
        getattr(plugin, entry).argtypes = [ctypes.c_uint64]
    return plugin


def fake_kernels(folder: Path, kernels: Iterable[tuple[str, str, int]], name: str = "all.cubin") -> bytes:
    """A kernel file of the fake driver; its SHA-256."""
    text = "FAKECUBIN\n" + "".join(f"{kernel} {does} {trailing}\n" for kernel, does, trailing in kernels) + "end\n"
    (folder / name).write_text(text)
    return hashlib.sha256(text.encode()).digest()


PARAMS = {"count": 1, "add": 3, "late_add": 4, "copy": 3, "token": 4, "link": 1, "read_all": 3, "fail": 2, "nothing": 0}


@dataclass
class World:
    """What a test's manifest says, changeable until it is opened; keeps alive what C points to."""

    folder: Path
    devices: list[dict[str, Any]] = field(
        default_factory=lambda: [{"name": "Device[0]", "ordinal": 0, "topology": 500}]
    )
    arenas: list[dict[str, Any]] = field(default_factory=lambda: [{"space": "HBM", "device": 0, "bytes": 3 * MIB}])
    kernels: list[dict[str, Any]] = field(default_factory=list)
    regions: list[dict[str, Any]] = field(default_factory=list)
    top: dict[str, Any] = field(default_factory=dict)
    events: list[tuple[str, str]] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)

    def text(self, words: str) -> int:
        held = ctypes.create_string_buffer(words.encode())
        self.kept.append(held)
        return ctypes.addressof(held)

    def blob(self, data: bytes) -> int:
        held = ctypes.create_string_buffer(data, len(data))
        self.kept.append(held)
        return ctypes.addressof(held)

    def function(self, type_: Any, body: Callable[..., Any]) -> int:
        held = type_(body)
        self.kept.append(held)
        address = ctypes.cast(held, ctypes.c_void_p).value
        assert address is not None
        return address

    def messages(self, *texts: str) -> dict[str, int]:
        """The fields of a region that say what its error words mean."""
        table = (ctypes.c_void_p * len(texts))(*map(self.text, texts))
        self.kept.append(table)
        return {"messages": ctypes.addressof(table), "message_count": len(texts)}

    def region(self, name: str, record: Callable[[int | None], int], graph: bool = True, counter: int = -1) -> int:
        """Adds a region; its number."""
        self.regions.append(
            {"name": name, "record": self.function(Record, record), "graph": int(graph), "counter": counter}
        )
        return len(self.regions) - 1

    def fake_file(self, *kernels: tuple[str, str]) -> None:
        """Adds kernels (name, behaviour) in one file of the fake driver, each with two trailing parameters."""
        digest = self.blob(fake_kernels(self.folder, [(name, does, 2) for name, does in kernels]))
        for name, does in kernels:
            self.kernels.append({"name": name, "file": "all.cubin", "sha256": digest, "provenance": "emitted", "threads": 128,
                                 "params": PARAMS[does], "trailing": 2, "grid_x": 1, "grid_y": 1, "grid_z": 1})  # fmt: skip

    def host_kernel(self, name: str, body: Callable[[Any, Any], None], params: int) -> None:
        self.kernels.append({"name": name, "file": "", "host": self.function(HostKernel, body), "provenance": "host",
                             "threads": 1, "params": params, "grid_x": 1, "grid_y": 1, "grid_z": 1})  # fmt: skip

    def _table(self, type_: type[ctypes.Structure], rows: list[dict[str, Any]]) -> int:
        table = (type_ * max(1, len(rows)))()
        for entry, row in zip(table, rows, strict=False):
            for key, value in row.items():
                setattr(entry, key, self.text(value) if isinstance(value, str) else value)
        self.kept.append(table)
        return ctypes.addressof(table)

    def manifest(self, trace: bool = True) -> int:
        """The address of the manifest as it stands."""
        sink = self.function(Sink, lambda event, fields: self.events.append((event.decode(), fields.decode())) or 0)
        for device in self.devices:
            device.setdefault("counter_arena", -1)
            device.setdefault("error_offset", -1)
        row = {
            "abi": device_abi.DEVICE_ABI, "role": "single", "isa": "sm_90", "directory": str(self.folder),
            "artifact": "", "machine": "", "plan": "", "staging": 2 * MIB, "sink": sink if trace else None,
            "devices": self._table(Device, self.devices), "device_count": len(self.devices),
            "arenas": self._table(Arena, self.arenas), "arena_count": len(self.arenas),
            "kernels": self._table(Kernel, self.kernels), "kernel_count": len(self.kernels),
            "regions": self._table(Region, self.regions), "region_count": len(self.regions),
            **self.top,
        }  # fmt: skip
        return self._table(Manifest, [row])


def two_devices(world: World) -> World:
    """Two instances with an arena each."""
    world.devices = [{"name": f"Device[{i}]", "ordinal": i, "topology": 500 + i} for i in range(2)]
    world.arenas = [{"space": "HBM", "device": i, "bytes": 3 * MIB} for i in range(2)]
    return world


class Refused(Exception):
    """An entry returned a status other than OK."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{Status(status).name}: {message}")
        self.status = Status(status)
        self.message = message


def touches(*ranges: tuple[int, int, bool]) -> tuple[Any, int]:
    """A footprint of (address, bytes, written)."""
    table = (Touch * max(1, len(ranges)))(*(Touch(address, size, int(write), 0) for address, size, write in ranges))
    return table, len(ranges)


class Plugin:
    """A plugin whose entries raise `Refused`."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self.entry(f"vx_{name}")

    def entry(self, name: str) -> Callable[..., Any]:
        function = getattr(self.library, name)
        address = device_abi.ENTRIES[name].ret.c == "void *" or name == "vx_plugin_dispatch_async"

        def call(*arguments: Any) -> Any:
            result = function(*arguments)
            if address:
                if not result:
                    raise Refused(Status.MISUSE, self.error())
                return result
            if result != Status.OK:
                raise Refused(result, self.error())
            return None

        return call

    def error(self) -> str:
        return str(self.library.vx_last_error().decode())

    def run(self, region: int, device: int, params: bytes, *ranges: tuple[int, int, bool]) -> None:
        table, count = touches(*ranges)
        self.entry("vx_run")(region, device, params, len(params), table, count)

    def read(self, address: int, size: int) -> bytes:
        """Bytes of a device, by way of pinned memory and the overlap rule."""
        pinned = self.pin(size)
        self.copy(pinned, address, size)
        self.access(pinned, size, 0)
        data = ctypes.string_at(pinned, size)
        self.unpin(pinned)
        return data

    def figures(self, device: int = 0) -> Any:
        figures = Memory()
        self.memory_of(device, ctypes.byref(figures))
        return figures

    def traffic(self, device: int = 0) -> Any:
        figures = Traffic()
        self.traffic_of(device, ctypes.byref(figures))
        return figures


def launch(plugin: ctypes.CDLL, kernel: int, *arguments: Any, grid: tuple[int, int, int] = (1, 1, 1)) -> int:
    """`vx_launch` with `ctypes` values as parameters."""
    pointers = (ctypes.c_void_p * max(1, len(arguments)))(*(ctypes.addressof(value) for value in arguments))
    return int(plugin.vx_launch(kernel, *grid, pointers))


Pair = tuple[Plugin, World, int, int]
"""Two open devices, and a tile on each."""
Decoder = tuple[Plugin, World, int]
"""An open device with a region that stores a token, and its ring."""
FOREVER = 2**62


def refused(plugin: Plugin, world: World) -> Refused:
    """Why the plugin does not open."""
    try:
        plugin.open(world.manifest())
    except Refused as found:
        return found
    raise AssertionError("it was opened")


def add_params(address: int, n: int) -> bytes:
    """Parameters of the region `add` of `Pair`."""
    return bytes(ctypes.c_int64(address)) + bytes(ctypes.c_int64(n))


def step(plugin: Plugin) -> None:
    """One step of a `Decoder`."""
    plugin.run(0, 0, b"", (plugin.tile(0, 0, 2048), 2048, True))


def token_at(plugin: Plugin, ring: int, position: int, deadline: int = FOREVER) -> int:
    """The token of a position."""
    token = ctypes.c_int32(-1)
    plugin.token(ring, position, deadline, ctypes.byref(token))
    return token.value

"""The constants with which a program opens its devices: what each role needs of them.

Enters: a module whose functions have been written. Leaves: LLVM globals: a manifest for each role (with its devices
and arenas), the regions that run on devices and their record functions. The table of kernels is a module of its
own (`kernel_table`), since kernels are compiled only when a program is built.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vx.codegen import host_launch
from vx.codegen.host_device import MIN_DRIVER, counters_at, entry, error_global, kind_of, role_banks, role_devices
from vx.codegen.host_launch import WORD, GpuRegion
from vx.codegen.llvm_text import string_global
from vx.kernels.region import LoweredRegion
from vx.machine.machine import topology_id
from vx.runtime.device_abi import DEVICE_ABI, STRUCTS

if TYPE_CHECKING:
    from vx.codegen.host_module import Module

STAGING = 32 << 20
"""Bytes of pinned memory, a device, that weights pass through."""
KERNELS = "vx_gpu_kernels"
"""The table of kernels."""
FOLDER = "kernels"
"""Where kernel files are, beside the executable."""


@dataclass(frozen=True, slots=True)
class DeviceRegion:
    """A region that runs on a remote device. `gpu` is None where the host's code of it stands in."""

    lowered: LoweredRegion
    gpu: GpuRegion | None


def globals_of(module: Module) -> list[str]:
    """Device indices, the record functions of regions, and a manifest for each role."""
    if not module.remote.devices:
        return []
    lines: list[str] = []
    for number in range(len(module.remote.devices)):
        lines.append(f"@vx.device.{number} = internal global i32 -1")
        lines.append(f"{error_global(number)} = internal global ptr null")
    lines += _regions(module)
    if module.remote.plugin == "cuda":
        lines += [
            f"@{KERNELS} = external constant {struct_type('vx_kernel')}",
            f"@{MIN_DRIVER} = external constant i32",
        ]
    for number, role in enumerate(module.arenas.totals):
        lines += _manifest(module, number, role)
    return lines


# ---- regions -----------------------------------------------------------------------------------------
def _regions(module: Module) -> list[str]:
    lines: list[str] = []
    rows = []
    first, regions = 0, len(module.device_regions)
    total = sum(len(region.gpu.printed) for region in module.device_regions if region.gpu)
    for number, region in enumerate(module.device_regions):
        name = region.lowered.region.name
        if region.gpu is None:
            lines.append(_stand_in(number, region.lowered))
            rows.append(_row(module, name, number, graph=False, messages=()))
            continue
        counter = counters_at(regions) + WORD * number - 4 * number
        numbers = host_launch.Numbers(number, first, total, counter)
        lines.append(host_launch.record(region.gpu, numbers, entry(module, "vx_launch")))
        first += len(region.gpu.printed)
        rows.append(_row(module, name, number, graph=True, messages=region.gpu.region.messages))
        lines += _messages(module, number, region.gpu.region.messages)
    return [*lines, _array("@vx.regions", "vx_region", rows)]


def _row(module: Module, name: str, number: int, *, graph: bool, messages: Sequence[str]) -> str:
    return _constant(
        "vx_region",
        name=module.string(name.encode()),
        record=f"@vx.record.{number}",
        graph=str(int(graph)),
        counter=str(number if graph else -1),
        messages=f"@vx.messages.{number}" if messages else "",
        message_count=str(len(messages)),
    )


def _messages(module: Module, number: int, messages: Sequence[str]) -> list[str]:
    if not messages:
        return []
    texts = ", ".join(f"ptr {module.string(text.encode())}" for text in messages)
    return [f"@vx.messages.{number} = private constant [{len(messages)} x ptr] [{texts}]"]


def _stand_in(number: int, lowered: LoweredRegion) -> str:
    """The function that computes a region on the host, given the address of its parameters."""
    lines = [f"define internal i32 @vx.record.{number}(ptr %params) nounwind {{"]
    arguments = []
    for at, binding in enumerate(lowered.bindings):
        kind = kind_of(binding)
        lines.append(f"  %p{at} = getelementptr inbounds i8, ptr %params, i64 {WORD * at}")
        lines.append(f"  %v{at} = load {kind}, ptr %p{at}")
        arguments.append(f"{kind} %v{at}")
    lines.append(f"  call void @{lowered.region.name}({', '.join(arguments)})")
    return "\n".join([*lines, "  ret i32 0", "}"])


# ---- manifests -----------------------------------------------------------------------------------------
def _manifest(module: Module, number: int, role: str) -> list[str]:
    devices, banks = role_devices(module, role), role_banks(module, role)
    places = [module.remote.devices[index] for index in devices]
    owners = [module.remote.banks[bank] for bank in banks]
    gpu = module.remote.plugin == "cuda"
    regions = len(module.device_regions)
    device_rows = [
        _constant(
            "vx_device",
            name=module.string(f"{topology}[{instance}]".encode()),
            ordinal=str(instance),
            topology=str(topology_id(topology, instance)),
            counter_arena=str(owners.index((topology, instance)) if gpu else -1),
            counters=str(regions if gpu else 0),
            counter_offset=str(counters_at(regions)),
            error_offset=str(0 if gpu else -1),
        )
        for topology, instance in places
    ]
    arena_rows = [
        _constant(
            "vx_arena",
            space=module.string(bank.space.encode()),
            device=str(places.index(owner)),
            bytes=str(module.arenas.totals[role][bank]),
            reserve=str(module.arenas.reserves[role][bank]),
        )
        for bank, owner in zip(banks, owners, strict=True)
    ]
    empty = module.string(b"")
    manifest = _constant(
        "vx_manifest",
        abi=str(DEVICE_ABI),
        role=module.string(module.program.functions[role].name.encode()),
        isa=module.string(module.remote.isa.encode()),
        artifact=empty,
        machine=empty,
        plan=empty,
        devices=f"@vx.devices.{number}",
        arenas=f"@vx.arenas.{number}",
        kernels=f"@{KERNELS}" if gpu else "",
        regions="@vx.regions",
        device_count=str(len(devices)),
        arena_count=str(len(banks)),
        kernel_count=str(int(gpu) + sum(len(region.gpu.printed) for region in module.device_regions if region.gpu)),
        region_count=str(regions),
        staging=str(STAGING),
    )
    return [
        _array(f"@vx.devices.{number}", "vx_device", device_rows),
        _array(f"@vx.arenas.{number}", "vx_arena", arena_rows),
        f"@vx.manifest.{number} = internal global {struct_type('vx_manifest')} {manifest}",
    ]


# ---- kernels -------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class KernelFile:
    """A compiled kernel: `file` is its name in `FOLDER`; `params` parameters of its own, two more behind them;
    `dependent`: it may start before the kernel in front of it has ended."""

    symbol: str
    file: str
    image: bytes
    threads: int
    shared: int
    params: int
    dependent: bool


def kernel_table(kernels: Sequence[KernelFile], min_driver: int) -> str:
    """The module with the table of kernels, in the order of their numbers."""
    texts: list[str] = [string_global("@provenance", b"emitted")]
    rows = []
    for number, kernel in enumerate(kernels):
        texts.append(string_global(f"@symbol.{number}", kernel.symbol.encode()))
        texts.append(string_global(f"@file.{number}", kernel.file.encode()))
        digest = hashlib.sha256(kernel.image).digest()
        words = ", ".join(f"i8 {byte}" for byte in digest)
        texts.append(f"@digest.{number} = private constant [{len(digest)} x i8] [{words}]")
        rows.append(
            _constant(
                "vx_kernel",
                name=f"@symbol.{number}",
                file=f"@file.{number}",
                sha256=f"@digest.{number}",
                provenance="@provenance",
                threads=str(kernel.threads),
                shared=str(kernel.shared),
                params=str(kernel.params),
                dependent=str(int(kernel.dependent)),
                trailing="2",
            )
        )
    table = _array(f"@{KERNELS}", "vx_kernel", rows).replace("private constant", "constant", 1)
    return "\n".join([*texts, table, f"@{MIN_DRIVER} = constant i32 {min_driver}"]) + "\n"


# ---- text ----------------------------------------------------------------------------------------------
def struct_type(name: str) -> str:
    """The LLVM type of a structure of the contract."""
    return "{ " + ", ".join(ctype.llvm for _, ctype, _ in STRUCTS[name]) + " }"


def _constant(struct: str, /, **values: str) -> str:
    """A structure; fields that are not given are zero or null."""
    parts = []
    for field, ctype, _ in STRUCTS[struct]:
        value = values.get(field) or ("null" if ctype.llvm == "ptr" else "0")
        parts.append(f"{ctype.llvm} {value}")
    return "{ " + ", ".join(parts) + " }"


def _array(name: str, struct: str, rows: Sequence[str]) -> str:
    kind = struct_type(struct)
    body = ", ".join(f"{kind} {row}" for row in rows)
    return f"{name} = private constant [{len(rows)} x {kind}] [{body}]"

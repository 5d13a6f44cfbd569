"""What host code does with devices that are not the host: open them, copy to and from them, issue regions.

Enters: the arenas and their topologies, nodes that touch placed tensors. Leaves: calls of the plugin's entries
(`runtime/device_abi.py`) and the constant manifests that a role opens its devices with. A device is *remote* if it
is a GPU, or if the build asks for the stand-in; everything else is memory of the host and needs none of this.

Work on a device is asynchronous. What the host reads next was waited for when it was copied, and what a copy or
region reads of the host's memory is waited for before the host goes on; work on devices is ordered by the plugin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vx.admission.plan import Bank
from vx.codegen.layout import Size, element_bytes
from vx.codegen.llvm_text import MEMORY, Int
from vx.diagnostics.report import CompileError, Diagnostic, Level
from vx.diagnostics.span import Span
from vx.kernels.region import (
    Binding,
    ExtentBinding,
    LoweredRegion,
    OutBinding,
    ScalarBinding,
    StrideBinding,
    TensorBinding,
)
from vx.machine.machine import GPU_ARCHES, Machine, topology_id
from vx.runtime.abi import Entry
from vx.runtime.device_abi import (
    DEVICE_ABI,
    MOVE,
    MOVE_FROM_HOST,
    MOVE_STRIDED,
    MOVE_TO_HOST,
    OPEN,
    STRUCTS,
    SYMBOLS,
)
from vx.runtime.device_abi import ENTRIES as DEVICE_ENTRIES
from vx.sema import tree

if TYPE_CHECKING:
    from vx.codegen.host_function import Emitter, View
    from vx.codegen.host_module import Module

STAGING = 32 << 20
"""Bytes of pinned memory, a device, that weights pass through."""
WORD = 8
"""Bytes of one parameter of a region."""

Device = tuple[str, int]
"""A topology and an instance."""


@dataclass(frozen=True, slots=True)
class Remote:
    """The remote devices of a program, in the order of their global indices. `plugin` is `host` or `cuda`."""

    plugin: str = ""
    devices: tuple[Device, ...] = ()
    banks: Mapping[Bank, Device] = field(default_factory=dict)

    def device(self, place: tree.Place | None) -> int | None:
        """The global index of a place's device; None if the host reaches it directly."""
        if place is None or (place.topology, place.instance) not in self.devices:
            return None
        return self.devices.index((place.topology, place.instance))

    def of(self, type_: tree.Type) -> int | None:
        """The same for a tensor, or a reference to one."""
        tensor = type_.to if isinstance(type_, tree.Ref) else type_
        return self.device(tensor.place) if isinstance(tensor, tree.Tensor) else None


def remote_devices(banks: Sequence[Bank], machine: Machine | None, stand_in: bool) -> Remote:
    """Which of the planned banks belong to remote devices."""
    found: dict[Bank, Device] = {}
    gpu = False
    for bank in banks:
        owner = None if machine is None else machine.space_owner(bank.space)
        if owner is None or owner.name == "CPU":
            continue
        if stand_in or owner.arch in GPU_ARCHES:
            found[bank] = (owner.name, bank.instance)
            gpu = gpu or owner.arch in GPU_ARCHES
    if not found:
        return Remote()
    return Remote("host" if stand_in else "cuda", tuple(sorted(set(found.values()))), found)


# ---- calls -------------------------------------------------------------------------------------------
def entry(module: Module, name: str) -> str:
    """An entry of the plugin, called through its forwarder, which ends the program if it fails."""
    return _declared(module, SYMBOLS[name], DEVICE_ENTRIES[name])


def open_devices(module: Module, role: str) -> str:
    """The call that opens the devices of a role."""
    plugin = module.string(module.remote.plugin.encode())
    return f"call void {_declared(module, OPEN.name, OPEN)}(ptr {plugin}, ptr {manifest_name(module, role)})"


def _declared(module: Module, symbol: str, declared: Entry) -> str:
    params = ", ".join(ctype.llvm for _, ctype in declared.params)
    return module.declare(symbol, f"declare {declared.ret.llvm} @{symbol}({params}) nounwind")


def copy(fn: Emitter, target: View, into: tree.Type, source: View, of: tree.Type) -> bool:
    """Copy elements if one side is on a remote device; whether it was."""
    remote = fn.module.remote
    there, here = remote.of(into), remote.of(of)
    if there is None and here is None:
        return False
    from vx.codegen.host_tensor import product, spill

    sides = (MOVE_TO_HOST if there is None else 0) | (MOVE_FROM_HOST if here is None else 0)
    size = element_bytes(source.elem)
    if target.dense and source.dense:
        count = product(fn, (*source.extents, size))
        symbol = _declared(fn.module, MOVE.name, MOVE)
        fn.line(f"call void {symbol}(ptr {target.data}, ptr {source.data}, i64 {count}, i32 {sides})")
        return True
    rank = len(source.extents)
    to, from_ = spill(fn, target), spill(fn, source)
    strides = [fn.at_offset(address, 8 + 8 * rank) for address in (to, from_)]
    symbol = _declared(fn.module, MOVE_STRIDED.name, MOVE_STRIDED)
    fn.line(
        f"call void {symbol}(ptr {target.data}, ptr {strides[0]}, ptr {source.data}, ptr {strides[1]}, "
        f"ptr {fn.at_offset(from_, 8)}, i32 {rank}, i64 {size}, i32 {sides})"
    )
    return True


def load_weight(fn: Emitter, target: View, source: View) -> None:
    """Copy a tensor of the model, which the runtime has mapped, to a device: once, through pinned memory."""
    from vx.codegen.host_tensor import product

    count = product(fn, (*source.extents, element_bytes(source.elem)))
    fn.line(f"call i32 {entry(fn.module, 'vx_load')}(ptr {target.data}, ptr {source.data}, i64 {count})")


def fill(fn: Emitter, view: View, value: str) -> None:
    """Every element of a tensor on a device gets the value, an operand as in memory."""
    from vx.codegen.host_tensor import product

    address = fn.storage(tree.Scalar(view.elem))
    fn.line(f"store {MEMORY[view.elem]} {value}, ptr {address}")
    count = product(fn, view.extents)
    size = element_bytes(view.elem)
    fn.line(f"call i32 {entry(fn.module, 'vx_fill')}(ptr {view.data}, ptr {address}, i64 {size}, i64 {count})")


def zero(fn: Emitter, data: str, size: Int) -> None:
    """`size` bytes on a device become zero."""
    address = fn.alloca(Size(8, 8))
    fn.line(f"store i64 0, ptr {address}")
    fn.line(f"call i32 {entry(fn.module, 'vx_fill')}(ptr {data}, ptr {address}, i64 1, i64 {size})")


# ---- regions -----------------------------------------------------------------------------------------
def issue(fn: Emitter, lowered: LoweredRegion, device: int, arguments: Sequence[tuple[str, Int]], span: Span) -> None:
    """Issue a region on a device: parameters in memory, its footprint, and the wait for scalars it gives back."""
    params = fn.alloca(Size(WORD * len(arguments), 8))
    for number, (kind, value) in enumerate(arguments):
        fn.line(f"store {kind} {value}, ptr {fn.at_offset(params, WORD * number)}")
    touched = [number for number, binding in enumerate(lowered.bindings) if isinstance(binding, TensorBinding)]
    outs = [number for number, binding in enumerate(lowered.bindings) if isinstance(binding, OutBinding)]
    touches = fn.alloca(Size(24 * (len(touched) + len(outs)), 8))
    for slot, number in enumerate(touched):
        _touch(fn, lowered, number, arguments[number][1], fn.at_offset(touches, 24 * slot), device, span)
    for slot, number in enumerate(outs, len(touched)):
        _touch_words(fn, fn.at_offset(touches, 24 * slot), arguments[number][1], WORD, True)
    index = fn.op(f"load i32, ptr {device_global(device)}")
    number = len(fn.module.regions) - 1
    fn.line(
        f"call i32 {entry(fn.module, 'vx_run')}(i32 {number}, i32 {index}, ptr {params}, "
        f"i64 {WORD * len(arguments)}, ptr {touches}, i64 {len(touched) + len(outs)})"
    )
    for out in outs:
        fn.line(f"call i32 {entry(fn.module, 'vx_access')}(ptr {arguments[out][1]}, i64 {WORD}, i32 0)")


def declare_region(fn: Emitter, lowered: LoweredRegion) -> None:
    """The region's function for the host, which the stand-in calls."""
    kinds = ", ".join(_kind(binding) for binding in lowered.bindings)
    fn.module.declare(lowered.region.name, f"declare void @{lowered.region.name}({kinds}) nounwind")


def _touch(fn: Emitter, lowered: LoweredRegion, number: int, data: Int, at: str, device: int, span: Span) -> None:
    from vx.codegen.host_region import window
    from vx.codegen.host_tensor import mul, shape_of, span_of

    binding = lowered.bindings[number]
    assert isinstance(binding, TensorBinding)
    place = binding.place
    if fn.module.remote.of(place.type) != device:
        message = "this region runs on another device than where a tensor that it uses is"
        raise CompileError([Diagnostic("E0902", Level.ERROR, message, span)])
    view = window(fn, place)
    size = mul(fn, span_of(fn, shape_of(view)), element_bytes(view.elem))
    param = lowered.region.params[number]
    written = next(b.written for b in lowered.region.buffers if b.id == getattr(param, "buffer", None))
    _touch_words(fn, at, data, size, written)


def _touch_words(fn: Emitter, at: str, data: Int, size: Int, written: bool) -> None:
    fn.line(f"store ptr {data}, ptr {at}")
    fn.line(f"store i64 {size}, ptr {fn.at_offset(at, 8)}")
    fn.line(f"store i64 {int(written)}, ptr {fn.at_offset(at, 16)}")


def device_global(device: int) -> str:
    """Where the running role keeps the plugin's index of a device."""
    return f"@vx.device.{device}"


# ---- what a module holds for all of this -------------------------------------------------------------
def globals_of(module: Module) -> list[str]:
    """Device indices, the recording functions of regions, and a manifest for each role."""
    if not module.remote.devices:
        return []
    lines = [f"@vx.device.{number} = internal global i32 -1" for number in range(len(module.remote.devices))]
    lines += _regions(module)
    for number, role in enumerate(module.arenas.totals):
        lines += _manifest(module, number, role)
    return lines


def _regions(module: Module) -> list[str]:
    lines = [_record(number, lowered) for number, lowered in enumerate(module.regions)]
    values = [
        _constant(
            "vx_region",
            name=module.string(lowered.region.name.encode()),
            record=f"@vx.record.{number}",
            graph="0",
            counter="-1",
        )
        for number, lowered in enumerate(module.regions)
    ]
    return [*lines, _array("@vx.regions", "vx_region", values)]


def _record(number: int, lowered: LoweredRegion) -> str:
    """The function that computes a region on the host, given the address of its parameters."""
    lines = [f"define internal i32 @vx.record.{number}(ptr %params) nounwind {{"]
    arguments = []
    for at, binding in enumerate(lowered.bindings):
        kind = _kind(binding)
        lines.append(f"  %p{at} = getelementptr inbounds i8, ptr %params, i64 {WORD * at}")
        lines.append(f"  %v{at} = load {kind}, ptr %p{at}")
        arguments.append(f"{kind} %v{at}")
    lines.append(f"  call void @{lowered.region.name}({', '.join(arguments)})")
    return "\n".join([*lines, "  ret i32 0", "}"])


def _kind(binding: Binding) -> str:
    if isinstance(binding, TensorBinding | OutBinding):
        return "ptr"
    if isinstance(binding, ExtentBinding | StrideBinding):
        return "i64"
    assert isinstance(binding, ScalarBinding) and isinstance(binding.place.type, tree.Scalar | tree.Ptr)
    kind = MEMORY[binding.place.type.name] if isinstance(binding.place.type, tree.Scalar) else "ptr"
    return "i16" if kind in ("half", "bfloat") else kind


def role_devices(module: Module, role: str) -> list[int]:
    """The global indices of the devices that a role uses, in the order of its manifest."""
    used = {module.remote.banks[bank] for bank in module.arenas.totals[role] if bank in module.remote.banks}
    return [number for number, device in enumerate(module.remote.devices) if device in used]


def role_banks(module: Module, role: str) -> list[Bank]:
    """The remote banks of a role, in the order of its manifest's arenas."""
    return sorted(bank for bank in module.arenas.totals.get(role, ()) if bank in module.remote.banks)


def manifest_name(module: Module, role: str) -> str:
    return f"@vx.manifest.{list(module.arenas.totals).index(role)}"


def _manifest(module: Module, number: int, role: str) -> list[str]:
    devices = role_devices(module, role)
    banks = role_banks(module, role)
    device_rows = []
    for index in devices:
        topology, instance = module.remote.devices[index]
        device_rows.append(
            _constant(
                "vx_device",
                name=module.string(f"{topology}[{instance}]".encode()),
                ordinal=str(instance),
                topology=str(topology_id(topology, instance)),
                counter_arena="-1",
            )
        )
    places = [module.remote.devices[index] for index in devices]
    arena_rows = [
        _constant(
            "vx_arena",
            name="",
            space=module.string(bank.space.encode()),
            device=str(places.index(module.remote.banks[bank])),
            bytes=str(module.arenas.totals[role][bank]),
        )
        for bank in banks
    ]
    empty = module.string(b"")
    manifest = _constant(
        "vx_manifest",
        abi=str(DEVICE_ABI),
        role=module.string(module.program.functions[role].name.encode()),
        isa=empty,
        artifact=empty,
        machine=empty,
        plan=empty,
        devices=f"@vx.devices.{number}",
        arenas=f"@vx.arenas.{number}",
        regions="@vx.regions",
        device_count=str(len(devices)),
        arena_count=str(len(banks)),
        region_count=str(len(module.regions)),
        staging=str(STAGING),
    )
    return [
        _array(f"@vx.devices.{number}", "vx_device", device_rows),
        _array(f"@vx.arenas.{number}", "vx_arena", arena_rows),
        f"@vx.manifest.{number} = private constant {struct_type('vx_manifest')} {manifest}",
    ]


def struct_type(name: str) -> str:
    """The LLVM type of a structure of the contract."""
    return "{ " + ", ".join(ctype.llvm for _, ctype, _ in STRUCTS[name]) + " }"


def _constant(struct: str, /, **values: str) -> str:
    """A structure; fields that are not given are zero or null."""
    parts = []
    for field_, ctype, _ in STRUCTS[struct]:
        value = values.get(field_) or ("null" if ctype.llvm == "ptr" else "0")
        parts.append(f"{ctype.llvm} {value}")
    return "{ " + ", ".join(parts) + " }"


def _array(name: str, struct: str, rows: Sequence[str]) -> str:
    kind = struct_type(struct)
    body = ", ".join(f"{kind} {row}" for row in rows)
    return f"{name} = private constant [{len(rows)} x {kind}] [{body}]"

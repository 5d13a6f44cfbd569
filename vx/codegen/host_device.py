"""What host code does with devices that are not the host: open them, copy to and from them, issue regions.

Enters: the arenas and their topologies, nodes that touch placed tensors. Leaves: calls of the plugin's entries
(`runtime/device_abi.py`). A device is *remote* if it
is a GPU, or if the build asks for the stand-in; everything else is memory of the host and needs none of this.

Work on a device is asynchronous. What the host reads next was waited for when it was copied, and what a copy or
region reads of the host's memory is waited for before the host goes on; work on devices is ordered by the plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from vx.admission.plan import Bank
from vx.codegen import host_launch
from vx.codegen.host_launch import WORD, GpuRegion
from vx.codegen.host_postfix import evaluate
from vx.codegen.layout import Size, element_bytes
from vx.codegen.llvm_text import MEMORY, Int
from vx.codegen.triton_manifest import expression
from vx.diagnostics.report import CompileError, Diagnostic, Level
from vx.kernels import ir
from vx.kernels.device import ALIGNMENT
from vx.kernels.footprint import footprints
from vx.kernels.region import (
    Binding,
    ExtentBinding,
    LoweredRegion,
    OutBinding,
    ScalarBinding,
    StrideBinding,
    TensorBinding,
)
from vx.machine.machine import GPU_ARCHES, Machine, Topology
from vx.runtime.abi import Entry
from vx.runtime.device_abi import ENTRIES as DEVICE_ENTRIES
from vx.runtime.device_abi import (
    MOVE,
    MOVE_FROM_HOST,
    MOVE_STRIDED,
    MOVE_TO_HOST,
    OPEN,
    SET_BYTES,
    SYMBOLS,
)
from vx.sema import tree

if TYPE_CHECKING:
    from vx.codegen.host_function import Emitter, View
    from vx.codegen.host_module import Module

MIN_DRIVER = "vx_gpu_min_driver"
"""A constant that the module with the table of kernels defines."""

Device = tuple[str, int]
"""A topology and an instance."""


@dataclass(frozen=True, slots=True)
class Remote:
    """The remote devices of a program, in the order of their global indices. `plugin` is `host` or `cuda`; `isa` is
    what kernels are compiled for."""

    plugin: str = ""
    devices: tuple[Device, ...] = ()
    banks: Mapping[Bank, Device] = field(default_factory=dict)
    isa: str = ""

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
    isas: set[str] = set()
    for bank in banks:
        owner = None if machine is None else machine.space_owner(bank.space)
        if owner is None or owner.name == "CPU":
            continue
        if stand_in or owner.arch in GPU_ARCHES:
            found[bank] = (owner.name, bank.instance)
            isas.add(owner.isa or "")
    if not found:
        return Remote()
    return Remote("host" if stand_in else "cuda", tuple(sorted(set(found.values()))), found, min(isas))


def gpu_at(module: Module, place: tree.Place) -> Topology | None:
    """The GPU at a place, whatever stands in for it; None if there is none."""
    machine = module.options.machine
    topology = None if machine is None else machine.topology(place.topology)
    return topology if topology is not None and topology.layer != "builtin" and topology.arch in GPU_ARCHES else None


# ---- calls -------------------------------------------------------------------------------------------
def entry(module: Module, name: str) -> str:
    """An entry of the plugin, called through its forwarder, which ends the program if it fails."""
    return _declared(module, SYMBOLS[name], DEVICE_ENTRIES[name])


def set_driver(module: Module, role: str, line: Callable[[str], None], op: Callable[[str], str]) -> None:
    """Write the oldest driver that loads the kernels into the manifest: it is known only when they are compiled."""
    if module.remote.plugin == "cuda":
        needed = op(f"load i32, ptr @{MIN_DRIVER}")
        line(f"store i32 {needed}, ptr {op(f'getelementptr inbounds i8, ptr {manifest_name(module, role)}, i64 4')}")


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
Arguments = Sequence[tuple[str, Int]]
"""What a region is given, in the order of its parameters: LLVM types and operands."""


@dataclass(frozen=True, slots=True)
class Issue:
    """A region about to be issued. `number` counts the module's device regions, `device` is the global index."""

    lowered: LoweredRegion
    number: int
    device: int
    arguments: Arguments
    node: tree.Spawn


def issue_stand_in(fn: Emitter, issue: Issue) -> None:
    """Issue a region where host code stands in: its arguments are the parameters, and it writes scalars itself."""
    kinds = ", ".join(kind_of(binding) for binding in issue.lowered.bindings)
    fn.module.declare(issue.lowered.region.name, f"declare void @{issue.lowered.region.name}({kinds}) nounwind")
    params = fn.alloca(Size(WORD * len(issue.arguments), 8))
    for number, (kind, value) in enumerate(issue.arguments):
        fn.line(f"store {kind} {value}, ptr {fn.at_offset(params, WORD * number)}")
    outs = [str(issue.arguments[number][1]) for number in _outs(issue.lowered)]
    touches = [*_whole_touches(fn, issue), *((address, WORD, True) for address in outs)]
    _run(fn, issue, params, len(issue.arguments), touches)
    for address in outs:
        fn.line(f"call i32 {entry(fn.module, 'vx_access')}(ptr {address}, i64 {WORD}, i32 0)")


def issue_gpu(fn: Emitter, issue: Issue, gpu: GpuRegion, tile: str) -> None:
    """Issue a region on a GPU; `tile` is its memory beside its tensors."""
    scalars = [n for n, param in enumerate(issue.lowered.region.params) if isinstance(param, ir.ScalarParam)]
    tensors = [n for n, param in enumerate(issue.lowered.region.params) if isinstance(param, ir.TensorParam)]
    outs = set(_outs(issue.lowered))
    block = fn.alloca(Size(WORD * max(1, len(scalars)), 8))
    values: dict[str, str] = {}
    for at, number in enumerate(scalars):
        kind, value = issue.arguments[number]
        param = gpu.region.block[at].var
        if number in outs:
            kind = MEMORY[param.type]
            value = fn.op(f"load {kind}, ptr {value}")
        fn.line(f"store i64 0, ptr {fn.at_offset(block, WORD * at)}")
        fn.line(f"store {kind} {value}, ptr {fn.at_offset(block, WORD * at)}")
        if kind[0] == "i":
            values[f"b{at}"] = _as_i64(fn, kind, value, param.type)
    code = host_launch.Code(values, count=fn.count)
    host_launch.checked(gpu, code, partial(_require, fn, code))
    fn.splice(code.lines, code.count)
    for start in range(0, WORD * len(scalars), SET_BYTES):
        size = min(SET_BYTES, WORD * len(scalars) - start)
        target, source = fn.at_offset(tile, start), fn.at_offset(block, start)
        fn.line(f"call i32 {entry(fn.module, 'vx_set')}(ptr {target}, ptr {source}, i64 {size})")
    error = fn.op(f"load ptr, ptr {error_global(issue.device)}")
    addresses = [str(issue.arguments[number][1]) for number in tensors]
    addresses += [tile, fn.at_offset(tile, gpu.scratch_at), fn.at_offset(tile, gpu.private_at)]
    addresses.append(fn.op(f"getelementptr inbounds i8, ptr {error}, i64 {4 * issue.number}"))
    params = fn.alloca(Size(WORD * (len(addresses) + len(gpu.deciding())), 8))
    for at, address in enumerate(addresses):
        fn.line(f"store ptr {address}, ptr {fn.at_offset(params, WORD * at)}")
    for at, name in enumerate(gpu.deciding(), len(addresses)):
        fn.line(f"store i64 {values[name]}, ptr {fn.at_offset(params, WORD * at)}")
    more = [(tile, gpu.bytes, True)] if gpu.bytes else []
    touches = [*_ranged_touches(fn, issue, gpu, values), *more]
    _run(fn, issue, params, len(addresses) + len(gpu.deciding()), touches)
    for at, number in enumerate(scalars):
        if number in outs:
            size = element_bytes(gpu.region.block[at].var.type)
            move = _declared(fn.module, MOVE.name, MOVE)
            there, here = issue.arguments[number][1], fn.at_offset(tile, WORD * at)
            fn.line(f"call void {move}(ptr {there}, ptr {here}, i64 {size}, i32 {MOVE_TO_HOST})")


def _outs(lowered: LoweredRegion) -> list[int]:
    return [number for number, binding in enumerate(lowered.bindings) if isinstance(binding, OutBinding)]


def _as_i64(fn: Emitter, kind: str, value: Int, type_: str) -> str:
    """An integer operand as host scalars are computed."""
    if kind == "i64":
        return str(value)
    if kind == "i128":
        return fn.op(f"trunc i128 {value} to i64")
    return fn.op(f"{'sext' if type_[0] == 'i' else 'zext'} {kind} {value} to i64")


def _require(fn: Emitter, code: host_launch.Code, holds: str, message: str) -> None:
    text = fn.module.string(message.encode())
    code.line(f"call void {fn.module.helper('require')}(i1 {holds}, ptr {text})")


def anywhere(lowered: LoweredRegion) -> frozenset[ir.BufferId]:
    """The tensors of a region that may start at any element: views, and what a reference refers to. A whole tensor
    starts where the Plan put it, at a multiple of 16 bytes."""
    bound = zip(lowered.bindings, lowered.region.params, strict=True)
    return frozenset(
        param.buffer
        for binding, param in bound
        if isinstance(binding, TensorBinding) and isinstance(param, ir.TensorParam) and not _whole(binding.place)
    )


def _whole(place: tree.PlaceNode) -> bool:
    return isinstance(place, tree.Local | tree.Field) and isinstance(place.type, tree.Tensor)


Touch = tuple[str, Int, bool]
"""Address, bytes, whether they are written."""


def _run(fn: Emitter, issue: Issue, params: str, words: int, touches: Sequence[Touch]) -> None:
    """Run a region with its footprint."""
    rows = fn.alloca(Size(24 * max(1, len(touches)), 8))
    for number, (address, size, written) in enumerate(touches):
        at = fn.at_offset(rows, 24 * number)
        fn.line(f"store ptr {address}, ptr {at}")
        fn.line(f"store i64 {size}, ptr {fn.at_offset(at, 8)}")
        fn.line(f"store i64 {int(written)}, ptr {fn.at_offset(at, 16)}")
    index = fn.op(f"load i32, ptr {device_global(issue.device)}")
    fn.line(
        f"call i32 {entry(fn.module, 'vx_run')}(i32 {issue.number}, i32 {index}, ptr {params}, i64 {WORD * words}, "
        f"ptr {rows}, i64 {len(touches)})"
    )


def _ranged_touches(fn: Emitter, issue: Issue, gpu: GpuRegion, values: Mapping[str, str]) -> Iterator[Touch]:
    """The parts of the tensors that the region touches."""
    ranges = footprints(issue.lowered.region)
    tensors = [param for param in issue.lowered.region.params if isinstance(param, ir.TensorParam)]
    elems = {buffer.id: buffer.elem for buffer in issue.lowered.region.buffers}
    for param, whole in zip(tensors, _whole_touches(fn, issue), strict=True):
        parts = ranges[param.buffer]
        if parts is None:
            yield whole
            continue
        size = element_bytes(elems[param.buffer])
        for part in parts:
            start = evaluate(expression(part.start, gpu.names), values, fn.op)
            first = fn.op(f"add i64 {fn.op(f'mul i64 {start}, {size}')}, {part.low * size}")
            address = fn.op(f"getelementptr inbounds i8, ptr {whole[0]}, i64 {first}")
            yield address, (part.high - part.low + 1) * size, part.written


def _whole_touches(fn: Emitter, issue: Issue) -> Iterator[Touch]:
    """The tensors of the region, all of each."""
    from vx.codegen.host_region import window
    from vx.codegen.host_tensor import mul, shape_of, span_of

    region = issue.lowered.region
    written = {buffer.id: buffer.written for buffer in region.buffers}
    for number, (binding, param) in enumerate(zip(issue.lowered.bindings, region.params, strict=True)):
        if not isinstance(binding, TensorBinding):
            continue
        assert isinstance(param, ir.TensorParam)
        if fn.module.remote.of(binding.place.type) != issue.device:
            message = "this region runs on another device than where a tensor that it uses is"
            raise CompileError([Diagnostic("E0902", Level.ERROR, message, issue.node.span)])
        view = window(fn, binding.place)
        size = mul(fn, span_of(fn, shape_of(view)), element_bytes(view.elem))
        yield str(issue.arguments[number][1]), size, written[param.buffer]


def error_global(device: int) -> str:
    """Where the running role keeps the address of a device's error words."""
    return f"@vx.errors.{device}"


def counters_at(regions: int) -> int:
    """Where the counters of regions are in the arena of a device: behind their error words, which are its first."""
    return -(-4 * regions // WORD) * WORD


def control_bytes(regions: int) -> int:
    """What a device's arena holds at its bottom: an error word and a counter for each region."""
    return -(-(counters_at(regions) + WORD * regions) // ALIGNMENT) * ALIGNMENT


def device_global(device: int) -> str:
    """Where the running role keeps the plugin's index of a device."""
    return f"@vx.device.{device}"


# ---- roles ---------------------------------------------------------------------------------------------
def role_devices(module: Module, role: str) -> list[int]:
    """The global indices of the devices that a role uses, in the order of its manifest."""
    used = {module.remote.banks[bank] for bank in module.arenas.totals[role] if bank in module.remote.banks}
    return [number for number, device in enumerate(module.remote.devices) if device in used]


def role_banks(module: Module, role: str) -> list[Bank]:
    """The remote banks of a role, in the order of its manifest's arenas."""
    return sorted(bank for bank in module.arenas.totals.get(role, ()) if bank in module.remote.banks)


def manifest_name(module: Module, role: str) -> str:
    return f"@vx.manifest.{list(module.arenas.totals).index(role)}"


def kind_of(binding: Binding) -> str:
    """The LLVM type of a region's argument."""
    if isinstance(binding, TensorBinding | OutBinding):
        return "ptr"
    if isinstance(binding, ExtentBinding | StrideBinding):
        return "i64"
    assert isinstance(binding, ScalarBinding) and isinstance(binding.place.type, tree.Scalar | tree.Ptr)
    kind = MEMORY[binding.place.type.name] if isinstance(binding.place.type, tree.Scalar) else "ptr"
    return "i16" if kind in ("half", "bfloat") else kind

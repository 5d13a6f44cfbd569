"""Host statements that compute with tensors, and `spawn` bodies: both become regions.

Enters: operators on tensors, reductions, products, attention, `Spawn`. Leaves: calls of regions. What is
not tensor arithmetic is evaluated before, in order, into fresh locals; the rest is one statement that
`kernels` lowers like any `spawn` body.
"""

from __future__ import annotations

import re
from dataclasses import replace

from vx.admission.plan import Kind, RegionKey
from vx.codegen import host_arena, host_device
from vx.codegen.host_caller import note_place
from vx.codegen.host_function import Emitter, InMemory, Slot, View
from vx.codegen.host_launch import GpuRegion
from vx.codegen.host_manifest import DeviceRegion
from vx.codegen.host_module import memory
from vx.codegen.host_tensor import allocate, borrowed, settle
from vx.codegen.llvm_text import Int
from vx.diagnostics.report import CompileError, Diagnostic, Help, Level
from vx.diagnostics.span import Span
from vx.kernels.region import (
    Binding,
    ExtentBinding,
    LoweredRegion,
    OutBinding,
    ScalarBinding,
    StrideBinding,
    TensorBinding,
    scratch_bytes,
)
from vx.sema import tree
from vx.sema.tree import VOID, Block, LocalDecl, PlaceNode, Ref, Scalar, StmtNode, Tensor, Type, Value

ARITHMETIC = (tree.Unary, tree.Binary, tree.Cast, tree.Math, tree.MatMul)
"""What has no storage until something stores it."""


# ---- running -----------------------------------------------------------------------------------------
def _fresh(fn: Emitter, type_: Type, slot: Slot, span: Span) -> tree.Local:
    """A new local of the host function."""
    number = len(fn.types) + 1 + max(fn.function.locals, default=0)
    fn.types[number] = type_
    fn.slots[number] = slot
    return tree.Local(type_, span, number)


def _run(fn: Emitter, stmts: tuple[StmtNode, ...], span: Span, spawn: tree.Spawn | None = None) -> None:
    """Lower statements as a region and call it, or issue it where `spawn` places it."""
    own = {i: LocalDecl(i, f"tmp{i}", type_, True, span) for i, type_ in fn.types.items()}
    function = replace(fn.function, locals={**fn.function.locals, **own})
    block = Block(stmts, None, VOID, span)
    words = re.sub(r"\W+", "_", fn.function.name)
    name = f"vx_region_{len(fn.module.regions)}_{words}"
    lowered = fn.module.options.lower(fn.module.program, function, block, name)
    fn.module.regions.append(lowered)
    gpu = None
    if spawn is not None:
        part = host_device.gpu_at(fn.module, spawn.place)
        gpu = None if part is None else fn.module.gpu_form(lowered, part.isa or "")
        scratch = scratch_bytes(lowered.region) if gpu is None else gpu.bytes
        fn.module.scratch[RegionKey(fn.function.key, span)] = scratch
    note_place(fn, span)
    device = None if spawn is None else fn.module.remote.device(spawn.place)
    if spawn is None or device is None:
        _call(fn, lowered)
    else:
        _issue(fn, lowered, gpu, spawn, device)


def _issue(fn: Emitter, lowered: LoweredRegion, gpu: GpuRegion | None, spawn: tree.Spawn, device: int) -> None:
    """Issue a region on a remote device: its kernels, or where host code stands in, that."""
    arguments = [_argument(fn, binding) for binding in lowered.bindings]
    issue = host_device.Issue(lowered, len(fn.module.device_regions), device, arguments, spawn)
    if gpu is None or fn.module.remote.plugin == "host":
        fn.module.device_regions.append(DeviceRegion(lowered, None))
        host_device.issue_stand_in(fn, issue)
        return
    fn.module.device_regions.append(DeviceRegion(lowered, gpu))
    tile = host_arena.tile(fn, spawn, 0, Kind.SCRATCH) if gpu.bytes else "null"
    assert tile is not None, "the memory of a GPU is planned"
    host_device.issue_gpu(fn, issue, gpu, tile)


def _call(fn: Emitter, lowered: LoweredRegion) -> None:
    arguments = [_argument(fn, binding) for binding in lowered.bindings]
    name = lowered.region.name
    types = ", ".join(kind for kind, _ in arguments)
    fn.module.declare(name, f"declare void @{name}({types}) nounwind")
    fn.line(f"call void @{name}({', '.join(f'{kind} {value}' for kind, value in arguments)})")


def _argument(fn: Emitter, binding: Binding) -> tuple[str, Int]:
    match binding:
        case TensorBinding(place=place):
            return "ptr", window(fn, place).data
        case ExtentBinding(place=place, axis=axis):
            return "i64", window(fn, place).extents[axis]
        case StrideBinding(place=place, axis=axis):
            return "i64", window(fn, place).strides[axis]
        case OutBinding(place=place):
            return "ptr", fn.address(place)
        case ScalarBinding(place=place):
            value = fn.held(place)
            assert isinstance(value, str)
            kind = memory(place.type)
            if kind in ("half", "bfloat"):
                return "i16", fn.op(f"bitcast {kind} {value} to i16")
            return kind, fn.in_memory(value, place.type)


def window(fn: Emitter, place: PlaceNode) -> View:
    """The settled window of a tensor place, or of what a place of type `Ref(Tensor)` refers to."""
    if isinstance(place.type, Ref):
        result = fn.held(place)
        assert isinstance(result, View)
        return result
    return settle(fn, fn.tensor_place(place), place.span)


# ---- hoisting ----------------------------------------------------------------------------------------
def _operand(fn: Emitter, node: Value) -> Value:
    """An operand with everything but tensor arithmetic evaluated into locals."""
    if isinstance(node.type, Scalar):
        return _scalar(fn, node)
    if isinstance(node, tree.AddrOf):
        return replace(node, place=_place(fn, node.place))
    if isinstance(node, tree.Read) and not node.move:
        return replace(node, place=_place(fn, node.place))
    if isinstance(node, ARITHMETIC) and isinstance(node.type, Tensor):
        return _arithmetic(fn, node)
    view = borrowed(fn, node)
    type_ = node.type if isinstance(node.type, Ref) else Ref(node.type, False)
    return _read(_fresh(fn, type_, view, node.span))


def _read(local: tree.Local) -> tree.Read:
    return tree.Read(local.type, local.span, local, False)


def _arithmetic(fn: Emitter, node: Value) -> Value:
    match node:
        case tree.Binary(left=left, right=right) | tree.MatMul(left=left, right=right):
            first = _operand(fn, left)
            return replace(node, left=first, right=_operand(fn, right))
        case tree.Unary(operand=operand) | tree.Cast(operand=operand):
            return replace(node, operand=_operand(fn, operand))
        case tree.Math(args=args) | tree.Reduce(args=args):
            return replace(node, args=tuple(_operand(fn, arg) for arg in args))
    raise AssertionError(node)


def _scalar(fn: Emitter, node: Value) -> Value:
    """A scalar operand: a constant or a local."""
    if isinstance(node, tree.Const):
        return node
    if isinstance(node, tree.Read) and isinstance(node.place, tree.Local):
        return node
    return _read(_fresh(fn, node.type, fn.scalar(node), node.span))


def _place(fn: Emitter, node: PlaceNode) -> PlaceNode:
    """A place whose indices are constants or locals and that needs no evaluation of its own."""
    match node:
        case tree.Local() | tree.ModelTensor():
            return node
        case tree.Field(base=base):
            return replace(node, base=_place(fn, base))
        case tree.Deref(ref=tree.Read(place=place, move=False) as ref) if isinstance(ref.type, Ref):
            return replace(node, ref=replace(ref, place=_place(fn, place)))
        case tree.Deref(ref=tree.AddrOf(place=place) as ref):
            return replace(node, ref=replace(ref, place=_place(fn, place)))
        case tree.Index(base=base, indices=indices) if not fn.is_raw_index(node):
            return replace(node, base=_place(fn, base), indices=tuple(_index(fn, i) for i in indices))
        case tree.Reshape(base=base, dims=dims):
            return replace(node, base=_place(fn, base), dims=tuple(_scalar(fn, d) for d in dims))
        case tree.Transpose(base=base):
            return replace(node, base=_place(fn, base))
    return _evaluated(fn, node)


def _index(fn: Emitter, item: tree.At | tree.Slice) -> tree.At | tree.Slice:
    if isinstance(item, tree.At):
        return tree.At(_scalar(fn, item.index))
    low = _scalar(fn, item.low)
    return tree.Slice(low, _scalar(fn, item.high))


def _evaluated(fn: Emitter, node: PlaceNode) -> PlaceNode:
    """A place that only host code can reach (behind a raw pointer, a temporary, bytes) as a local."""
    if isinstance(node.type, Tensor) or (isinstance(node.type, Ref) and isinstance(node.type.to, Tensor)):
        type_ = node.type if isinstance(node.type, Ref) else Ref(node.type, True)
        local = _fresh(fn, type_, window(fn, node), node.span)
        return local if isinstance(node.type, Ref) else tree.Deref(node.type, node.span, _read(local))
    return _fresh(fn, node.type, InMemory(fn.address(node)), node.span)


# ---- results -----------------------------------------------------------------------------------------
def _extents(fn: Emitter, node: Value) -> list[Int]:
    """Extents of a hoisted tensor expression; what its type says is not computed."""
    tensor = node.type.to if isinstance(node.type, Ref) else node.type
    assert isinstance(tensor, Tensor)
    if all(isinstance(dim, int) for dim in tensor.dims):
        return [dim for dim in tensor.dims if isinstance(dim, int)]
    known = _operand_extents(fn, node)
    return [dim if isinstance(dim, int) else extent for dim, extent in zip(tensor.dims, known, strict=True)]


def _operand_extents(fn: Emitter, node: Value) -> list[Int]:
    match node:
        case tree.MatMul(left=left, right=right):
            rows, columns = _extents(fn, left), _extents(fn, right)
            return [*rows[:-1], *columns[1:]]
        case tree.Binary(left=left, right=right):
            return _extents(fn, right if isinstance(left.type, Scalar) else left)
        case tree.Unary(operand=operand) | tree.Cast(operand=operand):
            return _extents(fn, operand)
        case tree.Math(args=args):
            return _extents(fn, next(a for a in args if not isinstance(a.type, Scalar)))
        case tree.Read(place=place) | tree.AddrOf(place=place):
            return list(window(fn, place).extents)
    raise AssertionError(node)


def compute(fn: Emitter, node: Value) -> View:
    """An operator on tensors as a new owned tensor."""
    assert isinstance(node.type, Tensor)
    with fn.scope():
        value = _arithmetic(fn, node)
        result = allocate(fn, node, _extents(fn, value))
        target = _fresh(fn, node.type, result, node.span)
        _run(fn, (tree.Assign(node.span, target, value),), node.span)
    return result


def reduce(fn: Emitter, node: tree.Reduce) -> str:
    """`dot`, `sum`, `max`, `min` as a scalar."""
    with fn.scope():
        value = _arithmetic(fn, node)
        address = fn.storage(node.type)
        target = _fresh(fn, node.type, InMemory(address), node.span)
        _run(fn, (tree.Assign(node.span, target, value),), node.span)
    result = fn.load(node.type, address)
    assert isinstance(result, str)
    return result


def assign_computed(fn: Emitter, node: tree.Assign | tree.OpAssign) -> None:
    """`target = expression`, `target += expression` on a tensor's elements."""
    value = _operand(fn, node.value)
    _run(fn, (replace(node, target=_place(fn, node.target), value=value),), node.span)


def run_statement(fn: Emitter, node: tree.MatMulInto | tree.Attention) -> None:
    """A statement whose operands are borrows and scalars."""
    out = _operand(fn, node.out)
    if isinstance(node, tree.MatMulInto):
        left = _operand(fn, node.left)
        _run(fn, (replace(node, out=out, left=left, right=_operand(fn, node.right)),), node.span)
        return
    q, k, v = _operand(fn, node.q), _operand(fn, node.k), _operand(fn, node.v)
    scale = _operand(fn, node.scale)
    first = None if node.first is None else _operand(fn, node.first)
    _run(fn, (replace(node, out=out, q=q, k=k, v=v, scale=scale, first=first),), node.span)


# ---- spawn -------------------------------------------------------------------------------------------
def spawn_into(fn: Emitter, node: tree.Spawn, address: str | None) -> None:
    body = node.body
    if body.value is None or address is None:
        stmts = body.stmts if body.value is None else (*body.stmts, tree.ExprStmt(body.span, body.value))
        _run(fn, stmts, node.span, node)
        return
    if isinstance(node.type, Tensor):
        result = _spawned_tensor(fn, node, node.type)
        fn.store(result, node.type, address)
        return
    target = _fresh(fn, node.type, InMemory(address), node.span)
    _run(fn, (*body.stmts, tree.Assign(body.span, target, body.value)), node.span, node)


def _spawned_tensor(fn: Emitter, node: tree.Spawn, type_: Tensor) -> View:
    extents: list[Int] = [dim for dim in type_.dims if isinstance(dim, int)]
    if len(extents) != len(type_.dims):
        message = "a region cannot yield a tensor whose extents are known only at run time"
        help_text = "allocate the tensor before the region and assign to it inside"
        raise CompileError([Diagnostic("E0902", Level.ERROR, message, node.span, helps=(Help(help_text),))])
    result = allocate(fn, node, extents)
    target = _fresh(fn, type_, result, node.span)
    assert node.body.value is not None
    _run(fn, (*node.body.stmts, tree.Assign(node.body.span, target, node.body.value)), node.span, node)
    return result

"""Places of the typed tree as abstract values: which buffer, which window, which scalar."""

from __future__ import annotations

from vx.diagnostics.span import Span
from vx.kernels import affine, bounds, exprs, ir
from vx.kernels.lowering import Captured, Cell, Lowering, Number, Record, Rows, Val, View, dense_strides
from vx.sema import tree


def place(lo: Lowering, node: tree.PlaceNode) -> Val:  # noqa: C901 (one arm per kind of place)
    """What a place denotes. An element of a tensor is a rank-0 `View`."""
    match node:
        case tree.Local(id=i):
            frame = lo.frame
            if i not in frame.env:
                assert frame.captures, f"local {i} of {frame.function.key} has no value"
                return lo.capture(node)
            return frame.env[i]
        case tree.ModelTensor():
            return lo.capture(node)
        case tree.Field(base=base, index=index):
            return _field(lo, node, place(lo, base), index)
        case tree.Deref(ref=ref):
            return _deref(lo, exprs.value(lo, ref))
        case tree.Temp(value=inner):
            return exprs.stored(lo, exprs.value(lo, inner), "temp")
        case tree.Index(base=base, indices=indices):
            return _index(lo, node, view_of(lo, base), indices)
        case tree.Reshape(base=base, dims=dims):
            return _reshape(lo, view_of(lo, base), tuple(exprs.index(lo, d) for d in dims), node.span)
        case tree.Transpose(base=base):
            v = view_of(lo, base)
            return View(v.buffer, v.elem, v.offset, v.extents[::-1], v.strides[::-1])
        case tree.Bytes():
            lo.refuse("viewing a tensor as bytes", node.span, "take the bytes outside the region")
            raise AssertionError


def view_of(lo: Lowering, node: tree.PlaceNode) -> View:
    """The window that a tensor place denotes."""
    result = exprs.stored(lo, place(lo, node), "temp")
    assert isinstance(result, View), f"{type(result).__name__} where a tensor place was expected"
    return result


def _field(lo: Lowering, node: tree.Field, base: Val, index: int) -> Val:
    match base:
        case Record(fields=fields):
            return fields[index]
        case Captured(place=p):
            return lo.capture(tree.Field(node.type, node.span, p, index))
        case _:
            lo.refuse("this struct value", node.span, "pass its fields instead")
            raise AssertionError


def _deref(lo: Lowering, ref: Val) -> Val:
    """References are the things they refer to; a captured one is looked through on the host's side."""
    if not isinstance(ref, Captured):
        return ref
    p = ref.place
    if isinstance(p.type, tree.Ref):
        return lo.capture(tree.Deref(p.type.to, p.span, tree.Read(p.type, p.span, p, move=False)))
    if isinstance(p.type, tree.Ptr):
        lo.refuse("a raw pointer", p.span, "pass a tensor")
    return ref


def _index(lo: Lowering, node: tree.Index, view: View, indices: tuple[tree.At | tree.Slice, ...]) -> View:
    offset = view.offset
    kept = node.type.dims if isinstance(node.type, tree.Tensor) else ()
    extents: list[ir.Affine] = []
    strides: list[ir.Affine] = []
    for axis, item in enumerate(indices):
        extent, stride = view.extents[axis], view.strides[axis]
        if isinstance(item, tree.At):
            at = exprs.index(lo, item.index)
            offset = affine.add(offset, affine.times(at, stride))
            if lo.checks_dimensions(view.buffer):
                _require_within(lo, at, extent, node.span)
            continue
        low, length = _range(lo, item, kept[len(extents)])
        bounds.require_slice(lo, low, affine.add(low, length), extent, node.span)
        offset = affine.add(offset, affine.times(low, stride))
        extents.append(length)
        strides.append(stride)
    rest = len(indices)
    result = View(view.buffer, view.elem, offset, (*extents, *view.extents[rest:]), (*strides, *view.strides[rest:]))
    if not lo.checks_dimensions(view.buffer) and any(isinstance(i, tree.At) for i in indices):
        _require_window(lo, result, node.span)
    return result


def _range(lo: Lowering, item: tree.Slice, dim: tree.Dim) -> tuple[ir.Affine, ir.Affine]:
    """Where a slice starts and how long it is; the type knows the length where both ends move together, and
    else, perhaps, its bound."""
    low = exprs.index(lo, item.low)
    if isinstance(dim, int):
        return low, affine.const(dim)
    length = affine.sub(exprs.index(lo, item.high), low)
    if dim.bound is not None:
        lo.limits[length] = max(dim.bound, lo.limits.get(length, 0))
    return low, length


def _require_within(lo: Lowering, at: ir.Affine, extent: ir.Affine, span: Span) -> None:
    message = f"index out of range at {lo.where(span)}"
    bounds.require(lo, at, message)
    bounds.require(lo, affine.add(affine.sub(extent, at), bounds.MINUS_ONE), message)


def _require_window(lo: Lowering, view: View, span: Span) -> None:
    """The whole window lies within its tensor, so that every element of it does."""
    message = f"index out of range at {lo.where(span)}"
    last = view.offset
    for extent, stride in zip(view.extents, view.strides, strict=True):
        last = affine.add(last, affine.times(affine.add(extent, bounds.MINUS_ONE), stride))
    bounds.require(lo, view.offset, message)
    bounds.require(lo, affine.add(affine.sub(lo.lengths[view.buffer], last), bounds.MINUS_ONE), message)


def _reshape(lo: Lowering, view: View, dims: tuple[ir.Affine, ...], span: Span) -> View:
    where = lo.where(span)
    expected = dense_strides(view.extents)
    for extent, stride, dense in zip(view.extents, view.strides, expected, strict=True):
        if stride != dense and extent != affine.const(1):
            bounds.require_equal(lo, stride, dense, "reshape of a view with gaps", span)
    have, want = affine.const(1), affine.const(1)
    for e in view.extents:
        have = affine.times(have, e)
    for d in dims:
        want = affine.times(want, d)
    bounds.require(lo, affine.sub(have, want), f"reshape to more elements at {where}")
    bounds.require(lo, affine.sub(want, have), f"reshape to fewer elements at {where}")
    return View(view.buffer, view.elem, view.offset, dims, dense_strides(dims))


def assign(lo: Lowering, target: tree.PlaceNode, value: ir.Expr) -> None:
    """Store a scalar to a place."""
    match _target(lo, target):
        case Cell(var=v):
            lo.emit(ir.Set(v, value))
        case View() as view:
            lo.emit(ir.Store(view.buffer, view.offset, value))
        case _:
            lo.refuse("assigning here", target.span, "declare it `let mut` inside the region, or use a tensor element")


def _target(lo: Lowering, target: tree.PlaceNode) -> Val:
    """A scalar place about to be written; a captured one becomes an output of the region."""
    found = place(lo, target)
    if not isinstance(found, Number):
        return found
    host = _host_place(lo, target)
    return lo.capture_cell(host) if host is not None else found


def _host_place(lo: Lowering, target: tree.PlaceNode) -> tree.PlaceNode | None:
    """The place of the host function that `target` denotes, if it is one."""
    match target:
        case tree.Local(id=i) if lo.frame.captures and i not in lo.frame.env:
            return target
        case tree.Field(base=base, index=index):
            inner = place(lo, base)
            if isinstance(inner, Captured):
                return tree.Field(target.type, target.span, inner.place, index)
        case tree.Deref(ref=ref):
            inner = exprs.value(lo, ref)
            if isinstance(inner, Captured) and isinstance(inner.place.type, tree.Ref):
                read = tree.Read(inner.place.type, target.span, inner.place, move=False)
                return tree.Deref(target.type, target.span, read)
    return None


def scalar_reference(lo: Lowering, node: tree.PlaceNode, mutable: bool) -> Val:
    """`&x` or `&mut x`: the place itself; a captured scalar borrowed mutably becomes an output."""
    found = place(lo, node)
    if mutable and isinstance(found, Number):
        return _target(lo, node)
    return found


def rows_of(lo: Lowering, found: Val) -> View | Rows:
    assert isinstance(found, View | Rows), f"{type(found).__name__} where a tensor was expected"
    return found

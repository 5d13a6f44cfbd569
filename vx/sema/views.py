"""Views of tensors: indexing, slices, reshape, transpose, bytes.

Enters: index expressions and the methods that give another view. Leaves: places, with static extents
wherever they can be known. Constant indices out of range are refused here, the others checked when running.
"""

from __future__ import annotations

from math import prod

from vx.sema import bounds, constants, expressions, fields, linear, placement, resolve, tree
from vx.sema.context import Body
from vx.sema.types import INTEGERS, is_integer, show, show_dims
from vx.syntax import ast

_VIEW_METHODS = frozenset({"reshape", "t", "bytes", "bytes_mut"})


# ---- indexing ----------------------------------------------------------------------------------
def index(body: Body, node: ast.Index) -> tree.PlaceNode:
    """`t[i, a..b]` or `p[i]`. Errors: E3007, E3012, E5001, E7003, E7004."""
    base = expressions.through_refs(expressions.place(body, node.receiver))
    if isinstance(base.type, tree.Ptr):
        return _pointer_index(body, node, base)
    if not isinstance(base.type, tree.Tensor):
        message = f"{show(base.type)} cannot be indexed"
        helps = ["a `Vec` is read with `.get(i)` and changed with `.set(i, x)`"] if _is_vec(base.type) else []
        raise body.fail("E3012", message, node.span, helps=helps)
    rank = len(base.type.dims)
    if len(node.indices) > rank:
        extra = node.indices[rank]
        message = f"this tensor has {_dimensions(rank)}, and there are {len(node.indices)} indices"
        raise body.fail("E7004", message, extra.span, notes=[f"its type is {show(base.type)}"])
    items = tuple(_item(body, one, base, axis) for axis, one in enumerate(node.indices))
    return indexed(base, items, node)


def _is_vec(type_: tree.Type) -> bool:
    return isinstance(type_, tree.Struct) and type_.key.startswith("Vec<")


def _dimensions(rank: int) -> str:
    return "1 dimension" if rank == 1 else f"{rank} dimensions"


def indexed(
    base: tree.PlaceNode, items: tuple[tuple[tree.At | tree.Slice, tree.Dim | None], ...], node: ast.Node
) -> tree.Index:
    """The place `base[items]`; directly nested element steps become one."""
    assert isinstance(base.type, tree.Tensor)
    kept = tuple(dim for _, dim in items if dim is not None)
    dims = (*kept, *base.type.dims[len(items) :])
    indices = tuple(item for item, _ in items)
    type_: tree.Type = tree.Tensor(base.type.elem, dims, base.type.place) if dims else tree.Scalar(base.type.elem)
    if (
        isinstance(base, tree.Index)
        and not expressions.is_raw(base)
        and all(isinstance(i, tree.At) for i in base.indices)
    ):
        return tree.Index(type_, node.span, base.base, (*base.indices, *indices))
    return tree.Index(type_, node.span, base, indices)


def _pointer_index(body: Body, node: ast.Index, base: tree.PlaceNode) -> tree.Index:
    fields.require_unsafe(body, node)
    if len(node.indices) != 1 or isinstance(node.indices[0], ast.Range):
        raise body.fail("E7004", "a raw pointer takes one index", node.span)
    pointer = tree.Read(base.type, base.span, base, move=False)
    assert isinstance(base.type, tree.Ptr)
    at = tree.At(_integer(body, node.indices[0]))
    return tree.Index(base.type.to, node.span, tree.Deref(base.type.to, base.span, pointer), (at,))


def _item(body: Body, node: ast.Expr, base: tree.PlaceNode, axis: int) -> tuple[tree.At | tree.Slice, tree.Dim | None]:
    """One index, and the extent it keeps (None: it drops the dimension)."""
    assert isinstance(base.type, tree.Tensor)
    extent = base.type.dims[axis]
    if isinstance(node, ast.Range):
        return _slice(body, node, base, axis)
    at = _integer(body, node)
    if isinstance(at, tree.Const) and isinstance(extent, int) and not 0 <= at.value < extent:
        message = f"index {at.value} is out of range: this dimension has extent {extent}"
        raise body.fail("E7003", message, node.span, notes=[f"the tensor is {show_dims(base.type.dims)}"])
    return tree.At(at), None


def _integer(body: Body, node: ast.Expr, exact: bool = False) -> tree.Value:
    """An index, of any integer type; with `exact`, a constant may be larger than its type holds. Error: E3007."""
    value = expressions.unchecked(body, node) if exact else expressions.value(body, node)
    if isinstance(value.type, tree.Ref) and is_integer(value.type.to):
        value = tree.Read(value.type.to, value.span, expressions.deref(value), move=False)
    if not is_integer(value.type) and not isinstance(value.type, tree.Never):
        helps = ["convert it: `… as i32`"] if isinstance(value.type, tree.Scalar) else []
        raise body.fail("E3007", f"an index is an integer, and this is {show(value.type)}", node.span, helps=helps)
    return value


def _slice(body: Body, node: ast.Range, base: tree.PlaceNode, axis: int) -> tuple[tree.Slice, tree.Dim]:
    assert isinstance(base.type, tree.Tensor)
    extent = base.type.dims[axis]
    low = tree.Const(tree.I64, node.span, 0) if node.low is None else _integer(body, node.low)
    high = _whole(base, axis, node) if node.high is None else _integer(body, node.high)
    _check_range(body, node, low, high, extent)
    length = linear.difference(high, low)
    if length is None:
        return tree.Slice(low, high), tree.Dyn(_longest(body, low, high, extent))
    if length < 0:
        raise body.fail("E7003", f"this range ends {-length} before it starts", node.span)
    if isinstance(extent, int) and length > extent:
        message = f"this range has {length} elements, and the dimension has extent {extent}"
        raise body.fail("E7003", message, node.span)
    return tree.Slice(low, high), length


def _longest(body: Body, low: tree.Value, high: tree.Value, extent: tree.Dim) -> int | None:
    """The most elements that a range of a dimension has, if that is known."""
    most = [extent if isinstance(extent, int) else extent.bound, bounds.longest(low, high, body.bounds)]
    return min((one for one in most if one is not None), default=None)


def _whole(base: tree.PlaceNode, axis: int, node: ast.Range) -> tree.Value:
    assert isinstance(base.type, tree.Tensor)
    extent = base.type.dims[axis]
    if isinstance(extent, int):
        return tree.Const(tree.I64, node.span, extent)
    return tree.Extent(tree.I64, node.span, expressions.borrow(base), axis)


def _check_range(body: Body, node: ast.Range, low: tree.Value, high: tree.Value, extent: tree.Dim) -> None:
    if isinstance(low, tree.Const) and low.value < 0:
        raise body.fail("E7003", f"a range cannot start at {low.value}", node.span)
    if isinstance(high, tree.Const) and isinstance(extent, int) and high.value > extent:
        message = f"a range up to {high.value} is out of range: this dimension has extent {extent}"
        raise body.fail("E7003", message, node.span)


def check_element_use(body: Body, place: tree.PlaceNode) -> None:
    """E6003 if `place` is an element of a tensor that code here may not read."""
    if isinstance(place, tree.Index) and not isinstance(place.type, tree.Tensor):
        placement.check_use(body, place.base.type, place.span, place.base)


# ---- other views -------------------------------------------------------------------------------
def method_place(body: Body, node: ast.MethodCall) -> tree.PlaceNode | None:
    """`t.reshape([..])`, `t.t()`, `t.bytes()`; None if it is not one of them on a tensor."""
    if node.name not in _VIEW_METHODS:
        return None
    base = expressions.through_refs(expressions.place(body, node.receiver))
    if not isinstance(base.type, tree.Tensor):
        return None
    if node.name == "reshape":
        return _reshape(body, node, base)
    if node.args:
        raise body.fail("E3008", f"`.{node.name}()` takes no arguments", node.args[0].span)
    if node.name == "t":
        return _transpose(body, node, base)
    return _bytes(body, node, base)


def _transpose(body: Body, node: ast.MethodCall, base: tree.PlaceNode) -> tree.Transpose:
    assert isinstance(base.type, tree.Tensor)
    if len(base.type.dims) != 2:
        message = f"`.t()` is for tensors of rank 2, and this has {_dimensions(len(base.type.dims))}"
        raise body.fail("E7004", message, node.span)
    type_ = tree.Tensor(base.type.elem, base.type.dims[::-1], base.type.place)
    return tree.Transpose(type_, node.span, base)


def _bytes(body: Body, node: ast.MethodCall, base: tree.PlaceNode) -> tree.Bytes:
    assert isinstance(base.type, tree.Tensor)
    placement.check_use(body, base.type, node.span, base)
    _require_contiguous(body, node, base)
    most = [d if isinstance(d, int) else d.bound for d in base.type.dims]
    known = [m for m in most if m is not None]
    bound = None if len(known) < len(most) else -(-prod(known) * max(8, tree.BITS[base.type.elem]) // 8)
    return tree.Bytes(tree.Tensor("u8", (tree.Dyn(bound),), base.type.place), node.span, base)


def _reshape(body: Body, node: ast.MethodCall, base: tree.PlaceNode) -> tree.Reshape:
    """Errors: E3008 unless it has one list, E7007 if the number of elements changes."""
    assert isinstance(base.type, tree.Tensor)
    if len(node.args) != 1 or not isinstance(node.args[0], ast.ArrayLit):
        raise body.fail("E3008", "`.reshape` takes one list of extents", node.span, helps=["write `.reshape([2, 3])`"])
    _require_contiguous(body, node, base)
    values, dims = extents(body, node.args[0].items)
    resolve.check_shape(body.session, base.type.elem, dims, node.args[0].span)
    if all(isinstance(d, int) for d in (*dims, *base.type.dims)):
        have, want = (prod(d for d in ds if isinstance(d, int)) for ds in (base.type.dims, dims))
        if have != want:
            message = f"{show_dims(base.type.dims)} has {have} elements, and {show_dims(dims)} has {want}"
            raise body.fail("E7007", message, node.args[0].span)
    type_ = tree.Tensor(base.type.elem, dims, base.type.place)
    return tree.Reshape(type_, node.span, base, values)


def extents(body: Body, items: tuple[ast.Expr, ...]) -> tuple[tuple[tree.Value, ...], tuple[tree.Dim, ...]]:
    """Extents written as expressions: their i64 values, and as dimensions of the type."""
    values: list[tree.Value] = []
    dims: list[tree.Dim] = []
    for item in items:
        value = _integer(body, item, exact=True)
        constant = known_constant(body, value)
        if constant is not None:
            at = tree.Const(tree.I64, item.span, constant)
            values.append(at)
            dims.append(constants.checked_dimension(body.session, at, item.span))
            continue
        values.append(value if value.type == tree.I64 else tree.Cast(tree.I64, item.span, value))
        dims.append(tree.Dyn(bounds.most(value, body.bounds)))
    return tuple(values), tuple(dims)


def known_constant(body: Body, value: tree.Value) -> int | None:
    """The number that an integer value always is: a constant, or an immutable local bound to one."""
    if isinstance(value, tree.Read) and isinstance(value.place, tree.Local):
        value = body.known.get(value.place.id, value)
    if isinstance(value, tree.Const) and isinstance(value.type, tree.Scalar) and value.type.name in INTEGERS:
        return int(value.value)
    return None


def _require_contiguous(body: Body, node: ast.MethodCall, base: tree.PlaceNode) -> None:
    """E7008 if the elements are known not to lie next to each other."""
    gap = _gap(base)
    if gap is not None:
        message = f"`.{node.name}` needs elements that lie next to each other, and {gap}"
        raise body.fail("E7008", message, node.span, helps=["make a copy first: `.copy()`"])


def _gap(place: tree.PlaceNode) -> str | None:
    if isinstance(place, tree.Transpose):
        return "a transposed view has gaps"
    if not isinstance(place, tree.Index) or not isinstance(place.base.type, tree.Tensor):
        return None
    kept = False
    for axis, item in enumerate(place.indices):
        extent = place.base.type.dims[axis]
        length = linear.difference(item.high, item.low) if isinstance(item, tree.Slice) else 1
        if kept and length != extent:
            return "this slice leaves gaps"
        kept = kept or length != 1
    return _gap(place.base)

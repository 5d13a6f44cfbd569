"""Making tensors, and the methods that tensors have."""

from __future__ import annotations

from collections.abc import Iterator

from vx.sema import builtins, calls, convert, expressions, operators, placement, regions, resolve, tree, views
from vx.sema.context import Body
from vx.sema.names import did_you_mean
from vx.sema.types import is_integer, show, show_dims
from vx.syntax import ast

_OWN_METHODS = ("extent", "copy", "reshape", "t", "bytes", "bytes_mut", "topology", "as_ptr", "as_mut_ptr",
                "to_host", "to_device", "with_memory")  # fmt: skip


# ---- constructors ------------------------------------------------------------------------------
def constructor(body: Body, node: ast.TensorCtor, expected: tree.Type | None) -> tree.Value:
    """`Tensor<…>::new()`, `::uninit()`, `::fill(v)`, `Tensor<…>([[…]])`. Errors: E3003, E3008, E7004, E7009."""
    elem = resolve.element_type(body.session, body.type_env, node.type.elem)
    place = resolve.written_place(body.session, body.type_env, node.type, elem)
    if node.kind == "literal":
        return _literal(body, node, elem, place)
    dims, extents = _shape(body, node, expected)
    resolve.check_shape(body.session, elem, dims, node.span)
    return _new(body, node, tree.Tensor(elem, dims, place), node.kind, extents)


def new(body: Body, node: ast.Call, type_: tree.Tensor, kind: str) -> tree.Value:
    """`Name::new()`, `::uninit()`, `::fill(v)` where `type Name = Tensor<…>;`. Errors: E3003, E3008, E7004."""
    extents = _static(type_.dims, node)
    if len(extents) != len(type_.dims):
        helps = ["write the whole type, with the expression that gives the extent"]
        raise body.fail("E7004", f"a new tensor needs its extents, and this is {show(type_)}", node.span, helps=helps)
    return _new(body, node, type_, kind, extents)


def _new(
    body: Body, node: ast.TensorCtor | ast.Call, type_: tree.Tensor, kind: str, extents: tuple[tree.Value, ...]
) -> tree.Value:
    calls.check_count(body, f"::{kind}", 1 if kind == "fill" else 0, node.args, node.span)
    fill = None
    if kind == "fill":
        want = convert.Want(tree.Scalar(type_.elem), "E3003", "the elements are")
        fill = convert.check(body, node.args[0], want)
    return tree.TensorNew(type_, node.span, "zero" if kind == "new" else kind, fill, extents)


def _shape(
    body: Body, node: ast.TensorCtor, expected: tree.Type | None
) -> tuple[tuple[tree.Dim, ...], tuple[tree.Value, ...]]:
    """The extents of a new tensor; those not constant are computed when running."""
    if node.type.dims is None:
        if isinstance(expected, tree.Tensor) and all(isinstance(d, int) for d in expected.dims):
            return expected.dims, _static(expected.dims, node)
        message = "this tensor has no shape"
        raise body.fail("E7004", message, node.span, helps=["write one: `Tensor<f32, [2, 3]>::new()`"])
    items = []
    for dim in node.type.dims:
        if dim is None:
            message = "a new tensor needs its extents: `?` says nothing"
            raise body.fail("E7004", message, node.type.span, helps=["write the expression that gives the extent"])
        items.append(dim)
    extents, dims = views.extents(body, tuple(items))
    return dims, extents


def _static(dims: tuple[tree.Dim, ...], node: ast.Node) -> tuple[tree.Value, ...]:
    return tuple(tree.Const(tree.I64, node.span, d) for d in dims if isinstance(d, int))


def _literal(body: Body, node: ast.TensorCtor, elem: str, place: tree.Place | None) -> tree.Value:
    """From contents, or, with no shape in the type and a flat list of integers, from a shape."""
    if len(node.args) != 1 or not isinstance(node.args[0], ast.ArrayLit):
        message = "a tensor is made from one list"
        raise body.fail("E3008", message, node.span, helps=["write `Tensor<f32>([[1.0, 2.0], [3.0, 4.0]])`"])
    contents = node.args[0]
    if node.type.dims is None and _is_shape(body, contents):
        extents, dims = views.extents(body, contents.items)
        resolve.check_shape(body.session, elem, dims, node.span)
        return tree.TensorNew(tree.Tensor(elem, dims, place), node.span, "zero", None, extents)
    dims = _nesting(body, contents)
    resolve.check_shape(body.session, elem, dims, node.span)
    if node.type.dims is not None:
        declared = resolve.tensor_type(body.session, body.type_env, node.type)
        if not all(isinstance(d, tree.Dyn) or d == have for d, have in zip(declared.dims, dims, strict=False)) or len(
            declared.dims
        ) != len(dims):
            message = f"the type says {show_dims(declared.dims)}, and the contents are {show_dims(dims)}"
            raise body.fail("E7009", message, contents.span)
    want = convert.Want(tree.Scalar(elem), "E3003", "the elements are")
    items = tuple(convert.check(body, item, want) for item in _leaves(contents))
    type_ = tree.Tensor(elem, dims, place)
    return tree.TensorNew(type_, node.span, "items", None, _static(dims, node), items)


def _is_shape(body: Body, contents: ast.ArrayLit) -> bool:
    """Whether a list without a shape in the type gives extents: flat, and all of it integers."""
    if not contents.items or any(isinstance(item, ast.ArrayLit) for item in contents.items):
        return False
    return all(is_integer(expressions.unchecked(body, item).type) for item in contents.items)


def _nesting(body: Body, contents: ast.ArrayLit) -> tuple[int, ...]:
    """The shape of nested lists. Error: E7009 if they are ragged."""
    if not contents.items:
        return (0,)
    shapes = [_nesting(body, item) if isinstance(item, ast.ArrayLit) else () for item in contents.items]
    for item, shape in zip(contents.items, shapes, strict=True):
        if shape != shapes[0]:
            message = f"the rows differ: {show_dims(shapes[0]) if shapes[0] else 'a number'} and "
            message += show_dims(shape) if shape else "a number"
            raise body.fail("E7009", message, item.span)
    return (len(contents.items), *shapes[0])


def _leaves(contents: ast.ArrayLit) -> Iterator[ast.Expr]:
    for item in contents.items:
        if isinstance(item, ast.ArrayLit):
            yield from _leaves(item)
        else:
            yield item


# ---- methods -----------------------------------------------------------------------------------
def method(body: Body, node: ast.MethodCall, base: tree.PlaceNode) -> tree.Value:
    """A method of a tensor other than those that give views. Error: E0204."""
    match node.name:
        case "extent":
            return _extent(body, node, base)
        case "copy":
            return _copy(body, node, base)
        case "as_ptr" | "as_mut_ptr":
            return _pointer(body, node, base)
        case "to_host" | "to_device" | "with_memory":
            return _move(body, node, base)
        case "topology":
            message = "`.topology()` is compared when compiling: `t.topology() == Some(Topology::X)`"
            raise body.fail("E3012", message, node.span)
    ref = _readable(body, node, base)
    if node.name in builtins.REDUCTIONS and len(node.args) == builtins.REDUCTIONS[node.name] - 1:
        rest = tuple(operators.operand(body, arg) for arg in node.args)
        return builtins.reduce(body, node, node.name, (ref, *rest))
    if node.name in builtins.MATH:
        return builtins.math_method(body, node, ref)
    helps = did_you_mean(node.name, [*_OWN_METHODS, *builtins.MATH, *builtins.REDUCTIONS])
    raise body.fail("E0204", f"a tensor has no method `{node.name}`", node.name_span, helps=helps)


def _readable(body: Body, node: ast.MethodCall, base: tree.PlaceNode) -> tree.Value:
    placement.check_use(body, base.type, node.receiver.span, base)
    if isinstance(base, tree.Temp):
        return base.value
    return expressions.borrow(base)


def _extent(body: Body, node: ast.MethodCall, base: tree.PlaceNode) -> tree.Value:
    """`t.extent(i)`: an i64, constant where the type says it. Errors: E0301, E7003."""
    assert isinstance(base.type, tree.Tensor)
    calls.check_count(body, "extent", 1, node.args, node.span)
    axis = expressions.value(body, node.args[0], tree.I32)
    rank = len(base.type.dims)
    if not isinstance(axis, tree.Const) or isinstance(axis.value, bool | float):
        raise body.fail("E0301", "the dimension of `.extent` is a constant", node.args[0].span)
    if not 0 <= axis.value < rank:
        message = f"there is no dimension {axis.value}: this is {show(base.type)}"
        raise body.fail("E7003", message, node.args[0].span)
    extent = base.type.dims[axis.value]
    if isinstance(extent, int):
        return tree.Const(tree.I64, node.span, extent)
    return tree.Extent(tree.I64, node.span, expressions.borrow(base), axis.value)


def _copy(body: Body, node: ast.MethodCall, base: tree.PlaceNode) -> tree.Value:
    assert isinstance(base.type, tree.Tensor)
    calls.check_count(body, "copy", 0, node.args, node.span)
    placement.check_use(body, base.type, node.receiver.span, base)
    type_ = tree.Tensor(base.type.elem, base.type.dims, body.home)
    return tree.CopyTensor(type_, node.span, expressions.borrow(base))


def _pointer(body: Body, node: ast.MethodCall, base: tree.PlaceNode) -> tree.Value:
    assert isinstance(base.type, tree.Tensor)
    calls.check_count(body, node.name, 0, node.args, node.span)
    placement.check_use(body, base.type, node.receiver.span, base)
    mutable = node.name == "as_mut_ptr"
    type_ = tree.Ptr(tree.Scalar(base.type.elem), mutable)
    return tree.TensorPtr(type_, node.span, expressions.borrow(base, mutable))


def _move(body: Body, node: ast.MethodCall, base: tree.PlaceNode) -> tree.Value:
    """`x.to_host()`, `x.to_device()`, `t.with_memory(Memory::X)`: other spellings of `transfer`."""
    wanted = 1 if node.name == "with_memory" else 0
    calls.check_count(body, node.name, wanted, node.args, node.span)
    session = body.session
    if node.name == "to_host":
        target = session.host
    elif node.name == "to_device":
        target = regions.the_device(body, node.span)
    else:
        argument = node.args[0]
        if not isinstance(argument, ast.PlaceValue):
            raise body.fail("E3003", "`.with_memory` takes a place: `Memory::X`", argument.span)
        target = placement.placed(session, body.type_env, argument.place)
    return regions.moved(body, base, target, node.span, None)

"""Functions and methods that the language itself has: reductions, mathematics, printing, kernels' two
built-ins."""

from __future__ import annotations

from collections.abc import Mapping

from vx.sema import calls, constants, convert, expressions, fields, fold, macros, operators, placement, tree
from vx.sema.context import Body
from vx.sema.names import did_you_mean, lookup
from vx.sema.types import dims_may_equal, element, is_integer, is_numeric, merge_dim, show, show_dims, tensor_of
from vx.syntax import ast

REDUCTIONS: Mapping[str, int] = {"dot": 2, "sum": 1, "max": 1, "min": 1}
"""Reductions of rows, with how many rows they take."""

_HALF = frozenset({"f16", "bf16"})

MATH: Mapping[str, int] = {
    "sqrt": 1, "rsqrt": 1, "exp": 1, "exp2": 1, "ln": 1, "log2": 1, "log10": 1, "sin": 1, "cos": 1, "tan": 1,
    "tanh": 1, "abs": 1, "floor": 1, "ceil": 1, "round": 1, "trunc": 1, "erf": 1, "is_nan": 1,
    "pow": 2, "powf": 2, "powi": 2, "atan2": 2, "min": 2, "max": 2, "mul_add": 3,
}  # fmt: skip
"""Methods of numbers, with how many numbers they take (the receiver included)."""

_ON_INTEGERS = frozenset({"abs", "min", "max"})
_ALIASES: Mapping[str, str] = {"powf": "pow", "powi": "pow"}

STATEMENTS = frozenset({"matmul_into", "flash_attention_into"})
"""Built-in functions that are statements: they have no value."""


# ---- free functions ----------------------------------------------------------------------------
def call(body: Body, name: str, node: ast.Call, expected: tree.Type | None) -> tree.Value:
    """A call of a built-in function."""
    if name in STATEMENTS:
        raise body.fail("E3012", f"`{name}` has no value: it is a statement of its own", node.span)
    if name in REDUCTIONS:
        return _reduction_call(body, name, node, expected)
    calls.check_count(body, name, 1, node.args, node.span)
    if name == "print":
        return macros.print_value(body, node.args[0], node.span)
    if name == "sync":
        return _sync(body, node)
    if not isinstance(node.args[0], ast.StringLit):
        raise body.fail("E3003", "`abort` takes a message: a string literal", node.args[0].span)
    return tree.Abort(tree.NEVER, node.span, node.args[0].value)


def _sync(body: Body, node: ast.Call) -> tree.Value:
    """`sync(&x)`: what follows sees x finished, which program order says already."""
    value = operators.operand(body, node.args[0])
    use = tree.ExprStmt(node.span, value)
    return tree.BlockExpr(tree.VOID, node.span, tree.Block((use,), None, tree.VOID, node.span))


def _reduction_call(body: Body, name: str, node: ast.Call, expected: tree.Type | None) -> tree.Value:
    if name in ("max", "min") and len(node.args) == 2:
        left, right = operators.pair(body, node.args[0], node.args[1], expected)
        return _math(body, node, name, (left, right))
    calls.check_count(body, name, REDUCTIONS[name], node.args, node.span)
    return reduce(body, node, name, tuple(operators.operand(body, arg) for arg in node.args))


def reduce(body: Body, node: ast.Node, name: str, args: tuple[tree.Value, ...]) -> tree.Value:
    """`dot`, `sum`, `max`, `min` of rows. Errors: E7002, E7004, E7005."""
    rows = []
    for arg in args:
        tensor = tensor_of(arg.type)
        if tensor is None or len(tensor.dims) != 1:
            helps = ["reduce one row of it at a time: `t[i]`"] if tensor is not None else []
            message = f"`{name}` is for tensors of rank 1, and this is {show(arg.type)}"
            raise body.fail("E7004", message, arg.span, helps=helps)
        rows.append(tensor)
    if name == "dot":
        elem = operators.product_element(body, node, "`dot`", rows[0].elem, rows[1].elem)
        if not dims_may_equal(rows[0].dims, rows[1].dims):
            message = f"`dot` of rows of lengths {show_dims(rows[0].dims)} and {show_dims(rows[1].dims)}"
            raise body.fail("E7005", message, node.span)
    else:
        elem = rows[0].elem
        if not is_numeric(tree.Scalar(elem)):
            raise body.fail("E7002", f"`{name}` is not defined for elements of type {elem}", node.span)
        elem = "f32" if elem in _HALF else elem
    return tree.Reduce(tree.Scalar(elem), node.span, name, args)


# ---- methods of numbers ------------------------------------------------------------------------
def math_method(body: Body, node: ast.MethodCall, receiver: tree.Value) -> tree.Value:
    """`x.sqrt()`, `x.pow(y)`, … on a number or, element-wise, on a tensor. Errors: E0204, E3004, E3008."""
    if node.name not in MATH:
        helps = did_you_mean(node.name, MATH)
        raise body.fail("E0204", f"{show(receiver.type)} has no method `{node.name}`", node.name_span, helps=helps)
    calls.check_count(body, node.name, MATH[node.name] - 1, node.args, node.span)
    name = element(receiver.type)
    assert name is not None
    args = [receiver]
    for arg in node.args:
        args.append(_math_argument(body, node, arg, tree.Scalar(name)))
    return _math(body, node, _ALIASES.get(node.name, node.name), tuple(args))


def _math_argument(body: Body, node: ast.MethodCall, arg: ast.Expr, type_: tree.Scalar) -> tree.Value:
    if node.name != "powi":
        return operators.operand(body, arg, type_)
    value = operators.operand(body, arg, tree.I32)
    if not is_integer(value.type):
        raise body.fail("E3003", f"the exponent of `powi` is an integer, and this is {show(value.type)}", arg.span)
    if isinstance(value, tree.Const):
        return tree.Const(type_, arg.span, float(value.value))
    return tree.Cast(type_, arg.span, value)


def _math(body: Body, node: ast.Node, name: str, args: tuple[tree.Value, ...]) -> tree.Value:
    first = element(args[0].type)
    for arg in args:
        if element(arg.type) != first or first is None:
            message = f"`{name}` of {show(args[0].type)} and {show(arg.type)}"
            raise body.fail("E3004", message, arg.span, helps=[f"convert it: `… as {first}`"])
    assert first is not None
    if first not in tree.FLOATS and not (name in _ON_INTEGERS and is_numeric(tree.Scalar(first))):
        helps = ["convert it first: `… as f32`"] if first != "bool" else []
        raise body.fail("E3004", f"`{name}` is not defined for {first}", node.span, helps=helps)
    values = [arg.value for arg in args if isinstance(arg, tree.Const)]
    if len(values) == len(args):
        folded = fold.math_call(name, tuple(values), first, exact_only=not body.constant)
        if folded is not None:
            return tree.Const(tree.Scalar(first), node.span, folded)
    args = tuple(constants.in_range(body, arg) for arg in args)
    return tree.Math(_math_type(body, node, name, args, first), node.span, name, args)


def _math_type(body: Body, node: ast.Node, name: str, args: tuple[tree.Value, ...], elem: str) -> tree.Type:
    if name == "is_nan":
        elem = "bool"
    dims: tuple[tree.Dim, ...] | None = None
    for arg in args:
        tensor = tensor_of(arg.type)
        if tensor is None:
            continue
        if dims is not None and not dims_may_equal(dims, tensor.dims):
            message = f"`{name}` of shapes {show_dims(dims)} and {show_dims(tensor.dims)}"
            raise body.fail("E7005", message, node.span)
        dims = tensor.dims if dims is None else tuple(map(merge_dim, dims, tensor.dims))
    return tree.Scalar(elem) if dims is None else tree.Tensor(elem, dims, body.home)


# ---- methods of raw pointers -------------------------------------------------------------------
def pointer_method(body: Body, node: ast.MethodCall, pointer: tree.Value) -> tree.Value:
    """`p.is_null()`, `p.offset(n)`. Errors: E0204, E5001."""
    assert isinstance(pointer.type, tree.Ptr)
    if node.name == "is_null":
        calls.check_count(body, node.name, 0, node.args, node.span)
        null = tree.Cast(pointer.type, node.span, tree.Const(tree.I64, node.span, 0))
        return tree.Binary(tree.BOOL, node.span, "==", pointer, null)
    if node.name == "offset":
        fields.require_unsafe(body, node)
        calls.check_count(body, node.name, 1, node.args, node.span)
        value = expressions.value(body, node.args[0], tree.I64)
        if not is_integer(value.type):
            raise body.fail("E3007", f"an offset is an integer, and this is {show(value.type)}", value.span)
        target = expressions.deref(pointer)
        element_ = tree.Index(pointer.type.to, node.span, target, (tree.At(value),))
        return tree.AddrOf(pointer.type, node.span, element_, pointer.type.mutable)
    helps = did_you_mean(node.name, ("is_null", "offset"))
    raise body.fail("E0204", f"a raw pointer has no method `{node.name}`", node.name_span, helps=helps)


# ---- statements --------------------------------------------------------------------------------
def statement(body: Body, node: ast.Expr) -> tree.StmtNode | None:
    """`matmul_into(…)` or `flash_attention_into(…)`; None if `node` is neither."""
    if not isinstance(node, ast.Call) or not isinstance(node.callee, ast.Path) or len(node.callee.segments) != 1:
        return None
    name = node.callee.segments[0].name
    if name not in STATEMENTS or not _is_builtin(body, name):
        return None
    return _matmul_into(body, node) if name == "matmul_into" else _attention(body, node)


def _is_builtin(body: Body, name: str) -> bool:
    return not body.is_local(name) and lookup(body.env.scope, name) is None


def _tensor_arg(body: Body, node: ast.Expr, what: str, *, mutable: bool = False) -> tuple[tree.Value, tree.Tensor]:
    value = operators.operand(body, node) if not mutable else expressions.value(body, node)
    tensor = tensor_of(value.type)
    if tensor is None or (mutable and not (isinstance(value.type, tree.Ref) and value.type.mutable)):
        wanted = "a `&mut` tensor" if mutable else "a tensor"
        helps = ["borrow it: `&mut …`"] if tensor is not None else []
        raise body.fail("E3003", f"{what} is {wanted}, and this is {show(value.type)}", node.span, helps=helps)
    if mutable:
        value = convert.adapted(value, tree.Ref(tensor, True))
        placement.check_use(body, tensor, node.span, what)
    return value, tensor


def _matmul_into(body: Body, node: ast.Call) -> tree.StmtNode:
    """Errors: E3003, E3008, E7001, E7002."""
    calls.check_count(body, "matmul_into", 3, node.args, node.span)
    out, c = _tensor_arg(body, node.args[0], "the result", mutable=True)
    left, a = _tensor_arg(body, node.args[1], "the left factor")
    right, b = _tensor_arg(body, node.args[2], "the right factor")
    elem = operators.product_element(body, node, "`matmul_into`", a.elem, b.elem)
    dims = operators.matmul_dims(body, node, a, b)
    if c.elem != elem and c.elem != a.elem:
        message = f"the product has elements of type {elem}, and the result {c.elem}"
        raise body.fail("E7002", message, node.args[0].span)
    if not dims_may_equal(dims, c.dims):
        message = f"the product has shape {show_dims(dims)}, and the result {show_dims(c.dims)}"
        raise body.fail("E7001", message, node.args[0].span)
    return tree.MatMulInto(node.span, out, left, right)


def _attention(body: Body, node: ast.Call) -> tree.StmtNode:
    """Errors: E3003, E3008, E7001, E7002, E7004."""
    if len(node.args) not in (5, 6):
        message = f"`flash_attention_into` takes 5 or 6 arguments, and {len(node.args)} are given"
        raise body.fail("E3008", message, node.span, helps=["(&mut o, &q, &k, &v, scale [, first])"])
    out, o = _tensor_arg(body, node.args[0], "the result", mutable=True)
    parts = [_tensor_arg(body, arg, f"`{name}`") for name, arg in zip("qkv", node.args[1:4], strict=True)]
    (q_value, q), (k_value, k), (v_value, v) = parts
    for name, tensor, arg in zip("oqkv", (o, q, k, v), node.args, strict=False):
        if len(tensor.dims) != 2:
            raise body.fail("E7004", f"`{name}` has rank 2, and this has {show_dims(tensor.dims)}", arg.span)
        if tensor.elem not in tree.FLOATS:
            raise body.fail("E7002", f"`{name}` has float elements, and this has {tensor.elem}", arg.span)
    _attention_shapes(body, node, (o, q, k, v))
    want = convert.Want(tree.F32, "E3003", "the scale is")
    scale = convert.check(body, node.args[4], want)
    first = None
    if len(node.args) == 6:
        first = operators.operand(body, node.args[5], tree.I32)
        if not is_integer(first.type):
            raise body.fail("E3003", f"`first` is an integer, and this is {show(first.type)}", node.args[5].span)
    return tree.Attention(node.span, out, q_value, k_value, v_value, scale, first)


def _attention_shapes(body: Body, node: ast.Call, shapes: tuple[tree.Tensor, ...]) -> None:
    o, q, k, v = (t.dims for t in shapes)
    rules = (
        ("q and k have rows of one length", (q[1],), (k[1],)),
        ("k and v have one row for each key", (k[0],), (v[0],)),
        ("o has the rows of q and the columns of v", o, (q[0], v[1])),
    )
    for rule, a, b in rules:
        if not dims_may_equal(a, b):
            message = f"{rule}, and here they are {show_dims(a)} and {show_dims(b)}"
            raise body.fail("E7001", message, node.span)

"""Operators: arithmetic, comparison, logic, and `@`, on scalars and element-wise on tensors.

Enters: unary and binary expressions. Leaves: typed values, folded where both operands are constants. A
literal takes the type of the other operand; nothing is converted.
"""

from __future__ import annotations

from vx.sema import constants, expressions, fold, placement, tree, views
from vx.sema.context import Body, CheckFailed
from vx.sema.types import (
    dim_may_equal,
    dims_may_equal,
    element,
    is_integer,
    is_numeric,
    merge_dim,
    show,
    show_dim,
    show_dims,
    tensor_of,
)
from vx.syntax import ast

_ARITHMETIC = frozenset("+-*/%")
_ELEMENTWISE = frozenset("+-*/")
_BITS = frozenset({"&", "|", "^", "<<", ">>"})
_COMPARISONS = frozenset(fold.COMPARISONS)
_ORDER = frozenset({"<", ">", "<=", ">="})
_HALF = frozenset({"f16", "bf16"})


# ---- operands ----------------------------------------------------------------------------------
def is_literal(node: ast.Expr) -> bool:
    """Whether the type of an expression is decided by literals alone, so that its context may choose it."""
    match node:
        case ast.Number(suffix=suffix):
            return suffix is None
        case ast.NanLit():
            return True
        case ast.Unary(op="-", operand=operand):
            return is_literal(operand)
        case ast.Binary(op=op, left=left, right=right):
            return op in _ARITHMETIC | _BITS and is_literal(left) and is_literal(right)
        case _:
            return False


def operand(body: Body, node: ast.Expr, expected: tree.Type | None = None) -> tree.Value:
    """A value to compute with: a scalar (read through references), a borrowed tensor, or a temporary one."""
    found = expressions.named_place(body, node)
    if found is None:
        value = expressions.unchecked(body, node, expected)
        if not isinstance(value.type, tree.Ref):
            placement.check_use(body, value.type, node.span, "this value")
            return value
        found = expressions.deref(value)
    found = expressions.through_refs(found)
    views.check_element_use(body, found)
    if isinstance(found.type, tree.Tensor):
        placement.check_use(body, found.type, node.span, found)
        return expressions.address(found, node.span, mutable=False)
    return expressions.read(body, found)


def _hint(type_: tree.Type | None) -> tree.Scalar | None:
    """The element type that a literal next to something of this type takes."""
    name = None if type_ is None else element(type_)
    return None if name is None else tree.Scalar(name)


def pair(body: Body, left: ast.Expr, right: ast.Expr, expected: tree.Type | None) -> tuple[tree.Value, tree.Value]:
    """Both operands; the one that is a literal takes the type of the other."""
    if is_literal(left) and not is_literal(right):
        second = operand(body, right, _hint(expected))
        return operand(body, left, _hint(second.type)), second
    first = operand(body, left, _hint(expected))
    return first, operand(body, right, _hint(first.type))


# ---- unary -------------------------------------------------------------------------------------
def unary(body: Body, node: ast.Unary, expected: tree.Type | None) -> tree.Value:
    """`-x`, `!x`; `*x` is a place. Errors: E3004, E3006."""
    if node.op == "*":
        found = expressions.named_place(body, node)
        assert found is not None
        return expressions.read(body, found)
    if node.op == "!":
        return _not(body, node)
    if isinstance(node.operand, ast.Number):
        number = constants.number(body, node.operand, expected, negative=True)
        return tree.Const(number.type, node.span, number.value)
    value = operand(body, node.operand, expected)
    name = element(value.type)
    if name is None or not is_numeric(tree.Scalar(name)) or name in tree.UNSIGNED:
        raise body.fail("E3004", f"{show(value.type)} cannot be negated", node.span)
    if isinstance(value, tree.Const):
        return tree.Const(value.type, node.span, -value.value)
    return tree.Unary(_result(body, value), node.span, "-", value)


def _not(body: Body, node: ast.Unary) -> tree.Value:
    value = operand(body, node.operand, tree.BOOL)
    if value.type != tree.BOOL:
        message = f"`!` is for bool, and this is {show(value.type)}"
        raise body.fail("E3006", message, node.operand.span, helps=_bool_help(value.type))
    if isinstance(value, tree.Const):
        return tree.Const(tree.BOOL, node.span, not value.value)
    return tree.Unary(tree.BOOL, node.span, "!", value)


def _result(body: Body, value: tree.Value) -> tree.Type:
    """The type of an element-wise result over `value`."""
    tensor = tensor_of(value.type)
    return value.type if tensor is None else tree.Tensor(tensor.elem, tensor.dims, body.home)


# ---- binary ------------------------------------------------------------------------------------
def binary(body: Body, node: ast.Binary, expected: tree.Type | None) -> tree.Value:
    """Any binary operator. Errors: E0304, E3004, E3005, E3006, E7001, E7002, E7005."""
    if node.op in ("&&", "||"):
        return _logic(body, node)
    if node.op == "@":
        return _matmul(body, node)
    if node.op in _COMPARISONS:
        place_test = placement_test(body, node)
        if place_test is not None:
            return place_test
        left, right = pair(body, node.left, node.right, None)
        return _comparison(body, node, left, right)
    left, right = pair(body, node.left, node.right, expected)
    return arithmetic(body, node, node.op, left, right)


def _logic(body: Body, node: ast.Binary) -> tree.Value:
    sides = []
    for side in (node.left, node.right):
        value = operand(body, side, tree.BOOL)
        if value.type != tree.BOOL and not isinstance(value.type, tree.Never):
            message = f"`{node.op}` is for bool, and this is {show(value.type)}"
            raise body.fail("E3006", message, side.span, helps=_bool_help(value.type))
        sides.append(value)
    left, right = sides
    if isinstance(left, tree.Const) and isinstance(right, tree.Const):
        both = left.value and right.value if node.op == "&&" else left.value or right.value
        return tree.Const(tree.BOOL, node.span, both)
    return tree.Binary(tree.BOOL, node.span, node.op, left, right)


def _bool_help(type_: tree.Type) -> list[str]:
    return ["compare it: `… != 0`"] if is_numeric(type_) else []


def arithmetic(body: Body, node: ast.Node, op: str, left: tree.Value, right: tree.Value) -> tree.Value:
    """`left op right` on numbers or element-wise. Also what `left op= right` computes."""
    if tensor_of(left.type) is not None or tensor_of(right.type) is not None:
        return _elementwise(body, node, op, left, right)
    if left.type != right.type:
        raise _mixed(body, node, op, left.type, right.type, "E3004")
    if not _defined(op, left.type):
        raise body.fail("E3004", f"`{op}` is not defined for {show(left.type)}", node.span)
    folded = _folded(body, node, op, left, right)
    if folded is not None:
        return folded
    left, right = constants.in_range(body, left), constants.in_range(body, right)
    return tree.Binary(left.type, node.span, op, left, right)


def _defined(op: str, type_: tree.Type) -> bool:
    if op in ("<<", ">>"):
        return is_integer(type_)
    if op in _BITS:
        return is_integer(type_) or type_ == tree.BOOL
    return is_numeric(type_)


def _folded(body: Body, node: ast.Node, op: str, left: tree.Value, right: tree.Value) -> tree.Const | None:
    if not isinstance(right, tree.Const) or not isinstance(right.type, tree.Scalar):
        return None
    if op in "/%" and is_integer(right.type) and right.value == 0:
        raise body.fail("E0304", f"`{op}` by zero", node.span)
    if not isinstance(left, tree.Const):
        return None
    value = fold.binary(op, left.value, right.value, right.type.name)
    type_ = tree.BOOL if op in _COMPARISONS else right.type
    return None if value is None else tree.Const(type_, node.span, value)


def _mixed(body: Body, node: ast.Node, op: str, left: tree.Type, right: tree.Type, code: str) -> CheckFailed:
    message = f"`{op}` of {show(left)} and {show(right)}"
    helps = []
    if element(left) is not None and element(right) is not None:
        helps = [f"convert one side: `… as {element(left)}`, or the other `as {element(right)}`"]
    return body.fail(code, message, node.span, helps=helps)


def _comparison(body: Body, node: ast.Binary, left: tree.Value, right: tree.Value) -> tree.Value:
    if isinstance(left.type, tree.Ptr) and isinstance(right.type, tree.Ptr):
        return _pointers(body, node, left, right)
    if left.type != right.type:
        raise _mixed(body, node, node.op, left.type, right.type, "E3005")
    ordered = node.op in _ORDER
    if not isinstance(left.type, tree.Scalar) or (ordered and left.type == tree.BOOL):
        helps = ["use `match`"] if isinstance(left.type, tree.Enum) else []
        message = f"`{node.op}` is not defined for {show(left.type)}"
        raise body.fail("E3005", message, node.span, helps=helps)
    folded = _folded(body, node, node.op, left, right)
    if folded is not None:
        return folded
    left, right = constants.in_range(body, left), constants.in_range(body, right)
    return tree.Binary(tree.BOOL, node.span, node.op, left, right)


def _pointers(body: Body, node: ast.Binary, left: tree.Value, right: tree.Value) -> tree.Value:
    if isinstance(left, tree.Str) or isinstance(right, tree.Str):
        message = "this would compare addresses, not texts"
        raise body.fail("E3005", message, node.span, helps=["`match` compares the bytes of C strings"])
    return tree.Binary(tree.BOOL, node.span, node.op, left, right)


# ---- tensors -----------------------------------------------------------------------------------
def _elementwise(body: Body, node: ast.Node, op: str, left: tree.Value, right: tree.Value) -> tree.Value:
    names = element(left.type), element(right.type)
    if None in names or op not in _ELEMENTWISE:
        raise body.fail("E3004", f"`{op}` of {show(left.type)} and {show(right.type)} is not defined", node.span)
    if names[0] != names[1]:
        raise _mixed(body, node, op, left.type, right.type, "E3004")
    name = names[0]
    assert name is not None
    _require_numbers(body, node, op, name)
    a, b = tensor_of(left.type), tensor_of(right.type)
    dims = _common_dims(body, node, op, a, b)
    left, right = constants.in_range(body, left), constants.in_range(body, right)
    return tree.Binary(tree.Tensor(name, dims, body.home), node.span, op, left, right)


def _require_numbers(body: Body, node: ast.Node, op: str, name: str) -> None:
    if not is_numeric(tree.Scalar(name)):
        helps = ["convert it first: `… as f32`"] if name in tree.STORAGE_ONLY else []
        raise body.fail("E3004", f"`{op}` is not defined for elements of type {name}", node.span, helps=helps)


def _common_dims(
    body: Body, node: ast.Node, op: str, a: tree.Tensor | None, b: tree.Tensor | None
) -> tuple[tree.Dim, ...]:
    if a is None or b is None:
        only = a or b
        assert only is not None
        return only.dims
    if not dims_may_equal(a.dims, b.dims):
        message = f"`{op}` of shapes {show_dims(a.dims)} and {show_dims(b.dims)}"
        raise body.fail("E7005", message, node.span, notes=["element-wise operators need equal shapes"])
    return tuple(map(merge_dim, a.dims, b.dims))


def product_element(body: Body, node: ast.Node, what: str, a: str, b: str) -> str:
    """The element type of a sum of products; E7002 if these cannot be multiplied."""
    if not is_numeric(tree.Scalar(a)) or not is_numeric(tree.Scalar(b)):
        bad = b if is_numeric(tree.Scalar(a)) else a
        raise body.fail("E7002", f"{what} is not defined for elements of type {bad}", node.span)
    if a == b:
        return "f32" if a in _HALF else a
    if a in tree.FLOATS and b in tree.FLOATS:
        return "f32"
    message = f"{what} of elements of types {a} and {b}"
    raise body.fail("E7002", message, node.span, helps=[f"convert one side: `… as {a}`"])


def _matmul(body: Body, node: ast.Binary) -> tree.Value:
    left, right = operand(body, node.left), operand(body, node.right)
    a, b = tensor_of(left.type), tensor_of(right.type)
    if a is None or b is None:
        wrong = right if a is not None else left
        raise body.fail("E7001", f"`@` multiplies tensors, and this is {show(wrong.type)}", wrong.span)
    elem = product_element(body, node, "`@`", a.elem, b.elem)
    dims = matmul_dims(body, node, a, b)
    return tree.MatMul(tree.Tensor(elem, dims, body.home), node.span, left, right)


def matmul_dims(body: Body, node: ast.Node, a: tree.Tensor, b: tree.Tensor) -> tuple[tree.Dim, ...]:
    """The shape of a product of matrices, or of a matrix and a vector. Error: E7001."""
    shapes = f"{show_dims(a.dims)} @ {show_dims(b.dims)}"
    if (len(a.dims), len(b.dims)) not in ((2, 2), (2, 1), (1, 2)):
        message = f"`@` multiplies matrices, or a matrix and a vector, and this is {shapes}"
        raise body.fail("E7001", message, node.span)
    if not dim_may_equal(a.dims[-1], b.dims[0]):
        inner = f"the left side has {show_dim(a.dims[-1])} columns, the right side {show_dim(b.dims[0])} rows"
        message = f"the shapes of {shapes} do not fit"
        helps = ["transpose the right side: `… @ b.t()`"] if _fits_transposed(a, b) else []
        raise body.fail("E7001", message, node.span, notes=[inner], helps=helps)
    return (*a.dims[:-1], *b.dims[1:])


def _fits_transposed(a: tree.Tensor, b: tree.Tensor) -> bool:
    return len(b.dims) == 2 and dim_may_equal(a.dims[-1], b.dims[1])


# ---- where a tensor lives, at compile time -------------------------------------------------------
def placement_test(body: Body, node: ast.Binary) -> tree.Const | None:
    """`t.topology() == Some(Topology::X)`, `== None`: known when compiling. None: not such a test."""
    if node.op not in ("==", "!=") or not _asks_topology(node.left):
        return None
    assert isinstance(node.left, ast.MethodCall)
    tensor = tensor_of(expressions.through_refs(expressions.place(body, node.left.receiver)).type)
    if tensor is None:
        return None
    wanted = _wanted_place(body, node.right)
    where = None if tensor.place is None else (tensor.place.topology, tensor.place.instance)
    equal = where == wanted
    return tree.Const(tree.BOOL, node.span, equal if node.op == "==" else not equal)


def _asks_topology(node: ast.Expr) -> bool:
    return isinstance(node, ast.MethodCall) and node.name == "topology" and not node.args


def _wanted_place(body: Body, node: ast.Expr) -> tuple[str, int] | None:
    if isinstance(node, ast.Path) and node.segments[-1].name == "None":
        return None
    if isinstance(node, ast.Call) and len(node.args) == 1 and isinstance(node.args[0], ast.PlaceValue):
        place = placement.resolve_place(body.session, body.type_env, node.args[0].place)
        return place.topology, place.instance
    message = "a topology is compared with `Some(Topology::X)` or `None`"
    raise body.fail("E3005", message, node.span)

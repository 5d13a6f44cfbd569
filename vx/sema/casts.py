"""`x as T`: the only conversions there are."""

from __future__ import annotations

from vx.sema import constants, expressions, fold, operators, placement, resolve, tree
from vx.sema.context import Body
from vx.sema.names import FixedItem, lookup
from vx.sema.types import NUMERIC, element, integer_range, is_integer, is_numeric, show, tensor_of
from vx.syntax import ast


def cast(body: Body, node: ast.Cast, _expected: tree.Type | None) -> tree.Value:
    """A numeric conversion (scalar or element-wise), or one of pointers. Error: E3011."""
    target = resolve.resolve_type(body.session, body.type_env, node.target)
    if isinstance(target, tree.Ptr):
        return _to_pointer(body, node, target)
    if not isinstance(target, tree.Scalar):
        helps = ["to convert the elements of a tensor, name the element type: `t as f32`"]
        raise body.fail("E3011", f"`as` converts to scalar types, not to {show(target)}", node.span, helps=helps)
    value = operators.operand(body, node.operand, _hint(node.operand, target))
    if isinstance(value.type, tree.Enum) and is_integer(target) and body.session.is_plain(value.type):
        return _number_of(body, node, value, target)
    source = element(value.type)
    if isinstance(value.type, tree.Ptr) and is_integer(target):
        return tree.Cast(target, node.span, value)
    if source is None or not _convertible(source, target.name):
        helps = ["compare it with 0: `… != 0`"] if target == tree.BOOL and is_numeric(value.type) else []
        raise body.fail("E3011", f"{show(value.type)} cannot be converted to {target.name}", node.span, helps=helps)
    _warn(body, node, source, target.name)
    return _converted(body, node, value, source, target)


def _hint(node: ast.Expr, target: tree.Scalar) -> tree.Type | None:
    """A literal is of the target type at once, if it is of that kind and fits."""
    if not operators.is_literal(node):
        return None
    if isinstance(node, ast.Number) and isinstance(node.value, int) and is_integer(target):
        low, high = integer_range(target.name)
        return target if low <= node.value <= high else None
    return target if target.name in tree.FLOATS else None


def _convertible(source: str, target: str) -> bool:
    if source == target:
        return True
    from_number = source in NUMERIC or source in tree.STORAGE_ONLY or source == "bool"
    return from_number and target in NUMERIC


def _converted(body: Body, node: ast.Cast, value: tree.Value, source: str, target: tree.Scalar) -> tree.Value:
    tensor = tensor_of(value.type)
    if tensor is not None:
        placement.check_dtype(body.session, body.home, target.name, node.span)
        return tree.Cast(tree.Tensor(target.name, tensor.dims, body.home), node.span, value)
    if isinstance(value, tree.Const):
        folded = fold.cast(value.value, source, target.name)
        if folded is not None:
            return tree.Const(target, node.span, folded)
    return tree.Cast(target, node.span, constants.in_range(body, value))


def _number_of(body: Body, node: ast.Cast, value: tree.Value, target: tree.Scalar) -> tree.Value:
    """An enum without payloads as the number of its variant, counted from 0."""
    assert isinstance(value.type, tree.Enum)
    arms = []
    for i, _ in enumerate(body.session.enums[value.type.key].variants):
        number = tree.Const(target, node.span, i)
        constants.check_range(body.session, number)
        arms.append(tree.Arm(tree.TagPattern(i, ()), tree.Block((), number, target, node.span)))
    return tree.Match(target, node.span, value, tuple(arms))


def _to_pointer(body: Body, node: ast.Cast, target: tree.Ptr) -> tree.Value:
    """From another pointer, a reference, a borrowed tensor's data, or an address."""
    value = expressions.value(body, node.operand, tree.I64)
    have = value.type
    if isinstance(have, tree.Ref):
        if isinstance(have.to, tree.Tensor):
            pointer = tree.Ptr(tree.Scalar(have.to.elem), have.mutable)
            data = tree.TensorPtr(pointer, node.span, value)
            return data if pointer == target else tree.Cast(target, node.span, data)
        return tree.Cast(target, node.span, value)
    if isinstance(have, tree.Ptr) or is_integer(have):
        return tree.Cast(target, node.span, value)
    raise body.fail("E3011", f"{show(have)} cannot be converted to {show(target)}", node.span)


# ---- warnings ----------------------------------------------------------------------------------
def _warn(body: Body, node: ast.Cast, source: str, target: str) -> None:
    if operators.is_literal(node.operand) or not _written_out(body, node, source):
        return
    if source == target:
        body.warn("W1013", f"this is {target} already", node.span, ["leave the cast out"])
        return
    for table in (tree.FLOATS, tree.SIGNED, tree.UNSIGNED):
        if source in table and target in table:
            if table[source] > table[target]:
                body.warn("W1014", f"converting {source} to {target} can lose information", node.span)
            elif table[source] < table[target]:
                body.warn("W1007", f"widening {source} to {target}", node.span)


def _written_out(body: Body, node: ast.Cast, source: str) -> bool:
    """Whether both types are what the program always has here: not a generic parameter's, nor the model's."""
    name = node.target.segments[-1] if isinstance(node.target, ast.PathType) else ""
    if body.env.bindings or name not in tree.BITS:
        return False
    elem = lookup(body.env.scope, "E")
    return not (isinstance(elem, FixedItem) and isinstance(elem.meaning, tree.Scalar) and elem.meaning.name == source)

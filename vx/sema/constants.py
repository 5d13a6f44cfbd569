"""Constant expressions: literals, `const` items, dimensions, `--const` overrides.

Enters: expressions that must be known when compiling. Leaves: `tree.Const`s. A constant expression is
checked like any other and has to fold; arithmetic on the way is exact, and only a result that is used as a
value must fit its type.
"""

from __future__ import annotations

from dataclasses import replace

from vx.diagnostics.span import Span
from vx.sema import evaluate, expressions, resolve, tree
from vx.sema.context import Body, CheckFailed, ConstArg, Env, NotConstant, Session, const_node
from vx.sema.names import ConstItem
from vx.sema.types import integer_range, is_float, is_integer, round_float, show
from vx.syntax import ast


# ---- literals ----------------------------------------------------------------------------------
def number(body: Body, node: ast.Number, expected: tree.Type | None, negative: bool = False) -> tree.Const:
    """A numeric literal. Without a suffix it takes the type that is expected; with no expectation it is
    f32, or the narrowest of i32, i64, i128."""
    value = -node.value if negative else node.value
    type_ = _literal_type(body, node, value, expected)
    if type_.name not in tree.FLOATS:
        return tree.Const(type_, node.span, value)
    rounded = round_float(type_.name, _to_float(body, value, node.span, type_))
    if rounded in (float("inf"), float("-inf")):
        raise _out_of_range(body, node.text, type_, node.span)
    return tree.Const(type_, node.span, rounded)


def _to_float(body: Body, value: int | float, span: Span, type_: tree.Scalar) -> float:
    try:
        return float(value)
    except OverflowError:
        raise _out_of_range(body, str(value), type_, span) from None


def _literal_type(body: Body, node: ast.Number, value: int | float, expected: tree.Type | None) -> tree.Scalar:
    if node.suffix is not None:
        if node.suffix in tree.STORAGE_ONLY:
            message = f"{node.suffix} exists only as the element type of a tensor"
            raise body.fail("E3012", message, node.span, helps=["write the number as i8 or f32 and convert it"])
        return tree.Scalar(node.suffix)
    adopted = isinstance(value, int) and expected is not None and is_integer(expected)
    if isinstance(expected, tree.Scalar) and (adopted or is_float(expected)):
        return expected
    if isinstance(value, float):
        return tree.F32
    for name in ("i32", "i64", "i128"):
        low, high = integer_range(name)
        if low <= value <= high:
            return tree.Scalar(name)
    raise _out_of_range(body, node.text, tree.Scalar("i128"), node.span)


def _out_of_range(body: Body, text: str, type_: tree.Scalar, span: Span) -> CheckFailed:
    return body.fail("E0302", f"{text} is out of range for {type_.name}", span)


def in_range(body: Body, value: tree.Value) -> tree.Value:
    """The value itself; E0302 if it is an integer constant that its type cannot hold."""
    if not isinstance(value, tree.Const) or isinstance(value.value, bool | float) or body.constant:
        return value
    if not is_integer(value.type) or not isinstance(value.type, tree.Scalar):
        return value
    check_range(body.session, value)
    return value


def check_range(session: Session, value: tree.Const) -> None:
    """E0302 if an integer constant does not fit its type."""
    assert isinstance(value.type, tree.Scalar)
    low, high = integer_range(value.type.name)
    if not low <= value.value <= high:
        raise session.fail(
            "E0302",
            f"{_shown(value.value)} is out of range for {value.type.name}",
            value.span,
            notes=[f"{value.type.name} holds {low} to {high}"],
            helps=["use a signed type" if low == 0 and value.value < 0 else "use a wider type"],
        )


def _shown(value: int | float | bool) -> str:
    """A number as a message shows it: not hundreds of digits."""
    text = str(value)
    return text if len(text) <= 50 else f"{text[:20]}… (a number of {len(text)} digits)"


# ---- constant expressions ----------------------------------------------------------------------
def _fold(session: Session, env: Env, node: ast.Expr, expected: tree.Type | None) -> tree.Const | tree.Str:
    body = Body(session, env, tree.VOID, "", constant=True)
    found = evaluate.evaluate(session, expressions.value(body, node, expected))
    return replace(found, span=node.span)


def constant(session: Session, env: Env, node: ast.Expr, expected: tree.Type | None) -> tree.Const | tree.Str:
    """The value of a constant expression; E0301 if it is none."""
    try:
        return _fold(session, env, node, expected)
    except NotConstant as failure:
        message = "a constant is needed here"
        labels = [(failure.span, failure.why)] if failure.span != node.span else []
        notes = [] if labels else [failure.why]
        helps = ["constants are literals, `const` items, const generic parameters, and arithmetic on them"]
        raise session.fail("E0301", message, node.span, labels=labels, notes=notes, helps=helps) from None


def try_constant(session: Session, env: Env, node: ast.Expr, expected: tree.Type | None) -> tree.Const | None:
    """The value of a constant expression, or None if it is known only at run time."""
    try:
        found = _fold(session, env, node, expected)
    except NotConstant:
        return None
    return found if isinstance(found, tree.Const) else None


def dimension(session: Session, env: Env, node: ast.Expr) -> int:
    """One dimension of a tensor type: a constant integer, not negative. Errors: E0301, E7006."""
    found = constant(session, env, node, None)
    return checked_dimension(session, found, node.span)


def checked_dimension(session: Session, found: tree.Const | tree.Str, span: Span) -> int:
    """The extent that a constant gives; E7006 if it is no natural number."""
    if isinstance(found, tree.Str) or not isinstance(found.value, int) or isinstance(found.value, bool):
        message = f"a dimension is an integer, and this is {show(found.type)}"
        raise session.fail("E7006", message, span)
    if not 0 <= found.value < 1 << 63:
        raise session.fail("E7006", f"a dimension cannot be {_shown(found.value)}", span)
    return found.value


def as_arg(value: tree.Const) -> ConstArg:
    assert isinstance(value.type, tree.Scalar)
    return ConstArg(value.type, value.value)


# ---- const items -------------------------------------------------------------------------------
def const_item(session: Session, item: ConstItem, span: Span) -> tree.Const | tree.Str:
    """The value of a `const` item, worked out once. Errors: E0301, E0302, E0303, E3001."""
    known = session.const_values.get(id(item))
    if known is not None:
        return known
    session.demand(const_node(item))
    if id(item) in session.const_failed:
        raise CheckFailed(item.node.name)
    if item in session.const_stack:
        chain = session.const_stack[session.const_stack.index(item) :]
        names = " -> ".join(f"`{one.node.name}`" for one in [*chain, item])
        raise session.fail("E0303", f"the constant `{item.node.name}` depends on itself", span, notes=[names])
    session.const_stack.append(item)
    try:
        with session.checks(const_node(item)):
            value = _compute_item(session, item)
    except CheckFailed:
        session.const_failed.update(map(id, session.const_stack))
        raise
    finally:
        session.const_stack.pop()
    session.const_values[id(item)] = value
    return value


def _compute_item(session: Session, item: ConstItem) -> tree.Const | tree.Str:
    env = Env(item.module, session.host)
    type_ = resolve.resolve_type(session, env, item.node.type)
    override = session.overrides.get(item.node.name)
    if override is not None and item.module is session.modules[0]:
        return override_value(session, item.node.name, override, type_, item.node.span)
    value = constant(session, env, item.node.value, type_)
    if value.type != type_:
        message = f"`{item.node.name}` is declared {show(type_)}, and its value is {show(value.type)}"
        raise session.fail("E3001", message, item.node.value.span, helps=[f"convert it: `… as {show(type_)}`"])
    if isinstance(value, tree.Const) and is_integer(type_):
        check_range(session, value)
    return value


def override_value(session: Session, name: str, text: str, type_: tree.Type, span: Span) -> tree.Const | tree.Str:
    """What `--const NAME=VALUE` gives a constant of type `type_`; E0309 if the text is no such value."""
    if type_ == tree.CSTR:
        return tree.Str(type_, span, text.encode())
    value = _parse_override(text, type_)
    if value is None:
        message = f"`--const {name}={text}`: {text!r} is not a value of type {show(type_)}"
        raise session.fail("E0309", message, span)
    result = tree.Const(type_, span, value)
    if is_integer(type_):
        check_range(session, result)
    return result


def _parse_override(text: str, type_: tree.Type) -> int | float | bool | None:
    try:
        if type_ == tree.BOOL:
            return {"true": True, "false": False}.get(text)
        if is_integer(type_):
            return int(text, 0)
        if isinstance(type_, tree.Scalar) and is_float(type_):
            return round_float(type_.name, float(text))
    except ValueError:
        return None
    return None

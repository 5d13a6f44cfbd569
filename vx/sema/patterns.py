"""`match` and postfix `?`.

Enters: `match` expressions with nested patterns. Leaves: `tree.Match`es whose patterns are flat and together
cover every value. A flat `match` keeps its arms; one with patterns inside patterns becomes a decision tree
(`decisions.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vx.sema import branches, decisions, expressions, operators, paths, resolve, statements, tree
from vx.sema.context import Body, CheckFailed
from vx.sema.names import ConstItem, EnumItem, FixedItem, did_you_mean, lookup
from vx.sema.types import is_integer, show
from vx.syntax import ast


# ---- what patterns are -------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Any:
    """Matches everything and binds `name` if there is one."""

    node: ast.Pattern
    name: str | None


@dataclass(frozen=True, slots=True)
class Tag:
    """Matches variant `index`, and its payloads by `items`."""

    node: ast.Pattern
    index: int
    items: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """Matches what equals a constant."""

    node: ast.Pattern
    value: tree.Const | tree.Str


Pattern = Any | Tag | Value


def classify(body: Body, node: ast.Pattern, type_: tree.Type) -> Pattern:
    """What a pattern means for values of `type_`. Errors: E3102, E3103, E0205."""
    seen = type_.to if isinstance(type_, tree.Ref) else type_
    match node:
        case ast.WildcardPattern():
            return Any(node, None)
        case ast.NamePattern():
            return _name(body, node, seen)
        case ast.LiteralPattern():
            return _literal(body, node, seen)
        case ast.VariantPattern():
            return _variant(body, node, type_, seen)


def _name(body: Body, node: ast.NamePattern, type_: tree.Type) -> Pattern:
    """A name binds, unless it is a variant without payload, or a constant."""
    item = body.session.item_of(type_)
    if isinstance(item, EnumItem):
        index = paths.variant_index(item, node.name)
        if index is not None and not item.node.variants[index].items:
            return Tag(node, index, ())
    found = lookup(body.env.scope, node.name)
    if isinstance(found, ConstItem | FixedItem) and not isinstance(type_, tree.Enum | tree.Struct):
        segment = ast.PathSegment(node.span, node.name, ())
        value = expressions.value(body, ast.Path(node.span, (segment,)), type_)
        if isinstance(value, tree.Const | tree.Str):
            return _checked_value(body, node, value, type_)
    return Any(node, node.name)


def _literal(body: Body, node: ast.LiteralPattern, type_: tree.Type) -> Pattern:
    literal: ast.Expr = node.value
    if node.negative:
        literal = ast.Unary(node.span, "-", literal)
    value = expressions.value(body, literal, type_)
    assert isinstance(value, tree.Const | tree.Str)
    return _checked_value(body, node, value, type_)


def _checked_value(body: Body, node: ast.Pattern, value: tree.Const | tree.Str, type_: tree.Type) -> Value:
    if value.type != type_ and not (isinstance(value, tree.Str) and _is_text(type_)):
        raise body.fail("E3102", f"the value is {show(type_)}, and this pattern {show(value.type)}", node.span)
    if not isinstance(value, tree.Str) and not is_integer(type_) and type_ != tree.BOOL:
        helps = ["compare with `if` instead"]
        raise body.fail("E3102", f"a {show(type_)} is not matched by value", node.span, helps=helps)
    return Value(node, value)


def _is_text(type_: tree.Type) -> bool:
    return isinstance(type_, tree.Ptr) and type_.to == tree.Scalar("i8")


def _variant(body: Body, node: ast.VariantPattern, type_: tree.Type, seen: tree.Type) -> Pattern:
    item = body.session.item_of(seen)
    if not isinstance(item, EnumItem) or not isinstance(seen, tree.Enum):
        raise body.fail("E3102", f"the value is {show(type_)}, which has no variants", node.span)
    if node.enum is not None:
        _check_enum(body, node, node.enum, seen)
    index = paths.variant_index(item, node.variant)
    if index is None:
        helps = did_you_mean(node.variant, [v.name for v in item.node.variants])
        raise body.fail("E0205", f"`{item.node.name}` has no variant `{node.variant}`", node.span, helps=helps)
    payload = body.session.enums[seen.key].variants[index][1]
    if len(payload) != len(node.items):
        want = "no payload" if not payload else "1 payload" if len(payload) == 1 else f"{len(payload)} payloads"
        message = f"`{node.variant}` has {want}, and the pattern {len(node.items)}"
        raise body.fail("E3103", message, node.span)
    inner = payload_types(body, type_, index)
    items = tuple(classify(body, p, t) for p, t in zip(node.items, inner, strict=True))
    return Tag(node, index, items)


def _check_enum(body: Body, node: ast.VariantPattern, written: ast.PathSegment, seen: tree.Enum) -> None:
    """E3102 if the enum that is written is another one."""
    segments = (written, ast.PathSegment(node.span, node.variant, ()))
    target = paths.resolve_path(body, ast.Path(node.span, segments))
    item = body.session.item_of(seen)
    same = isinstance(target, paths.VariantTarget) and target.enum is item
    if same and isinstance(target, paths.VariantTarget):
        same = target.type is None or target.type == seen
        if target.given:
            args = resolve.generic_args(body.session, body.type_env, target.enum, target.given, written.span)
            same = args == body.session.args_of(seen)
    if not same:
        raise body.fail("E3102", f"the value is {show(seen)}, and this is a pattern of another type", node.span)


def payload_types(body: Body, type_: tree.Type, index: int) -> tuple[tree.Type, ...]:
    """The types that the payloads of variant `index` are bound with: through a reference, references."""
    seen = type_.to if isinstance(type_, tree.Ref) else type_
    assert isinstance(seen, tree.Enum)
    payload = body.session.enums[seen.key].variants[index][1]
    if not isinstance(type_, tree.Ref):
        return payload
    if type_.mutable:
        return tuple(tree.Ref(t, True) for t in payload)
    return tuple(t if body.session.is_copy(t) or isinstance(t, tree.Ref) else tree.Ref(t, False) for t in payload)


# ---- match -------------------------------------------------------------------------------------
def match(body: Body, node: ast.Match, expected: tree.Type | None) -> tree.Value:
    """`match x { … }`. Errors: E3010, E3101 if a case is missing, and those of patterns."""
    source = expressions.named_place(body, node.scrutinee)
    if source is not None:
        type_ = _seen_type(body, source)
    else:
        value = expressions.value(body, node.scrutinee)
        if isinstance(value.type, tree.Ref) and isinstance(value.type.to, tree.Scalar | tree.Ptr):
            value = tree.Read(value.type.to, value.span, expressions.deref(value), move=False)
        type_ = value.type
    if isinstance(type_, tree.Void):
        raise body.fail("E3102", "there is no value to match: this is void", node.scrutinee.span)
    patterns = [classify(body, arm.pattern, type_) for arm in node.arms]
    if source is not None:
        value = _scrutinee(body, source, patterns)
        patterns = [classify(body, arm.pattern, value.type) for arm in node.arms]
    rows = list(zip(patterns, (arm.body for arm in node.arms), strict=True))
    if any(_is_nested(p) for p in patterns):
        return decisions.tree_of(body, node, value, rows, expected)
    return _flat(body, node, value, rows, expected)


def _seen_type(body: Body, source: tree.PlaceNode) -> tree.Type:
    through = expressions.through_refs(source)
    if isinstance(source.type, tree.Ref) and not isinstance(through.type, tree.Scalar | tree.Ptr):
        return source.type
    return through.type


def _scrutinee(body: Body, source: tree.PlaceNode, patterns: Sequence[Pattern]) -> tree.Value:
    """How to look at a place: by copy, by moving out of it if an arm takes a payload, else by reference."""
    through = expressions.through_refs(source)
    mutable = isinstance(source.type, tree.Ref) and source.type.mutable
    if body.session.is_copy(through.type) and not (mutable and isinstance(through.type, tree.Enum)):
        return tree.Read(through.type, source.span, through, move=False)
    if isinstance(source.type, tree.Ref):
        return expressions.borrow(source, source.type.mutable)
    if any(_takes(body, p, through.type) for p in patterns) and _is_owned(through):
        return expressions.read(body, through)
    return expressions.borrow(through)


def _is_owned(place: tree.PlaceNode) -> bool:
    """Whether a value may be moved out of the place: no reference on the way."""
    if isinstance(place, tree.Field):
        return _is_owned(place.base)
    return isinstance(place, tree.Local | tree.Temp) or isinstance(place.type, tree.Ptr)


def _takes(body: Body, pattern: Pattern, type_: tree.Type) -> bool:
    """Whether the pattern binds something of `type_` that is moved, not copied."""
    match pattern:
        case Any(name=name):
            return name is not None and not body.session.is_copy(type_)
        case Tag(index=index, items=items):
            inner = payload_types(body, type_, index)
            return any(_takes(body, p, t) for p, t in zip(items, inner, strict=True))
        case _:
            return False


def _is_nested(pattern: Pattern) -> bool:
    return isinstance(pattern, Tag) and any(not isinstance(item, Any) for item in pattern.items)


# ---- flat matches ------------------------------------------------------------------------------
def _flat(
    body: Body,
    node: ast.Match,
    value: tree.Value,
    rows: Sequence[tuple[Pattern, ast.Block]],
    expected: tree.Type | None,
) -> tree.Value:
    covered = decisions.Covered(body, value.type)
    for pattern, _ in rows:
        if covered.complete or covered.has(pattern):
            body.warn("W1003", "this arm is never reached", pattern.node.span)
        covered.add(pattern)
    arms = _arms(body, value.type, rows, expected)
    missing = covered.missing()
    if missing:
        raise missing_cases(body, node, missing)
    return tree.Match(joined(body, arms, rows, expected), node.span, value, tuple(arms))


def _arms(
    body: Body, type_: tree.Type, rows: Sequence[tuple[Pattern, ast.Block]], expected: tree.Type | None
) -> list[tree.Arm]:
    """The arms in order. With nothing expected, those that are literals take the type of the others."""
    hint = expected
    arms: dict[int, tree.Arm] = {}
    for i in literals_last([block for _, block in rows]):
        arms[i] = _arm(body, type_, *rows[i], hint)
        if hint is None and not isinstance(arms[i].body.type, tree.Never | tree.Void):
            hint = arms[i].body.type
    return [arms[i] for i in range(len(rows))]


def literals_last(blocks: Sequence[ast.Block]) -> list[int]:
    """The order in which to check branches so that literals can take the type of what is none."""
    return sorted(
        range(len(blocks)), key=lambda i: (value := blocks[i].value) is not None and operators.is_literal(value)
    )


def missing_cases(body: Body, node: ast.Match, missing: Sequence[str]) -> CheckFailed:
    """E3101: the cases that no arm covers."""
    listed = ", ".join(f"`{case}`" for case in missing)
    message = f"{listed} {'is' if len(missing) == 1 else 'are'} not covered"
    if listed == "`_`":
        message = "there are values that no arm covers"
    return body.fail("E3101", message, node.scrutinee.span, helps=["add an arm for it, or `_ => …` for the rest"])


def joined(
    body: Body, arms: Sequence[tree.Arm], rows: Sequence[tuple[Pattern, ast.Block]], expected: tree.Type | None
) -> tree.Type:
    """The type of a `match` whose value is wanted or not."""
    types = [arm.body.type for arm in arms]
    if expected == tree.VOID:
        return tree.NEVER if all(isinstance(t, tree.Never) for t in types) else tree.VOID
    nodes = [branches.value_span(block) for _, block in rows]
    return branches.join(body, list(zip(types, nodes, strict=False)), expected)


def _arm(body: Body, type_: tree.Type, pattern: Pattern, node: ast.Block, expected: tree.Type | None) -> tree.Arm:
    body.scopes.append({})
    try:
        flat: tree.TagPattern | tree.ValuePattern | tree.AnyPattern
        match pattern:
            case Any(name=None):
                flat = tree.AnyPattern(None)
            case Any(name=str(name)):
                flat = tree.AnyPattern(body.declare(name, type_, pattern.node.span))
            case Value(value=value):
                flat = tree.ValuePattern(value)
            case Tag(index=index, items=items):
                inner = payload_types(body, type_, index)
                flat = tree.TagPattern(index, tuple(_bound(body, p, t) for p, t in zip(items, inner, strict=True)))
            case _:
                raise AssertionError(pattern)
        return tree.Arm(flat, statements.block(body, node, expected))
    finally:
        body.scopes.pop()


def _bound(body: Body, pattern: Pattern, type_: tree.Type) -> int | None:
    assert isinstance(pattern, Any)
    return None if pattern.name is None else body.declare(pattern.name, type_, pattern.node.span)


# ---- ? -----------------------------------------------------------------------------------------
def try_(body: Body, node: ast.Try, _expected: tree.Type | None) -> tree.Value:
    """`x?`: the value of `Ok` or `Some`; `Err` or `None` returns from the function. Error: E3020."""
    if body.region is not None:
        message = "`?` cannot leave a region"
        raise body.fail("E3018", message, node.span, labels=[(body.region, "this region")])
    value = expressions.value(body, node.operand)
    item = body.session.item_of(value.type)
    kind = item.node.name if isinstance(item, EnumItem) and item.module is _prelude(body) else ""
    if kind not in ("Result", "Option") or not isinstance(value.type, tree.Enum):
        message = f"`?` is for Result and Option, and this is {show(value.type)}"
        raise body.fail("E3020", message, node.span)
    _check_returned(body, node, value.type, kind)
    return _tried(body, node, value)


def _prelude(body: Body) -> object:
    return body.env.scope.prelude or body.env.scope


def _check_returned(body: Body, node: ast.Try, type_: tree.Enum, kind: str) -> None:
    session, ret = body.session, body.ret
    if session.item_of(ret) is not session.item_of(type_):
        message = f"`?` on {show(type_)} needs a function that returns {kind}, and `{body.name}` returns {show(ret)}"
        raise body.fail("E3020", message, node.span)
    if kind == "Result" and session.args_of(ret)[1] != session.args_of(type_)[1]:
        message = f"`?` would return the error of {show(type_)} from a function that returns {show(ret)}"
        helps = ["the error types must be equal: `match` on it and convert the error"]
        raise body.fail("E3020", message, node.span, helps=helps)


def _tried(body: Body, node: ast.Try, value: tree.Value) -> tree.Value:
    assert isinstance(value.type, tree.Enum) and isinstance(body.ret, tree.Enum)
    span = node.span
    good, bad = body.session.enums[value.type.key].variants
    kept = body.hidden(good[1][0], span, "value")
    read = _take(body, kept, good[1][0], node)
    arm = tree.Arm(tree.TagPattern(0, (kept,)), tree.Block((), read, good[1][0], span))
    errors = tuple(body.hidden(t, span, "error") for t in bad[1])
    passed = tuple(_take(body, id_, t, node) for id_, t in zip(errors, bad[1], strict=True))
    leave = tree.ReturnExpr(tree.NEVER, span, tree.EnumLit(body.ret, span, 1, passed))
    other = tree.Arm(tree.TagPattern(1, errors), tree.Block((), leave, tree.NEVER, span))
    return tree.Match(good[1][0], span, value, (arm, other))


def _take(body: Body, id_: int, type_: tree.Type, node: ast.Try) -> tree.Value:
    return tree.Read(type_, node.span, tree.Local(type_, node.span, id_), move=not body.session.is_copy(type_))

"""Making structs and enum variants."""

from __future__ import annotations

from vx.diagnostics.span import Span
from vx.sema import calls, convert, expressions, infer, paths, resolve, tree
from vx.sema.context import Body, Env
from vx.sema.names import Ambiguous, EnumItem, StructItem, did_you_mean, lookup
from vx.sema.types import show
from vx.syntax import ast


# ---- structs -----------------------------------------------------------------------------------
def struct_literal(body: Body, node: ast.StructLit, expected: tree.Type | None) -> tree.Value:
    """`Name { field: value, … }`; arguments of a generic struct may be left to its fields.
    Errors: E3013 for the set of fields, E3014 for a field's value."""
    item, known = _struct_named(body, node)
    order = _field_order(body, node, item)
    written = [node.fields[order.index(i)] for i in range(len(order))]
    if known is not None:
        type_ = known
        values = _known_fields(body, known, written)
    else:
        type_, values = _inferred_fields(body, node, item, written, expected)
    return tree.StructLit(type_, node.span, tuple(values), order)


def _struct_named(body: Body, node: ast.StructLit) -> tuple[StructItem, tree.Struct | None]:
    """The struct that the literal is of, and its type unless its arguments are to be inferred."""
    names = tuple(s.name for s in node.path.segments)
    last = node.path.segments[-1]
    if not last.args and len(names) == 1:
        found = lookup(body.env.scope, names[0])
        if isinstance(found, StructItem) and found.node.generics and names[0] not in body.env.bindings:
            return found, None
        if isinstance(found, Ambiguous):
            raise resolve.ambiguous(body.session, names[0], found, node.path.span)
    type_ = resolve.resolve_type(body.session, body.type_env, ast.PathType(node.path.span, names, last.args))
    if not isinstance(type_, tree.Struct):
        helps = ["a variant is written `Enum::Variant(…)`"] if isinstance(type_, tree.Enum) else []
        raise body.fail("E3013", f"{show(type_)} is not a struct", node.path.span, helps=helps)
    return body.session.structs[type_.key].item, type_


def _field_order(body: Body, node: ast.StructLit, item: StructItem) -> tuple[int, ...]:
    """For each written field, its number in the declaration. Error: E3013 unless each is there once."""
    names = [f.name for f in item.node.fields]
    order: list[int] = []
    for init in node.fields:
        if init.name not in names:
            message = f"`{item.node.name}` has no field `{init.name}`"
            raise body.fail("E3013", message, init.span, helps=did_you_mean(init.name, names))
        index = names.index(init.name)
        if index in order:
            raise body.fail("E3013", f"the field `{init.name}` is given twice", init.span)
        order.append(index)
    missing = [f"`{name}`" for i, name in enumerate(names) if i not in order]
    if missing:
        message = f"{', '.join(missing)} of `{item.node.name}` {'is' if len(missing) == 1 else 'are'} missing"
        raise body.fail("E3013", message, node.span, labels=[(item.node.span, "declared here")])
    return tuple(order)


def _known_fields(body: Body, type_: tree.Struct, written: list[ast.FieldInit]) -> list[tree.Value]:
    declared = body.session.structs[type_.key].fields
    return [
        convert.check(body, init.value, convert.Want(want, "E3014", f"the field `{name}` is"))
        for init, (name, want) in zip(written, declared, strict=True)
    ]


def _inferred_fields(
    body: Body, node: ast.StructLit, item: StructItem, written: list[ast.FieldInit], expected: tree.Type | None
) -> tuple[tree.Struct, list[tree.Value]]:
    binder = infer.Binder(body.session, Env(item.module, body.session.host), item.node.generics)
    _expect(binder, item, expected, node.span)
    values = []
    for init, field in zip(written, item.node.fields, strict=True):
        values.append(_open_value(binder, body, init.value, field.type, f"the field `{field.name}`"))
    binder.finish(item.node.name, node.path.span)
    args = tuple(binder.bound[p.name] for p in item.node.generics)
    type_ = resolve.instantiate(body.session, item, args, node.span, body.env.depth)
    assert isinstance(type_, tree.Struct)
    declared = body.session.structs[type_.key].fields
    return type_, [
        convert.coerce(body, value, convert.Want(want, "E3014", f"the field `{name}` is"))
        for value, (name, want) in zip(values, declared, strict=True)
    ]


def _open_value(binder: infer.Binder, body: Body, node: ast.Expr, declared: ast.TypeExpr, what: str) -> tree.Value:
    """A value whose declared type may mention parameters that it decides."""
    hint = None
    if not binder.is_open(declared):
        hint = resolve.resolve_type(binder.session, binder.callee_env, declared)
    value = expressions.value(body, node, hint)
    infer.match_type(binder, declared, value.type, infer.Origin(node.span, what))
    return value


def _expect(binder: infer.Binder, item: StructItem | EnumItem, expected: tree.Type | None, span: Span) -> None:
    """Take the generic arguments from the type that the context expects."""
    if expected is None or binder.session.item_of(expected) is not item:
        return
    args = binder.session.args_of(expected)
    for param, value in zip(item.node.generics, args, strict=True):
        if param.name not in binder.bound:
            binder.bind(param.name, value, infer.Origin(span, "the expected type", hint=True))


# ---- enum variants -----------------------------------------------------------------------------
def variant(
    body: Body, target: paths.VariantTarget, args: tuple[ast.Expr, ...], span: Span, expected: tree.Type | None
) -> tree.Value:
    """`Enum::Variant(…)` or `Variant(…)`. Errors: E0305, E3003, E3008."""
    item = target.enum
    declared = item.node.variants[target.index]
    calls.check_count(body, declared.name, len(declared.items), args, span, declared.span)
    binder = infer.Binder(body.session, Env(item.module, body.session.host), item.node.generics)
    if target.type is not None:
        _expect(binder, item, target.type, span)
    elif target.given and len(target.given) != len(item.node.generics):
        want, have = len(item.node.generics), len(target.given)
        raise resolve.wrong_count(body.session, item.node.name, want, have, span, item.node.span)
    infer.give(binder, body.type_env, target.given, item.node.generics, item.node.name)
    _expect(binder, item, expected, span)
    values = [
        _open_value(binder, body, arg, type_, "the payload") for arg, type_ in zip(args, declared.items, strict=True)
    ]
    _finish_enum(binder, body, item, declared.name, span)
    bound = tuple(binder.bound[p.name] for p in item.node.generics)
    type_ = resolve.instantiate(body.session, item, bound, span, body.env.depth)
    assert isinstance(type_, tree.Enum)
    payload = body.session.enums[type_.key].variants[target.index][1]
    what = f"the payload of `{declared.name}` is"
    checked = tuple(
        convert.coerce(body, value, convert.Want(want, "E3003", what))
        for value, want in zip(values, payload, strict=True)
    )
    return tree.EnumLit(type_, span, target.index, checked)


def _finish_enum(binder: infer.Binder, body: Body, item: EnumItem, name: str, span: Span) -> None:
    missing = [p.name for p in item.node.generics if p.name not in binder.bound]
    if missing:
        params = ", ".join(p.name for p in item.node.generics)
        message = f"`{missing[0]}` of `{item.node.name}<{params}>` cannot be inferred"
        helps = [f"write `{item.node.name}<…>::{name}`, or give the variable a type"]
        raise body.fail("E0305", message, span, helps=helps)

"""What a path in an expression names.

Enters: `ast.Path`. Leaves: a `Target`: a local, a constant, a function, an enum's variant, … Order: locals,
generic parameters, items, the prelude's variants, built-in functions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from vx.diagnostics.span import Span
from vx.machine.machine import topology_id
from vx.sema import constants, methods, resolve, tree
from vx.sema.context import Body, CheckFailed, ConstArg, NotConstant
from vx.sema.names import (
    AliasItem,
    Ambiguous,
    ConstItem,
    EnumItem,
    ExternItem,
    FixedItem,
    FunctionItem,
    Item,
    StructItem,
    UnsupportedItem,
    did_you_mean,
    item_kind,
    lookup,
    visible_names,
)
from vx.sema.types import integer_range, show
from vx.syntax import ast

BUILTINS = frozenset(
    {"print", "dot", "sum", "max", "min", "matmul_into", "flash_attention_into", "sync", "abort"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LocalTarget:
    id: int


@dataclass(frozen=True, slots=True)
class ConstTarget:
    value: tree.Const | tree.Str


@dataclass(frozen=True, slots=True)
class TensorTarget:
    name: str
    type: tree.Tensor


@dataclass(frozen=True, slots=True)
class FunctionTarget:
    """`given` are the explicit arguments of the function's own parameters."""

    item: FunctionItem
    given: tuple[ast.GenericArg, ...]


@dataclass(frozen=True, slots=True)
class AssociatedTarget:
    """A function of a type: `owner` if that is known, else to be inferred by `item`'s `impl`."""

    item: FunctionItem
    owner: tree.Type | None
    given: tuple[ast.GenericArg, ...]


@dataclass(frozen=True, slots=True)
class VariantTarget:
    """A variant of `enum`, whose generic arguments are `given`, or known as `type`, or inferred."""

    enum: EnumItem
    index: int
    given: tuple[ast.GenericArg, ...]
    type: tree.Enum | None


@dataclass(frozen=True, slots=True)
class NewTensorTarget:
    """`Name::new`, `::uninit`, `::fill` of a tensor type that has a name."""

    type: tree.Tensor
    kind: str


@dataclass(frozen=True, slots=True)
class ExternTarget:
    item: ExternItem


@dataclass(frozen=True, slots=True)
class BuiltinTarget:
    name: str


TENSOR_KINDS = ("new", "uninit", "fill")

Target = (
    LocalTarget | ConstTarget | TensorTarget | FunctionTarget | AssociatedTarget | VariantTarget
    | NewTensorTarget | ExternTarget | BuiltinTarget
)  # fmt: skip


def resolve_path(body: Body, path: ast.Path, what: str = "name") -> Target:
    """What `path` names. Errors: E0201, E0205, E0207, E0208, E0901; names that failed before stay silent."""
    if len(path.segments) == 1:
        return _one_segment(body, path.segments[0], what)
    return _several_segments(body, path, what)


# ---- one segment -------------------------------------------------------------------------------
def _one_segment(body: Body, segment: ast.PathSegment, what: str) -> Target:
    name = segment.name
    local = _local(body, name, segment.span)
    if local is not None:
        return local
    found = lookup(body.env.scope, name)
    if isinstance(found, Ambiguous):
        raise resolve.ambiguous(body.session, name, found, segment.span)
    if found is not None:
        return _item_target(body, found, segment)
    variant = prelude_variant(body, name)
    if variant is not None:
        return VariantTarget(variant[0], variant[1], (), None)
    if name in BUILTINS:
        return BuiltinTarget(name)
    names = [*body.local_names(), *visible_names(body.env.scope), *BUILTINS]
    raise resolve.unknown(body.session, name, name, names, segment.span, what)


def _local(body: Body, name: str, span: Span) -> Target | None:
    known, id_ = body.find(name)
    if known:
        if id_ is None:
            raise CheckFailed(name)
        body.use(id_)
        return LocalTarget(id_)
    if body.constant and body.env.is_local(name):
        raise NotConstant(span, f"`{name}` is known only at run time")
    bound = body.env.bindings.get(name)
    if isinstance(bound, ConstArg):
        return ConstTarget(tree.Const(bound.type, span, bound.value))
    if isinstance(bound, tree.Place):
        return ConstTarget(tree.Const(tree.I32, span, topology_id(bound.topology, bound.instance)))
    return None


def _item_target(body: Body, item: Item, segment: ast.PathSegment) -> Target:
    match item:
        case FunctionItem():
            return FunctionTarget(item, segment.args)
        case ExternItem():
            return ExternTarget(item)
        case ConstItem():
            return ConstTarget(constants.const_item(body.session, item, segment.span))
        case FixedItem(meaning=tree.Const() | tree.Str()):
            assert isinstance(item.meaning, tree.Const | tree.Str)
            return ConstTarget(item.meaning)
        case FixedItem(meaning=tree.Tensor()):
            assert isinstance(item.meaning, tree.Tensor)
            return TensorTarget(segment.name, item.meaning)
        case UnsupportedItem():
            raise body.session.unsupported(f"{item.what} is", segment.span)
        case _:
            message = f"`{segment.name}` is {item_kind(item)}, not a value"
            helps = [f"make one: `{segment.name} {{ … }}`"] if isinstance(item, StructItem) else []
            raise body.fail("E0201", message, segment.span, helps=helps)


def prelude_variant(body: Body, name: str) -> tuple[EnumItem, int] | None:
    """`Some`, `None`, `Ok`, `Err`: variants of the prelude's enums that need no enum name."""
    scope = body.env.scope.prelude or body.env.scope
    for item in scope.items.values():
        if isinstance(item, EnumItem):
            for index, variant in enumerate(item.node.variants):
                if variant.name == name:
                    return item, index
    return None


# ---- several segments --------------------------------------------------------------------------
def _several_segments(body: Body, path: ast.Path, what: str) -> Target:
    head, last = path.segments[-2], path.segments[-1]
    owner = _owner(body, path.segments[:-1])
    if isinstance(owner, StructItem | EnumItem):
        return _member(body, owner, head, last)
    if owner is not None:
        return _typed_member(body, owner, last)
    item = resolve.find_item(
        body.session, body.env.scope, [s.name for s in path.segments], path.span, what
    )  # fmt: skip
    return _item_target(body, item, last)


def _owner(body: Body, segments: tuple[ast.PathSegment, ...]) -> StructItem | EnumItem | tree.Type | None:
    """What stands before the last `::` if it is a type; None if it is a module."""
    head = segments[-1]
    found: Item | Ambiguous | None
    if len(segments) == 1:
        bound = body.env.bindings.get(head.name)
        if bound is not None and not isinstance(bound, ConstArg | tree.Place):
            return bound
        if head.name in tree.BITS and head.name not in tree.STORAGE_ONLY:
            return tree.Scalar(head.name)
        found = lookup(body.env.scope, head.name)
    else:
        names = [s.name for s in segments[:-1]]
        if not any(names == [key] or tuple(names) == m.path for key, m in body.env.scope.imports.items()):
            return None
        found = resolve.module_named(body.session, body.env.scope, names, head.span).items.get(head.name)
    if isinstance(found, AliasItem | FixedItem):
        return _alias(body, found, head)
    return found if isinstance(found, StructItem | EnumItem) else None


def _alias(body: Body, item: AliasItem | FixedItem, head: ast.PathSegment) -> tree.Type | None:
    if isinstance(item, FixedItem):
        return item.meaning if isinstance(item.meaning, tree.Scalar) else None
    return resolve.resolve_type(body.session, body.env, ast.PathType(head.span, (head.name,), ()))


def _member(body: Body, owner: StructItem | EnumItem, head: ast.PathSegment, last: ast.PathSegment) -> Target:
    """`Enum::Variant`, `Struct::function`, with or without generic arguments after the type's name."""
    if isinstance(owner, EnumItem):
        index = variant_index(owner, last.name)
        if index is not None:
            return VariantTarget(owner, index, head.args, None)
    if head.args or not owner.node.generics:
        env = body.type_env
        args = resolve.generic_args(body.session, env, owner, head.args, head.span)
        type_ = resolve.instantiate(body.session, owner, args, head.span, body.env.depth)
        return _typed_member(body, type_, last)
    for impl in body.session.impls_of(owner):
        if last.name in impl.functions:
            return AssociatedTarget(impl.functions[last.name], None, last.args)
    names = [name for impl in body.session.impls_of(owner) for name in impl.functions]
    raise _no_member(body, owner.node.name, last, [*names, *_variant_names(owner)])


def _typed_member(body: Body, owner: tree.Type, last: ast.PathSegment) -> Target:
    if isinstance(owner, tree.Scalar):
        return ConstTarget(_scalar_constant(body, owner, last))
    if isinstance(owner, tree.Tensor) and last.name in TENSOR_KINDS:
        return NewTensorTarget(owner, last.name)
    item = body.session.item_of(owner)
    if isinstance(item, EnumItem) and isinstance(owner, tree.Enum):
        index = variant_index(item, last.name)
        if index is not None:
            return VariantTarget(item, index, (), owner)
    found = methods.find(body.session, owner, last.name)
    if found is None:
        names = [*methods.names(body.session, owner), *_variant_names(item)]
        raise _no_member(body, show(owner), last, names)
    return AssociatedTarget(found.item, owner, last.args)


def variant_index(item: EnumItem, name: str) -> int | None:
    return next((i for i, v in enumerate(item.node.variants) if v.name == name), None)


def _variant_names(item: StructItem | EnumItem | None) -> Iterator[str]:
    if isinstance(item, EnumItem):
        yield from (v.name for v in item.node.variants)


def _no_member(body: Body, owner: str, last: ast.PathSegment, names: list[str]) -> CheckFailed:
    message = f"`{owner}` has no function or variant `{last.name}`"
    return body.fail("E0205", message, last.span, helps=did_you_mean(last.name, names))


_FLOAT_LIMITS = {"f16": (65504.0, 2.0**-10), "bf16": (3.3895313892515355e38, 2.0**-7),
                 "f32": (3.4028234663852886e38, 2.0**-23), "f64": (1.7976931348623157e308, 2.0**-52)}  # fmt: skip


def _scalar_constant(body: Body, owner: tree.Scalar, last: ast.PathSegment) -> tree.Const:
    """`i32::MAX`, `f32::INFINITY`, …"""
    values: dict[str, int | float] = {}
    if owner.name in tree.FLOATS:
        greatest, epsilon = _FLOAT_LIMITS[owner.name]
        values = {"MAX": greatest, "MIN": -greatest, "EPSILON": epsilon, "INFINITY": math.inf,
                  "NEG_INFINITY": -math.inf, "NAN": math.nan}  # fmt: skip
    elif owner.name != "bool":
        low, high = integer_range(owner.name)
        values = {"MAX": high, "MIN": low}
    if last.name not in values:
        raise _no_member(body, owner.name, last, list(values))
    return tree.Const(owner, last.span, values[last.name])

"""`match` in host code.

Enters: `Match` nodes. Leaves: branches; payloads become locals of their arm. An owned scrutinee is
taken apart: what an arm does not bind is dropped when the arm is entered.
"""

from __future__ import annotations

from vx.codegen import host_scalar
from vx.codegen.host_drop import bind, bind_value, drop_at
from vx.codegen.host_expr import block_into
from vx.codegen.host_function import Emitter, InMemory, Operand
from vx.codegen.layout import is_aggregate
from vx.codegen.llvm_text import constant
from vx.sema import tree
from vx.sema.tree import LocalId, Scalar, Type


def match_into(fn: Emitter, node: tree.Match, address: str | None) -> None:
    type_ = node.scrutinee.type
    by_reference = isinstance(type_, tree.Ref)
    inner = type_.to if isinstance(type_, tree.Ref) else type_
    if isinstance(inner, tree.Enum):
        where = fn.scalar(node.scrutinee)
        _match_enum(fn, node, inner, where, by_reference, address)
    else:
        _match_values(fn, node, inner, fn.value(node.scrutinee), address)


# ---- enums -----------------------------------------------------------------------------------------
def _match_enum(
    fn: Emitter, node: tree.Match, type_: tree.Enum, where: str, by_reference: bool, address: str | None
) -> None:
    if not fn.open:
        return
    tag = fn.op(f"load i32, ptr {where}")
    after, otherwise = fn.fresh_label(), fn.fresh_label()
    cases: dict[int, tuple[str, tree.Arm]] = {}
    default: tree.Arm | None = None
    for arm in node.arms:
        if isinstance(arm.pattern, tree.TagPattern):
            cases.setdefault(arm.pattern.tag, (fn.fresh_label(), arm))
        else:
            default = arm
            break
    targets = " ".join(f"i32 {tag_}, label %{label}" for tag_, (label, _) in cases.items())
    fn.end(f"switch i32 {tag}, label %{otherwise} [ {targets} ]")
    reaches = False
    for label, arm in cases.values():
        fn.label(label)
        reaches |= _arm(fn, arm, type_, where, by_reference, address, after)
    fn.label(otherwise)
    if default is None:
        fn.end("unreachable")
    else:
        reaches |= _arm(fn, default, type_, where, by_reference, address, after)
    if reaches:
        fn.label(after)


def _arm(
    fn: Emitter, arm: tree.Arm, type_: tree.Enum, where: str, by_reference: bool, address: str | None, after: str
) -> bool:
    """One arm; whether its end is reached."""
    with fn.scope():
        if isinstance(arm.pattern, tree.TagPattern):
            _bind_payloads(fn, arm.pattern, type_, where, by_reference)
        elif isinstance(arm.pattern, tree.AnyPattern):
            _bind_whole(fn, arm.pattern.binding, type_, where, by_reference)
        block_into(fn, arm.body, address)
    reached = fn.open
    fn.goto(after)
    return reached


def _bind_payloads(fn: Emitter, pattern: tree.TagPattern, type_: tree.Enum, where: str, by_reference: bool) -> None:
    types = fn.module.program.enums[type_.key].variants[pattern.tag][1]
    offsets = fn.module.layouts.payload_offsets(type_, pattern.tag)
    for binding, payload, offset in zip(pattern.bindings, types, offsets, strict=True):
        if binding is not None:
            _bind_part(fn, binding, payload, fn.at_offset(where, offset), by_reference)
        elif not by_reference and fn.module.layouts.needs_drop(payload):
            drop_at(fn, InMemory(fn.at_offset(where, offset)), payload)


def _bind_part(fn: Emitter, binding: LocalId, part: Type, where: str, by_reference: bool) -> None:
    """A local for a part of the scrutinee at `where`: the part itself, or a reference to it."""
    if not by_reference:
        in_place = is_aggregate(part) or binding in fn.usage.in_memory
        bind(fn, binding, InMemory(where) if in_place else fn.load(part, where))
    elif fn.type_of(binding) == part or isinstance(part, tree.Tensor):
        bind_value(fn, binding, fn.load(part, where))
    else:
        bind_value(fn, binding, where)


def _bind_whole(fn: Emitter, binding: LocalId | None, type_: Type, where: str, by_reference: bool) -> None:
    if binding is not None:
        _bind_part(fn, binding, type_, where, by_reference)
    elif not by_reference and fn.module.layouts.needs_drop(type_):
        drop_at(fn, InMemory(where), type_)


# ---- scalars and strings -----------------------------------------------------------------------------
def _match_values(fn: Emitter, node: tree.Match, type_: Type, scrutinee: Operand, address: str | None) -> None:
    value = scrutinee
    compares = any(isinstance(arm.pattern, tree.ValuePattern) for arm in node.arms)
    if isinstance(node.scrutinee.type, tree.Ref) and compares and isinstance(scrutinee, str):
        value = fn.load(type_, scrutinee)
    after = fn.fresh_label()
    reaches = False
    for arm in node.arms:
        following = fn.fresh_label()
        if isinstance(arm.pattern, tree.ValuePattern):
            assert isinstance(value, str)
            then = fn.fresh_label()
            fn.branch(_equal(fn, value, arm.pattern.value, type_), then, following)
            fn.label(then)
        with fn.scope():
            if isinstance(arm.pattern, tree.AnyPattern):
                _bind_value_whole(fn, arm.pattern.binding, node, type_, scrutinee, value)
            block_into(fn, arm.body, address)
        reaches = reaches or fn.open
        fn.goto(after)
        if isinstance(arm.pattern, tree.AnyPattern):
            break
        fn.label(following)
    else:
        fn.end("unreachable")
    if reaches:
        fn.label(after)


def _bind_value_whole(
    fn: Emitter, binding: LocalId | None, node: tree.Match, type_: Type, scrutinee: Operand, value: Operand
) -> None:
    owned = not isinstance(node.scrutinee.type, tree.Ref)
    if binding is None:
        if owned:
            fn.drop(scrutinee, type_)
    elif fn.type_of(binding) == node.scrutinee.type:
        bind_value(fn, binding, scrutinee)
    else:
        bind_value(fn, binding, value)


def _equal(fn: Emitter, value: str, pattern: tree.Const | tree.Str, type_: Type) -> str:
    if isinstance(pattern, tree.Str):
        name = fn.module.declare("strcmp", "declare i32 @strcmp(ptr, ptr) nounwind willreturn memory(argmem: read)")
        order = fn.op(f"call i32 {name}(ptr {value}, ptr {fn.module.string(pattern.value)})")
        return fn.op(f"icmp eq i32 {order}, 0")
    assert isinstance(type_, Scalar)
    return host_scalar.compare(fn, "==", value, constant(pattern.value, type_.name), type_.name)

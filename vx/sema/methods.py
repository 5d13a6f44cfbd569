"""Finding the function that a method or an associated function is, among the `impl` blocks of a type.

Enters: a struct or enum type and a name. Leaves: the function with the bindings of its `impl`'s
parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vx.diagnostics.span import Span
from vx.sema import infer, instances, resolve, tree
from vx.sema.context import Env, GenericValue, Instance, Session
from vx.sema.names import FunctionItem, ImplItem


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    item: FunctionItem
    bindings: Mapping[str, GenericValue]
    """Of the `impl`'s parameters, and `Self`."""


def find(session: Session, type_: tree.Type, name: str) -> Found | None:
    """The function `name` that some `impl` of `type_` declares."""
    item = session.item_of(type_)
    if item is None:
        return None
    for impl in session.impls_of(item):
        function = impl.functions.get(name)
        if function is None:
            continue
        bindings = impl_bindings(session, impl, type_)
        if bindings is not None:
            return Found(function, bindings)
    return None


def impl_bindings(session: Session, impl: ImplItem, type_: tree.Type) -> Mapping[str, GenericValue] | None:
    """What the parameters of `impl` must be for it to be an `impl` of `type_`; None if it is not."""
    env = Env(impl.module, session.host, {})
    binder = infer.Binder(session, env, impl.node.generics)
    infer.match_type(binder, impl.node.target, type_, infer.Origin(impl.node.span, "the type", hint=True))
    if binder.open_names():
        return None
    if resolve.resolve_type(session, binder.callee_env, impl.node.target) != type_:
        return None
    return {**binder.bound, "Self": type_}


def names(session: Session, type_: tree.Type) -> Iterator[str]:
    """Names of all functions in the `impl`s of a type."""
    item = session.item_of(type_)
    if item is not None:
        for impl in session.impls_of(item):
            yield from impl.functions


def instance_without_args(session: Session, found: Found, type_: tree.Type, span: Span) -> Instance:
    """The host instance of a method that has no parameters of its own (a destructor)."""
    assert isinstance(type_, tree.Struct)
    depth = session.structs[type_.key].env.depth if found.item.impl and found.item.impl.node.generics else 0
    return instances.request(session, found.item, found.bindings, session.host, {}, depth, span)

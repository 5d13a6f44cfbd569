"""Destructors: `fn drop(self : &mut T) -> void` in an `impl` of a struct.

Enters: a struct type. Leaves: the key of its destructor's instance, which is requested here, or None.
"""

from __future__ import annotations

from vx.diagnostics.span import Span
from vx.sema import methods, tree
from vx.sema.context import Session


def find(session: Session, type_: tree.Struct, span: Span) -> str | None:
    """The destructor of `type_`, if it declares one."""
    found = methods.find(session, type_, "drop")
    if found is None:
        return None
    instance = methods.instance_without_args(session, found, type_, span)
    if instance.params != (tree.Ref(type_, True),) or instance.ret != tree.VOID:
        node = found.item.node
        message = "`drop` is the destructor, and has the form `fn drop(self : &mut T) -> void`"
        raise session.fail("E0216", message, node.name_span)
    return instance.key

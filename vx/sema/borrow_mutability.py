"""Borrow checking: what may be changed at all.

Enters: a place of the typed tree. Leaves: None, or a `Barrier` that says what forbids changing it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vx.diagnostics.span import Span
from vx.sema import tree


@dataclass(frozen=True, slots=True)
class Barrier:
    """`label` stands at `span` (None: there is nothing to point at)."""

    span: Span | None
    label: str
    help: str


Locals = Mapping[tree.LocalId, tree.LocalDecl]


def barrier(place: tree.PlaceNode, decls: Locals) -> Barrier | None:
    """What forbids assigning to `place` or borrowing it as mutable."""
    match place:
        case tree.Local():
            return _of_local(decls[place.id])
        case tree.ModelTensor():
            return Barrier(None, "", f"copy it first: `let mut w = model::{place.name}.copy();`")
        case tree.Temp():
            return None
        case tree.Deref():
            return _of_deref(place, decls)
        case tree.Field() | tree.Index() | tree.Reshape() | tree.Transpose() | tree.Bytes():
            return barrier(place.base, decls)


def _of_local(decl: tree.LocalDecl) -> Barrier | None:
    if decl.mutable:
        return None
    help_ = f"declare it as mutable: `let mut {decl.name}`"
    return Barrier(decl.span, f"`{decl.name}` is not declared `mut`", help_)


def _of_deref(place: tree.Deref, decls: Locals) -> Barrier | None:
    pointer = place.ref.type
    if not isinstance(pointer, tree.Ref | tree.Ptr):
        return None
    if not pointer.mutable:
        return _shared(place.ref, pointer, decls)
    if isinstance(place.ref, tree.Read) and isinstance(pointer, tree.Ref):
        return _through(place.ref.place, decls)
    return None


def _through(place: tree.PlaceNode, decls: Locals) -> Barrier | None:
    """A `&mut` lets its target be changed, unless it is itself reached through a shared reference."""
    match place:
        case tree.Deref():
            return _of_deref(place, decls)
        case tree.Field() | tree.Index() | tree.Reshape() | tree.Transpose() | tree.Bytes():
            return _through(place.base, decls)
        case tree.Local() | tree.ModelTensor() | tree.Temp():
            return None


def _shared(ref: tree.Value, pointer: tree.Ref | tree.Ptr, decls: Locals) -> Barrier:
    if isinstance(pointer, tree.Ptr):
        return Barrier(ref.span, "this is a `*const` pointer", "use a `*mut` pointer")
    if isinstance(ref, tree.Read) and isinstance(ref.place, tree.Local):
        decl = decls[ref.place.id]
        text = f"`{decl.name}` is a shared reference"
        return Barrier(decl.span, text, f"make `{decl.name}` a `&mut` reference")
    return Barrier(ref.span, "this is a shared reference", "use a `&mut` reference")

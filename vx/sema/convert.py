"""Where a value meets the type that is wanted: what is adapted silently, and the error for the rest.

Enters: a value and the type its context declares. Leaves: the value, reborrowed or read through a reference
where that is all it takes. Numbers are never converted.
"""

from __future__ import annotations

from dataclasses import dataclass

from vx.sema import expressions, placement, tree
from vx.sema.context import Body, CheckFailed
from vx.sema.types import dims_fit, fits, is_numeric, show, show_dims, show_place
from vx.syntax import ast


@dataclass(frozen=True, slots=True)
class Want:
    """The type that a context declares, the code of its violation, and how to begin the message
    ("`x` is declared")."""

    type: tree.Type
    code: str
    what: str


def check(body: Body, node: ast.Expr, want: Want) -> tree.Value:
    """The value of `node`, of the wanted type."""
    return coerce(body, expressions.value(body, node, want.type), want)


def coerce(body: Body, value: tree.Value, want: Want) -> tree.Value:
    """`value` as the wanted type, or the error of the context."""
    value = adapted(value, want.type)
    if fits(value.type, want.type):
        return value
    raise mismatch(body, value, want)


def adapted(value: tree.Value, want: tree.Type) -> tree.Value:
    """What happens without being written: `&mut` references are reborrowed, Copy values are read through
    references, a reference to a reference is looked through."""
    if isinstance(want, tree.Ref) and isinstance(value.type, tree.Ref):
        return _reborrowed(value, want)
    if isinstance(value.type, tree.Ref) and value.type.to == want and isinstance(want, tree.Scalar | tree.Ptr):
        return tree.Read(want, value.span, expressions.deref(value), move=False)
    return value


def _reborrowed(value: tree.Value, want: tree.Ref) -> tree.Value:
    assert isinstance(value.type, tree.Ref)
    inner = value.type.to
    if isinstance(inner, tree.Ref) and not isinstance(want.to, tree.Ref):
        found = expressions.through_refs(expressions.deref(value))
        return tree.AddrOf(tree.Ref(found.type, want.mutable), value.span, found, want.mutable)
    if isinstance(value, tree.Read) and value.type.mutable:
        source = tree.Read(value.type, value.span, value.place, move=False)
        target = tree.Ref(inner, want.mutable)
        return tree.AddrOf(target, value.span, expressions.deref(source), want.mutable)
    return value


# ---- the error ---------------------------------------------------------------------------------
def mismatch(body: Body, value: tree.Value, want: Want) -> CheckFailed:
    """The error of the context, with what to do about it."""
    have = value.type
    message = f"{want.what} {show(want.type)}, and this is {show(have)}"
    helps = _advice(body, have, want.type)
    return body.fail(want.code, message, value.span, helps=[helps] if helps else [])


def _advice(body: Body, have: tree.Type, want: tree.Type) -> str | None:
    if is_numeric(have) and is_numeric(want):
        return f"convert it: `… as {show(want)}`"
    if isinstance(want, tree.Ref) and not isinstance(have, tree.Ref):
        return (
            f"borrow it: `&{'mut ' if want.mutable else ''}…`" if fits(have, want.to) else _inner(body, have, want.to)
        )
    if isinstance(have, tree.Ref) and not isinstance(want, tree.Ref):
        if isinstance(want, tree.Tensor) and fits(have.to, want):
            return "this is a borrow; `.copy()` makes a tensor of its own"
        return _inner(body, have.to, want)
    if isinstance(have, tree.Ref) and isinstance(want, tree.Ref):
        if want.mutable and not have.mutable and fits(have.to, want.to):
            return "borrow it as mutable: `&mut …`"
        return _inner(body, have.to, want.to)
    return _inner(body, have, want)


def _inner(body: Body, have: tree.Type, want: tree.Type) -> str | None:
    if not isinstance(have, tree.Tensor) or not isinstance(want, tree.Tensor):
        return None
    if have.elem != want.elem:
        return f"convert the elements: `… as {want.elem}`"
    if not dims_fit(have.dims, want.dims):
        return f"the shapes differ: {show_dims(have.dims)} is not {show_dims(want.dims)}"
    if have.place != want.place:
        place = placement.real_place(body.session, want.place)
        return f"move it first: `transfer(…, {show_place(place)})`"
    return None

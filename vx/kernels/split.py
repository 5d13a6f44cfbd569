"""A loop that computes elements and accumulates beside it, as two: `y[j] = exp(x[j]); total += y[j];`.

Enters: a loop's body. Leaves: the part that stores, whose iterations are independent, and the part that only
accumulates, for a loop of its own after it. What the second needs of the first is loaded where it was stored, else
computed again.
"""

from __future__ import annotations

from collections.abc import Sequence

from vx.kernels import affine, effects, ir
from vx.kernels.effects import Loop


def parts(loop: Loop, body: Sequence[ir.Stmt], var: ir.Var) -> tuple[list[ir.Stmt], tuple[ir.Stmt, ...]] | None:
    """The storing and the accumulating part, the latter with `var` as its loop variable; None if they depend on each
    other in another way. That the first part's iterations are independent is for the caller to prove."""
    carried = effects.assigned(body) - effects.declared(body)
    own = effects.allocated(body)
    first = [s for s in body if not _accumulates(s, carried)]
    second = [s for s in body if _accumulates(s, carried)]
    if not carried or not second or not effects.stored(first) or effects.free_variables(first) & carried:
        return None
    if not all(_readable(body, s, first) for s in second):
        return None
    known = _definitions(first, effects.stored(first) | own)
    if effects.free_variables(second) & (effects.declared(first) - set(known)):
        return None
    moved = effects.substituted(effects.substituted(second, known), {loop.var.id: var})
    return None if effects.loaded(moved) & own else (first, moved)


def _accumulates(stmt: ir.Stmt, carried: set[ir.VarId]) -> bool:
    """Nothing but changes of carried scalars."""
    match stmt:
        case ir.Set(var=v):
            return v.id in carried
        case ir.If(then=then, orelse=orelse):
            return all(_accumulates(s, carried) for s in (*then, *orelse))
        case _:
            return False


def _readable(body: Sequence[ir.Stmt], stmt: ir.Stmt, first: Sequence[ir.Stmt]) -> bool:
    """Whether what `stmt` loads is still there after the whole first part: untouched by it, or elements that its own
    iteration had stored before."""
    before = list(body[: body.index(stmt)])
    after = [s for s in body[body.index(stmt) :] if s in first]
    places = {(s.buffer, s.offset) for s in effects.statements(before) if isinstance(s, ir.Store)}
    written, later = effects.stored(first), effects.stored(after)
    loads = [load for expr in effects.all_expressions([stmt]) for load in affine.loads(expr)]
    return all(x.buffer not in written or ((x.buffer, x.offset) in places and x.buffer not in later) for x in loads)


def _definitions(first: Sequence[ir.Stmt], written: set[ir.BufferId]) -> dict[ir.VarId, ir.Expr]:
    """Scalars of the first part that the second can have: from where they were stored, or computed again."""
    known: dict[ir.VarId, ir.Expr] = {}
    inside = effects.declared(first)
    for stmt in first:
        if isinstance(stmt, ir.Let) and not stmt.mutable:
            value = affine.substitute(stmt.value, known)
            if not affine.variables(value) & inside and not any(x.buffer in written for x in affine.loads(value)):
                known[stmt.var.id] = value
    last = {s.buffer: s for s in effects.statements(first) if isinstance(s, ir.Store)}
    for i, stmt in enumerate(first):
        if isinstance(stmt, ir.Store) and isinstance(stmt.value, ir.Var) and last[stmt.buffer] is stmt:
            place = affine.substitute_affine(stmt.offset, known)
            kept = inside - effects.assigned(first[i:])
            if stmt.value.id in kept and not affine.variables(place) & inside:
                known[stmt.value.id] = ir.Load(stmt.buffer, place, stmt.value.type)
    return known

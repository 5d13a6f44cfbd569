"""Loops over elements, and closing a loop: reductions recognised, parallelism proven, checks moved out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vx.diagnostics.span import NOWHERE, Span
from vx.kernels import affine, bounds, effects, ir, parallel, reductions
from vx.kernels.effects import Loop
from vx.kernels.lowering import Lowering, Rows, Scope, View, dense_strides

ElementFn = Callable[[Sequence[ir.Expr]], ir.Expr]


def set_range(lo: Lowering, v: ir.Var, low: ir.Affine, high: ir.Affine) -> None:
    """The loop variable's inclusive bounds, as far as they are known."""
    last = affine.add(high, bounds.MINUS_ONE)
    lo.ranges[v.id] = (affine.interval(low, lo.ranges)[0], affine.interval(last, lo.ranges)[1])


def close(lo: Lowering, scope: Scope, loop: Loop, span: Span) -> None:
    """Emit the loop whose body was collected in `scope`."""
    bounds.hoist(lo, scope, loop)
    body = tuple(scope.stmts)
    reduced = reductions.as_reductions(loop, body)
    if reduced is not None:
        for stmt in reduced:
            lo.emit(stmt)
        return
    why = parallel.why_serial(loop, body, lo.ranges, lo.buffer_names)
    lo.emit(ir.For(loop.var, loop.low, loop.high, body, not why, why, span))


def store_all(lo: Lowering, target: View, at: Callable[[Sequence[ir.Affine]], ir.Expr], span: Span) -> None:
    """`target[i…] = at(i…)` for every index: a loop nest, one loop per dimension longer than one."""
    _nest(lo, target, at, [], span)


def _nest(
    lo: Lowering, target: View, at: Callable[[Sequence[ir.Affine]], ir.Expr], index: list[ir.Affine], span: Span
) -> None:
    axis = len(index)
    if axis == len(target.extents):
        lo.emit(ir.Store(target.buffer, target.at(index), at(index)))
        return
    extent = target.extents[axis]
    if extent == affine.const(1):
        _nest(lo, target, at, [*index, affine.ZERO], span)
        return
    v = lo.fresh("i64", "ijklmn"[axis] if axis < 6 else "n")
    set_range(lo, v, affine.ZERO, extent)
    with lo.scope() as inner:
        _nest(lo, target, at, [*index, affine.var(v)], span)
    close(lo, inner, Loop(v, ir.Lit(0, "i64"), affine.simplest(extent)), span)


def assign(lo: Lowering, target: View, source: View | Rows, span: Span) -> None:
    """`target = source`, element by element, as if the source had been computed in full before."""
    require_same_shape(lo, target.extents, source.extents, span)

    def at(index: Sequence[ir.Affine]) -> ir.Expr:
        return source.load(index) if isinstance(source, View) else source.at(index)

    with lo.scope() as attempt:
        store_all(lo, target, at, span)
    serial = any(isinstance(s, ir.For) and not s.parallel for s in effects.statements(attempt.stmts))
    if serial and _reads_other_elements(attempt, target.buffer):
        copy = materialise(lo, source, "copy")
        store_all(lo, target, copy.load, span)
        return
    _adopt(lo, attempt)


def _reads_other_elements(scope: Scope, buffer: ir.BufferId) -> bool:
    """Whether a store of the nest reads elements of its own buffer other than the one it writes."""
    for stmt in effects.statements(scope.stmts):
        if isinstance(stmt, ir.Store):
            for load in affine.loads(stmt.value):
                if load.buffer == buffer and affine.sub(load.offset, stmt.offset) != affine.ZERO:
                    return True
    return False


def _adopt(lo: Lowering, scope: Scope) -> None:
    """Append what was tried in a scope of its own."""
    lo.scopes[-1].stmts.extend(scope.stmts)
    lo.scopes[-1].obligations.extend(scope.obligations)


def materialise(lo: Lowering, source: View | Rows, name: str) -> View:
    """A dense tensor of this region's own with the source's elements."""
    sizes: list[int] = []
    for extent in source.extents:
        limit = affine.interval(extent, lo.ranges)[1]
        if limit is None:
            lo.refuse(
                "a temporary of unbounded size", NOWHERE, "slice a tensor of known size, or store the value first"
            )
        assert limit is not None
        sizes.append(limit)
    whole = lo.allocate(name, source.elem, sizes)
    part = View(whole.buffer, whole.elem, whole.offset, source.extents, dense_strides([affine.const(s) for s in sizes]))
    store_all(lo, part, source.load if isinstance(source, View) else source.at, NOWHERE)
    return part


def require_same_shape(lo: Lowering, a: Sequence[ir.Affine], b: Sequence[ir.Affine], span: Span) -> None:
    for x, y in zip(a, b, strict=True):
        if x != y:
            bounds.require_equal(lo, x, y, "shapes differ", span)

"""Loops over elements, and closing a loop: reductions recognised, parallelism proven, checks moved out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vx.diagnostics.span import NOWHERE, Span
from vx.kernels import affine, bounds, effects, ir, parallel, reductions, split
from vx.kernels.effects import Loop
from vx.kernels.lowering import Deferred, Lowering, Rows, Scope, View, dense_strides

ElementFn = Callable[[Sequence[ir.Expr]], ir.Expr]


def set_range(lo: Lowering, v: ir.Var, low: ir.Affine, high: ir.Affine, type_: str) -> None:
    """The loop variable's inclusive bounds, as far as they are known; the program's variable is of type `type_`."""
    lo.bounds[v.id] = low, high
    first, last = affine.interval(low, lo.ranges)[0], affine.interval(affine.add(high, bounds.MINUS_ONE), lo.ranges)[1]
    if type_ not in ("i64", "u64", "i128", "u128"):
        least, most = affine.limits(type_)
        first, last = least if first is None else first, most - 1 if last is None else last
    lo.ranges[v.id] = (first, last)


def over(lo: Lowering, v: ir.Var, extent: ir.Affine) -> None:
    """The range of a variable that runs over an extent."""
    lo.bounds[v.id] = affine.ZERO, extent
    most = lo.limit(extent)
    lo.ranges[v.id] = (0, None if most is None else most - 1)


def close(lo: Lowering, scope: Scope, loop: Loop, span: Span) -> None:
    """Emit the loop whose body was collected in `scope`."""
    bounds.hoist(lo, scope, loop)
    body = tuple(scope.stmts)
    reduced = reductions.of(lo, loop, body) or _inside_out(lo, loop, body)
    if reduced is not None:
        for stmt in reduced:
            lo.emit(stmt)
        return
    why = parallel.why_serial(loop, body, lo.known)
    if not why or not _split(lo, loop, body, span):
        lo.emit(ir.For(loop.var, loop.low, loop.high, body, not why, why, span))


def _split(lo: Lowering, loop: Loop, body: Sequence[ir.Stmt], span: Span) -> bool:
    """Emit the loop as a parallel one and reductions after it, if that is possible."""
    var = lo.fresh("i64", loop.var.name)
    lo.ranges[var.id] = lo.ranges.get(loop.var.id, (None, None))
    found = split.parts(loop, body, var)
    if found is None or parallel.why_serial(loop, found[0], lo.known):
        return False
    reduced = reductions.of(lo, Loop(var, loop.low, loop.high), found[1])
    if reduced is None:
        return False
    lo.emit(ir.For(loop.var, loop.low, loop.high, tuple(found[0]), True, "", span))
    for stmt in reduced:
        lo.emit(stmt)
    return True


def _inside_out(lo: Lowering, loop: Loop, body: Sequence[ir.Stmt]) -> tuple[ir.Stmt, ...] | None:
    """A loop around a parallel one that only accumulates, as the parallel loop around reductions: what
    `for k { for j { c[j] += a[k] * b[k][j]; } }` adds up is the same for each j alone."""
    *lets, last = body or (None,)
    if not isinstance(last, ir.For) or not last.parallel:
        return None
    known: dict[ir.VarId, ir.Expr] = {}
    for let in lets:
        if not isinstance(let, ir.Let) or let.mutable or effects.disturbs(last.body, let.value):
            return None
        known[let.var.id] = affine.substitute(let.value, known)
    if (affine.variables(last.low) | affine.variables(last.high)) & {loop.var.id, *known}:
        return None
    inner = effects.substituted(last.body, known)
    reduced = reductions.of(lo, loop, inner) or _inside_out(lo, loop, inner)
    if reduced is None:
        return None
    around = Loop(last.var, last.low, last.high)
    why = parallel.why_serial(around, reduced, lo.known)
    return (ir.For(last.var, last.low, last.high, reduced, not why, why, last.span),)


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
    over(lo, v, extent)
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
        copy = materialise(lo, source, "copy", span)
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


def kept(lo: Lowering, source: Rows, name: str, span: Span) -> View | Rows:
    """A row expression as a value of its own: stored, or, where its size has no bound, computed where it is used."""
    if source.heavy or all(lo.limit(extent) is not None for extent in source.extents):
        return materialise(lo, source, name, span)
    element = source.at([affine.var(lo.fresh("i64", "i")) for _ in source.extents])
    late = Deferred(frozenset(x.buffer for x in affine.loads(element)), span, lo.source_loops)
    lo.deferred.append(late)

    def at(index: Sequence[ir.Affine]) -> ir.Expr:
        if late.stale:
            lo.refuse_stale(late)
        return source.at(index)

    return Rows(source.elem, source.extents, at, source.heavy)


def materialise(lo: Lowering, source: View | Rows, name: str, span: Span = NOWHERE) -> View:
    """A dense tensor of this region's own with the source's elements."""
    sizes: list[int] = []
    for extent in source.extents:
        limit = lo.limit(extent)
        if limit is None:
            lo.refuse("a temporary of unbounded size", span, "slice a tensor of known size, or store the value first")
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

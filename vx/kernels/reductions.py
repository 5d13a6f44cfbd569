"""Carried scalars that are reductions: `acc += x`, `max`, `min`, arg-max, in a loop that does nothing else.

The loop disappears: what it added up becomes a `Reduce` (or an `ArgReduce`) after it, whose order of
summation is the code generator's. 16-bit accumulators round at every step, so they stay serial. An element
of a tensor that stays the same through the loop (`y[i] += …`) is a scalar like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from vx.kernels import affine, bounds, effects, ir
from vx.kernels.effects import Loop
from vx.kernels.lowering import Lowering
from vx.sema.tree import FLOATS

MAX_INLINED = 64
"""Nodes that a reduced expression may have after what the body declares was inlined."""


def of(lo: Lowering, loop: Loop, body: Sequence[ir.Stmt]) -> tuple[ir.Stmt, ...] | None:
    """Statements that replace the loop, or None if it is not made of reductions only."""
    if not effects.stored(body):
        return as_reductions(lo, loop, body)
    elements = _elements(lo, loop, body)
    if elements is None:
        return None
    scalars = {key: lo.fresh(elem, "element") for key, elem in elements.items()}
    reduced = as_reductions(lo, loop, _on_scalars(body, scalars))
    if reduced is None:
        return None
    stmts = tuple(_on_elements(reduced, scalars))
    nonempty = (affine.interval(affine.sub(affine.of(loop.high), affine.of(loop.low)), lo.ranges)[0] or 0) > 0
    if nonempty or all(bounds.exists(lo, buffer, at) for buffer, at in elements):
        return stmts
    return (ir.If(ir.Binary("<", loop.low, loop.high, "bool"), stmts, ()),)


Element = tuple[ir.BufferId, ir.Affine]


def _elements(lo: Lowering, loop: Loop, body: Sequence[ir.Stmt]) -> dict[Element, str] | None:
    """The elements that the loop stores to, if they are the same in every round, apart from each other, and all
    that it reads of their tensors."""
    written = effects.stored(body)
    inside = effects.declared(body) | effects.assigned(body) | {loop.var.id}
    found: dict[Element, str] = {}
    for access in effects.accesses(body):
        if access.buffer not in written:
            continue
        at = access.offset
        if affine.variables(at) & inside or any(load.buffer in written for load in affine.loads(at)):
            return None
        if any(b == access.buffer and not _differ(at, offset) for b, offset in found if offset != at):
            return None
        found[access.buffer, at] = lo.buffers[access.buffer].elem
    return found


def _differ(a: ir.Affine, b: ir.Affine) -> bool:
    difference = affine.sub(a, b)
    return not difference.terms and difference.const != 0


def _on_scalars(stmts: Sequence[ir.Stmt], scalars: Mapping[Element, ir.Var]) -> tuple[ir.Stmt, ...]:
    """The statements with scalars in place of elements."""
    found: list[ir.Stmt] = []
    for stmt in stmts:
        match stmt:
            case ir.Store(buffer=buffer, offset=offset, value=value):
                found.append(ir.Set(scalars[buffer, offset], value))
            case ir.If(cond=cond, then=then, orelse=orelse):
                found.append(ir.If(cond, _on_scalars(then, scalars), _on_scalars(orelse, scalars)))
            case _:
                found.append(stmt)
    return effects.rebuilt(found, lambda e: scalars.get((e.buffer, e.offset)) if isinstance(e, ir.Load) else None)


def _on_elements(reduced: Sequence[ir.Stmt], scalars: Mapping[Element, ir.Var]) -> Iterator[ir.Stmt]:
    """Reductions with elements in place of scalars."""
    places = {v.id: (v, ir.Load(*key, v.type)) for key, v in scalars.items()}
    loads = {i: load for i, (_, load) in places.items()}
    for stmt in reduced:
        match stmt:
            case ir.Set(var=v, value=value) if v.id in places:
                load = loads[v.id]
                yield ir.Store(load.buffer, load.offset, affine.substitute(value, loads))
            case ir.ArgReduce(best=best, at=at):
                own = [places[v.id] for v in (best, at) if v.id in places]
                others = {i: load for i, load in loads.items() if i not in (best.id, at.id)}
                yield from (ir.Let(v, load, mutable=True) for v, load in own)
                yield from effects.substituted([stmt], others)
                yield from (ir.Store(load.buffer, load.offset, v) for v, load in own)
            case _:
                yield stmt


def as_reductions(lo: Lowering, loop: Loop, body: Sequence[ir.Stmt]) -> tuple[ir.Stmt, ...] | None:
    """Statements that replace the loop, or None if it is not made of reductions only."""
    collected = _Collected(lo, loop)
    if not _collect(collected, body, None):
        return None
    found = collected.found
    return tuple(found) if found and _separate(found, collected.lets, loop) else None


@dataclass(slots=True)
class _Collected:
    """The reductions of a body so far. `lets` is what scalars declared in the body hold at this point; `local` those
    of them that change."""

    lo: Lowering
    loop: Loop
    lets: dict[ir.VarId, ir.Expr] = field(default_factory=dict)
    local: set[ir.VarId] = field(default_factory=set)
    found: list[ir.Set | ir.ArgReduce] = field(default_factory=list)


def _collect(c: _Collected, stmts: Sequence[ir.Stmt], cond: ir.Expr | None) -> bool:
    """Add the reductions of `stmts`, which run where `cond` holds; False if there is anything else."""
    for stmt in stmts:
        match stmt:
            case ir.Let(var=v, value=value, mutable=mutable):
                c.lets[v.id] = affine.substitute(value, c.lets)
                c.local |= {v.id} if mutable else set()
            case ir.Set(var=v, value=value) if v.id in c.local:
                if not _change(c, v, affine.substitute(value, c.lets), cond):
                    return False
            case ir.Set(var=v, value=value):
                accumulated = _accumulation(c, v, affine.substitute(value, c.lets), cond)
                if accumulated is None:
                    return False
                c.found.append(accumulated)
            case ir.If():
                if not _collect_branch(c, stmt, cond):
                    return False
            case _:
                return False
    return True


def _change(c: _Collected, v: ir.Var, value: ir.Expr, cond: ir.Expr | None) -> bool:
    """A scalar of the body's own gets another value."""
    if cond is not None:
        if bounds.may_fault(c.lo, value):
            return False
        value = ir.Select(cond, value, c.lets[v.id], v.type)
    c.lets[v.id] = value
    return _small(value)


def _collect_branch(c: _Collected, stmt: ir.If, cond: ir.Expr | None) -> bool:
    test = affine.substitute(stmt.cond, c.lets)
    if cond is not None and bounds.may_fault(c.lo, test):
        return False
    then, orelse = _both(cond, test), _both(cond, ir.Unary("!", test, "bool"))
    if not stmt.orelse:
        chosen = _selection(c, then, stmt.then)
        if chosen is not None:
            c.found.append(chosen)
            return True
    return _collect(c, stmt.then, then) and _collect(c, stmt.orelse, orelse)


def _both(a: ir.Expr | None, b: ir.Expr) -> ir.Expr:
    return b if a is None else ir.Binary("&&", a, b, "bool")


def _separate(found: Sequence[ir.Set | ir.ArgReduce], lets: dict[ir.VarId, ir.Expr], loop: Loop) -> bool:
    """No reduction reads or changes what another one accumulates, and the bounds stay put."""
    changed: list[ir.VarId] = []
    for stmt in found:
        changed += [stmt.var.id] if isinstance(stmt, ir.Set) else [stmt.best.id, stmt.at.id]
    if len(set(changed)) != len(changed) or set(changed) & set(lets):
        return False
    used = affine.variables(loop.low) | affine.variables(loop.high)
    for stmt in found:
        for expr in _inputs(stmt):
            used |= affine.variables(expr)
    return not (used & set(changed))


def _inputs(stmt: ir.Set | ir.ArgReduce) -> tuple[ir.Expr, ...]:
    if isinstance(stmt, ir.ArgReduce):
        return stmt.value, stmt.index
    reduce = next(e for e in affine.walk(stmt.value) if isinstance(e, ir.Reduce))
    return (reduce.body,)


def _accumulation(c: _Collected, v: ir.Var, value: ir.Expr, cond: ir.Expr | None) -> ir.Set | None:
    """`v = v + x`, `v = x + v`, `v = v - x`, `v = max(v, x)` …, in the rounds in which `cond` holds."""
    match value:
        case ir.Binary(op="+" | "-" as op, left=ir.Var(id=i), right=x) if i == v.id:
            return _sum(c, v, x, op, cond)
        case ir.Binary(op="+", left=x, right=ir.Var(id=i)) if i == v.id:
            return _sum(c, v, x, "+", cond)
        case ir.Call(name="max" | "min" as name, args=(ir.Var(id=i), x)) if i == v.id:
            return _extreme(c, v, x, name, cond)
        case ir.Call(name="max" | "min" as name, args=(x, ir.Var(id=i))) if i == v.id:
            return _extreme(c, v, x, name, cond)
    return None


def _reduce(loop: Loop, op: str, body: ir.Expr, type_: str) -> ir.Reduce:
    return ir.Reduce(op, loop.var, loop.low, loop.high, body, type_)


def _sum(c: _Collected, v: ir.Var, x: ir.Expr, op: str, cond: ir.Expr | None) -> ir.Set | None:
    if v.type in ("f16", "bf16", "bool") or not _small(x):
        return None
    if cond is not None:
        if bounds.may_fault(c.lo, x):
            return None
        x = ir.Select(cond, x, ir.Lit(0.0 if v.type in FLOATS else 0, v.type), v.type)
    return ir.Set(v, ir.Binary(op, v, _reduce(c.loop, "add", x, v.type), v.type))


def _extreme(c: _Collected, v: ir.Var, x: ir.Expr, op: str, cond: ir.Expr | None = None) -> ir.Set | None:
    if cond is not None:
        if bounds.may_fault(c.lo, x):
            return None
        x = ir.Select(cond, x, _worst(op, v.type), v.type)
    return ir.Set(v, ir.Call(op, (v, _reduce(c.loop, op, x, v.type)), v.type))


def _unless_nan(extreme: ir.Set) -> ir.Set:
    """Nothing compares greater than a NaN: what starts as one stays one."""
    v = extreme.var
    number = ir.Binary("==", v, v, "bool")
    return replace(extreme, value=ir.Select(number, extreme.value, v, v.type))


def _small(expr: ir.Expr) -> bool:
    return sum(1 for _ in affine.walk(expr)) <= MAX_INLINED


def _worst(op: str, type_: str) -> ir.Lit:
    """What never is the maximum ("max") or minimum."""
    if type_ in FLOATS:
        return ir.Lit(-inf if op == "max" else inf, type_)
    return ir.Lit(affine.limits(type_)[0 if op == "max" else 1], type_)


_ORDER = {">": "max", "<": "min"}


def _selection(c: _Collected, cond: ir.Expr, then: Sequence[ir.Stmt]) -> ir.Set | ir.ArgReduce | None:
    """`if x > best { best = x; }`, and with `at = i;` beside it the arg-max; other conditions beside the comparison
    say which rounds take part."""
    sets = [s for s in then if isinstance(s, ir.Set)]
    inner = dict(c.lets)
    for s in then:
        if isinstance(s, ir.Let) and not s.mutable:
            inner[s.var.id] = affine.substitute(s.value, inner)
        elif not isinstance(s, ir.Set):
            return None
    values = {s.var.id: affine.substitute(s.value, inner) for s in sets}
    compared = _comparison(cond, values)
    if compared is None or not 1 <= len(sets) <= 2 or len(values) != len(sets) or c.local & set(values):
        return None
    op, x, best, guard = compared
    if guard is not None and bounds.may_fault(c.lo, x):
        return None
    if len(sets) == 1:
        extreme = _extreme(c, best, x, op, guard)
        return extreme if extreme is None or best.type not in FLOATS else _unless_nan(extreme)
    at = next(s for s in sets if s.var.id != best.id)
    index = values[at.var.id]
    if effects.loaded([ir.Set(at.var, index)]):
        return None
    taken = x if guard is None else ir.Select(guard, x, _worst(op, best.type), best.type)
    return ir.ArgReduce(op, c.loop.var, c.loop.low, c.loop.high, taken, best, at.var, index)


def _comparison(
    cond: ir.Expr, values: Mapping[ir.VarId, ir.Expr]
) -> tuple[str, ir.Expr, ir.Var, ir.Expr | None] | None:
    """`x > best` with best becoming x, among conditions that must all hold: ("max", x, best, the others)."""
    if isinstance(cond, ir.Binary) and cond.op == "&&":
        for part, other in ((cond.right, cond.left), (cond.left, cond.right)):
            found = _comparison(part, values)
            if found is not None:
                op, x, best, guard = found
                return op, x, best, _both(guard, other)
        return None
    if not isinstance(cond, ir.Binary) or cond.op not in _ORDER:
        return None
    op = _ORDER[cond.op]
    for x, limit, name in ((cond.left, cond.right, op), (cond.right, cond.left, "min" if op == "max" else "max")):
        if isinstance(limit, ir.Var) and values.get(limit.id) == x:
            return name, x, limit, None
    return None

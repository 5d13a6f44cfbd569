"""How a parallel loop nest runs on a processor level: which loop the lanes run along, and how many
iterations go together.

Enters: axes and a body. Leaves: a `Nest`. A body is *jammed* (several iterations at once, in lock step) if
all its control flow is the same for them, apart from masked assignments; else each iteration runs alone and
vectors are found inside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from vx.codegen.cpu_analysis import Strides, trips
from vx.codegen.cpu_body import outermost
from vx.codegen.cpu_library import Facts
from vx.codegen.cpu_memory import STACK_BYTES
from vx.codegen.cpu_values import Features, Lanes, Linear, is_float, size
from vx.kernels import affine, effects, ir

ROWS = 4
"""Rows that share the vectors along a reduction."""
_HEAVY = 100
"""Operations in a body that is not copied for several vectors or rows."""
CHUNK = 64
"""Iterations of a blocked outer axis that one cell of work takes together, so that what they share is read
once from memory."""


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops whose iterations are independent. The last axis is the one that `group` vectors of `lanes`
    iterations run along; if `rows` > 1, so many iterations of the last but one axis go with them.
    `across`: no reduction runs along its own variable, so that a vector of iterations is as cheap with some
    lanes off. `varying`: scalars that may differ between iterations that run together."""

    axes: tuple[ir.Axis, ...]
    body: tuple[ir.Stmt, ...]
    lanes: int = 1
    group: int = 1
    rows: int = 1
    across: bool = False
    varying: frozenset[ir.VarId] = frozenset()

    @property
    def block(self) -> int:
        """Iterations of the last axis in one step."""
        return self.lanes * self.group

    @property
    def outer(self) -> tuple[ir.Axis, ...]:
        """Axes that are neither blocked nor vectorised."""
        return self.axes[: -2 if self.rows > 1 else -1]


def plan(axes: Sequence[ir.Axis], body: tuple[ir.Stmt, ...], facts: Facts, lanes: Lanes, have: Features) -> Nest:
    """Decides how a nest runs. `lanes`: the copy of the body that surrounds it."""
    axes, body = _flattened(tuple(axes), body)
    return _Planner(facts, lanes, have).planned(axes, body)


def _flattened(axes: tuple[ir.Axis, ...], body: tuple[ir.Stmt, ...]) -> tuple[tuple[ir.Axis, ...], tuple[ir.Stmt, ...]]:
    """Draws perfectly nested parallel loops into the axes."""
    while len(body) == 1 and isinstance(body[0], ir.For) and body[0].parallel:
        loop = body[0]
        own = {axis.var.id for axis in axes}
        if own & (affine.variables(loop.low) | affine.variables(loop.high)):
            break
        axes, body = (*axes, ir.Axis(loop.var, loop.low, loop.high)), loop.body
    return axes, body


def all_reduces(stmts: Sequence[ir.Stmt]) -> list[ir.Reduce]:
    """The reductions that the statements always compute, without those inside others."""
    return [r for e in effects.all_expressions(stmts) for r in outermost(e)]


class _Planner:
    def __init__(self, facts: Facts, lanes: Lanes, have: Features) -> None:
        self.facts = facts
        self.lanes = lanes
        self.have = have

    def planned(self, axes: tuple[ir.Axis, ...], body: tuple[ir.Stmt, ...]) -> Nest:
        plain = Nest(axes, body)
        if any((isinstance(s, ir.For) and s.parallel) or isinstance(s, ir.Launch) for s in effects.statements(body)):
            return plain
        candidates = [self._along(axes, body, number) for number in range(len(axes))]
        best = max(
            (c for c in candidates if c is not None), key=lambda c: c[1], default=None
        )  # ties: the first of equals, and candidates are listed innermost first
        return plain if best is None else best[0]

    def _along(self, axes: tuple[ir.Axis, ...], body: tuple[ir.Stmt, ...], number: int) -> tuple[Nest, float] | None:
        """The nest with lanes along an axis (counted from the innermost), and how well it does."""
        axis = axes[len(axes) - 1 - number]
        varying = varying_scalars(body, {axis.var.id})
        if varying is None:
            return None
        ordered = (*(a for a in axes if a is not axis), axis)
        lanes = self._full_lanes(body)
        strides = self._strides(axis, lanes, body)
        nest = self._sized(Nest(ordered, body, varying=varying), strides, lanes)
        if nest.lanes > 1 and _private_bytes(self.facts, body) * nest.lanes > STACK_BYTES // 2:
            return None
        return nest, -self._cost(strides, body, nest) / (1 if nest.lanes > 1 else 0.5)

    def _strides(self, axis: ir.Axis, lanes: int, body: Sequence[ir.Stmt]) -> Strides:
        together = Lanes(lanes, self.lanes, bindings={axis.var.id: Linear(0, 1)})
        return Strides(self.facts, together, frozenset(effects.allocated(body)))

    def _full_lanes(self, body: Sequence[ir.Stmt]) -> int:
        """Lanes of a vector register of the widest type that the body computes with."""
        sizes = [size(self.facts.buffers[s.buffer].elem) for s in effects.statements(body) if isinstance(s, ir.Store)]
        for expr in effects.all_expressions(body):
            sizes += [size(e.type) for e in affine.walk(expr) if not isinstance(e, ir.Affine) and is_float(e.type)]
            sizes += [size(e.type) for e in affine.walk(expr) if isinstance(e, ir.Reduce)]
        return max(1, min(self.have.bits // (8 * max(sizes, default=4)), 32))

    # ---- sizes ---------------------------------------------------------------------------------
    def _sized(self, nest: Nest, strides: Strides, lanes: int) -> Nest:
        axis = nest.axes[-1]
        count = trips(axis.low, axis.high)
        reduces = [r for r in all_reduces(nest.body) if strides.differs(r.body)]
        along = [strides.along(r, lanes, self._width(r)) for r in reduces]
        if reduces and all(along):
            nest = replace(nest, lanes=_fitting(min(ROWS, lanes), count))
        else:
            nest = replace(nest, lanes=_fitting(lanes, count), across=not any(along))
            if reduces and not any(along) and nest.lanes > 1 and not self._heavy(nest.body):
                nest = replace(nest, group=_grouped(nest.lanes, count))
        return self._blocked(nest, strides, reduces, any(along))

    def _width(self, reduce: ir.Reduce) -> int:
        return max(self.have.bits // (8 * size(reduce.type)), 1)

    def _blocked(self, nest: Nest, strides: Strides, reduces: Sequence[ir.Reduce], along: bool) -> Nest:
        """Takes several iterations of another axis along if their reductions share loads."""
        if not reduces or len(nest.axes) < 2 or nest.lanes == 1 or self._heavy(nest.body):
            return nest
        for axis in reversed(nest.axes[:-1]):
            var = axis.var.id
            loads = [load for r in reduces for load in affine.loads(r.body)]
            shared = [load for load in loads if not self._depends(load.offset, var)]
            own = [load for load in loads if self._depends(load.offset, var) and strides.load_lane_step(load) == 0]
            varying = varying_scalars(nest.body, {var, nest.axes[-1].var.id})
            if not shared or not own or varying is None or trips(axis.low, axis.high) == 1:
                continue
            ordered = (*(a for a in nest.axes[:-1] if a is not axis), axis, nest.axes[-1])
            group = nest.group if along or self.have.registers > 16 else min(nest.group, 2)
            strands = len(reduces) * (nest.lanes if along else group)
            rows = max(1, min(4, self.have.registers // 2 // strands))
            return nest if rows < 2 else replace(nest, axes=ordered, rows=rows, group=group, varying=varying)
        return nest

    def _depends(self, offset: ir.Affine, var: ir.VarId) -> bool:
        return Strides(self.facts, Lanes(2, self.lanes, bindings={var: Linear(0, 1)})).differs(offset)

    def _heavy(self, body: Sequence[ir.Stmt]) -> bool:
        """Whether many copies of a body would make more code than they are worth."""
        return sum(1 for e in effects.all_expressions(body) for _ in affine.walk(e)) > _HEAVY

    # ---- cost ----------------------------------------------------------------------------------
    def _cost(self, strides: Strides, body: Sequence[ir.Stmt], nest: Nest) -> float:
        """Memory operations per iteration with these lanes; reductions count as they will run."""
        cost = 0.0
        lanes = nest.lanes
        for stmt in effects.statements(body):
            if isinstance(stmt, ir.Store):
                cost += _price(strides.lane_step(stmt.offset), lanes)
            for expr in effects.own_expressions(stmt):
                cost += self._expr_cost(strides, expr, lanes)
        return cost

    def _expr_cost(self, strides: Strides, expr: ir.Expr, lanes: int) -> float:
        if isinstance(expr, ir.Reduce):
            count = trips(expr.low, expr.high) or CHUNK
            return count * strides.cheapest(expr, lanes, self._width(expr)) / self._width(expr)
        own = _price(strides.load_lane_step(expr), lanes) if isinstance(expr, ir.Load) else 0.0
        return own + sum(self._expr_cost(strides, child, lanes) for child in affine.children(expr))


def _price(step: int | None, lanes: int) -> float:
    """Of one access, per iteration."""
    return 1.0 / lanes if step in (0, 1) else 2.0


def _fitting(lanes: int, count: int | None) -> int:
    """The lanes that leave no rest, if they are not much fewer; else as many as there are iterations."""
    if count is None:
        return lanes
    for fewer in (lanes, lanes // 2, lanes // 4):
        if fewer > 1 and count % fewer == 0:
            return fewer
    while lanes > max(count, 1):
        lanes //= 2
    return lanes


def _grouped(lanes: int, count: int | None) -> int:
    """Vectors in lock step."""
    if count is None:
        return 4
    vectors = max(count // lanes, 1)
    return next(group for group in (4, 3, 2, 1) if vectors % group == 0)


def _private_bytes(facts: Facts, body: Sequence[ir.Stmt]) -> int:
    buffers = [facts.buffers[b] for b in effects.allocated(body)]
    return sum((b.length or 0) * size(b.elem) for b in buffers)


# ---- what differs between iterations --------------------------------------------------------------
def varying_scalars(body: Sequence[ir.Stmt], loops: set[ir.VarId]) -> frozenset[ir.VarId] | None:
    """The scalars that may differ between iterations of `loops`, those included; None if the iterations
    cannot run in lock step."""
    private = effects.allocated(body)
    varying = set(loops)
    while True:
        before = len(varying)
        _spread(body, varying, private, False)
        if len(varying) == before:
            break
    return frozenset(varying) if _in_step(body, varying, private) else None


def _differs(expr: ir.Expr, varying: set[ir.VarId], private: set[ir.BufferId]) -> bool:
    if not varying.isdisjoint(affine.variables(expr)):
        return True
    return any(load.buffer in private for load in affine.loads(expr))


def _spread(body: Sequence[ir.Stmt], varying: set[ir.VarId], private: set[ir.BufferId], masked: bool) -> None:
    for stmt in body:
        inner = masked
        match stmt:
            case ir.Let(var=var, value=value) | ir.Set(var=var, value=value):
                if masked or _differs(value, varying, private):
                    varying.add(var.id)
            case ir.ArgReduce(best=best, at=at):
                if masked or any(_differs(e, varying, private) for e in (stmt.value, stmt.index, best, at)):
                    varying |= {best.id, at.id}
            case ir.If(cond=cond):
                inner = masked or _differs(cond, varying, private)
        for block in effects.blocks(stmt):
            _spread(block, varying, private, inner)


def _in_step(body: Sequence[ir.Stmt], varying: set[ir.VarId], private: set[ir.BufferId]) -> bool:
    """Whether control flow and ranges are the same for all, apart from simple masked statements."""
    for expr in effects.all_expressions(body):
        for e in affine.walk(expr):
            if isinstance(e, ir.Reduce) and _differs(ir.Select(e.low, e.low, e.high, "i64"), varying, private):
                return False
    return all(_stmt_in_step(stmt, varying, private) for stmt in body)


def _stmt_in_step(stmt: ir.Stmt, varying: set[ir.VarId], private: set[ir.BufferId]) -> bool:
    match stmt:
        case ir.For(low=low, high=high) | ir.ArgReduce(low=low, high=high):
            if _differs(low, varying, private) or _differs(high, varying, private):
                return False
        case ir.While(cond=cond) if _differs(cond, varying, private):
            return False
        case ir.If(cond=cond) if _differs(cond, varying, private):
            return _maskable(stmt)
    return all(_stmt_in_step(inner, varying, private) for block in effects.blocks(stmt) for inner in block)


def _maskable(stmt: ir.Stmt) -> bool:
    """Only assignments, whose values need no loop."""
    if not all(isinstance(s, ir.Let | ir.Set | ir.Store | ir.If) for s in effects.statements([stmt])):
        return False
    exprs: Iterator[ir.Expr] = effects.all_expressions([stmt])
    return not any(isinstance(e, ir.Reduce) for expr in exprs for e in affine.walk(expr))

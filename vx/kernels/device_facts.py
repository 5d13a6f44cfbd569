"""Facts that decide how a region is launched: bounds of host scalars, costs, addresses that data decide."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from vx.kernels import affine, device, effects, ir
from vx.sema.tree import FLOATS, SIGNED, UNSIGNED

DIVISION = "division by zero"


def element_bytes(elem: str) -> int:
    """Bytes of an element in memory; a bool takes one."""
    return 1 if elem == "bool" else (FLOATS.get(elem) or SIGNED.get(elem) or UNSIGNED[elem]) // 8


@dataclass(slots=True)
class Facts:
    """Inclusive bounds of scalars, from the checks that were passed and the loops around."""

    ranges: dict[ir.VarId, affine.Interval] = field(default_factory=dict)

    def copy(self) -> Facts:
        return Facts(dict(self.ranges))

    def inside(self, cond: ir.Expr) -> Facts:
        inner = self.copy()
        inner.learn(cond)
        return inner

    def learn(self, cond: ir.Expr) -> None:
        """`cond` holds from here on."""
        for v, found in _implied(cond).items():
            self._narrow(v, found)

    def learn_value(self, var: ir.Var, value: ir.Expr) -> None:
        if var.type[0] in "iu":
            self._narrow(var.id, affine.interval(value, self.ranges))

    def learn_loop(self, var: ir.Var, low: ir.Expr, high: ir.Expr) -> None:
        most = affine.interval(high, self.ranges)[1]
        self._narrow(var.id, (affine.interval(low, self.ranges)[0], None if most is None else most - 1))

    def _narrow(self, v: ir.VarId, found: affine.Interval) -> None:
        old = self.ranges.get(v, (None, None))
        self.ranges[v] = (_tightest(max, old[0], found[0]), _tightest(min, old[1], found[1]))

    def most(self, low: ir.Expr, high: ir.Expr) -> int | None:
        """The greatest number of iterations of a loop."""
        found = affine.interval(affine.sub(affine.of(high), affine.of(low)), self.ranges)[1]
        return None if found is None else max(found, 0)

    def cost(self, expr: ir.Expr) -> int | None:
        """Elements that computing `expr` reads, None if it has no bound."""
        total = int(isinstance(expr, ir.Load))
        for child in affine.children(expr):
            inner = self.cost(child)
            if inner is None:
                return None
            total += inner
        if isinstance(expr, ir.Reduce):
            rounds = self.most(expr.low, expr.high)
            return None if rounds is None else total * rounds
        return total


def _tightest(pick: object, a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return a if b is None else b
    return max(a, b) if pick is max else min(a, b)


def _implied(cond: ir.Expr) -> dict[ir.VarId, affine.Interval]:
    """Bounds of single variables that follow from a condition."""
    match cond:
        case ir.Binary(op="||", left=left, right=right):
            a, b = _implied(left), _implied(right)
            return {v: _hull(a[v], b[v]) for v in a.keys() & b.keys()}
        case ir.Binary(op=">=", left=left, right=right):
            return _at_least_zero(affine.sub(affine.of(left), affine.of(right)))
        case _:
            return {}


def _hull(a: affine.Interval, b: affine.Interval) -> affine.Interval:
    low = None if a[0] is None or b[0] is None else min(a[0], b[0])
    return low, None if a[1] is None or b[1] is None else max(a[1], b[1])


def _at_least_zero(expr: ir.Affine) -> dict[ir.VarId, affine.Interval]:
    if len(expr.terms) != 1:
        return {}
    ((c, atom),) = expr.terms
    while isinstance(atom, ir.Cast) and atom.type == "i64":
        atom = atom.operand
    if not isinstance(atom, ir.Var) or atom.type not in ("i32", "i64"):
        return {}
    if c > 0:
        return {atom.id: (-(expr.const // c), None)}
    return {atom.id: (None, expr.const // -c)}


# ---- kernels -----------------------------------------------------------------------------------
def divides(expr: ir.Expr) -> bool:
    """An integer division whose divisor may be zero."""
    if not isinstance(expr, ir.Binary) or expr.op not in "/%" or affine.type_of(expr) in FLOATS:
        return False
    match expr.right:
        case ir.Lit(value=value):
            return not value
        case ir.Affine(const=const, terms=()):
            return not const
        case _:
            return True


def messages(kernels: Sequence[device.Kernel]) -> tuple[str, ...]:
    """What kernels may end the process with, without repetition."""
    found: dict[str, None] = {}
    for kernel in kernels:
        whole = [*kernel.prelude, *(s for part in kernel.parts for s in part.body)]
        bounds = [e for part in kernel.parts for axis in part.axes for e in (axis.low, axis.high)]
        for stmt in effects.statements(whole):
            if isinstance(stmt, ir.Check):
                found[stmt.message] = None
        if any(divides(e) for x in (*bounds, *effects.all_expressions(whole)) for e in affine.walk(x)):
            found[DIVISION] = None
    return tuple(found)


def addressed_by_data(kernel: device.Kernel) -> bool:
    """Whether an address, or how long it loops, depends on tensor elements."""
    stmts = [*kernel.prelude, *(s for part in kernel.parts for s in part.body)]
    tainted: set[ir.VarId] = set()
    while True:
        more = {v for s in effects.statements(stmts) for v in _defines(s, tainted)} - tainted
        if not more:
            break
        tainted |= more
    exprs = list(effects.all_expressions(stmts))
    offsets: list[ir.Expr] = [load.offset for e in exprs for load in affine.loads(e)]
    offsets += [s.offset for s in effects.statements(stmts) if isinstance(s, ir.Store)]
    for stmt in effects.statements(stmts):
        if isinstance(stmt, ir.For | ir.While | ir.ArgReduce):
            offsets += effects.own_expressions(stmt)
    offsets += [e for part in kernel.parts for axis in part.axes for e in (axis.low, axis.high)]
    return any(_depends(e, tainted) for e in offsets)


def _defines(stmt: ir.Stmt, tainted: set[ir.VarId]) -> Iterable[ir.VarId]:
    match stmt:
        case ir.Let(var=var, value=value) | ir.Set(var=var, value=value) if _depends(value, tainted):
            return (var.id,)
        case ir.For(var=var, low=low, high=high) if _depends(low, tainted) or _depends(high, tainted):
            return (var.id,)
        case ir.ArgReduce(best=best, at=at):
            return (best.id, at.id)
        case _:
            return ()


def _depends(expr: ir.Expr, tainted: set[ir.VarId]) -> bool:
    return any(isinstance(e, ir.Load) for e in affine.walk(expr)) or bool(affine.variables(expr) & tainted)

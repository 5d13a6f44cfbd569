"""How much work a body is, as a number or as i64 arithmetic over what is known where a kernel is launched.

Enters: statements. Leaves: an operand that counts element operations. It decides only how work is divided
among threads, never what is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vx.codegen.cpu_analysis import trips
from vx.codegen.cpu_expr import Expressions
from vx.codegen.cpu_values import Lanes, Linear, scalar_index
from vx.kernels import affine, effects, ir

CALL = 8
"""A math function, in element operations of a vector."""
UNKNOWN_TRIPS = 64
"""Assumed where a range depends on what the body computes."""

_Body = Callable[[Lanes], str]


class Costs:
    """Writes estimates into the launching function."""

    def __init__(self, emitter: Expressions) -> None:
        self._emitter = emitter
        self._text = emitter.text

    def of(self, lanes: Lanes, stmts: Sequence[ir.Stmt]) -> str:
        """Of doing the statements once."""
        total = "0"
        for stmt in stmts:
            total = self._text.add(total, self._stmt(lanes, stmt))
        return total

    def _stmt(self, lanes: Lanes, stmt: ir.Stmt) -> str:
        own = "1"
        for expr in effects.own_expressions(stmt):
            own = self._text.add(own, self._expr(lanes, expr))
        match stmt:
            case ir.For(var=var, low=low, high=high, body=body):
                return self._repeated(lanes, var, low, high, own, lambda inner: self.of(inner, body))
            case ir.ArgReduce(var=var, low=low, high=high, value=value):
                return self._repeated(lanes, var, low, high, own, lambda inner: self._expr(inner, value))
            case ir.While(body=body):
                return self._text.mul(self.of(lanes, body), str(UNKNOWN_TRIPS))
            case ir.If(then=then, orelse=orelse):
                arms = self._text.most(self.of(lanes, then), self.of(lanes, orelse))
                return self._text.add(own, arms)
        return own

    def _expr(self, lanes: Lanes, expr: ir.Expr) -> str:
        if isinstance(expr, ir.Reduce):
            body = expr.body
            return self._repeated(lanes, expr.var, expr.low, expr.high, "0", lambda inner: self._expr(inner, body))
        total = str(CALL if isinstance(expr, ir.Call) else 0 if isinstance(expr, ir.Lit | ir.Var | ir.Affine) else 1)
        for child in affine.children(expr):
            total = self._text.add(total, self._expr(lanes, child))
        return total

    def _repeated(self, lanes: Lanes, var: ir.Var, low: ir.Expr, high: ir.Expr, own: str, body: _Body) -> str:
        """`own` and so many times the body as the range is long; inside, the variable is taken at its middle."""
        count = trips(low, high)
        if count is not None:
            start = self._bound(lanes, low) or "0"
            inner = lanes.inner({var.id: scalar_index(self._text.add(start, str(count // 2)))})
            return self._text.add(own, self._text.mul(body(inner), str(count)))
        first, last = self._bound(lanes, low), self._bound(lanes, high)
        if first is None or last is None:
            inner = lanes.inner({var.id: Linear(UNKNOWN_TRIPS // 2)})
            return self._text.add(own, self._text.mul(body(inner), str(UNKNOWN_TRIPS)))
        length = self._text.most(self._text.sub(last, first), "0")
        inner = lanes.inner({var.id: scalar_index(self._text.add(first, self._text.div(length, "2")))})
        return self._text.add(own, self._text.mul(body(inner), length))

    def _bound(self, lanes: Lanes, expr: ir.Expr) -> str | None:
        """A bound, if it can be known here without reading memory or ending the process."""
        if any(isinstance(e, ir.Load | ir.Reduce | ir.Binary) for e in affine.walk(expr)):
            return None
        if not all(_bound_here(lanes, v) for v in affine.variables(expr)):
            return None
        return self._emitter.integer(lanes, expr)


def _bound_here(lanes: Lanes | None, var: ir.VarId) -> bool:
    while lanes is not None:
        if var in lanes.bindings:
            return True
        lanes = lanes.outer
    return False

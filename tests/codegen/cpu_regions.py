"""Building regions by hand, in few words."""

from __future__ import annotations

from collections.abc import Sequence

from vx.diagnostics.span import NOWHERE
from vx.kernels import affine, ir


def var(id_: int, type_: str = "i64") -> ir.Var:
    return ir.Var(id_, type_, f"v{id_}")


def lit(value: float, type_: str = "i64") -> ir.Lit:
    return ir.Lit(value, type_)


def at(*terms: int | ir.Expr | tuple[int, ir.Expr]) -> ir.Affine:
    """An offset: numbers, expressions, and (coefficient, expression) pairs, summed."""
    total = ir.Affine(0)
    for term in terms:
        match term:
            case int():
                total = affine.add(total, affine.const(term))
            case (coefficient, expr):
                total = affine.add(total, affine.scale(affine.of(expr), coefficient))
            case _:
                total = affine.add(total, affine.of(term))
    return total


def loop(v: ir.Var, high: int | ir.Expr, *body: ir.Stmt, parallel: bool = True, low: int | ir.Expr = 0) -> ir.For:
    return ir.For(v, _expr(low), _expr(high), body, parallel, "", NOWHERE)


def _expr(value: int | ir.Expr) -> ir.Expr:
    return lit(value) if isinstance(value, int) else value


def add(v: ir.Var, high: int | ir.Expr, body: ir.Expr, type_: str = "f32", op: str = "add") -> ir.Reduce:
    return ir.Reduce(op, v, lit(0), _expr(high), body, type_)


def binary(op: str, a: ir.Expr, b: ir.Expr, type_: str = "f32") -> ir.Binary:
    return ir.Binary(op, a, b, type_)


def mul(a: ir.Expr, b: ir.Expr, type_: str = "f32") -> ir.Binary:
    return ir.Binary("*", a, b, type_)


def plus(a: ir.Expr, b: ir.Expr, type_: str = "f32") -> ir.Binary:
    return ir.Binary("+", a, b, type_)


def call(name: str, *args: ir.Expr, type_: str = "f32") -> ir.Call:
    return ir.Call(name, args, type_)


def region(
    elems: Sequence[str],
    body: Sequence[ir.Stmt],
    scalars: Sequence[ir.Var] = (),
    outs: Sequence[ir.Var] = (),
    extra: Sequence[ir.Buffer] = (),
    kernels: Sequence[ir.Kernel] = (),
    name: str = "r",
) -> ir.Region:
    """Tensor parameters are the buffers 0, 1, … with these element types; `extra` are made inside."""
    params = tuple(ir.Buffer(i, f"b{i}", elem, "param", None, True) for i, elem in enumerate(elems))
    return ir.Region(
        name,
        (
            *(ir.TensorParam(b.id) for b in params),
            *(ir.ScalarParam(s, False) for s in scalars),
            *(ir.ScalarParam(s, True) for s in outs),
        ),
        (*params, *extra),
        tuple(kernels),
        tuple(body),
        NOWHERE,
    )


def launched(loops: Sequence[ir.For], **others: object) -> tuple[ir.Kernel, ir.Launch]:
    """One kernel whose segments are the given loop nests, and its launch."""
    segments = []
    for nest in loops:
        axes, body = [ir.Axis(nest.var, nest.low, nest.high)], nest.body
        while len(body) == 1 and isinstance(body[0], ir.For) and body[0].parallel:
            axes.append(ir.Axis(body[0].var, body[0].low, body[0].high))
            body = body[0].body
        segments.append(ir.Segment(tuple(axes), body))
    return ir.Kernel("k", tuple(segments), NOWHERE), ir.Launch(0)

"""A long arg-max outside any kernel, in two steps: many programs search a piece each, then one compares their finds.

Enters: the `ArgReduce`. Leaves: the body of the first step, for each piece, and the `ArgReduce` over the pieces that
takes the place of the old one. The lowest index still wins: pieces are in order, and only something better counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from vx.kernels import affine, ir
from vx.kernels.interpret import least_or_greatest

PIECE = 1024
"""Elements of a piece."""
LONG = 8192
"""Elements that one program searches alone."""


@dataclass(frozen=True, slots=True)
class Search:
    """`body` runs for each `piece` in 0..`pieces`, and leaves its finds in the scratch buffers `made`."""

    piece: ir.Var
    pieces: int
    body: tuple[ir.Stmt, ...]
    made: tuple[ir.Buffer, ir.Buffer]
    rest: ir.ArgReduce


def in_pieces(stmt: ir.ArgReduce, next_var: Callable[[], int], next_buffer: Callable[[], int]) -> Search | None:
    """The search in pieces; None if it is short, or as long as only the device knows."""
    low, high = affine.of(stmt.low), affine.of(stmt.high)
    if low.terms or high.terms or high.const - low.const <= LONG:
        return None
    pieces = -(-(high.const - low.const) // PIECE)
    piece, step, again = (ir.Var(next_var(), "i64", name) for name in ("piece", "i", "piece"))
    best, at = ir.Var(next_var(), stmt.best.type, "best"), ir.Var(next_var(), "i64", "at")
    bests = ir.Buffer(next_buffer(), "bests", best.type, "scratch", pieces, True)
    places = ir.Buffer(next_buffer(), "places", "i64", "scratch", pieces, True)
    # The last piece looks at the last element again instead of going beyond it, which changes nothing.
    here = affine.add(affine.add(affine.scale(affine.var(piece), PIECE), affine.var(step)), low)
    last = ir.Call("min", (here, ir.Lit(high.const - 1, "i64")), "i64")
    where = affine.var(piece)
    body = (
        ir.Let(best, ir.Lit(least_or_greatest(stmt.op, best.type), best.type), True),
        ir.Let(at, ir.Lit(-1, "i64"), True),
        ir.ArgReduce(
            stmt.op, step, ir.Lit(0, "i64"), ir.Lit(PIECE, "i64"),
            affine.substitute(stmt.value, {stmt.var.id: last}), best, at, last,
        ),
        ir.Store(bests.id, where, best),
        ir.Store(places.id, where, at),
    )  # fmt: skip
    found = ir.Load(places.id, affine.var(again), "i64")
    rest = replace(
        stmt,
        var=again,
        low=ir.Lit(0, "i64"),
        high=ir.Lit(pieces, "i64"),
        value=ir.Load(bests.id, affine.var(again), best.type),
        index=affine.substitute(stmt.index, {stmt.var.id: found}),
    )
    return Search(piece, pieces, body, (bests, places), rest)

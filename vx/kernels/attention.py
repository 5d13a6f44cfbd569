"""The attention built-in as loops: softmax(q·kᵀ·scale)·v with a running maximum, keys in chunks.

The recurrence over chunks is the online softmax of Milakov and Gimelshein (2018), as used by
FlashAttention (Dao et al., 2022): a chunk's scores are the only ones ever held.
"""

from __future__ import annotations

import math

from vx.kernels import affine, bounds, exprs, ir, loops
from vx.kernels.effects import Loop
from vx.kernels.lowering import Lowering, View
from vx.sema import tree

CHUNK = 64
"""Keys per chunk: their scores stay in the first-level cache."""
ONE_ROW = 128
"""The same where there is a single query row, which nothing but its keys can keep a machine busy with."""


def expand(lo: Lowering, stmt: tree.Attention) -> None:
    """Emit the loop over query rows. Shapes: out, q [rows, d]; k [keys, d]; v [keys, dv]."""
    out, q, k, v = (_view(lo, x) for x in (stmt.out, stmt.q, stmt.k, stmt.v))
    kind = "f64" if out.elem == "f64" else "f32"
    scale = lo.once("scale", exprs.cast(exprs.scalar(lo, stmt.scale), kind))
    loops.require_same_shape(lo, q.extents[:1], out.extents[:1], stmt.span)
    loops.require_same_shape(lo, k.extents, (v.extents[0], q.extents[1]), stmt.span)
    loops.require_same_shape(lo, v.extents[1:], out.extents[1:], stmt.span)
    keys = k.extents[0]
    first = None if stmt.first is None else exprs.index(lo, stmt.first)
    if first is not None:
        message = f"attention needs more keys than there are at {lo.where(stmt.span)}"
        bounds.require(lo, affine.sub(keys, affine.add(first, q.extents[0])), message)
    i = lo.fresh("i64", "i")
    loops.over(lo, i, q.extents[0])
    with lo.scope() as body:
        seen = keys if first is None else affine.add(affine.add(first, affine.var(i)), affine.const(1))
        _row(lo, _Row(out, q, k, v, affine.var(i), seen, scale, kind), stmt)
    loops.close(lo, body, Loop(i, ir.Lit(0, "i64"), affine.simplest(q.extents[0])), stmt.span)


class _Row:
    """One query row: its operands, how many keys it sees, and the type it computes in."""

    def __init__(
        self, out: View, q: View, k: View, v: View, i: ir.Affine, seen: ir.Affine, scale: ir.Expr, kind: str
    ) -> None:
        self.out, self.q, self.k, self.v = out, q, k, v
        self.i, self.seen, self.scale, self.kind = i, seen, scale, kind
        self.chunk = ONE_ROW if q.extents[0] == affine.const(1) else CHUNK


def _view(lo: Lowering, e: tree.Value) -> View:
    result = exprs.stored(lo, exprs.tensor_operand(lo, e), "operand")
    assert isinstance(result, View)
    return result


def _row(lo: Lowering, row: _Row, stmt: tree.Attention) -> None:
    kind, width = row.kind, row.v.extents[1]
    zero = ir.Lit(0.0, kind)
    size = lo.limit(width)
    if size is None:
        lo.refuse("attention over a head of unknown size", stmt.span, "give the head dimension as a constant")
    assert size is not None
    weights = lo.allocate("weights", kind, [row.chunk])
    total = lo.allocate("total", kind, [size])
    total = View(total.buffer, total.elem, total.offset, (width,), total.strides)
    loops.store_all(lo, total, lambda _: zero, stmt.span)
    high = lo.let("max", ir.Lit(-math.inf, kind), mutable=True)
    norm = lo.let("norm", zero, mutable=True)
    chunk = lo.fresh("i64", "chunk")
    chunks = ir.Binary("/", affine.add(row.seen, affine.const(row.chunk - 1)), ir.Lit(row.chunk, "i64"), "i64")
    with lo.scope() as body:
        _chunk(lo, row, chunk, weights, total, (high, norm), stmt)
    loops.close(lo, body, Loop(chunk, ir.Lit(0, "i64"), affine.simplest(affine.of(chunks))), stmt.span)
    target = View(row.out.buffer, row.out.elem, row.out.at((row.i, affine.ZERO)), (width,), (row.out.strides[1],))
    loops.store_all(
        lo,
        target,
        lambda d: exprs.cast(ir.Binary("/", total.load(d), norm, kind), row.out.elem),
        stmt.span,
    )


def _chunk(
    lo: Lowering,
    row: _Row,
    chunk: ir.Var,
    weights: View,
    total: View,
    state: tuple[ir.Var, ir.Var],
    stmt: tree.Attention,
) -> None:
    kind, (high, norm) = row.kind, state
    start = affine.scale(affine.var(chunk), row.chunk)
    left = affine.simplest(affine.sub(row.seen, start))
    most = ir.Lit(row.chunk, "i64")
    count = lo.let("count", ir.Select(ir.Binary("<", left, most, "bool"), left, most, "i64"))
    lo.ranges[count.id] = (None, row.chunk)
    part = View(weights.buffer, kind, affine.ZERO, (affine.var(count),), weights.strides)
    here = ir.Lit(0, "i64")

    def score(at: tuple[ir.Affine, ...]) -> ir.Expr:
        d = lo.fresh("i64", "d")
        q = exprs.cast(row.q.load((row.i, affine.var(d))), kind)
        k = exprs.cast(row.k.load((affine.add(start, at[0]), affine.var(d))), kind)
        product = ir.Binary("*", q, k, kind)
        dot = ir.Reduce("add", d, here, affine.simplest(row.q.extents[1]), product, kind)
        return ir.Binary("*", dot, row.scale, kind)

    def weight_sum(op: str, body: ir.Expr, t: ir.Var) -> ir.Reduce:
        return ir.Reduce(op, t, here, count, body, kind)

    loops.store_all(lo, part, lambda at: score(tuple(at)), stmt.span)
    t = lo.fresh("i64", "t")
    peak = lo.let("peak", ir.Call("max", (high, weight_sum("max", part.load((affine.var(t),)), t)), kind))
    shrink = lo.let("shrink", ir.Call("exp", (ir.Binary("-", high, peak, kind),), kind))
    loops.store_all(lo, part, lambda at: ir.Call("exp", (ir.Binary("-", part.load(at), peak, kind),), kind), stmt.span)
    t2 = lo.fresh("i64", "t")
    added = weight_sum("add", part.load((affine.var(t2),)), t2)
    lo.emit(ir.Set(norm, ir.Binary("+", ir.Binary("*", norm, shrink, kind), added, kind)))

    def weighted(at: tuple[ir.Affine, ...]) -> ir.Expr:
        s = lo.fresh("i64", "t")
        v = exprs.cast(row.v.load((affine.add(start, affine.var(s)), at[0])), kind)
        product = ir.Binary("*", part.load((affine.var(s),)), v, kind)
        kept = ir.Binary("*", total.load(at), shrink, kind)
        return ir.Binary("+", kept, weight_sum("add", product, s), kind)

    loops.store_all(lo, total, lambda at: weighted(tuple(at)), stmt.span)
    lo.emit(ir.Set(high, peak))

"""Proofs over tensors whose layout is known only at run time, against enumeration of what is touched.

A random loop body stores to and loads from a tensor without gaps or a view with gaps, at indices made of loop
variables, looked-up numbers, narrow sums that wrap and numbers that each iteration keeps for itself. If its
iterations are proven independent, then no two of them may meet, whatever the extents, strides and tables are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from vx.diagnostics.span import NOWHERE
from vx.kernels import affine, effects, ir, layouts, parallel
from vx.kernels.effects import Loop
from vx.kernels.interpret import Interpreter, Number
from vx.kernels.lowering import LONGEST, View, dense_strides

I, J, HIGH = ir.Var(1, "i64", "i"), ir.Var(2, "i64", "j"), ir.Var(3, "i64", "high")
OWN, WRAPS = ir.Var(4, "i32", "own"), ir.Var(5, "u32", "wraps")
EXTENTS = [ir.Var(10 + k, "i64", f"extent{k}") for k in range(3)]
STRIDES = [ir.Var(20 + k, "i64", f"stride{k}") for k in range(3)]
TENSOR, TABLE, PRIVATE = 0, 1, 2
NAMES = {TENSOR: "tensor", TABLE: "table", PRIVATE: "private"}
BUFFERS = tuple(ir.Buffer(b, name, "i32", "param", None, True) for b, name in NAMES.items())
TABLES = ([2, 0, 1, 3, 5, 4], [1, 1, 0, 0, 2, 2])
MOST = 4
"""Iterations of a loop."""


def lit(n: int, type_: str = "i64") -> ir.Lit:
    return ir.Lit(n, type_)


@dataclass(frozen=True)
class Nest:
    """A loop over i, and the index of each of its accesses."""

    body: tuple[ir.Stmt, ...]
    view: View
    dense: bool
    high: ir.Expr
    indices: dict[ir.Affine, tuple[ir.Affine, ...]] = field(default_factory=dict)

    def proven(self) -> bool:
        ranges: dict[int, affine.Interval] = {v.id: (0, LONGEST) for v in (*EXTENTS, *STRIDES)}
        high = affine.of(self.high)
        inner = [s for s in effects.statements(self.body) if isinstance(s, ir.For)]
        bounds = {
            v.id: (affine.of(low), affine.of(end)) for v, low, end in [(I, lit(0), self.high), *map(_ends, inner)]
        }
        for v, (low, end) in bounds.items():
            most = affine.interval(affine.sub(end, affine.const(1)), ranges)[1]
            ranges[v] = affine.interval(low, ranges)[0], most
        layout = layouts.of(self.view.extents, self.view.strides, self.dense)
        known = parallel.Known(ranges, NAMES, {} if layout is None else {TENSOR: layout}, bounds)
        return parallel.why_serial(Loop(I, lit(0), affine.simplest(high)), self.body, known) == ""


def _ends(loop: ir.For) -> tuple[ir.Var, ir.Expr, ir.Expr]:
    return loop.var, loop.low, loop.high


class Touched(Interpreter):
    """What one iteration stores to and loads from: what the index checks let through."""

    def __init__(self, nest: Nest, scalars: dict[int, Number], table: Sequence[int]) -> None:
        super().__init__(ir.Region("nest", (), BUFFERS, (), (), NOWHERE))
        self.nest = nest
        self.scalars = dict(scalars)
        self.buffers = {TABLE: list(table), PRIVATE: [0]}
        self.stored: set[int] = set()
        self.loaded: set[int] = set()

    def _statement(self, stmt: ir.Stmt) -> None:
        if isinstance(stmt, ir.Store) and stmt.buffer == TENSOR:
            self.value(stmt.value)
            if self._exists(stmt.offset):
                self.stored.add(int(self.value(stmt.offset)))
        elif not isinstance(stmt, ir.Alloc):
            super()._statement(stmt)

    def value(self, expr: ir.Expr) -> Number:
        if not isinstance(expr, ir.Load) or expr.buffer != TENSOR:
            return super().value(expr)
        if self._exists(expr.offset):
            self.loaded.add(int(self.value(expr.offset)))
        return 0

    def _exists(self, offset: ir.Affine) -> bool:
        extents = [int(self.value(e)) for e in self.nest.view.extents]
        if self.nest.dense:
            length = 1
            for extent in extents:
                length *= extent
            return 0 <= int(self.value(offset)) < length
        at = [int(self.value(index)) for index in self.nest.indices[offset]]
        return all(0 <= i < extent for i, extent in zip(at, extents, strict=True))


def shapes(nest: Nest) -> Iterator[dict[int, Number]]:
    """Extents, strides and bounds that the nest can meet at run time."""
    rank = len(nest.view.extents)
    for extents in itertools.product(*((1, 2, 3) if e.terms else (e.const,) for e in nest.view.extents)):
        orders = [tuple(range(rank))] if nest.dense else itertools.permutations(range(rank))
        for order, gap in itertools.product(orders, (0,) if nest.dense else (0, 1)):
            strides, step = [0] * rank, 1
            for axis in reversed(order):
                strides[axis] = step
                step *= extents[axis] + gap
            sizes = {EXTENTS[k].id: extents[k] for k in range(rank)} | {STRIDES[k].id: strides[k] for k in range(rank)}
            yield from ({**sizes, HIGH.id: high} for high in (2, MOST))


def clash(nest: Nest) -> str:
    """Two iterations that meet, if there are any."""
    for scalars, table in itertools.product(shapes(nest), TABLES):
        seen: list[Touched] = []
        for i in range(int(Touched(nest, scalars, table).value(nest.high))):
            now = Touched(nest, {**scalars, I.id: i}, table)
            now.run(nest.body)
            for before in seen:
                if now.stored & (before.stored | before.loaded) or now.loaded & before.stored:
                    return f"at {scalars}"
            seen.append(now)
    return ""


# ---- random nests --------------------------------------------------------------------------------
def atoms() -> st.SearchStrategy[ir.Affine]:
    """What indices are made of."""
    i, j = affine.var(I), affine.var(J)
    looked_up = ir.Cast(ir.Load(TABLE, i, "i32"), "i64")
    fixed = ir.Cast(ir.Load(TABLE, affine.const(3), "i32"), "i64")
    halves = [affine.of(ir.Binary(op, I, lit(2), "i64")) for op in "/%"]
    others = [affine.of(x) for x in (looked_up, fixed, ir.Cast(OWN, "i64"), ir.Cast(WRAPS, "i64"), EXTENTS[0])]
    return st.sampled_from([i, i, i, j, j, j, *halves, *others])


def index() -> st.SearchStrategy[ir.Affine]:
    terms = st.lists(st.tuples(st.sampled_from((1, 1, 1, -1, 2, 3)), atoms()), min_size=0, max_size=2)
    return st.builds(_sum, st.integers(-1, 3), terms)


def _sum(constant: int, terms: Sequence[tuple[int, ir.Affine]]) -> ir.Affine:
    total = affine.const(constant if len(terms) != 1 else max(constant, 0) % 2)
    for c, atom in terms:
        total = affine.add(total, affine.scale(atom, c))
    return total


@st.composite
def nests(draw: st.DrawFn) -> Nest:
    rank, dense = draw(st.integers(1, 3)), draw(st.booleans())
    known = draw(st.booleans())
    extents = [
        affine.const(draw(st.integers(1, 3))) if known and draw(st.booleans()) else affine.var(e) for e in EXTENTS
    ]
    extents = extents[:rank]
    strides = dense_strides(extents) if dense else tuple(affine.var(s) for s in STRIDES[:rank])
    view = View(TENSOR, "i32", affine.ZERO, tuple(extents), strides)
    ends = st.sampled_from([lit(2), lit(3), *(affine.simplest(e) for e in extents)])
    indices: dict[ir.Affine, tuple[ir.Affine, ...]] = {}

    def place() -> ir.Affine:
        at = tuple(draw(index()) for _ in range(rank))
        indices[view.at(at)] = at
        return view.at(at)

    places = [place() for _ in range(draw(st.integers(1, 2)))]
    stores: list[ir.Stmt] = [
        ir.Store(TENSOR, p, ir.Load(TENSOR, draw(st.sampled_from(places)), "i32"))
        for p in places[: draw(st.integers(1, 2))]
    ]
    inner = ir.For(J, draw(st.sampled_from([lit(0), lit(1)])), draw(ends), tuple(stores), False, "", NOWHERE)
    if draw(st.booleans()):
        test = ir.Binary("==", ir.Binary("%", I, lit(2), "i64"), lit(0), "bool")
        inner = ir.If(test, (inner,), ())  # type: ignore[assignment]
    return Nest((*_scalars(draw), inner), view, dense, draw(st.sampled_from([HIGH, draw(ends)])), indices)


def _scalars(draw: st.DrawFn) -> tuple[ir.Stmt, ...]:
    """A scalar that each iteration keeps in memory of its own, and one whose arithmetic wraps."""
    own = ir.Cast(affine.scale(affine.var(I), draw(st.sampled_from((1, -1)))), "i32")
    factor, shift = draw(st.sampled_from((1, 1 << 31, (1 << 32) - 1))), draw(st.sampled_from((0, 1, 2)))
    scaled = ir.Binary("*", ir.Cast(I, "u32"), lit(factor, "u32"), "u32")
    return (
        ir.Alloc(PRIVATE),
        ir.Store(PRIVATE, affine.ZERO, own),
        ir.Let(OWN, ir.Load(PRIVATE, affine.ZERO, "i32")),
        ir.Let(WRAPS, ir.Binary("+", scaled, lit(shift, "u32"), "u32")),
    )


@settings(max_examples=250, deadline=None)
@given(nests())
def test_no_two_iterations_meet(nest: Nest) -> None:
    if nest.proven():
        assert not clash(nest)

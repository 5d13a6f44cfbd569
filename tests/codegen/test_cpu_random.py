"""Random small regions: compiled code against the interpreter, exactly.

Values are small whole numbers, so that sums are exact in any order and every disagreement is a fault.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from cpu_harness import Compiled, cpu_levels, run_at
from cpu_regions import at, binary, call, launched, lit, loop, region, var
from hypothesis import given, settings
from hypothesis import strategies as st

from vx.kernels import ir
from vx.kernels.interpret import interpret

SIZE = 3000
FLOATS, INTS, INDEX, OUT, OUT_INT = range(5)
PRIVATE = 5
ELEMS = ["f32", "i32", "i32", "f32", "i32"]
SCALARS = ((var(1), 13), (var(2), 37))
"""Parameters, and their values."""


class Writer:
    """Makes one region from a source of choices."""

    def __init__(self, choose: random.Random) -> None:
        self.choose = choose
        self.names = 10
        self.scope: list[tuple[ir.Var, int]] = []
        """i64 variables in scope and how large they get."""
        self.floats: list[ir.Var] = []
        self.ints: list[ir.Var] = []
        self.depth = 0
        self.buffers: list[ir.Buffer] = []
        self.usable: list[tuple[ir.Buffer, int]] = []

    def fresh(self, type_: str = "i64") -> ir.Var:
        self.names += 1
        return var(self.names, type_)

    def offset(self, limit: int) -> ir.Affine:
        """An offset in 0..limit."""
        room, terms = limit - 1, []
        for v, most in self.choose.sample(self.scope, len(self.scope)):
            step = self.choose.choice([0, 1, 1, 2, 7, 60])
            if step * most <= room:
                room -= step * most
                terms.append((step, v))
        if limit == SIZE and self.choose.random() < 0.1:
            loaded = ir.Cast(ir.Load(INDEX, at(*terms), "i32"), "i64")
            return at(loaded)
        return at(*terms, self.choose.randint(0, min(room, 5)))

    # ---- expressions ---------------------------------------------------------------------------
    def real(self, deep: int = 0) -> ir.Expr:
        pick = self.choose.random()
        if deep > 3 or pick < 0.3:
            return self.real_leaf()
        if pick < 0.65:
            return binary(self.choose.choice("++-*"), self.real(deep + 1), self.real_leaf())
        if pick < 0.75:
            return call(self.choose.choice(["min", "max"]), self.real(deep + 1), self.real(deep + 1))
        if pick < 0.85:
            return ir.Select(self.cond(deep + 1), self.real(deep + 1), self.real(deep + 1), "f32")
        if pick < 0.9:
            return ir.Cast(self.whole(deep + 1), "f32")
        return self.reduction(deep + 1, "f32")

    def real_leaf(self) -> ir.Expr:
        pick = self.choose.random()
        if pick < 0.1:
            return lit(self.choose.randint(-3, 3), "f32")
        if pick < 0.4 and self.floats:
            return self.choose.choice(self.floats)
        if pick < 0.6 and self.usable:
            buffer, length = self.choose.choice(self.usable)
            return ir.Load(buffer.id, self.offset(length), "f32")
        return ir.Load(FLOATS, self.offset(SIZE), "f32")

    def whole(self, deep: int = 0) -> ir.Expr:
        """An i32 of a few bits."""
        pick = self.choose.random()
        if pick < 0.3 and self.ints:
            return self.choose.choice(self.ints)
        if pick < 0.4 and self.scope:
            return binary("%", ir.Cast(self.choose.choice(self.scope)[0], "i32"), lit(7, "i32"), "i32")
        if deep > 2 or pick < 0.7:
            return ir.Load(INTS, self.offset(SIZE), "i32")
        op = self.choose.choice(["+", "-", "*", "/", "%", "&", "|", "^", ">>"])
        right = self.whole(deep + 1)
        if op in "/%":
            right = binary("|", right, lit(1, "i32"), "i32")
        return binary("%", binary(op, self.whole(deep + 1), right, "i32"), lit(64, "i32"), "i32")

    def cond(self, deep: int = 0) -> ir.Expr:
        pick = self.choose.random()
        if pick < 0.2 and deep < 3:
            return ir.Binary(self.choose.choice(["&&", "||"]), self.cond(deep + 1), self.cond(deep + 1), "bool")
        op = self.choose.choice(["<", "<=", "==", "!=", ">"])
        make = self.real if pick < 0.6 else self.whole
        return ir.Binary(op, make(deep + 1), make(deep + 1), "bool")

    def reduction(self, deep: int, type_: str) -> ir.Expr:
        if self.depth > 3:
            return lit(1, type_)
        v = self.fresh()
        low, high, most = self.bounds(9 if deep > 1 or self.depth else 70)
        self.scope.append((v, most))
        self.depth += 2
        body = self.real(deep + 2)
        self.depth -= 2
        self.scope.pop()
        reduce = ir.Reduce(self.choose.choice(["add", "add", "max", "min"]), v, low, high, body, type_)
        if reduce.op == "add":
            return reduce
        return ir.Call("max", (lit(-9, "f32"), ir.Call("min", (lit(9, "f32"), reduce), "f32")), "f32")

    def bounds(self, most: int) -> tuple[ir.Expr, ir.Expr, int]:
        high = self.choose.choice([0, 1, 3, most // 2, most - 1, most])
        low = self.choose.choice([0, 0, 0, 1, high // 2])
        if self.choose.random() < 0.25:
            v, value = self.choose.choice(SCALARS)
            return lit(0), v, value
        if self.scope and self.choose.random() < 0.25:
            v, biggest = self.choose.choice(self.scope)
            if biggest < 20:
                return lit(0), at(v, self.choose.randint(0, 2)), biggest + 2
        return lit(low), lit(high), max(high, 1)

    # ---- statements ----------------------------------------------------------------------------
    def body(self, out: ir.Affine, deep: int) -> list[ir.Stmt]:
        """Statements that end with the iteration's own stores."""
        stmts: list[ir.Stmt] = []
        kept = len(self.floats), len(self.ints), len(self.usable), len(self.scope)
        for _ in range(self.choose.randint(0, 3)):
            stmts += self.statement(deep)
        stmts.append(ir.Store(OUT, out, self.real()))
        if self.choose.random() < 0.4:
            stmts.append(ir.Store(OUT_INT, out, self.whole()))
        if self.choose.random() < 0.3:
            stmts.append(ir.If(self.cond(), (ir.Store(OUT, out, self.real()),), ()))
        del self.floats[kept[0] :], self.ints[kept[1] :], self.usable[kept[2] :], self.scope[kept[3] :]
        return stmts

    def statement(self, deep: int) -> list[ir.Stmt]:
        makers = [
            self.let,
            self.let,
            self.let_index,
            self.accumulate,
            self.accumulate,
            self.best,
            self.private,
            self.count,
        ]
        return self.choose.choice(makers)()

    def let(self) -> list[ir.Stmt]:
        if self.choose.random() < 0.3:
            v = self.fresh("i32")
            made: list[ir.Stmt] = [ir.Let(v, self.whole())]
            self.ints.append(v)
            return made
        v = self.fresh("f32")
        made = [ir.Let(v, self.real())]
        self.floats.append(v)
        return made

    def let_index(self) -> list[ir.Stmt]:
        v = self.fresh()
        if not self.scope:
            return []
        other, most = self.choose.choice(self.scope)
        step = self.choose.choice([1, 2, 3])
        stmt = ir.Let(v, at((step, other), 1))
        if step * most + 1 < 600:
            self.scope.append((v, step * most + 1))
        return [stmt]

    def accumulate(self) -> list[ir.Stmt]:
        """A scalar changed in a serial loop or under a condition."""
        total = self.fresh("f32")
        stmts: list[ir.Stmt] = [ir.Let(total, self.real_leaf(), True)]
        self.floats.append(total)
        small = lambda e: call("max", lit(-50, "f32"), call("min", lit(50, "f32"), e))  # noqa: E731
        change = ir.Set(total, small(self.real(2)))
        if self.choose.random() < 0.5:
            return [
                *stmts,
                ir.If(
                    self.cond(1), (change,), (ir.Set(total, self.real_leaf()),) if self.choose.random() < 0.5 else ()
                ),
            ]
        v = self.fresh()
        low, high, most = self.bounds(6)
        self.scope.append((v, most))
        inner: list[ir.Stmt] = [ir.Set(total, small(self.real(2)))]
        if self.choose.random() < 0.4:
            inner.append(ir.If(self.cond(2), (ir.Set(total, self.real_leaf()),), ()))
        self.scope.pop()
        return [*stmts, loop(v, high, *inner, low=low, parallel=False)]

    def count(self) -> list[ir.Stmt]:
        """A while loop."""
        n, total = self.fresh("i32"), self.fresh("f32")
        stop = self.choose.choice([lit(3, "i32"), binary("&", self.whole(2), lit(3, "i32"), "i32")])
        body = (ir.Set(total, self.real_leaf()), ir.Set(n, binary("+", n, lit(1, "i32"), "i32")))
        made: list[ir.Stmt] = [
            ir.Let(n, lit(0, "i32"), True), ir.Let(total, lit(1, "f32"), True),
            ir.While(ir.Binary("<", n, stop, "bool"), body),
        ]  # fmt: skip
        self.floats.append(total)
        return made

    def best(self) -> list[ir.Stmt]:
        best, where, v = self.fresh("f32"), self.fresh("i32"), self.fresh()
        low, high, most = self.bounds(40)
        start = self.real_leaf()
        self.scope.append((v, most))
        value = self.real(2)
        self.scope.pop()
        made: list[ir.Stmt] = [
            ir.Let(best, start, True), ir.Let(where, lit(-1, "i32"), True),
            ir.ArgReduce(self.choose.choice(["max", "min"]), v, low, high, value, best, where, ir.Cast(v, "i32")),
        ]  # fmt: skip
        self.ints.append(where)
        return made

    def private(self) -> list[ir.Stmt]:
        """A buffer per iteration, filled by a loop of its own."""
        if self.depth:
            return []
        length = self.choose.choice([1, 5, 40])
        buffer = ir.Buffer(PRIVATE + len(self.buffers), "p", "f32", "private", length, True)
        v = self.fresh()
        self.scope.append((v, length - 1))
        fill = loop(v, length, ir.Store(buffer.id, at(v), self.real(2)), parallel=self.choose.random() < 0.5)
        self.scope.pop()
        self.buffers.append(buffer)
        self.usable.append((buffer, length))
        return [ir.Alloc(buffer.id), fill]

    # ---- regions -------------------------------------------------------------------------------
    def nest(self, base: int) -> ir.For:
        """A parallel nest that owns OUT[base..base + 1000)."""
        if self.choose.random() < 0.3:
            return self.product(base)
        i, j = self.fresh(), self.fresh()
        n = self.choose.choice([1, 3, 5, 16, 18, 33])
        m = self.choose.choice([1, 2, 7, 16, 17, 30])
        self.scope.append((i, n - 1))
        form = self.choose.random()
        if form < 0.5:
            step = self.choose.choice([1, 1, 2])
            made = loop(i, n, *self.body(at((step, i), base), 0))
        else:
            before = self.let() if form > 0.75 else []
            self.scope.append((j, m - 1))
            out = at((m, i), j, base) if self.choose.random() < 0.7 else at((n, j), i, base)
            made = loop(i, n, *before, loop(j, m, *self.body(out, 1)))
            self.scope.pop()
        self.scope.pop()
        self.floats.clear()
        self.ints.clear()
        return made

    def product(self, base: int) -> ir.For:
        """A nest of two or three loops around a sum of products."""
        h, p, j, k = (self.fresh() for _ in range(4))
        heads, n, m = (
            self.choose.choice([1, 2, 3]),
            self.choose.choice([1, 4, 6, 9]),
            self.choose.choice([1, 4, 8, 16, 18, 33]),
        )
        dynamic = self.choose.random()
        rows: ir.Expr = lit(n)
        if dynamic < 0.3:
            rows, n = SCALARS[0]
        depth = self.choose.choice([lit(0), lit(1), lit(3), lit(16), lit(40), SCALARS[1][0]])
        left = ir.Load(FLOATS, at((41, p), (self.choose.choice([0, 7]), h), k), "f32")
        steps = self.choose.choice([(41, 1), (1, 41), (2, 1), (41, 2)])
        right = ir.Load(FLOATS, at((steps[0], j), (steps[1], k), (self.choose.choice([0, 5]), h)), "f32")
        self.scope += [(h, heads - 1), (p, n - 1), (j, m - 1)]
        value = binary("*", left, right)
        total: ir.Expr = ir.Reduce("add", k, lit(0), depth, value, "f32")
        if self.choose.random() < 0.3:
            total = binary("+", total, self.real(2))
        store = ir.Store(OUT, at((n * m, h), (m, p), j, base), total)
        more = [ir.Store(OUT_INT, at((n * m, h), (m, p), j, base), self.whole())] if self.choose.random() < 0.2 else []
        del self.scope[-3:]
        inner = loop(p, rows, loop(j, m, store, *more))
        return loop(h, heads, inner) if heads * n * m <= 1000 else loop(h, 1, inner)

    def region(self) -> ir.Region:
        nests = [self.nest(1000 * n) for n in range(self.choose.randint(1, 3))]
        scalars = [v for v, _ in SCALARS]
        if self.choose.random() < 0.5:
            kernel, launch = launched(nests)
            return region(ELEMS, [launch], kernels=[kernel], extra=self.buffers, scalars=scalars)
        return region(ELEMS, nests, extra=self.buffers, scalars=scalars)


def _check(choose: random.Random) -> None:
    made = Writer(choose).region()
    rng = np.random.default_rng(choose.randint(0, 999))
    floats = rng.integers(-4, 5, SIZE).astype(np.float32)
    ints = rng.integers(-50, 50, SIZE).astype(np.int32)
    index = rng.integers(0, SIZE, SIZE).astype(np.int32)
    expected: list[Any] = [floats.tolist(), ints.tolist(), index.tolist(), [0.0] * SIZE, [0] * SIZE]
    values = [value for _, value in SCALARS]
    interpret(made, expected, values)
    if max(map(abs, expected[OUT])) >= 2**20:
        return
    compiled = Compiled([made], opt=1)
    for level in cpu_levels():
        for threads in (1, 2):
            out, out_int = np.zeros(SIZE, np.float32), np.zeros(SIZE, np.int32)
            run_at(compiled, made, level, [floats, ints, index, out, out_int], values, threads)
            np.testing.assert_array_equal(out, np.array(expected[OUT], np.float32), err_msg=f"level {level}")
            np.testing.assert_array_equal(out_int, np.array(expected[OUT_INT], np.int32), err_msg=f"level {level}")


@given(choose=st.randoms(use_true_random=False))
@settings(max_examples=15, deadline=None)
def test_random_regions(choose: random.Random) -> None:
    _check(choose)

"""A loop called parallel must be parallel: the proof against brute force, and the cases it must manage."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from vx.diagnostics.span import NOWHERE
from vx.kernels import affine, effects, ir, layouts, parallel
from vx.kernels.effects import Loop

I, J, K = (ir.Var(n, "i64", name) for n, name in ((1, "i"), (2, "j"), (3, "k")))
NAMES = {0: "t", 1: "u"}
ZERO = ir.Lit(0.0, "f32")


def lit(n: int) -> ir.Lit:
    return ir.Lit(n, "i64")


def at(const: int, **steps: int) -> ir.Affine:
    named = {"i": I, "j": J, "k": K}
    return ir.Affine(const, tuple((c, named[v]) for v, c in steps.items() if c))


def store(buffer: int, offset: ir.Affine, *loads: tuple[int, ir.Affine]) -> ir.Store:
    value: ir.Expr = ZERO
    for b, o in loads:
        value = ir.Binary("+", value, ir.Load(b, o, "f32"), "f32")
    return ir.Store(buffer, offset, value)


def inner(var: ir.Var, trips: int, *body: ir.Stmt) -> ir.For:
    return ir.For(var, lit(0), lit(trips), body, False, "", NOWHERE)


def proven(trips: int, body: Sequence[ir.Stmt], **counts: int) -> bool:
    ranges = {I.id: (0, trips - 1), J.id: (0, counts.get("j", 1) - 1), K.id: (0, counts.get("k", 1) - 1)}
    return parallel.why_serial(Loop(I, lit(0), lit(trips)), body, parallel.Known(ranges, NAMES)) == ""


def test_rows_of_one_tensor() -> None:
    assert proven(10, [inner(J, 8, store(0, at(0, i=8, j=1), (0, at(0, i=8, j=1))))], j=8)


def test_overlapping_rows_are_not() -> None:
    assert not proven(10, [inner(J, 9, store(0, at(0, i=8, j=1)))], j=9)


def test_pairs_by_residue() -> None:
    assert proven(10, [store(0, at(0, i=2), (0, at(1, i=2))), store(0, at(1, i=2), (0, at(0, i=2)))])


def test_neighbour_is_carried() -> None:
    assert not proven(10, [store(0, at(1, i=1), (0, at(0, i=1)))])


def test_other_half_is_disjoint() -> None:
    assert proven(10, [store(0, at(10, i=1), (0, at(0, i=1)))])
    assert not proven(11, [store(0, at(10, i=1), (0, at(0, i=1)))])


def test_transposed_write() -> None:
    assert proven(16, [inner(J, 5, store(0, at(0, i=1, j=16)))], j=5)
    assert not proven(17, [inner(J, 5, store(0, at(0, i=1, j=16)))], j=5)


def test_same_place_every_time() -> None:
    assert not proven(4, [store(0, at(3))])


def test_ends_that_do_not_meet() -> None:
    pair = [store(0, at(0, i=1), (0, at(15, i=-1))), store(0, at(15, i=-1), (0, at(0, i=1)))]
    assert proven(8, pair)
    assert not proven(9, pair)


def test_even_elements_from_odd_ones() -> None:
    sums = store(0, at(0, i=2), (0, at(1, j=2)))
    assert proven(10, [inner(J, 30, sums)], j=30)
    assert not proven(10, [inner(J, 30, store(0, at(0, i=2), (0, at(1, j=3))))], j=30)


def test_columns_of_rows_that_are_looked_up() -> None:
    row = ir.Cast(ir.Load(1, at(0, i=1, j=1), "i32"), "i64")
    scattered = store(0, ir.Affine(0, ((8, row), (1, I))))
    assert proven(8, [inner(J, 5, scattered)], j=5)
    assert not proven(9, [inner(J, 5, scattered)], j=5)


def test_a_scalar_read_once_is_what_it_was_read_from() -> None:
    index, start = ir.Var(8, "i32", "index"), ir.Var(7, "i32", "start")
    offset = ir.Affine(0, ((1, ir.Cast(index, "i64")), (1, I)))
    assert proven(4, [ir.Let(index, start), store(0, offset, (0, offset))])
    assert not proven(4, [ir.Let(index, ir.Load(0, at(0), "i32")), store(0, offset)])


def test_a_scalar_that_may_wrap_is_not_what_it_was_declared_as() -> None:
    scaled = ir.Binary("*", ir.Cast(I, "i32"), ir.Lit(1 << 30, "i32"), "i32")
    index = ir.Var(8, "i32", "index")
    body = [ir.Let(index, scaled), store(0, ir.Affine(0, ((1, ir.Cast(index, "i64")),)))]
    assert proven(2, body)
    assert not proven(9, body)


def test_what_an_iteration_keeps_for_itself_differs() -> None:
    own = ir.Cast(ir.Load(1, at(0), "i32"), "i64")
    scattered = store(0, ir.Affine(0, ((1, own), (1, I))))
    kept = [ir.Alloc(1), ir.Store(1, at(0), ir.Cast(at(3, i=-1), "i32"))]
    assert proven(4, [scattered])
    assert not proven(4, [*kept, scattered])


def test_scatter_is_serial() -> None:
    index = ir.Affine(0, ((1, ir.Cast(ir.Load(1, at(0, i=1), "i32"), "i64")),))
    assert not proven(4, [store(0, index)])


def test_invariant_unknown_base_cancels() -> None:
    base = ir.Var(9, "i64", "base")
    offset = ir.Affine(0, ((1, base), (1, I)))
    assert proven(4, [store(0, offset, (0, offset))])


def test_carried_scalar_names_it() -> None:
    acc = ir.Var(7, "f32", "acc")
    why = parallel.why_serial(Loop(I, lit(0), lit(4)), [ir.Set(acc, ZERO)], parallel.Known({}, NAMES))
    assert "acc" in why


def _touched(body: Sequence[ir.Stmt], i: int) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """(stored, loaded) elements of iteration i, by enumeration."""
    stored: set[tuple[int, int]] = set()
    loaded: set[tuple[int, int]] = set()
    for access in effects.accesses(body):
        spans = [range(int(x.low.value), int(x.high.value)) for x in access.inner]  # type: ignore[union-attr]
        for point in itertools.product(*spans):
            env = {I.id: i, **{x.var.id: v for x, v in zip(access.inner, point, strict=True)}}
            offset = access.offset.const + sum(c * env[a.id] for c, a in access.offset.terms)  # type: ignore[union-attr]
            (stored if access.store else loaded).add((access.buffer, offset))
    return stored, loaded


steps = st.integers(-6, 6)
offsets = st.builds(lambda c, i, j, k: at(c, i=i, j=j, k=k), st.integers(-4, 12), steps, steps, steps)


@st.composite
def nests(draw: st.DrawFn) -> tuple[int, dict[str, int], list[ir.Stmt]]:
    trips, counts = draw(st.integers(1, 6)), {"j": draw(st.integers(1, 5)), "k": draw(st.integers(1, 4))}
    body: list[ir.Stmt] = []
    for _ in range(draw(st.integers(1, 2))):
        reads = draw(st.lists(st.tuples(st.integers(0, 1), offsets), max_size=2))
        s: ir.Stmt = store(draw(st.integers(0, 1)), draw(offsets), *reads)
        body.append(inner(J, counts["j"], inner(K, counts["k"], s)))
    return trips, counts, body


@settings(max_examples=600, deadline=None)
@given(nests())
def test_proof_is_sound(nest: tuple[int, dict[str, int], list[ir.Stmt]]) -> None:
    trips, counts, body = nest
    if not proven(trips, body, **counts):
        return
    touched = [_touched(body, i) for i in range(trips)]
    for a, b in itertools.permutations(range(trips), 2):
        stored, loaded = touched[a][0], touched[b][0] | touched[b][1]
        assert not stored & loaded, f"iterations {a} and {b} share an element"


@given(offsets, offsets, st.integers(-5, 5))
def test_affine_arithmetic(a: ir.Affine, b: ir.Affine, factor: int) -> None:
    env = {I.id: ir.Lit(3, "i64"), J.id: ir.Lit(5, "i64"), K.id: ir.Lit(-2, "i64")}

    def at_env(x: ir.Affine) -> int:
        result = affine.substitute_affine(x, env)
        assert not result.terms
        return result.const

    assert at_env(affine.add(a, b)) == at_env(a) + at_env(b)
    assert at_env(affine.scale(a, factor)) == factor * at_env(a)
    assert affine.sub(a, a) == affine.ZERO


ROWS, COLUMNS, N = (ir.Var(n, "i64", name) for n, name in ((20, "rows"), (21, "columns"), (22, "n")))


def run_time_rows(index: ir.Affine, column: ir.Affine, columns: ir.Var, i_high: ir.Var, j_high: ir.Var) -> bool:
    """A store to `t[index][column]` of a tensor with `columns` columns: are iterations of i proven independent?"""
    stride = affine.var(columns)
    layout = layouts.Layout((affine.var(ROWS), stride), (stride, affine.const(1)), dense=True)
    bounds = {I.id: (affine.ZERO, affine.var(i_high)), J.id: (affine.ZERO, affine.var(j_high))}
    ranges = {v.id: (0, None) for v in (I, J, ROWS, COLUMNS, N)}
    known = parallel.Known(ranges, NAMES, {0: layout}, bounds)
    cell = store(0, affine.add(affine.times(index, stride), column))
    nest = ir.For(J, lit(0), j_high, (cell,), False, "", NOWHERE)
    return parallel.why_serial(Loop(I, lit(0), i_high), [nest], known) == ""


def test_rows_of_unknown_length() -> None:
    assert run_time_rows(at(0, i=1), at(0, j=1), COLUMNS, ROWS, COLUMNS)
    assert run_time_rows(at(0, i=2), at(0, j=1), COLUMNS, ROWS, COLUMNS)


def test_rows_of_unknown_length_may_run_into_each_other() -> None:
    assert not run_time_rows(at(0, i=1), at(0, j=1), COLUMNS, ROWS, N)
    assert not run_time_rows(at(0, i=1), at(1, j=1), COLUMNS, ROWS, COLUMNS)
    assert not run_time_rows(at(0), at(0, j=1), COLUMNS, ROWS, COLUMNS)

"""Regions compiled and run at every processor level of this machine, against numpy in f64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from cpu_harness import Compiled, cpu_levels, run_at
from cpu_regions import add, at, binary, call, launched, lit, loop, mul, plus, region, var

from vx.kernels import ir

LEVELS = cpu_levels()
A, J, K, P, T = var(1), var(2), var(3), var(4), var(5)
SIZES = [1, 3, 7, 17, 172, 288]
RNG = np.random.default_rng(7)


def f32(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


def load(buffer: int, *offset: Any, type_: str = "f32") -> ir.Load:
    return ir.Load(buffer, at(*offset), type_)


def on_all_levels(made: ir.Region, tensors: Sequence[np.ndarray[Any, Any]], out: int, expected: np.ndarray[Any, Any], scalars: Sequence[Any] = (), tolerance: float = 2e-5) -> None:  # fmt: skip
    """Runs with 1 and 3 threads at every level; tensor `out` is compared, and must not depend on threads."""
    compiled = Compiled([made])
    for level in LEVELS:
        results = []
        for threads in (1, 3):
            own = [t.copy() for t in tensors]
            run_at(compiled, made, level, own, scalars, threads)
            scale = np.abs(expected).max() + 1e-30
            np.testing.assert_allclose(
                own[out], expected, rtol=tolerance, atol=tolerance * scale, err_msg=f"level {level}"
            )
            results.append(own[out].tobytes())
        assert results[0] == results[1]


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 7), (7, 288), (17, 172), (172, 17), (288, 3), (300, 96)])
def test_matrix_times_vector(rows: int, columns: int) -> None:
    body = ir.Store(2, at(A), add(K, columns, mul(load(0, (columns, A), K), load(1, K))))
    kernel, launch = launched([loop(A, rows, body)])
    made = region(["f32", "f32", "f32"], [launch], kernels=[kernel])
    w, x, y = f32(rows, columns), f32(columns), np.full(rows, np.nan, np.float32)
    on_all_levels(made, [w, x, y], 2, w.astype(np.float64) @ x)


@pytest.mark.parametrize(
    ("sizes", "dynamic"),
    [((1, 1, 1), False), ((3, 7, 5), True), ((17, 17, 17), False), ((70, 48, 32), True), ((5, 172, 288), False)],
)
@pytest.mark.parametrize("form", ["AB", "ABt", "AtB"])
def test_matrix_product(sizes: tuple[int, int, int], form: str, dynamic: bool) -> None:
    m, n, k = sizes
    a = load(0, (k, P), K) if form != "AtB" else load(0, (m, K), P)
    b = load(1, (n, K), J) if form != "ABt" else load(1, (k, J), K)
    names = [var(20), var(21), var(22)] if dynamic else []
    rows, columns, depth = names or (lit(m), lit(n), lit(k))
    product = ir.Store(2, at((n, P), J), add(K, depth, mul(a, b)))
    kernel, launch = launched([loop(P, rows, loop(J, columns, product))])
    made = region(["f32", "f32", "f32"], [launch], kernels=[kernel], scalars=names)
    left, right = f32(m, k), f32(k, n)
    x = left.T.copy() if form == "AtB" else left
    y = right.T.copy() if form == "ABt" else right
    expected = left.astype(np.float64) @ right
    on_all_levels(made, [x, y, np.zeros((m, n), np.float32)], 2, expected, sizes if dynamic else ())


@pytest.mark.parametrize("n", SIZES)
def test_gated_pair_shares_one_loop(n: int) -> None:
    """Two products with a scaled vector, an invariant sum, a nonlinear end."""
    scale = var(9, "f32")
    norm = call("rsqrt", plus(binary("/", add(T, n, mul(load(2, T), load(2, T))), lit(n, "f32")), lit(1e-5, "f32")))
    g, u = var(10, "f32"), var(11, "f32")
    xn = mul(load(2, K), load(3, K))
    x2 = mul(load(2, J), load(3, J))
    body = (
        ir.Let(g, mul(add(K, n, mul(load(0, (n, A), K), xn)), scale)),
        ir.Let(u, mul(add(J, n, mul(load(1, (n, A), J), x2)), norm)),
        ir.Store(4, at(A), mul(binary("/", g, plus(lit(1.0, "f32"), call("exp", ir.Unary("-", g, "f32")))), u)),
    )
    kernel, launch = launched([loop(A, 2 * n, *body)])
    made = region(["f32"] * 5, [ir.Let(scale, norm), launch], kernels=[kernel])
    w1, w3, x, w = f32(2 * n, n), f32(2 * n, n), f32(n), f32(n)
    r = 1 / np.sqrt((x.astype(np.float64) ** 2).mean() + 1e-5)
    a, b = (w1.astype(np.float64) @ (x * w)) * r, (w3.astype(np.float64) @ (x * w)) * r
    on_all_levels(made, [w1, w3, x, w, f32(2 * n)], 4, a / (1 + np.exp(-a)) * b, tolerance=1e-4)


@pytest.mark.parametrize("n", SIZES)
def test_softmax_of_rows(n: int) -> None:
    m, total = var(10, "f32"), var(11, "f32")
    rows = loop(
        P, 5,
        ir.Let(m, add(K, n, load(0, (n, P), K), op="max")),
        loop(A, n, ir.Store(1, at((n, P), A), call("exp", binary("-", load(0, (n, P), A), m)))),
        ir.Let(total, add(J, n, load(1, (n, P), J))),
        loop(T, n, ir.Store(1, at((n, P), T), binary("/", load(1, (n, P), T), total))),
    )  # fmt: skip
    kernel, launch = launched([rows])
    x = f32(5, n) * 4
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    on_all_levels(region(["f32", "f32"], [launch], kernels=[kernel]), [x, f32(5, n)], 1, e / e.sum(1, keepdims=True))


@pytest.mark.parametrize("n", SIZES)
def test_normalised_rows(n: int) -> None:
    mean, variance = var(10, "f32"), var(11, "f32")
    deviation = binary("-", load(0, (n, P), J), mean)
    rows = loop(
        P, 3,
        ir.Let(mean, binary("/", add(K, n, load(0, (n, P), K)), lit(n, "f32"))),
        ir.Let(variance, binary("/", add(J, n, mul(deviation, deviation)), lit(n, "f32"))),
        loop(A, n, ir.Store(1, at((n, P), A), mul(binary("-", load(0, (n, P), A), mean), call("rsqrt", plus(variance, lit(1e-5, "f32")))))),
    )  # fmt: skip
    x = f32(3, n)
    d = x.astype(np.float64) - x.astype(np.float64).mean(1, keepdims=True)
    expected = d / np.sqrt((d**2).mean(1, keepdims=True) + 1e-5)
    on_all_levels(region(["f32", "f32"], [rows]), [x, f32(3, n)], 1, expected, tolerance=1e-4)


@pytest.mark.parametrize(("keys", "width"), [(1, 8), (7, 48), (33, 16), (257, 48)])
def test_attention_with_a_private_row(keys: int, width: int) -> None:
    """Per head: scores in a private buffer, softmax, weighted sum of values; the key count is a scalar."""
    heads, count = 3, var(20)
    stride = heads * width
    scores = ir.Buffer(4, "s", "f32", "private", 512, True)
    m, total = var(10, "f32"), var(11, "f32")
    score = add(K, width, mul(load(0, (width, P), K), load(1, (stride, T), (width, P), K)))
    head = loop(
        P, heads, ir.Alloc(4),
        loop(T, count, ir.Store(4, at(T), mul(score, lit(0.125, "f32")))),
        ir.Let(m, add(K, count, load(4, K), op="max")),
        loop(A, count, ir.Store(4, at(A), call("exp", binary("-", load(4, A), m)))),
        ir.Let(total, add(K, count, load(4, K))),
        loop(J, width, ir.Store(3, at((width, P), J), binary("/", add(T, count, mul(load(4, T), load(2, (stride, T), (width, P), J))), total))),
    )  # fmt: skip
    kernel, launch = launched([head])
    made = region(["f32"] * 4, [launch], kernels=[kernel], scalars=[count], extra=[scores])
    q, k, v = f32(heads, width), f32(keys, heads, width), f32(keys, heads, width)
    s = np.einsum("hd,thd->ht", q.astype(np.float64), k) * 0.125
    p = np.exp(s - s.max(1, keepdims=True))
    expected = np.einsum("ht,thd->hd", p / p.sum(1, keepdims=True), v)
    on_all_levels(made, [q, k, v, f32(heads, width)], 3, expected, [keys])


@pytest.mark.parametrize("n", [1, 5, 16, 100])
def test_online_softmax_in_lock_step(n: int) -> None:
    """A serial loop carries two scalars per row and a private accumulator; rows are lanes."""
    m, s, v, old = var(10, "f32"), var(11, "f32"), var(12, "f32"), var(13, "f32")
    width = 3
    acc = ir.Buffer(2, "acc", "f32", "private", width, True)
    d1, d2, d3 = var(30), var(31), var(32)
    rescaled = plus(
        mul(load(2, d2), call("exp", binary("-", old, m))),
        mul(call("exp", binary("-", v, m)), plus(v, ir.Cast(d2, "f32"))),
    )
    rows = loop(
        P, 37, ir.Alloc(2),
        ir.Let(m, lit(float("-inf"), "f32"), True), ir.Let(s, lit(0.0, "f32"), True),
        loop(d1, width, ir.Store(2, at(d1), lit(0.0, "f32")), parallel=False),
        loop(T, n,
             ir.Let(v, load(0, (n, P), T)), ir.Let(old, m),
             ir.Set(m, call("max", m, v)),
             ir.Set(s, plus(mul(s, call("exp", binary("-", old, m))), call("exp", binary("-", v, m)))),
             loop(d2, width, ir.Store(2, at(d2), rescaled), parallel=False), parallel=False),
        loop(d3, width, ir.Store(1, at((width, P), d3), binary("/", load(2, d3), s)), parallel=False),
    )  # fmt: skip
    x = f32(37, n)
    p = np.exp(x.astype(np.float64))
    p /= p.sum(1, keepdims=True)
    expected = np.stack([(p * (x + d)).sum(1) for d in range(width)], 1)
    on_all_levels(region(["f32", "f32"], [rows], extra=[acc]), [x, f32(37, width)], 1, expected, tolerance=1e-4)


def test_masked_statements() -> None:
    y = var(10, "f32")
    body = (
        ir.Let(y, load(0, A), True),
        ir.If(
            ir.Binary(">", load(0, A), lit(0.5, "f32"), "bool"),
            (ir.Set(y, mul(y, lit(2.0, "f32"))), ir.Store(1, at(A), load(0, A, -1))),
            (ir.If(ir.Binary("<", load(0, A), lit(-0.5, "f32"), "bool"), (ir.Set(y, lit(9.0, "f32")),), ()),),
        ),
        ir.Store(2, at(A), y),
    )
    n = 77
    x, a = f32(n), f32(n)
    x[0] = 0
    expected = np.where(x > 0.5, x * 2, np.where(x < -0.5, 9, x))
    made = region(["f32"] * 3, [loop(A, n, *body)])
    on_all_levels(made, [x, a, f32(n)], 2, expected)
    on_all_levels(made, [x, a, f32(n)], 1, np.where(x > 0.5, np.roll(x, 1), a))


def test_a_loop_that_carries_is_not_vectorised() -> None:
    n = 50
    made = region(["f32"], [loop(A, n, ir.Store(0, at(A), plus(load(0, A, -1), load(0, A))), parallel=False, low=1)])
    x = f32(n)
    on_all_levels(made, [x], 0, np.cumsum(x.astype(np.float64)))


@pytest.mark.parametrize("elem", ["f16", "bf16"])
def test_sixteen_bit_weights(elem: str) -> None:
    rows, n = 21, 133
    weight = ir.Cast(ir.Load(0, at((n, A), K), elem), "f32")
    made = region([elem, "f32", "f32"], [loop(A, rows, ir.Store(2, at(A), add(K, n, mul(weight, load(1, K)))))])
    w, x = f32(rows, n), f32(n)
    bits = (w.view(np.uint32) >> 16).astype(np.uint16)
    exact = (bits.astype(np.uint32) << 16).view(np.float32) if elem == "bf16" else w.astype(np.float16)
    on_all_levels(made, [bits if elem == "bf16" else exact, x, f32(rows)], 2, exact.astype(np.float64) @ x)


def test_conversion_to_sixteen_bits_rounds_to_even() -> None:
    special = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        65504,
        65520,
        65519.9,
        1e-8,
        6e-8,
        2**-14,
        2**-24,
        2**-25,
        1e30,
        -1e-5,
    ]
    x = np.concatenate([np.array(special, np.float32), f32(2000), f32(2000) * 1e-5, f32(2000) * 3e4])
    n = len(x)
    made = region(["f32", "f16", "bf16", "f32", "f32"], [loop(
        A, n,
        ir.Store(1, at(A), ir.Cast(load(0, A), "f16")), ir.Store(2, at(A), ir.Cast(load(0, A), "bf16")),
        ir.Store(3, at(A), ir.Cast(ir.Load(1, at(A), "f16"), "f32")), ir.Store(4, at(A), ir.Cast(ir.Load(2, at(A), "bf16"), "f32")),
    )])  # fmt: skip
    compiled = Compiled([made])
    with np.errstate(over="ignore"):
        half = x.astype(np.float16)
    bits = x.view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    for level in LEVELS:
        h, b, back, wide = np.zeros(n, np.float16), np.zeros(n, np.uint16), f32(n), f32(n)
        run_at(compiled, made, level, [x, h, b, back, wide])
        number = ~np.isnan(x)
        assert np.array_equal(h[number].view(np.uint16), half[number].view(np.uint16)) and np.isnan(h[~number]).all()
        assert np.array_equal(b[number], rounded[number]) and np.isnan(wide[~number]).all()
        assert np.array_equal(back[number], half[number].astype(np.float32))


@pytest.mark.parametrize("elem", ["i8", "u8", "i16", "i32", "u32", "i64", "f64"])
def test_other_element_types(elem: str) -> None:
    from cpu_harness import DTYPES

    n = 37
    x = RNG.integers(1, 100, (n, n)).astype(DTYPES[elem])
    y = RNG.integers(1, 100, n).astype(DTYPES[elem])
    product = mul(ir.Load(0, at((n, A), K), elem), ir.Load(1, at(K), elem), elem)
    made = region(
        [elem] * 3,
        [loop(A, n, ir.Store(2, at(A), binary("/", add(K, n, product, elem), ir.Load(1, at(A), elem), elem)))],
    )
    with np.errstate(over="ignore"):
        total = (x @ y).astype(DTYPES[elem])
    expected = total / y if elem == "f64" else np.trunc(total.astype(np.float64) / y).astype(DTYPES[elem])
    on_all_levels(made, [x, y, y.copy()], 2, expected, tolerance=1e-12)


@pytest.mark.parametrize("n", [1, 15, 16, 17, 1000])
@pytest.mark.parametrize("op", ["max", "min"])
def test_arg_reduce_takes_the_lowest_index(n: int, op: str) -> None:
    best, where = var(10, "f32"), var(11, "i32")
    made = region(["f32", "i32"], [
        ir.Let(best, load(0, 0), True), ir.Let(where, lit(0, "i32"), True),
        ir.ArgReduce(op, K, lit(1), lit(n), load(0, K), best, where, ir.Cast(K, "i32")),
        ir.Store(1, at(0), where),
    ])  # fmt: skip
    x = RNG.integers(-5, 5, n).astype(np.float32)
    on_all_levels(made, [x, np.zeros(1, np.int32)], 1, np.array([x.argmax() if op == "max" else x.argmin()]))
    x[n // 2] = np.nan
    x[0] = 1.0
    ok = np.nan_to_num(x, nan=-9 if op == "max" else 9)
    on_all_levels(made, [x, np.zeros(1, np.int32)], 1, np.array([ok.argmax() if op == "max" else ok.argmin()]))


def test_segments_of_one_launch_and_out_scalars() -> None:
    """Three loops of different cost in one launch; a scalar that the region changes comes back."""
    n, count = 100, var(20, "i32")
    nests = [
        loop(A, 40, ir.Store(1, at(A), add(K, n, mul(load(0, (n, A), K), load(0, K))))),
        loop(P, 7, loop(J, 13, ir.Store(2, at((13, P), J), ir.Cast(ir.Affine(0, ((1, P), (100, J))), "f32")))),
        loop(T, 1000, ir.Store(3, at(T), mul(load(0, T), ir.Cast(count, "f32")))),
    ]
    kernel, launch = launched(nests)
    made = region(
        ["f32"] * 4, [launch, ir.Set(count, plus(count, lit(3, "i32"), "i32"))], kernels=[kernel], outs=[count]
    )
    w = f32(100, n)
    compiled = Compiled([made])
    for level in LEVELS:
        for threads in (1, 2, 5):
            a, b, c = f32(40), f32(7, 13), f32(1000)
            assert run_at(compiled, made, level, [w, a, b, c], [4], threads) == [7]
            np.testing.assert_allclose(a, w[:40].astype(np.float64) @ w[0], rtol=1e-4, atol=1e-4)
            np.testing.assert_array_equal(b, np.arange(7)[:, None] + 100 * np.arange(13)[None, :])
            np.testing.assert_array_equal(c, w.reshape(-1)[:1000] * 4)

"""What `tests/programs/run/kernel_*.vx` must print, computed by numpy in float64.

Each oracle is a function without arguments that yields the numbers in the order of printing. Inputs are
made as the programs make them, in float32, so that both start from the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from math import erf, sqrt

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Numbers = Iterator[float]


@dataclass(frozen=True)
class Oracle:
    """`relative` and `absolute` are the tolerances; both 0: exactly equal."""

    numbers: Callable[[], list[float]]
    relative: float
    absolute: float


ORACLES: dict[str, Oracle] = {}


def oracle(relative: float = 2e-5, absolute: float = 2e-6) -> Callable[[Callable[[], Numbers]], None]:
    """Register `name` as the oracle of `kernel_name.vx`."""

    def register(function: Callable[[], Numbers]) -> None:
        def numbers() -> list[float]:
            return [float(number) for number in function()]

        ORACLES[f"kernel_{function.__name__}"] = Oracle(numbers, relative, absolute)

    return register


def values(count: int, salt: int, scale: float = 100.0, shift: float = 1.0) -> Array:
    """The programs' `value(i, salt)` for i in 0..count."""
    whole = (np.arange(count) * 37 + salt * 101) % 211
    exact = whole.astype(np.float32) / np.float32(scale) - np.float32(shift)
    return exact.astype(np.float64)


def softmax(scores: Array) -> Array:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def attention(q: Array, k: Array, v: Array, scale: float, first: int | None = None) -> Array:
    """softmax(q·kᵀ·scale)·v; with `first`, row i sees keys 0..=first+i."""
    scores = q @ k.T * scale
    if first is not None:
        rows, keys = np.indices(scores.shape)
        scores[keys > first + rows] = -np.inf
    return softmax(scores) @ v


def interleaved(*columns: Array) -> Numbers:
    """Numbers of several equally long rows, printed side by side."""
    return chain.from_iterable(zip(*(np.ravel(column) for column in columns), strict=True))


# ---- layers ------------------------------------------------------------------------------------
@oracle()
def gelu() -> Numbers:
    d, h = 24, 56
    w1 = values(h * d, 1).reshape(h, d)
    w2 = values(h * d, 2).reshape(h, d).T
    b1, b2, x = values(h, 3), values(d, 4), values(d, 5)
    inner = w1 @ x + b1
    hidden = np.array([0.5 * z * (1.0 + erf(z / sqrt(2.0))) for z in inner])
    yield from x + w2 @ hidden + b2


@oracle()
def layernorm() -> Numbers:
    n, d = 5, 37
    x, gain, bias = values(n * d, 1).reshape(n, d), values(d, 2), values(d, 3)
    centred = x - x.mean(axis=1, keepdims=True)
    yield from np.ravel(centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * gain + bias)


@oracle()
def no_rope() -> Numbers:
    t, h, k = 9, 3, 8
    d = h * k
    x = values(t * d, 9, 400.0, 0.25).reshape(t, d) * 4.0
    wq, wk, wv, wo = (values(d * d, salt, 400.0, 0.25).reshape(d, d) for salt in (1, 2, 3, 4))
    q, keys, v = ((x @ w.T).reshape(t, h, k) for w in (wq, wk, wv))
    heads = [attention(q[:, head], keys[:, head], v[:, head], 0.35355338, 0) for head in range(h)]
    yield from np.ravel(x + np.stack(heads, axis=1).reshape(t, d) @ wo.T)


@oracle()
def odd_sizes() -> Numbers:
    for r, c in ((1, 1), (1, 17), (3, 1), (7, 13), (31, 5), (2, 259)):
        w, x = values(r * c, r).reshape(r, c), values(c, c)
        y = w @ x
        for i in range(r):
            yield y[i]
            yield from w[i] * x + y[i]


@oracle()
def softmax_rows() -> Numbers:
    n, d = 6, 21
    x = values(n * d, 1).reshape(n, d)
    for i in range(n):
        row = x[i] * (i * i + 1) * 3.0
        row[np.arange(d) > 3 * i + 2] = -np.inf
        yield from softmax(row)


@oracle()
def structs() -> Numbers:
    n, d = 4, 10

    def layer(salt: int) -> tuple[Array, Array, float]:
        weight = values(d * d, salt, 200.0, 0.5).reshape(d, d)
        return weight, values(d, salt + 1, 200.0, 0.5), 1.0 + salt * 0.25

    x = values(n * d, 7, 200.0, 0.5).reshape(n, d)
    first, second = layer(1), layer(3)
    hidden = np.tanh((x @ first[0].T + first[1]) * first[2])
    yield from np.ravel((hidden @ second[0].T + second[1]) * second[2])


@oracle(1e-4, 2e-5)
def gpt() -> Numbers:
    d, h, k, f, v, t = 30, 3, 10, 50, 41, 16

    def made(shape: tuple[int, ...], salt: int) -> Array:
        return values(int(np.prod(shape)), salt).reshape(shape) * 0.4

    def norm(salt: int) -> Callable[[Array], Array]:
        gain, bias = 1.0 + made((d,), salt) * 0.5, made((d,), salt + 1)
        return lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * gain + bias

    def gelu(x: Array) -> Array:
        return 0.5 * x * (1.0 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))

    def layer(s: int) -> Callable[[Array], Array]:
        qkv, qkv_b, out, out_b = made((3 * d, d), s + 4), made((3 * d,), s + 5), made((d, d), s + 6), made((d,), s + 7)
        up, up_b, down, down_b = made((f, d), s + 8), made((f,), s + 9), made((d, f), s + 10), made((d,), s + 11)
        before, between = norm(s), norm(s + 2)

        def run(x: Array) -> Array:
            q, keys, vals = np.split(before(x) @ qkv.T + qkv_b, 3, axis=1)
            keys, vals = (a.astype(np.float16).astype(np.float64).reshape(-1, h, k) for a in (keys, vals))
            q = q.reshape(-1, h, k)
            heads = [attention(q[:, i], keys[:, i], vals[:, i], 0.31622777, 0) for i in range(h)]
            x = x + np.stack(heads, axis=1).reshape(-1, d) @ out.T + out_b
            return x + gelu(between(x) @ up.T + up_b) @ down.T + down_b

        return run

    token, position, first, second, last = made((v, d), 1), made((t, d), 2), layer(10), layer(30), norm(50)
    tokens = [(i * 7 + 3) % v for i in range(5)]
    while len(tokens) <= t:
        logits = last(second(first(token[tokens] + position[: len(tokens)]))[-1]) @ token.T
        tokens.append(int(logits.argmax()))
        yield from (tokens[-1], *logits)


# ---- attention ---------------------------------------------------------------------------------
@oracle()
def attention_reference() -> Numbers:
    t, s, d = 11, 17, 12
    q = values(t * d, 1).reshape(t, d)
    k, v = values(s * d, 2).reshape(s, d), values(s * d, 3).reshape(s, d)
    whole = attention(q, k, v, 0.28867513)
    yield from interleaved(whole, whole, attention(q, k, v, 0.28867513, 6))


@oracle()
def attention_online() -> Numbers:
    t, d = 10, 16
    q, k, v = (values(t * d, salt).reshape(t, d) for salt in (1, 2, 3))
    yield from np.ravel(attention(q * 2.0, k * 2.0, v, 0.25, 0))


@oracle()
def attention_blocked() -> Numbers:
    t, d = 24, 8
    q, k, v = (values(t * d, salt).reshape(t, d) for salt in (1, 2, 3))
    yield from np.ravel(attention(q * 2.0, k * 2.0, v, 0.35355338))


# ---- loops that carry something ----------------------------------------------------------------
@oracle()
def prefix_sum() -> Numbers:
    x = values(41, 1)
    sums = np.cumsum(x)
    mixed, state, sign = [], 1.0, 1.0
    for number in x:
        state = state * 0.75 + number * sign
        sign = -sign
        mixed.append(state)
    yield from interleaved(np.concatenate([[0.0], sums[:-1]]), sums, np.array(mixed))


@oracle()
def recurrence() -> Numbers:
    n, m = 30, 6
    a, b, c = (values(n, salt, 200.0, 0.5) for salt in (1, 2, 3))
    g = values(m * n, 4, 200.0, 0.5).reshape(m, n)
    for i in range(1, n):
        a[i] = a[i - 1] * 0.5 + a[i]
        c[i] = c[i // 2] + c[i]
    for i in range(3, n):
        b[i] = b[i - 3] + b[i]
    for i in range(1, m):
        g[i] += g[i - 1][::-1]
    yield from interleaved(a, b, c)
    yield from np.ravel(g)


@oracle(0.0, 0.0)
def reverse() -> Numbers:
    squares = np.arange(23.0) ** 2
    changed = squares.copy()
    for i in range(23):
        changed[i] = changed[22 - i]
    yield from interleaved(squares[::-1], changed)


@oracle()
def stencil() -> Numbers:
    a, s = values(50, 1), values(50, 2)
    for _ in range(7):
        a[1:-1] = 0.25 * a[:-2] + 0.5 * a[1:-1] + 0.25 * a[2:]
        for i in range(1, 49):
            s[i] = 0.25 * s[i - 1] + 0.5 * s[i] + 0.25 * s[i + 1]
    yield from interleaved(a, s)


@oracle(1e-7, 0.0)
def cumulative_max() -> Numbers:
    yield from np.maximum.accumulate(values(33, 1))
    yield from np.ravel(np.maximum.accumulate(values(8 * 13, 2).reshape(8, 13), axis=0))


@oracle(1e-12, 1e-13)
def triangular() -> Numbers:
    n = 18

    def exact(count: int, salt: int) -> Array:
        return ((np.arange(count) * 37 + salt * 101) % 211) / 100.0 - 1.0

    lower = np.tril(exact(n * n, 1).reshape(n, n) * 0.2)
    np.fill_diagonal(lower, 1.0 + np.arange(n) * 0.1)
    b = exact(n, 2)
    yield from interleaved(lower @ b, np.linalg.solve(lower, b))
    yield sum(abs(b[i] - b[j]) for i in range(n) for j in range(i + 1, n))


@oracle()
def neighbours() -> Numbers:
    n = 40
    x = values(n, 1)
    a = x * 2.0
    b = a[::-1] + 1.0
    c = np.roll(b, -1) * a
    a = c - 1.0
    d = a / (abs(a.sum()) + 1.0)
    yield from interleaved(b, c, d, d + d @ c)


@oracle(0.0, 0.0)
def overlap() -> Numbers:
    squares = np.arange(16.0) ** 2
    up, down, sums = squares.copy(), squares.copy(), squares.copy()
    up[1:], down[:-1] = squares[:-1], squares[1:]
    sums[1:] = squares[1:] + squares[:-1]
    rows = np.array([[i * 10 + j for j in range(3)] for i in range(5)], dtype=float)
    rows[1:] = rows[:-1].copy()
    yield from interleaved(up, down, sums)
    yield from np.ravel(rows)


@oracle()
def runtime_extents() -> Numbers:
    cache = values(32 * 6, 1).reshape(32, 6)
    yield from np.ravel(np.cumsum(cache, axis=0) / np.arange(1, 33)[:, None] * 2.0)


@oracle(1e-8, 1e-9)
def control() -> Numbers:
    for i in range(29):
        x = i * 3.25 + 0.5
        guess, steps = x, 0
        while abs(guess * guess - x) > 1e-9:
            guess = 0.5 * (guess + x / guess)
            steps += 1
        value, length = i + 1, 0
        while value != 1:
            value = value // 2 if value % 2 == 0 else 3 * value + 1
            length += 1
        yield from (guess, steps, length)


# ---- indices -----------------------------------------------------------------------------------
@oracle()
def transpose() -> Numbers:
    r, c = 7, 11
    a, cube, x = values(r * c, 1).reshape(r, c), values(r * 3 * c, 2).reshape(r, 3, c), values(r, 3)
    yield from chain(np.ravel(a.T), a.T @ x, np.ravel(cube[:, 1] - a), np.ravel(a.T @ a))


@oracle(0.0, 0.0)
def argmax() -> Numbers:
    x = np.array([[(i * 31 + j * j * 7) % 23 for j in range(19)] for i in range(6)], dtype=float)
    yield from interleaved(x.argmax(axis=1), x.argmin(axis=1), x.max(axis=1))
    yield int(x.argmax())


@oracle()
def gather_scatter() -> Numbers:
    n, d, groups = 20, 6, 4
    table = values(n * d, 1).reshape(n, d)
    pick = (np.arange(n) * 7 + 3) % n
    group = np.arange(n) ** 2 % groups
    scattered = np.empty(n)
    scattered[pick] = table[:, 0]
    sums = np.zeros((groups, d))
    np.add.at(sums, group, table)
    yield from chain(np.ravel(table[pick]), scattered)
    for g in range(groups):
        yield int(np.flatnonzero(group == g).max(initial=-1))
        yield from sums[g]


@oracle(0.0, 0.0)
def histogram() -> Numbers:
    i = np.arange(1000)
    x = (i * i * 31 + i * 17) % 97
    bins = np.bincount(x % 16, minlength=16)
    yield from interleaved(bins, np.bincount(x % 16, weights=x * 0.5, minlength=16))


@oracle()
def convolution() -> Numbers:
    h, w, inputs, outputs = 9, 10, 2, 3
    image = values(inputs * h * w, 1).reshape(inputs, h, w)
    weight = values(outputs * inputs * 9, 2).reshape(outputs, inputs, 3, 3)
    bias = values(outputs, 3)
    for o in range(outputs):
        for y in range(h - 2):
            for x in range(w - 2):
                yield max(0.0, bias[o] + (image[:, y : y + 3, x : x + 3] * weight[o]).sum())


# ---- arithmetic --------------------------------------------------------------------------------
@oracle()
def generics() -> Numbers:
    for a, b, c in ((3, 5, 2), (16, 8, 4), (1, 1, 9)):
        w, v, x = values(b * a, 1).reshape(b, a), values(c * b, 2).reshape(c, b), values(a, 3)
        yield from v @ ((w @ x) ** 3 * 0.5 + 1.0)


@oracle()
def masks() -> Numbers:
    n = 45
    x, y = values(n, 1), np.where(np.arange(n) % 5 == 0, 0.0, values(n, 2))
    for i in range(n):
        yield sqrt(x[i]) if x[i] > 0 else -x[i]
        yield (1.0 if y[i] > 0 else 2.0) if x[i] > y[i] else 0.0
        quotient = -1 if i % 5 == 0 else 100 // (i % 5)
        yield quotient if i + 7 < n and x[i + 7] > 0 else -quotient
        yield x[i] * 10.0 if x[i] > 0.5 else y[i] * 100.0 if y[i] > 0.5 else x[i] - y[i]


def to_bf16(x: Array) -> Array:
    """Rounded to bfloat16, ties to even."""
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16
    return rounded.astype(np.uint32).view(np.float32).astype(np.float64)


@oracle(1e-3, 1e-5)
def mixed_dtypes() -> Numbers:
    r, c = 9, 34
    w, x = values(r * c, 1).reshape(r, c), values(c, 2)
    half = w.astype(np.float16).astype(np.float64)
    whole = ((np.arange(r * c) * 37) % 255 - 127).reshape(r, c).astype(np.float64)
    scale = np.float32(0.01) * np.arange(1, r + 1, dtype=np.float32)
    yield from interleaved(half @ x, to_bf16(w) @ x, whole @ x * scale, half @ x, half @ x + np.arange(r))


@oracle(0.0, 0.0)
def narrow() -> Numbers:
    for columns in (5, 9):
        for at in range(20 * columns):
            j = at % columns
            floating = (1 + j) * (2 if j == 2 else 1)
            whole = 2 * at if j == 2 else 1 + at
            yield from (floating, floating, whole, whole, (whole + 128) % 256 - 128)


@oracle(0.0, 0.0)
def integers() -> Numbers:
    total = 0
    for i in range(37):
        yield ((i - 18) * 1000003 * 7919 + 1 + 2**31) % 2**32 - 2**31
        b = (i - 11) * 123456789123
        total += b
        quotient = abs(b) // 1000 * (1 if b >= 0 else -1)
        yield quotient
        yield b - quotient * 1000
        c = i * 2654435761 % 2**32
        yield (c >> 3) ^ (((c << 5) % 2**32 + (c & 255)) % 2**32)
    yield total


@oracle()
def reductions() -> Numbers:
    r, c = 7, 53
    x = values(r * c, 1).reshape(r, c)
    for row in x:
        yield from (row.sum(), row.max(), row.min(), np.linalg.norm(row), np.abs(row - row.mean()).sum())
    yield from np.arange(1, r + 1) @ x
    yield int((x > 0.25).sum())
    yield float(np.prod(1.0 + np.diag(x)))
    yield float((x * x).sum())


@oracle(5e-5, 5e-6)
def rows() -> Numbers:
    r, c = 5, 22
    a = values(r * c, 1).reshape(r, c)
    b = (values(r * c, 2).astype(np.float32) + np.float32(2.5)).astype(np.float64).reshape(r, c)
    whole = (a + b) * 0.5 - a / b
    results = np.empty((r, c))
    for i in range(r):
        row = a[i] * b[r - 1 - i]
        results[i] = (np.exp(row) + row @ b[i] + 1.0) * 0.25
    a[0] = b[1] - b[2]
    a[1] = a[0] * a[0]
    b[3] = np.sqrt(a[1]) + whole[0]
    yield from interleaved(whole, results, a, b)


def matrices() -> Mapping[str, tuple[Array, Array]]:
    """A and B of `kernel_matmul.vx`, the same in every element type: small whole numbers."""
    small = np.arange(36) * 37
    a = (np.fmod(small + 101, 17) - 8).reshape(6, 6).astype(np.float64)
    b = (np.fmod(small + 202, 17) - 8).reshape(6, 6).T.astype(np.float64)
    return {elem: (a, b) for elem in ("f32", "f64", "f16", "bf16", "i64")}


@oracle(0.0, 0.0)
def matmul() -> Numbers:
    for a, b in matrices().values():
        ab, ba = a @ b, b @ a
        assert not np.array_equal(ab, ba) and not np.array_equal(ab, ab.T)
        yield from chain(np.ravel(ab), np.ravel(ba), np.ravel(ab.T))

"""Oracles of programs whose conditions, in-place updates and accumulations are the point."""

from __future__ import annotations

from itertools import chain

import numpy as np
from oracles import Numbers, interleaved, oracle, values


@oracle(3e-5, 3e-5)
def in_place() -> Numbers:
    n, m = 14, 32
    i, j = np.indices((n, n))
    d = np.where((i * 5 + j * 3) % 4 == 0, (i * 7 + j * 11) % 17 + 1.0, 1000.0)
    for k in range(n):
        d = np.minimum(d, d[:, k : k + 1] + d[k])
    root = np.linalg.cholesky(1.0 / (i + j + 1) + np.eye(n))
    a = (i * 37 + j * 101) % 23 / 10.0 + 9.0 * np.eye(n)
    off = a - np.diag(np.diag(a))
    x = np.linalg.solve(np.diag(np.diag(a)) + 0.1 * off, np.ones(n))
    for k in range(n):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    yield from interleaved(d, root, a.T)
    yield from chain(x, np.sort(values(m + 1, 1)))
    spectrum = np.fft.fft(values(m, 2))
    yield from interleaved(spectrum.real, spectrum.imag)


@oracle(3e-5, 3e-5)
def accumulate() -> Numbers:
    n, m, p = 9, 33, 20
    a, b, x = values(n * m, 1).reshape(n, m), values(m * p, 2).reshape(m, p), values(m, 3)
    some = np.arange(m) % 3 != 1
    for product in (a @ b, a @ b, a @ b, -(a @ b), a @ b, a[:, some] @ b[some]):
        yield from np.ravel(product)
    windows = np.lib.stride_tricks.sliding_window_view(a, (3, 3))
    yield from np.ravel((windows * np.arange(9).reshape(3, 3)).sum(axis=(2, 3)))
    yield from interleaved(a.max(axis=1), a.min(axis=1), a.argmax(axis=1), a.argmin(axis=1))
    ends = np.arange(4) ** 2 * 3
    sums = [x[low:high].sum() for low, high in zip([0, *ends], ends, strict=False)]
    yield from interleaved([m, x.sum(), (x * x).sum(), max(x.max(), 0.0)], sums)
    yield from np.bincount(np.arange(m) ** 2 % 5, minlength=5)
    halves = np.zeros(n, dtype=np.float16)
    for k in range(m):
        halves += a[:, k].astype(np.float16)
    yield from halves


@oracle(1e-5, 2e-6)
def choices() -> Numbers:
    n, d = 11, 6
    x = values(n * d, 1).reshape(n, d)
    a = np.array([x[i] * 2.0 if i % 3 == 0 else x[i] + x[n - 1 - i] for i in range(n)])
    b = np.empty((n, d))
    for i in range(n):
        source, by = x[i if i % 2 == 0 else 0], x[i, 1]
        b[i] = (source * 2.0 if by < 0 else source + by * (np.arange(d) % 2)) - 1.0
    low = np.where(x[:, 0] > 0.5, 0.0, x.min(axis=1))
    high = np.where(x[:, 0] > 0.5, x[:, 0], x.max(axis=1))
    c, e, widest = high - low, np.empty(n), (0.0, 0.0)
    for i in range(n):
        if c[i] > widest[1] - widest[0] + 0.001:
            widest = (low[i], high[i])
        e[i] = widest[1]
    negative = [next((j for j in range(d) if row[j] < 0), -1) for row in x]
    f = [10 * first + (7, 5, 2, 3)[i % 4] for i, first in enumerate(negative)]
    positive = x[:, 0] > 0
    e += np.where(positive, x[:, 0], 0.0)
    c += np.where(positive, 100.0, 0.0)
    yield from interleaved(a, b)
    yield from interleaved(c, e, f)
    yield 1.0 + 2.0 * 10.0 + 2.0 * 100.0


@oracle()
def borders() -> Numbers:
    h, w = 9, 21
    image, weight = values(h * w, 1).reshape(h, w), values(9, 2).reshape(3, 3)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(image, 1), (3, 3))
    same = (windows * weight).sum(axis=(2, 3))
    edged = np.pad(image, ((0, 0), (1, 1)), mode="edge")
    blur = (edged[:, :-2] + image + edged[:, 2:]) / 3.0
    shifted = np.zeros((h, w))
    shifted[2:, 3:] = image[:-2, :-3]
    count = np.zeros(h)
    count[1:] = (image[:-1] > image[1:]).sum(axis=1)
    yield from interleaved(same, blur, shifted)
    for row, number in zip(np.pad(same, ((0, 0), (1, 1)), constant_values=5.0), count, strict=True):
        yield from (*row, number)
    place = np.arange(w) * 7 % 31 - 4
    taken = [-1.0 if p < 0 else -2.0 if p >= w else image[3, p] for p in place]
    band = [image[4, max(i - 2, 0) : i + 3].sum() for i in range(w)]
    yield from interleaved(taken, band)

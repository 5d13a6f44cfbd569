"""What `tests/programs/run/kernel_placed_*.vx` must print: products and attention of three element types, in float64.

Inputs are rounded to the element type as the programs round them, so the tolerances are for arithmetic alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from oracles import Array, Numbers, attention, oracle, values

from vx.model.rounding import from_elem, to_elem


def rounded() -> Iterator[Callable[[Array], Array]]:
    """What storing does in f32, f16 and bf16."""
    for elem in ("f32", "f16", "bf16"):
        yield lambda x, elem=elem: from_elem(to_elem(x.astype(np.float32), elem, "x"), elem).astype(np.float64)


def whole(n: int, salt: int) -> Array:
    return ((np.arange(n * n) * 37 + salt * 101) % 211 % 5 - 2).astype(np.float64).reshape(n, n)


@oracle()
def placed_products() -> Numbers:
    n, r, k, c = 45, 37, 83, 29
    a, b = whole(n, 1), whole(n, 2)
    assert max(np.abs(a @ b).max(), np.abs(b @ a).max()) <= 256, "exact in every type"
    for _ in range(3):
        for product in (a @ b, b @ a, (a @ b).T):
            yield from product.ravel()
    for store in rounded():
        yield from (store(values(r * k, 3)).reshape(r, k) @ store(values(k * c, 4)).reshape(k, c)).ravel()


@oracle()
def placed_attention() -> Numbers:
    rows, keys, d = 27, 53, 24
    for store in rounded():
        q = store(values(rows * d, 1)).reshape(rows, d)
        k, v = (store(values(keys * d, salt)).reshape(keys, d) for salt in (2, 3))
        yield from attention(q, k, v, float(np.float32(0.2))).ravel()
        yield from attention(q, k, v, float(np.float32(0.2)), 26).ravel()

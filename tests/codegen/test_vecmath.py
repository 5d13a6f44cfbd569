"""Vector math against f64, and lane by lane the same bits whatever the number of lanes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from cpu_harness import Compiled, cpu_levels, run_at
from cpu_regions import at, call, loop, region, var

from vx.kernels import ir

A = var(1)
RNG = np.random.default_rng(3)
SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-40, -1e-40, 3e38, -3e38, 88.8, -88.8, -104.2, 2.0**-149],
    np.float32,
)

_LIBRARY: dict[str, Any] = {
    "exp": np.exp, "exp2": np.exp2, "ln": np.log, "log2": np.log2, "log10": np.log10, "sin": np.sin, "cos": np.cos,
    "tanh": np.tanh, "erf": np.vectorize(math.erf), "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), "floor": np.floor, "tan": np.tan,
}  # fmt: skip
_ULPS = {
    "exp": 2,
    "exp2": 2,
    "tanh": 2,
    "erf": 2,
    "ln": 1,
    "log2": 1,
    "log10": 1,
    "sin": 1,
    "cos": 1,
    "tan": 1.5,
    "rsqrt": 1.5,
}


def _samples(name: str) -> np.ndarray[Any, Any]:
    normal = RNG.standard_normal(3000)
    spread = np.exp(RNG.uniform(-90, 88, 3000))
    angles = RNG.uniform(-2e5, 2e5, 3000) if name in ("sin", "cos") else RNG.uniform(-100, 90, 3000)
    halves = np.arange(-20, 20) / 2
    near_one = 1 + normal[:500] * 1e-3
    return np.concatenate([normal, spread, -spread, angles, halves, near_one, SPECIAL.astype(np.float64)]).astype(
        np.float32
    )


def _ulps(got: np.ndarray[Any, Any], exact: np.ndarray[Any, Any]) -> float:
    with np.errstate(over="ignore"):
        rounded = exact.astype(np.float32)
    ok = np.isfinite(rounded) & (rounded != 0)
    step = np.spacing(np.abs(rounded[ok])).astype(np.float64)
    return float((np.abs(got[ok] - exact[ok]) / step).max())


@pytest.mark.parametrize("name", sorted(_LIBRARY))
def test_function(name: str) -> None:
    x = _samples(name)
    made = region(["f32", "f32"], [loop(A, len(x), ir.Store(1, at(A), call(name, ir.Load(0, at(A), "f32"))))])
    one = region(
        ["f32", "f32"],
        [loop(A, len(x), ir.Store(1, at(A), call(name, ir.Load(0, at(A), "f32"))), parallel=False)],
        name="one",
    )
    compiled = Compiled([made, one])
    with np.errstate(all="ignore"):
        exact = _LIBRARY[name](x.astype(np.float64))
        rounded = exact.astype(np.float32)
    for level in cpu_levels():
        got, alone = np.zeros_like(x), np.zeros_like(x)
        run_at(compiled, made, level, [x, got])
        run_at(compiled, one, level, [x, alone])
        assert got.tobytes() == alone.tobytes(), "the number of lanes shows"
        assert np.array_equal(np.isnan(got), np.isnan(exact))
        assert np.array_equal(got[np.isinf(rounded)], rounded[np.isinf(rounded)])
        assert np.array_equal(got[rounded == 0], rounded[rounded == 0])
        assert _ulps(got, exact) <= _ULPS.get(name, 0.5), f"level {level}"


def test_pow() -> None:
    base = np.concatenate(
        [np.exp(RNG.uniform(-20, 20, 2000)), -np.arange(1.0, 60), [0, -0.0, np.inf, -np.inf, np.nan, 1, 1e-40]] * 2
    )
    exponent = RNG.uniform(-6, 6, len(base))
    exponent[len(base) // 2 :] = RNG.integers(-4, 5, len(base) - len(base) // 2)
    x, y = base.astype(np.float32), exponent.astype(np.float32)
    made = region(
        ["f32"] * 3,
        [loop(A, len(x), ir.Store(2, at(A), call("pow", ir.Load(0, at(A), "f32"), ir.Load(1, at(A), "f32"))))],
    )
    compiled = Compiled([made])
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y)
    for level in cpu_levels():
        got = np.zeros_like(x)
        run_at(compiled, made, level, [x, y, got])
        assert np.array_equal(np.isnan(got), np.isnan(exact))
        assert _ulps(got, exact) <= 1


@pytest.mark.parametrize("name", ["exp", "sin", "tan", "ln", "erf"])
def test_f64_is_the_c_librarys(name: str) -> None:
    x = np.abs(RNG.standard_normal(101))
    made = region(["f64"] * 2, [loop(A, len(x), ir.Store(1, at(A), call(name, ir.Load(0, at(A), "f64"), type_="f64")))])
    compiled = Compiled([made])
    for level in cpu_levels():
        got = np.zeros_like(x)
        run_at(compiled, made, level, [x, got])
        np.testing.assert_allclose(got, _LIBRARY[name](x), rtol=1e-14)

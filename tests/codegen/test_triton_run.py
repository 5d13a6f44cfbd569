"""Generated Triton source, run by Triton's interpreter: random regions exactly, the Llama program against the CPU."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cpu_harness import Compiled, cpu_levels, run_at
from cpu_regions import add, at, binary, launched, lit, loop, mul, region, var
from test_cpu_random import OUT, OUT_INT, SCALARS, SIZE, Writer
from triton_harness import needs_interpreter, run_interpreted

from vx import build
from vx.diagnostics.report import Reporter
from vx.diagnostics.source import SourceMap
from vx.kernels import ir
from vx.kernels.interpret import interpret
from vx.options import Options

ROOT = Path(__file__).parents[2]


def random_case(seed: int) -> tuple[ir.Region, list[Any]]:
    made = Writer(random.Random(seed)).region()
    rng = np.random.default_rng(seed)
    floats = rng.integers(-4, 5, SIZE).astype(np.float32)
    ints = rng.integers(-50, 50, SIZE).astype(np.int32)
    index = rng.integers(0, SIZE, SIZE).astype(np.int32)
    return made, [floats, ints, index, np.zeros(SIZE, np.float32), np.zeros(SIZE, np.int32)]


@needs_interpreter
def test_random_regions(tmp_path: Path) -> None:
    values = [value for _, value in SCALARS]
    cases = [random_case(seed) for seed in range(24)]
    results = run_interpreted([(made, arrays, values) for made, arrays in cases], tmp_path)
    for seed, ((made, arrays), (got, _, failed)) in enumerate(zip(cases, results, strict=True)):
        expected: list[Any] = [a.tolist() for a in arrays]
        interpret(made, expected, values)
        assert failed is None, f"seed {seed}"
        np.testing.assert_array_equal(got[OUT], np.array(expected[OUT], np.float32), err_msg=f"seed {seed}")
        np.testing.assert_array_equal(got[OUT_INT], np.array(expected[OUT_INT], np.int32), err_msg=f"seed {seed}")


@needs_interpreter
def test_integers_and_failed_checks(tmp_path: Path) -> None:
    """Division truncates, wraps at its end, and by zero is reported, like a check, by a word that the host reads."""
    i, n = var(1), var(2)
    a, b = ir.Load(0, at(i), "i32"), ir.Load(1, at(i), "i32")
    body = (
        ir.Store(2, at((2, i)), binary("/", a, b, "i32")),
        ir.Store(2, at((2, i), 1), binary("%", a, b, "i32")),
    )
    kernel, launch = launched([loop(i, 6, *body)])
    divide = region(["i32", "i32", "i32"], [launch], kernels=[kernel], name="divide")
    left = np.array([7, -7, 7, -7, -(2**31), 5], np.int32)
    right = np.array([2, 2, -2, -2, -1, -1], np.int32)
    bounded = ir.Check(ir.Binary("<", ir.Load(0, at(i), "i32"), lit(8, "i32"), "bool"), "too large")
    kernel, launch = launched([loop(i, n, bounded, ir.Store(1, at(ir.Cast(a, "i64")), lit(1, "i32")))])
    checked = region(["i32", "i32"], [launch], [n], kernels=[kernel], name="checked")
    runs: list[Any] = [(divide, [left, right, np.zeros(12, np.int32)], [])]
    runs.append((divide, [left, right * (right > 0), np.zeros(12, np.int32)], []))
    runs += [(checked, [np.array([0, 3, 9999], np.int32), np.zeros(8, np.int32)], [count]) for count in (2, 3)]
    whole, by_zero, inside, outside = run_interpreted(runs, tmp_path)
    assert whole[0][2].tolist() == [3, 1, -3, -1, -3, 1, 3, -1, -(2**31), 0, -5, 0] and whole[2] is None
    assert by_zero[2] == "division by zero"
    assert inside[2] is None and outside[2] == "too large"
    assert outside[0][1].tolist() == [1, 0, 0, 1, 0, 0, 0, 0]


@needs_interpreter
@pytest.mark.parametrize("length", [3000, 20001])
def test_arg_max_takes_the_first_and_skips_nan(length: int, tmp_path: Path) -> None:
    """Also where it is searched in pieces."""
    best, where, i = var(1, "f32"), var(2, "i32"), var(3)
    body = (
        ir.Let(best, ir.Load(0, at(0), "f32"), True),
        ir.Let(where, lit(0, "i32"), True),
        ir.ArgReduce("max", i, lit(1), lit(length), ir.Load(0, at(i), "f32"), best, where, ir.Cast(i, "i32")),
        ir.Store(1, at(0), where),
    )
    values = np.zeros((5, length), np.float32)
    values[0, [700, 2200, 2900]] = 5
    values[1, [40, 50]] = np.nan, 3
    values[2, 0] = np.nan
    values[3] = -np.inf
    values[4, length - 1] = 1
    runs: list[Any] = [(region(["f32", "i32"], body), [v, np.array([-1], np.int32)], []) for v in values]
    assert [int(arrays[1][0]) for arrays, _, _ in run_interpreted(runs, tmp_path)] == [700, 50, 0, 0, length - 1]


@needs_interpreter
def test_private_memory_that_does_not_fit_registers(tmp_path: Path) -> None:
    """A buffer indexed by data: every program has its own share of private memory."""
    i, k, m = var(1), var(2), var(3)
    scratch = ir.Buffer(2, "p", "f32", "private", 16, True)
    body = (
        ir.Alloc(2),
        loop(k, 16, ir.Store(2, at(k), ir.Load(0, at((16, i), k), "f32"))),
        ir.Store(1, at(i), add(m, 16, ir.Load(2, at(15, (-1, m)), "f32"))),
        loop(k, 4, ir.Store(1, at(i), binary("+", ir.Load(1, at(i), "f32"), ir.Load(2, at(k), "f32"))), parallel=False),
    )
    kernel, launch = launched([loop(i, 600, *body)])
    made = region(["f32", "f32"], [launch], kernels=[kernel], extra=[scratch])
    values = np.random.default_rng(1).integers(-9, 9, 9600).astype(np.float32)
    ((got, _, _),) = run_interpreted([(made, [values, np.zeros(600, np.float32)], [])], tmp_path)
    rows = values.reshape(600, 16)
    np.testing.assert_array_equal(got[1], rows.sum(axis=1) + rows[:, :4].sum(axis=1))


@needs_interpreter
@pytest.mark.parametrize("length", [2048, 3072, 3000, 8192])
def test_rows_in_rounds(length: int, tmp_path: Path) -> None:
    """out[i] += n · Σ w[i][k]·(x[k]·g[k]) + Σ x[k]²: matrices are loaded a round ahead, and both sums share the loop.
    2048 columns at once, 3000 with a short last round."""
    i, k, m, n = var(1), var(2), var(3), var(4, "f32")
    x = lambda v: ir.Load(1, at(v), "f32")  # noqa: E731
    row = ir.Cast(ir.Load(0, at((length, i), k), "bf16"), "f32")
    total = binary("*", add(k, length, mul(row, mul(x(k), ir.Load(2, at(k), "f32")))), n)
    both = binary("+", total, add(m, length, mul(x(m), x(m))))
    store = ir.Store(3, at(i), binary("+", ir.Load(3, at(i), "f32"), both))
    kernel, launch = launched([loop(i, 10, store)])
    made = region(["bf16", "f32", "f32", "f32"], [launch], [n], kernels=[kernel])
    made = replace(made, buffers=tuple(replace(b, written=b.id in (1, 3)) for b in made.buffers))
    rng = np.random.default_rng(3)
    w, vectors = rng.integers(-2, 3, (10, length)), rng.integers(-3, 4, (2, length))
    bits = (w.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    before = np.arange(10, dtype=np.float32)
    given = [bits.reshape(-1), *vectors.astype(np.float32), before]
    ((got, _, _),) = run_interpreted([(made, given, [2.0])], tmp_path)
    np.testing.assert_array_equal(got[3], before + 2 * (w @ (vectors[0] * vectors[1])) + (vectors[0] ** 2).sum())


LLAMA = (
    ("prefill_layer", {"l": 2, "at": 70, "m": 20}),
    ("first_token", {"n": 9, "greedy": True}),
    ("step", {"p": 83, "greedy": True}),
)


@needs_interpreter
def test_llama_regions(tmp_path: Path) -> None:
    """The tiny model's prefill block, first token and decode step give what the CPU's code gives."""
    path = str(ROOT / "programs" / "llama.vx")
    regions = list(build.check(path, Options(), SourceMap(), Reporter()).regions)
    compiled = Compiled(regions)
    runs: list[Any] = []
    for name, scalars in LLAMA:
        made = next(r for r in regions if r.name.endswith(f"_{name}"))
        runs.append((made, llama_inputs(made), [scalars[s.var.name] for s in made.params if isinstance(s, ir.ScalarParam)]))  # fmt: skip
    results = run_interpreted(runs, tmp_path)
    for (made, arrays, scalars), (got, _, failed) in zip(runs, results, strict=True):
        run_at(compiled, made, max(cpu_levels()), arrays, scalars)
        assert failed is None
        for number, (expected, found) in enumerate(zip(arrays, got, strict=True)):
            scale = 1 + np.abs(expected)
            assert (np.abs(expected - found) <= 2e-5 * scale).all(), (made.name, number)


@needs_interpreter
@pytest.mark.parametrize("rows", [1, 5])
def test_attention_never_touches_what_was_not_filled(rows: int, tmp_path: Path) -> None:
    """Caches start as NaN, and a tile has more rows than the prompt: those that are too many read nothing."""
    path = str(ROOT / "programs" / "llama.vx")
    regions = list(build.check(path, Options(), SourceMap(), Reporter()).regions)
    made = next(r for r in regions if r.name.endswith("_prefill_layer"))
    names = {b.id: b.name for b in made.buffers}
    arrays = llama_inputs(made)
    for array, param in zip(arrays, (p for p in made.params if isinstance(p, ir.TensorParam)), strict=True):
        if names[param.buffer] in ("c.k", "c.v", "s.o"):
            array.fill(np.nan)
    scalars = [{"l": 0, "at": 0, "m": rows}[s.var.name] for s in made.params if isinstance(s, ir.ScalarParam)]
    ((got, _, failed),) = run_interpreted([(made, arrays, scalars)], tmp_path)
    run_at(Compiled(regions), made, max(cpu_levels()), arrays, scalars)
    assert failed is None
    for number, (expected, found) in enumerate(zip(arrays, got, strict=True)):
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5, equal_nan=True, err_msg=str(number))


def llama_inputs(made: ir.Region) -> list[Any]:
    """Arrays long enough for the tiny model, in the order of the region's tensors."""
    rng = np.random.default_rng(3)
    names = {b.id: b for b in made.buffers}
    arrays: list[Any] = []
    for param in made.params:
        if isinstance(param, ir.TensorParam):
            b = names[param.buffer]
            if b.elem == "i32":
                arrays.append(rng.integers(0, 768, 257).astype(np.int32))
            else:
                scale = 0.1 if b.name.startswith("w.w") else 1.0
                arrays.append((scale * rng.standard_normal(4 * 256 * 96)).astype(np.float32))
    return arrays

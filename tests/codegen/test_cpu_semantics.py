"""What every operation means, at every level: conversions, wrapping, shifts, division, aborts, memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from cpu_harness import DTYPES, Compiled, cpu_levels, ends_process, run_at
from cpu_regions import add, at, binary, call, launched, lit, loop, mul, plus, region, var

from vx.kernels import ir
from vx.kernels.interpret import Stopped, interpret

LEVELS = cpu_levels()
A, B, K = var(1), var(2), var(3)
WHOLE = ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"]
RNG = np.random.default_rng(11)


def load(buffer: int, *offset: Any, type_: str = "f32") -> ir.Load:
    return ir.Load(buffer, at(*offset), type_)


def agrees(
    made: ir.Region, tensors: Sequence[np.ndarray[Any, Any]], elems: Sequence[str], scalars: Sequence[Any] = ()
) -> None:
    """Compiled code and interpreter leave the same in every tensor."""
    expected: list[Any] = [t.tolist() for t in tensors]
    interpret(made, expected, scalars)
    compiled = Compiled([made])
    for level in LEVELS:
        own = [t.copy() for t in tensors]
        run_at(compiled, made, level, own, scalars)
        for got, want, elem in zip(own, expected, elems, strict=True):
            np.testing.assert_array_equal(got, np.array(want, DTYPES[elem]), err_msg=f"level {level}")


@pytest.mark.parametrize("to", WHOLE)
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_float_to_integer_truncates_and_saturates(source: str, to: str) -> None:
    special = [
        0.5,
        -0.5,
        1.9,
        -1.9,
        1e30,
        -1e30,
        np.inf,
        -np.inf,
        np.nan,
        127.5,
        128.0,
        -128.5,
        255.9,
        2.0**31,
        -(2.0**31),
        2.0**63,
    ]
    x = np.concatenate([special, RNG.uniform(-300, 300, 30)]).astype(DTYPES[source])
    made = region([source, to], [loop(A, len(x), ir.Store(1, at(A), ir.Cast(load(0, A, type_=source), to)))])
    agrees(made, [x, np.zeros(len(x), DTYPES[to])], [source, to])


@pytest.mark.parametrize("source", WHOLE)
@pytest.mark.parametrize("to", [*WHOLE, "f32", "f64", "bool"])
def test_integers_convert(source: str, to: str) -> None:
    info = np.iinfo(DTYPES[source])
    x = np.array([info.min, info.max, 0, 1, 77, info.max // 3] * 4, DTYPES[source])
    made = region([source, to], [loop(A, len(x), ir.Store(1, at(A), ir.Cast(load(0, A, type_=source), to)))])
    agrees(made, [x, np.zeros(len(x), DTYPES[to])], [source, to])


@pytest.mark.parametrize("elem", WHOLE)
@pytest.mark.parametrize("op", ["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"])
def test_integer_operators_wrap(elem: str, op: str) -> None:
    info = np.iinfo(DTYPES[elem])
    values = np.array([info.min, info.max, 1, 2, 3, 7, info.max - 1, info.max // 2], DTYPES[elem])
    x, y = (grid.ravel() for grid in np.meshgrid(values, values))
    if info.min < 0:
        y = np.concatenate([y, np.full(len(values), -1, DTYPES[elem])])
        x = np.concatenate([x, values])
    keep = y != 0
    x, y = x[keep].copy(), y[keep].copy()
    made = region(
        [elem] * 3,
        [loop(A, len(x), ir.Store(2, at(A), binary(op, load(0, A, type_=elem), load(1, A, type_=elem), elem)))],
    )
    agrees(made, [x, y, np.zeros_like(x)], [elem] * 3)


@pytest.mark.parametrize("elem", ["f16", "bf16"])
@pytest.mark.parametrize("op", ["+", "-", "*", "/"])
def test_sixteen_bit_arithmetic_rounds_each_time(elem: str, op: str) -> None:
    def widen(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return (
            bits.view(np.float16).astype(np.float32)
            if elem == "f16"
            else (bits.astype(np.uint32) << 16).view(np.float32)
        )

    def narrow(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if elem == "f16":
            return x.astype(np.float16).view(np.uint16)
        b = x.view(np.uint32)
        return ((b + 0x7FFF + ((b >> 16) & 1)) >> 16).astype(np.uint16)

    x, y, z = (narrow(RNG.standard_normal(300).astype(np.float32)) for _ in range(3))
    value = plus(binary(op, load(0, A, type_=elem), load(1, A, type_=elem), elem), load(2, A, type_=elem), elem)
    made = region([elem] * 4, [loop(A, 300, ir.Store(3, at(A), value))])
    python_op = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[op]
    expected = narrow(widen(narrow(python_op(widen(x), widen(y)).astype(np.float32))) + widen(z))
    compiled = Compiled([made])
    for level in LEVELS:
        out = np.zeros(300, np.uint16)
        run_at(compiled, made, level, [x, y, z, out])
        np.testing.assert_array_equal(out, expected)


def test_bools_and_logic() -> None:
    x, y = RNG.integers(0, 2, 70).astype(np.uint8), RNG.integers(0, 2, 70).astype(np.uint8)
    a, b = load(0, A, type_="bool"), load(1, A, type_="bool")
    value = ir.Binary("||", ir.Binary("&&", a, ir.Unary("!", b, "bool"), "bool"), ir.Binary("==", a, b, "bool"), "bool")
    agrees(region(["bool"] * 3, [loop(A, 70, ir.Store(2, at(A), value))]), [x, y, np.zeros_like(x)], ["bool"] * 3)


def test_division_by_zero_ends_the_process() -> None:
    quotient = binary("/", load(0, A, type_="i32"), load(1, A, type_="i32"), "i32")
    guarded = ir.Select(
        ir.Binary("!=", load(1, A, type_="i32"), lit(0, "i32"), "bool"), quotient, lit(-7, "i32"), "i32"
    )
    x, y = np.arange(40, dtype=np.int32), np.arange(1, 41, dtype=np.int32)
    plain = region(["i32"] * 3, [loop(A, 40, ir.Store(2, at(A), quotient))])
    safe = region(["i32"] * 3, [loop(A, 40, ir.Store(2, at(A), guarded))])
    agrees(plain, [x, y, y.copy()], ["i32"] * 3)
    y[29] = 0
    agrees(safe, [x, y, y.copy()], ["i32"] * 3)
    compiled = Compiled([plain])
    assert all(ends_process(compiled, plain, level, [x, y, x.copy()]) for level in LEVELS)
    with pytest.raises(Stopped):
        interpret(plain, [x.tolist(), y.tolist(), x.tolist()], [])


def test_a_check_ends_the_process_only_if_it_fails() -> None:
    n = var(20)
    made = region(
        ["f32"],
        [ir.Check(ir.Binary("<", n, lit(10), "bool"), "n is too large"), loop(A, n, ir.Store(0, at(A), lit(1, "f32")))],
        [n],
    )
    compiled = Compiled([made])
    for level in LEVELS:
        x = np.zeros(10, np.float32)
        run_at(compiled, made, level, [x], [9])
        assert x.tolist() == [1.0] * 9 + [0.0]
        assert ends_process(compiled, made, level, [x], [10])


def test_a_check_in_a_vectorised_loop_looks_at_every_lane() -> None:
    made = region(
        ["i32"],
        [
            loop(
                A,
                33,
                ir.Check(ir.Binary("<", load(0, A, type_="i32"), lit(5, "i32"), "bool"), "five"),
                ir.Store(0, at(A), lit(0, "i32")),
            )
        ],
    )
    compiled = Compiled([made])
    for level in LEVELS:
        for bad in (0, 15, 32):
            x = np.zeros(33, np.int32)
            run_at(compiled, made, level, [x.copy()])
            x[bad] = 5
            assert ends_process(compiled, made, level, [x])


def test_loads_that_a_condition_guards_are_not_made() -> None:
    """The condition keeps the offset inside; reading it anyway would touch no memory of ours."""
    far = load(0, (1 << 40, A))
    value = ir.Select(ir.Binary("==", A, lit(0), "bool"), far, lit(2, "f32"), "f32")
    x = np.full(1, 3.0, np.float32)
    agrees(region(["f32"] * 2, [loop(A, 50, ir.Store(1, at(A), value))]), [x, np.zeros(50, np.float32)], ["f32"] * 2)
    total = ir.Select(
        ir.Binary("==", A, lit(0), "bool"), add(K, 40, load(0, (1 << 40, A), (0, K))), lit(2, "f32"), "f32"
    )
    agrees(region(["f32"] * 2, [loop(A, 50, ir.Store(1, at(A), total))]), [x, np.zeros(50, np.float32)], ["f32"] * 2)


@pytest.mark.parametrize("length", [10, 40_000])
def test_private_and_scratch_memory(length: int) -> None:
    """Small on the stack, large from the runtime; per iteration, and shared by kernels."""
    own = ir.Buffer(2, "own", "f32", "private", length, True)
    shared = ir.Buffer(3, "shared", "f32", "scratch", length, True)
    fill = loop(K, length, ir.Store(2, at(K), mul(load(3, K), ir.Cast(A, "f32"))))
    rows = loop(A, 5, ir.Alloc(2), fill, ir.Store(1, at(A), add(B, length, load(2, B))))
    kernel, launch = launched([rows])
    body = [ir.Alloc(3), loop(var(9), length, ir.Store(3, at(var(9)), load(0, var(9)))), launch]
    made = region(["f32"] * 2, body, extra=[own, shared], kernels=[kernel])
    x = RNG.integers(0, 5, length).astype(np.float32)
    agrees(made, [x, np.zeros(5, np.float32)], ["f32"] * 2)


def test_a_while_loop() -> None:
    """Collatz steps: the condition differs between iterations."""
    n, steps = var(10, "i64"), var(11, "i32")
    even = ir.Binary("==", binary("%", n, lit(2), "i64"), lit(0), "bool")
    halve = ir.Set(n, binary("/", n, lit(2), "i64"))
    grow = ir.Set(n, plus(mul(n, lit(3), "i64"), lit(1), "i64"))
    body = loop(
        A, 30, ir.Let(n, at(A, 1), True), ir.Let(steps, lit(0, "i32"), True),
        ir.While(ir.Binary(">", n, lit(1), "bool"), (ir.If(even, (halve,), (grow,)), ir.Set(steps, plus(steps, lit(1, "i32"), "i32")))),
        ir.Store(0, at(A), steps),
    )  # fmt: skip
    agrees(region(["i32"], [body]), [np.zeros(30, np.int32)], ["i32"])


def test_math_on_whole_numbers_and_rounding() -> None:
    x = np.array([-7, 3, 0, 12, -2147483648, 5] * 5, np.int32)
    a = load(0, A, type_="i32")
    value = call("max", call("min", a, lit(4, "i32"), type_="i32"), call("abs", a, type_="i32"), type_="i32")
    agrees(region(["i32"] * 2, [loop(A, 30, ir.Store(1, at(A), value))]), [x, x.copy()], ["i32"] * 2)
    y = np.array([0.5, 1.5, -0.5, -2.5, 0.49999997, 8388609.0, -0.0, 2.5] * 4, np.float32)
    for name in ("round", "floor", "ceil", "trunc"):
        agrees(
            region(["f32"] * 2, [loop(A, 32, ir.Store(1, at(A), call(name, load(0, A))))]), [y, y.copy()], ["f32"] * 2
        )


def test_float_functions_of_several_arguments() -> None:
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2.0]
    x, y = (g.ravel().astype(np.float32) for g in np.meshgrid(special, special))
    a, b = load(0, A), load(1, A)
    with np.errstate(invalid="ignore"):
        fused = (x.astype(np.float64) * y + 0.5).astype(np.float32)
    makes = {
        "min": (call("min", a, b), np.fmin(x, y)),
        "max": (call("max", a, b), np.fmax(x, y)),
        "atan2": (call("atan2", a, b), np.arctan2(x.astype(np.float64), y).astype(np.float32)),
        "mul_add": (call("mul_add", a, b, lit(0.5, "f32")), fused),
        "is_nan": (ir.Cast(ir.Call("is_nan", (a,), "bool"), "f32"), np.isnan(x).astype(np.float32)),
    }
    made = [
        region(["f32"] * 3, [loop(A, len(x), ir.Store(2, at(A), value))], name=name)
        for name, (value, _) in makes.items()
    ]
    compiled = Compiled(made)
    for level in LEVELS:
        for one, (_, expected) in zip(made, makes.values(), strict=True):
            out = np.zeros_like(x)
            run_at(compiled, one, level, [x, y, out])
            np.testing.assert_allclose(out, expected, rtol=1e-6, err_msg=one.name)


@pytest.mark.parametrize(("op", "expected"), [("add", 0.0), ("max", -np.inf), ("min", np.inf)])
def test_reducing_nothing(op: str, expected: float) -> None:
    n = var(20)
    made = region(["f32"], [ir.Store(0, at(0), add(K, n, load(0, K), op=op))], [n])
    compiled = Compiled([made])
    for level in LEVELS:
        x = np.full(3, 5, np.float32)
        run_at(compiled, made, level, [x], [0])
        assert x[0] == expected


def test_maximum_ignores_nan() -> None:
    n = 100
    made = region(["f32"], [ir.Store(0, at(n), add(K, n, load(0, K), op="max"))])
    compiled = Compiled([made])
    for level in LEVELS:
        for place in range(0, n, 7):
            x = RNG.standard_normal(n + 1).astype(np.float32)
            x[place] = np.nan
            run_at(compiled, made, level, [x])
            assert x[n] == np.nanmax(x[:n])


def test_wide_integers() -> None:
    n = var(20, "i128")
    value = ir.Cast(
        binary(
            ">>",
            mul(ir.Cast(load(0, A, type_="i64"), "i128"), ir.Cast(load(0, A, type_="i64"), "i128"), "i128"),
            lit(64, "i128"),
            "i128",
        ),
        "i64",
    )
    x = RNG.integers(-(2**62), 2**62, 20)
    agrees(
        region(["i64"] * 2, [ir.Let(n, lit(1, "i128")), loop(A, 20, ir.Store(1, at(A), value))]),
        [x, x.copy()],
        ["i64"] * 2,
    )


@pytest.mark.parametrize("per_level", [False, True])
@pytest.mark.parametrize("opt", [0, 3])
def test_the_processors_level_decides(per_level: bool, opt: int) -> None:
    """Sums of many terms are formed in another order on each level, so the bits tell them apart."""
    made = region(["f32"] * 2, [loop(A, 64, ir.Store(1, at(A), add(K, 1000, load(0, A, K))))])
    compiled = Compiled([made], opt, per_level)
    x = RNG.standard_normal(1064).astype(np.float32)
    sums = set()
    for level in LEVELS:
        y = np.zeros(64, np.float32)
        run_at(compiled, made, level, [x, y])
        np.testing.assert_allclose(y, [x[i : i + 1000].astype(np.float64).sum() for i in range(64)], atol=1e-3)
        sums.add(y.tobytes())
    assert len(sums) > 1 or len(LEVELS) == 1

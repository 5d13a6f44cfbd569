"""Scalar arithmetic of host code against what the language says."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import pytest
from codegen import handmade as b

from vx.codegen.llvm_text import bfloat_bits, constant
from vx.sema import tree as t

S = b.S


def printed(folder: Path, *values: t.Value, opt_level: int = 2) -> list[str]:
    done = b.run(b.program(b.main(*b.show(*values))), folder, opt_level=opt_level)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def opaque(value: int | float | bool, name: str) -> t.Value:
    """A constant as the result of a branch: no special case for constants in the emitter sees it."""
    type_ = t.Scalar(name)
    return t.IfExpr(
        type_, S, b.const(True, b.BOOL), b.block(value=b.const(value, type_)), b.block(value=b.const(0, type_))
    )


def cast(value: t.Value, name: str) -> t.Cast:
    return t.Cast(t.Scalar(name), S, value)


@pytest.mark.parametrize("opt_level", [0, 3])
def test_integers_wrap_and_division_truncates(tmp_path: Path, opt_level: int) -> None:
    cases = [
        (b.binary("+", opaque(127, "i8"), opaque(1, "i8")), "-128"),
        (b.binary("*", opaque(200, "u8"), opaque(2, "u8")), "144"),
        (b.binary("-", opaque(0, "u32"), opaque(1, "u32")), "4294967295"),
        (b.binary("/", opaque(-7, "i32"), opaque(2, "i32")), "-3"),
        (b.binary("%", opaque(-7, "i32"), opaque(2, "i32")), "-1"),
        (b.binary("/", opaque(-(2**31), "i32"), opaque(-1, "i32")), str(-(2**31))),
        (b.binary("%", opaque(-(2**63), "i64"), opaque(-1, "i64")), "0"),
        (b.binary("/", opaque(2**63, "u64"), opaque(3, "u64")), str(2**63 // 3)),
        (b.binary("/", opaque(-(10**30), "i128"), opaque(7, "i128")), str(-(10**30 // 7))),
        (b.binary("*", opaque(2**100, "u128"), opaque(15, "u128")), str(15 * 2**100)),
        (b.binary("<<", opaque(1, "i32"), opaque(33, "i32")), "2"),
        (b.binary(">>", opaque(-8, "i32"), opaque(1, "i32")), "-4"),
        (b.binary(">>", opaque(0x80000000, "u32"), opaque(31, "u32")), "1"),
        (b.binary("^", opaque(12, "i16"), opaque(10, "i16")), "6"),
        (b.binary("<", opaque(-1, "i64"), opaque(1, "i64")), "true"),
        (b.binary("<", opaque(2**64 - 1, "u64"), opaque(1, "u64")), "false"),
        (t.Unary(b.I32, S, "-", opaque(-(2**31), "i32")), str(-(2**31))),
        (t.Unary(b.BOOL, S, "!", opaque(True, "bool")), "false"),
        (t.Math(b.I32, S, "abs", (opaque(-5, "i32"),)), "5"),
        (t.Math(t.Scalar("u8"), S, "max", (opaque(200, "u8"), opaque(3, "u8"))), "200"),
    ]
    assert printed(tmp_path, *(value for value, _ in cases), opt_level=opt_level) == [text for _, text in cases]


@pytest.mark.parametrize("opt_level", [0, 3])
def test_casts(tmp_path: Path, opt_level: int) -> None:
    cases = [
        (cast(opaque(300, "i32"), "u8"), "44"),
        (cast(opaque(-1, "i8"), "u32"), "4294967295"),
        (cast(opaque(255, "u8"), "i32"), "255"),
        (cast(opaque(-1, "i8"), "u128"), str(2**128 - 1)),
        (cast(opaque(-1.9, "f32"), "i32"), "-1"),
        (cast(opaque(1e20, "f32"), "i32"), str(2**31 - 1)),
        (cast(opaque(-1.0, "f64"), "u8"), "0"),
        (cast(opaque(math.nan, "f32"), "i64"), "0"),
        (cast(opaque(1e30, "f64"), "i128"), str(int(1e30))),
        (cast(opaque(16777217, "i32"), "f32"), "16777216"),
        (cast(opaque(2**64 - 1, "u64"), "f64"), "1.8446744073709552e+19"),
        (cast(opaque(70000.0, "f32"), "f16"), "inf"),
        (cast(cast(opaque(1.0 + 2**-8 + 2**-40, "f64"), "bf16"), "f32"), "1.0078125"),
        (cast(opaque(1.0 + 2**-8, "f64"), "bf16"), "1"),
        (cast(opaque(0.1, "bf16"), "f32"), "0.100097656"),
        (cast(opaque(True, "bool"), "i32"), "1"),
        (cast(opaque(True, "bool"), "f32"), "1"),
        (cast(opaque(2049, "i32"), "f16"), "2048"),
        (cast(opaque(257, "i64"), "bf16"), "256"),
    ]
    assert printed(tmp_path, *(value for value, _ in cases), opt_level=opt_level) == [text for _, text in cases]


@pytest.mark.parametrize("opt_level", [0, 3])
def test_16_bit_floats_round_after_every_operation(tmp_path: Path, opt_level: int) -> None:
    def chain(name: str) -> t.Value:
        big, one = opaque(2048.0 if name == "f16" else 256.0, name), opaque(1.0, name)
        return b.binary("-", b.binary("+", b.binary("+", big, one), one), big)

    assert printed(tmp_path, chain("f16"), chain("bf16"), chain("f32"), opt_level=opt_level) == ["0", "0", "2"]


def test_float_functions(tmp_path: Path) -> None:
    def call(name: str, *args: float, elem: str = "f64") -> t.Value:
        return t.Math(t.Scalar(elem), S, name, tuple(opaque(a, elem) for a in args))

    expected = [
        (call("sqrt", 2.0), math.sqrt(2.0)),
        (call("rsqrt", 4.0), 0.5),
        (call("exp", 1.0), math.e),
        (call("ln", 10.0), math.log(10.0)),
        (call("log2", 8.0), 3.0),
        (call("sin", 1.0), math.sin(1.0)),
        (call("tanh", 0.5), math.tanh(0.5)),
        (call("pow", 2.0, 0.5), 2.0**0.5),
        (call("atan2", 1.0, -1.0), math.atan2(1.0, -1.0)),
        (call("erf", 0.5), math.erf(0.5)),
        (call("round", 2.5), 3.0),
        (call("floor", -0.5), -1.0),
        (call("trunc", -1.7), -1.0),
        (call("mul_add", 2.0, 3.0, 4.0), 10.0),
        (call("max", math.nan, 1.0), 1.0),
        (call("exp", 1.0, elem="bf16"), 2.72),
        (call("sqrt", 2.0, elem="f16"), 1.414),
    ]
    got = printed(tmp_path, *(value for value, _ in expected))
    assert [float(text) for text in got] == pytest.approx([number for _, number in expected], rel=1e-15)


def test_nan_compares_as_ieee_says(tmp_path: Path) -> None:
    nan = opaque(math.nan, "f32")
    values = [b.binary(op, nan, nan) for op in ("==", "!=", "<", ">=")]
    assert printed(tmp_path, *values, t.Math(b.BOOL, S, "is_nan", (nan,))) == [
        "false",
        "true",
        "false",
        "false",
        "true",
    ]


@pytest.mark.parametrize("op", ["/", "%"])
@pytest.mark.parametrize("name", ["i32", "u64"])
def test_division_by_zero_ends_the_program(tmp_path: Path, op: str, name: str) -> None:
    divide = t.Binary(t.Scalar(name), b.at(7), op, opaque(1, name), opaque(0, name))
    done = b.run(b.program(b.main(*b.show(divide))), tmp_path)
    assert done.returncode == 101
    assert "division by zero at test.vx:7" in done.stderr


def test_constants_as_llvm_writes_them() -> None:
    assert constant(300, "u8") == "44"
    assert constant(2**64 - 1, "u64") == "-1"
    assert (
        constant(0.1, "f32")
        == f"0x{struct.unpack('<Q', struct.pack('<d', struct.unpack('<f', struct.pack('<f', 0.1))[0]))[0]:016X}"
    )
    assert constant(1e300, "f32") == "0x7FF0000000000000"
    assert constant(1.5, "f16") == "0xH3E00"
    assert constant(-2.0, "bf16") == "0xRC000"


@pytest.mark.parametrize(
    "value", [0.0, -0.0, 1.0, 1.00390625, 1.01171875, 3.3e38, -3.4e38, 1e-40, 9.2e-41, 1e-45, math.inf]
)
def test_bf16_constants_round_to_nearest_even(value: float) -> None:
    def decode(bits: int) -> float:
        return float(struct.unpack("<f", struct.pack("<I", bits << 16))[0])

    got = decode(bfloat_bits(value))
    candidates = [decode(bits) for bits in range(1 << 16) if not math.isnan(decode(bits))]
    if math.isinf(value) or abs(value) > 3.3953e38:
        assert math.isinf(got) or abs(got - value) == min(abs(c - value) for c in candidates)
    else:
        assert abs(got - value) == min(abs(c - value) for c in candidates if not math.isinf(c))
        assert math.copysign(1, got) == math.copysign(1, value)

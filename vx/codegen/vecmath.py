"""Math functions on vectors of f32, as LLVM text.

Enters: a function's name and a number of lanes. Leaves: the text of a function that gives, in every lane,
the same bits as with one lane. Errors against the exact value, in units of the last place: exp, exp2, tanh
and erf at most 2, the others at most 1. Infinities, NaN, overflow and subnormal results are as in C.
`exp`, `exp2`, `tanh`, `erf` are polynomials in f32 (weighted minimax fits of the stated functions); the
others compute in f64. Where a fast path does not hold, the lanes concerned call the C library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from vx.codegen.cpu_values import Features, Val, of_lanes
from vx.codegen.vecmath_text import MathText

Function = Callable[[MathText, tuple[Val, ...]], Val]

# exp(r) = 1 + r + r^2 * (…) for |r| <= ln(2) / 2
_EXP = (0.49999992629548456, 0.16666508716832304, 0.041668528278978476, 0.008370134824037572, 0.0013811662145991263)
# 2^r = 1 + r * (…) for |r| <= 1/2
_EXP2 = (
    0.6931472055729115, 0.24022647562501848, 0.055503261373224366,
    0.009618462946840902, 0.0013401478188286228, 0.00015351261235073237,
)  # fmt: skip
# tanh(x) = x + x^3 * (…)(x^2) for |x| <= 0.625
_TANH = (-0.3333328194185377, 0.1333144219474928, -0.05373971484580377, 0.020639086568132965, -0.005704986327378102)
# erf(x) = x + x * (…)(x^2) for |x| <= 1
_ERF = (
    0.12837916572669864, -0.37612625824192614, 0.11283585148248537, -0.026853811921679654,
    0.005188327661618766, -0.0008010193423069883, 7.853860707747462e-05,
)  # fmt: skip
# ln(erfc(x)) for 1 <= x <= 4
_LN_ERFC = (
    -0.0003004377362633672, -1.1272514167739125, -0.6378831535085299, -0.10332728702111527,
    0.02194039962143357, -0.0029724339410384104, 0.00018882275543785632,
)  # fmt: skip
_LN2_HIGH = 0.693145751953125
_LN2_LOW = math.log(2) - _LN2_HIGH
"""The high part has few bits, so that its product with an exponent is exact."""


# ---- in f32 --------------------------------------------------------------------------------------
def _scaled(m: MathText, p: Val, n: Val) -> Val:
    """p * 2^n for n in -150..130, in two steps so that overflow and subnormals come out right."""
    half = m.integer("ashr", n, 1)
    rest = m.both("sub", n, half)
    for part in (half, rest):
        power = m.to("bitcast", m.integer("shl", m.integer("add", part, 127), 23), "f32")
        p = m.mul(p, power)
    return p


def _exponent(m: MathText, bits: Val) -> Val:
    """The signed integer that `nearest` left in a float's bits."""
    return m.integer("sub", bits, 0x4B400000)


def _exp(m: MathText, args: tuple[Val, ...]) -> Val:
    x = m.clamped(args[0], -105.0, 89.0)
    n, bits = m.nearest(m.mul(x, math.log2(math.e)))
    r = m.mad(n, -_LN2_LOW, m.mad(n, -_LN2_HIGH, x))
    p = m.add(m.mad(m.mul(r, r), m.polynomial(r, _EXP), r), 1.0)
    return _scaled(m, p, _exponent(m, bits))


def _exp2(m: MathText, args: tuple[Val, ...]) -> Val:
    x = m.clamped(args[0], -152.0, 129.0)
    n, bits = m.nearest(x)
    r = m.sub(x, n)
    return _scaled(m, m.mad(r, m.polynomial(r, _EXP2), 1.0), _exponent(m, bits))


def _tanh(m: MathText, args: tuple[Val, ...]) -> Val:
    size = m.unary("fabs", args[0])
    square = m.mul(size, size)
    small = m.mad(m.mul(size, square), m.polynomial(square, _TANH), size)
    large = m.sub(m.const(1.0), m.div(m.const(2.0), m.add(_exp(m, (m.add(size, size),)), 1.0)))
    return m.signed_like(m.select(m.compare("fcmp olt", size, 0.625), small, large), args[0])


def _erf(m: MathText, args: tuple[Val, ...]) -> Val:
    size = m.unary("fabs", args[0])
    square = m.mul(size, size)
    small = m.mad(size, m.polynomial(square, _ERF), size)
    beyond = m.polynomial(m.clamped(size, 0.0, 4.0), _LN_ERFC)
    large = m.sub(m.const(1.0), _exp(m, (beyond,)))
    return m.signed_like(m.select(m.compare("fcmp olt", size, 1.0), small, large), args[0])


# ---- in f64 --------------------------------------------------------------------------------------
def _wide(m: MathText, x: Val) -> Val:
    return m.to("fpext", x, "f64")


def _log_parts(m: MathText, x: Val) -> tuple[Val, Val]:
    """x = 2^e * t with t near 1: (e, ln t), for positive normal f64 x. With s = (t - 1) / (t + 1),
    ln t = 2 (s + s^3/3 + s^5/5 + …)."""
    bits = m.to("bitcast", x, "i64")
    above = m.integer("sub", bits, 0x3FE6A09E667F3BCD)
    e = m.integer("ashr", above, 52)
    t = m.to("bitcast", m.both("sub", bits, m.integer("shl", e, 52)), "f64")
    s = m.div(m.sub(t, 1.0), m.add(t, 1.0))
    square = m.mul(s, s)
    series = m.polynomial(square, [2.0 / odd for odd in (1, 3, 5, 7, 9, 11, 13)])
    return m.to("sitofp", e, "f64"), m.mul(s, series)


def _logarithm(per_ln: float, per_bit: float) -> Function:
    def log(m: MathText, args: tuple[Val, ...]) -> Val:
        x = args[0]
        e, ln_t = _log_parts(m, _wide(m, x))
        value = m.to("fptrunc", m.mad(ln_t, per_ln, m.mul(e, per_bit)), "f32")
        value = m.select(m.compare("fcmp olt", x, 0.0), m.const(math.nan), value)
        value = m.select(m.compare("fcmp oeq", x, 0.0), m.const(-math.inf), value)
        usual = m.compare("fcmp olt", x, math.inf)
        return m.select(usual, value, x)

    return log


_HALF_PI = math.pi / 2
_HALF_PI_HIGH = float.fromhex("0x1.921fb544p+0")
"""33 bits, so that its product with a quadrant's number (20 bits) is exact."""
_HALF_PI_LOW = float.fromhex("0x1.0b4611a626331p-34")
_TURNS_LIMIT = 1.0e6
_SINE = [(-1) ** k / math.factorial(2 * k + 1) for k in range(7)]
_COSINE = [(-1) ** k / math.factorial(2 * k) for k in range(8)]


def _wave(quarter: int, library: str) -> Function:
    """sin shifted by quarters of a turn; beyond a million the C library reduces the angle."""

    def wave(m: MathText, args: tuple[Val, ...]) -> Val:
        x = _wide(m, m.clamped(args[0], -_TURNS_LIMIT, _TURNS_LIMIT))
        n, bits = m.nearest(m.mul(x, 1.0 / _HALF_PI))
        r = m.sub(m.sub(x, m.mul(n, _HALF_PI_HIGH)), m.mul(n, _HALF_PI_LOW))
        quadrant = m.integer("add", bits, quarter) if quarter else bits
        square = m.mul(r, r)
        sine, cosine = m.mul(r, m.polynomial(square, _SINE)), m.polynomial(square, _COSINE)
        odd = m.to("trunc", quadrant, "bool")
        value = m.select(odd, cosine, sine)
        sign = m.integer("shl", m.integer("lshr", quadrant, 1), 63)
        value = m.to("bitcast", m.both("xor", m.to("bitcast", value, "i64"), sign), "f64")
        fast = m.to("fptrunc", value, "f32")
        within = m.compare("fcmp ole", m.unary("fabs", args[0]), _TURNS_LIMIT)
        return m.by_library(library, args, m.compare("icmp eq", within, False), fast)

    return wave


_EXP2_F64 = [math.log(2) ** k / math.factorial(k) for k in range(10)]


def _pow(m: MathText, args: tuple[Val, ...]) -> Val:
    """2^(y log2 x) for positive finite x and finite y; everything else is the C library's."""
    x, y = args
    e, ln_t = _log_parts(m, _wide(m, x))
    power = m.clamped(m.mul(_wide(m, y), m.mad(ln_t, math.log2(math.e), e)), -160.0, 140.0)
    n, bits = m.nearest(power)
    p = m.polynomial(m.sub(power, n), _EXP2_F64)
    scale = m.integer("shl", m.integer("add", bits, 1023), 52)
    fast = m.to("fptrunc", m.mul(p, m.to("bitcast", scale, "f64")), "f32")
    usual = m.compare("fcmp ogt", x, 0.0)
    for condition in (m.compare("fcmp olt", x, math.inf), m.compare("fcmp olt", m.unary("fabs", y), math.inf)):
        usual = m.both("and", usual, condition)
    return m.by_library("@powf", args, m.compare("icmp eq", usual, False), fast)


_FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        "exp": _exp,
        "exp2": _exp2,
        "tanh": _tanh,
        "erf": _erf,
        "ln": _logarithm(1.0, math.log(2)),
        "log2": _logarithm(math.log2(math.e), 1.0),
        "log10": _logarithm(math.log10(math.e), math.log10(2)),
        "sin": _wave(0, "@sinf"),
        "cos": _wave(1, "@cosf"),
        "pow": _pow,
    }
)

NAMES = frozenset(_FUNCTIONS)
"""The functions that there are."""

C_FUNCTIONS: Mapping[str, tuple[str, int]] = MappingProxyType(
    {"sin": ("sinf", 1), "cos": ("cosf", 1), "pow": ("powf", 2)}
)
"""What each calls of the C library, and with how many arguments."""

_ARITY: Mapping[str, int] = MappingProxyType({"pow": 2})
_INLINED = frozenset({"exp", "exp2"})


def define(symbol: str, name: str, lanes: int, have: Features) -> str:
    """The text of function `symbol`: `name` on vectors of `lanes` f32."""
    type_ = of_lanes("float", lanes)
    params = ", ".join(f"{type_} %x{n}" for n in range(_ARITY.get(name, 1)))
    how = "alwaysinline" if name in _INLINED else "noinline"
    header = f"define internal {type_} {symbol}({params}) {how} nounwind willreturn memory(none) {have.attributes}"
    m = MathText(header, lanes)
    args = tuple(Val(f"%x{n}", "f32", lanes) for n in range(_ARITY.get(name, 1)))
    return m.finish(_FUNCTIONS[name](m, args))

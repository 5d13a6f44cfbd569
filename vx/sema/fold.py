"""Arithmetic on constants, as the compiler does it.

Enters: operators and constant operands. Leaves: Python values, or None where the operation has to wait
for run time. Integers are exact, never wrapped; floats are rounded to their own type after each operation,
so a folded expression gives the number that the running program would.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping

from vx.sema import tree
from vx.sema.types import integer_range, round_float

Number = int | float | bool

COMPARISONS: Mapping[str, Callable[[Number, Number], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt,
    "<=": operator.le, ">=": operator.ge,
}  # fmt: skip

MAX_SHIFT = 4096
"""Bits that an exact shift may move by."""

_INT_OPS: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul,
    "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip

_FLOAT_OPS: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "%": math.fmod,
}  # fmt: skip

_EXACT_MATH: Mapping[str, Callable[[float], float]] = {
    "sqrt": math.sqrt, "abs": abs, "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc,
}  # fmt: skip

_MATH: Mapping[str, Callable[..., float]] = {
    **_EXACT_MATH,
    "exp": math.exp, "exp2": lambda x: 2.0**x, "ln": math.log, "log2": math.log2, "log10": math.log10,
    "sin": math.sin, "cos": math.cos, "tan": math.tan, "tanh": math.tanh, "pow": math.pow,
    "atan2": math.atan2, "min": min, "max": max, "erf": math.erf, "rsqrt": lambda x: 1.0 / math.sqrt(x),
    "mul_add": lambda a, b, c: a * b + c,
}  # fmt: skip


def truncated(a: int, b: int) -> int:
    """a / b rounded towards zero; b is not 0."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def binary(op: str, a: Number, b: Number, type_name: str) -> Number | None:
    """`a op b` for operands of type `type_name`. None: division by zero, or not foldable."""
    if op in COMPARISONS:
        return COMPARISONS[op](a, b)
    if op in ("&&", "||"):
        return (a and b) if op == "&&" else (a or b)
    if type_name in tree.FLOATS:
        return _float(op, float(a), float(b), type_name)
    if type_name == "bool":
        return bool(_INT_OPS[op](int(a), int(b))) if op in "&|^" else None
    return _integer(op, int(a), int(b))


def _integer(op: str, a: int, b: int) -> int | None:
    if op in _INT_OPS:
        return _INT_OPS[op](a, b)
    if op in ("<<", ">>"):
        if not 0 <= b <= MAX_SHIFT:
            return None
        return a << b if op == "<<" else a >> b
    if b == 0:
        return None
    quotient = truncated(a, b)
    return quotient if op == "/" else a - quotient * b


def _float(op: str, a: float, b: float, type_name: str) -> float | None:
    if op not in _FLOAT_OPS:
        return None
    try:
        return round_float(type_name, _FLOAT_OPS[op](a, b))
    except (ZeroDivisionError, ValueError, OverflowError):
        return None


def cast(value: Number, source: str, target: str) -> Number | None:
    """`value as target`: floats truncate and saturate, integers wrap, ints round to the nearest float."""
    if target in tree.FLOATS:
        try:
            return round_float(target, float(value))
        except OverflowError:
            return None
    if target not in tree.SIGNED and target not in tree.UNSIGNED:
        return value if target == source else None
    low, high = integer_range(target)
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        return low if value <= low else high if value >= high else int(value)
    span = high - low + 1
    return (int(value) - low) % span + low


def math_call(name: str, args: tuple[Number, ...], type_name: str, *, exact_only: bool) -> Number | None:
    """A math function of constants. With `exact_only`, only what every implementation rounds alike."""
    table = _EXACT_MATH if exact_only else _MATH
    if name not in table or type_name not in tree.FLOATS:
        return None
    try:
        return round_float(type_name, float(table[name](*args)))
    except (ValueError, OverflowError, ZeroDivisionError):
        return None

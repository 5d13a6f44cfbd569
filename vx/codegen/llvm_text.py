"""Spelling LLVM: constants, names and strings as text.

Enters: Python values. Leaves: operands and globals in LLVM's assembly language.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from types import MappingProxyType

from vx.sema.tree import FLOATS, SIGNED, UNSIGNED

Int = int | str
"""An i64 operand: a number known now, or the name of a value."""

REGISTER: Mapping[str, str] = MappingProxyType(
    {
        "bool": "i1",
        "f16": "half",
        "bf16": "bfloat",
        "f32": "float",
        "f64": "double",
        **{name: f"i{bits}" for table in (SIGNED, UNSIGNED) for name, bits in table.items()},
        **{"i4": "i8", "u4": "i8", "f8e4m3": "i8", "f8e5m2": "i8", "f4e2m1": "i8"},
    }
)
"""The LLVM type of each element type in a register."""

MEMORY: Mapping[str, str] = MappingProxyType({**REGISTER, "bool": "i8"})
"""The same in memory and in C calls."""

INTEGERS: Mapping[str, int] = MappingProxyType({**SIGNED, **UNSIGNED})


def _bits32(value: float) -> int:
    try:
        return int(struct.unpack("<I", struct.pack("<f", value))[0])
    except OverflowError:
        return 0x7F800000 if value > 0 else 0xFF800000


def _bits16(value: float) -> int:
    try:
        return int(struct.unpack("<H", struct.pack("<e", value))[0])
    except OverflowError:
        return 0x7C00 if value > 0 else 0xFC00


def _bits64(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def bfloat_bits(value: float) -> int:
    """The bits of the bf16 nearest to `value` (ties to even, rounded once)."""
    if math.isnan(value):
        return 0x7FC0
    if math.isinf(value) or value == 0:
        return _bits32(value) >> 16
    mantissa, exponent = math.frexp(abs(value))
    exponent = max(exponent, -125)
    step = math.ldexp(1.0, exponent - 8)
    rounded = round(abs(value) / step) * step
    return _bits32(math.copysign(rounded, value)) >> 16 if mantissa else 0


def _float_constant(value: float, name: str) -> str:
    if name == "f16":
        return f"0xH{_bits16(value):04X}"
    if name == "bf16":
        return f"0xR{bfloat_bits(value):04X}"
    if name == "f32":
        value = struct.unpack("<f", struct.pack("<I", _bits32(value)))[0]
    return f"0x{_bits64(value):016X}"


def constant(value: int | float | bool, name: str) -> str:
    """A scalar constant of element type `name` as an operand; integers wrap to its width."""
    if name == "bool":
        return "true" if value else "false"
    if name in FLOATS:
        return _float_constant(float(value), name)
    bits = INTEGERS[name]
    wrapped = int(value) & ((1 << bits) - 1)
    return str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)


def quoted(data: bytes) -> str:
    """The inside of a `c"…"` string or of a quoted name."""
    return "".join(chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in data)


def symbol(name: str) -> str:
    """A global name as an operand."""
    return f'@"{quoted(name.encode())}"'


def string_global(name: str, data: bytes) -> str:
    """A NUL-terminated private constant."""
    return f'{name} = private unnamed_addr constant [{len(data) + 1} x i8] c"{quoted(data)}\\00"'

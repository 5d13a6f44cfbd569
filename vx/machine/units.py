"""Exact figures: sizes, rates, clocks and durations as integers of their base unit.

Enters: `ast.Quantity`, the decimal text a person wrote. Leaves: whole bytes, bytes per second or cycle,
hertz, picoseconds. Nothing is rounded: what is not whole in the base unit is refused (`UnitError`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from fractions import Fraction

from vx.diagnostics.span import NOWHERE
from vx.machine.machine import Rate, Reserve
from vx.syntax.ast import Quantity

LIMIT = 2**63 - 1
"""Largest figure accepted, in its base unit."""

SIZES: Mapping[str, int] = {
    "B": 1,
    **{f"{prefix}B": 1000**power for power, prefix in enumerate("KMGTP", 1)},
    **{f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGTP", 1)},
}
CLOCKS: Mapping[str, int] = {"Hz": 1, "kHz": 10**3, "MHz": 10**6, "GHz": 10**9}
DURATIONS_PS: Mapping[str, int] = {"ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12}


class UnitError(Exception):
    """A figure that cannot be taken. `code` is the diagnostic's code, `help` what to write instead."""

    def __init__(self, code: str, message: str, help_text: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.help = help_text


def size(quantity: Quantity) -> int:
    """Bytes of `40 GiB`. Raises `UnitError`."""
    _no_rate(quantity, "a size", "40 GiB")
    return _scaled(quantity, SIZES, "byte", "a size", "40 GiB")


def rate(quantity: Quantity) -> Rate:
    """Bytes per second or cycle of `63 GB/s`, `128 B/cyc`. Raises `UnitError`."""
    if quantity.per not in ("s", "cyc"):
        raise _wrong_kind(quantity, "a rate", "63 GB/s` or `128 B/cyc")
    return Rate(_scaled(quantity, SIZES, "byte", "a rate", "63 GB/s"), quantity.per)


def clock(quantity: Quantity) -> int:
    """Hertz of `1.98 GHz`. Raises `UnitError`."""
    _no_rate(quantity, "a clock", "1.98 GHz")
    return _scaled(quantity, CLOCKS, "hertz", "a clock", "1.98 GHz")


def duration_ps(quantity: Quantity) -> int:
    """Picoseconds of `8 us`. Raises `UnitError`."""
    _no_rate(quantity, "a duration", "8 us")
    return _scaled(quantity, DURATIONS_PS, "picosecond", "a duration", "8 us")


def count(quantity: Quantity) -> int:
    """A plain positive integer such as `132`. Raises `UnitError`."""
    if quantity.unit is not None or quantity.per is not None:
        raise _wrong_kind(quantity, "a plain number", "132")
    return _whole(quantity, 1, "whole number")


def parts_per_million(quantity: Quantity) -> int:
    """Parts per million of a share such as `8%`. Raises `UnitError`."""
    if quantity.unit != "%":
        raise _wrong_kind(quantity, "a share", "8%")
    value = _whole(quantity, 10_000, "millionth")
    if value >= 10**6:
        raise UnitError("E6042", f"`{text(quantity)}` leaves nothing of the capacity", "write less than 100%")
    return value


def reserve(quantity: Quantity) -> Reserve:
    """What `8%` or `2 GiB` keeps free. Raises `UnitError`."""
    if quantity.unit == "%":
        return Reserve(None, parts_per_million(quantity))
    return Reserve(size(quantity), None)


def reserve_of(written: str) -> Reserve:
    """The reserve of a command line, `8%`, `2 GiB` or `2GiB`. Raises `UnitError`."""
    match = re.fullmatch(r"\s*([0-9._]+)\s*([A-Za-z%]*)\s*", written)
    if match is None:
        raise UnitError(
            "E6041", f"`{written}` is not a reserve", "write a share such as `8%` or a size such as `2 GiB`"
        )
    return reserve(Quantity(NOWHERE, match[1], match[2] or None, None))


def text(quantity: Quantity) -> str:
    """The figure as it was written, at most 60 characters of it."""
    space = "" if quantity.unit in (None, "%") else " "
    written = f"{quantity.number}{space}{quantity.unit or ''}" + (f"/{quantity.per}" if quantity.per else "")
    return written if len(written) <= 60 else f"{written[:59]}…"


def size_text(size: int) -> str:
    """A number of bytes in the largest unit of 1024 that it is whole in."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size and size % SIZES[unit] == 0:
            return f"{size // SIZES[unit]} {unit}"
    return f"{size} B"


def _no_rate(quantity: Quantity, what: str, example: str) -> None:
    if quantity.per is not None:
        raise _wrong_kind(quantity, what, example)


def _scaled(quantity: Quantity, units: Mapping[str, int], base: str, what: str, example: str) -> int:
    if quantity.unit is None:
        raise _wrong_kind(quantity, what, example)
    if quantity.unit not in units:
        raise _unknown_unit(quantity, quantity.unit, units, what, example)
    return _whole(quantity, units[quantity.unit], base)


def _whole(quantity: Quantity, scale: int, base: str) -> int:
    written = quantity.number.replace("_", "")
    whole, _, decimals = written.partition(".")
    if not (whole + decimals).isascii() or not (whole + decimals).isdigit():
        raise UnitError(
            "E6040", f"`{text(quantity)}` is not a plain decimal figure", "write digits and at most one `.`"
        )
    if len(written) > 40:
        raise UnitError("E6042", f"`{text(quantity)}` is too large", f"the limit is {LIMIT} of the base unit")
    value = Fraction(int(whole or "0") * 10 ** len(decimals) + int(decimals or "0"), 10 ** len(decimals)) * scale
    if value.denominator != 1:
        raise UnitError(
            "E6040",
            f"`{text(quantity)}` is not a whole number of {base}s",
            f"it is {float(value):.17g}: write a figure that is exact, nothing is rounded here",
        )
    if value > LIMIT:
        raise UnitError("E6042", f"`{text(quantity)}` is too large", f"the limit is {LIMIT} {base}s")
    if value <= 0:
        raise UnitError("E6008", f"`{text(quantity)}` is not positive", "a machine's figures are greater than zero")
    return int(value)


def _wrong_kind(quantity: Quantity, what: str, example: str) -> UnitError:
    return UnitError("E6041", f"`{text(quantity)}` is not {what}", f"write {what} such as `{example}`")


def _unknown_unit(quantity: Quantity, unit: str, units: Mapping[str, int], what: str, example: str) -> UnitError:
    if unit in SIZES or unit in CLOCKS or unit in DURATIONS_PS:
        return _wrong_kind(quantity, what, example)
    known = list(units)
    same = [name for name in known if name.lower() == unit.lower()] or get_close_matches(unit, known, n=1)
    hint = f"did you mean `{same[0]}`? " if same else ""
    return UnitError("E6041", f"unknown unit `{unit}`", f"{hint}units are case-sensitive: {', '.join(known)}")

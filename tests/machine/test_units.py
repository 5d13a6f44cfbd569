"""Figures are exact or refused."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vx.diagnostics.span import NOWHERE
from vx.machine import units
from vx.machine.machine import Rate
from vx.syntax.ast import Quantity


def quantity(number: str, unit: str | None = None, per: str | None = None) -> Quantity:
    return Quantity(NOWHERE, number, unit, per)


@pytest.mark.parametrize(
    ("number", "unit", "expected"),
    [
        ("40", "GiB", 42_949_672_960),
        ("60", "GB", 60_000_000_000),
        ("1.5", "KiB", 1536),
        ("0.001", "KB", 1),
        ("143771", "MiB", 143_771 * 2**20),
    ],
)
def test_size(number: str, unit: str, expected: int) -> None:
    assert units.size(quantity(number, unit)) == expected


@given(st.integers(1, 10**12), st.integers(0, 12), st.sampled_from(sorted(units.SIZES)))
def test_size_is_exact_or_refused(digits: int, decimals: int, unit: str) -> None:
    written = str(digits).rjust(decimals + 1, "0")
    number = f"{written[: len(written) - decimals]}.{written[len(written) - decimals :]}" if decimals else written
    exact = Fraction(digits, 10**decimals) * units.SIZES[unit]
    if exact.denominator == 1 and exact <= units.LIMIT:
        assert units.size(quantity(number, unit)) == exact
    else:
        with pytest.raises(units.UnitError):
            units.size(quantity(number, unit))


@pytest.mark.parametrize(
    ("number", "unit", "code", "says"),
    [
        ("1.1", "KiB", "E6040", "not a whole number of bytes"),
        ("40", "gib", "E6041", "did you mean `GiB`?"),
        ("40", "kB", "E6041", "did you mean `KB`?"),
        ("40", "GHz", "E6041", "not a size"),
        ("40", None, "E6041", "not a size"),
        ("0", "GiB", "E6008", "not positive"),
        ("9223372036854775808", "B", "E6042", "too large"),
        ("9000", "PiB", "E6042", "too large"),
        ("9" * 5000, "B", "E6042", "too large"),
        ("1e3", "B", "E6040", "not a plain decimal figure"),
        ("-1", "B", "E6040", "not a plain decimal figure"),
    ],
)
def test_refused_size(number: str, unit: str | None, code: str, says: str) -> None:
    with pytest.raises(units.UnitError) as refusal:
        units.size(quantity(number, unit))
    assert refusal.value.code == code
    assert says in f"{refusal.value.message} {refusal.value.help}"


def test_rates_clocks_durations() -> None:
    assert units.rate(quantity("3.35", "TB", "s")) == Rate(3_350_000_000_000, "s")
    assert units.rate(quantity("128", "B", "cyc")) == Rate(128, "cyc")
    assert units.clock(quantity("1.98", "GHz")) == 1_980_000_000
    assert units.duration_ps(quantity("8", "us")) == 8_000_000
    assert units.parts_per_million(quantity("8", "%")) == 80_000
    assert units.count(quantity("132")) == 132


def test_a_size_is_not_a_rate() -> None:
    with pytest.raises(units.UnitError, match="not a rate"):
        units.rate(quantity("63", "GB"))
    with pytest.raises(units.UnitError, match="not a size"):
        units.size(quantity("63", "GB", "s"))

"""Programs that compute in regions, against float64: nothing about them is known to the compiler beforehand."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import oracles_control  # noqa: F401 (registers its oracles)
import oracles_placed  # noqa: F401
import pytest
from oracles import ORACLES

import vx

PROGRAMS = Path(__file__).resolve().parent.parent / "programs" / "run"


def numbers(output: str) -> np.ndarray:
    """Every number in what a program printed."""
    return np.array([float(word) for word in re.split(r"[\s\[\],]+", output) if word])


def test_every_program_has_an_oracle() -> None:
    assert {path.stem for path in PROGRAMS.glob("kernel_*.vx")} == set(ORACLES)


@pytest.mark.parametrize("name", sorted(ORACLES))
def test_matches_float64(name: str) -> None:
    result = vx.compile(PROGRAMS / f"{name}.vx").run(timeout=20)
    assert result.status == 0, result.stderr
    wanted, got = np.array(ORACLES[name].numbers()), numbers(result.stdout)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=ORACLES[name].relative, atol=ORACLES[name].absolute)


@pytest.mark.parametrize("name", ["kernel_no_rope", "kernel_reductions", "kernel_structs"])
def test_same_bits_for_any_number_of_threads(name: str) -> None:
    program = vx.compile(PROGRAMS / f"{name}.vx")
    one, three = (program.run(env={"VX_THREADS": count}, timeout=20).output for count in ("1", "3"))
    assert one and one == three


@pytest.mark.parametrize("name", ["kernel_recurrence", "kernel_attention_blocked", "kernel_mixed_dtypes"])
def test_unoptimised_build_matches_too(name: str) -> None:
    result = vx.compile(PROGRAMS / f"{name}.vx", opt_level=0).run(timeout=20)
    oracle = ORACLES[name]
    np.testing.assert_allclose(numbers(result.stdout), oracle.numbers(), rtol=oracle.relative, atol=oracle.absolute)

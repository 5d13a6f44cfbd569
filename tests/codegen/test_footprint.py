"""Footprints against what random regions really touch, and those that let the Llama program overlap its work."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from test_cpu_random import SCALARS, SIZE, Writer

from vx import build
from vx.diagnostics.report import Reporter
from vx.diagnostics.source import SourceMap
from vx.kernels import affine, ir
from vx.kernels.footprint import Range, footprints
from vx.kernels.interpret import interpret
from vx.options import Options

LLAMA = Path(__file__).parents[2] / "programs" / "llama.vx"


class Recorded(list[Any]):
    """A list that notes which elements are read and stored to."""

    def __init__(self, values: list[Any]) -> None:
        super().__init__(values)
        self.read: set[int] = set()
        self.stored: set[int] = set()

    def __getitem__(self, index: Any) -> Any:
        self.read.add(index)
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.stored.add(index)
        super().__setitem__(index, value)


def start_of(part: Range, values: dict[int, int]) -> int:
    """The value of the host scalars' sum; random regions use their scalars as they are."""
    total = part.start.const
    for coefficient, atom in part.start.terms:
        while isinstance(atom, ir.Cast):
            atom = atom.operand
        assert isinstance(atom, ir.Var), atom
        total += coefficient * values[atom.id]
    return total


def test_random_regions_stay_in_their_footprints() -> None:
    ranged = 0
    for seed in range(120):
        made = Writer(random.Random(seed)).region()
        rng = random.Random(seed)
        tensors = [param.buffer for param in made.params if isinstance(param, ir.TensorParam)]
        arrays = [Recorded([rng.randrange(SIZE) for _ in range(SIZE)]) for _ in tensors]
        scalars = [param.var.id for param in made.params if isinstance(param, ir.ScalarParam)]
        values = [value for _, value in SCALARS]
        interpret(made, arrays, values)
        for buffer, array in zip(tensors, arrays, strict=True):
            parts = footprints(made)[buffer]
            if parts is None:
                continue
            ranged += 1
            for touched, written in ((array.read, False), (array.stored, True)):
                covered: set[int] = set()
                for part in parts:
                    if part.written == written:
                        first = start_of(part, dict(zip(scalars, values, strict=True)))
                        covered |= set(range(first + part.low, first + part.high + 1))
                assert touched <= covered, (seed, buffer)
    assert ranged > 40, "the test says something"


def region(name: str) -> tuple[ir.Region, dict[str, tuple[Range, ...] | None]]:
    regions = build.check(str(LLAMA), Options(), SourceMap(), Reporter()).regions
    made = next(found for found in regions if found.name.endswith(name))
    names = {buffer.id: buffer.name for buffer in made.buffers}
    return made, {names[buffer]: parts for buffer, parts in footprints(made).items()}


def test_a_step_reads_one_token_and_stores_the_next() -> None:
    made, parts = region("_step")
    (p,) = (param.var for param in made.params if isinstance(param, ir.ScalarParam) and param.var.name == "p")
    position = affine.of(ir.Cast(p, "i64"))
    assert parts["s.toks"] == (Range(position, 0, 0, False), Range(position, 1, 1, True))
    assert parts["w.emb"] is None, "which row is known on the device only"


@pytest.mark.parametrize("name", ["s.x", "c.k"])
def test_what_depends_on_rows_at_run_time_is_whole(name: str) -> None:
    _, parts = region("_prefill_layer")
    assert parts[name] is None

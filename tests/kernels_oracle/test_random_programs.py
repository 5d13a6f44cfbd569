"""Random programs: what the compiled program prints is what Python computes, and what is called parallel is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from inspect import signature
from pathlib import Path

import numpy as np
import pytest
from random_prelude import PY_PRELUDE
from random_programs import expected, make, program
from random_text import Case

import vx
from vx import build
from vx.diagnostics.report import CompileError, Reporter
from vx.diagnostics.source import SourceMap
from vx.kernels import ir
from vx.kernels.interpret import Interpreter, Number
from vx.options import Options

COMPILED = (range(0, 12), range(100, 112))
LOWERED = range(200, 220)
VIEWED = range(300, 320)


def write(path: Path, cases: Sequence[Case]) -> Path:
    path.write_text(program(cases))
    return path


@pytest.mark.parametrize("seeds", COMPILED, ids=lambda seeds: f"{seeds.start}")
def test_prints_what_python_computes(seeds: range, tmp_path: Path) -> None:
    cases = [make(seed) for seed in seeds]
    result = vx.compile(write(tmp_path / "random.vx", cases)).run(timeout=20)
    assert result.status == 0, result.stderr
    lines = iter(result.stdout.splitlines())
    for case in cases:
        for row in expected(case):
            assert [float(word) for word in next(lines).split()] == row, f"{case.name}:\n{case.vx}"


class Recorder(Interpreter):
    """Runs a region and fails where two iterations of a parallel loop meet in an element that one of them stores."""

    def __init__(self, region: ir.Region) -> None:
        super().__init__(region)
        self.loops: list[Iterations] = []

    def _statement(self, stmt: ir.Stmt) -> None:
        match stmt:
            case ir.Launch(kernel=kernel):
                self.loops.append(Iterations())
                for number, segment in enumerate(self.region.kernels[kernel].segments):
                    self._each(segment.axes, segment.body, (number,))
                self.loops.pop()
            case ir.For(parallel=True):
                self.loops.append(Iterations())
                self._each((ir.Axis(stmt.var, stmt.low, stmt.high),), stmt.body, ())
                self.loops.pop()
            case _:
                super()._statement(stmt)
        if isinstance(stmt, ir.Alloc):
            for loop in self.loops:
                loop.private.add(stmt.buffer)
        elif isinstance(stmt, ir.Store):
            index = self._index(stmt.buffer, stmt.offset)
            assert all(loop.stores(stmt.buffer, index) for loop in self.loops), (
                "stored and touched by another iteration"
            )

    def _each(self, axes: Sequence[ir.Axis], body: Sequence[ir.Stmt], at: tuple[int, ...]) -> None:
        if not axes:
            self.loops[-1].at, self.loops[-1].private = at, set()
            self.run(body)
            return
        for i in range(int(self.value(axes[0].low)), int(self.value(axes[0].high))):
            self.scalars[axes[0].var.id] = i
            self._each(axes[1:], body, (*at, i))

    def value(self, expr: ir.Expr) -> Number:
        if isinstance(expr, ir.Load):
            index = self._index(expr.buffer, expr.offset)
            assert all(loop.loads(expr.buffer, index) for loop in self.loops), "stored by another iteration"
        return super().value(expr)


class Iterations:
    """Who stored to and loaded from which elements in one run of a parallel loop."""

    def __init__(self) -> None:
        self.at: tuple[int, ...] = ()
        self.private: set[ir.BufferId] = set()
        self.stored: dict[tuple[int, int], tuple[int, ...]] = {}
        self.loaded: dict[tuple[int, int], set[tuple[int, ...]]] = {}

    def stores(self, buffer: ir.BufferId, index: int) -> bool:
        if buffer in self.private:
            return True
        loaded = self.loaded.get((buffer, index), set())
        return self.stored.setdefault((buffer, index), self.at) == self.at and loaded <= {self.at}

    def loads(self, buffer: ir.BufferId, index: int) -> bool:
        if buffer in self.private:
            return True
        self.loaded.setdefault((buffer, index), set()).add(self.at)
        return self.stored.get((buffer, index), self.at) == self.at


def started(case: Case) -> dict[str, list[Number]]:
    """The tensors of a case before its regions, flat, and its scalars as lists of one number."""
    space: dict[str, object] = {}
    exec(PY_PRELUDE, space)
    known = set(space)
    exec("\n".join(case.starts), space)
    values = {name: np.asarray(value) for name, value in space.items() if name not in known}
    return {name: [x.item() for x in value.reshape(-1)] for name, value in values.items()}


def test_parallel_loops_do_not_race(tmp_path: Path) -> None:
    for case in (make(seed, "plain") for seed in LOWERED):
        path = write(tmp_path / f"{case.name}.vx", [case])
        checked = build.check(str(path), Options(), SourceMap(), Reporter())
        values = started(case)
        for region in checked.regions:
            run(Recorder(region), values)
        printed = [[float(x) for x in row] for name, row in values.items() if name[0] in "aph"]
        assert printed == expected(case), case.vx


def run(state: Recorder, values: dict[str, list[Number]]) -> None:
    """Run a region on named values, which it may change."""
    names = {buffer.id: buffer.name for buffer in state.region.buffers}
    for param in state.region.params:
        if isinstance(param, ir.TensorParam):
            state.buffers[param.buffer] = values[names[param.buffer]]
        else:
            state.scalars[param.var.id] = values[param.var.name][0]
    state.run(state.region.body)
    for param in state.region.params:
        if isinstance(param, ir.ScalarParam) and param.out:
            values[param.var.name][0] = state.scalars[param.var.id]


def test_parallel_loops_over_views_do_not_race(tmp_path: Path) -> None:
    for case in (make(seed, "views") for seed in VIEWED):
        path = write(tmp_path / f"{case.name}.vx", [case])
        try:
            regions = build.check(str(path), Options(), SourceMap(), Reporter()).regions
        except CompileError as error:
            assert "known size" in str(error.diagnostics), case.vx
            continue
        space: dict[str, object] = {}
        exec(PY_PRELUDE + case.py, space)
        for region in regions:
            name = region.name.split("_", 3)[3]
            if name in space:
                space[name] = partial(run_on_views, region, list(signature(space[name]).parameters))  # type: ignore[arg-type]
        printed = [[float(x) for x in a.reshape(-1)] for a in space[case.name]()]  # type: ignore[operator]
        assert printed == expected(case), case.vx


class Memory(Sequence[Number]):
    """The elements of an array as they lie in memory, from its first one on."""

    def __init__(self, array: np.ndarray) -> None:
        sizes = zip(array.shape, array.strides, strict=True)
        length = 1 + sum((extent - 1) * stride // array.itemsize for extent, stride in sizes)
        self.flat = np.lib.stride_tricks.as_strided(array, (length,), (array.itemsize,))

    def __len__(self) -> int:
        return len(self.flat)

    def __getitem__(self, index: int) -> Number:  # type: ignore[override]
        return self.flat[index].item()  # type: ignore[no-any-return]

    def __setitem__(self, index: int, value: Number) -> None:
        self.flat[index] = value


def run_on_views(region: ir.Region, names: Sequence[str], *args: np.ndarray | int) -> None:
    """Run the region of a function on what the function is called with."""
    state, given = Recorder(region), dict(zip(names, args, strict=True))
    buffers = {buffer.id: buffer.name for buffer in region.buffers}
    for param in region.params:
        if isinstance(param, ir.TensorParam):
            state.buffers[param.buffer] = Memory(given[buffers[param.buffer]])  # type: ignore[assignment, arg-type]
            continue
        name, _, what = param.var.name.partition(".")
        found = given[name]
        if isinstance(found, np.ndarray):
            axis = int(what[6:])
            found = found.shape[axis] if what.startswith("extent") else found.strides[axis] // found.itemsize
        state.scalars[param.var.id] = found
    state.run(region.body)

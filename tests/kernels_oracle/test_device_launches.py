"""Launches of random programs compute what their regions do, each program of a launch from the block and the arguments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from random_programs import make, program

from vx import build
from vx.diagnostics.report import Reporter
from vx.diagnostics.source import SourceMap
from vx.kernels import device, ir
from vx.kernels.device_form import device_region
from vx.kernels.interpret import Interpreter, Number, Stopped
from vx.options import Options


def regions(path: Path) -> list[ir.Region]:
    return list(build.check(str(path), Options(), SourceMap(), Reporter()).regions)


class Launched(Interpreter):
    """Runs a region's launches as a device would."""

    def __init__(self, original: ir.Region, region: device.Region) -> None:
        super().__init__(original)
        self._lengths = {b.id: b.length or 0 for b in region.buffers}
        self._elems = {b.id: b.elem for b in region.buffers}
        self.device = region
        self.issued: set[ir.VarId] = set()

    def issue(self, body: Sequence[device.Step]) -> None:
        for step in body:
            match step:
                case device.Check(cond=cond, message=message):
                    if not self.value(cond):
                        raise Stopped(message)
                case device.Let(var=var, value=value):
                    self.scalars[var.id] = self.value(value)
                case device.If(cond=cond, then=then, orelse=orelse):
                    self.issue(then if self.value(cond) else orelse)
                case device.For(var=var, low=low, high=high, body=inner):
                    for i in range(int(self.value(low)), int(self.value(high))):
                        self.scalars[var.id] = i
                        self.issue(inner)
                case device.Launch():
                    self._launch(step)

    def _launch(self, step: device.Launch) -> None:
        """Every program starts from the block and the arguments alone."""
        kernel, host = self.device.kernels[step.kernel], self.scalars
        own: dict[ir.VarId, Number] = {}
        for number in kernel.block:
            var = self.device.block[number].var
            own[var.id] = host[var.id]
        for var, value in zip(kernel.arguments, step.arguments, strict=True):
            own[var.id] = self.value(value)
        for part in kernel.parts:
            self.scalars = dict(own)
            self.run(kernel.prelude)
            self._axes([ir.Axis(a.var, a.low, a.high) for a in part.axes], part.body)
        self.scalars = host


@pytest.mark.parametrize("seed", range(300, 316))
def test_launches_compute_what_the_region_does(seed: int, tmp_path: Path) -> None:
    (tmp_path / "r.vx").write_text(program([make(seed)]))
    for region in regions(tmp_path / "r.vx"):
        if any(isinstance(p, ir.ScalarParam) for p in region.params):
            continue
        lengths = {b.id: b.length or 4096 for b in region.buffers}
        results = []
        for launched in (False, True):
            made = device_region(region)
            state = Launched(region, made)
            for b in made.buffers:
                if b.kind == "param":
                    state.buffers[b.id] = [(i * 7 + b.id) % 5 for i in range(lengths.get(b.id, 1))]
                elif b.kind == "scratch":
                    state._statement(ir.Alloc(b.id))
            try:
                state.issue(made.body) if launched else state.run(region.body)
                ended = None
            except Stopped as stopped:
                ended = str(stopped)
            results.append(
                (
                    ended,
                    [] if ended else [state.buffers[p.buffer] for p in region.params if isinstance(p, ir.TensorParam)],
                )
            )
        assert repr(results[0]) == repr(results[1]), region.name

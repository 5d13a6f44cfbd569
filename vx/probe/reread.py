"""What a machine file predicts while it is made: it is written and read as any other."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from vx.codegen.cache import writing
from vx.diagnostics.report import Reporter
from vx.diagnostics.source import SourceMap
from vx.machine.cost import Cost
from vx.machine.load import load_machine
from vx.machine.machine import Machine


def reread(text: str) -> Machine:
    """The machine of a file with this text, with the default host. Raises `CompileError` if the text is wrong."""
    with tempfile.TemporaryDirectory(prefix="vx-probe-") as folder:
        path, reporter = Path(folder) / "machine.vx", Reporter()
        with writing(path):
            path.write_text(text, encoding="utf-8")
        machine = load_machine(path, "default", reporter, SourceMap())
        reporter.abort_if_errors()
    return machine


def picoseconds(costs: Iterable[Cost | None]) -> list[int]:
    """The amounts of costs that measured tables give."""
    found = list(costs)
    assert all(cost is not None and cost.unit == "ps" and cost.measured for cost in found)
    return [cost.amount for cost in found if cost is not None]

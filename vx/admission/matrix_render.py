"""A matrix as a table for people, as CSV and as JSON; `matrix_html.py` draws it.

Enters: a `Matrix`. Leaves: text. Bytes are exact in CSV and JSON; the table has GiB, and bytes where a margin is so
small that GiB would hide its sign.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath

from vx.admission.matrix import Cell, Matrix
from vx.admission.plan import Verdict
from vx.diagnostics.render import encodable

GIB = 2**30
SCHEMA = "vx-admission-matrix-v1"
_MARKS = {Verdict.ADMITTED.value: "✓", Verdict.REJECTED.value: "✗"}
_COLUMN = 13


# ---- figures for people ------------------------------------------------------------------------
def amount(count: int) -> str:
    """Bytes in the largest binary unit that leaves at least 1: `15.49 GiB`, `-1 B`."""
    scale, unit = next(((2**bits, unit) for bits, unit in _UNITS if abs(count) >= 2**bits), (1, "B"))
    return f"{count} B" if scale == 1 else f"{count / scale:.2f}".rstrip("0").rstrip(".") + f" {unit}"


_UNITS = ((50, "PiB"), (40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB"))


def gib(margin: int) -> str:
    """A margin in GiB with its sign; in bytes where that would be zero and the margin is not."""
    text = f"{margin / GIB:+.2f}"
    return f"{margin:+d} B" if margin and float(text) == 0 else text


def short_names(matrix: Matrix) -> dict[str, str]:
    """The machines' names for the heads of columns: without folders, unless that makes two alike."""
    names = list(matrix.table.machines)
    stems = [PurePath(name).stem for name in names]
    return dict(zip(names, stems if len(set(stems)) == len(names) else names, strict=True))


def heading(matrix: Matrix) -> str:
    """What was evaluated."""
    rows, machines = len(matrix.table.configurations), len(matrix.table.machines)
    reserve = f", reserve {matrix.reserve}" if matrix.reserve else ""
    program = os.path.basename(matrix.table.program)
    return (
        f"{matrix.table.name}: {program} in {rows} configuration{'s' * (rows != 1)} on {machines} "
        f"machine{'s' * (machines != 1)}, host {matrix.table.host}{reserve}"
    )


def counted(counts: Mapping[str, int]) -> str:
    """`67 admitted, 23 rejected, 0 unverified`."""
    return ", ".join(f"{number} {verdict}" for verdict, number in counts.items())


# ---- the table ---------------------------------------------------------------------------------
def render_table(matrix: Matrix) -> str:
    """Margins by configuration and machine, counts, and what differs from the other table."""
    return "\n".join(_lines(matrix)) + "\n"


def _lines(matrix: Matrix) -> Iterator[str]:
    yield heading(matrix)
    yield ""
    keeps = any(cell.answer.tightest and cell.answer.tightest.reserve for cell in matrix.cells)
    yield f"Device fit: {counted(matrix.device_counts)}. What is left of the device, in GiB:"
    yield from _grid(matrix, lambda cell: (cell.device_verdict, cell.device_margin))
    if keeps:
        yield ""
        yield f"Deployment fit: {counted(matrix.counts)}. What is left when the reserve is kept, in GiB:"
        yield from _grid(matrix, lambda cell: (cell.verdict, cell.margin))
    yield from _differences(matrix)


def _grid(matrix: Matrix, of: Callable[[Cell], tuple[str, int | None]]) -> Iterator[str]:
    width = max(len(row.name) for row in matrix.table.configurations)
    heads = "".join(f"{name:>{_COLUMN}}" for name in short_names(matrix).values())
    yield f"{'':<{width}}{'needed':>10}{heads}"
    for configuration in matrix.table.configurations:
        cells = matrix.row(configuration)
        needed = max((cell.required for cell in cells if cell.required is not None), default=None)
        texts = "".join(f"{_shown(*of(cell)):>{_COLUMN}}" for cell in cells)
        yield f"{configuration.name:<{width}}{'' if needed is None else f'{needed / GIB:.2f}':>10}{texts}"


def _shown(verdict: str, margin: int | None) -> str:
    mark = _MARKS.get(verdict)
    if mark is None:
        return verdict
    return f"{mark} {verdict if margin is None else gib(margin)}"


def _differences(matrix: Matrix) -> Iterator[str]:
    if matrix.other is None:
        return
    found = list(matrix.differences())
    yield ""
    yield f"{len(found)} verdict{'s differ' if len(found) != 1 else ' differs'} from {matrix.other.table.name}:"
    for mine, their in found:
        kept = "" if mine.available == mine.capacity else f", {mine.available} when the reserve is kept"
        yield f"  {mine.configuration.name} on {mine.machine}: {mine.capacity} bytes{kept}"
        for name, cell in ((matrix.table.name, mine), (matrix.other.table.name, their)):
            deployment = f", for deployment {cell.verdict}" if kept else ""
            yield f"    {name:<10} needs {cell.required} bytes: {cell.device_verdict}{deployment}"


# ---- CSV and JSON ------------------------------------------------------------------------------
def render_csv(matrix: Matrix) -> str:
    """One line for each cell, with a head; fields that do not apply are empty."""
    out = io.StringIO()
    rows = [_record(cell) for cell in matrix.cells]
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def render_json(matrix: Matrix) -> str:
    """The matrix as data: `SCHEMA`."""
    data: dict[str, object] = {
        "schema": SCHEMA,
        "table": matrix.table.name,
        "program": matrix.table.program,
        "host": matrix.table.host,
        "reserve": matrix.reserve,
        "counts": matrix.counts,
        "device_counts": matrix.device_counts,
        "cells": [_record(cell) for cell in matrix.cells],
    }
    if matrix.other is not None:
        data["compared_with"] = matrix.other.table.name
        data["differences"] = [{**_record(mine), "other": _record(their)} for mine, their in matrix.differences()]
    return encodable(json.dumps(data, indent=2, ensure_ascii=False)) + "\n"


def _record(cell: Cell) -> dict[str, object]:
    configuration, arena = cell.configuration, cell.arena
    return {
        "configuration": configuration.name,
        "model": configuration.model,
        "context": configuration.context,
        "batch": configuration.batch,
        "tp": configuration.tp,
        "machine": cell.machine,
        "verdict": cell.verdict,
        "required_bytes": cell.required,
        "available_bytes": cell.available,
        "margin_bytes": cell.margin,
        "device_verdict": cell.device_verdict,
        "capacity_bytes": cell.capacity,
        "device_margin_bytes": cell.device_margin,
        "space": arena.bank.space if arena else None,
        "instance": arena.bank.instance if arena else None,
        "codes": " ".join(dict.fromkeys(found.code for found in cell.answer.errors)),
    }

"""What a measured machine file says beyond a declared one: when and on what, and what transfers took.

Enters: `ast.MeasuredDecl`, `ast.MeasuredTable`. Leaves: a `Measurement`, a `Table`, or errors E6060 and E6061.
Figures of a file with a `Measured` declaration are measured, all others declared; both may meet in one machine,
where each keeps its origin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise

from vx.diagnostics.report import Reporter
from vx.machine import units
from vx.machine.machine import Measurement, Table
from vx.syntax import ast

LEAST_POINTS = 5
"""Sizes that a table needs at least: fewer say nothing about the shape between them."""

_NEEDED = ("date", "part", "driver", "tool")


def measurement_of(module: ast.Module, reporter: Reporter) -> Measurement | None:
    """What the `Measured` declaration of a machine file says; None if it has none, or no right one."""
    decls = [item for item in module.items if isinstance(item, ast.MeasuredDecl)]
    if not decls:
        _refuse_tables(module, reporter)
        return None
    for again in decls[1:]:
        reporter.error(
            "E6060",
            "a file says twice what was measured",
            again.span,
            labels=[(decls[0].span, "first said here")],
            helps=["keep one `Measured`; figures of two measurements are two files, and one imports the other"],
        )
    return _measurement(decls[0], reporter)


def table_of(table: ast.MeasuredTable, reporter: Reporter) -> Table | None:
    """The points of a `measured […]`; None, with errors, if they are not those of a transfer."""
    points = tuple(_points(table, reporter))
    if len(points) < len(table.points):
        return None
    found = _fault(points, table)
    if found is None:
        return Table(points)
    message, at = found
    reporter.error(
        "E6061",
        message,
        at.span,
        helps=["a table has at least five sizes, growing; times never fall, and the last is above the one before it"],
    )
    return None


def _refuse_tables(module: ast.Module, reporter: Reporter) -> None:
    for item in module.items:
        for table in _tables(item) if isinstance(item, ast.TopologyDecl) else ():
            reporter.error(
                "E6060",
                "a measured table in a file that does not say when and on what it was measured",
                table.span,
                helps=['add `Measured { date: "…", part: "…", driver: "…", tool: "…" }` to this file'],
            )


def _tables(topology: ast.TopologyDecl) -> Iterator[ast.MeasuredTable]:
    yield from (field.value for field in topology.fields if isinstance(field.value, ast.MeasuredTable))
    yield from (edge.table for edge in topology.edges if edge.table is not None)


def _measurement(decl: ast.MeasuredDecl, reporter: Reporter) -> Measurement | None:
    said: dict[str, str] = {}
    for field in decl.fields:
        if field.name in said:
            reporter.error("E6043", f"`Measured` gives `{field.name}` twice", field.span, helps=["keep one of them"])
        said[field.name] = str(field.value)
    missing = [name for name in _NEEDED if not said.get(name, "").strip()]
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        reporter.error(
            "E6060",
            f"`Measured` does not give {names}",
            decl.span,
            helps=["date, part (the device or processor), driver and tool say what a figure stands for"],
        )
        return None
    if not _is_date(said["date"]):
        at = next(field.span for field in decl.fields if field.name == "date")
        reporter.error("E6060", f'"{said["date"]}" is not a date', at, helps=['write it as in "2026-11-29T23:10:02Z"'])
        return None
    return Measurement(
        said["date"], said["part"], said["driver"], said["tool"], said.get("uuid"), said.get("network"), decl.span
    )


def _is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _points(table: ast.MeasuredTable, reporter: Reporter) -> Iterator[tuple[int, int]]:
    for size, time in table.points:
        size_bytes, time_ps = _figure(size, units.size, reporter), _figure(time, units.duration_ps, reporter)
        if size_bytes is not None and time_ps is not None:
            yield size_bytes, time_ps


def _figure(quantity: ast.Quantity, read: Callable[[ast.Quantity], int], reporter: Reporter) -> int | None:
    try:
        return read(quantity)
    except units.UnitError as error:
        reporter.error(error.code, error.message, quantity.span, helps=[error.help])
        return None


def _fault(points: Sequence[tuple[int, int]], table: ast.MeasuredTable) -> tuple[str, ast.Node] | None:
    """What is wrong with a table's points, and where."""
    if len(points) < LEAST_POINTS:
        return f"a table of {len(points)} sizes", table
    for number, ((size, time), (next_size, next_time)) in enumerate(pairwise(points), 1):
        at_size, at_time = table.points[number]
        if next_size <= size:
            return f"the size `{units.text(at_size)}` is not above the one before it", at_size
        if next_time < time:
            return f"`{units.text(at_size)}` takes less time than a smaller size", at_time
    if points[-1][1] == points[-2][1]:
        return "the last two sizes take the same time, so nothing is said about larger ones", table.points[-1][1]
    return None

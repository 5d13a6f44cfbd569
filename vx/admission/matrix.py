"""The matrix: every configuration of a table on each of its machines.

Enters: a `Table`. Leaves: a `Matrix` of cells. Each cell is the answer to a compilation of its own: the program and the
machine file are read, checked and admitted anew, and there is no other way to a figure. What is `tightest` in an
answer is what a cell states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from vx.admission.matrix_table import Configuration, Table
from vx.admission.plan import Arena, Verdict
from vx.admission.roles import Answer, answer, role_names
from vx.diagnostics.report import CompileError, Diagnostic, Level, Reporter
from vx.diagnostics.source import SourceMap
from vx.options import Options

NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
class Cell:
    """One configuration on one machine. Bytes are those of the memory that has the least left; None where there is
    no capacity to compare with, or how much is needed is not known."""

    configuration: Configuration
    machine: str
    answer: Answer

    @property
    def verdict(self) -> str:
        """With the reserve kept."""
        return verdict_text(self.answer.verdict)

    @property
    def device_verdict(self) -> str:
        """Without a reserve."""
        return verdict_text(self.answer.device_verdict)

    @property
    def arena(self) -> Arena | None:
        return self.answer.tightest

    @property
    def required(self) -> int | None:
        return self.arena.bytes if self.arena is not None else None

    @property
    def capacity(self) -> int | None:
        return self.arena.capacity if self.arena is not None else None

    @property
    def available(self) -> int | None:
        """The capacity less the reserve."""
        arena = self.arena
        return None if arena is None or arena.capacity is None else arena.capacity - arena.reserve

    @property
    def margin(self) -> int | None:
        """`available` less `required`."""
        return self.arena.deployment_margin if self.arena is not None else None

    @property
    def device_margin(self) -> int | None:
        return self.arena.device_margin if self.arena is not None else None


@dataclass(frozen=True, slots=True)
class Matrix:
    """The cells of a table, row by row, and those of the table that it is compared with."""

    table: Table
    reserve: str | None
    cells: tuple[Cell, ...]
    other: Matrix | None = None

    @property
    def counts(self) -> dict[str, int]:
        """How many cells have each verdict; *not applicable* only if there are any."""
        return _counts(cell.verdict for cell in self.cells)

    @property
    def device_counts(self) -> dict[str, int]:
        return _counts(cell.device_verdict for cell in self.cells)

    def row(self, configuration: Configuration) -> tuple[Cell, ...]:
        """The cells of one configuration, in the order of the machines."""
        return tuple(cell for cell in self.cells if cell.configuration is configuration)

    def differences(self) -> Iterator[tuple[Cell, Cell]]:
        """Cells whose verdict, with or without the reserve, is another one in the other table, with that cell."""
        theirs = {(cell.configuration.label, cell.machine): cell for cell in self.other.cells} if self.other else {}
        for mine in self.cells:
            their = theirs.get((mine.configuration.label, mine.machine))
            if their is not None and _verdicts(mine) != _verdicts(their):
                yield mine, their


def verdict_text(verdict: Verdict | None) -> str:
    return NOT_APPLICABLE if verdict is None else verdict.value


def _verdicts(cell: Cell) -> tuple[str, str]:
    return cell.verdict, cell.device_verdict


def _counts(verdicts: Iterator[str]) -> dict[str, int]:
    return {**{verdict.value: 0 for verdict in Verdict}, **Counter(verdicts)}


def evaluate(table: Table, reserve: str | None, sources: SourceMap) -> Matrix:
    """Compile the table's program once for each cell.

    Raises `CompileError` if a machine file is refused, or the program for another reason than its placement; its
    diagnostics name the cell, and the texts that they point into are in `sources`.
    """
    cells = []
    role = _role(table, sources)
    for configuration in table.configurations:
        for name, path in table.machines.items():
            options = Options(
                machine=path,
                host=table.host,
                model=configuration.directory,
                consts=configuration.consts,
                reserve=reserve,
            )
            cells.append(Cell(configuration, name, _answer(table.program, options, role, configuration, name, sources)))
    return Matrix(table, reserve, tuple(cells))


def _role(table: Table, sources: SourceMap) -> str:
    names = role_names(table.program, sources, Reporter())
    role = table.role or (names[0] if len(names) == 1 else None)
    if role not in names:
        raise table.refuse_role(names)
    return role


def _answer(
    program: str, options: Options, role: str, configuration: Configuration, machine: str, sources: SourceMap
) -> Answer:
    try:
        return answer(program, options, role, sources)
    except CompileError as error:
        note = f"in configuration {configuration.name} on {machine}"
        raise CompileError(_noted(found, note) for found in error.diagnostics) from error


def _noted(found: Diagnostic, note: str) -> Diagnostic:
    return replace(found, notes=(*found.notes, note)) if found.level is Level.ERROR else found

"""Checking pieces of source against the text of a machine file, for the tests of placement."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vx.diagnostics.report import Diagnostic, Level, Reporter
from vx.diagnostics.source import SourceMap
from vx.machine.load import load_machine
from vx.sema import tree
from vx.sema.check import check_program


def checked(
    path: Path,
    source: str,
    machine: str | Path | None,
    roles: Sequence[str] | None = None,
    host: str | None = "default",
) -> tuple[tree.Program | None, tuple[Diagnostic, ...], SourceMap]:
    """The program (statements become the body of `main`), what was reported, and the texts. `machine` is the text
    of a machine file, the path of one, or None for the generic machine."""
    file, described = path / "case.vx", path / "machine.vx"
    whole = source if "fn main" in source else f"fn main() -> i32 {{\n{source}\n  0\n}}\n"
    file.write_text(whole, encoding="utf-8")
    if isinstance(machine, str):
        described.write_text(machine, encoding="utf-8")
    named = described if isinstance(machine, str) else machine
    sources, reporter = SourceMap(), Reporter()
    loaded = load_machine(named, host, reporter, sources, "x86_64")
    assert not reporter.has_errors, reporter.diagnostics
    asked = None if roles is None else tuple(roles)
    program = check_program(
        str(file), machine=loaded, model=None, consts={}, reporter=reporter, sources=sources, roles=asked
    )
    assert (program is None) == reporter.has_errors
    return program, reporter.diagnostics, sources


def errors(
    path: Path,
    source: str,
    machine: str | Path | None,
    roles: Sequence[str] | None = None,
    host: str | None = "default",
) -> list[tuple[int, str]]:
    """Line and code of every error."""
    _, found, sources = checked(path, source, machine, roles, host)
    return [(sources.line_col(item.span)[0], item.code) for item in found if item.level is Level.ERROR]


def warnings(path: Path, source: str, machine: str | Path | None, host: str | None = "default") -> list[str]:
    """The codes of all warnings but those of unused variables."""
    _, found, _ = checked(path, source, machine, None, host)
    return [item.code for item in found if item.level is Level.WARNING and item.code not in ("W1001", "W1009")]


def messages(path: Path, source: str, machine: str | Path | None, host: str | None = "default") -> list[str]:
    """Everything said in each error: message, notes and helps."""
    _, found, _ = checked(path, source, machine, None, host)
    refused = [item for item in found if item.level is Level.ERROR]
    return ["\n".join([item.message, *item.notes, *(help_.text for help_ in item.helps)]) for item in refused]

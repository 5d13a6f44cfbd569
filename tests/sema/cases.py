"""Checking pieces of source, with the diagnostics written beside the lines that cause them.

`//! E3001` at the end of a line: exactly this error starts in this line; `//! W1001` a warning, for which
`warnings=True` must be asked. Lines without it have none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from vx.diagnostics.report import Diagnostic, Level, Reporter
from vx.diagnostics.source import SourceMap
from vx.machine.load import load_machine
from vx.model.info import ModelInfo
from vx.sema import tree
from vx.sema.check import check_program
from vx.sema.dump import dump_program

FILE = "case.vx"


def checked(
    path: Path,
    source: str,
    *,
    machine: str | None = None,
    consts: Mapping[str, str] | None = None,
    model: ModelInfo | None = None,
) -> tuple[tree.Program | None, tuple[Diagnostic, ...], SourceMap]:
    """The program of `source` (and of the machine file's text), what was reported, and the texts."""
    file = path / FILE
    file.write_text(source, encoding="utf-8")
    machine_file = None
    if machine is not None:
        machine_file = path / "machine.vx"
        machine_file.write_text(machine, encoding="utf-8")
    sources, reporter = SourceMap(), Reporter()
    loaded = load_machine(machine_file, "default", reporter, sources, "x86_64")
    assert not reporter.has_errors, reporter.diagnostics
    program = check_program(
        str(file), machine=loaded, model=model, consts=consts or {}, reporter=reporter, sources=sources
    )
    assert (program is None) == reporter.has_errors
    return program, reporter.diagnostics, sources


def whole(source: str) -> str:
    """The source as a complete program: statements become the body of `main`."""
    return source if "fn main" in source else f"fn main() -> i32 {{\n{source}\n  0\n}}\n"


def expect(path: Path, source: str, *, machine: str | None = None, warnings: bool = False) -> None:
    """Check that `source` raises exactly the diagnostics noted in it."""
    text = whole(source)
    _, found, sources = checked(path, text, machine=machine)
    kept = [d for d in found if d.level is Level.ERROR or warnings]
    got = sorted((sources.line_col(d.span)[0], d.code) for d in kept)
    wanted = [
        (number, code)
        for number, line in enumerate(text.splitlines(), 1)
        for code in re.findall(r"[EW]\d{4}", line.partition("//!")[2])
    ]
    assert got == sorted(wanted), [f"{sources.line_col(d.span)} {d.code} {d.message}" for d in kept]


def accepted(path: Path, source: str, *, machine: str | None = None) -> tree.Program:
    """The program of `source`, which must have no errors."""
    program, found, sources = checked(path, whole(source), machine=machine)
    assert program is not None, [f"{sources.line_col(d.span)} {d.code} {d.message}" for d in found]
    return program


def dumped(path: Path, source: str, function: str = "main", *, machine: str | None = None) -> str:
    """The text of one function of the program of `source`."""
    text = dump_program(accepted(path, source, machine=machine))
    start = re.search(rf"^(?:role )?fn {re.escape(function)}\(", text, re.MULTILINE)
    assert start is not None, text
    end = text.index("\n}\n", start.start())
    return text[start.start() : end + 2]

"""The record of a check for commands that keep no Plans: a check that refuses, or a build that was found in the cache.

Enters: what the command was told and what it found. Leaves: a `Check` for `vx.admission.record`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vx import build
from vx.cli.output import write_output
from vx.diagnostics.report import CompileError, Diagnostic, Reporter
from vx.diagnostics.source import SourceMap
from vx.options import Options

if TYPE_CHECKING:
    from vx.admission.record import Check
    from vx.machine.machine import Machine


def examined(file: str, options: Options, diagnostics: Sequence[Diagnostic], sources: SourceMap) -> Check:
    """The check of `file` that found `diagnostics`, with the Plans of its roles as far as they can be made."""
    from vx.admission.record import Check

    reporter = Reporter()
    try:
        typed = build.type_check(file, options, sources, reporter)
        plans = build.admit_roles(typed, options, reporter)
    except CompileError:
        return Check(file, options.machine, diagnostics, sources, _machine(options, sources))
    return Check(file, options.machine, diagnostics, sources, typed.machine, typed.program, plans)


def write_record(path: str, check: Check) -> None:
    """Write the record of a check to a file, or to stdout for `-`. Raises E9021, E9022 if it cannot be written."""
    from vx.admission.record import admission_record

    text = admission_record(check)
    if path == "-":
        print(text, end="")
        return
    write_output(path, text)


def _machine(options: Options, sources: SourceMap) -> Machine | None:
    """The machine of a program that was refused; None if it is the machine that is wrong."""
    from vx.machine.load import load_machine

    reporter = Reporter()
    try:
        machine = load_machine(options.machine, options.host, reporter, sources)
    except CompileError:
        return None
    return None if reporter.has_errors else machine

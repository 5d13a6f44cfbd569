"""`vx check`: whether a program is right, without building it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from vx.cli.options import (
    ConstOpt,
    HostOpt,
    MachineOpt,
    ModelOpt,
    ProgramArg,
    ReserveOpt,
    RolesOpt,
    TargetOpt,
    options_of,
)
from vx.cli.report import Session
from vx.diagnostics.report import Diagnostic
from vx.diagnostics.source import SourceMap
from vx.options import Options


class Format(StrEnum):
    """How diagnostics are printed."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


def check(
    program: ProgramArg,
    format_: Annotated[
        Format, typer.Option("--format", metavar="text|json|sarif", help="How to print what was found.")
    ] = Format.TEXT,
    pedantic: Annotated[
        bool, typer.Option("--pedantic", help="Report also casts that widen, narrow or change nothing.")
    ] = False,
    model: ModelOpt = None,
    machine: MachineOpt = None,
    host: HostOpt = None,
    const: ConstOpt = None,
    target: TargetOpt = None,
    roles: RolesOpt = None,
    reserve: ReserveOpt = None,
    record: Annotated[
        str | None,
        typer.Option("--diagnostics-json", metavar="PATH", help="Write the record of the check; `-` is stdout."),
    ] = None,
) -> None:
    """Check a program and report everything found. Exit status 1 if there is an error.

    Examples:

        vx check program.vx

        vx check program.vx --machine machine.vx --host default

        vx check program.vx --format sarif > findings.sarif
    """
    from vx.build import check as check_program

    options = options_of(model, machine, host, const, target=target, roles=roles, reserve=reserve)
    with Session(format_.value, pedantic) as session:
        session.record = None if record is None else partial(_write_record, record, program, options, session)
        session.properties = lambda found: _properties(program, options, found, session.sources)
        check_program(program, options, session.sources, session.reporter)
        session.show(session.reporter.diagnostics)


def _write_record(path: str, file: str, options: Options, session: Session, found: Sequence[Diagnostic]) -> None:
    from vx.cli.record import examined, write_record

    write_record(path, examined(file, options, found, session.sources))


def _properties(file: str, options: Options, found: Sequence[Diagnostic], sources: SourceMap) -> Mapping[str, object]:
    """The verdict and margins of a check."""
    from vx.admission.record import summary
    from vx.cli.record import examined

    return summary(examined(file, options, found, sources))

"""`vx admit`: which roles of a program fit which machines, and `vx admit matrix`: a table of configurations."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from vx.cli.guard import ERRORS
from vx.cli.options import ConstOpt, HostOpt, ModelOpt, ProgramArg, ReserveOpt, options_of
from vx.cli.output import print_text, write_output
from vx.cli.report import Session, wants_colour

if TYPE_CHECKING:
    from vx.admission.matrix import Matrix
    from vx.admission.roles import Answer


class Format(StrEnum):
    """How verdicts are printed."""

    TEXT = "text"
    JSON = "json"


class MatrixFormat(StrEnum):
    """How a matrix is printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    HTML = "html"


def admit(
    program: ProgramArg,
    machine: Annotated[
        list[str],
        typer.Option("--machine", metavar="FILE", help="A machine file, or one of the fleet by name. Repeatable."),
    ],
    role: Annotated[
        list[str] | None,
        typer.Option("--role", metavar="ROLE", help="A role of the program; without it: all. Repeatable."),
    ] = None,
    host: HostOpt = None,
    model: ModelOpt = None,
    const: ConstOpt = None,
    reserve: ReserveOpt = None,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Itemise what each memory holds.")] = False,
    format_: Annotated[
        Format, typer.Option("--format", metavar="text|json", help="How to print the verdicts.")
    ] = Format.TEXT,
) -> None:
    """Say which roles of a program fit which machines.

    One verdict for each role and machine, with the margins: admitted, rejected, unverified (some extent has no
    bound) or not applicable (the machine has no such device). Exit status 0 only if all that was asked for is
    admitted; a role that is not applicable is no failure unless --role names it, as long as the machine admits
    another. Without --host the host is `default`: its memory is there, and not described.

    Examples:

        vx admit programs/admit.vx --machine a100-80 --machine h200 --reserve 8%

        vx admit programs/llama.vx --model stories15M --machine h200 --role single -v

        vx admit programs/admit.vx --machine mine.vx --const CTX=131072 --format json
    """
    from dataclasses import replace

    from vx.admission.roles import admitted, answer, role_names
    from vx.admission.roles_render import render_data, render_text

    _check_machines(machine)
    options = options_of(model, None, host or "default", const, reserve=reserve)
    with Session() as session:
        names = _chosen(role_names(program, session.sources, session.reporter), role)
        answers = tuple(
            answer(program, replace(options, machine=one), name, session.sources) for one in machine for name in names
        )
        fine = admitted(answers, named=role is not None)
        if format_ is Format.JSON:
            print(render_data(program, options.host or "", reserve, answers, fine), end="")
        else:
            kept = f", reserve {reserve}" if reserve else ""
            print_text(f"{program}, host {options.host}{kept}\n\n{render_text(answers, verbose)}")
            _show_refusals(answers)
    if not fine:
        raise typer.Exit(ERRORS)


def matrix(
    table: Annotated[
        str,
        typer.Option(
            "--table", metavar="published|exact|FILE", help="The configurations: a table that ships or a file."
        ),
    ],
    reserve: ReserveOpt = None,
    format_: Annotated[
        MatrixFormat, typer.Option("--format", metavar="table|csv|json|html", help="How to print it.")
    ] = MatrixFormat.TABLE,
    compare: Annotated[
        str | None,
        typer.Option("--compare", metavar="TABLE", help="List the verdicts that another table has otherwise."),
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="OUT", help="Where to write it; without it: here.")
    ] = None,
) -> None:
    """Evaluate a table of configurations.

    Verdict and margin of every configuration on every machine of the table.

    Each cell is a compilation of its own. Exit status 0 if every cell was evaluated and none is unverified; cells may
    be rejected.

    Examples:

        vx admit matrix --table published

        vx admit matrix --table exact --reserve 8% --format html -o matrix.html

        vx admit matrix --table mine.toml --compare exact --format csv
    """
    from vx.admission.matrix_html import render_html
    from vx.admission.matrix_render import render_csv, render_json, render_table

    options_of(None, None, None, None, reserve=reserve)
    renders = {"table": render_table, "csv": render_csv, "json": render_json, "html": render_html}
    with Session() as session:
        evaluated = _evaluated(table, compare, reserve, session)
        text = renders[format_.value](evaluated)
        if output is None:
            print_text(text)
        else:
            write_output(output, text, "name another file with -o")
            print(output)
    if evaluated.counts["unverified"]:
        raise typer.Exit(ERRORS)


# ---- what was asked for ------------------------------------------------------------------------
def _check_machines(names: Sequence[str]) -> None:
    from vx import resources

    files: dict[str, str] = {}
    for name in names:
        file = os.path.realpath(resources.machine_file(name))
        if file in files:
            same = "is given twice" if files[file] == name else f"is the same file as {files[file]}"
            raise typer.BadParameter(f"{name} {same}", param_hint="--machine")
        files[file] = name


def _chosen(known: tuple[str, ...], asked: list[str] | None) -> tuple[str, ...]:
    for position, name in enumerate(asked or ()):
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}"
            raise typer.BadParameter(f"the program has no role {name}; {hint}", param_hint="--role")
        if name in (asked or ())[:position]:
            raise typer.BadParameter(f"{name} is given twice", param_hint="--role")
    return tuple(asked) if asked else known


def _evaluated(table: str, compare: str | None, reserve: str | None, session: Session) -> Matrix:
    from dataclasses import replace

    from vx.admission.matrix import evaluate
    from vx.admission.matrix_table import find_table, read_table

    def read(name: str, hint: str) -> Matrix:
        try:
            path = find_table(name)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint=hint) from error
        return evaluate(read_table(path, session.sources), reserve, session.sources)

    evaluated = read(table, "--table")
    other = compare or evaluated.table.compare
    return evaluated if other is None else replace(evaluated, other=read(other, "--compare"))


# ---- output ------------------------------------------------------------------------------------
def _show_refusals(answers: Sequence[Answer]) -> None:
    """The diagnostics of what is rejected or unverified, under the role and machine that they are about."""
    from vx.admission.plan import Verdict
    from vx.cli.fast import is_lint
    from vx.diagnostics.render import render_text

    for one in answers:
        if one.verdict in (Verdict.REJECTED, Verdict.UNVERIFIED):
            found = [item for item in one.diagnostics if not is_lint(item.code)]
            print(f"\n{one.role} on {one.machine}:", file=sys.stderr)
            print(render_text(found, one.sources, wants_colour()), file=sys.stderr, end="")

"""The commands of `vx`, assembled."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from vx import __version__
from vx.cli import admit, build, check, doctor, emit, evidence_report, explain, machine, model, run, verify


class _Commands(TyperGroup):
    """`admit matrix` is a command beside `admit`, whose first argument is a program."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        two = " ".join(args[:2])
        return super().resolve_command(ctx, [two, *args[2:]] if two in self.commands else args)


app = typer.Typer(
    name="vx",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown" if sys.stdout.isatty() and sys.stderr.isatty() else None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"vx {__version__}")
        raise typer.Exit


@app.callback()
def _vx(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Vx: a systems language in which placement is part of the program.

    Examples:

        vx run programs/llama.vx

        vx check program.vx --machine machine.vx --host default

        vx explain E4001
    """


app.command("run")(run.run)
app.command("build")(build.build)
app.command("check")(check.check)
app.command("admit")(admit.admit)
app.command("admit matrix")(admit.matrix)
app.command("emit")(emit.emit)
app.command("explain")(explain.explain)
app.command("verify")(verify.verify)
app.command("report")(evidence_report.report)
app.command("doctor")(doctor.doctor)
app.add_typer(machine.app, name="machine")
app.add_typer(model.app, name="model")


def main() -> int:
    """Run the command that the process's arguments name; its exit status."""
    try:
        app(prog_name="vx")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0

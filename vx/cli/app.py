"""The commands of `vx`, assembled."""

from __future__ import annotations

import sys
from typing import Annotated

import click
import typer

from vx import __version__
from vx.cli import build, check, doctor, emit, explain, model, run
from vx.cli.guard import ERRORS, USAGE

app = typer.Typer(
    name="vx",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
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
app.command("emit")(emit.emit)
app.command("explain")(explain.explain)
app.command("doctor")(doctor.doctor)
app.add_typer(model.app, name="model")


def main() -> int:
    """Run the command that the process's arguments name; its exit status."""
    try:
        result = app(args=sys.argv[1:], prog_name="vx", standalone_mode=False)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.exceptions.Abort:
        raise KeyboardInterrupt from None
    except click.UsageError as error:
        error.show()
        return USAGE
    except click.ClickException as error:
        error.show()
        return ERRORS
    return result if isinstance(result, int) else 0

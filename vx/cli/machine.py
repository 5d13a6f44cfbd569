"""`vx machine`: looking at machine files, yours and those that ship, and measuring one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from vx.cli.output import print_text, write_output
from vx.cli.probe import probe
from vx.cli.report import Session

if TYPE_CHECKING:
    from vx.machine.machine import Machine

app = typer.Typer(no_args_is_help=True, help="Look at machine files, what --machine and --host read.")

FileArg = Annotated[str, typer.Argument(metavar="FILE", help="A machine file.", show_default=False)]


@app.command("show")
def show(file: FileArg) -> None:
    """Show a machine: its spaces as a tree, its transfers and what they cost, each figure with its source.

    Examples:

        vx machine show fleet/h200.vx
    """
    from vx.machine.describe import describe

    with Session() as session:
        print_text(describe(_load(file, session), session.sources))


@app.command("list")
def list_() -> None:
    """List the machine files that ship with Vx.

    Examples:

        vx machine list
    """
    from vx import resources
    from vx.machine.describe import summary

    fleet = resources.directory("fleet")
    names = sorted(path.relative_to(fleet) for path in fleet.rglob("*.vx"))
    shown = [name for name in names if name.parts[0] != "parts"]
    width = max((len(str(name)) for name in shown), default=0)
    print(f"in {fleet}")
    with Session() as session:
        for name in shown:
            print_text(f"{name!s:<{width}}  {summary(_load(str(fleet / name), session), session.sources)}\n")


@app.command("graph")
def graph(
    file: FileArg,
    output: Annotated[str, typer.Option("-o", "--output", metavar="OUT", help="The SVG file to write.")],
) -> None:
    """Draw a machine.

    Examples:

        vx machine graph fleet/node-8gpu.vx -o node.svg
    """
    from vx.machine.graph import svg

    with Session() as session:
        drawing = svg(_load(file, session), session.sources)
        write_output(output, drawing, "name another file with -o")
    print(output)


app.command("probe")(probe)


def _load(file: str, session: Session) -> Machine:
    from vx.machine.load import load_file

    machine = load_file(file, session.reporter, session.sources)
    session.reporter.abort_if_errors()
    return machine

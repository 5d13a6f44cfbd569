"""`vx machine probe`: a machine file of the machine it runs on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vx.cli.report import Session

if TYPE_CHECKING:
    from vx.probe.probe import Outcome

UNCALIBRATED = 1


def probe(
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="The file to write; without it, stdout.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE if it exists.")] = False,
    peer: Annotated[
        str | None,
        typer.Option("--peer", metavar="HOST:PORT", help="Measure the network to this machine, not loopback."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Sizes up to 4 MiB, one attempt: about ten seconds.")] = False,
    serve: Annotated[
        str | None,
        typer.Option("--serve", metavar="[HOST:]PORT", help="Be the peer of another machine's probe."),
    ] = None,
    seconds: Annotated[
        int, typer.Option("--seconds", min=1, max=86_400, metavar="N", help="How long --serve waits for peers.")
    ] = 600,
) -> None:
    """Measure this machine and write its machine file.

    Measured are the memory's read rate, copies within memory, and TCP over loopback or to --peer, each as a table of
    sizes; then the file predicts other sizes, and they are measured too. --serve listens on this machine alone unless
    a host is given, such as 0.0.0.0:7000, takes one peer at a time, and throws away what it receives.

    Examples:

        vx machine probe -o here.vx

        vx machine probe --serve 0.0.0.0:7000

        vx machine probe --peer node7:7000 -o here.vx

    Exit status 1 if a figure is refused as impossible, or a table is not calibrated: two repeats of the same
    measurement differ by more than 25 %, or it predicts worse than 10 % and worse than two repeats agree.
    """
    if serve is not None:
        if output or peer or quick or force:
            raise typer.BadParameter("--serve goes with --seconds only", param_hint="--serve")
        _serve(serve, seconds)
        return
    path = None if output is None else _free(Path(output), force)
    from vx.probe.probe import Request
    from vx.probe.probe import probe as measure

    with Session(), _progress() as progress:
        outcome = measure(Request(peer, quick), progress)
    _deliver(outcome, path, force)
    if not outcome.calibrated:
        raise typer.Exit(UNCALIBRATED)


def _deliver(outcome: Outcome, path: Path | None, force: bool) -> None:
    """The machine file to where it belongs, the report to where the file is not."""
    from vx.codegen.cache import write_atomically
    from vx.probe.report import report

    with Session():
        if path is None:
            print(outcome.text, end="")
        else:
            write_atomically(_free(path, force), outcome.text.encode(), mode=0o644)
    stream = sys.stderr if path is None else sys.stdout
    for result in outcome.results:
        print("\n".join(report(result)), end="\n\n", file=stream)
    if outcome.refusal is not None:
        print(f"memory: refused\n  {outcome.refusal}\n", file=stream)
    print(f"{outcome.seconds:.0f} s; the load before was {outcome.load:.2f}", file=stream)
    if path is not None:
        print(path)


def _free(path: Path, force: bool) -> Path:
    """`path`, if a file can be written there without taking anybody's place."""
    if path.exists() and not force:
        raise typer.BadParameter(f"{path} exists; --force overwrites it", param_hint="-o")
    if path.is_dir() or not path.parent.is_dir():
        raise typer.BadParameter(
            f"{path if path.is_dir() else path.parent} is not where a file can be", param_hint="-o"
        )
    return path


def _serve(address: str, seconds: int) -> None:
    from vx.probe import native

    with Session(), native.serving(native.built(), address, seconds) as (process, port):
        host = address.rpartition(":")[0] or "127.0.0.1"
        print(f"serving on {host}:{port} for {seconds} s", flush=True)
        if host == "127.0.0.1":
            print("other machines reach it only if a host is given, such as 0.0.0.0:7000", file=sys.stderr)
        status = process.wait()
        if status != 0:
            raise native.failed("serving", "", status)


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on a terminal; elsewhere one line for each thing that is measured."""
    if not sys.stderr.isatty():
        yield _plain_progress()
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("")
        yield lambda what, done, total: bars.update(task, description=what, completed=done, total=total)


def _plain_progress() -> Callable[[str, int, int], None]:
    def say(what: str, done: int, total: int) -> None:
        if done == 1:
            print(f"{what} …", file=sys.stderr, flush=True)

    return say

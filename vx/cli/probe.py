"""`vx machine probe`: a machine file of the machine it runs on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vx.cli.report import Session

if TYPE_CHECKING:
    from vx.probe.calibrate import Result

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
    gpu: Annotated[
        str | None,
        typer.Option(
            "--gpu", metavar="ISA", help="Make in -o the folder that measures GPUs of this kind, such as sm_90."
        ),
    ] = None,
    result: Annotated[
        str | None,
        typer.Option("--from", metavar="RESULT", help="Make the machine file of what that folder's program printed."),
    ] = None,
) -> None:
    """Measure this machine and write its machine file.

    Measured are the memory's read rate, copies within memory, and TCP over loopback or to --peer, each as a table of
    sizes; then the file predicts other sizes, and they are measured too. --serve listens on this machine alone unless
    a host is given, such as 0.0.0.0:7000, takes one peer at a time, and throws away what it receives.

    Examples:

        vx machine probe -o here.vx

        vx machine probe --serve 0.0.0.0:7000

        vx machine probe --peer node7:7000 -o here.vx

        vx machine probe --gpu sm_90 -o probe-h200

        vx machine probe --from result.json -o h200.vx

    GPUs are measured where neither Vx nor Python is: --gpu makes a folder to carry there, whose program `probe` prints
    a result, and --from makes the machine file of it here.

    Exit status 1 if a figure is refused as impossible, or a table is not calibrated: two repeats of the same
    measurement differ by more than 25 %, or it predicts worse than 10 % and worse than two repeats agree.
    """
    if serve is not None:
        if output or peer or quick or force or gpu or result:
            raise typer.BadParameter("--serve goes with --seconds only", param_hint="--serve")
        _serve(serve, seconds)
        return
    if (gpu or result) and (peer or quick or (gpu and result)):
        raise typer.BadParameter("--gpu goes with -o only, --from with -o and --force", param_hint="--gpu, --from")
    if gpu is not None:
        _make_folder(gpu, output)
        return
    path = None if output is None else _free(Path(output), force)
    if not (_from_result(result, path, force) if result is not None else _measure(peer, quick, path, force)):
        raise typer.Exit(UNCALIBRATED)


def _measure(peer: str | None, quick: bool, path: Path | None, force: bool) -> bool:
    """This machine's file; whether every figure stands."""
    from vx.probe.probe import Request
    from vx.probe.probe import probe as measure

    with Session(), _progress() as progress:
        outcome = measure(Request(peer, quick), progress)
    refusals = () if outcome.refusal is None else (outcome.refusal,)
    ending = f"{outcome.seconds:.0f} s; the load before was {outcome.load:.2f}"
    _deliver(outcome.text, (*_reports(outcome.results, refusals), ending), path, force)
    return outcome.calibrated


def _from_result(result: str, path: Path | None, force: bool) -> bool:
    """The machine file of GPUs that were measured elsewhere; whether every figure stands."""
    from vx.probe.gpu import gpu_outcome
    from vx.probe.gpu_result import read_result

    with Session():
        outcome = gpu_outcome(read_result(Path(result)))
    _deliver(outcome.text, (*outcome.lines, "", *_reports(outcome.results, outcome.refusals)), path, force)
    return outcome.calibrated


def _make_folder(isa: str, output: str | None) -> None:
    """The folder that is carried to a GPU machine."""
    from vx.probe.gpu_folder import FILES, gpu_isas, make_folder

    if isa not in gpu_isas():
        raise typer.BadParameter(f"{isa} is none of {', '.join(gpu_isas())}", param_hint="--gpu")
    if output is None:
        raise typer.BadParameter("name the folder to make with -o", param_hint="--gpu")
    folder = Path(output)
    if folder.exists() and not (folder.is_dir() and {path.name for path in folder.iterdir()} <= set(FILES)):
        raise typer.BadParameter(f"{folder} exists and is no folder that this made", param_hint="-o")
    with Session():
        make_folder(folder, isa)
    print(f"{folder}: carry it to the GPU machine, and there: {folder.name}/probe > result.json")


def _reports(results: Sequence[Result], refusals: Sequence[str]) -> Iterator[str]:
    """Lines about each link, and about memory if a figure of it was refused."""
    from vx.probe.report import report

    for result in results:
        yield from report(result)
        yield ""
    for refusal in refusals:
        yield f"memory: refused\n  {refusal}\n"


def _deliver(text: str, lines: Iterable[str], path: Path | None, force: bool) -> None:
    """The machine file to where it belongs, the report to where the file is not."""
    from vx.codegen.cache import write_atomically

    with Session():
        if path is None:
            print(text, end="")
        else:
            write_atomically(_free(path, force), text.encode(), mode=0o644)
    stream = sys.stderr if path is None else sys.stdout
    for line in lines:
        print(line, file=stream)
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

"""`vx model`: making and looking at model directories."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from vx.model.errors import ModelError

if TYPE_CHECKING:
    from vx.model.info import ModelInfo

Progress = Callable[[int, int], None]

app = typer.Typer(no_args_is_help=True, help="Make and look at model directories, what `import model;` reads.")

OutOpt = Annotated[str, typer.Option("-o", "--output", metavar="DIR", help="The model directory to make.")]
DtypeOpt = Annotated[str, typer.Option("--dtype", help="Element type of the matrices: f32, f16 or bf16.")]


@app.command("import")
def import_(
    checkpoint: Annotated[
        str,
        typer.Argument(
            metavar="CHECKPOINT", help="A llama2.c checkpoint, or a Hugging Face directory.", show_default=False
        ),
    ],
    output: OutOpt,
    tokenizer: Annotated[
        str | None,
        typer.Option("--tokenizer", metavar="FILE", help="Its tokenizer, a llama2.c file; a directory brings its own."),
    ] = None,
    dtype: Annotated[str | None, typer.Option("--dtype", help="Instead of the checkpoint's: f32, f16 or bf16.")] = None,
) -> None:
    """Make a model directory of a checkpoint.

    Examples:

        vx model import stories15M.bin --tokenizer tokenizer.bin -o stories15M

        vx model import stories15M.bin --tokenizer tokenizer.bin --dtype f16 -o stories15M-f16

        vx model import TinyLlama-1.1B -o tinyllama
    """
    from vx.model.importing import import_checkpoint

    with refusals(), progress("importing") as show:
        model = import_checkpoint(checkpoint, tokenizer, output, dtype, show)
    _summary(model)


@app.command("info")
def info(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="A model directory.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> None:
    """Say what a model directory holds.

    Examples:

        vx model info stories15M

        vx model info stories15M --json
    """
    import json

    from vx.model.info import load_model
    from vx.model.report import describe, render

    with refusals():
        model = load_model(directory)
    print(json.dumps(describe(model), indent=2) if as_json else render(model))


@app.command("random")
def random(
    like: Annotated[str, typer.Option("--like", metavar="CONFIG", help="A known shape, a config.json or a model.")],
    output: OutOpt,
    seed: Annotated[int, typer.Option("--seed", help="What the weights follow from.")] = 0,
    dtype: Annotated[str | None, typer.Option("--dtype", help="Instead of the shape's: f32, f16 or bf16.")] = None,
    positions: Annotated[int | None, typer.Option("--positions", help="Instead of the shape's context.", min=1)] = None,
    tokenizer: Annotated[str | None, typer.Option("--tokenizer", metavar="FILE", help="A llama2.c tokenizer.")] = None,
) -> None:
    """Make a model with random weights.

    The program generates them itself: no file holds them.

    Examples:

        vx model random --like stories15M --seed 1 -o random15M

        vx model random --like config.json --dtype bf16 -o stand-in
    """
    from vx.model.shapes import random_model

    with refusals():
        model = random_model(like, seed, output, dtype, positions, tokenizer)
    _summary(model)


@app.command("fetch")
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Such as stories15M.", show_default=False)],
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="DIR", help="The model directory; without it NAME, here.")
    ] = None,
    dtype: DtypeOpt = "f32",
) -> None:
    """Download a public model.

    It is checked and becomes a model directory. An interrupted download resumes.

    Examples:

        vx model fetch stories15M
    """
    from vx.model.fetch import fetch as fetch_model

    with refusals(), progress("downloading") as show:
        model = fetch_model(name, output or name, dtype, show)
    _summary(model)


def _summary(model: ModelInfo) -> None:
    shape = model.architecture
    print(
        f"{model.dir}: dim {shape.dim}, hidden {shape.hidden}, {shape.layers} layers, {shape.heads} heads "
        f"({shape.kv_heads} KV), vocabulary {shape.vocab}, {shape.seq} positions, {model.elem}"
    )
    if model.random_seed is not None:
        print(f"RANDOM weights of seed {model.random_seed}, not a trained model")
    elif not model.runnable:
        print("a configuration only: programs can be checked with it, not run")
    print(f"digest {model.digest}")


@contextmanager
def refusals() -> Iterator[None]:
    """Print a `ModelError` as other diagnostics are printed, and end the command with status 1."""
    from vx.cli.report import Session
    from vx.diagnostics.report import CompileError, Diagnostic, Help, Level
    from vx.diagnostics.span import NOWHERE

    with Session():
        try:
            yield
        except ModelError as error:
            helps = tuple(Help(text) for text in error.helps)
            raise CompileError([Diagnostic(error.code, Level.ERROR, error.message, NOWHERE, helps=helps)]) from None


@contextmanager
def progress(what: str) -> Iterator[Progress | None]:
    """A progress bar on a terminal's stderr, in bytes; nothing anywhere else."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(what, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)

"""`vx verify`: whether an artifact is whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from vx.artifact.manifest import Manifest, Model
    from vx.artifact.verify import Report


def verify(
    artifact: Annotated[Path, typer.Argument(help="What `vx build` made.", show_default=False)],
    model: Annotated[
        Path | None, typer.Option("--model", metavar="DIR", help="Where the model is that the artifact leaves out.")
    ] = None,
    digest: Annotated[
        str | None, typer.Option("--digest", metavar="SHA256", help="The digest that `vx build` printed.")
    ] = None,
) -> None:
    """Check an artifact: a folder, a `.tar.gz`, or an executable with its admission record beside it.

    Every file is as it was built, none is missing or added, and the record is the admission of just this executable.
    Hashes find damage; only `--digest`, kept elsewhere, finds an artifact that somebody made anew. Nothing is unpacked
    or executed.

    Examples:

        vx verify story.tar.gz

        vx verify story --digest 5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef

    Exit status 1 if anything is wrong, with a line for each problem.
    """
    from vx.artifact.verify import MOST_PROBLEMS
    from vx.artifact.verify import verify as verified

    pinned = None if digest is None else digest.removeprefix("sha256:").lower()
    if pinned is not None and not re.fullmatch("[0-9a-f]{64}", pinned):
        raise typer.BadParameter("a digest has 64 hexadecimal digits", param_hint="--digest")
    report = verified(artifact, model, pinned)
    for problem in report.problems:
        typer.echo(problem, err=True)
    if len(report.problems) == MOST_PROBLEMS:
        typer.echo(f"the search ended after {MOST_PROBLEMS} problems", err=True)
    if report.problems:
        raise typer.Exit(1)
    for line in _verified(report, artifact, model):
        print(line)


def _verified(report: Report, artifact: Path, model: Path | None) -> Iterator[str]:
    """What holds, one line for each thing."""
    if report.manifest is not None:
        yield from _whole(report.manifest, artifact, model)
    elif report.identity is not None:
        yield f"{artifact}: executable for {report.identity.arch}, as it was built"
        plan = report.identity.plan
        yield f"  admitted: plan {plan}, that of its record" if plan else "  it places nothing"
    yield f"  digest sha256:{report.digest}"


def _whole(manifest: Manifest, artifact: Path, model: Path | None) -> Iterator[str]:
    from vx.artifact.errors import shown

    total = sum(file.bytes for file in manifest.files.values())
    yield shown(f"{artifact}: {manifest.program} for {manifest.target}, made by {manifest.compiler}")
    yield f"  {len(manifest.files)} files, {total} bytes: each as listed, none missing, none added"
    admitted = ", ".join(role.role for role in manifest.roles if role.verdict == "admitted")
    yield shown(f"  admitted for {manifest.machine or 'the CPU alone'}: {admitted}")
    yield f"  plan {manifest.plan}, that of its record" if manifest.plan else "  it places nothing"
    if manifest.model is not None:
        yield _model(manifest.model, model)


def _model(model: Model, directory: Path | None) -> str:
    made = "" if model.seed is None else f", generated from seed {model.seed}"
    if model.included:
        where = "inside"
    else:
        where = "left out, and not verified" if directory is None else f"in {directory}, as listed"
    return f"  model {model.digest}{made}: {where}"

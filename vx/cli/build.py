"""`vx build`: an executable, or a folder or archive with all that it needs beside it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from vx.cli.options import (
    ConstOpt,
    DevicesOpt,
    HostOpt,
    KernelsOpt,
    LevelOpt,
    MachineOpt,
    ModelOpt,
    ProgramArg,
    ReserveOpt,
    RolesOpt,
    StrictOpt,
    TargetOpt,
    options_of,
)
from vx.cli.report import Session


def build(
    program: ProgramArg,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="OUT", help="Where to; without it the program's name, here."),
    ] = None,
    model: ModelOpt = None,
    machine: MachineOpt = None,
    host: HostOpt = None,
    const: ConstOpt = None,
    level: LevelOpt = 3,
    strict_index: StrictOpt = False,
    target: TargetOpt = None,
    roles: RolesOpt = None,
    reserve: ReserveOpt = None,
    devices: DevicesOpt = None,
    kernels: KernelsOpt = None,
    without_model: Annotated[
        bool, typer.Option("--without-model", help="Only name the model's files; VX_MODEL_DIR says where they are.")
    ] = False,
) -> None:
    """Build an executable, or an artifact: all that runs elsewhere, without source, Python or Vx.

    OUT is an executable, or, for a program that uses a model or device plugins, a folder with `program` and what it
    needs, or an archive of such a folder if OUT ends in `.tar.gz` or `.tgz`. All can be moved, and `vx verify` checks
    them. The digest that pins OUT is printed on stderr.

    Examples:

        vx build program.vx -o program

        vx build programs/llama.vx --model stories15M -o story

        vx build programs/llama.vx --model stories15M --machine h200 --host default -o story.tar.gz

        vx build program.vx --target aarch64-linux-gnu
    """
    from vx.artifact.write import write_output
    from vx.build import build as build_program

    options = options_of(model, machine, host, const, level, strict_index, target, roles, reserve, devices, kernels)
    with Session() as session:
        built = build_program(program, options, session.sources, session.reporter)
        session.show(built.diagnostics)
        made, digest = write_output(built, program, options, output, not without_model)
    print(made)
    print(f"digest sha256:{digest}", file=sys.stderr)

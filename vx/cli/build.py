"""`vx build`: an executable, with its model beside it if it uses one."""

from __future__ import annotations

from typing import Annotated

import typer

from vx.cli.options import (
    ConstOpt,
    DevicesOpt,
    HostOpt,
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
) -> None:
    """Build an executable.

    OUT is an executable, or, for a program that uses a model, a folder with `program` and `model/`, which
    can be moved anywhere as a whole.

    Examples:

        vx build program.vx -o program

        vx build programs/llama.vx --model stories15M -o story

        vx build program.vx --target aarch64-linux-gnu
    """
    from vx.build import build as build_program
    from vx.bundle import write_output

    options = options_of(model, machine, host, const, level, strict_index, target, roles, reserve, devices)
    with Session() as session:
        built = build_program(program, options, session.sources, session.reporter)
        session.show(built.diagnostics)
        made = write_output(built, program, output)
    print(made)

"""`vx run`: build (or find the build) and become the program."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from vx.cli.fast import is_lint
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


def run(
    program: ProgramArg,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ARGS]", help="The program's own arguments.", show_default=False)
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
    trace: Annotated[
        str | None, typer.Option("--trace", metavar="FILE", help="Write evidence of the run, for `vx report`.")
    ] = None,
) -> None:
    """Build a program, unless that was done before, and run it.

    Its exit status is the program's. Builds are kept in a cache, so a second run starts at once.

    Examples:

        vx run programs/llama.vx

        vx run programs/llama.vx --model stories15M -- --prompt "One day" --positions 100

        vx run program.vx -O0 --strict-index --const SIZE=64

        vx run program.vx --machine h200 --host default --devices host --trace run.jsonl
    """
    from vx.build import build
    from vx.diagnostics.report import without_pedantic
    from vx.launch.local import become

    options = options_of(model, machine, host, const, level, strict_index, target, roles, reserve, devices, kernels)
    with Session() as session:
        built = build(program, options, session.sources, session.reporter)
        session.show([found for found in built.diagnostics if not is_lint(found.code)])
        lints = sum(is_lint(found.code) for found in without_pedantic(built.diagnostics))
        if lints and not built.cached:
            print(f"{lints} warning{'s' * (lints > 1)}, which `vx check {program}` shows", file=sys.stderr)
        become(built.executable, built.model_dir, program, arguments or (), trace)

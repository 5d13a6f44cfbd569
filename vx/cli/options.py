"""The options that several commands share, declared once."""

from __future__ import annotations

from typing import Annotated

import typer

from vx.options import Options, all_consts, all_roles, check_reserve

ProgramArg = Annotated[str, typer.Argument(metavar="PROGRAM", help="A Vx source file.", show_default=False)]
ModelOpt = Annotated[str | None, typer.Option("--model", metavar="DIR", help="The model directory of `import model;`.")]
MachineOpt = Annotated[
    str | None,
    typer.Option("--machine", metavar="FILE", help="The accelerator: a file, or a name of the fleet; else this CPU."),
]
HostOpt = Annotated[
    str | None, typer.Option("--host", metavar="FILE|default", help="Machine file of what the accelerator hangs off.")
]
ConstOpt = Annotated[
    list[str] | None,
    typer.Option("--const", metavar="NAME=VALUE", help="Override a constant of the program. Repeatable."),
]
LevelOpt = Annotated[int, typer.Option("-O", min=0, max=3, metavar="0..3", help="Optimisation level, as -O0 to -O3.")]
StrictOpt = Annotated[
    bool, typer.Option("--strict-index", help="Check each dimension of an index, not only the whole tensor.")
]
TargetOpt = Annotated[
    str | None,
    typer.Option("--target", metavar="TARGET", help="x86_64-linux-gnu or aarch64-linux-gnu; without it: this machine."),
]
RolesOpt = Annotated[
    str | None,
    typer.Option("--roles", metavar="ROLE,…", help="The roles to compile; without it: all that the machine can have."),
]
DevicesOpt = Annotated[
    str | None,
    typer.Option("--devices", metavar="host", help="Let memory of this host stand in for each device (tier T1)."),
]
KernelsOpt = Annotated[
    str | None,
    typer.Option("--kernels", metavar="emitted", help="Where a GPU's kernels come from: the program's own text."),
]
ReserveOpt = Annotated[
    str | None,
    typer.Option("--reserve", metavar="8%|SIZE", help="What a deployment keeps of each device memory."),
]


def options_of(
    model: str | None,
    machine: str | None,
    host: str | None,
    const: list[str] | None,
    level: int = 3,
    strict_index: bool = False,
    target: str | None = None,
    roles: str | None = None,
    reserve: str | None = None,
    devices: str | None = None,
    kernels: str | None = None,
) -> Options:
    """The `Options` of a command line. What is malformed or given twice is a usage error."""
    if devices not in (None, "host"):
        raise typer.BadParameter("the only stand-in is `host`", param_hint="--devices")
    if kernels not in (None, "emitted"):
        raise typer.BadParameter("kernels are `emitted`; vendors' are not used yet", param_hint="--kernels")
    try:
        consts = all_consts(const or ())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--const") from error
    try:
        named = None if roles is None else all_roles(roles)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--roles") from error
    options = Options(level, strict_index, machine, host, model, consts, target, named, reserve, devices)
    try:
        check_reserve(options)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--reserve") from error
    return options

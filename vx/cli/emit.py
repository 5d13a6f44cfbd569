"""`vx emit`: what a stage of the compiler makes of a program."""

from __future__ import annotations

from typing import Annotated

import typer

from vx.cli.options import (
    ConstOpt,
    HostOpt,
    LevelOpt,
    MachineOpt,
    ModelOpt,
    ProgramArg,
    StrictOpt,
    TargetOpt,
    options_of,
)
from vx.cli.output import write_output
from vx.cli.report import Session
from vx.emit import Stage


def emit(
    program: ProgramArg,
    stage: Annotated[Stage, typer.Option("--stage", metavar="STAGE", help="tokens, ast, types, kernels, llvm or asm.")],
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Write it here instead of printing it.")
    ] = None,
    model: ModelOpt = None,
    machine: MachineOpt = None,
    host: HostOpt = None,
    const: ConstOpt = None,
    level: LevelOpt = 3,
    strict_index: StrictOpt = False,
    target: TargetOpt = None,
) -> None:
    """Print what a stage makes of a program: its tokens, syntax tree, typed program, kernels, LLVM or assembly.

    `llvm` is the text before LLVM's optimisation, `asm` what comes out of it.

    Examples:

        vx emit --stage kernels programs/llama.vx

        vx emit --stage asm program.vx -O2 --target aarch64-linux-gnu -o program.s
    """
    from vx.emit import emit as emit_text

    options = options_of(model, machine, host, const, level, strict_index, target)
    with Session() as session:
        text = emit_text(program, stage, options, session.sources, session.reporter)
        if output is None:
            print(text, end="")
            return
        write_output(output, text)

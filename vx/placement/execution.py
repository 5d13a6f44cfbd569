"""Whether the code of a program can be generated for where it is placed.

Enters: the typed program, its machine, the architecture being compiled for. Leaves: an error for every
place that needs another code generator. Nothing is run elsewhere than placed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from vx.diagnostics.report import Reporter
from vx.diagnostics.span import Span
from vx.machine.machine import Machine, Topology
from vx.sema.tree import Program, Spawn


def check_execution(program: Program, machine: Machine, arch: str, reporter: Reporter) -> None:
    """Report E9031 for code placed on another architecture than `arch`, W9034 for stand-ins."""
    for name, span in _placed_code(program):
        topology = machine.topology(name)
        if topology is not None:
            _check_place(topology, span, arch, reporter)


def _check_place(topology: Topology, span: Span, arch: str, reporter: Reporter) -> None:
    if topology.name == "GPU" or topology.arch not in (None, arch):
        reporter.error(
            "E9031",
            f"code on {topology.name} is for {topology.arch or 'a GPU'}, and this build generates {arch} code only",
            span,
            helps=["check the program with `vx check`, or place the code on a topology whose `arch` is the host's"],
        )
    elif topology.arch is None and topology.layer == "builtin":
        reporter.warning(
            "W9034",
            f"there is no {topology.name} in the machine: its code runs on this {arch} CPU as a stand-in",
            span,
            helps=["describe the real part in a machine file and pass it with --machine"],
        )


def _placed_code(program: Program) -> Iterator[tuple[str, Span]]:
    """The topology and position of every region and of every function that runs somewhere by itself."""
    for function in program.functions.values():
        if function.on is not None:
            yield function.on.topology, function.span
        for spawn in _spawns(function.body):
            yield spawn.place.topology, spawn.span


def _spawns(node: object) -> Iterator[Spawn]:
    stack: list[object] = [node]
    while stack:
        here = stack.pop()
        if isinstance(here, Spawn):
            yield here
        if isinstance(here, tuple):
            stack.extend(reversed(here))
        elif is_dataclass(here) and not isinstance(here, Span):
            stack.extend(getattr(here, field.name) for field in reversed(fields(here)))

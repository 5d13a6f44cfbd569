"""Machines for tests, from the text of their declarations."""

from __future__ import annotations

from vx.diagnostics.report import Reporter
from vx.machine.builtin import builtin_machine
from vx.machine.load import machine_from_module
from vx.machine.machine import Machine
from vx.syntax.parser import parse_module


def machine_of(text: str) -> Machine:
    """The built-in machine extended by `text`, which must be right."""
    reporter = Reporter()
    module = parse_module(text, "machine.vx", reporter)
    machine = machine_from_module(module, builtin_machine("x86_64"), "machine", reporter)
    assert not reporter.diagnostics, reporter.diagnostics
    return machine

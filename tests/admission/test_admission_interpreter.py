"""Admission against the ownership interpreter: it never sees more than was admitted, nor two tiles overlapping."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from admission_cases import NotAccepted, errors, machine, typed
from ownership_interpreter import Interpreter
from random_ownership import random_program

from vx.admission.check import admit
from vx.admission.plan import Bank, Verdict, every_slot
from vx.diagnostics.report import Reporter

MACHINE = machine("1 GiB", instances=2, more="Memory STAGE { within: Memory::HBM, capacity: 1 MiB }\n").replace(
    "transfer Memory::CPU_DRAM -> Memory::HBM",
    "transfer Memory::CPU_DRAM -> Memory::STAGE : 63 GB/s transfer Memory::STAGE -> Memory::HBM",
)
GRANULES = MACHINE.replace("capacity: 1 GiB", "capacity: 1 GiB, granule: 64 B")
PATHS = 12


def run_paths(path: Path, seed: int) -> tuple[str, int]:
    """Admit a random program and run it on random paths: the outcome, and how many tiles were born."""
    try:
        program = typed(path, random_program(seed), GRANULES if seed % 4 == 3 else MACHINE)
    except NotAccepted:
        return "not a program", 0
    assert program.machine is not None
    reporter = Reporter()
    plan = admit(program, program.machine, reporter)
    if plan.verdict is not Verdict.ADMITTED:
        assert set(errors(reporter.diagnostics)) <= {"E6028", "E6035"}
        return "refused", 0
    ends: dict[Bank, int] = defaultdict(int)
    for slot in every_slot(plan):
        ends[slot.bank] = max(ends[slot.bank], slot.offset + slot.bytes)
    assert ends == {arena.bank: arena.bytes for arena in plan.arenas}, "the arenas are as large as what lies in them"
    births = 0
    for turn in range(PATHS):
        run = Interpreter(program, plan, seed * 1000 + turn)
        run.run(program.main)
        births += run.births
    return "admitted", births


@pytest.mark.parametrize("group", range(4))
def test_random_programs(group: int, tmp_path: Path) -> None:
    outcomes = [run_paths(tmp_path, seed) for seed in range(group * 12, group * 12 + 12)]
    assert sum(outcome == "admitted" for outcome, _ in outcomes) >= 3
    assert sum(births for _, births in outcomes) > 100

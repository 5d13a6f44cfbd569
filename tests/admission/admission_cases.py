"""Programs against machines with small memories, for the tests of admission."""

from __future__ import annotations

from pathlib import Path

from vx.admission.check import admit
from vx.admission.plan import Limits, Plan
from vx.diagnostics.report import Diagnostic, Level, Reporter
from vx.diagnostics.source import SourceMap
from vx.machine.load import load_machine
from vx.sema import tree
from vx.sema.borrow import check_borrows
from vx.sema.check import check_program

TILE = 3 << 20
"""Bytes of a `T` of the prelude."""

PRELUDE = """
type T = Tensor<u8, [3145728], Memory::HBM>;
struct Pair { x : T, y : T }
fn tile() -> T { T::new() }
fn read(t : &T) -> void { }
fn eat(t : T) -> void { read(&t); }
fn same(t : T) -> T { t }
"""

DEVICE = """
Topology Device { memory: Memory::HBM, visible: [Memory::HBM], arch: nvptx64, INSTANCES
  transfer Memory::CPU_DRAM -> Memory::HBM : 63 GB/s
  transfer Memory::HBM -> Memory::CPU_DRAM : 63 GB/s
}
"""


class NotAccepted(AssertionError):
    """A stage before admission refuses the program."""


def machine(capacity: int | str, *, instances: int = 1, more: str = "") -> str:
    """A machine file with one device; `capacity` in bytes, or a text such as `150 KiB, granule: 1 KiB`."""
    size = f"{capacity} B" if isinstance(capacity, int) else capacity
    count = f"instances: {instances}, peer: 450 GB/s," if instances > 1 else ""
    return f"Memory HBM {{ managed: explicit, scope: device, capacity: {size} }}\n{more}" + DEVICE.replace(
        "INSTANCES", count
    )


def typed(path: Path, source: str, machine_text: str, consts: dict[str, str] | None = None) -> tree.Program:
    """The typed program, which must pass every check before admission."""
    file, machine_file = path / "case.vx", path / "machine.vx"
    file.write_text(source, encoding="utf-8")
    machine_file.write_text(machine_text, encoding="utf-8")
    sources, reporter = SourceMap(), Reporter()
    loaded = load_machine(machine_file, "default", reporter, sources, "x86_64")
    assert not reporter.has_errors, reporter.diagnostics
    program = check_program(
        str(file), machine=loaded, model=None, consts=consts or {}, reporter=reporter, sources=sources
    )
    if program is not None:
        check_borrows(program, reporter)
    refused = [d for d in reporter.diagnostics if d.level is Level.ERROR]
    if refused or program is None:
        raise NotAccepted([f"{sources.line_col(d.span)} {d.code} {d.message}" for d in refused])
    return program


def plan_of(
    path: Path, source: str, machine_text: str, role: str | None = None, limits: Limits | None = None
) -> tuple[Plan, tuple[Diagnostic, ...]]:
    """What admission makes of a program: the plan and the diagnostics."""
    program, reporter = typed(path, source, machine_text), Reporter()
    assert program.machine is not None
    return admit(program, program.machine, reporter, role, limits or Limits()), reporter.diagnostics


def whole(body: str) -> str:
    """Statements as a program with the prelude; what already has a `main` only gets the prelude."""
    return PRELUDE + (body if "fn main" in body else f"fn main() -> i32 {{\n{body}\n0 }}\n")


def errors(found: tuple[Diagnostic, ...]) -> list[str]:
    return [item.code for item in found if item.level is Level.ERROR]


THREE = """
fn main() -> i32 {
  let x = Tensor<f32, [16384]>::new();
  let a = transfer(x, Memory::HBM);
  let b = transfer(x, Memory::HBM);
  let c = transfer(x, Memory::HBM);
  let r = transfer(a, Memory::CPU_DRAM);  let s = transfer(b, Memory::CPU_DRAM);  let t = transfer(c, Memory::CPU_DRAM);
  0
}
"""
"""Three tiles of 64 KiB in `Memory::HBM`, all alive at once."""

"""The machines that executables are made for.

Enters: a target's name, or nothing for the machine we are on. Leaves: a `Target`: what LLVM, the C
compiler and the linker each call it, and the processor levels that one executable may contain.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType

from vx.diagnostics.report import CompileError, Diagnostic, Help, Level
from vx.diagnostics.span import NOWHERE

GLIBC = "2.28"
"""Oldest C library that an executable starts on."""


@dataclass(frozen=True, slots=True)
class CpuLevel:
    """A processor level: LLVM's `cpu` name, the level number of `vx_cpu_level` that it needs (0: always
    there), and the width of its vectors in bytes."""

    cpu: str
    level: int
    vector_bytes: int


@dataclass(frozen=True, slots=True)
class Target:
    """`triple` is LLVM's, `zig` the C compiler's with the C library's version. `levels` ascend; the first
    is what every processor of this target has."""

    name: str
    arch: str
    triple: str
    zig: str
    zig_cpu: str
    levels: tuple[CpuLevel, ...]

    @property
    def cpu(self) -> str:
        """The processor that everything without levels of its own is compiled for."""
        return self.levels[0].cpu


X86_64 = Target(
    name="x86_64-linux-gnu",
    arch="x86_64",
    triple="x86_64-unknown-linux-gnu",
    zig=f"x86_64-linux-gnu.{GLIBC}",
    zig_cpu="x86_64_v2",
    levels=(CpuLevel("x86-64-v2", 2, 16), CpuLevel("x86-64-v3", 3, 32), CpuLevel("x86-64-v4", 4, 64)),
)
AARCH64 = Target(
    name="aarch64-linux-gnu",
    arch="aarch64",
    triple="aarch64-unknown-linux-gnu",
    zig=f"aarch64-linux-gnu.{GLIBC}",
    zig_cpu="generic",
    levels=(CpuLevel("generic", 0, 16),),
)
TARGETS: Mapping[str, Target] = MappingProxyType({t.name: t for t in (X86_64, AARCH64)})

_MACHINES: Mapping[str, Target] = MappingProxyType(
    {"x86_64": X86_64, "amd64": X86_64, "aarch64": AARCH64, "arm64": AARCH64}
)


def _refuse(message: str, help_text: str) -> CompileError:
    return CompileError([Diagnostic("E9020", Level.ERROR, message, NOWHERE, helps=(Help(help_text),))])


def by_name(name: str) -> Target:
    """The target called `name` (`x86_64-linux-gnu`), also by its architecture alone. E9020 if there is none."""
    target = TARGETS.get(name) or _MACHINES.get(name)
    if target is None:
        near = get_close_matches(name, TARGETS, n=1)
        help_text = f"did you mean `{near[0]}`?" if near else "the targets are " + ", ".join(TARGETS)
        raise _refuse(f"there is no target `{name}`", help_text)
    return target


def native() -> Target:
    """The target of the machine we run on. E9020 if executables cannot be made for it."""
    machine = platform.machine().lower()
    if sys.platform != "linux" or machine not in _MACHINES:
        what = f"{sys.platform} on {machine or 'an unknown processor'}"
        raise _refuse(f"executables cannot be made for {what}", "name one with --target: " + ", ".join(TARGETS))
    return _MACHINES[machine]

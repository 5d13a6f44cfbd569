"""LLVM text → object code.

Enters: one or several modules as text, a `Target`, an optimisation level 0..3. Leaves: the bytes of
position-independent objects (or assembly). Each module is translated by a process of its own
(`llvm_child.py`), all at once, so that nothing LLVM does can end the compiler.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from vx.codegen.target import Target
from vx.diagnostics.report import CompileError, Diagnostic, Help, Level
from vx.diagnostics.span import NOWHERE

_CHILD = Path(__file__).with_name("llvm_child.py")
_TIMEOUT_S = 600.0


class CompilerFault(CompileError):
    """The compiler itself is wrong: it made something that LLVM or the linker refuses. `detail` has their words."""

    def __init__(self, message: str, detail: str) -> None:
        self.detail = detail
        notes = tuple(line for line in detail.strip().splitlines()[:8] if line.strip())
        helps = (Help("this is a fault of the compiler, not of the program: please report it with the program"),)
        super().__init__([Diagnostic("E9029", Level.ERROR, message, NOWHERE, notes=notes, helps=helps)])


def _translate(text: str, target: Target, opt_level: int, output: str) -> bytes:
    command = [sys.executable, "-P", str(_CHILD), target.triple, target.cpu, str(opt_level), output]
    try:
        done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise CompilerFault("LLVM did not finish in ten minutes", "") from error
    if done.returncode != 0:
        words = done.stderr.decode("utf-8", "replace")
        if done.returncode < 0:
            raise CompilerFault(f"LLVM was ended by signal {-done.returncode}", words)
        raise CompilerFault("LLVM refused the code that the compiler made", words)
    return done.stdout


def compile_llvm(text: str, target: Target, opt_level: int = 3) -> bytes:
    """One module to an object. Raises `CompilerFault` (E9029) if LLVM refuses it or dies of it."""
    return _translate(text, target, opt_level, "obj")


def compile_modules(texts: Sequence[str], target: Target, opt_level: int = 3) -> list[bytes]:
    """Several modules to objects, side by side; the results are in the order of `texts`."""
    with ThreadPoolExecutor(max_workers=max(1, len(texts))) as pool:
        return list(pool.map(lambda text: compile_llvm(text, target, opt_level), texts))


def to_asm(text: str, target: Target, opt_level: int = 3) -> str:
    """One module to assembly."""
    return _translate(text, target, opt_level, "asm").decode()

"""How tests compile the runtime: with the undefined-behaviour sanitizer, whose first report ends the process."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

from vx.runtime import abi

RUNTIME = Path(abi.__file__).parent
PROGRAMS = Path(__file__).parent / "programs"
TARGET = f"{platform.machine()}-linux-gnu.2.28"
FLAGS = (
    "-std=c17", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-fPIC",
    "-fsanitize=undefined", "-fno-sanitize-recover=undefined",
)  # fmt: skip


def build(output: Path, *arguments: str | Path, target: str = TARGET) -> None:
    """Compile the runtime with more sources and flags; fails with the compiler's words, warnings included."""
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, *FLAGS, f"-I{RUNTIME}"]
    inputs = [*sorted(RUNTIME.glob("*.c")), *arguments, "-o", output, "-lpthread", "-lm", "-ldl"]
    done = subprocess.run([*command, *map(str, inputs)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

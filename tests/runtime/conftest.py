"""The runtime built for tests: as a library for `ctypes`, and with small C programs as executables.

Both with the undefined-behaviour sanitizer, whose first report ends the process.
"""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vx.runtime import abi

RUNTIME = Path(abi.__file__).parent
PROGRAMS = Path(__file__).parent / "programs"
TARGET = f"{platform.machine()}-linux-gnu.2.28"
FLAGS = (
    "-std=c17", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-fPIC",
    "-fsanitize=undefined", "-fno-sanitize-recover=undefined",
)  # fmt: skip

C_TYPES = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "float": ctypes.c_float, "double": ctypes.c_double}
RESULTS = {**C_TYPES, "ptr": ctypes.c_void_p, "void": None}


def zig_cc(*arguments: str | Path, target: str = TARGET) -> None:
    """Compile and link; the compiler's words on failure."""
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, *FLAGS, f"-I{RUNTIME}", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The runtime in this process, every function of abi.py with its types."""
    folder = tmp_path_factory.mktemp("runtime")
    stub = folder / "stub.c"
    stub.write_text('#include "vx_abi.h"\nint32_t vx_program_main(void) { return 0; }\n')
    zig_cc("-shared", *sorted(RUNTIME.glob("*.c")), stub, "-o", folder / "libruntime.so", "-lpthread", "-lm")
    os.environ["VX_THREADS"] = "2"
    loaded = ctypes.CDLL(str(folder / "libruntime.so"))
    for entry in abi.ENTRIES.values():
        function = getattr(loaded, entry.name)
        function.argtypes = [C_TYPES.get(type_.llvm, ctypes.c_void_p) for _, type_ in entry.params]
        function.restype = RESULTS[entry.ret.llvm]
    return loaded


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Builds `programs/NAME.c` with the runtime, once; the executable's path."""
    folder = tmp_path_factory.mktemp("programs")

    def build(name: str) -> Path:
        executable = folder / name
        if not executable.exists():
            zig_cc(*sorted(RUNTIME.glob("*.c")), PROGRAMS / f"{name}.c", "-o", executable, "-lpthread", "-lm")
        return executable

    return build

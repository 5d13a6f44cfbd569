"""The runtime built for tests: as a library for `ctypes`, and with small C programs as executables."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest
from runtime.native import PROGRAMS, build

from vx.runtime import abi

C_TYPES = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "float": ctypes.c_float, "double": ctypes.c_double}
RESULTS = {**C_TYPES, "ptr": ctypes.c_void_p, "void": None}


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The runtime in this process, every function of abi.py with its types."""
    folder = tmp_path_factory.mktemp("runtime")
    stub = folder / "stub.c"
    stub.write_text('#include "vx_abi.h"\nint32_t vx_program_main(void) { return 0; }\n')
    build(folder / "libruntime.so", "-shared", stub)
    loaded = ctypes.CDLL(str(folder / "libruntime.so"))
    for entry in abi.ENTRIES.values():
        function = getattr(loaded, entry.name)
        function.argtypes = [C_TYPES.get(type_.llvm, ctypes.c_void_p) for _, type_ in entry.params]
        function.restype = RESULTS[entry.ret.llvm]
    with pytest.MonkeyPatch.context() as environment:  # read once, at the first question
        environment.setenv("VX_THREADS", "2")
        assert loaded.vx_thread_count() == 2
    return loaded


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Builds `programs/NAME.c` with the runtime, once; the executable's path."""
    folder = tmp_path_factory.mktemp("programs")

    def built(name: str) -> Path:
        executable = folder / name
        if not executable.exists():
            build(executable, PROGRAMS / f"{name}.c")
        return executable

    return built

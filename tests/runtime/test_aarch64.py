"""The runtime on the other architecture, under user-mode emulation where that is installed."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from runtime.native import PROGRAMS, build

from vx.model.random import values

QEMU = shutil.which("qemu-aarch64")
LIBRARIES = Path("/usr/aarch64-linux-gnu")


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() == "aarch64", reason="this machine is one: the other tests run on it")
@pytest.mark.skipif(QEMU is None or not LIBRARIES.is_dir(), reason="needs qemu-user and libc6-arm64-cross")
def test_pool_and_generated_bits(tmp_path: Path) -> None:
    def run(name: str, *arguments: str) -> bytes:
        executable = tmp_path / name
        if not executable.exists():
            build(executable, PROGRAMS / f"{name}.c", target="aarch64-linux-gnu.2.28")
        command = [str(QEMU), "-L", str(LIBRARIES), "-E", "VX_THREADS=2", str(executable), *arguments]
        return subprocess.run(command, capture_output=True, check=True).stdout

    assert run("speak", "jobs") == b"2"
    assert run("speak", "level") == b"0"
    assert run("weights", "2") == values(42, 0x1234567890ABCDEF, 0.125, 0.0, 0, 200000).tobytes()

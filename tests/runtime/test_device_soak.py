"""The cuda plugin under the address sanitizer: thousands of steps, and a driver that fails at every moment."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from runtime.device_plugin import FAKE, RUNTIME, SOURCES, fake_kernels, sources
from runtime.native import PROGRAMS

FLAGS = ("-std=c17", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-fsanitize=address,undefined",
         "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer", f"-I{RUNTIME}", f"-I{SOURCES}")  # fmt: skip


def gcc(output: Path, inputs: list[Path], *flags: str) -> None:
    done = subprocess.run(
        ["gcc", *FLAGS, *map(str, inputs), *flags, "-o", str(output), "-ldl"],
        capture_output=True,
        text=True,
        check=False,
    )
    if "libasan" in done.stderr:
        pytest.skip("gcc has no address sanitizer here: the device plugin was NOT tested under it")
    assert done.returncode == 0, done.stderr


def test_soak_and_failures(tmp_path: Path) -> None:
    if not shutil.which("gcc"):
        pytest.skip("no gcc: the device plugin was NOT tested under the address sanitizer")
    digest = fake_kernels(tmp_path, [("add", "add", 2), ("token", "token", 2)])
    gcc(tmp_path / "libcuda.so.1", sorted(FAKE.glob("*.c")), "-shared", "-Wl,-soname,libcuda.so.1")
    gcc(tmp_path / "soak", [*sources("cuda"), PROGRAMS / "device_soak.c"])
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(tmp_path),
        "FAKE_CUDA_DEVICES": "2",
        "ASAN_OPTIONS": "detect_leaks=1",
    }
    done = subprocess.run(
        [tmp_path / "soak", tmp_path, digest.hex()], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr[:4000]
    assert int(done.stdout.split()[0]) > 100, "most of the failures must have been met"

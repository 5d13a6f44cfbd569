"""Generated Triton source on the CPU: Triton's interpreter in a child process."""

from __future__ import annotations

import importlib.util
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from vx.codegen.triton import Printed, print_kernel
from vx.kernels import device, ir
from vx.kernels.device_form import device_region

needs_interpreter = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("triton", "torch")),
    reason="SKIPPED: running generated kernels needs Triton and a CPU build of torch",
)
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="SKIPPED: compiling device kernels needs Triton (extra `gpu`)"
)

Run = tuple[ir.Region, Sequence[Any], Sequence[Any]]


def printed(region: ir.Region) -> tuple[device.Region, list[Printed]]:
    """A region's launches, and the source of its kernels."""
    found = device_region(region)
    return found, [print_kernel(found, kernel) for kernel in found.kernels]


def run_interpreted(runs: Sequence[Run], folder: Path) -> list[tuple[list[Any], list[Any], str | None]]:
    """For each run: the arrays afterwards, the out scalars, the message of a check that failed."""
    jobs = [(*printed(region), list(arrays), list(scalars)) for region, arrays, scalars in runs]
    job, result = folder / "job", folder / "result"
    job.write_bytes(pickle.dumps((str(folder), jobs)))
    child = Path(__file__).with_name("triton_child.py")
    done = subprocess.run(
        [sys.executable, str(child), str(job), str(result)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    assert done.returncode == 0, done.stderr
    return list(pickle.loads(result.read_bytes()))

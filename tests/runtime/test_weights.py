"""The mapped model file and generated tensors."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from vx.model.random import values
from vx.model.rounding import to_elem
from vx.runtime.abi import EXIT_ABORT

Build = Callable[[str], Path]
Done = subprocess.CompletedProcess[bytes]

FILE = bytes(range(200)) * 6


def tensor(executable: Path, index: int, directory: Path | None = None) -> Done:
    environment = {k: v for k, v in os.environ.items() if k != "VX_MODEL_DIR"}
    if directory is not None:
        environment["VX_MODEL_DIR"] = str(directory)
    return subprocess.run([executable, str(index)], capture_output=True, check=False, env=environment)


def test_tensor_is_its_range_of_the_file(program: Build, tmp_path: Path) -> None:
    (tmp_path / "some.weights").write_bytes(FILE)
    done = tensor(program("weights"), 0, tmp_path)
    assert (done.returncode, done.stdout) == (0, FILE[16:28])


def test_model_directory_beside_the_executable(program: Build, tmp_path: Path) -> None:
    executable = Path(shutil.copy(program("weights"), tmp_path / "weights"))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "some.weights").write_bytes(FILE)
    assert tensor(executable, 1).stdout == FILE[1000:1008]


@pytest.mark.parametrize("size", [1, 20, 1007])
def test_truncated_file_is_refused(program: Build, tmp_path: Path, size: int) -> None:
    (tmp_path / "some.weights").write_bytes(FILE[:size])
    done = tensor(program("weights"), 1, tmp_path)
    assert (done.returncode, done.stdout) == (EXIT_ABORT, b"")
    assert f'tensor "last" is 8 bytes at offset 1000, but the file has {size}: it is truncated' in done.stderr.decode()


def test_missing_empty_and_odd_files_are_refused(program: Build, tmp_path: Path) -> None:
    def refusal() -> str:
        done = tensor(program("weights"), 0, tmp_path)
        assert done.returncode == EXIT_ABORT
        return done.stderr.decode()

    assert "some.weights: No such file or directory" in refusal()
    (tmp_path / "some.weights").mkdir()
    assert "some.weights: not a regular file" in refusal()
    (tmp_path / "some.weights").rmdir()
    (tmp_path / "some.weights").touch()
    assert "some.weights: empty" in refusal()


@pytest.mark.parametrize(
    ("index", "elem", "key", "scale", "bias", "count"),
    [
        (2, "f32", 0x1234567890ABCDEF, 0.125, 0.0, 200000),
        (3, "f16", 7, 0.5, 1.0, 100),
        (4, "bf16", 8, 3.0, 0.0, 100),
    ],
)
def test_generated_tensor_is_numpys_twin(
    program: Build, index: int, elem: str, key: int, scale: float, bias: float, count: int
) -> None:
    done = tensor(program("weights"), index)
    expected = to_elem(values(42, key, scale, bias, 0, count), elem, "t")
    assert done.returncode == 0
    assert done.stdout == expected.tobytes()
    assert len(np.unique(expected)) > 50


def test_program_without_a_model_links(program: Build) -> None:
    assert subprocess.run([program("speak"), "status", "0"], check=False).returncode == 0

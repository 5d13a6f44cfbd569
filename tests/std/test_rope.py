"""`rope_angle` against the published formulas, plain and with Llama-3 scaling."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import vx

PROGRAM = Path(__file__).parent / "programs" / "rope.vx"
SEQ, HEAD_DIM, THETA = 40, 16, 500000.0
SCALING = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def model_directory(root: Path, folder: Path, scaling: dict[str, object] | None) -> Path:
    """A directory with only a configuration: enough for a program that reads no weights."""
    config = json.loads((root / "models" / "tiny" / "config.json").read_text(encoding="utf-8"))
    changes = {"max_position_embeddings": SEQ, "rope_theta": THETA, "rope_scaling": scaling}
    (folder / "config.json").write_text(json.dumps({**config, **changes}), encoding="utf-8")
    return folder


def frequency(i: int, scaled: bool) -> float:
    """Radians per position of pair i, written as the reference implementation writes it: by wavelengths."""
    plain: float = THETA ** (-2 * i / HEAD_DIM)
    wavelength = 2 * math.pi / plain
    if not scaled or wavelength < 64 / 4.0:
        return plain
    if wavelength > 64 / 1.0:
        return plain / 8.0
    smooth = (64 / wavelength - 1.0) / (4.0 - 1.0)
    return (1 - smooth) * plain / 8.0 + smooth * plain


@pytest.mark.parametrize("scaling", [None, SCALING])
def test_rope_angle(root: Path, tmp_path: Path, scaling: dict[str, object] | None) -> None:
    result = vx.compile(PROGRAM, model=model_directory(root, tmp_path, scaling)).run(timeout=30)
    assert result.status == 0, result.stderr
    angles = np.array(result.stdout.split(), dtype=np.float32).reshape(SEQ, HEAD_DIM // 2)
    expected = [[p * frequency(i, scaling is not None) for i in range(HEAD_DIM // 2)] for p in range(SEQ)]
    np.testing.assert_allclose(angles, np.array(expected), rtol=2e-7)

"""Conversion between the element types that weights are stored in, ties to even.

Enters and leaves: numpy arrays. `bf16`, which numpy lacks, is held as its bits in u16.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vx.model.errors import ModelError

Floats = npt.NDArray[np.float32]
Stored = npt.NDArray[Any]


def to_elem(values: Floats, elem: str, name: str) -> Stored:
    """`values` as `elem` (f32, f16, bf16). E9115 if a finite value of tensor `name` becomes infinite."""
    if elem == "f32":
        return values
    with np.errstate(over="ignore"):
        stored: Stored = values.astype(np.float16) if elem == "f16" else _to_bf16(values)
    lost = np.isfinite(values) & ~np.isfinite(from_elem(stored, elem))
    if lost.any():
        worst = float(np.abs(values[lost]).max())
        raise ModelError(
            "E9115", f"tensor `{name}` holds {worst:g}, which does not fit in {elem}", ["import it as f32"]
        )
    return stored


def from_elem(stored: Stored, elem: str) -> Floats:
    """The f32 values of stored ones: exact."""
    if elem == "bf16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32)


def numpy_type(elem: str) -> np.dtype[Any]:
    """How numpy holds an element type, little-endian."""
    return np.dtype({"f32": "<f4", "f16": "<f2", "bf16": "<u2"}[elem])


def _to_bf16(values: Floats) -> npt.NDArray[np.uint16]:
    bits = values.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> 16 & np.uint32(1))) >> 16
    quiet = bits >> 16 | np.uint32(0x40)
    return np.where(np.isnan(values), quiet, rounded).astype(np.uint16)

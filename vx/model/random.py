"""Random weights: numpy's twin of the runtime's generator (`runtime/abi.py` has the definition).

Enters: a seed, a tensor's key, scale and bias. Leaves: the same f32 bits that the runtime makes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from vx.model.rounding import Floats

GAMMA = 0x9E3779B97F4A7C15
WORD = (1 << 64) - 1
CHUNK = 1 << 20
"""Elements generated at a time."""


def _mix(z: int) -> int:
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB & WORD
    return z ^ z >> 31


def _mix_all(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)


def values(seed: int, key: int, scale: float, bias: float, start: int, count: int) -> Floats:
    """Elements `start .. start + count` of a random tensor, before rounding to its element type."""
    stream = _mix(_mix(seed + GAMMA & WORD) ^ key)
    index = np.arange(start + 1, start + 1 + count, dtype=np.uint64)
    bits = _mix_all(index * np.uint64(GAMMA) + np.uint64(stream)) >> np.uint64(40)
    unit = bits.astype(np.float32) * np.float32(2.0**-23) - np.float32(1)
    return (unit * np.float32(scale) + np.float32(bias)).astype(np.float32)


def chunks(seed: int, key: int, scale: float, bias: float, count: int) -> Iterator[Floats]:
    """A whole tensor of `count` elements, a piece at a time."""
    for start in range(0, count, CHUNK):
        yield values(seed, key, scale, bias, start, min(CHUNK, count - start))

"""Tensors printed and copied between layouts, against numpy."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from vx.runtime.abi import ELEMENTS

Array = npt.NDArray[np.generic]


def longs(values: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * max(len(values), 1))(*values)


def element_strides(array: Array) -> list[int]:
    return [s // array.itemsize for s in array.strides]


def printed(library: ctypes.CDLL, array: Array, elem: str) -> str:
    """What vx_print_tensor writes to file descriptor 1."""
    sys.stdout.flush()
    with tempfile.TemporaryFile() as file:
        kept = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            extents, strides = longs(array.shape), longs(element_strides(array))
            library.vx_print_tensor(array.ctypes.data, ELEMENTS[elem], array.ndim, extents, strides)
            library.vx_flush()
        finally:
            os.dup2(kept, 1)
            os.close(kept)
        file.seek(0)
        return file.read().decode()


def test_rows_of_six_digits(library: ctypes.CDLL) -> None:
    array = np.array([[2.844823, 1.0, -0.5], [1e-7, 123456789.0, np.inf]], dtype=np.float32)
    assert printed(library, array, "f32") == "[[2.84482,   1,   -0.5],\n [1e-07,   1.23457e+08,   inf]]"


def test_rank_0_1_3_and_strided(library: ctypes.CDLL) -> None:
    assert printed(library, np.array(7, dtype=np.int32), "i32") == "7"
    assert printed(library, np.arange(6, dtype=np.uint8)[::2], "u8") == "[0,   2,   4]"
    cube = np.arange(8, dtype=np.float64).reshape(2, 2, 2)
    assert printed(library, cube, "f64") == "[[[0,   1],\n  [2,   3]],\n [[4,   5],\n  [6,   7]]]"
    assert printed(library, cube[1].T, "f64") == "[[4,   6],\n [5,   7]]"
    assert printed(library, np.zeros((0,), dtype=np.int64), "i64") == "[]"


def test_small_elements(library: ctypes.CDLL) -> None:
    assert printed(library, np.array([True, False]), "bool") == "[true,   false]"
    assert printed(library, np.array([0.1, -2], dtype=np.float16), "f16") == "[0.0999756,   -2]"
    assert printed(library, np.array([0x3FC0, 0xC000], dtype=np.uint16), "bf16") == "[1.5,   -2]"


def copy(library: ctypes.CDLL, target: Array, source: Array) -> None:
    library.vx_copy_strided(
        target.ctypes.data, longs(element_strides(target)), source.ctypes.data, longs(element_strides(source)),
        longs(source.shape), source.ndim, source.itemsize,
    )  # fmt: skip


@pytest.mark.parametrize("type_", [np.uint8, np.float16, np.float32, np.float64, np.complex128])
def test_copies_between_random_layouts(library: ctypes.CDLL, type_: type[np.generic]) -> None:
    rng = np.random.default_rng(7)
    for _ in range(150):
        rank = int(rng.integers(0, 5))
        shape = [int(n) for n in rng.integers(1, 6, rank)]
        source = random_view(rng, shape, type_)
        target = random_view(rng, shape, type_)
        source[...] = rng.integers(0, 100, shape).astype(type_)
        whole = target.base if isinstance(target.base, np.ndarray) else target
        outside = whole.copy()
        copy(library, target, source)
        assert (target == source).all()
        target[...] = 0
        target_zeroed = whole.copy()
        whole[...] = outside
        target[...] = 0
        assert (whole == target_zeroed).all(), "something outside the target was written"


def test_overlapping_views_are_read_before_they_are_written(library: ctypes.CDLL) -> None:
    whole = np.arange(60).reshape(10, 6)
    for target, source in (
        (np.s_[1:, 2], np.s_[:-1, 2]),
        (np.s_[:-1, 2], np.s_[1:, 2]),
        (np.s_[1:], np.s_[:-1]),
        (np.s_[2:8, 0:5], np.s_[1:7, 1:6]),
    ):
        wanted, changed = whole.copy(), whole.copy()
        wanted[target] = whole[source]
        copy(library, changed[target], changed[source])
        assert (changed == wanted).all()


def random_view(rng: np.random.Generator, shape: list[int], type_: type[np.generic]) -> Array:
    """A view of `shape` with permuted dimensions, gaps and offsets."""
    order = rng.permutation(len(shape))
    whole = np.zeros([shape[i] + int(rng.integers(0, 3)) for i in order], dtype=type_)
    cut = whole[...]  # an array also for rank 0
    for axis, i in enumerate(order):
        cut = cut[(slice(None),) * axis + (slice(0, shape[i]),)]
    return cut.transpose(np.argsort(order))


def test_large_copy_over_threads(library: ctypes.CDLL) -> None:
    source = np.random.default_rng(1).integers(0, 256, (2500, 4001), dtype=np.uint8)
    target = np.zeros_like(source)
    copy(library, target, source)
    assert (target == source).all()

"""CRC-32C and SHA-256 against published vectors and independent implementations."""

from __future__ import annotations

import ctypes
import hashlib
from itertools import pairwise

import numpy as np
import pytest

from vx.runtime.abi import SHA256_STATE_BYTES

VECTORS = {
    b"": 0, b"123456789": 0xE3069283, bytes(32): 0x8A9136AA, b"\xff" * 32: 0x62A8AB43,
    bytes(range(32)): 0x46DD794E, bytes(range(31, -1, -1)): 0x113FDB5C,
}  # fmt: skip
"""RFC 3720, B.4, and the check value."""


def reference(data: bytes) -> int:
    """Bit by bit, from the definition, over numpy columns of a table."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ 0x82F63B78, table >> 1).astype(np.uint32)
    rows, crc = table.tolist(), 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ rows[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


@pytest.mark.parametrize(("data", "crc"), VECTORS.items())
def test_crc32c_vectors(library: ctypes.CDLL, data: bytes, crc: int) -> None:
    assert library.vx_crc32c(0, data, len(data)) & 0xFFFFFFFF == crc


@pytest.mark.parametrize("size", [7, 8, 3071, 3072, 3073, 6200, 24575, 24576, 24577, 60001, 80000])
def test_crc32c_at_the_edges_of_the_lanes(library: ctypes.CDLL, size: int) -> None:
    data = np.random.default_rng(size).bytes(size)
    assert library.vx_crc32c(0, data, size) & 0xFFFFFFFF == reference(data)


def test_crc32c_continues(library: ctypes.CDLL) -> None:
    data = np.random.default_rng(3).bytes(50000)
    first = library.vx_crc32c(0, data[:30001], 30001)
    assert library.vx_crc32c(first, data[30001:], 19999) == library.vx_crc32c(0, data, 50000)


def sha256(library: ctypes.CDLL, pieces: list[bytes]) -> str:
    state = (ctypes.c_uint64 * (SHA256_STATE_BYTES // 8))()
    digest = ctypes.create_string_buffer(32)
    library.vx_sha256_begin(state)
    for piece in pieces:
        library.vx_sha256_update(state, piece, len(piece))
    library.vx_sha256_end(state, digest)
    return digest.raw.hex()


@pytest.mark.parametrize("size", [0, 1, 3, 55, 56, 57, 63, 64, 65, 119, 120, 128, 1000, 100000])
def test_sha256_of_every_padding(library: ctypes.CDLL, size: int) -> None:
    data = np.random.default_rng(size).bytes(size)
    assert sha256(library, [data]) == hashlib.sha256(data).hexdigest()


def test_sha256_in_pieces(library: ctypes.CDLL) -> None:
    data = np.random.default_rng(9).bytes(5000)
    cuts = [0, 1, 64, 65, 190, 192, 1000, 4999, 5000]
    pieces = [data[a:b] for a, b in pairwise(cuts)]
    assert sha256(library, pieces) == hashlib.sha256(data).hexdigest()

"""Tiles measured to be best on an H200, for products of matrices and a vector, by shape.

A shape that is not here gets those of the rule in `triton_tiles`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Shape:
    """`rows` of each of `sums` matrices with `length` columns of `bits` wide elements, that one vector is multiplied
    with."""

    rows: int
    length: int
    bits: int
    sums: int


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows of each matrix and columns that a program takes at a time, and its warps. `columns` None: see
    `triton_tiles.chunk`."""

    rows: int
    columns: int | None
    warps: int


TUNED: Mapping[Shape, Tile] = MappingProxyType(
    {
        # A layer of 2048 columns with 32 + 8 heads of 64, 8192 hidden columns, 128256 words.
        Shape(1024, 2048, 16, 2): Tile(2, 1024, 4),
        Shape(256, 2048, 16, 2): Tile(2, 1024, 4),
        Shape(512, 2048, 16, 1): Tile(4, 1024, 4),
        Shape(2048, 2048, 16, 1): Tile(4, 2048, 2),
        Shape(8192, 2048, 16, 2): Tile(2, 1024, 4),
        Shape(2048, 8192, 16, 1): Tile(4, 1024, 8),
        Shape(128256, 2048, 16, 1): Tile(4, 1024, 4),
        # A layer of 4096 columns with 32 + 8 heads of 128, 14336 hidden columns, 128256 words.
        Shape(2048, 4096, 16, 2): Tile(2, 4096, 4),
        Shape(512, 4096, 16, 2): Tile(2, 4096, 4),
        Shape(1024, 4096, 16, 1): Tile(4, 4096, 4),
        Shape(4096, 4096, 16, 1): Tile(2, 4096, 4),
        Shape(14336, 4096, 16, 2): Tile(2, 4096, 4),
        Shape(4096, 14336, 16, 1): Tile(4, 1024, 8),
        Shape(128256, 4096, 16, 1): Tile(4, 4096, 4),
    }
)

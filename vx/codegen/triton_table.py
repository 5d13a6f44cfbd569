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
    """Rows of each matrix and columns that a program takes at a time, and its warps."""

    rows: int
    columns: int
    warps: int


TUNED: Mapping[Shape, Tile] = MappingProxyType({})

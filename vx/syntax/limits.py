"""How deep a program may nest, and room on Python's stack for walking something that deep.

Every later stage walks the syntax tree recursively; the parser guarantees that no path from the root of
a tree to a leaf is longer than `MAX_NESTING` nodes per item.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

MAX_NESTING = 200
"""Longest chain of nodes inside one another in one item; beyond it E0107 is reported."""

_FRAMES_PER_LEVEL = 40


@contextmanager
def recursion_room() -> Iterator[None]:
    """Within this context, recursion over a tree of `MAX_NESTING` levels does not hit Python's limit."""
    before = sys.getrecursionlimit()
    wanted = MAX_NESTING * _FRAMES_PER_LEVEL
    if before >= wanted:
        yield
        return
    sys.setrecursionlimit(wanted)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)

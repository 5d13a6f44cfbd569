"""How deep a program may nest, and room on Python's stack for walking something that deep.

Every later stage walks trees recursively. The parser guarantees that no item is more than
`MAX_TREE_HEIGHT` nodes deep; `recursion_room` is the context in which to walk one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from vx.diagnostics.span import Span
from vx.syntax.ast import Node

MAX_NESTING = 200
"""Blocks, parentheses, types and operators inside one another, and links of one chain such as
`a + b + c` or `x.f().g()`; beyond it E0107 is reported."""

MAX_TREE_HEIGHT = 3 * MAX_NESTING
"""Longest path, in nodes, from an item to a leaf of its tree."""

_PYTHON_FRAMES = 20 * MAX_TREE_HEIGHT


@contextmanager
def recursion_room() -> Iterator[None]:
    """Within this context, a recursive walk over the deepest tree does not hit Python's recursion limit."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _PYTHON_FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def nests_too_deeply(root: Node) -> Span | None:
    """Where the tree under `root` is more than `MAX_TREE_HEIGHT` nodes deep, or None. Not recursive."""
    pending: list[tuple[object, int]] = [(root, 1)]
    while pending:
        value, height = pending.pop()
        if isinstance(value, tuple):
            pending.extend((element, height) for element in value)
        elif isinstance(value, Node):
            if height > MAX_TREE_HEIGHT:
                return value.span
            pending.extend((getattr(value, name), height + 1) for name in type(value).__slots__)
    return None

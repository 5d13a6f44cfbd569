"""The order of lines in a loop's body: loads of what the kernel does not change come first.

Enters: the lines of a block. Leaves: the same lines. A reduction makes all warps of a program meet, and no compiler
moves a load across that; here it is known which loads may.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set

_ASSIGNED = re.compile(r"( *)(\w+) = (.*)")
_LOADED = re.compile(r"tl\.load\((\w+)")
_NAME = re.compile(r"\w+")


def loads_first(lines: Sequence[str], unchanged: Set[str], changing: Set[str]) -> list[str]:
    """The lines, with loads of the pointers `unchanged` in front, after what they need; those that need a reduction
    come second. What has inner blocks, and what needs a name that is `changing`, stays as it is."""
    found = [_ASSIGNED.fullmatch(line) for line in lines]
    names = [m.group(2) for m in found if m]
    if len({len(line) - len(line.lstrip()) for line in lines}) > 1 or any("gdc_wait" in line for line in lines):
        return list(lines)
    fixed = {n for n in names if names.count(n) == 1} - changing
    needs: dict[int, set[int]] = {}
    at: dict[str, int] = {}
    movable: set[int] = set()
    for i, m in enumerate(found):
        if m is None:
            continue
        words = set(_NAME.findall(m.group(3)))
        pure = set(_LOADED.findall(m.group(3))) <= unchanged
        inner = words & set(names)
        if m.group(2) in fixed and pure and not words & changing and inner <= at.keys():
            movable.add(i)
            needs[i] = {i}.union(*(needs[at[n]] for n in inner))
            at[m.group(2)] = i
    loads = [needs[i] for i in sorted(movable) if "tl.load(" in lines[i]]
    alone = [n for n in loads if not any("axis=" in lines[i] for i in n)]
    order = list(dict.fromkeys([*sorted(set[int]().union(*alone)), *sorted(set[int]().union(*loads))]))
    return [lines[i] for i in order] + [line for i, line in enumerate(lines) if i not in set(order)]

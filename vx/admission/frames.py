"""Offsets: the slots of one function as a stack, in each bank.

Enters: `Slots`. Leaves: a `Layout`, which puts every slot at an offset from the frame's start and says how high
the frame is at any position. In a block, lasting slots lie in the order in which they are reserved; what lasts
one statement lies on those reserved so far; blocks inside the statement, and the frames of calls, on top.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vx.admission import tiles
from vx.admission.ops import OUTSIDE, At
from vx.admission.plan import Bank
from vx.admission.slots import Reserved, Slots
from vx.machine.machine import Machine


@dataclass(slots=True)
class _Column:
    """The slots that one block owns in one bank."""

    firsts: list[int] = field(default_factory=list)
    heights: list[int] = field(default_factory=list)
    """`heights[i]`: bytes of the first i + 1 lasting slots, of which `firsts[i]` is reserved last."""
    passing: dict[int, int] = field(default_factory=dict)
    """Bytes with those that last one statement, by statement."""
    align: int = 1

    def add(self, slot: Reserved, size: int) -> int:
        """Put a slot on top; its offset in the block. Lasting ones come first, in the order of their statements."""
        self.align = max(self.align, slot.align)
        below = (self.heights[-1] if self.heights else 0) if slot.lasting else self.top(slot.first)
        offset = tiles.multiple(below, slot.align)
        if slot.lasting:
            self.firsts.append(slot.first)
            self.heights.append(offset + size)
        else:
            self.passing[slot.first] = offset + size
        return offset

    def lasting(self, stmt: int) -> int:
        count = bisect_right(self.firsts, stmt)
        return self.heights[count - 1] if count else 0

    def top(self, stmt: int) -> int:
        return self.passing.get(stmt, 0) or self.lasting(stmt)


@dataclass(frozen=True, slots=True)
class Placed:
    """A slot with its bytes, rounded to the granule, and its offset from the start of the frame."""

    slot: Reserved
    bytes: int
    offset: int


@dataclass(frozen=True, slots=True)
class _Stack:
    """The columns of all blocks of a function."""

    columns: Mapping[tuple[Bank, int], _Column]
    parents: Sequence[At]

    def top(self, bank: Bank, at: At) -> int:
        """Bytes reserved at a position, in its block and those around it."""
        height = 0
        for here in reversed(list(self.around(at))):
            column = self.columns.get((bank, here.block))
            held = column.top(here.stmt) if column is not None else 0
            if column is not None and held:
                height = tiles.multiple(height, column.align) + held
        return height

    def around(self, at: At) -> Iterator[At]:
        """The position, and where the blocks around it stand."""
        while at.block != OUTSIDE:
            yield at
            at = self.parents[at.block]

    def base(self, bank: Bank, block: int) -> int:
        """Where a block's slots start: what the blocks around it hold meanwhile."""
        return tiles.multiple(self.top(bank, self.parents[block]), self.columns[bank, block].align)


@dataclass(frozen=True, slots=True)
class Layout:
    """The frame of one function. `own` is its height by itself in each bank that it uses, of whose alignment its start
    must be."""

    slots: Slots
    placed: tuple[Placed, ...]
    own: Mapping[Bank, int]
    align: Mapping[Bank, int]
    stack: _Stack

    def top(self, bank: Bank, at: At, align: int) -> int:
        """Where the frame of a function called at a position starts: on what is reserved there."""
        return tiles.multiple(self.stack.top(bank, at), align)

    def present(self, bank: Bank, at: At) -> list[Placed]:
        """The slots that are reserved at a position, lowest first."""
        around = {here.block: here.stmt for here in self.stack.around(at)}
        found = [placed for placed in self.placed if placed.slot.bank == bank and _lasts(placed.slot, around)]
        return sorted(found, key=lambda placed: placed.offset)

    def peak_at(self, bank: Bank) -> At:
        """Where the frame by itself is highest, in a bank that it uses."""
        mine = [placed for placed in self.placed if placed.slot.bank == bank]
        highest = max(mine, key=lambda placed: placed.offset + placed.bytes)
        return At(highest.slot.block, highest.slot.first)


def _lasts(slot: Reserved, around: Mapping[int, int]) -> bool:
    stmt = around.get(slot.block)
    if stmt is None:
        return False
    return slot.first <= stmt if slot.lasting else slot.first == stmt


def layout_of(slots: Slots, machine: Machine) -> Layout:
    """The frame of a function."""
    columns: dict[tuple[Bank, int], _Column] = defaultdict(_Column)
    inside: list[Placed] = []
    for slot in sorted(slots.reserved, key=lambda slot: (slot.block, not slot.lasting, slot.first)):
        size = tiles.rounded(slot.size.bytes, machine.space(slot.bank.space))
        inside.append(Placed(slot, size, columns[slot.bank, slot.block].add(slot, size)))
    stack = _Stack(dict(columns), slots.lowered.parents)
    own: dict[Bank, int] = defaultdict(int)
    align: dict[Bank, int] = defaultdict(lambda: 1)
    placed = []
    for item in inside:
        offset = stack.base(item.slot.bank, item.slot.block) + item.offset
        placed.append(Placed(item.slot, item.bytes, offset))
        own[item.slot.bank] = max(own[item.slot.bank], offset + item.bytes)
        align[item.slot.bank] = max(align[item.slot.bank], item.slot.align)
    return Layout(slots, tuple(placed), dict(own), dict(align), stack)

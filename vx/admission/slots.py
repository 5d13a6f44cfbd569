"""From operations on tiles to slots: moves unify owners, and the outermost owner says how long a slot lasts.

Enters: `Lowered` functions. Leaves: the slots of each function's own frame, its `Summary` for callers, and what
is wrong with its ownership (E6034, E6035). Functions come callee first; a cycle of calls is repeated until the
summaries no longer change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from vx.admission import tiles
from vx.admission.occupancy import Conflict, conflicts
from vx.admission.ops import (
    NO_SUMMARY,
    OUTSIDE,
    At,
    Branch,
    Fill,
    Holder,
    HolderId,
    Invoke,
    Lowered,
    Move,
    Op,
    Owner,
    Repeat,
    Source,
    Summaries,
    Summary,
    Untracked,
    invoked,
)
from vx.admission.plan import Bank, Kind, Limits, Node
from vx.admission.tiles import EMPTY, Size
from vx.diagnostics.span import Span
from vx.machine.machine import Machine
from vx.sema import tree

_ANY = max(tree.BITS.values()) // 8
"""An alignment for elements of any type."""


@dataclass(frozen=True, slots=True)
class Maker:
    """What makes a tile: leaf `number` of the value of `node`, hop `number` of its route, or its scratch."""

    node: Node
    number: int


@dataclass(frozen=True, slots=True)
class Reserved:
    """A slot of a function's own frame: reserved in `block` from statement `first` to the block's end, or, if not
    `lasting`, for that statement. `makers` fill it; it is shown at `span`."""

    bank: Bank
    size: Size
    name: str
    kind: Kind
    block: int
    first: int
    lasting: bool
    makers: tuple[Maker, ...]
    span: Span
    align: int
    """Its address is a multiple of this."""


@dataclass(frozen=True, slots=True)
class Placing:
    """A tile that is made in a function, wherever its slot is."""

    bank: Bank
    size: Size
    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class Shared:
    """E6035: the two that would be in one slot."""

    message: str
    span: Span
    other: Span
    other_text: str


@dataclass(frozen=True, slots=True)
class Lost:
    """E6034: what goes where no owner can be followed."""

    name: str
    where: str
    span: Span
    late: bool


@dataclass(frozen=True, slots=True)
class Slots:
    """What is known of one function's tiles."""

    lowered: Lowered
    reserved: tuple[Reserved, ...]
    placings: tuple[Placing, ...]
    summary: Summary
    returned: tuple[tuple[Maker, int], ...]
    """What makes a leaf of the result, and which."""
    shared: tuple[Shared, ...]
    lost: tuple[Lost, ...]


def slots_of(lowered: Lowered, machine: Machine, limits: Limits, summaries: Summaries) -> Slots:
    """The slots of a lowered function. A callee without a summary is taken to return nothing (yet)."""
    classes = _Classes(lowered, summaries)
    slots = [slot for slot in classes.slots.values() if not slot.external and not slot.covered]
    others = [*_hops(lowered), *_scratch(lowered, limits)]
    reserved = [slot.reserved(lowered, machine, classes.names) for slot in slots] + others
    return Slots(
        lowered,
        tuple(reserved),
        tuple(_placings(classes, machine, others)),
        _summary(classes),
        tuple(_returned(classes)),
        tuple(_shared(classes)),
        tuple(_lost(classes)),
    )


# ---- unification -------------------------------------------------------------------------------
@dataclass(slots=True)
class _Slot:
    """Holders that moves connect."""

    holders: list[Holder] = field(default_factory=list)
    fills: list[Fill] = field(default_factory=list)

    @property
    def external(self) -> bool:
        return any(holder.at.block == OUTSIDE for holder in self.holders)

    @property
    def covered(self) -> bool:
        return all(holder.covered for holder in self.holders)

    def of(self, owner: Owner) -> list[Holder]:
        return [holder for holder in self.holders if holder.owner is owner]

    @property
    def contested(self) -> bool:
        owners = [holder for holder in self.holders if holder.owner is not Owner.TEMP]
        return len(self.fills) + len(self.of(Owner.PARAM)) > 1 or (bool(self.fills) and len(owners) > 1)

    def makers(self) -> tuple[Maker, ...]:
        return tuple(Maker(fill.node, fill.number) for fill in self.fills)

    def size(self) -> Size:
        """Of the largest tile; what nothing is seen to fill, since it never returns, is charged by its type."""
        size = EMPTY if self.fills else tiles.size_of(self.holders[0].leaf.tensor)
        for fill in self.fills:
            size = size.or_larger(fill.size)
        return size

    def reserved(self, lowered: Lowered, machine: Machine, names: Mapping[HolderId, str]) -> Reserved:
        block = _common_block(lowered, [holder.at.block for holder in self.holders])
        stmts = [_statement_in(lowered, block, holder.at) for holder in self.holders]
        here = any(holder.owner is Owner.LOCAL and holder.at.block == block for holder in self.holders)
        lasting = here or min(stmts) != max(stmts)
        first = min(self.holders, key=lambda holder: holder.id)
        outermost = min(self.of(Owner.LOCAL) or self.holders, key=lambda holder: (holder.at.block, holder.id))
        placed = [fill for fill in self.fills if fill.placed]
        return Reserved(
            tiles.bank_of(machine, first.leaf.place),
            self.size(),
            names[outermost.id],
            Kind.TILE,
            block,
            min(stmts),
            lasting,
            self.makers(),
            (placed or self.fills or self.holders)[0].span,
            tiles.alignment(first.leaf.tensor),
        )


class _Classes:
    """The holders of a function by slot, with names for messages."""

    def __init__(self, lowered: Lowered, summaries: Summaries) -> None:
        self.lowered, self.summaries = lowered, summaries
        self.untracked = list(lowered.untracked)
        self._parent = list(range(len(lowered.holders)))
        self.fills: list[Fill] = []
        self._moved_to: dict[HolderId, HolderId] = {}
        self._read(lowered.ops)
        self.slot_of = {holder.id: self._find(holder.id) for holder in lowered.holders}
        self.names = {holder.id: self._name(holder) for holder in lowered.holders}
        self.slots: dict[int, _Slot] = {}
        for holder in lowered.holders:
            self.slots.setdefault(self.slot_of[holder.id], _Slot()).holders.append(holder)
        for fill in self.fills:
            self.slots[self.slot_of[fill.holder]].fills.append(fill)

    def _read(self, ops: tuple[Op, ...]) -> None:
        pending: list[Iterable[Op]] = [ops]
        while pending:
            for op in pending.pop():
                match op:
                    case Fill():
                        self.fills.append(op)
                    case Move(source=source, target=target):
                        self._moved_to.setdefault(source, target)
                        self._parent[self._find(target)] = self._find(source)
                    case Invoke():
                        pending.append(invoked(op, self.summaries))
                        self._escapes(op)
                    case Branch(arms=arms):
                        pending.extend(arms)
                    case Repeat(body=body):
                        pending.append(body)
        self.fills.sort(key=lambda fill: fill.holder)

    def _escapes(self, op: Invoke) -> None:
        for number, leaf, where in sorted(self.summaries.get(op.node.key, NO_SUMMARY).escapes):
            self.untracked.append(Untracked(op.args[number][leaf], where, op.node.args[number].span))

    def _find(self, id_: HolderId) -> HolderId:
        while self._parent[id_] != id_:
            self._parent[id_] = self._parent[self._parent[id_]]
            id_ = self._parent[id_]
        return id_

    def _name(self, holder: Holder) -> str:
        """Its own name, or that of where its tile goes next."""
        here, seen = holder, {holder.id}
        while not here.name:
            target = self._moved_to.get(here.id)
            if target is None or target in seen:
                return "a temporary"
            seen.add(target)
            here = self.lowered.holders[target]
        return here.name

    def slot_with(self, id_: HolderId) -> _Slot:
        return self.slots[self.slot_of[id_]]

    def contested(self) -> dict[HolderId, int]:
        """The slots that could get a second tile, by holder: several sources, or several owners in turn."""
        risky = {number for number, slot in self.slots.items() if slot.contested and not slot.covered}
        return {id_: number for id_, number in self.slot_of.items() if number in risky}


def _common_block(lowered: Lowered, blocks: list[int]) -> int:
    """The innermost block around all of these. Blocks are numbered outside in."""
    common = blocks[0]
    for block in blocks[1:]:
        while block != common:
            if block > common:
                block = lowered.parents[block].block
            else:
                common = lowered.parents[common].block
    return common


def _statement_in(lowered: Lowered, block: int, at: At) -> int:
    """The statement of `block` in which a position lies."""
    while at.block != block:
        at = lowered.parents[at.block]
    return at.stmt


# ---- other tiles -------------------------------------------------------------------------------
def _hops(lowered: Lowered) -> Iterator[Reserved]:
    for hop in lowered.hops:
        name, maker, at = f"the hop through {hop.bank.space}", Maker(hop.node, hop.number), hop.at
        span, align = hop.node.span, tiles.alignment(hop.tensor)
        yield Reserved(hop.bank, hop.size, name, Kind.HOP, at.block, at.stmt, True, (maker,), span, align)


def _scratch(lowered: Lowered, limits: Limits) -> Iterator[Reserved]:
    for region in lowered.regions:
        size = Size(limits.scratch[region.key])
        if size.bytes:
            name, at, maker = "the scratch of a region", region.at, Maker(region.node, 0)
            span = region.key.span
            yield Reserved(region.bank, size, name, Kind.SCRATCH, at.block, at.stmt, False, (maker,), span, _ANY)


def _placings(classes: _Classes, machine: Machine, others: list[Reserved]) -> list[Placing]:
    holders = classes.lowered.holders
    made = [fill for fill in classes.fills if fill.placed and not holders[fill.holder].covered]
    found = [
        Placing(
            tiles.bank_of(machine, holders[fill.holder].leaf.place), fill.size, classes.names[fill.holder], fill.span
        )
        for fill in made
    ]
    return found + [Placing(slot.bank, slot.size, slot.name, slot.span) for slot in others]


# ---- summaries ---------------------------------------------------------------------------------
def _summary(classes: _Classes) -> Summary:
    sources = []
    for holder in classes.lowered.holders:
        if holder.owner is Owner.RESULT:  # in the order of their leaves
            slot = classes.slot_with(holder.id)
            params = frozenset(param.index for param in slot.of(Owner.PARAM))
            sources.append(Source(slot.size() if slot.fills else None, params))
    escapes = frozenset(
        (*param.index, untracked.where)
        for untracked in classes.untracked
        for param in classes.slot_with(untracked.holder).of(Owner.PARAM)
    )
    return Summary(tuple(sources), escapes)


def _returned(classes: _Classes) -> Iterator[tuple[Maker, int]]:
    for holder in classes.lowered.holders:
        if holder.owner is Owner.RESULT:
            for maker in classes.slot_with(holder.id).makers():
                yield maker, holder.index[1]


# ---- what is wrong -----------------------------------------------------------------------------
def _shared(classes: _Classes) -> list[Shared]:
    found = [
        _conflict(classes, conflict) for conflict in conflicts(classes.lowered, classes.summaries, classes.contested())
    ]
    found.extend(
        Shared(
            f"the new value of `{again.name}` would be in one slot with the old one, which a reference holds",
            again.span,
            again.span,
            "stored here through a reference",
        )
        for again in classes.lowered.reassigned
    )
    told = {shared.span for shared in found}
    for slot in classes.slots.values():
        params = slot.of(Owner.PARAM)
        if not params or not slot.fills or any(fill.span in told for fill in slot.fills):
            continue
        found.append(_sometimes(slot, params[0], bool(slot.of(Owner.RESULT))))
    return found


def _conflict(classes: _Classes, conflict: Conflict) -> Shared:
    holders = classes.lowered.holders
    new, old = classes.names[conflict.holder], classes.names[conflict.other]
    other = holders[conflict.other]
    if new == old:
        message = f"the new value of {_quoted(new)} would be in one slot with the old one, which is still owned"
    else:
        message = f"{_quoted(new)} would be in one slot with {_quoted(old)}, which is still owned"
    return Shared(message, conflict.span, other.span, f"{_quoted(old)} is owned from here")


def _sometimes(slot: _Slot, param: Holder, is_result: bool) -> Shared:
    if is_result:
        message = f"the result is sometimes the argument `{param.name}` and sometimes a new tile"
    else:
        message = f"a new tile would take the place of the argument `{param.name}`, which is the caller's"
    return Shared(message, slot.fills[0].span, param.span, f"`{param.name}` is the caller's")


def _quoted(name: str) -> str:
    return name if " " in name else f"`{name}`"


def _lost(classes: _Classes) -> list[Lost]:
    found = []
    for untracked in classes.untracked:
        slot = classes.slot_with(untracked.holder)
        if not slot.of(Owner.PARAM):
            name = next((holder.name for holder in slot.of(Owner.LOCAL)), "a tile")
            found.append(Lost(name, untracked.where, untracked.span, untracked.late))
    return found

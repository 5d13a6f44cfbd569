"""From operations on tiles to slots: moves unify owners, and the outermost owner says how long a slot lasts.

Enters: `Lowered` functions. Leaves: the slots of each function's own frame, its `Summary` for callers, and what
is wrong with its ownership (E6034, E6035). Functions come callee first; a cycle of calls is repeated until the
summaries no longer change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vx.admission import tiles
from vx.admission.occupancy import Conflict, conflicts
from vx.admission.ops import (
    OUTSIDE,
    At,
    Branch,
    Fill,
    Holder,
    HolderId,
    Lowered,
    Move,
    Op,
    Owner,
    Repeat,
    Source,
    Summary,
)
from vx.admission.plan import Bank, Kind, Limits
from vx.admission.tiles import EMPTY, Size
from vx.diagnostics.span import Span
from vx.machine.machine import Machine


@dataclass(frozen=True, slots=True)
class Reserved:
    """A slot of a function's own frame: reserved in `block` from statement `first` to the block's end, or, if not
    `lasting`, for that statement. `placed`: some tile is made for it in this function, at `span`."""

    bank: Bank
    size: Size
    name: str
    kind: Kind
    block: int
    first: int
    lasting: bool
    placed: bool
    span: Span


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
    shared: tuple[Shared, ...]
    lost: tuple[Lost, ...]


def slots_of(lowered: Lowered, machine: Machine, limits: Limits) -> Slots:
    """The slots of a lowered function."""
    classes = _Classes(lowered)
    slots = [slot for slot in classes.slots() if slot.fills and not slot.external]
    reserved = [slot.reserved(lowered, machine, classes.names) for slot in slots]
    reserved.extend(_hops(lowered))
    reserved.extend(_scratch(lowered, limits))
    return Slots(
        lowered,
        tuple(reserved),
        tuple(_placings(classes, machine)),
        _summary(classes),
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

    def of(self, owner: Owner) -> list[Holder]:
        return [holder for holder in self.holders if holder.owner is owner]

    def size(self) -> Size:
        size = EMPTY
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
            bool(placed),
            (placed or self.fills)[0].span,
        )


class _Classes:
    """The holders of a function by slot, with names for messages."""

    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self._parent = list(range(len(lowered.holders)))
        self.fills: list[Fill] = []
        self._moved_to: dict[HolderId, HolderId] = {}
        self._read(lowered.ops)
        self.slot_of = {holder.id: self._find(holder.id) for holder in lowered.holders}
        self.names = {holder.id: self._name(holder) for holder in lowered.holders}

    def _read(self, ops: tuple[Op, ...]) -> None:
        pending = [ops]
        while pending:
            for op in pending.pop():
                match op:
                    case Fill():
                        self.fills.append(op)
                    case Move(source=source, target=target):
                        self._moved_to.setdefault(source, target)
                        self._parent[self._find(target)] = self._find(source)
                    case Branch(arms=arms):
                        pending.extend(arms)
                    case Repeat(body=body):
                        pending.append(body)
        self.fills.sort(key=lambda fill: fill.holder)

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

    def slots(self) -> list[_Slot]:
        found: dict[int, _Slot] = {}
        for holder in self.lowered.holders:
            found.setdefault(self.slot_of[holder.id], _Slot()).holders.append(holder)
        for fill in self.fills:
            found[self.slot_of[fill.holder]].fills.append(fill)
        return list(found.values())

    def slot_with(self, id_: HolderId) -> list[Holder]:
        return [holder for holder in self.lowered.holders if self.slot_of[holder.id] == self.slot_of[id_]]


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
def _hops(lowered: Lowered) -> list[Reserved]:
    return [
        Reserved(
            hop.bank, hop.size, f"a hop through {hop.bank.space}", Kind.HOP, hop.at.block, hop.at.stmt, True, True,
            hop.span,
        )
        for hop in lowered.hops
    ]  # fmt: skip


def _scratch(lowered: Lowered, limits: Limits) -> list[Reserved]:
    found = []
    for region in lowered.regions:
        size = Size((limits.scratch or {}).get(region.key, 0))
        if size.bytes:
            at, span = region.at, region.key.span
            found.append(
                Reserved(region.bank, size, "scratch of a region", Kind.SCRATCH, at.block, at.stmt, False, True, span)
            )
    return found


def _placings(classes: _Classes, machine: Machine) -> list[Placing]:
    holders = classes.lowered.holders
    made = [fill for fill in classes.fills if fill.placed]
    found = [
        Placing(
            tiles.bank_of(machine, holders[fill.holder].leaf.place), fill.size, classes.names[fill.holder], fill.span
        )
        for fill in made
    ]
    hops = [Placing(hop.bank, hop.size, f"the hop through {hop.bank.space}", hop.span) for hop in classes.lowered.hops]
    return found + hops


# ---- summaries ---------------------------------------------------------------------------------
def _summary(classes: _Classes) -> Summary:
    results = sorted(
        ((holder.index[1], holder.id) for holder in classes.lowered.holders if holder.owner is Owner.RESULT)
    )
    by_number = {slot.holders[0].id: slot for slot in classes.slots()}
    by_slot = {classes.slot_of[id_]: slot for id_, slot in by_number.items()}
    sources = []
    for _, id_ in results:
        slot = by_slot[classes.slot_of[id_]]
        params = frozenset(holder.index for holder in slot.of(Owner.PARAM))
        sources.append(Source(slot.size() if slot.fills else None, params))
    escapes = set()
    for untracked in classes.lowered.untracked:
        for param in by_slot[classes.slot_of[untracked.holder]].of(Owner.PARAM):
            escapes.add((*param.index, untracked.where))
    return Summary(tuple(sources), frozenset(escapes))


# ---- what is wrong -----------------------------------------------------------------------------
def _shared(classes: _Classes) -> list[Shared]:
    found = [_conflict(classes, conflict) for conflict in conflicts(classes.lowered, classes.slot_of)]
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
    for slot in classes.slots():
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
    for untracked in classes.lowered.untracked:
        holders = classes.slot_with(untracked.holder)
        if not any(holder.owner is Owner.PARAM for holder in holders):
            name = next((holder.name for holder in holders if holder.owner is Owner.LOCAL), "a tile")
            found.append(Lost(name, untracked.where, untracked.span, untracked.late))
    return found

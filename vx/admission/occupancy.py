"""Two tiles in one slot: where a tile may be put while the slot's last one is still owned.

Enters: a function's operations and which slot each holder belongs to. Leaves: the conflicts. The walk keeps
the set of holders that may own something; after a branch it is the union, around a loop the fixed point.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from vx.admission.ops import (
    At,
    Branch,
    Drop,
    EndBlock,
    EndStmt,
    Fill,
    Holder,
    HolderId,
    Invoke,
    Leave,
    Lowered,
    Move,
    Op,
    Owner,
    Repeat,
    Summaries,
    invoked,
)
from vx.diagnostics.span import Span

State = set[HolderId]
"""Holders that may own a tile. Operations change it in place; a branch or loop goes on with copies."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """A tile comes into `holder` at `span` while `other`, of the same slot, may own one."""

    holder: HolderId
    other: HolderId
    span: Span


def conflicts(lowered: Lowered, summaries: Summaries, slot_of: Mapping[HolderId, int]) -> tuple[Conflict, ...]:
    """Every place where a slot may get a second tile. `slot_of` maps the holders that matter to their slots."""
    walk = _Walk(lowered, summaries, slot_of)
    for holder in lowered.holders:
        walk.know(holder)
    start: State = set()
    for holder in lowered.holders:
        if holder.owner is Owner.PARAM:
            walk.put(start, holder.id, holder.span)
    walk.run(lowered.ops, start)
    return tuple(walk.found)


@dataclass(slots=True)
class _Loop:
    first: int
    end: int
    breaks: State | None = None
    continues: State | None = None


@dataclass(slots=True)
class _Walk:
    lowered: Lowered
    summaries: Summaries
    slot_of: Mapping[HolderId, int]
    members: dict[int, list[HolderId]] = field(default_factory=lambda: defaultdict(list))
    """The holders of each slot."""
    temps: dict[At, list[HolderId]] = field(default_factory=lambda: defaultdict(list))
    """Those that die with a statement."""
    inside: dict[int, list[HolderId]] = field(default_factory=lambda: defaultdict(list))
    """Those that die with a block."""
    found: dict[Conflict, None] = field(default_factory=dict)
    loops: list[_Loop] = field(default_factory=list)

    def know(self, holder: Holder) -> None:
        slot = self.slot_of.get(holder.id)
        if slot is not None:
            self.members[slot].append(holder.id)
            self.inside[holder.at.block].append(holder.id)
            if holder.owner is Owner.TEMP:
                self.temps[holder.at].append(holder.id)

    def put(self, state: State, id_: HolderId, span: Span) -> None:
        """A tile comes into a holder from elsewhere."""
        slot = self.slot_of.get(id_)
        if slot is None:
            return
        for other in self.members[slot]:
            if other in state:
                self.found.setdefault(Conflict(id_, other, span))
        state.add(id_)

    def run(self, ops: Iterable[Op], state: State | None) -> State | None:
        """The state after the operations; None where none is reached."""
        for op in ops:
            if state is None:
                return None
            state = self._step(op, state)
        return state

    def _step(self, op: Op, state: State) -> State | None:
        match op:
            case Fill(holder=id_, span=span):
                self.put(state, id_, span)
            case Move(source=source, target=target):
                if source in state:
                    state.remove(source)
                    state.add(target)
            case Invoke():
                return self.run(invoked(op, self.summaries), state)
            case Drop() | EndStmt() | EndBlock():
                state.difference_update(self._dying(op))
            case Branch(arms=arms):
                return _join(self.run(arm, set(state)) for arm in arms)
            case Repeat():
                return self._repeat(op, state)
            case Leave(how=how):
                self._leave(how, state)
                return None
        return state

    def _dying(self, op: Drop | EndStmt | EndBlock) -> Iterable[HolderId]:
        match op:
            case Drop(holders=dropped):
                return dropped
            case EndStmt(at=at):
                return self.temps.get(at, ())
            case EndBlock(block=block):
                return self.inside.get(block, ())

    def _repeat(self, op: Repeat, state: State) -> State | None:
        loop = _Loop(op.first, op.end)
        self.loops.append(loop)
        while True:
            again = _join((self.run(op.body, set(state)), loop.continues))
            if again is None or again <= state:
                break
            state |= again
        self.loops.pop()
        return loop.breaks

    def _leave(self, how: str, state: State) -> None:
        if how == "return" or not self.loops:
            return
        loop = self.loops[-1]
        inside = range(loop.first, loop.end)
        kept = {i for i in state if self.lowered.holders[i].at.block not in inside}
        if how == "break":
            loop.breaks = _join((loop.breaks, kept))
        else:
            loop.continues = _join((loop.continues, kept))


def _join(states: Iterable[State | None]) -> State | None:
    """What may be owned after any of them, which are given up for it."""
    joined: State | None = None
    for state in states:
        if joined is None:
            joined = state
        elif state is not None:
            joined |= state
    return joined

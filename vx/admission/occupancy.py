"""Two tiles in one slot: where a tile may be put while the slot's last one is still owned.

Enters: a function's operations and which slot each holder belongs to. Leaves: the conflicts. The walk keeps
the set of holders that may own something; after a branch it is the union, around a loop the fixed point.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from vx.admission.ops import Branch, Drop, EndBlock, EndStmt, Fill, HolderId, Leave, Lowered, Move, Op, Owner, Repeat
from vx.diagnostics.span import Span

State = frozenset[HolderId]


@dataclass(frozen=True, slots=True)
class Conflict:
    """A tile comes into `holder` at `span` while `other`, of the same slot, may own one."""

    holder: HolderId
    other: HolderId
    span: Span


def conflicts(lowered: Lowered, slot_of: Mapping[HolderId, int]) -> tuple[Conflict, ...]:
    """Every place where a slot may get a second tile. `slot_of` maps the holders that matter to their slots."""
    walk = _Walk(lowered, slot_of)
    start: State = frozenset()
    for holder in lowered.holders:
        if holder.owner is Owner.PARAM:
            start = walk.put(start, holder.id, holder.span)
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
    slot_of: Mapping[HolderId, int]
    found: dict[Conflict, None] = field(default_factory=dict)
    loops: list[_Loop] = field(default_factory=list)

    def put(self, state: State, id_: HolderId, span: Span) -> State:
        """The state after a tile came into a holder from elsewhere."""
        slot = self.slot_of.get(id_)
        if slot is None:
            return state
        for other in sorted(state):
            if self.slot_of[other] == slot:
                self.found.setdefault(Conflict(id_, other, span))
        return state | {id_}

    def run(self, ops: Iterable[Op], state: State | None) -> State | None:
        """The state after the operations; None where none is reached."""
        for op in ops:
            if state is None:
                return None
            state = self._step(op, state)
        return state

    def _step(self, op: Op, state: State) -> State | None:
        holders = self.lowered.holders
        match op:
            case Fill(holder=id_, span=span):
                return self.put(state, id_, span)
            case Move(source=source, target=target):
                return (state - {source}) | {target} if source in state else state
            case Drop(holders=dropped):
                return state.difference(dropped)
            case EndStmt(at=at):
                return frozenset(i for i in state if holders[i].owner is not Owner.TEMP or holders[i].at != at)
            case EndBlock(block=block):
                return frozenset(i for i in state if holders[i].at.block != block)
            case Branch(arms=arms):
                return _join(self.run(arm, state) for arm in arms)
            case Repeat():
                return self._repeat(op, state)
            case Leave(how=how):
                self._leave(how, state)
                return None

    def _repeat(self, op: Repeat, state: State) -> State | None:
        loop = _Loop(op.first, op.end)
        self.loops.append(loop)
        while True:
            end = _join((self.run(op.body, state), loop.continues))
            after = state if end is None else state | end
            if after == state:
                break
            state = after
        self.loops.pop()
        return loop.breaks

    def _leave(self, how: str, state: State) -> None:
        if how == "return" or not self.loops:
            return
        loop = self.loops[-1]
        inside = range(loop.first, loop.end)
        kept = frozenset(i for i in state if self.lowered.holders[i].at.block not in inside)
        if how == "break":
            loop.breaks = _join((loop.breaks, kept))
        else:
            loop.continues = _join((loop.continues, kept))


def _join(states: Iterable[State | None]) -> State | None:
    reached = [state for state in states if state is not None]
    return frozenset().union(*reached) if reached else None

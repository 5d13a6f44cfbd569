"""What a role's memory is spent on: the slots of the peak in groups that a person recognises (`itemise`).

Enters: a Plan and its program. Leaves: `Item`s. A tile belongs to the innermost struct that has it as a field, or else
to its binding; tiles that are copied from the model directory are weights, whatever they are called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from vx.admission.plan import Arena, Bank, Frame, Home, Kind, Plan, Slot
from vx.diagnostics.span import Span
from vx.sema import tree

_Same = tuple[Bank, str, Kind, Span]
ItemKind = Literal["weights", "tile", "hop", "scratch", "workspace", "reserve"]

_NAMES: Mapping[Kind, tuple[str, ItemKind]] = {
    Kind.HOP: ("copies on the way", "hop"),
    Kind.SCRATCH: ("kernel scratch", "scratch"),
    Kind.WORKSPACE: ("library workspace", "workspace"),
}


@dataclass(frozen=True, slots=True)
class Item:
    """A part of what is needed in one bank where the most is: `tiles` slots of `bytes` together.

    The reserve is what a deployment keeps beside that.
    """

    bank: Bank
    name: str
    kind: ItemKind
    bytes: int
    tiles: int


def itemise(plan: Plan, program: tree.Program) -> tuple[Item, ...]:
    """For each arena of a role, largest first, what makes up its bytes; then its workspace and reserve."""
    known = _Known(program, {frame.function: frame for frame in plan.frames}, _weight_results(plan.frames))
    return tuple(item for arena in plan.arenas for item in _items(arena, known))


def _items(arena: Arena, known: _Known) -> Iterator[Item]:
    groups: dict[tuple[str, ItemKind], list[int]] = {}
    for slot in arena.peak:
        groups.setdefault(known.group(slot), []).append(slot.bytes)
    items = [Item(arena.bank, name, kind, sum(sizes), len(sizes)) for (name, kind), sizes in groups.items()]
    yield from sorted(items, key=lambda item: -item.bytes)
    if arena.workspace:
        yield Item(arena.bank, *_NAMES[Kind.WORKSPACE], arena.workspace, 1)
    if arena.reserve:
        yield Item(arena.bank, "reserve", "reserve", arena.reserve, 0)


@dataclass(slots=True)
class _Known:
    """What the program and the frames of a role say about slots; each function is looked through once."""

    program: tree.Program
    frames: Mapping[str, Frame]
    results: Mapping[tuple[str, int], bool]
    _locals: dict[str, dict[str, list[tree.Type]]] = field(default_factory=dict)
    _makers: dict[str, dict[_Same, list[Home]]] = field(default_factory=dict)

    def group(self, slot: Slot) -> tuple[str, ItemKind]:
        if slot.kind is not Kind.TILE:
            return _NAMES[slot.kind]
        return self._owner(slot), "weights" if self._is_weights(slot) else "tile"

    def _owner(self, slot: Slot) -> str:
        """The innermost struct around a tile, or its binding. `slot.name` is the binding and the fields: `w.wq`."""
        binding, *fields = slot.name.split(".")
        for type_ in self._types(slot.function).get(binding, ()):
            owner = _struct_around(type_, fields, self.program)
            if owner is not None:
                return owner
        return binding

    def _types(self, function: str) -> dict[str, list[tree.Type]]:
        """The types of a function's locals by name."""
        if function not in self._locals:
            found = self._locals[function] = {}
            for local in self.program.functions[function].locals.values():
                found.setdefault(local.name, []).append(local.type)
        return self._locals[function]

    # ---- weights: slots that hold tensors of the model directory and nothing else ----
    def _is_weights(self, slot: Slot) -> bool:
        if slot.function not in self._makers:
            frame = self.frames[slot.function]
            found = self._makers[slot.function] = {}
            for home in frame.homes:
                if home.slot is not None:
                    found.setdefault(_same(frame.slots[home.slot]), []).append(home)
        return _all_weights(self._makers[slot.function].get(_same(slot), []), self.results)


def _weight_results(frames: Iterable[Frame]) -> dict[tuple[str, int], bool]:
    """Which leaves of the results of functions are weights. Frames come callees first; what a function gets from
    itself is taken for none."""
    results: dict[tuple[str, int], bool] = {}
    for frame in frames:
        made: dict[int, list[Home]] = {}
        for home in frame.homes:
            if home.result is not None:
                made.setdefault(home.result, []).append(home)
        results.update({(frame.function, number): _all_weights(homes, results) for number, homes in made.items()})
    return results


def _all_weights(homes: Sequence[Home], results: Mapping[tuple[str, int], bool]) -> bool:
    """Whether everything that fills a slot or result comes from the model directory."""
    return bool(homes) and all(_makes_weights(home, results) for home in homes)


def _makes_weights(home: Home, results: Mapping[tuple[str, int], bool]) -> bool:
    node = home.node
    if isinstance(node, tree.Transfer):
        return _is_model(node.ref)
    return isinstance(node, tree.Call) and results.get((node.key, home.number), False)


def _same(slot: Slot) -> _Same:
    """What a slot at its place in the arena has in common with the slot of its frame."""
    return slot.bank, slot.name, slot.kind, slot.span


def _struct_around(type_: tree.Type, fields: list[str], program: tree.Program) -> str | None:
    """The struct that the last of `fields` is a field of; None if the type has no such field."""
    owner = None
    for name in fields:
        if not isinstance(type_, tree.Struct):
            return None
        struct = program.structs[type_.key]
        inner = dict(struct.fields).get(name)
        if inner is None:
            return None
        owner, type_ = struct.name, inner
    return owner


def _is_model(view: tree.Value) -> bool:
    """Whether a view is of a tensor of the model directory."""
    place = view.place if isinstance(view, tree.AddrOf) else None
    while isinstance(place, tree.Index | tree.Reshape | tree.Transpose | tree.Bytes):
        place = place.base
    return isinstance(place, tree.ModelTensor)

"""The Plan: what admission proves about one role on one machine, and what the allocator follows.

Read this file first. It only declares data. `slots.py` finds the tiles of each function, `frames.py` gives them
offsets, `peaks.py` adds frames along calls, `check.py` compares the sums with the machine and writes the Plan.

A *slot* is storage for one tile: reserved for a part of one function's body, and filled by whatever is placed
there and moved along. A *frame* is the stack of a function's slots in one arena; the frame of a callee starts
where the caller's ends at the call. An *arena* is the device memory that a role takes in one allocation, one
for each space and instance. All figures are exact bytes.

Sizes are rounded up to the granule of their space. An offset is a multiple of the granule too, and of the bytes of
an element where that is more; what this leaves empty is counted. So an arena has to start at such a multiple, and a
device whose code wants tiles aligned to 256 bytes declares that as its granule, as the machine files of GPUs do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from vx.diagnostics.span import Span
from vx.machine.machine import Reserve
from vx.machine.route import Hop
from vx.sema import tree

Node = tree.Value | tree.Land


class Bank(NamedTuple):
    """One copy of a memory space: capacity is per bank."""

    space: str
    instance: int

    def __str__(self) -> str:
        return self.space if self.instance == 0 else f"{self.space} of instance {self.instance}"


class Verdict(Enum):
    """UNVERIFIED: some extent is unknown, so nothing is proven; never counted as admitted."""

    ADMITTED = "admitted"
    REJECTED = "rejected"
    UNVERIFIED = "unverified"


class Kind(Enum):
    """What a slot is for."""

    TILE = "tile"
    HOP = "hop"
    """A copy on the way of a transfer of several hops."""
    SCRATCH = "scratch"
    """What the kernels of a region need beside their tensors."""
    WORKSPACE = "workspace"
    """What a vendor library is given."""


@dataclass(frozen=True, slots=True)
class RegionKey:
    """A region: the function (a key of `Program.functions`) and where its `spawn` stands."""

    function: str
    span: Span


@dataclass(frozen=True, slots=True)
class Limits:
    """What admission is told beside program and machine.

    `reserve` overrides that of the machine file for device memories. `scratch` gives the bytes that the kernels
    of a region need in the memory of its device, where they start at a multiple of 16: all that its code makes there,
    its value excepted. What it places elsewhere is counted as in any code, and so is everything for a region that is
    not in `scratch`.
    `workspace` gives the bytes that a library takes in each used bank of a space.
    """

    reserve: Reserve | None = None
    scratch: Mapping[RegionKey, int] = field(default_factory=dict)
    workspace: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Slot:
    """Storage for one tile. `offset` counts from the start of its frame, or, with a `path`, of the arena.

    `bytes` is rounded up to the granule; `path` are the calls that lead to its function, outermost first.
    """

    bank: Bank
    offset: int
    bytes: int
    name: str
    kind: Kind
    function: str
    span: Span
    path: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Home:
    """Where a node of the typed program puts a tile that it makes: leaf `number` of its value, hop `number` of its
    route, or its scratch. Either a slot of the frame (an index of `Frame.slots`), or leaf `result` of the function's
    result, whose address the caller gives. A call's results are made by the call. A result that is one of the
    arguments has no home: it stays where it is.
    """

    node: Node
    kind: Kind
    number: int
    slot: int | None
    result: int | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A call in a frame: in each bank that the callee uses, the callee's frame starts at `base`.

    `node` is None for drops that run a function: all of them in one frame, wherever a value of the type dies.
    """

    callee: str
    node: tree.Call | None
    span: Span
    base: Mapping[Bank, int]


@dataclass(frozen=True, slots=True)
class Frame:
    """One function: its slots, its calls, and how much it needs by itself (`own`) and with its calls (`total`)."""

    function: str
    slots: tuple[Slot, ...]
    homes: tuple[Home, ...]
    calls: tuple[Call, ...]
    own: Mapping[Bank, int]
    total: Mapping[Bank, int]


@dataclass(frozen=True, slots=True)
class Arena:
    """The memory that the role takes in one bank, and how it fits.

    `capacity` None is an unconstrained space; `peak` are the slots that coexist where `bytes` are needed.
    `bytes` is None where a recursion or an unknown extent leaves it open. It includes `workspace`, which lies
    at the bottom and is rounded up as offsets are.
    """

    bank: Bank
    bytes: int | None
    capacity: int | None
    reserve: int
    workspace: int
    peak: tuple[Slot, ...]

    @property
    def device_margin(self) -> int | None:
        """Bytes left of the capacity; negative: missing."""
        return None if self.bytes is None or self.capacity is None else self.capacity - self.bytes

    @property
    def deployment_margin(self) -> int | None:
        """Bytes left when the reserve is kept."""
        margin = self.device_margin
        return None if margin is None else margin - self.reserve


@dataclass(frozen=True, slots=True)
class Moved:
    """A transfer in the program. `bytes` is what it moves at most, None if that is unknown; `exact` if always."""

    function: str
    span: Span
    route: tuple[str, ...]
    source: Bank
    target: Bank
    bytes: int | None
    exact: bool
    lands: bool


@dataclass(frozen=True, slots=True, order=True)
class Unknown:
    """What happens a number of times that is not known: a loop, or a function whose calls cannot be counted.

    `count` is the number in the program's own names, `?` if that has none.
    """

    file: str
    start: int
    end: int
    count: str
    is_call: bool = False

    @property
    def span(self) -> Span:
        return Span(self.file, self.start, self.end)


Often = Mapping[tuple[Unknown, ...], int]
"""At most so many times for each time that all of the key happens, outermost first; the sum of the items."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a transfer will cost, each time it happens.

    `bytes` and `ps` (picoseconds) are for the most that it moves; None: not known, not predicted. `formula` says in
    the program's own names what it moves where that is not always the same. `often` is empty if it is not known how
    often a role does this. `hops` are priced one by one. `basis` names the files whose figures are used, or says why
    there is no time. `note` says if another route would take less.
    """

    what: str
    function: str
    span: Span
    bytes: int | None
    formula: str
    often: Often
    route: tuple[str, ...]
    hops: tuple[Hop, ...]
    ps: int | None
    basis: str
    note: str = ""

    @property
    def seconds(self) -> float | None:
        return None if self.ps is None else self.ps / 10**12


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a role does not fit: the figures of one diagnostic."""

    code: str
    function: str
    bank: Bank
    required: int
    available: int
    tiles: int
    span: Span

    @property
    def margin(self) -> int:
        return self.available - self.required


@dataclass(frozen=True, slots=True)
class Plan:
    """The proof for one role. Frames are in the order callee before caller; the role's own is the last."""

    role: str
    verdict: Verdict
    arenas: tuple[Arena, ...]
    frames: tuple[Frame, ...]
    transfers: tuple[Moved, ...]
    misfits: tuple[Misfit, ...]
    unverified: tuple[str, ...]

    def arena(self, space: str, instance: int = 0) -> Arena | None:
        """The arena in one bank; None if the role places nothing there."""
        return next((arena for arena in self.arenas if arena.bank == Bank(space, instance)), None)


def every_slot(plan: Plan) -> Iterator[Slot]:
    """Every slot of the role at its offset in the arena, once for each path of calls that leads to it.

    There can be very many paths, so they are made as they are asked for. A cycle of calls is entered once.
    """
    frames = {frame.function: frame for frame in plan.frames}
    start = {arena.bank: arena.workspace for arena in plan.arenas}
    pending: list[tuple[Frame, Mapping[Bank, int], tuple[Span, ...], frozenset[str]]] = []
    pending.append((plan.frames[-1], start, (), frozenset()))
    while pending:
        frame, base, path, above = pending.pop()
        for slot in frame.slots:
            yield replace(slot, offset=base[slot.bank] + slot.offset, path=path)
        for call in reversed(frame.calls):
            if call.callee not in above | {frame.function}:
                inner = {bank: base[bank] + offset for bank, offset in call.base.items()}
                pending.append((frames[call.callee], inner, (*path, call.span), above | {frame.function}))

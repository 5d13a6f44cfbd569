"""A function reduced to what happens to its tiles: made by `ownership.py`, read by `slots.py` and `occupancy.py`.

A *holder* is something that can own one tile: a leaf of a local, parameter or result, or a temporary. The body
becomes a sequence of operations on holders; everything else that admission needs of it stands in flat lists.
Positions are a block and a statement in it; a block's value comes after its last statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from vx.admission.plan import Bank, Moved, RegionKey
from vx.admission.tiles import Leaf, Size
from vx.diagnostics.span import Span
from vx.sema import tree

OUTSIDE = -1
"""The block of parameters and results: they are the caller's."""
LAST = 1 << 60
"""The statement number of what happens when a block ends."""

HolderId = int


class Owner(Enum):
    LOCAL = "local"
    TEMP = "temp"
    """Until the end of the statement; also a local that is never read."""
    PARAM = "param"
    RESULT = "result"


@dataclass(frozen=True, slots=True)
class At:
    """A position in a function."""

    block: int
    stmt: int


@dataclass(frozen=True, slots=True)
class Holder:
    id: HolderId
    owner: Owner
    name: str
    """As a person would write it; empty for temporaries."""
    leaf: Leaf
    at: At
    span: Span
    index: tuple[int, int] = (0, 0)
    """Of a parameter: its number and the number of the leaf; of a result: 0 and the number of the leaf."""
    covered: bool = False
    """Inside a region whose scratch, which is known, has room for it."""


# ---- operations --------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Fill:
    """A new tile, leaf `number` of the value of `node`, comes to be in a holder."""

    holder: HolderId
    size: Size
    node: tree.Value
    number: int

    @property
    def placed(self) -> bool:
        """Whether it is made here, rather than by the callee of a call."""
        return not isinstance(self.node, tree.Call)

    @property
    def span(self) -> Span:
        return self.node.span


@dataclass(frozen=True, slots=True)
class Move:
    source: HolderId
    target: HolderId


@dataclass(frozen=True, slots=True)
class Invoke:
    """A call: what it does to tiles is known from the summary of the callee (`invoked`)."""

    node: tree.Call
    args: tuple[tuple[HolderId, ...], ...]
    results: tuple[HolderId, ...]


@dataclass(frozen=True, slots=True)
class Drop:
    holders: tuple[HolderId, ...]


@dataclass(frozen=True, slots=True)
class EndStmt:
    """Temporaries of this statement die."""

    at: At


@dataclass(frozen=True, slots=True)
class EndBlock:
    """Whatever the block declared dies."""

    block: int


@dataclass(frozen=True, slots=True)
class Branch:
    """One of the arms happens."""

    arms: tuple[tuple[Op, ...], ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The body happens until something leaves it. Blocks `first <= block < end` are inside."""

    body: tuple[Op, ...]
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Leave:
    """`break`, `continue` or `return`; `break` also stands for a loop's condition being false."""

    how: str


Op = Fill | Move | Invoke | Drop | EndStmt | EndBlock | Branch | Repeat | Leave


# ---- a function --------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Site:
    """A call, or a drop that calls a function."""

    callee: str
    at: At
    span: Span
    node: tree.Call | None = None
    covered: Bank | None = None
    """What is needed in this bank is part of the scratch of a region."""


@dataclass(frozen=True, slots=True)
class Hop:
    """A copy in the space `number` of a transfer's route."""

    bank: Bank
    size: Size
    at: At
    tensor: tree.Tensor
    node: tree.Transfer | tree.Land
    number: int


@dataclass(frozen=True, slots=True)
class Region:
    """A region whose kernels need scratch memory."""

    key: RegionKey
    bank: Bank
    at: At
    node: tree.Spawn


@dataclass(frozen=True, slots=True)
class Untracked:
    """A tile that goes where no owner can be followed. `late`: worth saying only if nothing else was."""

    holder: HolderId
    where: str
    span: Span
    late: bool = False


@dataclass(frozen=True, slots=True)
class Reassigned:
    """A placed value stored through a reference, over one that is there."""

    name: str
    span: Span


@dataclass(slots=True)
class Lowered:
    """One function as operations on tiles. `parents[b]` is where block b stands; block 0 is the body."""

    key: str
    ops: tuple[Op, ...] = ()
    holders: list[Holder] = field(default_factory=list)
    parents: list[At] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)
    hops: list[Hop] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    transfers: list[Moved] = field(default_factory=list)
    untracked: list[Untracked] = field(default_factory=list)
    reassigned: list[Reassigned] = field(default_factory=list)
    callbacks: list[tuple[str, Span]] = field(default_factory=list)


# ---- what a caller needs to know ---------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Source:
    """Where a leaf of a result comes from: new tiles of at most this size, or these (parameter, leaf) pairs."""

    fresh: Size | None = None
    params: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class Summary:
    """A function as its callers see it. `escapes`: this parameter's leaf goes to where it is not tracked."""

    results: tuple[Source, ...] = ()
    escapes: frozenset[tuple[int, int, str]] = frozenset()


NO_SUMMARY = Summary()
"""Of a callee that is not known yet: it returns nothing."""
Summaries = Mapping[str, Summary]


def invoked(op: Invoke, summaries: Summaries) -> Iterator[Fill | Move | Drop]:
    """What a call does: its results are new tiles or come from arguments, and the other arguments die in it."""
    summary = summaries.get(op.node.key, NO_SUMMARY)
    for number, (result, source) in enumerate(zip(op.results, summary.results, strict=False)):
        if source.params:
            for param, leaf in sorted(source.params):
                yield Move(op.args[param][leaf], result)
        elif source.fresh is not None:
            yield Fill(result, source.fresh, op.node, number)
    yield Drop(tuple(id_ for given in op.args for id_ in given))

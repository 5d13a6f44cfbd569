"""Borrow checking, part 2: one function as a graph of the things that matter for aliasing.

Enters: nothing; this file only declares. A `Node` accesses storage (`Use`), passes borrows on from
*holders* (variables and temporaries whose type contains references) to a holder, and starts or ends
moves. `borrow_lower.py` makes the graph, `borrow_flow.py` solves it, `borrow.py` reads the answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from vx.diagnostics.span import Span
from vx.sema.borrow_paths import Path
from vx.sema.tree import LocalDecl


class Access(Enum):
    READ = "use"
    SHARE = "borrow"
    EXCLUSIVE = "mutable borrow"
    RESERVE = "mutable borrow that begins later"
    """The `&mut` of an argument: exclusive only once all arguments are evaluated (`v.push(v.len())`)."""
    WRITE = "assignment"
    UPDATE = "assignment to a part"
    """Changes storage that must be there: a moved value is not brought back to life by it."""
    MOVE = "move"
    DEAD = "end of life"


@dataclass(frozen=True, slots=True)
class Use:
    kind: Access
    path: Path
    span: Span
    own: int | None = None
    """The loan that this use belongs to and does not conflict with."""
    looks: bool = True
    """Whether it can reach what references held at the path point to."""


@dataclass(slots=True)
class Loan:
    """A borrow: `&path` or `&mut path`, written at `span`, made by node `born`.

    Between `born` and `active` a reserved mutable borrow counts as a shared one.
    """

    path: Path
    mutable: bool
    span: Span
    born: int
    active: int | None = None


@dataclass(frozen=True, slots=True)
class Spill:
    """Whatever `target` points to may from here on hold the borrows of `sources`."""

    target: int
    sources: tuple[int, ...]


@dataclass(slots=True)
class Node:
    """One step. `reads` is the bit set of holders it uses.

    If `define` is set, that holder gets the borrows of `sources` and `loan`: in place of what it held
    when `replace`, else in addition. `moves` ends a path's life, `revives` begins it anew. Borrows of
    `ended`, a root, are over: what it names from here on is other storage. `changes` is a variable that
    has another value from here on.
    `returns`: `sources` leave the function here.
    """

    span: Span
    uses: tuple[Use, ...] = ()
    reads: int = 0
    define: int | None = None
    replace: bool = True
    sources: tuple[int, ...] = ()
    loan: int | None = None
    moves: Path | None = None
    revives: Path | None = None
    ended: int | None = None
    changes: int | None = None
    spills: tuple[Spill, ...] = ()
    returns: bool = False
    successors: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that is wrong wherever control comes from."""

    code: str
    message: str
    span: Span
    label: tuple[Span, str] | None
    help: str


OUTSIDE = -1
"""The root that stands for all storage of the caller."""


@dataclass(slots=True)
class Graph:
    """Node 0 is the entry. `entry_loans` gives the borrows that parameters hold from the start."""

    nodes: list[Node]
    loans: list[Loan]
    entry_loans: dict[int, int]
    decls: dict[int, LocalDecl]
    refusals: list[Refusal]
    lent: frozenset[int]
    """Variables that are lent as mutable somewhere: their values may change at any time."""

    def name(self, root: int) -> str:
        decl = self.decls.get(root)
        return decl.name if decl else "temporary value"


def bit(holder: int) -> int:
    """The bit of a holder (or loan) in a bit set."""
    return 1 << (holder + 1)


def numbers(bit_set: int) -> Iterator[int]:
    """The holders (or loans) in a bit set, lowest first."""
    while bit_set:
        lowest = bit_set & -bit_set
        yield lowest.bit_length() - 2
        bit_set ^= lowest


def bits(members: tuple[int, ...]) -> int:
    result = 0
    for number in members:
        result |= bit(number)
    return result

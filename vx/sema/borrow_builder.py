"""Borrow checking, part 3: growing the graph.

Enters: nodes in the order of evaluation. Leaves: a `Graph`. The builder keeps the *front* (the nodes
that control comes from), the scopes that are open, and the loops around.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vx.diagnostics.span import Span
from vx.sema import tree
from vx.sema.borrow_graph import OUTSIDE, Access, Graph, Loan, Node, Refusal, Use, bit, bits
from vx.sema.borrow_paths import Path
from vx.sema.borrow_types import RefTypes


@dataclass(slots=True)
class LoopFrame:
    """A loop being lowered: where `continue` goes, which nodes `break` comes from."""

    head: int
    depth: int
    breaks: list[int] = field(default_factory=list)


class Builder:
    def __init__(self, function: tree.Function, types: RefTypes) -> None:
        self.types = types
        self.function = function
        self.decls = dict(function.locals)
        self.nodes: list[Node] = [Node(function.span)]
        self.loans: list[Loan] = []
        self.refusals: list[Refusal] = []
        self.front: list[int] = [0]
        self.scopes: list[list[int]] = []
        self.temps: list[list[int]] = []
        self.loops: list[LoopFrame] = []
        self.holders: set[int] = set()
        self.reserved: dict[int, int] = {}
        """Holder of a reserved mutable borrow -> its loan."""
        self.lent: set[int] = set()
        """Roots that are lent as mutable."""
        self._borrowed: set[int] = set()
        self._dropped_temps: set[int] = set()
        self._next = max(function.locals, default=0) + 1
        self._outside = self._enter_parameters()

    def _enter_parameters(self) -> Mapping[int, int]:
        """Give each parameter that the caller can look into a borrow of the caller's storage."""
        entering: dict[int, int] = {}
        for id_ in self.function.params:
            self.declare(id_)
            if self.types.stores_through(self.decls[id_].type):
                if not self.loans:
                    self.loans.append(Loan(Path(OUTSIDE), True, self.function.span, 0))
                    self.holders.add(OUTSIDE)
                entering[id_] = bit(0)
        return entering

    @property
    def escapes(self) -> tuple[int, ...]:
        """What the caller sees after a return besides the value."""
        return (OUTSIDE,) if self._outside else ()

    def graph(self) -> Graph:
        return Graph(self.nodes, self.loans, dict(self._outside), self.decls, self.refusals, frozenset(self.lent))

    # ---- nodes ----
    def emit(self, node: Node) -> int:
        """Append a node behind the front and make it the front. Sources and the roots of uses are read."""
        number = len(self.nodes)
        node.reads |= bits(node.sources)
        for use in node.uses:
            if use.path.root in self.holders and _needs_borrows(use):
                node.reads |= bit(use.path.root)
        self.nodes.append(node)
        for previous in self.front:
            self.nodes[previous].successors.append(number)
        self.front = [number]
        return number

    def jump(self, target: int) -> None:
        """Control goes from the front to `target`; what follows is not reached."""
        for previous in self.front:
            self.nodes[previous].successors.append(target)
        self.front = []

    def fresh(self) -> int:
        """A new temporary that can hold borrows."""
        self._next += 1
        self.holders.add(self._next)
        return self._next

    def storage(self, type_: tree.Type) -> int:
        """New storage that lasts to the end of the statement."""
        number = self.fresh()
        self.temps[-1].append(number)
        if self.types.uses_refs_in_drop(type_):
            self._dropped_temps.add(number)
        return number

    def declare(self, id_: tree.LocalId) -> None:
        if self.types.holds(self.decls[id_].type):
            self.holders.add(id_)

    def looks(self, path: Path, type_: tree.Type) -> bool:
        """Whether who has `path`, of this type, can reach what references held at its root point to."""
        return not path.owned or self.types.holds(type_)

    def root_sources(self, use: Use) -> tuple[int, ...]:
        """What a borrow must keep alive besides itself: the borrows held at its root."""
        return (use.path.root,) if use.looks and use.path.root in self.holders else ()

    def lend(self, path: Path, mutable: bool, span: Span) -> int:
        self._borrowed.add(path.root)
        if mutable:
            self.lent.add(path.root)
        self.loans.append(Loan(path, mutable, span, len(self.nodes)))
        return len(self.loans) - 1

    def refuse(self, code: str, message: str, span: Span, label: tuple[Span, str] | None, help_: str) -> None:
        self.refusals.append(Refusal(code, message, span, label, help_))

    # ---- lifetimes ----
    def leave_scopes(self, depth: int, span: Span) -> None:
        """End the life of what the scopes from `depth` inwards declared, last first."""
        for scope in reversed(self.scopes[depth:]):
            for id_ in reversed(scope):
                self.end_life(id_, span)

    def end_life(self, root: int, span: Span) -> None:
        """End the life of a variable or temporary, if anything depends on when it ends."""
        decl = self.decls.get(root)
        dropping = self.types.uses_refs_in_drop(decl.type) if decl else root in self._dropped_temps
        if root not in self._borrowed and not dropping:
            return
        end = Span(span.file, max(span.start, span.end - 1), span.end)
        reads = bit(root) if dropping and root in self.holders else 0
        self.emit(Node(end, (Use(Access.DEAD, Path(root), end),), reads, ended=root))


def _needs_borrows(use: Use) -> bool:
    """Whether a use depends on the borrows that the root of its path holds."""
    if use.kind in (Access.WRITE, Access.UPDATE):
        return not use.path.owned
    return use.kind is not Access.DEAD and use.looks

"""Borrow checking, part 5: what holds where.

Enters: a `Graph`. Leaves: a `Solution`: for every node the holders that are still needed from there
on, and in every state before it who holds which borrows and what has been moved away.
Both are the least fixed points of the usual equations; states only grow at joins.
"""

from __future__ import annotations

from dataclasses import dataclass

from vx.sema.borrow_graph import Graph, Loan, Node, bit, numbers
from vx.sema.borrow_paths import Path, symbols_of


@dataclass(frozen=True, slots=True)
class State:
    """`holds`: holder -> bit set of loans. `moved`: path -> nodes that may have moved it. `stale`: bit set of the
    loans whose index variables may have changed since they were made."""

    holds: dict[int, int]
    moved: dict[Path, frozenset[int]]
    stale: int = 0


@dataclass(frozen=True, slots=True)
class Solution:
    live: list[int]
    """Per node, the bit set of holders that it or something after it reads."""
    before: list[State | None]
    """Per node, the state in which it begins; None where control never comes."""

    def loans_before(self, number: int) -> int:
        """The loans that matter at the start of a node: those in hands that are still needed."""
        state = self.before[number]
        live = self.live[number]
        result = 0
        for holder, loans in state.holds.items() if state else ():
            if live & bit(holder):
                result |= loans
        return result


def solve(graph: Graph) -> Solution:
    live = _liveness(graph)
    return Solution(live, _forward(graph, live))


def _liveness(graph: Graph) -> list[int]:
    nodes = graph.nodes
    live = [0] * len(nodes)
    changed = True
    while changed:
        changed = False
        for number in range(len(nodes) - 1, -1, -1):
            node = nodes[number]
            after = 0
            for successor in node.successors:
                after |= live[successor]
            if node.define is not None and node.replace:
                after &= ~bit(node.define)
            before = after | node.reads
            if before != live[number]:
                live[number] = before
                changed = True
    return live


def _forward(graph: Graph, live: list[int]) -> list[State | None]:
    before: list[State | None] = [None] * len(graph.nodes)
    before[0] = State(dict(graph.entry_loans), {})
    rooted, indexed = _loans_by_root(graph.loans), _loans_by_symbol(graph.loans)
    again = True
    while again:
        again = False
        for number, node in enumerate(graph.nodes):
            state = before[number]
            if state is None:
                continue
            after = _step(graph, node, number, state, rooted)
            if indexed:
                after = State(after.holds, after.moved, _stale(node, state.stale, indexed))
            for successor in node.successors:
                merged = _merge(before[successor], after, live[successor])
                if merged is not before[successor]:
                    before[successor] = merged
                    again = again or successor <= number
    return before


def _loans_by_root(loans: list[Loan]) -> dict[int, int]:
    result: dict[int, int] = {}
    for number, loan in enumerate(loans):
        result[loan.path.root] = result.get(loan.path.root, 0) | bit(number)
    return result


def _loans_by_symbol(loans: list[Loan]) -> dict[int, int]:
    result: dict[int, int] = {}
    for number, loan in enumerate(loans):
        for symbol in symbols_of(loan.path):
            result[symbol] = result.get(symbol, 0) | bit(number)
    return result


def _stale(node: Node, stale: int, indexed: dict[int, int]) -> int:
    if node.changes is not None:
        stale |= indexed.get(node.changes, 0)
    return stale if node.loan is None else stale & ~bit(node.loan)


def _step(graph: Graph, node: Node, number: int, state: State, rooted: dict[int, int]) -> State:
    holds, moved = state.holds, state.moved
    if node.spills:
        holds = _spill(graph, node, holds)
    if node.ended is not None:
        holds = _without(holds, rooted.get(node.ended, 0))
    if node.define is not None:
        holds = _define(node, holds, rooted)
    if node.moves is not None:
        moved = {**moved, node.moves: frozenset((number,))}
    if node.revives is not None and moved:
        moved = {path: by for path, by in moved.items() if not path.startswith(node.revives)}
    return State(holds, moved)


def _define(node: Node, holds: dict[int, int], rooted: dict[int, int]) -> dict[int, int]:
    assert node.define is not None
    gained = 0 if node.loan is None else bit(node.loan)
    for source in node.sources:
        gained |= holds.get(source, 0)
    if not node.replace:
        return {**holds, node.define: holds.get(node.define, 0) | gained}
    # Borrows of what the old value pointed to are not borrows of what the new one points to.
    stale = rooted.get(node.define, 0)
    return {**_without(holds, stale), node.define: gained & ~stale}


def _without(holds: dict[int, int], stale: int) -> dict[int, int]:
    return {holder: loans & ~stale for holder, loans in holds.items()} if stale else holds


def _spill(graph: Graph, node: Node, holds: dict[int, int]) -> dict[int, int]:
    """Stores through references: every root that the target may point to gains the sources' borrows."""
    result = dict(holds)
    for spill in node.spills:
        gained = 0
        for source in spill.sources:
            gained |= holds.get(source, 0)
        for root in _targets(graph, holds.get(spill.target, 0)):
            result[root] = result.get(root, 0) | gained
    return result


def _targets(graph: Graph, loans: int) -> set[int]:
    return {graph.loans[number].path.root for number in numbers(loans)}


def _merge(old: State | None, new: State, live: int) -> State:
    """`old` itself if `new` adds nothing to it. Holders that nobody needs any more are left out."""
    needed = {holder: loans for holder, loans in new.holds.items() if loans and live & bit(holder)}
    if old is None:
        return State(needed, new.moved, new.stale)
    holds = old.holds
    for holder, loans in needed.items():
        if loans & ~holds.get(holder, 0):
            holds = {**holds, holder: holds.get(holder, 0) | loans}
    moved = old.moved
    for path, by in new.moved.items():
        if not by <= moved.get(path, frozenset()):
            moved = {**moved, path: by | moved.get(path, frozenset())}
    stale = old.stale | new.stale
    if holds is old.holds and moved is old.moved and stale == old.stale:
        return old
    return State(holds, moved, stale)

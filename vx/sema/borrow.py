"""Borrow checking: no value is used after it was moved, and nothing is changed while somebody else looks at it.

Enters: the typed program. Leaves: errors E4001 to E4007 in the reporter; the program is unchanged.

A borrow lasts as long as somebody who holds it is needed, not to the end of a block: each function
becomes a graph (`borrow_lower`) over which two fixed points are computed (`borrow_flow`). A call that
returns references is taken to return any of the references that went into it.
"""

from __future__ import annotations

from vx.diagnostics.report import Reporter
from vx.diagnostics.span import Span
from vx.sema import tree
from vx.sema.borrow_flow import Solution, solve
from vx.sema.borrow_graph import Access, Graph, Loan, Use, bit, bits, numbers
from vx.sema.borrow_lower import lower_function
from vx.sema.borrow_paths import behind_reference, describe, disjoint
from vx.sema.borrow_report import Report
from vx.sema.borrow_types import RefTypes
from vx.sema.moves import check_moves
from vx.syntax.limits import recursion_room


def check_borrows(program: tree.Program, reporter: Reporter) -> None:
    """Check every function of the program for moves, exclusivity and lifetimes of borrows."""
    types = RefTypes(program)
    report = Report(reporter)
    with recursion_room():
        for function in program.functions.values():
            _check_function(function, types, report)


def _check_function(function: tree.Function, types: RefTypes, report: Report) -> None:
    report.asked = function.asked
    graph = lower_function(function, types)
    solution = solve(graph)
    for refusal in graph.refusals:
        labels = [] if refusal.label is None else [refusal.label]
        report.error(refusal.code, refusal.message, refusal.span, labels, [refusal.help])
    check_moves(graph, solution, report)
    _Conflicts(graph, solution, report).check()


class _Conflicts:
    """Finds uses that collide with a live loan in one function."""

    def __init__(self, graph: Graph, solution: Solution, report: Report) -> None:
        self.graph = graph
        self.solution = solution
        self.report = report
        self.told: set[frozenset[int | None]] = set()
        """Pairs of borrows that were reported to collide, so that it is said once."""

    def check(self) -> None:
        for number, node in enumerate(self.graph.nodes):
            if self.solution.before[number] is None:
                continue
            if node.returns:
                self._check_return(number)
            loans = self.solution.loans_before(number) if node.uses else 0
            for use in node.uses if loans else ():
                self._check_use(use, number, loans)

    # ---- conflicts ----
    def _check_use(self, use: Use, number: int, loans: int) -> None:
        for index in numbers(loans):
            if index != use.own and self._collides(use, index, number):
                own = self.graph.nodes[number].loan if use.own is None else use.own
                pair = frozenset((index, own))
                if pair not in self.told:
                    self._tell(use, index, number)
                if own is not None:
                    self.told.add(pair)
                return

    def _collides(self, use: Use, index: int, number: int) -> bool:
        loan, state = self.graph.loans[index], self.solution.before[number]
        stale = state is not None and state.stale & bit(index)
        if disjoint(use.path, loan.path, None if stale else self.graph.lent):
            return False
        if use.kind in (Access.WRITE, Access.DEAD):
            return not behind_reference(use.path, loan.path)
        if use.kind is Access.RESERVE:
            return loan.mutable
        if use.kind in (Access.READ, Access.SHARE):
            return _exclusive(loan, number)
        if use.kind is Access.MOVE and not loan.mutable:
            return not behind_reference(use.path, loan.path)
        return True

    def _tell(self, use: Use, index: int, number: int) -> None:
        loan = self.graph.loans[index]
        used = describe(use.path, self.graph.name(use.path.root))
        lent = describe(loan.path, self.graph.name(loan.path.root))
        if use.kind is Access.DEAD:
            self._tell_dead(use, index, number)
            return
        code, message, help_ = _wording(use, loan, used, lent, _exclusive(loan, number))
        how = "mutably " if loan.mutable else ""
        labels = [(loan.span, f"`{lent}` is {how}borrowed here")]
        labels += self._later_use(index, number)
        self.report.error(code, message, use.span, labels, [help_])

    def _tell_dead(self, use: Use, index: int, number: int) -> None:
        loan = self.graph.loans[index]
        decl = self.graph.decls.get(use.path.root)
        later = self._later_use(index, number)
        if decl is None:
            message = "this borrows a temporary value that is gone at the end of the statement"
            help_ = "give the value a name first: `let value = …;`, then borrow from that"
            self.report.error("E4005", message, loan.span, later, [help_])
            return
        message = f"`{decl.name}` does not live as long as this borrow of it"
        labels = [(use.span, f"`{decl.name}` ends here, while it is borrowed"), *later]
        help_ = f"declare `{decl.name}` before the block, or `.copy()` what is needed later"
        self.report.error("E4005", message, loan.span, labels, [help_])

    # ---- borrows that leave the function ----
    def _check_return(self, number: int) -> None:
        node = self.graph.nodes[number]
        state = self.solution.before[number]
        held = 0
        for source in node.sources:
            held |= state.holds.get(source, 0) if state else 0
        for loan in (self.graph.loans[index] for index in numbers(held)):
            if loan.path.owned and loan.path.root >= 0:
                self._tell_escape(loan, node.span)

    def _tell_escape(self, loan: Loan, returned: Span) -> None:
        decl = self.graph.decls.get(loan.path.root)
        what = f"`{decl.name}`" if decl else "a temporary value"
        message = f"a reference to {what} leaves the function, but {what} ends with it"
        labels = [] if returned == loan.span else [(returned, "the reference leaves the function here")]
        if decl:
            labels.append((decl.span, f"{what} is declared here"))
        help_ = "return the value itself, or take what is borrowed as a parameter"
        self.report.error("E4005", message, loan.span, labels, [help_])

    # ---- later uses ----
    def _later_use(self, index: int, number: int) -> list[tuple[Span, str]]:
        """Where a holder of the loan is needed next; nothing if that is what was complained about."""
        nodes = self.graph.nodes
        seen = {number}
        pending = [number]
        first = self._holders(index, number)
        while pending:
            at = pending.pop(0)
            if nodes[at].reads & (first | self._holders(index, at)):
                again = at < number
                text = "the borrow is needed here" + (", in the next round of the loop" if again else "")
                return [(nodes[at].span, text)]
            fresh = [successor for successor in nodes[at].successors if successor not in seen]
            seen.update(fresh)
            pending += fresh
        return []

    def _holders(self, index: int, number: int) -> int:
        """Bit set of those who hold the loan at the start of a node."""
        state = self.solution.before[number]
        held = state.holds.items() if state else ()
        return bits(tuple(holder for holder, loans in held if loans & bit(index)))


def _exclusive(loan: Loan, number: int) -> bool:
    """Whether the loan keeps everybody else away at this node."""
    reserved = loan.active is not None and loan.born < number < loan.active
    return loan.mutable and not reserved


def _wording(use: Use, loan: Loan, used: str, lent: str, exclusive: bool) -> tuple[str, str, str]:
    """Code, message and advice for a use that collides with a borrow."""
    state = "mutably borrowed" if loan.mutable else "borrowed"
    if use.kind is Access.MOVE:
        return "E4004", f"cannot move `{used}` while it is {state}", "move it after the last use of the borrow"
    if use.kind in (Access.WRITE, Access.UPDATE):
        return (
            "E4004",
            f"cannot assign to `{used}` while `{lent}` is {state}",
            "assign after the last use of the borrow",
        )
    if use.kind in (Access.EXCLUSIVE, Access.RESERVE):
        second = "mutably more than once at a time" if loan.mutable else "as mutable while it is also borrowed"
        help_ = f"finish with the first borrow before this one, or `.copy()` what is read from `{lent}`"
        return "E4002", f"cannot borrow `{used}` {second}", help_
    verb = "borrow" if use.kind is Access.SHARE else "use"
    assert exclusive
    return (
        "E4003",
        f"cannot {verb} `{used}` while `{lent}` is mutably borrowed",
        "use it after the last use of the borrow",
    )

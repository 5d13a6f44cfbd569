"""Use after move (E4001): a value that was given away on some way to here is used again.

Enters: the borrow graph of a function and its solution. Leaves: errors in the reporter.
"""

from __future__ import annotations

from collections.abc import Iterator

from vx.diagnostics.span import Span
from vx.sema.borrow_flow import Solution
from vx.sema.borrow_graph import Access, Graph, Use
from vx.sema.borrow_paths import Path, describe
from vx.sema.borrow_report import Report


def check_moves(graph: Graph, solution: Solution, report: Report) -> None:
    """Report each move whose value is used later, once per moved value."""
    told: set[tuple[Path, int]] = set()
    for number, node in enumerate(graph.nodes):
        state = solution.before[number]
        if state is None or not state.moved:
            continue
        for use in node.uses:
            for path, by in _dead_parts(use, state.moved):
                fresh = [at for at in sorted(by) if (path, at) not in told]
                if fresh:
                    told.update((path, at) for at in fresh)
                    _tell(graph, report, use, path, fresh[0], number)


def _dead_parts(use: Use, moved: dict[Path, frozenset[int]]) -> Iterator[tuple[Path, frozenset[int]]]:
    """The moved paths that a use needs to be alive."""
    if use.kind is Access.DEAD:
        return
    for path, by in moved.items():
        above = use.path.startswith(path)
        below = path.startswith(use.path)
        if use.kind is Access.WRITE:
            above, below = above and use.path != path, False
        if above or below:
            yield path, by


def _tell(graph: Graph, report: Report, use: Use, path: Path, moved_by: int, number: int) -> None:
    what = describe(path, graph.name(path.root))
    moved_at = graph.nodes[moved_by].span
    partly = use.path != path and path.startswith(use.path)
    again = moved_by >= number
    verb = "assign to a part of" if use.kind in (Access.WRITE, Access.UPDATE) else "borrow" if _borrows(use) else "use"
    message = f"cannot {verb} `{what}`: its value was moved"
    if partly:
        whole = describe(use.path, graph.name(use.path.root))
        message = f"cannot use `{whole}` as a whole: its field `{what}` was moved"
    labels: list[tuple[Span, str]] = []
    if moved_at == use.span:
        message = f"cannot move `{what}` again in the next round of the loop"
    else:
        labels.append((moved_at, f"`{what}` moved here" + (", in an earlier round of the loop" if again else "")))
    report.error("E4001", message, use.span, labels, [_advice(what, graph, path)])


def _borrows(use: Use) -> bool:
    return use.kind in (Access.SHARE, Access.EXCLUSIVE, Access.RESERVE)


def _advice(what: str, graph: Graph, path: Path) -> str:
    decl = graph.decls.get(path.root)
    if decl is not None and type(decl.type).__name__ == "Tensor":
        return f"borrow it with `&{what}` where it is moved, or move `{what}.copy()`"
    return f"borrow it with `&{what}` where it is moved, or give `{what}` a new value first"

"""Which statements may leave an iteration, a loop or a function: structured code has no jumps, so what
follows such a statement becomes its other branch, or conditional on a flag."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace

from vx.sema import tree

Leaves = tree.Break | tree.Continue | tree.Return | tree.ReturnExpr


def _nodes(node: object, into_loops: bool) -> Iterator[object]:
    """Every typed-tree node inside, optionally not those inside inner loops."""
    if isinstance(node, tuple):
        for item in node:
            yield from _nodes(item, into_loops)
        return
    if not is_dataclass(node) or isinstance(node, type):
        return
    yield node
    for f in fields(node):
        if f.name in ("type", "span"):
            continue
        child = getattr(node, f.name)
        if isinstance(node, tree.For | tree.While | tree.Loop) and f.name == "body" and not into_loops:
            continue
        if is_dataclass(child) or isinstance(child, tuple):
            yield from _nodes(child, into_loops)


def leaves_iteration(stmt: tree.StmtNode) -> bool:
    """`break` or `continue` of the surrounding loop, or a `return` anywhere."""
    if any(isinstance(n, tree.Break | tree.Continue) for n in _nodes(stmt, into_loops=False)):
        return True
    return returns(stmt)


def fork(stmt: tree.StmtNode, in_loop: bool) -> tree.IfExpr | None:
    """`if c { …; continue; }` (in a loop, or `break`) or `if c { …; return x; }` (in a function, outside loops): what
    follows is its other branch. None if `stmt` is anything else, or leaves elsewhere too."""
    if not isinstance(stmt, tree.ExprStmt) or not isinstance(stmt.value, tree.IfExpr):
        return None
    branch = stmt.value
    *before, last = branch.then.stmts or (None,)
    if (
        branch.orelse is not None
        or branch.then.value is not None
        or leaves_iteration(tree.ExprStmt(stmt.span, branch.cond))
    ):
        return None
    ends = isinstance(last, tree.Continue | tree.Break) if in_loop else isinstance(last, tree.Return)
    return branch if ends and not any(leaves_iteration(s) for s in before if s is not None) else None


def needs_flag(body: tree.Block, in_loop: bool) -> bool:
    """Whether leaving the round, or returning from the function, has to be remembered: not if it only forks."""
    rest = [s for s in body.stmts if fork(s, in_loop) is None]
    leaves = leaves_iteration if in_loop else returns
    return any(leaves(s) for s in rest) or (body.value is not None and leaves(tree.ExprStmt(body.span, body.value)))


def stops_loop(body: tree.Block) -> bool:
    """Whether the loop may end before its range does: `break`, or a `return` anywhere."""
    return returns(body) or any(isinstance(n, tree.Break) for n in _nodes(body, into_loops=False))


def returns(node: object) -> bool:
    return any(isinstance(n, tree.Return | tree.ReturnExpr) for n in _nodes(node, into_loops=True))


def always_leaves(stmts: Sequence[tree.StmtNode]) -> bool:
    return bool(stmts) and isinstance(stmts[-1], tree.Return | tree.Break | tree.Continue)


def with_tail_return(body: tree.Block) -> tree.Block:
    """The body with a last `return x;` as its value."""
    if body.value is None and body.stmts and isinstance(body.stmts[-1], tree.Return):
        last = body.stmts[-1]
        type_ = tree.VOID if last.value is None else last.value.type
        return replace(body, stmts=body.stmts[:-1], value=last.value, type=type_)
    return body


def returns_early(body: tree.Block) -> bool:
    """Whether a `return` stands anywhere but at the very end."""
    rest = with_tail_return(body)
    return any(returns(s) for s in rest.stmts) or (rest.value is not None and returns(rest.value))

"""Blocks and `if` as expressions, and how the types of several branches become one."""

from __future__ import annotations

from collections.abc import Sequence

from vx.sema import comptime, infer, operators, statements, tree
from vx.sema.context import Body
from vx.sema.types import fits, show
from vx.syntax import ast


# ---- one type of several -----------------------------------------------------------------------
def join(body: Body, branches: Sequence[tuple[tree.Type, ast.Node]], expected: tree.Type | None) -> tree.Type:
    """The type of an expression whose branches have these types. Error: E3010 if they disagree."""
    reaching = [(type_, node) for type_, node in branches if not isinstance(type_, tree.Never)]
    if not reaching:
        return tree.NEVER
    if expected is not None and all(fits(type_, expected) for type_, _ in reaching):
        return expected
    first, at = reaching[0]
    for type_, node in reaching[1:]:
        if fits(type_, first):
            continue
        if not fits(first, type_):
            message = f"this branch is {show(type_)}, and another is {show(first)}"
            raise body.fail("E3010", message, node.span, labels=[(at.span, f"this is {show(first)}")])
        first, at = type_, node
    return first


def value_span(node: ast.Block) -> ast.Node:
    """What to point at when a block's value is wrong."""
    return node.value if node.value is not None else node


# ---- blocks ------------------------------------------------------------------------------------
def block_expression(body: Body, node: ast.BlockExpr, expected: tree.Type | None) -> tree.Value:
    """`{ … }`, `unsafe { … }`, `comptime { … }`."""
    if node.kind == "comptime":
        return comptime.block_value(body, node, expected)
    body.unsafe += node.kind == "unsafe"
    try:
        block = statements.block(body, node.block, expected)
    finally:
        body.unsafe -= node.kind == "unsafe"
    return tree.BlockExpr(block.type, node.span, block)


# ---- if ----------------------------------------------------------------------------------------
def if_expression(body: Body, node: ast.If, expected: tree.Type | None) -> tree.Value:
    """`if c { … } else { … }`. Errors: E3006 for the condition, E3010 for branches that disagree."""
    if node.comptime:
        return _pruned(body, node, expected)
    cond = condition(body, node.cond)
    if node.orelse is None:
        then = statements.block(body, node.then, tree.VOID)
        return tree.IfExpr(tree.VOID, node.span, cond, then, None)
    then, orelse = _arms(body, node, expected)
    if expected == tree.VOID:
        both_leave = isinstance(then.type, tree.Never) and isinstance(orelse.type, tree.Never)
        return tree.IfExpr(tree.NEVER if both_leave else tree.VOID, node.span, cond, then, orelse)
    at = node.orelse.then if isinstance(node.orelse, ast.If) else node.orelse
    type_ = join(body, [(then.type, value_span(node.then)), (orelse.type, value_span(at))], expected)
    return tree.IfExpr(type_, node.span, cond, then, orelse)


def condition(body: Body, node: ast.Expr) -> tree.Value:
    """A condition: bool, or E3006."""
    value = operators.operand(body, node, tree.BOOL)
    if value.type != tree.BOOL and not isinstance(value.type, tree.Never):
        helps = ["compare it: `… != 0`"] if isinstance(value.type, tree.Scalar) else []
        raise body.fail("E3006", f"a condition is bool, and this is {show(value.type)}", node.span, helps=helps)
    return value


def _arms(body: Body, node: ast.If, expected: tree.Type | None) -> tuple[tree.Block, tree.Block]:
    """Both branches. With nothing expected, a branch that is a literal takes the type of the other."""
    assert node.orelse is not None
    if expected is None and node.then.value is not None and operators.is_literal(node.then.value):
        orelse = _orelse(body, node.orelse, None)
        return statements.block(body, node.then, orelse.type if _gives(orelse) else None), orelse
    then = statements.block(body, node.then, expected)
    settled = expected is not None or isinstance(then.type, tree.Never | tree.Void)
    return then, _orelse(body, node.orelse, expected if settled else then.type)


def _gives(block: tree.Block) -> bool:
    return not isinstance(block.type, tree.Never)


def _orelse(body: Body, node: ast.Block | ast.If, expected: tree.Type | None) -> tree.Block:
    if isinstance(node, ast.Block):
        return statements.block(body, node, expected)
    value = if_expression(body, node, expected)
    if expected == tree.VOID or value.type == tree.VOID:
        return tree.Block((tree.ExprStmt(node.span, value),), None, value.type, node.span)
    return tree.Block((), value, value.type, node.span)


def _pruned(body: Body, node: ast.If, expected: tree.Type | None) -> tree.Value:
    """`if comptime`: only the branch that is taken is checked. Names in the other count as used."""
    taken = comptime.condition(body, node.cond)
    dead = node.orelse if taken else node.then
    for name in infer.names_in(dead):
        known, id_ = body.find(name)
        if known and id_ is not None:
            body.use(id_)
    live = node.then if taken else node.orelse
    if live is None:
        return tree.BlockExpr(tree.VOID, node.span, tree.Block((), None, tree.VOID, node.span))
    if isinstance(live, ast.If):
        return if_expression(body, live, expected)
    wanted = tree.VOID if node.orelse is None and expected is None else expected
    block = statements.block(body, live, wanted)
    return tree.BlockExpr(block.type, node.span, block)

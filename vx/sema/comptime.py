"""What happens while compiling: `comptime` blocks and the conditions of `if comptime`."""

from __future__ import annotations

from vx.sema import constants, evaluate, expressions, statements, tree
from vx.sema.context import Body, NotConstant
from vx.sema.types import is_integer, show
from vx.syntax import ast


def condition(body: Body, node: ast.Expr) -> bool:
    """The value of a condition that must be known now. Errors: E0301, E3006."""
    value = expressions.value(body, node, tree.BOOL)
    if value.type != tree.BOOL:
        raise body.fail("E3006", f"a condition is bool, and this is {show(value.type)}", node.span)
    return bool(_now(body, value, node).value)


def _now(body: Body, value: tree.Value, node: ast.Node) -> tree.Const:
    try:
        found = evaluate.evaluate(body.session, value)
    except NotConstant as failure:
        labels = [(failure.span, failure.why)] if failure.span != node.span else []
        notes = [] if labels else [failure.why]
        message = "this has to be known when compiling"
        raise body.fail("E0301", message, node.span, labels=labels, notes=notes) from None
    if not isinstance(found, tree.Const):
        raise body.fail("E0301", f"{show(found.type)} is not a compile-time value", node.span)
    return found


def block_value(body: Body, node: ast.BlockExpr, expected: tree.Type | None) -> tree.Value:
    """`comptime { … }`: run now. Its value, if it has one, is a constant. Error: E8002 for a false `assert`."""
    outer = body.loops
    body.loops = []
    try:
        block = statements.block(body, node.block, expected)
    finally:
        body.loops = outer
    value = tree.BlockExpr(block.type, node.span, block)
    if isinstance(block.type, tree.Void | tree.Never):
        _run(body, value, node)
        return tree.BlockExpr(tree.VOID, node.span, tree.Block((), None, tree.VOID, node.span))
    found = _now(body, value, node)
    if is_integer(found.type):
        constants.check_range(body.session, found)
    return tree.Const(found.type, node.span, found.value)


def _run(body: Body, value: tree.Value, node: ast.Node) -> None:
    try:
        evaluate.run(body.session, value, body.name if body.env.bindings else "")
    except NotConstant as failure:
        message = "this has to be known when compiling"
        raise body.fail("E0301", message, node.span, labels=[(failure.span, failure.why)]) from None

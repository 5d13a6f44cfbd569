"""Statements and blocks.

Enters: syntax-tree blocks. Leaves: typed blocks. A statement with an error is left out and the next one is
checked; what it would have declared stays silent from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from vx.sema import assignments, bounds, branches, builtins, constants, convert, expressions, operators, resolve, tree
from vx.sema.context import Body, CheckFailed, NotConstant
from vx.sema.types import is_integer, show
from vx.syntax import ast

_BLOCK_LIKE = (ast.If, ast.Match, ast.BlockExpr, ast.Spawn)


# ---- blocks ------------------------------------------------------------------------------------
def block(body: Body, node: ast.Block, expected: tree.Type | None = None) -> tree.Block:
    """A block in a scope of its own. `expected` void: its value, if any, is not wanted."""
    body.scopes.append({})
    try:
        stmts, ends, told = _statements(body, node)
        if node.value is None:
            return tree.Block(stmts, None, tree.NEVER if ends else tree.VOID, node.span)
        if ends and not told:
            _warn_unreachable(body, node.value)
        return _with_value(body, node, stmts, ends, expected)
    finally:
        body.scopes.pop()


def _statements(body: Body, node: ast.Block) -> tuple[tuple[tree.StmtNode, ...], bool, bool]:
    """The statements that are right, whether control does not get past them (or that is not known), and
    whether there is nothing more to say about what follows."""
    stmts: list[tree.StmtNode] = []
    ends, warned = False, False
    for item in node.stmts:
        if ends and not warned:
            _warn_unreachable(body, item)
            warned = True
        try:
            stmt = statement(body, item)
        except NotConstant:
            raise
        except CheckFailed:
            body.session.incomplete.add(body.session.current)
            _declare_failed(body, item)
            ends = warned = True
            if body.session.reporter.full:
                break
            continue
        stmts.append(stmt)
        ends = ends or _leaves(stmt)
    return tuple(stmts), ends, warned


def _warn_unreachable(body: Body, node: ast.Node) -> None:
    if body.session.current not in body.session.incomplete:
        body.warn("W1003", "this is never reached", node.span)


def _with_value(
    body: Body, node: ast.Block, stmts: tuple[tree.StmtNode, ...], ends: bool, expected: tree.Type | None
) -> tree.Block:
    assert node.value is not None
    kernel = builtins.statement(body, node.value)
    if kernel is not None:
        return tree.Block((*stmts, kernel), None, tree.NEVER if ends else tree.VOID, node.span)
    value = expressions.value(body, node.value, expected)
    if expected is not None and expected != tree.VOID:
        value = convert.adapted(value, expected)
    ends = ends or isinstance(value.type, tree.Never)
    if expected == tree.VOID or value.type == tree.VOID:
        type_: tree.Type = tree.NEVER if ends else tree.VOID
        return tree.Block((*stmts, tree.ExprStmt(node.value.span, value)), None, type_, node.span)
    return tree.Block(stmts, value, tree.NEVER if ends else value.type, node.span)


def _leaves(stmt: tree.StmtNode) -> bool:
    """Whether control never gets past the statement."""
    match stmt:
        case tree.Return() | tree.Break() | tree.Continue():
            return True
        case tree.ExprStmt(value=value) | tree.Let(value=value):
            return isinstance(value.type, tree.Never)
        case tree.Loop():
            return not _breaks(stmt.body)
        case _:
            return False


def _breaks(block_: tree.Block) -> bool:
    """Whether a block has a `break` of the loop that it is the body of."""
    return any(map(_stmt_breaks, block_.stmts)) or (block_.value is not None and _value_breaks(block_.value))


def _stmt_breaks(stmt: tree.StmtNode) -> bool:
    match stmt:
        case tree.Break():
            return True
        case tree.ExprStmt(value=value) | tree.Let(value=value) | tree.Assign(value=value):
            return _value_breaks(value)
        case _:
            return False


def _value_breaks(value: tree.Value) -> bool:
    match value:
        case tree.IfExpr(then=then, orelse=orelse):
            return _breaks(then) or (orelse is not None and _breaks(orelse))
        case tree.Match(arms=arms):
            return any(_breaks(arm.body) for arm in arms)
        case tree.BlockExpr(block=inner):
            return _breaks(inner)
        case _:
            return False


# ---- statements --------------------------------------------------------------------------------
def statement(body: Body, node: ast.Stmt) -> tree.StmtNode:
    return _handlers()[type(node)](body, node)


def _let(body: Body, node: ast.Let) -> tree.StmtNode:
    """Errors: E3001 if the value is not of the declared type, E3012 if there is no value. `_` keeps nothing."""
    if node.type is None:
        value = expressions.value(body, node.value)
        type_ = value.type
    else:
        hint = None if _is_shapeless(node.type) else _declared(body, node)
        value = expressions.value(body, node.value, hint)
        type_ = _settled(body, node, value)
        value = convert.coerce(body, value, convert.Want(type_, "E3001", f"`{node.name}` is declared"))
    if value.type == tree.VOID:
        raise body.fail("E3012", f"`{node.name}` would have no value: this is void", node.value.span)
    if node.name == "_":
        return tree.ExprStmt(node.span, value)
    id_ = body.declare(node.name, type_, node.name_span, mutable=node.mutable)
    if isinstance(value, tree.Const) and not node.mutable:
        body.known[id_] = value
    if is_integer(type_) and not node.mutable:
        body.bounds[id_] = bounds.interval(value, body.bounds)
    return tree.Let(node.span, id_, value)


def _is_shapeless(node: ast.TypeExpr) -> bool:
    """`Tensor<f32>`: the shape is left to the value."""
    return isinstance(node, ast.TensorType) and node.dims is None


def _declared(body: Body, node: ast.Let) -> tree.Type:
    """The declared type."""
    assert node.type is not None
    return resolve.resolve_type(body.session, body.type_env, node.type)


def _settled(body: Body, node: ast.Let, value: tree.Value) -> tree.Type:
    """The variable's type: a declared tensor type leaves what it does not say, place or shape, to the value."""
    have = value.type
    if not isinstance(node.type, ast.TensorType) or not isinstance(have, tree.Tensor):
        return _declared(body, node)
    elem = resolve.element_type(body.session, body.type_env, node.type.elem)
    place = have.place
    if node.type.place is not None:
        place = resolve.written_place(body.session, body.type_env, node.type, elem)
    dims = have.dims
    if node.type.dims is not None:
        dims = resolve.tensor_type(body.session, body.type_env, node.type).dims
    return tree.Tensor(elem, dims, place)


def _declare_failed(body: Body, node: ast.Stmt) -> None:
    """After an error in a `let`: the name is there, of the declared type if that is right."""
    if not isinstance(node, ast.Let):
        return
    if node.type is not None and not _is_shapeless(node.type):
        try:
            type_ = _declared(body, node)
        except CheckFailed:
            body.poison(node.name)
            return
        if type_ != tree.VOID:
            body.declare(node.name, type_, node.name_span, mutable=node.mutable)
            return
    body.poison(node.name)


def _expression(body: Body, node: ast.ExprStmt) -> tree.StmtNode:
    kernel = builtins.statement(body, node.expr)
    if kernel is not None:
        return kernel
    expected = tree.VOID if isinstance(node.expr, _BLOCK_LIKE) else None
    return tree.ExprStmt(node.span, expressions.value(body, node.expr, expected))


def _return(body: Body, node: ast.Return) -> tree.StmtNode:
    """Errors: E3002, E3018 inside a region."""
    if body.region is not None:
        message = "a region cannot return from the function around it"
        raise body.fail("E3018", message, node.span, labels=[(body.region, "this region")])
    if node.value is None:
        if body.ret != tree.VOID:
            raise body.fail("E3002", f"this function returns {show(body.ret)}, and nothing is given", node.span)
        return tree.Return(node.span, None)
    if body.ret == tree.VOID:
        value = expressions.value(body, node.value)
        if value.type != tree.VOID:
            message = f"this function returns void, and this is {show(value.type)}"
            raise body.fail("E3002", message, node.value.span)
        raise body.fail("E3002", "this function returns void: write `return;`", node.value.span)
    return tree.Return(node.span, convert.check(body, node.value, returned(body)))


def returned(body: Body) -> convert.Want:
    return convert.Want(body.ret, "E3002", f"`{body.name}` returns")


def _break(body: Body, node: ast.Break) -> tree.StmtNode:
    _require_loop(body, node, "break")
    body.loops[-1] = True
    return tree.Break(node.span)


def _continue(body: Body, node: ast.Continue) -> tree.StmtNode:
    _require_loop(body, node, "continue")
    return tree.Continue(node.span)


def _require_loop(body: Body, node: ast.Stmt, word: str) -> None:
    if not body.loops:
        inside = " of this region" if body.region is not None else ""
        raise body.fail("E3018", f"`{word}` stands outside of any loop{inside}", node.span)


def _looped(body: Body, node: ast.Block) -> tree.Block:
    body.loops.append(False)
    try:
        return block(body, node, tree.VOID)
    finally:
        body.loops.pop()


def _loop(body: Body, node: ast.Loop) -> tree.StmtNode:
    return tree.Loop(node.span, _looped(body, node.body))


def _while(body: Body, node: ast.While) -> tree.StmtNode:
    cond = branches.condition(body, node.cond)
    return tree.While(node.span, cond, _looped(body, node.body))


def _for(body: Body, node: ast.For) -> tree.StmtNode:
    """Errors: E0901 for anything but a range, E3007 for its bounds."""
    if not isinstance(node.iterable, ast.Range):
        helps = ["loop over a range: `for i in 0..n`"]
        raise body.session.unsupported("looping over anything but a range is", node.iterable.span, helps)
    if node.iterable.low is None or node.iterable.high is None:
        raise body.fail("E3007", "a loop needs both ends of its range", node.iterable.span)
    low, high = operators.pair(body, node.iterable.low, node.iterable.high, None)
    for side in (low, high):
        if not is_integer(side.type):
            message = f"the ends of a range are integers, and this is {show(side.type)}"
            raise body.fail("E3007", message, side.span)
    if low.type != high.type:
        message = f"the range starts with {show(low.type)} and ends with {show(high.type)}"
        raise body.fail("E3007", message, node.iterable.span, helps=[f"convert one: `… as {show(high.type)}`"])
    low, high = constants.in_range(body, low), constants.in_range(body, high)
    body.scopes.append({})
    try:
        id_ = body.declare(node.name, low.type, node.name_span)
        body.bounds[id_] = bounds.counted(low, high, body.bounds)
        return tree.For(node.span, id_, low, high, _looped(body, node.body))
    finally:
        body.scopes.pop()


def _assert(body: Body, node: ast.Assert) -> tree.StmtNode:
    cond = branches.condition(body, node.cond)
    return tree.Assert(node.span, cond, node.message or b"")


Handler = Callable[[Body, Any], tree.StmtNode]


@cache
def _handlers() -> Mapping[type, Handler]:
    return {
        ast.Let: _let,
        ast.Assign: assignments.assign,
        ast.ExprStmt: _expression,
        ast.Return: _return,
        ast.Break: _break,
        ast.Continue: _continue,
        ast.Loop: _loop,
        ast.While: _while,
        ast.For: _for,
        ast.Assert: _assert,
    }

"""What statements read and write: the facts that parallelism, fusion and check hoisting rest on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from vx.kernels import affine, ir


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop (or reduction) variable and its bounds."""

    var: ir.Var
    low: ir.Expr
    high: ir.Expr


@dataclass(frozen=True, slots=True)
class Access:
    """One load or store; `inner` are the loops between the statement list looked at and the access."""

    buffer: ir.BufferId
    offset: ir.Affine
    store: bool
    inner: tuple[Loop, ...]


def accesses(stmts: Iterable[ir.Stmt], inner: tuple[Loop, ...] = ()) -> Iterator[Access]:
    """Every load and store in `stmts`, in order."""
    for stmt in stmts:
        if isinstance(stmt, ir.For):
            yield from _expr_accesses(stmt.low, inner)
            yield from _expr_accesses(stmt.high, inner)
            yield from accesses(stmt.body, (*inner, Loop(stmt.var, stmt.low, stmt.high)))
            continue
        for expr in own_expressions(stmt):
            yield from _expr_accesses(expr, inner)
        if isinstance(stmt, ir.ArgReduce):
            deeper = (*inner, Loop(stmt.var, stmt.low, stmt.high))
            yield from _expr_accesses(stmt.value, deeper)
            yield from _expr_accesses(stmt.index, deeper)
        if isinstance(stmt, ir.Store):
            yield Access(stmt.buffer, stmt.offset, True, inner)
        for block in blocks(stmt):
            yield from accesses(block, inner)


def _expr_accesses(expr: ir.Expr, inner: tuple[Loop, ...]) -> Iterator[Access]:
    if isinstance(expr, ir.Load):
        yield Access(expr.buffer, expr.offset, False, inner)
    if isinstance(expr, ir.Reduce):
        yield from _expr_accesses(expr.low, inner)
        yield from _expr_accesses(expr.high, inner)
        yield from _expr_accesses(expr.body, (*inner, Loop(expr.var, expr.low, expr.high)))
        return
    for child in affine.children(expr):
        yield from _expr_accesses(child, inner)


def own_expressions(stmt: ir.Stmt) -> tuple[ir.Expr, ...]:
    """Expressions of the statement itself, not of statements inside it (`For` and `ArgReduce` bodies
    excepted: see `accesses`)."""
    match stmt:
        case ir.Let(value=v) | ir.Set(value=v):
            return (v,)
        case ir.Store(offset=offset, value=v):
            return (offset, v)
        case ir.For(low=low, high=high) | ir.ArgReduce(low=low, high=high):
            return (low, high)
        case ir.While(cond=c) | ir.If(cond=c) | ir.Check(cond=c):
            return (c,)
        case _:
            return ()


def all_expressions(stmts: Iterable[ir.Stmt]) -> Iterator[ir.Expr]:
    """Every expression in `stmts`, nested statements included."""
    for stmt in stmts:
        yield from own_expressions(stmt)
        if isinstance(stmt, ir.ArgReduce):
            yield from (stmt.value, stmt.index, stmt.best, stmt.at)
        for block in blocks(stmt):
            yield from all_expressions(block)


def blocks(stmt: ir.Stmt) -> tuple[tuple[ir.Stmt, ...], ...]:
    """The statement lists inside a statement (loop bodies included)."""
    match stmt:
        case ir.For(body=body) | ir.While(body=body):
            return (body,)
        case ir.If(then=then, orelse=orelse):
            return (then, orelse)
        case _:
            return ()


def statements(stmts: Iterable[ir.Stmt]) -> Iterator[ir.Stmt]:
    """Every statement, nested ones included."""
    for stmt in stmts:
        yield stmt
        for block in blocks(stmt):
            yield from statements(block)


def assigned(stmts: Iterable[ir.Stmt]) -> set[ir.VarId]:
    """Scalars changed by `Set` (or arg-reduction), wherever declared."""
    found: set[ir.VarId] = set()
    for stmt in statements(stmts):
        if isinstance(stmt, ir.Set):
            found.add(stmt.var.id)
        elif isinstance(stmt, ir.ArgReduce):
            found |= {stmt.best.id, stmt.at.id}
    return found


def declared(stmts: Iterable[ir.Stmt]) -> set[ir.VarId]:
    """Scalars and loop variables that come to life inside."""
    found: set[ir.VarId] = set()
    for stmt in statements(stmts):
        if isinstance(stmt, ir.Let | ir.For | ir.ArgReduce):
            found.add(stmt.var.id)
    return found


def allocated(stmts: Iterable[ir.Stmt]) -> set[ir.BufferId]:
    return {s.buffer for s in statements(stmts) if isinstance(s, ir.Alloc)}


def stored(stmts: Iterable[ir.Stmt]) -> set[ir.BufferId]:
    return {s.buffer for s in statements(stmts) if isinstance(s, ir.Store)}


def loaded(stmts: Iterable[ir.Stmt]) -> set[ir.BufferId]:
    return {load.buffer for e in all_expressions(stmts) for load in affine.loads(e)}


def disturbs(stmts: Sequence[ir.Stmt], expr: ir.Expr) -> bool:
    """Whether running `stmts` may change the value of `expr`."""
    if assigned(stmts) & affine.variables(expr):
        return True
    changed = stored(stmts)
    return any(load.buffer in changed for load in affine.loads(expr))


def rebuilt(stmts: Iterable[ir.Stmt], change: Callable[[ir.Expr], ir.Expr | None]) -> tuple[ir.Stmt, ...]:
    """The statements with every expression rebuilt (`affine.rebuilt`)."""

    def expr(e: ir.Expr) -> ir.Expr:
        return affine.rebuilt(e, change)

    found: list[ir.Stmt] = []
    for stmt in stmts:
        match stmt:
            case ir.Let(value=v) | ir.Set(value=v):
                found.append(replace(stmt, value=expr(v)))
            case ir.Store(offset=offset, value=v):
                found.append(replace(stmt, offset=affine.of(expr(offset)), value=expr(v)))
            case ir.If(cond=cond, then=then, orelse=orelse):
                found.append(ir.If(expr(cond), rebuilt(then, change), rebuilt(orelse, change)))
            case ir.While(cond=cond, body=body):
                found.append(ir.While(expr(cond), rebuilt(body, change)))
            case ir.For(low=low, high=high, body=body):
                found.append(replace(stmt, low=expr(low), high=expr(high), body=rebuilt(body, change)))
            case ir.ArgReduce(low=low, high=high, value=v, index=index):
                found.append(replace(stmt, low=expr(low), high=expr(high), value=expr(v), index=expr(index)))
            case ir.Check(cond=cond):
                found.append(replace(stmt, cond=expr(cond)))
            case _:
                found.append(stmt)
    return tuple(found)


def substituted(stmts: Iterable[ir.Stmt], to: Mapping[ir.VarId, ir.Expr]) -> tuple[ir.Stmt, ...]:
    """The statements with scalars that they only read replaced."""
    return rebuilt(stmts, lambda e: to.get(e.id) if isinstance(e, ir.Var) else None)


def free_variables(stmts: Iterable[ir.Stmt]) -> set[ir.VarId]:
    """Scalars read or set inside but declared outside."""
    stmts = tuple(stmts)
    used: set[ir.VarId] = set(assigned(stmts))
    for expr in all_expressions(stmts):
        used |= affine.variables(expr)
    return used - declared(stmts)

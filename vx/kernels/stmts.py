"""Statements of a region: blocks, branches, loops, and calls, which are inlined."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vx.diagnostics.span import Span
from vx.kernels import affine, assume, attention, exits, exprs, ir, loops, places, slots
from vx.kernels.effects import Loop
from vx.kernels.lowering import Cell, Frame, LoopExits, Lowering, Nothing, Number, Record, Rows, Val, View
from vx.sema import tree

MAX_INLINE_DEPTH = 64


def block(lo: Lowering, b: tree.Block, forks: bool = False) -> Val:
    """Run a block's statements; its value. `forks`: nothing follows the block in its loop or function."""
    outer = len(lo.deferred)
    result = _block(lo, b, forks)
    del lo.deferred[outer:]
    return result


def _block(lo: Lowering, b: tree.Block, forks: bool) -> Val:
    if b.value is None or exits.always_leaves(b.stmts):
        statements(lo, b.stmts, forks)
        return Nothing()
    if any(_live_after(lo, s) is not None for s in b.stmts):
        return _late_value(lo, b, slots.make(lo, b.type, "value", b.span), forks)
    statements(lo, b.stmts, forks)
    if isinstance(b.type, tree.Void | tree.Never):
        exprs.value(lo, b.value)
        return Nothing()
    result = exprs.value(lo, b.value)
    return Number(lo.once("value", result.expr)) if isinstance(result, Number) else result


def _late_value(lo: Lowering, b: tree.Block, slot: Val, forks: bool) -> Val:
    """A block's value where its statements may leave before it is computed: then the slot keeps what it had."""

    def fill() -> None:
        assert b.value is not None
        v = exprs.value(lo, b.value)
        if not isinstance(slot, Nothing):
            slots.fill(lo, slot, v, b.value.span)

    statements(lo, b.stmts, forks, None if b.value is None else fill)
    return slots.read(slot)


def statements(
    lo: Lowering, stmts: Sequence[tree.StmtNode], forks: bool, then: Callable[[], None] | None = None
) -> None:
    """Statements, and `then`; what follows one that may leave the loop or function is conditional."""
    for i, stmt in enumerate(stmts):
        fork = exits.fork(stmt, bool(lo.frame.loops)) if forks else None
        if fork is not None:
            _fork(lo, fork, stmts[i + 1 :], then)
            return
        statement(lo, stmt)
        live = _live_after(lo, stmt)
        if live is not None and (then is not None or i + 1 < len(stmts)):
            with lo.scope() as rest:
                statements(lo, stmts[i + 1 :], forks, then)
            lo.emit(ir.If(live, tuple(rest.stmts), ()))
            return
    if then is not None:
        then()


def _fork(lo: Lowering, branch: tree.IfExpr, after: Sequence[tree.StmtNode], then: Callable[[], None] | None) -> None:
    """`if c { …; leave; } after`: one or the other."""
    cond = exprs.scalar(lo, branch.cond)
    *before, last = branch.then.stmts
    with lo.scope() as left, assume.holding(lo, cond):
        statements(lo, before, False)
        if isinstance(last, tree.Break):
            lo.emit(ir.Set(lo.frame.loops[-1].run, ir.Lit(False, "bool")))
        elif isinstance(last, tree.Return) and last.value is not None:
            slots.fill(lo, lo.frame.result, exprs.value(lo, last.value), last.value.span)
    with lo.scope() as rest, assume.holding(lo, cond, holds=False):
        statements(lo, after, True, then)
    if isinstance(cond, ir.Lit):
        for stmt in (left if cond.value else rest).stmts:
            lo.emit(stmt)
    elif left.stmts:
        lo.emit(ir.If(cond, tuple(left.stmts), tuple(rest.stmts)))
    elif rest.stmts:
        lo.emit(ir.If(ir.Unary("!", cond, "bool"), tuple(rest.stmts), ()))


def _live_after(lo: Lowering, stmt: tree.StmtNode) -> ir.Expr | None:
    """Whether control is still here after `stmt`, if that is in question."""
    flags: list[ir.Expr] = []
    if lo.frame.loops and exits.leaves_iteration(stmt):
        flags.append(lo.frame.loops[-1].live)
    if lo.frame.returned is not None and exits.returns(stmt):
        flags.append(ir.Unary("!", lo.frame.returned, "bool"))
    if not flags:
        return None
    return flags[0] if len(flags) == 1 else ir.Binary("&&", flags[0], flags[1], "bool")


def statement(lo: Lowering, stmt: tree.StmtNode) -> None:  # noqa: C901 (one arm per kind of statement)
    match stmt:
        case tree.Let(id=i, value=value):
            lo.frame.env[i] = _bind(lo, lo.frame.function.locals[i], exprs.value(lo, value))
        case tree.Assign(target=target, value=value):
            _assign(lo, target, value, stmt.span)
        case tree.OpAssign(target=target, op=op, value=value):
            _op_assign(lo, target, op, value, stmt.span)
        case tree.ExprStmt(value=value):
            exprs.value(lo, value)
        case tree.For():
            _for(lo, stmt)
        case tree.While(cond=cond, body=body):
            _while(lo, cond, body)
        case tree.Loop(body=body):
            _while(lo, None, body)
        case tree.Break():
            _leave(lo, stop=True)
        case tree.Continue():
            _leave(lo, stop=False)
        case tree.Return(value=returned):
            leave_function(lo, returned)
        case tree.Assert(cond=test, message=message):
            text = "assertion failed" + (f": {message.decode(errors='replace')}" if message else "")
            lo.emit(ir.Check(exprs.scalar(lo, test), f"{text} at {lo.where(stmt.span)}"))
        case tree.MatMulInto():
            _matmul_into(lo, stmt)
        case tree.Attention():
            attention.expand(lo, stmt)
        case tree.Land():
            lo.refuse("`transfer`", stmt.span, "do it before or after the region")


def _matmul_into(lo: Lowering, stmt: tree.MatMulInto) -> None:
    target = _target_view(lo, stmt.out)
    left, right = exprs.tensor_operand(lo, stmt.left), exprs.tensor_operand(lo, stmt.right)
    rows = exprs.product(lo, left, right, exprs.WIDE.get(target.elem, target.elem), stmt.span)
    loops.assign(lo, target, _converted(rows, target.elem), stmt.span)


def _converted(rows: Rows, elem: str) -> Rows:
    return Rows(elem, rows.extents, lambda i: exprs.cast(rows.at(i), elem), rows.heavy)


def _target_view(lo: Lowering, ref: tree.Value) -> View:
    found = exprs.tensor_operand(lo, ref)
    assert isinstance(found, View), "the target of a product must be a place"
    return found


def _bind(lo: Lowering, local: tree.LocalDecl, v: Val) -> Val:
    """What a `let` or parameter stands for."""
    if isinstance(local.type, tree.Scalar):
        expr = v.expr if isinstance(v, Number) else exprs.read_scalar(lo, v, _as_place(local))
        if local.mutable:
            return Cell(lo.let(local.name, expr, mutable=True))
        return Number(lo.once(local.name, expr))
    if isinstance(v, Rows):
        return loops.kept(lo, v, local.name, local.span)
    if isinstance(v, Record) and isinstance(local.type, tree.Struct):
        return slots.moved(lo, v, local.name)
    return v


def _as_place(local: tree.LocalDecl) -> tree.Local:
    return tree.Local(local.type, local.span, local.id)


def _assign(lo: Lowering, target: tree.PlaceNode, value: tree.Value, span: Span) -> None:
    if isinstance(target.type, tree.Scalar):
        places.assign(lo, target, exprs.scalar(lo, value))
    elif isinstance(target.type, tree.Tensor):
        source = exprs.tensor_operand(lo, value)
        loops.assign(lo, places.view_of(lo, target), source, span)
    else:
        slot = places.place(lo, target)
        if not slots.is_plain(slot):
            lo.refuse("assigning a struct that holds tensors", span, "assign its fields")
        slots.fill(lo, slot, exprs.value(lo, value), span)


def _op_assign(lo: Lowering, target: tree.PlaceNode, op: str, value: tree.Value, span: Span) -> None:
    if isinstance(target.type, tree.Scalar):
        right = exprs.scalar(lo, value)
        left = exprs.read_scalar(lo, places.place(lo, target), target)
        places.assign(lo, target, ir.Binary(op, left, right, target.type.name))
        return
    view = places.view_of(lo, target)
    if isinstance(value.type, tree.Scalar):
        number = lo.once("scalar", exprs.scalar(lo, value))
        rows = Rows(view.elem, view.extents, lambda i: ir.Binary(op, view.load(i), number, view.elem), False)
    else:
        source = exprs.tensor_operand(lo, value)
        loops.require_same_shape(lo, view.extents, source.extents, span)
        rows = Rows(
            view.elem,
            view.extents,
            lambda i: ir.Binary(op, view.load(i), exprs.element(source, i), view.elem),
            isinstance(source, Rows) and source.heavy,
        )
    loops.assign(lo, view, rows, span)


# ---- branches ------------------------------------------------------------------------------------
def branch(lo: Lowering, e: tree.IfExpr) -> Val:
    cond = exprs.scalar(lo, e.cond)
    if isinstance(cond, ir.Lit):
        taken = e.then if cond.value else e.orelse
        return block(lo, taken) if taken is not None else Nothing()
    arms: list[tuple[ir.Expr | None, Callable[[], Val]]] = [(cond, lambda: block(lo, e.then))]
    if e.orelse is not None:
        orelse = e.orelse
        arms.append((None, lambda: block(lo, orelse)))
    return _choose(lo, arms, e.type, e.span)


def _choose(
    lo: Lowering, arms: Sequence[tuple[ir.Expr | None, Callable[[], Val]]], type_: tree.Type, span: Span
) -> Val:
    """The first arm whose condition holds (None: always)."""
    result = slots.make(lo, type_, "chosen", span)
    for stmt in _arms(lo, arms, result, span):
        lo.emit(stmt)
    return slots.read(result)


def _arms(
    lo: Lowering, arms: Sequence[tuple[ir.Expr | None, Callable[[], Val]]], result: Val, span: Span
) -> tuple[ir.Stmt, ...]:
    if not arms:
        return ()
    cond, run = arms[0]
    with lo.scope() as taken, assume.holding(lo, cond):
        v = run()
        if not isinstance(result, Nothing):
            slots.fill(lo, result, v, span)
    if cond is None:
        return tuple(taken.stmts)
    with assume.holding(lo, cond, holds=False):
        orelse = _arms(lo, arms[1:], result, span)
    return (ir.If(cond, tuple(taken.stmts), orelse),)


def match_value(lo: Lowering, e: tree.Match) -> Val:
    """A match on a number."""
    if not isinstance(e.scrutinee.type, tree.Scalar):
        lo.refuse("`match` on anything but a number", e.span, "decide outside the region and pass a number")
    subject = lo.once("subject", exprs.scalar(lo, e.scrutinee))
    arms: list[tuple[ir.Expr | None, Callable[[], Val]]] = []
    for arm in e.arms:
        pattern, body = arm.pattern, arm.body
        if isinstance(pattern, tree.ValuePattern) and isinstance(pattern.value, tree.Const):
            same = ir.Binary("==", subject, ir.Lit(pattern.value.value, affine.type_of(subject)), "bool")
            arms.append((same, lambda body=body: block(lo, body)))  # type: ignore[misc]
            continue
        if isinstance(pattern, tree.AnyPattern) and pattern.binding is not None:
            lo.frame.env[pattern.binding] = Number(subject)
        arms.append((None, lambda body=body: block(lo, body)))  # type: ignore[misc]
        break
    return _choose(lo, arms, e.type, e.span)


# ---- loops ---------------------------------------------------------------------------------------
def _for(lo: Lowering, stmt: tree.For) -> None:
    low, high = exprs.range_end(lo, stmt.low), exprs.range_end(lo, stmt.high)
    local = lo.frame.function.locals[stmt.id]
    assert isinstance(local.type, tree.Scalar)
    v = lo.fresh("i64", local.name)
    loops.set_range(lo, v, low, high, local.type.name)
    lo.frame.env[stmt.id] = Number(exprs.cast(v, local.type.name))
    run = lo.let("run", ir.Lit(True, "bool"), mutable=True) if exits.stops_loop(stmt.body) else _NEVER_READ
    with lo.scope() as inner:
        _round(lo, stmt.body, run)
    loops.close(lo, inner, Loop(v, affine.simplest(low), affine.simplest(high)), stmt.span)


def _round(lo: Lowering, body: tree.Block, run: ir.Var) -> None:
    """One round of a loop; of one that can be stopped, only while `run`."""
    if run is not _NEVER_READ:
        with lo.scope() as inner:
            _live_round(lo, body, run)
        lo.emit(ir.If(run, tuple(inner.stmts), ()))
    else:
        _live_round(lo, body, run)


def _live_round(lo: Lowering, body: tree.Block, run: ir.Var) -> None:
    live = lo.let("live", ir.Lit(True, "bool"), mutable=True) if exits.needs_flag(body, in_loop=True) else _NEVER_READ
    lo.frame.loops.append(LoopExits(run, live))
    lo.source_loops += 1
    block(lo, body, forks=True)
    lo.source_loops -= 1
    lo.frame.loops.pop()


_NEVER_READ = ir.Var(-1, "bool", "none")


def _while(lo: Lowering, cond: tree.Value | None, body: tree.Block) -> None:
    """`while` and `loop`: rounds go on while `run`, which the condition or a `break` clears."""
    run = lo.let("run", ir.Lit(True, "bool"), mutable=True)
    with lo.scope() as inner:
        if cond is not None:
            lo.emit(ir.Set(run, exprs.scalar(lo, cond)))
        _round(lo, body, run)
    lo.emit(ir.While(run, tuple(inner.stmts)))


def _leave(lo: Lowering, stop: bool) -> None:
    flags = lo.frame.loops[-1]
    lo.emit(ir.Set(flags.live, ir.Lit(False, "bool")))
    if stop:
        lo.emit(ir.Set(flags.run, ir.Lit(False, "bool")))


# ---- calls ---------------------------------------------------------------------------------------
def call(lo: Lowering, e: tree.Call) -> Val:
    """Inline a call."""
    function = lo.program.functions[e.key]
    if any(frame.function is function for frame in lo.frames if frame.called is not None):
        lo.refuse("recursion", e.span, "write it as a loop")
    if len(lo.frames) > MAX_INLINE_DEPTH:
        lo.reject(f"calls in a region go at most {MAX_INLINE_DEPTH} deep", e.span, "let fewer functions lie in between")
    env: dict[tree.LocalId, Val] = {}
    for local, arg in zip(function.params, e.args, strict=True):
        env[local] = _bind(lo, function.locals[local], exprs.value(lo, arg))
    frame = Frame(function, env, captures=False, called=e.span)
    body = exits.with_tail_return(function.body)
    early = exits.returns_early(function.body)
    if early:
        frame.result = slots.make(lo, function.ret, "result", e.span)
        if exits.needs_flag(body, in_loop=False):
            frame.returned = lo.let("returned", ir.Lit(False, "bool"), mutable=True)
    lo.frames.append(frame)
    result = _late_value(lo, body, frame.result, True) if early else block(lo, body, True)
    lo.frames.pop()
    return result


def leave_function(lo: Lowering, value: tree.Value | None) -> None:
    """`return` that is not the last thing a function does."""
    frame = lo.frame
    if frame.captures or frame.returned is None:
        span = value.span if value is not None else frame.function.span
        lo.refuse("returning from the surrounding function", span, "set a flag and return after the region")
    assert frame.returned is not None
    if value is not None:
        slots.fill(lo, frame.result, exprs.value(lo, value), value.span)
    lo.emit(ir.Set(frame.returned, ir.Lit(True, "bool")))
    for flags in frame.loops:
        lo.emit(ir.Set(flags.live, ir.Lit(False, "bool")))
        lo.emit(ir.Set(flags.run, ir.Lit(False, "bool")))

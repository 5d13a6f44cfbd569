"""Index checks: proven away where ranges and conditions allow, else moved out of loops as far as they can go.

An obligation is an affine expression that must not be negative. It is dropped if its interval says so, or the
conditions of the branch that it stands in (`assume.py`).
When a loop closes, an obligation that only rises or only falls with the loop variable is replaced, in front of
the loop, by the obligation at the end of the range where it is smallest, so that exactly the programs that fail
fail; one under a condition, or on something that the loop changes, stays where it is.
"""

from __future__ import annotations

from functools import reduce
from math import gcd

from vx.diagnostics.span import Span
from vx.kernels import affine, assume, effects, ir
from vx.kernels.effects import Loop
from vx.kernels.lowering import Lowering, Obligation, Scope

MINUS_ONE = affine.const(-1)


def require(lo: Lowering, expr: ir.Affine, message: str, guards: tuple[ir.Expr, ...] = (), moved: bool = False) -> None:
    """`expr >= 0` from here on, or the process ends with `message`. `moved`: nobody computes the index that it is
    about, so that the check must not wrap where the index would not."""
    expr = _reduced(expr)
    if _holds(lo, expr) or (lo.facts and _holds(lo, assume.reduced(lo, expr))):
        return
    if _lasting(lo, expr) and any(_implies(o, expr, guards) for scope in lo.scopes for o in scope.obligations):
        return
    wide = _least(expr, lo.ranges, moved) < _SMALLEST or abs(expr.const) > _LARGEST
    check = ir.Check(_condition(expr, guards, wide), message)
    lo.emit(check)
    lo.scopes[-1].obligations.append(Obligation(check, expr, guards))


def _holds(lo: Lowering, expr: ir.Affine) -> bool:
    """`expr >= 0` by ranges: as a sum, or as `stride · index + rest` with each part not negative."""
    low = affine.interval(expr, lo.ranges)[0]
    if low is not None and low >= 0:
        return True
    for stride in affine.common_factors(expr):
        least = affine.interval(stride, lo.ranges)[0]
        if least is not None and least >= 0:
            index, rest = affine.divided(expr, stride)
            if _holds(lo, index) and _holds(lo, rest):
                return True
    return False


def require_slice(lo: Lowering, low: ir.Affine, high: ir.Affine, extent: ir.Affine, span: Span) -> None:
    """`0 <= low <= high <= extent`."""
    message = f"range out of bounds at {lo.where(span)}"
    require(lo, low, message)
    require(lo, affine.sub(high, low), message)
    require(lo, affine.sub(extent, high), message)


def require_exact(lo: Lowering, expr: ir.Expr, span: Span) -> None:
    """Computing an integer expression as an index gives what the program's own types give."""
    if affine.never_wraps(expr, lo.ranges) or not isinstance(expr, ir.Cast | ir.Binary):
        return
    exact = affine.of(expr, lo.ranges)
    if exact.terms and exact.terms[0][1] == (expr if expr.type == "i64" else ir.Cast(expr, "i64")):
        return
    for part in affine.children(expr):
        require_exact(lo, part, span)
    least, most = affine.limits(expr.type)
    message = f"range out of bounds at {lo.where(span)}"
    require(lo, affine.add(exact, affine.const(-least)), message)
    require(lo, affine.sub(affine.const(min(most, _LARGEST)), exact), message)


_SMALLEST, _LARGEST = affine.limits("i64")


def require_equal(lo: Lowering, a: ir.Affine, b: ir.Affine, what: str, span: Span) -> None:
    difference = affine.sub(a, b)
    message = f"{what} at {lo.where(span)}"
    require(lo, difference, message)
    require(lo, affine.scale(difference, -1), message)


def hoist(lo: Lowering, scope: Scope, loop: Loop) -> None:
    """Move what can leave the loop whose body is `scope` into the current scope, before the loop."""
    body = scope.stmts
    inside = effects.declared(body)
    changed = effects.assigned(body) | inside | {loop.var.id}
    written = effects.stored(body)
    nonempty = affine.interval(affine.sub(affine.of(loop.high), affine.of(loop.low)), lo.ranges)[0]
    guard: tuple[ir.Expr, ...] = ()
    if nonempty is None or nonempty < 1:
        guard = (ir.Binary(">=", affine.of(loop.low), affine.of(loop.high), "bool"),)
    for obligation in scope.obligations:
        smallest = _at_smallest(lo, _unfold(lo, obligation.expr, inside), loop)
        if smallest is None:
            continue
        used = (smallest, *obligation.guards)
        if any(affine.variables(e) & changed or any(x.buffer in written for x in affine.loads(e)) for e in used):
            continue
        body.remove(obligation.placeholder)
        require(lo, smallest, obligation.placeholder.message, (*obligation.guards, *guard), moved=True)


def _reduced(expr: ir.Affine) -> ir.Affine:
    """The same condition in lowest terms: g·e + c >= 0 exactly when e + ⌊c/g⌋ >= 0."""
    divisor = gcd(*(c for c, _ in expr.terms))
    if divisor < 2:
        return expr
    return ir.Affine(expr.const // divisor, tuple((c // divisor, a) for c, a in expr.terms))


def _implies(known: Obligation, expr: ir.Affine, guards: tuple[ir.Expr, ...]) -> bool:
    """`known` asks for at least as much."""
    stronger = affine.sub(expr, known.expr)
    return not stronger.terms and stronger.const >= 0 and set(known.guards) <= set(guards)


def _lasting(lo: Lowering, expr: ir.Affine) -> bool:
    """Nothing in it can change between two checks."""
    return not affine.variables(expr) & lo.mutable and not any(True for _ in affine.loads(expr))


def _at_smallest(lo: Lowering, expr: ir.Affine, loop: Loop) -> ir.Affine | None:
    """The least value of `expr` over the loop, without its variable; None if it may not be at an end."""
    step = _direction(lo, expr, loop.var.id)
    if step is None:
        return None
    if step == 0:
        return expr
    at = affine.of(loop.low) if step > 0 else affine.add(affine.of(loop.high), MINUS_ONE)
    return affine.substitute_affine(expr, {loop.var.id: at})


def _direction(lo: Lowering, expr: ir.Expr, var: ir.VarId) -> int | None:
    """1 if `expr` never falls as `var` rises, -1 if it never rises, 0 if it stays, else None."""
    match expr:
        case ir.Var(id=i) if i == var:
            return 1
        case ir.Affine(terms=terms):
            steps = {_signed(c, _direction(lo, atom, var)) for c, atom in terms} - {0}
            return 0 if not steps else steps.pop() if len(steps) == 1 else None
        case ir.Binary(op="/", left=a, right=ir.Affine(const=c, terms=())) if c > 0:
            return _direction(lo, a, var)
        case ir.Binary(op="*", left=a, right=b):
            return _product_direction(lo, a, b, var)
        case _:
            return None if var in affine.variables(expr) else 0


def _product_direction(lo: Lowering, a: ir.Expr, b: ir.Expr, var: ir.VarId) -> int | None:
    """Of a product in which only one factor depends on `var` and the other is not negative."""
    moving, other = (a, b) if var in affine.variables(a) else (b, a)
    if var not in affine.variables(moving):
        return 0
    low = affine.interval(other, lo.ranges)[0]
    return _direction(lo, moving, var) if var not in affine.variables(other) and low is not None and low >= 0 else None


def _signed(factor: int, step: int | None) -> int | None:
    return step if step is None or factor > 0 else -step


def _unfold(lo: Lowering, expr: ir.Affine, inside: set[ir.VarId]) -> ir.Affine:
    """`expr` with scalars defined inside the loop replaced by their definitions."""
    while known := {v: lo.definitions[v] for v in affine.variables(expr) & inside if v in lo.definitions}:
        expr = affine.substitute_affine(expr, known)
    return expr


def _condition(expr: ir.Affine, guards: tuple[ir.Expr, ...], wide: bool) -> ir.Expr:
    """`expr >= 0 || guards`, written with the constant on the right; `wide`: in 128 bits."""
    varying = ir.Affine(0, expr.terms)
    sides = (_wide(varying), "i128") if wide else (affine.simplest(varying), "i64")
    cond: ir.Expr = ir.Binary(">=", sides[0], ir.Lit(-expr.const, sides[1]), "bool")
    for guard in guards:
        cond = ir.Binary("||", guard, cond, "bool")
    return cond


def _least(expr: ir.Affine, ranges: affine.Ranges, unknown: bool) -> int:
    """The least value of the terms of a sum of i64s, exactly; `unknown`: also of those that have no known bounds, and
    of products."""
    least, most = _SMALLEST, _LARGEST
    total = 0
    for c, atom in expr.terms:
        ends = [affine.interval(factor, ranges) for factor in affine.factors(atom)]
        if not unknown and (len(ends) > 1 or None in ends[0]):
            continue
        low = high = 1
        for a, b in ((least if a is None else a, most if b is None else b) for a, b in ends):
            products = low * a, low * b, high * a, high * b
            low, high = min(products), max(products)
        total += min(c * low, c * high)
    return total


def _wide(expr: ir.Expr) -> ir.Expr:
    """An index computed in 128 bits."""
    match expr:
        case ir.Affine(const=constant, terms=terms):
            parts: list[ir.Expr] = [ir.Binary("*", ir.Lit(c, "i128"), _wide(atom), "i128") for c, atom in terms]
            parts += [ir.Lit(constant, "i128")] if constant or not terms else []
            return reduce(lambda total, part: ir.Binary("+", total, part, "i128"), parts)
        case ir.Binary(op="*", left=a, right=b, type="i64"):
            return ir.Binary("*", _wide(a), _wide(b), "i128")
        case _:
            return ir.Cast(expr, "i128")


def may_fault(lo: Lowering, expr: ir.Expr) -> bool:
    """Whether evaluating it where the program does not could end the process: it divides by what may be 0, or loads
    what only the conditions around it prove to be there."""
    for e in affine.walk(expr):
        if isinstance(e, ir.Binary) and e.op in "/%" and e.type[0] in "iu":
            low, high = affine.interval(e.right, affine.UNKNOWN)
            if (low is None or low <= 0) and (high is None or high >= 0):
                return True
        elif isinstance(e, ir.Load) and not exists(lo, e.buffer, e.offset):
            return True
    return False


def exists(lo: Lowering, buffer: ir.BufferId, at: ir.Affine) -> bool:
    """Whether the element is one of its tensor wherever `at` can be computed."""
    return _holds(lo, at) and _holds(lo, affine.sub(affine.sub(lo.lengths[buffer], at), affine.const(1)))

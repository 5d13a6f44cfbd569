"""Index arithmetic: integer expressions as affine sums of loop variables, and what ranges they span.

Enters: integer `ir.Expr`s. Leaves: canonical `ir.Affine`s, intervals, and the set of things an
expression depends on. Source integers may be i32; indices are computed in i64, so an overflow that
would have wrapped becomes an index out of range, never a wrong element. What is divided keeps the
arithmetic of its own type unless that cannot wrap: `h * 31 % n` is how hashes are brought into range. So do sums
of types narrower than 32 bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from vx.kernels import ir
from vx.sema.tree import FLOATS

ZERO = ir.Affine(0)


def const(value: int) -> ir.Affine:
    return ir.Affine(value)


def var(v: ir.Var) -> ir.Affine:
    return ir.Affine(0, ((1, v),))


def _atom(expr: ir.Expr) -> ir.Affine:
    return ir.Affine(0, ((1, expr),))


def _collect(const_part: int, pairs: Iterator[tuple[int, ir.Expr]]) -> ir.Affine:
    total: dict[ir.Expr, int] = {}
    for coefficient, atom in pairs:
        total[atom] = total.get(atom, 0) + coefficient
    for rest in [a for a in total if isinstance(a, ir.Binary) and a.op == "%"] * 2:
        const_part += _join(total, rest)
    return ir.Affine(const_part, tuple((c, a) for a, c in total.items() if c != 0))


def _join(total: dict[ir.Expr, int], rest: ir.Binary) -> int:
    """`n·(a / n) + a % n` is a: replaces both, and gives what has to be added beside the terms."""
    if not isinstance(rest.left, ir.Affine) or not isinstance(rest.right, ir.Affine) or rest.right.terms:
        return 0
    c, quotient = total[rest], _binary("/", rest.left, rest.right)
    if not c or len(quotient.terms) != 1 or total.get(quotient.terms[0][1]) != c * rest.right.const:
        return 0
    total[rest] = total[quotient.terms[0][1]] = 0
    for factor, atom in rest.left.terms:
        total[atom] = total.get(atom, 0) + c * factor
    return c * rest.left.const


def add(a: ir.Affine, b: ir.Affine) -> ir.Affine:
    if not b.terms:
        return a if b.const == 0 else ir.Affine(a.const + b.const, a.terms)
    if not a.terms:
        return ir.Affine(a.const + b.const, b.terms)
    return _collect(a.const + b.const, iter(a.terms + b.terms))


def scale(a: ir.Affine, factor: int) -> ir.Affine:
    if factor == 0:
        return ZERO
    if factor == 1:
        return a
    return ir.Affine(a.const * factor, tuple((c * factor, t) for c, t in a.terms))


def sub(a: ir.Affine, b: ir.Affine) -> ir.Affine:
    return add(a, scale(b, -1))


MAX_PRODUCT = 8
"""Terms up to which a product of sums is multiplied out."""


def times(a: ir.Affine, b: ir.Affine) -> ir.Affine:
    """The product: multiplied out, with products of atoms as opaque atoms, so that equal products are equal."""
    if not b.terms:
        return scale(a, b.const)
    if not a.terms:
        return scale(b, a.const)
    if len(a.terms) * len(b.terms) > MAX_PRODUCT:
        return _atom(ir.Binary("*", a, b, "i64"))
    both = ((c * d, _product((*factors(x), *factors(y)))) for c, x in a.terms for d, y in b.terms)
    mixed = _collect(0, both)
    return add(add(mixed, scale(ir.Affine(0, a.terms), b.const)), scale(b, a.const))


def factors(atom: ir.Expr) -> tuple[ir.Expr, ...]:
    """What a product of atoms multiplies; of anything else itself."""
    if isinstance(atom, ir.Binary) and atom.op == "*" and atom.type == "i64":
        return (*factors(atom.left), *factors(atom.right))
    return (atom,)


def _product(of_atoms: tuple[ir.Expr, ...]) -> ir.Expr:
    first, *rest = sorted(of_atoms, key=lambda e: (0, e.id, "") if isinstance(e, ir.Var) else (1, 0, repr(e)))
    for atom in rest:
        first = ir.Binary("*", first, atom, "i64")
    return first


def without(atom: ir.Expr, part: ir.Expr) -> ir.Affine | None:
    """What `part`, a product of atoms, is multiplied with to give `atom`."""
    left = list(factors(atom))
    for factor in factors(part):
        if factor not in left:
            return None
        left.remove(factor)
    return ir.Affine(0, ((1, _product(tuple(left))),)) if left else const(1)


def common_factors(a: ir.Affine) -> list[ir.Expr]:
    """Factors that several terms share, at least one of them a product."""
    if not any(isinstance(atom, ir.Binary) and atom.op == "*" for _, atom in a.terms):
        return []
    counts = Counter(factor for _, atom in a.terms for factor in set(factors(atom)))
    return [factor for factor, count in counts.items() if count > 1]


def divided(a: ir.Affine, factor: ir.Expr) -> tuple[ir.Affine, ir.Affine]:
    """(quotient, rest) with a = factor · quotient + rest."""
    quotient, rest = ZERO, const(a.const)
    for c, atom in a.terms:
        other = without(atom, factor)
        if other is None:
            rest = add(rest, ir.Affine(0, ((c, atom),)))
        else:
            quotient = add(quotient, scale(other, c))
    return quotient, rest


def is_index_type(name: str) -> bool:
    return name in ("i32", "i64", "u32", "u64", "i128", "u128")


Interval = tuple[int | None, int | None]
Ranges = Mapping[ir.VarId, Interval]
"""Inclusive bounds of variables, where known."""

UNKNOWN: Ranges = MappingProxyType({})


def of(expr: ir.Expr, ranges: Ranges = UNKNOWN) -> ir.Affine:
    """An integer expression as an index."""
    match expr:
        case ir.Affine():
            return expr
        case ir.Lit(value=value):
            return const(int(value))
        case ir.Cast(operand=operand, type=to) if is_index_type(to) and type_of(operand)[0] in "iu":
            return of(operand, ranges)
        case ir.Binary(op=op, left=left, right=right, type=t) if t[0] in "iu" and op in _AFFINE_OPS:
            if (op in "/%" or not is_index_type(t)) and not never_wraps(expr, ranges):
                return _atom(expr if t == "i64" else ir.Cast(expr, "i64"))
            return _binary(op, of(left, ranges), of(right, ranges))
        case _:
            return _atom(expr if type_of(expr) == "i64" else ir.Cast(expr, "i64"))


_AFFINE_OPS = frozenset("+-*/%")


def never_wraps(expr: ir.Expr, ranges: Ranges) -> bool:
    """Whether an integer expression has the same value when it is computed in i64."""
    t = type_of(expr)
    match expr:
        case ir.Affine() | ir.Lit():
            return True
        case ir.Cast(operand=x) if type_of(x)[0] in "iu":
            return never_wraps(x, ranges) and (_holds(t, type_of(x)) or _within(interval(of(x, ranges), ranges), t))
        case ir.Binary(op=op, left=a, right=b) if op in _AFFINE_OPS:
            if not (never_wraps(a, ranges) and never_wraps(b, ranges)):
                return False
            values = interval(_binary(op, of(a, ranges), of(b, ranges)), ranges)
            if t == "i64":  # what is not known is taken to fit
                values = values[0] or 0, values[1] or 0
            return op in "/%" or _within(values, t)
        case _:
            return _holds("i64", t)


def keeps_value(expr: ir.Expr, ranges: Ranges) -> bool:
    """Whether a scalar declared as `expr` may be replaced by it in an index."""
    return type_of(expr)[0] in "iu" and never_wraps(expr, ranges)


def limits(name: str) -> tuple[int, int]:
    """The least and greatest value of an integer type."""
    bits = int(name[1:])
    return (0, (1 << bits) - 1) if name[0] == "u" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _holds(wide: str, narrow: str) -> bool:
    return narrow == "bool" or _within(limits(narrow), wide)


def _within(values: Interval, type_: str) -> bool:
    low, high = limits(type_)
    return values[0] is not None and values[1] is not None and low <= values[0] and values[1] <= high


def _binary(op: str, a: ir.Affine, b: ir.Affine) -> ir.Affine:
    match op:
        case "+":
            return add(a, b)
        case "-":
            return sub(a, b)
        case "*":
            return times(a, b)
    if not a.terms and not b.terms and b.const != 0:
        quotient = abs(a.const) // abs(b.const) * (1 if (a.const < 0) == (b.const < 0) else -1)
        return const(quotient if op == "/" else a.const - quotient * b.const)
    if b == const(1):
        return a if op == "/" else ZERO
    if op == "/" and not b.terms and b.const > 0 and _is_quotient(a):
        inner = a.terms[0][1]
        assert isinstance(inner, ir.Binary) and isinstance(inner.left, ir.Affine) and isinstance(inner.right, ir.Affine)
        return _binary("/", inner.left, const(inner.right.const * b.const))
    return _atom(ir.Binary(op, a, b, "i64"))


def _is_quotient(a: ir.Affine) -> bool:
    """Just `x / n` with n > 0."""
    if a.const or len(a.terms) != 1 or a.terms[0][0] != 1:
        return False
    atom = a.terms[0][1]
    if not isinstance(atom, ir.Binary) or atom.op != "/" or not isinstance(atom.left, ir.Affine):
        return False
    return isinstance(atom.right, ir.Affine) and not atom.right.terms and atom.right.const > 0


def type_of(expr: ir.Expr) -> str:
    """The element type of an expression's value."""
    return "i64" if isinstance(expr, ir.Affine) else expr.type


def simplest(a: ir.Affine) -> ir.Expr:
    """The affine sum as the plainest expression: a literal or variable where it is one."""
    if not a.terms:
        return ir.Lit(a.const, "i64")
    if a.const == 0 and len(a.terms) == 1 and a.terms[0][0] == 1:
        return a.terms[0][1]
    return a


# ---- what an expression depends on ---------------------------------------------------------------
def children(expr: ir.Expr) -> tuple[ir.Expr, ...]:
    match expr:
        case ir.Affine(terms=terms):
            return tuple(a for _, a in terms)
        case ir.Load(offset=offset):
            return (offset,)
        case ir.Unary(operand=x) | ir.Cast(operand=x):
            return (x,)
        case ir.Binary(left=a, right=b):
            return (a, b)
        case ir.Call(args=args):
            return args
        case ir.Select(cond=c, then=a, orelse=b):
            return (c, a, b)
        case ir.Reduce(low=low, high=high, body=body):
            return (low, high, body)
        case _:
            return ()


def walk(expr: ir.Expr) -> Iterator[ir.Expr]:
    """The expression and everything inside it."""
    yield expr
    for child in children(expr):
        yield from walk(child)


def variables(expr: ir.Expr) -> set[ir.VarId]:
    """Ids of the variables read (a `Reduce`'s own variable excepted)."""
    if isinstance(expr, ir.Var):
        return {expr.id}
    found: set[ir.VarId] = set()
    for child in children(expr):
        found |= variables(child)
    if isinstance(expr, ir.Reduce):
        found.discard(expr.var.id)
    return found


def loads(expr: ir.Expr) -> Iterator[ir.Load]:
    return (e for e in walk(expr) if isinstance(e, ir.Load))


def coefficient(a: ir.Affine, v: ir.VarId) -> int | None:
    """The step of `a` along variable `v`; None if it depends on it in another way."""
    step = 0
    for c, atom in a.terms:
        if isinstance(atom, ir.Var):
            if atom.id == v:
                step = c
        elif v in variables(atom):
            return None
    return step


def substitute(expr: ir.Expr, to: Mapping[ir.VarId, ir.Expr]) -> ir.Expr:
    """`expr` with variables replaced (simultaneously)."""
    return rebuilt(expr, lambda e: to.get(e.id) if isinstance(e, ir.Var) else None)


def substitute_affine(a: ir.Affine, to: Mapping[ir.VarId, ir.Expr]) -> ir.Affine:
    return of(substitute(a, to))


def rebuilt(  # noqa: C901 (one arm per kind of expression)
    expr: ir.Expr, change: Callable[[ir.Expr], ir.Expr | None]
) -> ir.Expr:
    """`expr` with the outermost parts for which `change` gives something else replaced by that."""
    changed = change(expr)
    if changed is not None:
        return changed

    def inside(e: ir.Expr) -> ir.Expr:
        return rebuilt(e, change)

    match expr:
        case ir.Affine(const=c, terms=terms):
            total = const(c)
            for factor, atom in terms:
                total = add(total, scale(of(inside(atom)), factor))
            return total
        case ir.Load(offset=offset):
            return replace(expr, offset=of(inside(offset)))
        case ir.Unary(operand=x) | ir.Cast(operand=x):
            return replace(expr, operand=inside(x))
        case ir.Binary(left=a, right=b):
            return replace(expr, left=inside(a), right=inside(b))
        case ir.Call(args=args):
            return replace(expr, args=tuple(inside(x) for x in args))
        case ir.Select(cond=c2, then=a, orelse=b):
            return replace(expr, cond=inside(c2), then=inside(a), orelse=inside(b))
        case ir.Reduce(low=low, high=high, body=body):
            return replace(expr, low=inside(low), high=inside(high), body=inside(body))
        case _:
            return expr


# ---- intervals -----------------------------------------------------------------------------------
def interval(expr: ir.Expr, ranges: Ranges) -> Interval:
    """Inclusive bounds of an integer expression's value; None where unknown."""
    match expr:
        case ir.Lit(value=value):
            return int(value), int(value)
        case ir.Var(id=i):
            return ranges.get(i, (None, None))
        case ir.Affine(const=c, terms=terms):
            return _sum_interval(c, terms, ranges)
        case ir.Cast(operand=x, type=to) if to[0] in "iu":
            return _cast_interval(x, expr.type, ranges)
        case ir.Binary(op=op, left=a, right=b) if op in "/%":
            return _division_interval(op, interval(a, ranges), interval(b, ranges))
        case ir.Binary(op="*", left=a, right=b, type="i64"):
            return _product_interval(interval(a, ranges), interval(b, ranges))
        case _:
            return None, None


def _cast_interval(operand: ir.Expr, to: str, ranges: Ranges) -> Interval:
    source = type_of(operand)
    if source in FLOATS:
        return limits(to)
    low, high = interval(operand, ranges)
    least, most = (0, 1) if source == "bool" else limits(source)
    inside = least if low is None else max(low, least), most if high is None else min(high, most)
    if not _within(inside, to):
        return limits(to)
    return inside if _holds("i32", source) or source == "u32" else (low, high)


def _sum_interval(constant: int, terms: tuple[tuple[int, ir.Expr], ...], ranges: Ranges) -> Interval:
    low: int | None = constant
    high: int | None = constant
    for c, atom in terms:
        a, b = interval(atom, ranges)
        if c < 0:
            a, b = b, a
        low = None if low is None or a is None else low + c * a
        high = None if high is None or b is None else high + c * b
    return low, high


def _product_interval(a: Interval, b: Interval) -> Interval:
    """Of factors that are not negative."""
    if a[0] is None or b[0] is None or a[0] < 0 or b[0] < 0:
        return None, None
    return a[0] * b[0], None if a[1] is None or b[1] is None else a[1] * b[1]


def _division_interval(op: str, a: Interval, b: Interval) -> Interval:
    if b[0] is None or b[0] != b[1] or b[0] <= 0:
        return None, None
    divisor, (low, high) = b[0], a
    if op == "/":
        return (None if low is None else _truncated(low, divisor)), None if high is None else _truncated(high, divisor)
    least = 1 - divisor if low is None else max(min(low, 0), 1 - divisor)
    return least, divisor - 1 if high is None else min(max(high, 0), divisor - 1)


def _truncated(a: int, divisor: int) -> int:
    """a / divisor, which is positive."""
    return a // divisor if a >= 0 else -(-a // divisor)

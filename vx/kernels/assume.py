"""What conditions say about indices: inside `if 0 < i && i < n { … }` an access to `x[i - 1]` needs no check.

Enters: a condition, and whether it holds. Leaves: affine expressions that are not negative, for as long as the branch
is lowered. Only what cannot change in there counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vx.kernels import affine, ir
from vx.kernels.lowering import Lowering

_NEGATED = {"<": ">=", ">": "<=", "<=": ">", ">=": "<", "==": "!=", "!=": "=="}


@contextmanager
def holding(lo: Lowering, cond: ir.Expr | None, holds: bool = True) -> Iterator[None]:
    """Lower what runs only if `cond` is `holds`."""
    before = len(lo.facts)
    if cond is not None:
        lo.facts += [f for f in _facts(lo, cond, holds) if _lasts(lo, f)]
    yield
    del lo.facts[before:]


def _lasts(lo: Lowering, fact: ir.Affine) -> bool:
    return not affine.variables(fact) & lo.mutable and not any(True for _ in affine.loads(fact))


def _facts(lo: Lowering, cond: ir.Expr, holds: bool) -> Iterator[ir.Affine]:
    match cond:
        case ir.Unary(op="!", operand=x):
            yield from _facts(lo, x, not holds)
        case ir.Binary(op="&&" | "||" as op, left=a, right=b) if holds == (op == "&&"):
            yield from _facts(lo, a, holds)
            yield from _facts(lo, b, holds)
        case ir.Binary(op=op, left=a, right=b) if op in _NEGATED:
            yield from _comparison(lo, op if holds else _NEGATED[op], a, b)
        case ir.Var(id=i) if i in lo.meanings:
            yield from _facts(lo, lo.meanings[i], holds)


def _comparison(lo: Lowering, op: str, a: ir.Expr, b: ir.Expr) -> Iterator[ir.Affine]:
    if not all(affine.is_index_type(affine.type_of(x)) and affine.never_wraps(x, lo.ranges) for x in (a, b)):
        return
    difference = affine.sub(affine.of(a, lo.ranges), affine.of(b, lo.ranges))
    one = affine.const(1)
    low, high = affine.interval(difference, lo.ranges)
    if op == "!=":
        op = ">" if low == 0 else "<" if high == 0 else op
    if op in (">", ">=", "=="):
        yield affine.sub(difference, one) if op == ">" else difference
    if op in ("<", "<=", "=="):
        opposite = affine.scale(difference, -1)
        yield affine.sub(opposite, one) if op == "<" else opposite


def reduced(lo: Lowering, expr: ir.Affine) -> ir.Affine:
    """`expr` less multiples of what is known not to be negative: if the rest is not negative, `expr` is not."""
    for fact in lo.facts:
        lead, unit = fact.terms[0] if fact.terms else (0, None)
        for c, atom in expr.terms:
            times = affine.without(atom, unit) if unit is not None and c * lead > 0 and c % lead == 0 else None
            least = None if times is None else affine.interval(times, lo.ranges)[0]
            if times is not None and least is not None and least >= 0:
                expr = affine.sub(expr, affine.times(affine.scale(fact, c // lead), times))
                break
    return expr

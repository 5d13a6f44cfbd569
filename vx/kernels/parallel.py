"""Rule 1: a loop is parallel only by proof.

Two iterations i ≠ i' conflict if one stores to an element that the other touches. For a store at
a·i + r and an access at a·i' + r' of the same buffer, that needs a·(i − i') = r' − r. The proof shows that no such
pair exists: what is left of r' − r after everything invariant cancelled is a sum over the inner loops' variables,
which is either smaller than |a|, or consists of a small part like that and of multiples of something larger than
the whole reach of a·i; whatever is not known is some multiple of its factor. Accesses with different factors must
lie in separate ranges, or differ modulo everything that varies. Where strides are known only at run time, the same is
asked of the indices of each dimension.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import gcd

from vx.kernels import affine, effects, ir, layouts
from vx.kernels.effects import Access, Loop
from vx.kernels.layouts import Bounds, Layout

Ranges = affine.Ranges

MAX_ACCESSES = 400
"""Loads and stores of one loop body of which each store is compared with all others."""


@dataclass(frozen=True, slots=True)
class _Spread:
    """A term of the difference: `step` times something in 0..=`reach` (None: unbounded)."""

    step: int
    reach: int | None


@dataclass(frozen=True, slots=True)
class Known:
    """What a proof may use beside the loop: ranges of variables, names of buffers for messages, layouts of buffers
    with unknown strides, and what loop variables run over."""

    ranges: Ranges
    names: Mapping[ir.BufferId, str]
    layouts: Mapping[ir.BufferId, Layout] = field(default_factory=dict)
    bounds: Bounds = field(default_factory=dict)


def why_serial(loop: Loop, body: Sequence[ir.Stmt], known: Known) -> str:
    """ "" if the iterations are proven independent, else what broke the proof."""
    carried = effects.assigned(body) - effects.declared(body)
    if carried:
        names = sorted({s.var.name for s in effects.statements(body) if isinstance(s, ir.Set) and s.var.id in carried})
        return f"carries {', '.join(names) or 'a scalar'} from one iteration to the next"
    private = effects.allocated(body)
    varying = effects.declared(body)
    definitions = {
        s.var.id: s.value
        for s in effects.statements(body)
        if isinstance(s, ir.Let) and not s.mutable and affine.keeps_value(s.value, known.ranges)
    }
    touched = [_unfolded(a, definitions) for a in effects.accesses(body) if a.buffer not in private]
    written = effects.stored(body) | private
    if len(touched) > MAX_ACCESSES:
        return f"has more than {MAX_ACCESSES} accesses, too many to compare"
    for store in (a for a in touched if a.store):
        for other in (a for a in touched if a.buffer == store.buffer):
            if not _disjoint(store, other, loop, varying, written, known):
                what = "write to" if other.store else "read of"
                return f"iterations may overlap in the {what} '{known.names[store.buffer]}'"
    return ""


def _unfolded(access: Access, definitions: Mapping[ir.VarId, ir.Expr]) -> Access:
    """The access with scalars of the body replaced by what they were declared as."""
    offset = access.offset
    while known := {v: definitions[v] for v in affine.variables(offset) if v in definitions}:
        offset = affine.substitute_affine(offset, known)
    return replace(access, offset=offset)


def trip_count(loop: Loop, ranges: Ranges) -> int | None:
    """The largest number of iterations, if known."""
    high = affine.interval(affine.sub(affine.of(loop.high), affine.of(loop.low)), ranges)[1]
    return None if high is None else max(high, 0)


def _disjoint(
    store: Access, other: Access, loop: Loop, varying: set[ir.VarId], written: set[ir.BufferId], known: Known
) -> bool:
    if _offsets_differ(store, other, loop, varying, written, known.ranges):
        return True
    layout = known.layouts.get(store.buffer)
    if layout is None:
        return False
    a, b = (layouts.indices(x.offset, layout, known.bounds, known.ranges) for x in (store, other))
    return any(
        _offsets_differ(replace(store, offset=x), replace(other, offset=y), loop, varying, written, known.ranges)
        for x, y in zip(a or (), b or (), strict=False)
    )


def _offsets_differ(
    store: Access, other: Access, loop: Loop, varying: set[ir.VarId], written: set[ir.BufferId], ranges: Ranges
) -> bool:
    """No two iterations have the same offset (or index)."""
    steps = [0, 0]
    terms: list[tuple[int, affine.Interval]] = []
    shift = other.offset.const - store.offset.const
    fixed: dict[ir.Expr, int] = {}
    for side, (access, sign) in enumerate(((store, -1), (other, 1))):
        loops = {x.var.id: x for x in access.inner}
        for c, atom in access.offset.terms:
            if isinstance(atom, ir.Var) and atom.id == loop.var.id:
                steps[side] += c
            elif isinstance(atom, ir.Var) and atom.id in loops:
                terms.append((c * sign, _span(loops[atom.id], ranges)))
            elif _invariant(atom, loop.var.id, varying, written):
                fixed[atom] = fixed.get(atom, 0) + c * sign
            else:
                terms.append((c * sign, affine.interval(atom, ranges)))
    terms += [(c, affine.interval(atom, ranges)) for atom, c in fixed.items() if c]
    shift += sum(c * low for c, (low, _) in terms if low is not None)
    spreads = [_Spread(c, _reach(span)) for c, span in terms if _reach(span) != 0]
    divisor = gcd(*steps, *(s.step for s in spreads))
    if shift % divisor if divisor else shift:
        return True
    if steps[0] != steps[1] or steps[0] == 0:
        return _apart(steps, _span(loop, ranges), shift, spreads)
    return _never_meets(abs(steps[0]), trip_count(loop, ranges), shift, spreads)


def _span(loop: Loop, ranges: Ranges) -> affine.Interval:
    """What the loop variable can be."""
    last = affine.sub(affine.of(loop.high), affine.const(1))
    return affine.interval(loop.low, ranges)[0], affine.interval(last, ranges)[1]


def _reach(span: affine.Interval) -> int | None:
    """How far apart its values can be."""
    low, high = span
    return None if low is None or high is None else max(high - low, 0)


def _apart(steps: Sequence[int], span: affine.Interval, shift: int, spreads: Sequence[_Spread]) -> bool:
    """The elements of one access all lie before those of the other."""
    low, high = span
    if low is None or high is None or any(s.reach is None for s in spreads):
        return False
    reach = max(high - low, 0)
    shift += (steps[1] - steps[0]) * low
    ends = [s.step * (s.reach or 0) for s in spreads] + [-steps[0] * reach, steps[1] * reach]
    return shift + sum(min(end, 0) for end in ends) > 0 or shift + sum(max(end, 0) for end in ends) < 0


def _invariant(atom: ir.Expr, var: ir.VarId, varying: set[ir.VarId], written: set[ir.BufferId]) -> bool:
    used = affine.variables(atom)
    if var in used or used & varying:
        return False
    return not any(load.buffer in written for load in affine.loads(atom))


def _never_meets(step: int, trips: int | None, shift: int, spreads: Sequence[_Spread]) -> bool:
    """No d with 1 ≤ |d| < trips solves step·d = shift + Σ spreads."""
    if trips is not None and trips <= 1:
        return True
    small = [s for s in spreads if abs(s.step) < step]
    large = [s for s in spreads if abs(s.step) >= step]
    if any(s.reach is None for s in small):
        return False
    low = shift + sum(min(s.step * (s.reach or 0), 0) for s in small)
    high = shift + sum(max(s.step * (s.reach or 0), 0) for s in small)
    reach = max(abs(low), abs(high))
    if not small and _residues_differ(step, trips, shift, large):
        return True
    if large:
        period = gcd(*(s.step for s in large))
        if trips is None or step * (trips - 1) + reach >= period:
            return False
    return reach < step


def _residues_differ(step: int, trips: int | None, shift: int, large: Sequence[_Spread]) -> bool:
    """Only constants and multiples of `step` remain: they meet only if `step` divides the shift."""
    if any(s.step % step for s in large):
        return False
    if shift % step != 0:
        return True
    return not large and trips is not None and abs(shift) // step >= trips


def independent(first: Sequence[ir.Stmt], second: Sequence[ir.Stmt]) -> bool:
    """Neither touches a buffer the other writes, and no scalar passes between them."""
    w1, w2 = effects.stored(first), effects.stored(second)
    if w1 & (w2 | effects.loaded(second)) or w2 & effects.loaded(first):
        return False
    made = set(chain(effects.assigned(first), effects.declared(first)))
    return not (made & effects.free_variables(second))

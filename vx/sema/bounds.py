"""What is known of integers at run time: what `requires` says of parameters, and how large an extent can be.

Enters: conditions that hold from the entry of a function on, and typed integer values. Leaves: `Interval`s, and the
bound of an extent. Only locals that never change have an interval, so it holds wherever they are read. Arithmetic
that may wrap around gives every value of its type: no bound is better than a wrong one.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, replace

from vx.sema import linear, tree
from vx.sema.types import integer_range, is_integer

_MIRRORED: Mapping[str, str] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}


@dataclass(frozen=True, slots=True)
class Interval:
    """All integers from `low` to `high`. `stated`: the program says that there are no larger ones, and not only the
    type does."""

    low: int
    high: int
    stated: bool


Known = Mapping[tree.LocalId, Interval]
"""Of locals that never change. One that is missing has any value of its type."""


# ---- what conditions say -----------------------------------------------------------------------
def learn(known: MutableMapping[tree.LocalId, Interval], condition: tree.Value) -> None:
    """Note what `condition` says of locals when it is true: `n <= 8`, `8 > n`, `n == 8`, and such joined by `&&`.

    The locals compared in `condition` must be ones that never change.
    """
    match condition:
        case tree.Binary(op="&&", left=left, right=right):
            learn(known, left)
            learn(known, right)
        case tree.Binary(op=op, left=left, right=tree.Const(value=int(limit))) if op in _MIRRORED:
            _narrow(known, left, op, limit)
        case tree.Binary(op=op, left=tree.Const(value=int(limit)), right=right) if op in _MIRRORED:
            _narrow(known, right, _MIRRORED[op], limit)


def _narrow(known: MutableMapping[tree.LocalId, Interval], value: tree.Value, op: str, limit: int) -> None:
    while isinstance(value, tree.Cast) and _holds(value.type, _of_type(value.operand.type)):
        value = value.operand
    if not isinstance(value, tree.Read) or not isinstance(value.place, tree.Local) or not is_integer(value.type):
        return
    found = interval(value, known)
    if op in ("<", "<=", "=="):
        found = replace(found, high=min(found.high, limit - (op == "<")), stated=True)
    if op in (">", ">=", "=="):
        found = replace(found, low=max(found.low, limit + (op == ">")))
    known[value.place.id] = found


def _of_type(type_: tree.Type) -> Interval | None:
    """Every value of an integer type."""
    if not isinstance(type_, tree.Scalar) or not is_integer(type_):
        return None
    low, high = integer_range(type_.name)
    return Interval(low, high, False)


def _holds(type_: tree.Type, found: Interval | None) -> bool:
    """Whether a type has all these values, so that none wraps around."""
    whole = _of_type(type_)
    return whole is not None and found is not None and whole.low <= found.low and found.high <= whole.high


# ---- values ------------------------------------------------------------------------------------
def interval(value: tree.Value, known: Known) -> Interval:
    """Values that an integer may have; `value` may also be one that is never reached (`return`)."""
    whole = _of_type(value.type)
    if whole is None:
        return Interval(0, 0, False)
    found = _computed(value, known)
    return found if found is not None and _holds(value.type, found) else whole


def _computed(value: tree.Value, known: Known) -> Interval | None:
    """Without regard to wrapping around; None: nothing is known."""
    match value:
        case tree.Const(value=number):
            return Interval(int(number), int(number), True)
        case tree.Read(place=tree.Local(id=id_)):
            return known.get(id_)
        case tree.Cast(operand=operand) if is_integer(operand.type):
            return interval(operand, known)
        case tree.Binary(op="+" | "-" | "*" | "/" as op, left=left, right=right):
            return _arithmetic(op, interval(left, known), interval(right, known))
        case tree.Math(name="min", args=(left, right)):
            a, b = interval(left, known), interval(right, known)
            return Interval(min(a.low, b.low), min(a.high, b.high), a.stated or b.stated)
        case _:
            return None


def counted(low: tree.Value, high: tree.Value, known: Known) -> Interval:
    """The values of a loop variable that runs from `low` up to, not including, `high`."""
    first, end = interval(low, known), interval(high, known)
    return Interval(first.low, end.high - 1, end.stated)


def _arithmetic(op: str, a: Interval, b: Interval) -> Interval | None:
    """The ends of a sum, difference, product or quotient lie where the ends of its operands meet."""
    stated = a.stated and b.stated
    match op:
        case "+":
            return Interval(a.low + b.low, a.high + b.high, stated)
        case "-":
            return Interval(a.low - b.high, a.high - b.low, stated)
        case "*":
            corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
            return Interval(min(corners), max(corners), stated)
        case _:
            if b.low <= 0:
                return None
            quotients = [abs(x) // y * (1 if x > 0 else -1) for x in (a.low, a.high) for y in (b.low, b.high)]
            return Interval(min(quotients), max(quotients), stated)


# ---- extents -----------------------------------------------------------------------------------
def most(value: tree.Value, known: Known) -> int | None:
    """The bound of an extent of this value, which is checked not to be negative when running; None: it has none."""
    found = interval(value, known)
    return max(0, found.high) if found.stated else None


def longest(low: tree.Value, high: tree.Value, known: Known) -> int | None:
    """The bound of the length of `low..high`, of which `0 <= low <= high` is checked when running.

    `low..low + n` is at most as long as `n` says: if the sum wraps around, it is below `low`.
    """
    if isinstance(high, tree.Binary) and high.op == "+":
        for start, rest in ((high.left, high.right), (high.right, high.left)):
            if linear.difference(start, low) == 0:
                return most(rest, known)
    end = most(high, known)
    return None if end is None else max(0, end - max(0, interval(low, known).low))

"""When two index expressions differ by a constant: what gives `t[a..a + 8]` a static extent.

Enters: typed integer values. Leaves: their difference, where it does not depend on anything at run time.
Values are compared as polynomials over *atoms*, pure expressions that give the same number wherever they
stand in one statement.
"""

from __future__ import annotations

from collections.abc import Hashable

from vx.sema import tree

Key = Hashable
Polynomial = dict[tuple[Key, ...], int]
"""Products of atoms (sorted by their text) → coefficients, none zero."""

MAX_TERMS = 32


def difference(high: tree.Value, low: tree.Value) -> int | None:
    """`high - low` if that is a constant."""
    a, b = _polynomial(high), _polynomial(low)
    if a is None or b is None:
        return None
    rest = _sum(a, b, -1)
    if not rest:
        return 0
    return rest[()] if list(rest) == [()] else None


def _sum(a: Polynomial, b: Polynomial, sign: int) -> Polynomial:
    result = dict(a)
    for atoms, coefficient in b.items():
        result[atoms] = result.get(atoms, 0) + sign * coefficient
    return {atoms: c for atoms, c in result.items() if c}


def _product(a: Polynomial, b: Polynomial) -> Polynomial | None:
    result: Polynomial = {}
    if len(a) * len(b) > MAX_TERMS:
        return None
    for left, x in a.items():
        for right, y in b.items():
            atoms = tuple(sorted((*left, *right), key=repr))
            result[atoms] = result.get(atoms, 0) + x * y
    return {atoms: c for atoms, c in result.items() if c}


def _polynomial(value: tree.Value) -> Polynomial | None:
    if isinstance(value, tree.Const):
        constant = int(value.value)
        return {(): constant} if constant else {}
    if isinstance(value, tree.Binary) and value.op in ("+", "-", "*"):
        a, b = _polynomial(value.left), _polynomial(value.right)
        if a is None or b is None:
            return None
        if value.op == "*":
            return _product(a, b)
        return _sum(a, b, 1 if value.op == "+" else -1)
    key = _key(value)
    return None if key is None else {(key,): 1}


def _key(value: tree.Value) -> Key | None:
    """Something equal for expressions that have equal values; None if that cannot be told."""
    match value:
        case tree.Const(value=number):
            return ("const", repr(value.type), number)
        case tree.Read(place=place):
            return _place_key(place)
        case tree.Cast(operand=operand):
            inner = _key(operand)
            return None if inner is None else ("as", repr(value.type), inner)
        case tree.Binary(op=op, left=left, right=right):
            a, b = _key(left), _key(right)
            return None if a is None or b is None else (op, a, b)
        case tree.Extent(ref=tree.AddrOf(place=place), axis=axis):
            inner = _place_key(place)
            return None if inner is None else ("extent", axis, inner)
        case _:
            return None


def _place_key(place: tree.PlaceNode) -> Key | None:
    match place:
        case tree.Local(id=id_):
            return ("local", id_)
        case tree.Field(base=base, index=index):
            inner = _place_key(base)
            return None if inner is None else ("field", index, inner)
        case tree.Deref(ref=tree.Read(place=pointer)):
            inner = _place_key(pointer)
            return None if inner is None else ("deref", inner)
        case tree.Index(base=base, indices=indices):
            return _index_key(base, indices)
        case _:
            return None


def _index_key(base: tree.PlaceNode, indices: tuple[tree.At | tree.Slice, ...]) -> Key | None:
    parts: list[Key | None] = [_place_key(base)]
    for index in indices:
        parts.append(_key(index.index) if isinstance(index, tree.At) else None)
    return None if None in parts else ("index", *parts)

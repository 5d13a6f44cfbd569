"""Bytes of a tensor as a formula in the program's own names: `4096 * (high - low)` for `t[low..high]`.

Enters: values and places of one function. Leaves: text. Extents are polynomials over *atoms*, the texts of what is
read at run time (`n`, `a.len`, `x.extent(0)`); an extent without a short text is `?`. Conversions between integer
types are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from math import gcd

from vx.sema import tree

Atom = tuple[str, int]
"""A text; the number tells apart calls, which may give another value each time, and is 0 for anything else."""
Polynomial = dict[tuple[Atom, ...], int]
"""Products of atoms, sorted → coefficients, none zero."""

UNKNOWN = "?"
_MAX_TERMS = 16
"""Terms of a product that are written out."""
_MAX_TEXT = 60
"""Characters of an atom."""


def bytes_text(program: tree.Program, function: tree.Function, view: tree.Value) -> str:
    """How many bytes a view (of type `Ref(Tensor)`) has."""
    assert isinstance(view.type, tree.Ref) and isinstance(view.type.to, tree.Tensor)
    texts = _Texts(program, function)
    extents = texts.extents_of(view, view.type.to)
    bits = _product([_constant(tree.BITS[view.type.to.elem]), *(extent for extent in extents if extent is not None)])
    hidden = f" * {UNKNOWN}" * extents.count(None)
    if bits is None:
        return UNKNOWN
    if any(coefficient % 8 for coefficient in bits.values()):
        return f"({_written(_sum(bits, _constant(7)))}) / 8" if not hidden else UNKNOWN
    return _written({atoms: coefficient // 8 for atoms, coefficient in bits.items()}, bool(hidden)) + hidden


def view_text(program: tree.Program, function: tree.Function, view: tree.Value) -> str:
    """A view as the program may have written it: `t.toks[p..p + 1]`."""
    return _Texts(program, function).value(view)


def place_text(program: tree.Program, function: tree.Function, place: tree.PlaceNode) -> str:
    """A place, likewise."""
    return _Texts(program, function).place(place)


def count_text(program: tree.Program, function: tree.Function, low: tree.Value, high: tree.Value) -> str:
    """How many integers there are from `low` up to, not including, `high`."""
    length = _Texts(program, function).length(low, high)
    return UNKNOWN if length is None else _written(length)


class _Texts:
    """Texts of values and places of one function."""

    def __init__(self, program: tree.Program, function: tree.Function) -> None:
        self.program = program
        self.function = function
        self.numbers = count(1)
        self.called = False
        """Whether a call stands in the text that was made last."""

    # ---- extents ----
    def extents_of(self, view: tree.Value, type_: tree.Tensor) -> list[Polynomial | None]:
        """One polynomial for each dimension; None for one that has no text."""
        if isinstance(view, tree.AddrOf):
            return self._extents(view.place, type_.dims)
        return self._asked(self.value(view), type_.dims)

    def _extents(self, place: tree.PlaceNode, dims: Sequence[tree.Dim]) -> list[Polynomial | None]:
        if all(isinstance(dim, int) for dim in dims):
            return self._asked("", dims)
        match place:
            case tree.Index(base=base, indices=indices):
                whole = self._extents(base, _dims(base))[len(indices) :]
                return [self.length(item.low, item.high) for item in indices if isinstance(item, tree.Slice)] + whole
            case tree.Reshape(dims=values):
                return [self.polynomial(value) for value in values]
            case tree.Transpose(base=base):
                return self._extents(base, _dims(base))[::-1]
            case tree.Bytes(base=base):
                return [self._bytes(base)]
            case _:
                return self._asked(self.place(place), dims)

    def _bytes(self, base: tree.PlaceNode) -> Polynomial | None:
        assert isinstance(base.type, tree.Tensor)
        extents = self._extents(base, base.type.dims)
        known = [extent for extent in extents if extent is not None]
        return (
            _product([_constant(max(8, tree.BITS[base.type.elem]) // 8), *known])
            if len(known) == len(extents)
            else None
        )

    def _asked(self, name: str, dims: Sequence[tree.Dim]) -> list[Polynomial | None]:
        """Extents of a tensor that has a name: what is not in its type, the program can ask it."""
        return [
            _constant(dim) if isinstance(dim, int) else self._atom(f"{name}.extent({axis})")
            for axis, dim in enumerate(dims)
        ]

    def length(self, low: tree.Value, high: tree.Value) -> Polynomial | None:
        return self._combined("-", high, low)

    def polynomial(self, value: tree.Value) -> Polynomial | None:
        match value:
            case tree.Const(value=number):
                return _constant(int(number))
            case tree.Binary(op="+" | "-" | "*" as op, left=left, right=right):
                return self._combined(op, left, right)
            case tree.Cast(operand=operand) if _is_integer(operand.type):
                return self.polynomial(operand)
            case _:
                self.called = False
                return self._atom(self._operand(value))

    def _combined(self, op: str, left: tree.Value, right: tree.Value) -> Polynomial | None:
        a, b = self.polynomial(left), self.polynomial(right)
        if a is None or b is None:
            return None
        return _product([a, b]) if op == "*" else _sum(a, b, 1 if op == "+" else -1)

    def _atom(self, text: str) -> Polynomial | None:
        if len(text) > _MAX_TEXT or UNKNOWN in text:
            return None
        return {((text, next(self.numbers) if self.called else 0),): 1}

    # ---- texts ----
    def value(self, value: tree.Value) -> str:
        match value:
            case tree.Const(value=number):
                return str(number)
            case tree.Read(place=place) | tree.AddrOf(place=place):
                return self.place(place)
            case tree.Binary(op=op, left=left, right=right):
                return f"{self._operand(left)} {op} {self._operand(right)}"
            case tree.Cast(operand=operand):
                return self.value(operand)
            case tree.Extent(ref=ref, axis=axis):
                return f"{self.value(ref)}.extent({axis})"
            case tree.Math(name=name, args=args):
                return f"{name}({self._list(args)})"
            case tree.Call(key=key, args=args):
                self.called = True
                return f"{self.program.functions[key].name}({self._list(args)})"
            case _:
                return UNKNOWN

    def _operand(self, value: tree.Value) -> str:
        """A value inside an operator."""
        text = self.value(value)
        while isinstance(value, tree.Cast):
            value = value.operand
        return f"({text})" if isinstance(value, tree.Binary) else text

    def _list(self, values: Sequence[tree.Value]) -> str:
        return ", ".join(self.value(value) for value in values)

    def place(self, place: tree.PlaceNode) -> str:
        match place:
            case tree.Local(id=id_):
                return self.function.locals[id_].name
            case tree.ModelTensor(name=name):
                return f"model::{name}"
            case tree.Field(base=base, index=index):
                return f"{self.place(base)}.{self._field(base, index)}"
            case tree.Deref(ref=ref):
                return self.value(ref)
            case tree.Temp(value=value):
                return self.value(value)
            case tree.Index(base=base, indices=indices):
                return f"{self.place(base)}[{', '.join(self._index(item) for item in indices)}]"
            case tree.Reshape(base=base, dims=dims):
                return f"{self.place(base)}.reshape([{self._list(dims)}])"
            case tree.Transpose(base=base):
                return f"{self.place(base)}.t()"
            case tree.Bytes(base=base):
                return f"{self.place(base)}.bytes()"

    def _field(self, base: tree.PlaceNode, index: int) -> str:
        assert isinstance(base.type, tree.Struct)
        return self.program.structs[base.type.key].fields[index][0]

    def _index(self, item: tree.At | tree.Slice) -> str:
        if isinstance(item, tree.At):
            return self.value(item.index)
        return f"{self.value(item.low)}..{self.value(item.high)}"


def _is_integer(type_: tree.Type) -> bool:
    return isinstance(type_, tree.Scalar) and type_.name in (*tree.SIGNED, *tree.UNSIGNED)


def _dims(place: tree.PlaceNode) -> tuple[tree.Dim, ...]:
    assert isinstance(place.type, tree.Tensor)
    return place.type.dims


# ---- polynomials -------------------------------------------------------------------------------
def _constant(number: int) -> Polynomial:
    return {(): number} if number else {}


def _sum(a: Polynomial, b: Polynomial, sign: int = 1) -> Polynomial:
    result = dict(a)
    for atoms, coefficient in b.items():
        result[atoms] = result.get(atoms, 0) + sign * coefficient
    return {atoms: c for atoms, c in result.items() if c}


def _product(factors: Sequence[Polynomial]) -> Polynomial | None:
    result: Polynomial = {(): 1}
    for factor in factors:
        if len(result) * len(factor) > _MAX_TERMS:
            return None
        product: Polynomial = {}
        for left, x in result.items():
            for right, y in factor.items():
                atoms = tuple(sorted((*left, *right)))
                product[atoms] = product.get(atoms, 0) + x * y
        result = {atoms: c for atoms, c in product.items() if c}
    return result


def _written(polynomial: Polynomial, as_factor: bool = False) -> str:
    """`4096 * (m + 1)`: what all terms have in common stands in front. `as_factor`: something is multiplied to it."""
    if len(polynomial) < 2:
        return _term(*next(iter(polynomial.items()), ((), 0)))
    common = gcd(*polynomial.values())
    terms = sorted(polynomial.items(), key=lambda term: (term[1] < 0, term[0] == (), term[0]))
    text = ""
    for atoms, coefficient in terms:
        sign = " + " if coefficient > 0 else " - "
        text += (sign if text else sign.strip("+ ")) + _term(atoms, abs(coefficient) // common)
    if common > 1:
        return f"{common} * ({text})"
    return f"({text})" if as_factor else text


def _term(atoms: Sequence[Atom], coefficient: int) -> str:
    factors = [text for text, _ in atoms]
    if coefficient != 1 or not factors:
        factors.insert(0, str(coefficient))
    return " * ".join(factors)

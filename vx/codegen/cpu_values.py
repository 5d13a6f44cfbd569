"""Values of vectorised code: typed operands, affine indices over lanes, and how a body sees its variables.

A body runs for several iterations at once, one per *lane*. A value that is the same in all lanes is a
scalar (`lanes == 1`) and computed once; one that differs is a vector with a lane per iteration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from vx.codegen.llvm_text import INTEGERS, bfloat_bits, constant
from vx.codegen.target import CpuLevel
from vx.kernels import ir

LANE = -1
"""The pseudo variable whose value is the lane's number."""

FLOAT_TYPES: Mapping[str, str] = MappingProxyType({"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"})
HALVES = frozenset({"f16", "bf16"})


@dataclass(frozen=True, slots=True)
class Features:
    """What code for a processor level may use. `bits`, `registers`: of vector registers; `halves`: converts
    f16 in hardware; `masks`: masked loads and stores of any element cost no more than plain ones."""

    name: str
    level: CpuLevel
    attributes: str
    registers: int
    halves: bool
    masks: bool

    @property
    def bits(self) -> int:
        return self.level.vector_bytes * 8


def features(level: CpuLevel) -> Features:
    """The features behind a level of a target."""
    name = f"l{level.level}"
    if level.level == 0:
        return Features(name, level, '"frame-pointer"="none"', 32, True, False)
    attributes = f'"target-cpu"="{level.cpu}" "frame-pointer"="none"'
    if level.level >= 4:
        attributes += ' "prefer-vector-width"="512" "min-legal-vector-width"="512"'
    return Features(name, level, attributes, 32 if level.level >= 4 else 16, level.level >= 3, level.level >= 4)


# ---- types -------------------------------------------------------------------------------------
def register(elem: str) -> str:
    """LLVM's type of a value; 16-bit floats are kept as their bits."""
    if elem == "bool":
        return "i1"
    if elem in HALVES:
        return "i16"
    return FLOAT_TYPES.get(elem) or f"i{INTEGERS[elem]}"


def stored(elem: str) -> str:
    """LLVM's type of an element in memory."""
    return "i8" if elem == "bool" else register(elem)


def of_lanes(type_: str, lanes: int) -> str:
    return type_ if lanes == 1 else f"<{lanes} x {type_}>"


def suffix(type_: str, lanes: int) -> str:
    """How intrinsics name a type: `f32`, `v16f32`, `v4i64`."""
    name = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}.get(type_, type_)
    return name if lanes == 1 else f"v{lanes}{name}"


def size(elem: str) -> int:
    """Bytes of an element in memory."""
    if elem == "bool":
        return 1
    return {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}.get(elem) or INTEGERS[elem] // 8


def is_float(elem: str) -> bool:
    return elem in FLOAT_TYPES


def is_unsigned(elem: str) -> bool:
    return elem[0] == "u"


@dataclass(frozen=True, slots=True)
class Val:
    """An operand of element type `elem`; a vector if `lanes` > 1."""

    text: str
    elem: str
    lanes: int = 1

    @property
    def type(self) -> str:
        return of_lanes(register(self.elem), self.lanes)

    @property
    def typed(self) -> str:
        return f"{self.type} {self.text}"

    def as_elem(self, elem: str) -> Val:
        """The same bits as another element type of the same size."""
        return Val(self.text, elem, self.lanes)


def literal(value: int | float | bool, elem: str, lanes: int = 1) -> Val:
    """A constant, the same in every lane."""
    if elem == "f16":
        text = str(int(constant(value, elem)[3:], 16))
    elif elem == "bf16":
        text = str(bfloat_bits(float(value)))
    else:
        text = constant(value, elem)
    return Val(text if lanes == 1 else f"splat ({register(elem)} {text})", elem, lanes)


def extreme(elem: str, op: str) -> Val:
    """What a reduction starts from: 0, or the least or the greatest value."""
    if op == "add":
        return literal(0, elem)
    sign = -1 if op == "max" else 1
    if is_float(elem):
        return literal(sign * float("inf"), elem)
    if elem == "bool":
        return literal(sign > 0, elem)
    bits = INTEGERS[elem]
    if is_unsigned(elem):
        return literal(0 if sign < 0 else (1 << bits) - 1, elem)
    return literal(-(1 << (bits - 1)) if sign < 0 else (1 << (bits - 1)) - 1, elem)


# ---- indices -----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Linear:
    """An i64 per lane: `const + step * lane + sum(coefficient * scalar) + sum(coefficient * vector)`."""

    const: int = 0
    step: int = 0
    scalars: tuple[tuple[int, str], ...] = ()
    vectors: tuple[tuple[int, str], ...] = ()

    @property
    def uniform(self) -> bool:
        return self.step == 0 and not self.vectors

    def plus(self, other: Linear) -> Linear:
        return Linear(
            self.const + other.const,
            self.step + other.step,
            _merge(self.scalars, other.scalars),
            _merge(self.vectors, other.vectors),
        )

    def times(self, factor: int) -> Linear:
        if factor == 0:
            return Linear()
        return Linear(
            self.const * factor,
            self.step * factor,
            tuple((c * factor, x) for c, x in self.scalars),
            tuple((c * factor, x) for c, x in self.vectors),
        )


def _merge(a: tuple[tuple[int, str], ...], b: tuple[tuple[int, str], ...]) -> tuple[tuple[int, str], ...]:
    if not a or not b:
        return a or b
    total: dict[str, int] = {}
    for coefficient, name in (*a, *b):
        total[name] = total.get(name, 0) + coefficient
    return tuple((c, x) for x, c in total.items() if c != 0)


def scalar_index(text: str) -> Linear:
    """The index that an i64 operand is."""
    return Linear(scalars=((1, text),)) if text.startswith("%") else Linear(const=int(text))


@dataclass(frozen=True, slots=True)
class Slot:
    """A scalar that changes: stack memory, with a place per lane if its value differs between lanes."""

    pointer: str
    elem: str
    lanes: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where a buffer is. A private buffer of jammed iterations holds `lanes` copies, [element][lane]."""

    pointer: str
    lanes: int = 1


Binding = Linear | Val | Slot


@dataclass(slots=True)
class Lanes:
    """One copy of a body: `count` iterations, and what each variable and private buffer is in them.

    A copy may refine another (`outer`): with one more variable bound, or, if `row` is given, as that one
    lane of it. `mask` says which lanes take part (None: all). `reduced` holds the reductions that were
    computed ahead and whose inputs have not changed since.
    """

    count: int
    outer: Lanes | None = None
    row: int | None = None
    mask: Val | None = None
    bindings: dict[ir.VarId, Binding] = field(default_factory=dict)
    places: dict[ir.BufferId, Place] = field(default_factory=dict)
    reduced: dict[ir.Reduce, Val] = field(default_factory=dict)

    def inner(self, bindings: Mapping[ir.VarId, Binding], count: int | None = None, row: int | None = None) -> Lanes:
        """A refinement; with `row`, of that one lane, `count` iterations of another variable at once."""
        mask = self.mask if row is None else None
        return Lanes(self.count if count is None else count, self, row, mask, dict(bindings))

    def masked(self, mask: Val) -> Lanes:
        """The same copy with other lanes taking part."""
        return Lanes(self.count, self.outer, self.row, mask, self.bindings, self.places, self.reduced)

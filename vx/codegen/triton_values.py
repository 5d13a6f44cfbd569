"""What generated Triton text is made of: types, values with the tile axes that they vary along, lines.

A value varies along some axes of the program's tile, outermost first. Scalars vary along none. Values meet by
indexing with `None` where one lacks an axis of the other, as one would write by hand: `x[None, :] * w`.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

from vx.kernels import ir
from vx.sema.tree import FLOATS, SIGNED, UNSIGNED

HALVES = frozenset({"f16", "bf16"})
TYPES: Mapping[str, str] = MappingProxyType(
    {"bool": "tl.int1", "f16": "tl.float16", "bf16": "tl.bfloat16", "f32": "tl.float32", "f64": "tl.float64"}
    | {f"{s}{b}": f"tl.{'u' * (s == 'u')}int{b}" for s in "iu" for b in (8, 16, 32, 64)}
)
"""Element types as Triton writes them in code."""
SIGNATURE: Mapping[str, str] = MappingProxyType(
    {"bool": "i8", "f16": "fp16", "bf16": "bf16", "f32": "fp32", "f64": "fp64"}
    | {f"{s}{b}": f"{s}{b}" for s in "iu" for b in (8, 16, 32, 64)}
)
"""Element types in memory and as arguments, as Triton writes them in signatures."""
_RESERVED = frozenset(
    {"tl", "triton", "libdevice", "block", "error", "private", "pid"}
    | {"range", "float", "int", "bool", "min", "max", "sum", "any", "all", "abs", *keyword.kwlist}
)
_ATOM = re.compile(r"[A-Za-z_][A-Za-z_0-9.]*|-?[0-9.]+")

AxisId = int


class Unsupported(ValueError):
    """What no GPU kernel can hold; the message says what."""


def type_name(elem: str) -> str:
    """The Triton type of a value. Raises `Unsupported` for 128-bit integers."""
    if elem not in TYPES:
        raise Unsupported(f"{elem} has no type in GPU kernels")
    return TYPES[elem]


def is_float(elem: str) -> bool:
    return elem in FLOATS


def power_of_two(n: int) -> int:
    """The least power of two that is at least n."""
    return 1 << max(n - 1, 0).bit_length()


@dataclass(frozen=True, slots=True)
class Val:
    """`text` computes the value; `constant`: it is a bare number, which takes the type of what it meets."""

    text: str
    type: str
    axes: tuple[AxisId, ...] = ()
    constant: bool = False


@dataclass(frozen=True, slots=True)
class Mask:
    """Which lanes take part. `sure`: along each of its axes at least one lane does, so that what does not vary
    along them may be computed without asking."""

    value: Val
    sure: bool


def union(*values: Val) -> tuple[AxisId, ...]:
    """The axes that any of the values vary along; inner axes have greater ids."""
    return tuple(sorted({a for v in values for a in v.axes}))


def atom(text: str) -> str:
    """The text, in parentheses unless it is a name, a number or already closed."""
    return text if _ATOM.fullmatch(text) or _closed(text) else f"({text})"


def _closed(text: str) -> bool:
    """One call, one subscription or one parenthesis."""
    if not text.endswith((")", "]")):
        return False
    depth = 0
    head = re.match(r"[A-Za-z_0-9.]*", text)
    start = head.end() if head else 0
    for i, c in enumerate(text):
        if i < start:
            continue
        depth += (c in "([") - (c in ")]")
        if depth == 0 and i + 1 < len(text) and text[i + 1] not in "[(.":
            return False
        if depth == 0 and c not in ")]":
            return False
    return True


def spread(v: Val, axes: Sequence[AxisId]) -> str:
    """The value indexed so that it broadcasts along `axes`; a scalar as it is."""
    if not v.axes or v.axes == tuple(axes):
        return v.text
    picks = ", ".join(":" if a in v.axes else "None" for a in axes)
    return f"{atom(v.text)}[{picks}]"


def number(value: float | bool, elem: str) -> str:
    """A literal as Python text."""
    if elem == "bool":
        return "1" if value else "0"
    if is_float(elem):
        x = float(value)
        return f'float("{x}")' if math.isnan(x) or math.isinf(x) else repr(x)
    return str(int(value))


def identity(op: str, elem: str) -> str:
    """The result of an empty reduction."""
    if op == "add":
        return "0.0" if is_float(elem) else "0"
    if is_float(elem):
        return f'float("{"-" if op == "max" else ""}inf")'
    low, high = integer_limits(elem)
    return str(low if op == "max" else high)


def integer_limits(elem: str) -> tuple[int, int]:
    if elem in UNSIGNED:
        return 0, (1 << UNSIGNED[elem]) - 1
    return -(1 << (SIGNED[elem] - 1)), (1 << (SIGNED[elem] - 1)) - 1


@dataclass(slots=True)
class Text:
    """Lines of one function, and the names it uses."""

    lines: list[str] = field(default_factory=list)
    depth: int = 1
    names: set[str] = field(default_factory=set)
    scope: int = 0
    """Changes wherever control flow enters or leaves a block."""
    waited: bool = False
    """Whether the launch before this one is known to have ended."""

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, name: str) -> str:
        """A Python name like `name` that nothing else has."""
        name = re.sub(r"\W", "_", name).strip("_") or "v"
        if name[0].isdigit() or name in _RESERVED:
            name = f"v_{name}"
        found, n = name, 1
        while found in self.names or found in _RESERVED:
            n += 1
            found = f"{name}_{n}"
        self.names.add(found)
        return found

    @contextmanager
    def indented(self) -> Iterator[None]:
        waited = self.waited
        self.depth += 1
        self.scope += 1
        yield
        self.depth -= 1
        self.scope += 1
        self.waited = waited

    @contextmanager
    def captured(self) -> Iterator[list[str]]:
        """Lines written meanwhile go to the list."""
        outer, self.lines = self.lines, []
        yield self.lines
        self.lines = outer

    def splice(self, lines: Iterable[str]) -> None:
        self.lines.extend(lines)


def variable_of(offset: ir.Affine) -> ir.Var | None:
    """The variable that an offset is, if it is nothing else."""
    if offset.const or len(offset.terms) != 1 or offset.terms[0][0] != 1:
        return None
    inner = offset.terms[0][1]
    return inner if isinstance(inner, ir.Var) else None

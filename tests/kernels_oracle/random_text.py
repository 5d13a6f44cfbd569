"""What random programs are made of: two texts written side by side, and what is in scope.

Enters: lines of Vx and Python that mean the same. Leaves: both texts. An index is only written where its range is
known, so that every access is in bounds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

SMALL = 7
"""Floats in tensors lie in -SMALL..=SMALL."""

LIMIT = {"f64": 2**50, "f32": 2**23, "f16": 2**10, "bf16": 2**7}
"""Whole numbers up to here are exact in every intermediate result."""

INTEGERS = {"i8": 8, "u8": -8, "i16": 16, "i32": 32, "u32": -32, "i64": 64}
"""Bits; negative for unsigned."""

MOST_STEPS = 900
"""Iterations of a statement, over all loops around it."""


@dataclass(frozen=True, slots=True)
class Num:
    """A scalar expression in both languages; `bound` is the largest magnitude (floats only)."""

    vx: str
    py: str
    bound: int = 0

    @property
    def clamped(self) -> Num:
        """Brought into what tensors of floats hold; rows too."""
        return Num(f"({self.vx}).max(-{SMALL}.0).min({SMALL}.0)", f"clamp({self.py})", SMALL)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor in scope; `span` (of gather tables): its elements lie in 0..span; `gaps`: it may be a view with gaps."""

    name: str
    elem: str
    dims: tuple[int, ...]
    writable: bool = True
    span: int = 0
    gaps: bool = False


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar in scope; `bound` is its largest magnitude (floats and sizes)."""

    name: str
    elem: str
    mutable: bool
    bound: int


@dataclass(frozen=True, slots=True)
class Function:
    """A function that a part of the case is moved into."""

    vx: str
    py: str
    lines: list[Line]


@dataclass(frozen=True, slots=True)
class Index:
    """An i32 expression and the range that it is known to lie in."""

    vx: str
    py: str
    low: int
    high: int


@dataclass(slots=True)
class Line:
    """A line in both languages (empty: none), what is nested under it, and how that ends in Vx."""

    vx: str
    py: str
    body: list[Line] | None = None
    end: str = "}"


@dataclass(frozen=True, slots=True)
class Case:
    """One function of both programs: `call` calls it in Vx, `name()` in Python returns the arrays that it prints.
    `starts` are the lines that make what is there before its regions."""

    name: str
    vx: str
    py: str
    call: str
    starts: tuple[str, ...]


def vx_lines(lines: Sequence[Line], depth: int) -> Iterator[str]:
    for line in lines:
        if line.vx:
            yield "  " * depth + line.vx + (" {" if line.body is not None else "")
        if line.body is not None:
            yield from vx_lines(line.body, depth + 1)
            yield "  " * depth + line.end


def py_lines(lines: Sequence[Line], depth: int) -> Iterator[str]:
    for line in lines:
        if line.py:
            yield "  " * depth + line.py + (":" if line.body is not None else "")
        if line.body is not None:
            yield "  " * (depth + 1) + "pass"
            yield from py_lines(line.body, depth + 1)


@dataclass(slots=True)
class Scope:
    """What can be named; tensors in `frozen` are borrowed and cannot be written."""

    tensors: list[Tensor] = field(default_factory=list)
    scalars: list[Scalar] = field(default_factory=list)
    indices: list[Index] = field(default_factory=list)
    frozen: set[str] = field(default_factory=set)


class Writer:
    """Lines of a case, what is in scope, and expressions that are indices."""

    def __init__(self, seed: int, name: str, kind: str) -> None:
        self.rng = Random(seed)
        self.name = name
        self.kind = kind
        """Where it computes: in regions of the case itself ("plain"), of functions that take views ("views"), or
        "mixed"."""
        self.lines: list[Line] = []
        self.functions: list[Function] = []
        self.structs: list[str] = []
        self.scope = Scope()
        self.fresh = 0
        self.elems: list[str] = []
        """Element types of this case."""
        self.sizes: list[int] = []
        """Extents of this case; `n0`, `n1` … in both programs."""
        self.depth = 1
        self.leaves: list[str] = []
        """What loops allow: "break", "continue"; innermost last."""
        self.steps = 1
        """How often the current place runs, at most `self.most`."""
        self.most = MOST_STEPS
        self.left = 40
        """Statements that may still be made."""
        self.unknown = False
        """Whether some extents in scope are known only at run time."""

    @abstractmethod
    def integer(self, elem: str, depth: int) -> Num:
        """An integer expression."""

    # ---- writing -------------------------------------------------------------------------------
    def line(self, vx: str, py: str | None = None) -> None:
        """A line in both languages, or one that is the same in both."""
        self.lines.append(Line(vx, vx if py is None else py))

    def new(self, prefix: str) -> str:
        """A name that is not in use."""
        self.fresh += 1
        return f"{prefix}{self.fresh}"

    @contextmanager
    def block(self, vx: str, py: str, *indices: Index, steps: int = 1, leaves: str = "") -> Iterator[None]:
        """A nested block; what it declares ends with it."""
        outer, self.scope = self.scope, self.copied()
        outer_leaves, outer_steps = self.leaves, self.steps
        if leaves:
            self.leaves = [*self.leaves, leaves]
        self.steps *= max(steps, 1)
        self.scope.indices += indices
        line = Line(vx, py, [])
        self.lines.append(line)
        around, self.lines = self.lines, line.body or []
        line.body = self.lines
        self.depth += 1
        yield
        self.depth -= 1
        self.lines = around
        self.scope, self.leaves, self.steps = outer, outer_leaves, outer_steps

    def copied(self) -> Scope:
        s = self.scope
        return Scope(list(s.tensors), list(s.scalars), list(s.indices), set(s.frozen))

    def chance(self, percent: int) -> bool:
        return self.rng.randrange(100) < percent

    # ---- indices -------------------------------------------------------------------------------
    def index(self, extent: int) -> Num:
        """An expression in 0..extent."""
        for _ in range(6):
            made = self.index_form(extent)
            if made is not None:
                return made
        return self.constant_index(extent)

    def constant_index(self, extent: int) -> Num:
        n = self.rng.randrange(extent)
        return Num(str(n), str(n))

    def index_form(self, extent: int) -> Num | None:
        if not self.scope.indices:
            return None
        recent = self.scope.indices[-3:] if self.chance(75) else self.scope.indices
        i = self.rng.choice(recent)
        kind = self.rng.choices(
            ("shift", "reverse", "stride", "quotient", "rest", "pair", "gather", "free"), (44, 8, 8, 6, 6, 10, 8, 6)
        )[0]
        match kind:
            case "shift":
                return self.fitted(i, extent)
            case "reverse":
                return self.fitted(Index(f"(0 - {i.vx})", f"(0 - {i.py})", -i.high, -i.low), extent)
            case "stride":
                k = self.rng.choice((2, 3, 4))
                return self.fitted(Index(f"{i.vx} * {k}", f"{i.py} * {k}", i.low * k, i.high * k), extent)
            case "quotient" if i.low >= 0:
                k = self.rng.choice((2, 3))
                return self.fitted(Index(f"{i.vx} / {k}", f"{i.py} // {k}", i.low // k, i.high // k), extent)
            case "rest" if i.low >= 0:
                k = self.rng.choice((2, 3, extent))
                return self.fitted(Index(f"{i.vx} % {k}", f"{i.py} % {k}", 0, min(k - 1, i.high)), extent)
            case "pair":
                return self.pair_index(i, extent)
            case "gather":
                return self.gathered(extent)
            case "free":
                return self.free_index(extent)
        return None

    def fitted(self, i: Index, extent: int) -> Num | None:
        """`i + c` for a c that keeps it in 0..extent."""
        if i.high - i.low >= extent:
            return None
        least, most = -i.low, extent - 1 - i.high
        c = self.rng.choice((least, most, 0, self.rng.randint(least, most)))
        if not least <= c <= most:
            c = least
        if c == 0:
            return Num(i.vx, i.py)
        text = f" + {c}" if c > 0 else f" - {-c}"
        return Num(i.vx + text, i.py + text)

    def pair_index(self, i: Index, extent: int) -> Num | None:
        j = self.rng.choice(self.scope.indices)
        k = self.rng.choice((1, 1, -1, j.high - j.low + 1, 2))
        spread = sorted((i.low * k, i.high * k))
        both = Index(f"({i.vx} * {k} + {j.vx})", f"({i.py} * {k} + {j.py})", spread[0] + j.low, spread[1] + j.high)
        if k == 1:
            both = Index(f"{i.vx} + {j.vx}", f"{i.py} + {j.py}", both.low, both.high)
        return self.fitted(both, extent)

    def gathered(self, extent: int) -> Num | None:
        tables = [t for t in self.scope.tensors if 0 < t.span <= extent]
        if not tables:
            return None
        t = self.rng.choice(tables)
        at = self.constant_index(t.dims[0]) if self.chance(30) else self.index(t.dims[0])
        return Num(f"{t.name}[{at.vx}]", f"int({t.name}[{at.py}])")

    def free_index(self, extent: int) -> Num | None:
        e = self.integer("i32", 1)
        return Num(f"(({e.vx}) % {extent} + {extent}) % {extent}", f"(({e.py}) % {extent})")

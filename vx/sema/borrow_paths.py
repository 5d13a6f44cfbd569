"""Borrow checking, part 1: what storage a place expression names, as far as aliasing is concerned.

Enters: places' parts. Leaves: `Path`, comparable with `disjoint`. A path is shorter than its place where
more precision buys nothing: after a slice, a reshape or a transpose it ends, and a path that ends stands
for everything below it.
"""

from __future__ import annotations

from dataclasses import dataclass

from vx.sema import linear, tree


@dataclass(frozen=True, slots=True)
class FieldStep:
    index: int
    name: str


@dataclass(frozen=True, slots=True)
class DerefStep:
    """What a reference held at the path so far points to."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The number `value + add`. It is the same number again as long as the variables `symbols` are unchanged; None
    if it depends on more than variables."""

    value: tree.Value
    add: int
    symbols: frozenset[int] | None


@dataclass(frozen=True, slots=True)
class DimStep:
    """One dimension of a tensor restricted to `low..high`."""

    low: Bound
    high: Bound
    text: str


Step = FieldStep | DerefStep | DimStep


@dataclass(frozen=True, slots=True)
class Path:
    """Storage reached from the variable or temporary `root` by `steps`. A `closed` path takes no more
    steps: what lies below it is not told apart."""

    root: int
    steps: tuple[Step, ...] = ()
    closed: bool = False

    def then(self, *steps: Step, close: bool = False) -> Path:
        if self.closed:
            return self
        return Path(self.root, (*self.steps, *steps), close)

    @property
    def owned(self) -> bool:
        """Whether the storage is the root's own: no reference is followed on the way."""
        return not any(isinstance(step, DerefStep) for step in self.steps)

    def startswith(self, prefix: Path) -> bool:
        return self.root == prefix.root and self.steps[: len(prefix.steps)] == prefix.steps


GREATEST_GAP = 2**31 - 1
"""Between ends of ranges: a greater one could wrap around to a valid index."""
NO_SYMBOLS: frozenset[int] = frozenset()


def symbols_of(path: Path) -> frozenset[int]:
    """The variables that bounds in the path depend on."""
    bounds = [bound for step in path.steps if isinstance(step, DimStep) for bound in (step.low, step.high)]
    return NO_SYMBOLS.union(*(bound.symbols or NO_SYMBOLS for bound in bounds))


def disjoint(a: Path, b: Path, changed: frozenset[int] | None) -> bool:
    """Whether the two paths certainly share no byte. `changed` are the variables that have another value in
    `a` than in `b`; None: perhaps all."""
    if a.root != b.root:
        return True
    for x, y in zip(a.steps, b.steps, strict=False):
        if isinstance(x, FieldStep) and isinstance(y, FieldStep):
            if x.index != y.index:
                return True
        elif isinstance(x, DimStep) and isinstance(y, DimStep) and _apart(x, y, changed):
            return True
    return False


def _apart(x: DimStep, y: DimStep, changed: frozenset[int] | None) -> bool:
    return _ends_before(x, y, changed) or _ends_before(y, x, changed)


def _ends_before(x: DimStep, y: DimStep, changed: frozenset[int] | None) -> bool:
    """Whether `x` lies below `y`. A sum that wraps around is negative, which no index may be."""
    high, low = x.high, y.low
    if high.symbols is None or low.symbols is None:
        return False
    symbols = high.symbols | low.symbols
    if symbols and (changed is None or symbols & changed):
        return False
    gap = linear.difference(low.value, high.value)
    return gap is not None and 0 <= gap + low.add - high.add <= GREATEST_GAP


def behind_reference(whole: Path, part: Path) -> bool:
    """Whether `part` lies below `whole` on the far side of a reference: replacing or ending `whole`
    leaves it alone."""
    rest = part.steps[len(whole.steps) :]
    return part.startswith(whole) and any(isinstance(step, DerefStep) for step in rest)


def describe(path: Path, name: str) -> str:
    """The path as a user would write it: `w.wq[..]`, `*r`."""
    text = name
    for at, step in enumerate(path.steps):
        if isinstance(step, FieldStep):
            text += f".{step.name}"
        elif isinstance(step, DimStep):
            text += f"[{step.text}]"
        elif at == len(path.steps) - 1:
            text = f"*{text}"
    return text

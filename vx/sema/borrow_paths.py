"""Borrow checking, part 1: what storage a place expression names, as far as aliasing is concerned.

Enters: nothing but numbers and names. Leaves: `Path`, comparable with `disjoint`. A path is shorter
than its place where more precision buys nothing: after a slice, a reshape or a transpose it ends, and
a path that ends stands for everything below it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldStep:
    index: int
    name: str


@dataclass(frozen=True, slots=True)
class DerefStep:
    """What a reference held at the path so far points to."""


@dataclass(frozen=True, slots=True)
class DimStep:
    """One dimension of a tensor restricted to `low..high`; None where not known when compiling."""

    low: int | None
    high: int | None
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


def disjoint(a: Path, b: Path) -> bool:
    """Whether the two paths certainly share no byte."""
    if a.root != b.root:
        return True
    for x, y in zip(a.steps, b.steps, strict=False):
        if isinstance(x, FieldStep) and isinstance(y, FieldStep):
            if x.index != y.index:
                return True
        elif isinstance(x, DimStep) and isinstance(y, DimStep) and _ranges_disjoint(x, y):
            return True
    return False


def _ranges_disjoint(x: DimStep, y: DimStep) -> bool:
    return _ends_before(x, y) or _ends_before(y, x)


def _ends_before(x: DimStep, y: DimStep) -> bool:
    return x.high is not None and y.low is not None and x.high <= y.low


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

"""Collecting diagnostics: what every stage says to the user goes through a `Reporter`.

Enters: a code, a message and a span, from any stage. Leaves: `Diagnostic`s in the order they were
reported, which `render.py` turns into text, JSON or SARIF.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from vx.diagnostics.span import Span

MAX_ERRORS = 100
"""Errors kept per run; what comes after is counted and not kept."""

MAX_WARNINGS = 200
"""Warnings kept per run, those of `PEDANTIC` apart."""

PEDANTIC = frozenset({"W1007", "W1013", "W1014"})
"""Lints that most programs meet with reason (casts that are written out): shown only to those who ask."""


class Level(Enum):
    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Label:
    """A second place that the message is about, with what to say there."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Help:
    """What to do. With `span` and `replacement`, an edit that a tool can make."""

    text: str
    span: Span | None = None
    replacement: str | None = None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    code: str
    level: Level
    message: str
    span: Span
    labels: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()
    helps: tuple[Help, ...] = ()


class CompileError(Exception):
    """The program was refused; `diagnostics` says why (warnings included)."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        errors = [d for d in self.diagnostics if d.level is Level.ERROR]
        super().__init__("; ".join(f"{d.code}: {d.message}" for d in errors[:3]) or "compilation failed")


LabelLike = Label | tuple[Span, str]
HelpLike = Help | str


@dataclass(slots=True)
class Reporter:
    """Collects diagnostics. The same diagnostic is kept once; at most `MAX_ERRORS` errors are kept."""

    errors_dropped: int = 0
    _kept: list[Diagnostic] = field(default_factory=list)
    _seen: set[Diagnostic] = field(default_factory=set)
    _counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("error", "warning", "pedantic"), 0))

    def error(
        self,
        code: str,
        message: str,
        span: Span,
        labels: Iterable[LabelLike] = (),
        notes: Iterable[str] = (),
        helps: Iterable[HelpLike] = (),
    ) -> None:
        """Report an error: the program is refused, the stage may go on to find more."""
        self.add(_diagnostic(code, Level.ERROR, message, span, labels, notes, helps))

    def warning(
        self,
        code: str,
        message: str,
        span: Span,
        labels: Iterable[LabelLike] = (),
        notes: Iterable[str] = (),
        helps: Iterable[HelpLike] = (),
    ) -> None:
        """Report something doubtful that does not stop the compilation."""
        self.add(_diagnostic(code, Level.WARNING, message, span, labels, notes, helps))

    def add(self, diagnostic: Diagnostic) -> None:
        """Keep a ready-made diagnostic, unless it is already there or the limit is reached."""
        if diagnostic in self._seen:
            return
        kind = "pedantic" if diagnostic.code in PEDANTIC else diagnostic.level.value
        if self._counts[kind] >= (MAX_ERRORS if kind == "error" else MAX_WARNINGS):
            self.errors_dropped += diagnostic.level is Level.ERROR
            return
        self._seen.add(diagnostic)
        self._counts[kind] += 1
        self._kept.append(diagnostic)

    @property
    def full(self) -> bool:
        """Whether further errors are no longer kept, so that looking for more is pointless."""
        return self._counts["error"] >= MAX_ERRORS

    @property
    def has_errors(self) -> bool:
        return self._counts["error"] > 0

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return tuple(self._kept)

    def abort_if_errors(self) -> None:
        """Raise `CompileError` with everything reported so far if any of it is an error."""
        if self.has_errors:
            raise CompileError(self._kept)


def without_pedantic(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """The diagnostics that everybody is to see."""
    return tuple(diagnostic for diagnostic in diagnostics if diagnostic.code not in PEDANTIC)


def _diagnostic(
    code: str,
    level: Level,
    message: str,
    span: Span,
    labels: Iterable[LabelLike],
    notes: Iterable[str],
    helps: Iterable[HelpLike],
) -> Diagnostic:
    return Diagnostic(
        code,
        level,
        message,
        span,
        tuple(label if isinstance(label, Label) else Label(*label) for label in labels),
        tuple(notes),
        tuple(item if isinstance(item, Help) else Help(item) for item in helps),
    )

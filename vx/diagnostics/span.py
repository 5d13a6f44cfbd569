"""Where something stands in a source text.

A span is a half-open range of character offsets in one file. Line and column (both 1-based) are
computed only when a diagnostic is rendered, by `SourceMap`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start..end` of `file` (the path the user gave, or `<name>` for generated text)."""

    file: str
    start: int
    end: int

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of `other` (same file)."""
        return Span(self.file, self.start, max(self.end, other.end))


NOWHERE = Span("<builtin>", 0, 0)

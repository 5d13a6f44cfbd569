"""Borrow checking: errors, each said once although a generic function is checked per instance.

Enters: findings about instances. Leaves: diagnostics in the reporter.
"""

from __future__ import annotations

from collections.abc import Iterable

from vx.diagnostics.report import Reporter
from vx.diagnostics.span import Span


class Report:
    """Passes on an error unless the same code was already reported at the same place."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._said: set[tuple[str, Span]] = set()

    def error(
        self, code: str, message: str, span: Span, labels: Iterable[tuple[Span, str]], helps: Iterable[str]
    ) -> None:
        if (code, span) in self._said:
            return
        self._said.add((code, span))
        self._reporter.error(code, message, span, labels=labels, helps=helps)

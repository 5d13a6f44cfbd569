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
        self.asked: Span | None = None
        """While a function of the library is checked: the program's call that led there, to be shown instead."""

    def error(
        self, code: str, message: str, span: Span, labels: Iterable[tuple[Span, str]], helps: Iterable[str]
    ) -> None:
        if (code, span) in self._said:
            return
        self._said.add((code, span))
        if self.asked is not None:
            labels = [(span, "reached from that call"), *labels]
            span = self.asked
        self._reporter.error(code, message, span, labels=labels, helps=helps)

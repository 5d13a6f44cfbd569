"""Collecting diagnostics."""

from __future__ import annotations

import pytest

from vx.diagnostics.report import MAX_ERRORS, CompileError, Help, Label, Level, Reporter
from vx.diagnostics.span import Span

HERE = Span("a.vx", 0, 1)


def test_labels_and_helps_in_short_form() -> None:
    reporter = Reporter()
    reporter.error("E1", "m", HERE, labels=[(HERE, "here")], notes=["n"], helps=["do this", Help("or", HERE, "x")])
    (diagnostic,) = reporter.diagnostics
    assert diagnostic.level is Level.ERROR
    assert diagnostic.labels == (Label(HERE, "here"),)
    assert diagnostic.helps == (Help("do this"), Help("or", HERE, "x"))


def test_the_same_diagnostic_is_kept_once() -> None:
    reporter = Reporter()
    for _ in range(3):
        reporter.error("E1", "m", HERE)
        reporter.warning("W1", "m", HERE)
    assert [d.code for d in reporter.diagnostics] == ["E1", "W1"]


def test_warnings_do_not_abort() -> None:
    reporter = Reporter()
    reporter.warning("W1", "m", HERE)
    assert not reporter.has_errors
    reporter.abort_if_errors()


def test_errors_abort_with_everything_reported() -> None:
    reporter = Reporter()
    reporter.warning("W1", "w", HERE)
    reporter.error("E1", "e", HERE)
    with pytest.raises(CompileError, match="E1: e") as caught:
        reporter.abort_if_errors()
    assert [d.code for d in caught.value.diagnostics] == ["W1", "E1"]


def test_errors_are_capped_and_warnings_apart() -> None:
    reporter = Reporter()
    for i in range(MAX_ERRORS + 7):
        assert reporter.full == (i >= MAX_ERRORS)
        reporter.error("E1", str(i), HERE)
    reporter.warning("W1", "m", HERE)
    assert len(reporter.diagnostics) == MAX_ERRORS + 1
    assert reporter.errors_dropped == 7

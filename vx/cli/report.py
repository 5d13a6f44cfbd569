"""Diagnostics on the terminal: what a command has found so far, and how it is printed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType

import typer

from vx.cli.guard import ERRORS, FAULT
from vx.diagnostics.report import CompileError, Diagnostic, Reporter
from vx.diagnostics.source import SourceMap


class Session:
    """One compilation of a command. As a context it prints a refusal and ends the command with its status."""

    def __init__(self, format_: str = "text", program: str = "", machine: str | None = None) -> None:
        self.sources = SourceMap()
        self.reporter = Reporter()
        self._format, self._program, self._machine = format_, program, machine

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, CompileError):
            self.show(error.diagnostics)
            raise typer.Exit(FAULT if any(d.code == "E9029" for d in error.diagnostics) else ERRORS)

    def finish(self) -> None:
        """Print what was found by a check that refused nothing."""
        self.show(self.reporter.diagnostics)

    def show(self, diagnostics: Sequence[Diagnostic]) -> None:
        """Print diagnostics: text to stderr; JSON and SARIF, which are a command's result, to stdout."""
        from vx.diagnostics import render

        if self._format == "json":
            print(render.to_json(diagnostics, self.sources, self._program, self._machine))
        elif self._format == "sarif":
            print(render.to_sarif(diagnostics, self.sources))
        elif diagnostics:
            print(render.to_text(diagnostics, self.sources, colour=wants_colour()), file=sys.stderr, end="")


def wants_colour() -> bool:
    """Whether stderr is a terminal whose user did not opt out with NO_COLOR."""
    import os

    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

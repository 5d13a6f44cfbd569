"""Diagnostics on the terminal: what a command has found so far, and how it is printed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

import typer

from vx.build import COMPILER_FAULT
from vx.cli.guard import ERRORS, FAULT
from vx.diagnostics.report import MAX_ERRORS, CompileError, Diagnostic, Reporter, without_pedantic
from vx.diagnostics.source import SourceMap


class Session:
    """One compilation of a command. As a context it prints a refusal and ends the command with its status.

    `pedantic`: show also the lints that are hidden by default.
    """

    def __init__(self, format_: str = "text", pedantic: bool = False) -> None:
        self.sources = SourceMap()
        self.reporter = Reporter()
        self.properties: Callable[[Sequence[Diagnostic]], Mapping[str, object]] | None = None
        """What a SARIF log says of the check beside these diagnostics."""
        self.record: Callable[[Sequence[Diagnostic]], None] | None = None
        """Writes the record of the check that found these diagnostics."""
        self._format = format_
        self._pedantic = pedantic

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, CompileError):
            found = error.diagnostics
            try:
                self._write_record(found)
            except CompileError as unwritten:
                found = (*found, *unwritten.diagnostics)
            self.show(found)
            raise typer.Exit(status_of(error)) from None

    def _write_record(self, diagnostics: Sequence[Diagnostic]) -> None:
        """Write the record that was asked for, once: one that cannot be written is not tried again."""
        record, self.record = self.record, None
        if record is not None:
            record(diagnostics if self._pedantic else without_pedantic(diagnostics))

    def show(self, diagnostics: Sequence[Diagnostic]) -> None:
        """Print diagnostics: text to stderr; JSON and SARIF, which are a command's result, to stdout."""
        from vx import __version__
        from vx.diagnostics import render

        self._write_record(diagnostics)
        if not self._pedantic:
            diagnostics = without_pedantic(diagnostics)
        if self._format == "json":
            print(render.render_json(diagnostics, self.sources), end="")
        elif self._format == "sarif":
            properties = None if self.properties is None else self.properties(diagnostics)
            print(render.render_sarif(diagnostics, self.sources, __version__, properties), end="")
        else:
            print(render.render_text(diagnostics, self.sources, wants_colour()), file=sys.stderr, end="")
            if self.reporter.full:
                print(f"only the first {MAX_ERRORS} errors are shown", file=sys.stderr)


def status_of(error: CompileError) -> int:
    """The exit status of a refusal: 70 if the compiler itself is at fault."""
    return FAULT if any(found.code == COMPILER_FAULT for found in error.diagnostics) else ERRORS


def wants_colour() -> bool:
    """Whether stderr is a terminal whose user did not opt out with NO_COLOR."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

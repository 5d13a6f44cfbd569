"""`vx explain`: what a diagnostic means, with a wrong and a right example."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from typing import Annotated

import typer

from vx.cli.guard import ERRORS
from vx.diagnostics import explain as pages


def explain(
    code: Annotated[str | None, typer.Argument(metavar="[CODE]", help="Such as E4001.", show_default=False)] = None,
) -> None:
    """Explain a diagnostic, or list all of them.

    Examples:

        vx explain E4001

        vx explain
    """
    if code is None:
        for known in pages.all_codes():
            print(f"{known}  {pages.title(known)}")
        return
    page = pages.explain(code)
    if page is None:
        near = get_close_matches(code.upper(), pages.all_codes(), n=1)
        hint = f"did you mean {near[0]}?" if near else "`vx explain` lists all codes"
        print(f"there is no diagnostic {code}; {hint}", file=sys.stderr)
        raise typer.Exit(ERRORS)
    _print_markdown(page)


def _print_markdown(text: str) -> None:
    """Rendered on a terminal, as it is anywhere else."""
    if not sys.stdout.isatty():
        print(text, end="" if text.endswith("\n") else "\n")
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))

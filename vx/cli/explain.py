"""`vx explain`: what a diagnostic means, with a wrong and a right example."""

from __future__ import annotations

from typing import Annotated

import typer


def explain(
    code: Annotated[str | None, typer.Argument(metavar="[CODE]", help="Such as E4001.", show_default=False)] = None,
) -> None:
    """Explain a diagnostic, or list all of them.

    Examples:

        vx explain E4001

        vx explain
    """
    from vx.diagnostics.explain import codes, page, title

    if code is None:
        for known in codes():
            print(f"{known}  {title(known)}")
        return
    _print_markdown(page(code))


def _print_markdown(text: str) -> None:
    """Rendered on a terminal, as it is anywhere else."""
    import sys

    if not sys.stdout.isatty():
        print(text, end="" if text.endswith("\n") else "\n")
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))

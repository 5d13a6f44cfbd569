"""Writes the reference pages that follow from the code: `docs/reference/cli.md` and `diagnostics.md`.

    python tools/reference_pages.py

A test compares the pages with what this makes.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import typer

from vx.diagnostics.explain import all_codes, title

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"

CLI_HEAD = """# Command line

Exit status: 0 success · 1 the program was refused · 2 wrong usage · 70 the compiler is at fault (it says what to
report) · 74 the output cannot be written · 130 interrupted · 141 nobody reads the output. `vx run` ends with the
status of the program, which is 101 if the program aborts, 102 if its output cannot be written, and 103 if it enters a role that is not part of the build. `NO_COLOR` and anything that is not a terminal get plain text. `vxc --help` shows the alias's flags.
"""

DIAGNOSTICS_HEAD = """# Diagnostics

`vx explain CODE` shows the explanation, a wrong and a right example. E: the program is refused; W: a warning.
"""


def cli_page() -> str:
    """The page of every command, from the declarations of the commands themselves."""
    from vx.cli.app import app

    return CLI_HEAD + "".join(_command(command, "vx") for command in _subcommands(typer.main.get_command(app)))


def diagnostics_page() -> str:
    """The table of every code and its title."""
    rows = "".join(f"| {code} | {title(code)} |\n" for code in all_codes())
    return f"{DIAGNOSTICS_HEAD}\n| code | |\n|---|---|\n{rows}"


def _subcommands(command: Any) -> list[Any]:
    return list(getattr(command, "commands", {}).values())


def _command(command: Any, parent: str) -> str:
    here = f"{parent} {command.name}"
    nested = "".join(_command(sub, here) for sub in _subcommands(command))
    if nested:
        return nested
    rows = "".join(_parameter(parameter) for parameter in command.params if parameter.name != "help")
    return f"\n## {here}\n\n{inspect.cleandoc(command.help or '').strip()}\n\n| | |\n|---|---|\n{rows}"


def _parameter(parameter: Any) -> str:
    name = parameter.metavar or ""
    if parameter.param_type_name == "option":
        takes = "" if parameter.is_flag else f" {name or parameter.name.upper()}"
        name = ", ".join(parameter.opts) + takes
    cell = name.replace("|", "\\|")
    return f"| `{cell}` | {parameter.help or ''} |\n"


def main() -> None:
    (REFERENCE / "cli.md").write_text(cli_page(), encoding="utf-8")
    (REFERENCE / "diagnostics.md").write_text(diagnostics_page(), encoding="utf-8")


if __name__ == "__main__":
    main()

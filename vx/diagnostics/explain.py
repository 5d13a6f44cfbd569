"""The long form of each code: `vx explain E3001`.

Enters: a code. Leaves: its page, or the examples on it. The pages in `pages/` are what declares a code;
their first line is `# CODE: title`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

_TITLE = re.compile(r"# ([EW]\d{4}): (.+)")
_BLOCK = re.compile(r"^```vx[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Examples:
    """The programs of a page: `wrong` raises the page's code and no other, `right` raises none.

    Both are None when the error needs files or flags; `why_none` then says so.
    """

    wrong: str | None
    right: str | None
    why_none: str | None


def explain(code: str) -> str | None:
    """The page of `code` (any case), or None when there is no such code."""
    return _pages().get(code.strip().upper())


def title(code: str) -> str | None:
    """The one-line title of `code`, or None when there is no such code."""
    page = explain(code)
    match = _TITLE.match(page) if page else None
    return match[2].strip() if match else None


def all_codes() -> tuple[str, ...]:
    """Every declared code, sorted."""
    return tuple(sorted(_pages()))


def examples(code: str) -> Examples:
    """The example programs on the page of `code`; `KeyError` when there is no such code."""
    page = _pages()[code]
    none = re.search(r"^No example: (.+)$", page, re.MULTILINE)
    return Examples(_block_under(page, "Wrong"), _block_under(page, "Right"), none[1].strip() if none else None)


def _block_under(page: str, heading: str) -> str | None:
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    block = _BLOCK.search(section[1]) if section else None
    return block[1] if block else None


@cache
def _pages() -> dict[str, str]:
    folder = resources.files("vx.diagnostics").joinpath("pages")
    pages: dict[str, str] = {}
    for entry in folder.iterdir():
        code = entry.name.removesuffix(".md")
        if entry.name.endswith(".md") and re.fullmatch(r"[EW]\d{4}", code):
            pages[code] = entry.read_text(encoding="utf-8")
    return pages

"""The pages that declare the diagnostics: every code has one, and its examples do what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import vx
from vx.diagnostics.explain import all_codes, examples, title
from vx.diagnostics.report import Level

PACKAGE = Path(vx.__file__).parent
CODE = re.compile(r"""["'](?P<code>[EW]\d{4})["']""")


def raised() -> dict[str, str]:
    """Every code that stands quoted in the compiler's source, and where."""
    found: dict[str, str] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for match in CODE.finditer(path.read_text(encoding="utf-8")):
            found.setdefault(match["code"], str(path.relative_to(PACKAGE)))
    return found


def test_every_code_raised_has_a_page() -> None:
    missing = {code: where for code, where in raised().items() if code not in all_codes()}
    assert not missing


def test_every_page_is_about_a_code_that_is_raised() -> None:
    assert set(all_codes()) <= set(raised())


@pytest.mark.parametrize("code", all_codes())
def test_page_is_complete(code: str) -> None:
    found = examples(code)
    assert title(code)
    assert (found.wrong and found.right) or found.why_none, "a page has both examples, or says why none"


def codes_of(text: str, path: Path) -> tuple[set[str], set[str]]:
    """All codes that a check of `text` reports, and those of them that are errors."""
    path.write_text(text, encoding="utf-8")
    found = vx.check(path, pedantic=True).diagnostics
    return {item.code for item in found}, {item.code for item in found if item.level is Level.ERROR}


WITH_EXAMPLES = [code for code in all_codes() if examples(code).wrong]


@pytest.mark.parametrize("code", WITH_EXAMPLES)
def test_wrong_example_raises_exactly_its_code(code: str, tmp_path: Path) -> None:
    text = examples(code).wrong
    assert text is not None
    found, errors = codes_of(text, tmp_path / "wrong.vx")
    assert errors == {code} if code.startswith("E") else (code in found and not errors)


@pytest.mark.parametrize("code", WITH_EXAMPLES)
def test_right_example_raises_nothing(code: str, tmp_path: Path) -> None:
    text = examples(code).right
    assert text is not None
    found, errors = codes_of(text, tmp_path / "right.vx")
    assert not errors and code not in found

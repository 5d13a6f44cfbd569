"""The pages that declare the codes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.syntax.helpers import codes
from vx.diagnostics.explain import all_codes, examples, explain, title

SYNTAX_CODES = [code for code in all_codes() if code.startswith("E01")]


def test_explain() -> None:
    page = explain("e0111")
    assert page is not None and page.startswith("# E0111: missing `;`\n")
    assert explain("E0000") is None and explain("../E0111") is None and explain("") is None
    assert title("E0111") == "missing `;`"
    assert title("E0000") is None


@pytest.mark.parametrize("code", all_codes())
def test_every_page_has_its_parts(code: str) -> None:
    page = explain(code)
    assert page is not None
    assert re.match(rf"# {code}: \S.+\n\n\S", page), "the first line is `# CODE: title`, then an explanation"
    parts = examples(code)
    if parts.why_none:
        assert parts.wrong is None and parts.right is None
    else:
        assert parts.wrong and parts.right, "a page has `## Wrong` and `## Right`, or `No example: …`"


def test_every_syntax_code_in_the_source_has_a_page(root: Path) -> None:
    files = [*(root / "vx" / "syntax").glob("*.py"), root / "vx" / "diagnostics" / "source.py"]
    raised = {code for file in files for code in re.findall(r'"(E\d{4})"', file.read_text())}
    assert raised - set(all_codes()) == set()
    assert set(SYNTAX_CODES) - raised == set()


@pytest.mark.parametrize("code", SYNTAX_CODES)
def test_examples_of_syntax_errors(code: str) -> None:
    parts = examples(code)
    assert parts.wrong is not None and parts.right is not None
    assert set(codes(parts.wrong)) == {code}
    assert codes(parts.right) == []

"""The documentation does what it says: its programs are accepted, its generated pages are current."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import reference_pages

import vx

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```vx\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def blocks() -> list[object]:
    found = []
    for page in PAGES:
        for number, match in enumerate(BLOCK.finditer(page.read_text(encoding="utf-8")), 1):
            if "fn main(" in match[1]:
                found.append(pytest.param(match[1], id=f"{page.stem}-{number}"))
    return found


@pytest.mark.parametrize("text", blocks())
def test_programs_are_accepted(text: str, tmp_path: Path) -> None:
    path = tmp_path / "snippet.vx"
    path.write_text(text, encoding="utf-8")
    result = vx.check(path)
    assert result.ok, str(result)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    targets = [match[1] for match in LINK.finditer(page.read_text(encoding="utf-8"))]
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize("name", ["cli", "diagnostics"])
def test_generated_pages_are_current(name: str) -> None:
    made = reference_pages.cli_page() if name == "cli" else reference_pages.diagnostics_page()
    page = ROOT / "docs" / "reference" / f"{name}.md"
    assert page.read_text(encoding="utf-8") == made, "run `python tools/reference_pages.py`"


def test_readme_has_exactly_two_setup_commands() -> None:
    commands = re.findall(r"^pip install.*$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert commands == ["pip install . && vx run programs/llama.vx", "pip install -e '.[dev]' && pytest"]

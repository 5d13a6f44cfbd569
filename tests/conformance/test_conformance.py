"""The public language, paragraph by paragraph: each program says in its RUN and CHECK lines how it is run by `vxc`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from runlines import annotations, meet

FOLDER = Path(__file__).parent
PROGRAMS = sorted(path for path in FOLDER.rglob("*.vx") if "fn main(" in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_program(program: Path, tmp_path: Path) -> None:
    requires = annotations(program.read_text(encoding="utf-8")).get("REQUIRES", ())
    if "cuda" in requires and not Path("/dev/nvidia0").exists():
        pytest.skip("needs a CUDA device and there is none here")
    meet(program, tmp_path)


def test_each_deviation_has_a_program(root: Path) -> None:
    """The tables of the page name a program in their last column, `…` standing for any rest of a name."""
    page = (root / "docs" / "reference" / "deviations.md").read_text(encoding="utf-8")
    rows = [line.rstrip(" |").rpartition("|")[2] for line in page.splitlines() if re.match(r"\| (?!here|---)", line)]
    named = [re.findall(r"`(\w+…?)`", row) for row in rows]
    assert len(named) > 15 and all(named), "a row without a program"
    missing = [name for names in named for name in names if not list(FOLDER.glob(name.replace("…", "*") + ".vx"))]
    assert not missing

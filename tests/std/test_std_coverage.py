"""Every function of the standard library is called by some program of these tests: the checker and the code
generator look at a library function only when something calls it."""

from __future__ import annotations

from pathlib import Path

from vx.build import check
from vx.diagnostics.report import Reporter
from vx.diagnostics.source import SourceMap
from vx.options import Options
from vx.runtime import abi
from vx.syntax import ast
from vx.syntax.parser import parse_module

STD = abi.DECLARATIONS.parent
TESTS = Path(__file__).parent
PROGRAMS = [*sorted(TESTS.parent.glob("programs/run/std_*.vx")), *sorted(TESTS.glob("programs/*.vx"))]


def declared() -> dict[tuple[str, int], str]:
    """Every function of the library that has a body, by where it stands."""
    found: dict[tuple[str, int], str] = {}
    for path in sorted(STD.glob("*.vx")):
        module = parse_module(path.read_text(encoding="utf-8"), path.name, Reporter())
        for item in module.items:
            for function in item.functions if isinstance(item, ast.Impl) else [item]:
                if isinstance(function, ast.Function):
                    found[path.name, function.span.start] = function.name
    return found


def called(root: Path) -> set[tuple[str, int]]:
    functions = set()
    for path in PROGRAMS:
        options = Options(model=str(root / "models" / "tiny"))
        program = check(str(path), options, SourceMap(), Reporter()).typed.program
        functions |= {(Path(f.span.file).name, f.span.start) for f in program.functions.values()}
    return functions


def test_every_library_function_is_called(root: Path) -> None:
    reached = called(root)
    missing = {where: name for where, name in declared().items() if where not in reached}
    assert sorted(f"{file}: {name}" for (file, _), name in missing.items()) == []

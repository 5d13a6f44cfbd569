"""The Python façade: typed results, one build for one content, nothing heavy loaded before it is needed."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import vx
from vx.diagnostics.report import CompileError

ECHO = """import std::env;
import std::io;

const COUNT : i32 = 2;

fn main() -> i32 {
    println!("count");
    print(COUNT);
    return COUNT;
}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "program.vx"
    path.write_text(text, encoding="utf-8")
    return path


def test_lints_of_casts_are_for_those_who_ask(tmp_path: Path) -> None:
    path = write(tmp_path, "fn main() -> i32 { let a : i64 = 1;  a as i32 }\n")
    assert vx.check(path).diagnostics == ()
    assert [found.code for found in vx.check(path, pedantic=True).diagnostics] == ["W1014"]


def test_check_says_where() -> None:
    path = Path(__file__).parent.parent / "programs" / "refuse" / "machine_blind.vx"
    result = vx.check(path)
    assert not result.ok
    assert [(found.code, *result.position(found)) for found in result.diagnostics] == [("E6005", 8, 5)]
    assert str(result).startswith("Error[E6005] at 8:5: ")


def test_compile_and_run(tmp_path: Path) -> None:
    program = vx.compile(write(tmp_path, ECHO), consts={"COUNT": 7})
    result = program.run()
    assert (result.status, result.stdout, result.stderr) == (7, "count\n7", "")


def test_refusals_are_exceptions_of_compile_only(tmp_path: Path) -> None:
    path = write(tmp_path, "fn main() -> i32 { return nothing; }")
    assert not vx.check(path).ok
    with pytest.raises(CompileError) as refusal:
        vx.compile(path)
    assert refusal.value.diagnostics
    with pytest.raises(ValueError, match="opt_level"):
        vx.compile(path, opt_level=4)


def test_one_build_for_one_content(tmp_path: Path) -> None:
    path = write(tmp_path, ECHO + "// " + tmp_path.name)
    first, second = vx.compile(path), vx.compile(path)
    assert (first.cached, second.cached) == (False, True)
    assert first.key == second.key and first.executable == second.executable
    other = vx.compile(path, opt_level=0)
    assert not other.cached and other.key != first.key
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert not vx.compile(path).cached


def test_warnings_come_back_from_the_cache(tmp_path: Path) -> None:
    path = write(tmp_path, f"fn main() -> i32 {{ let unused = 1; return 0; }} // {tmp_path.name}")
    first, second = vx.compile(path), vx.compile(path)
    assert second.cached and first.diagnostics == second.diagnostics
    assert [found.code for found in second.diagnostics] == ["W1001"]


def test_an_edit_during_the_build_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vx import build

    path = write(tmp_path, ECHO + "// " + tmp_path.name)
    compile_ = build._compile

    def edited_meanwhile(*arguments: object) -> Path:
        path.write_text(path.read_text(encoding="utf-8").replace("i32 = 2", "i32 = 3"), encoding="utf-8")
        return compile_(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(build, "_compile", edited_meanwhile)
    assert vx.compile(path).run().status == 2
    monkeypatch.setattr(build, "_compile", compile_)
    again = vx.compile(path)
    assert not again.cached and again.run().status == 3


def test_builds_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, ECHO + "// " + tmp_path.name)
    results: list[int] = []
    threads = [threading.Thread(target=lambda: results.append(vx.compile(path).run().status)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [2, 2, 2]


def test_a_run_that_does_not_end_is_ended(tmp_path: Path) -> None:
    program = vx.compile(write(tmp_path, "fn main() -> i32 { loop {} return 0; }"))
    with pytest.raises(TimeoutError, match=r"within 0\.2 s"):
        program.run(timeout=0.2)


HEAVY = "llvmlite numpy safetensors typer rich vx.sema vx.syntax vx.kernels"


def loaded(code: str) -> list[str]:
    """The heavy modules that `code` loads in a fresh Python."""
    report = f"import sys; print([name for name in {HEAVY.split()!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True)
    return list(eval(done.stdout.splitlines()[-1]))


def test_importing_costs_nothing() -> None:
    assert loaded("import vx; vx.check; vx.compile") == []


def test_a_cached_build_loads_nothing_heavy(tmp_path: Path) -> None:
    path = write(tmp_path, ECHO)
    vx.compile(path)
    code = f"import vx; assert vx.compile({str(path)!r}).cached"
    assert loaded(code) == []


def test_a_cached_run_starts_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, ECHO)
    vx.compile(path)
    command = [str(Path(sys.executable).parent / "vx"), "run", str(path)]
    best = 9.0
    for _ in range(5):
        start = time.perf_counter()
        assert subprocess.run(command, capture_output=True, check=False).returncode == 2
        best = min(best, time.perf_counter() - start)
    assert best <= 0.3

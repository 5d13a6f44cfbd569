"""Compiling LLVM text and linking executables: results, faults, the cache."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from codegen import handmade as b

from vx.codegen import compile as compiling
from vx.codegen import link, target
from vx.codegen.cache import cache_root, write_atomically
from vx.diagnostics.report import CompileError

HELLO = b.program(b.main(*b.show(b.text("hello"))))


def code_of(error: pytest.ExceptionInfo[CompileError]) -> str:
    return error.value.diagnostics[0].code


def test_an_executable_holds_no_symbols_and_no_paths(tmp_path: Path) -> None:
    done = b.run(HELLO, tmp_path)
    assert done.stdout == "hello "
    data = (tmp_path / "program").read_bytes()
    assert str(Path(link.__file__).parent.parent).encode() not in data
    assert str(tmp_path).encode() not in data and b"vx_program_main" not in data
    assert stat.S_IMODE((tmp_path / "program").stat().st_mode) == 0o755
    assert sorted(os.listdir(tmp_path)) == ["program"]


def test_the_same_program_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        b.run(HELLO, tmp_path / name)
    assert (tmp_path / "one" / "program").read_bytes() == (tmp_path / "two" / "program").read_bytes()


def test_text_that_llvm_refuses_is_a_fault_of_the_compiler() -> None:
    with pytest.raises(compiling.CompilerFault) as error:
        compiling.compile_llvm("define i32 @f() { ret i32 %x }", target.native(), 2)
    assert code_of(error) == "E9029" and "%x" in error.value.detail


def test_llvm_dying_does_not_end_the_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    child = tmp_path / "child.py"
    child.write_text("import os, sys\nsys.stderr.write('LLVM ERROR: cannot select')\nsys.stderr.flush()\nos.abort()\n")
    monkeypatch.setattr(compiling, "_CHILD", child)
    with pytest.raises(compiling.CompilerFault, match="signal 6") as error:
        compiling.compile_llvm("", target.native(), 0)
    assert "cannot select" in error.value.detail


def test_objects_that_do_not_fit_are_a_fault_of_the_compiler(tmp_path: Path) -> None:
    code = compiling.compile_llvm("declare void @nowhere()\ndefine i32 @vx_program_main() { call void @nowhere() ret i32 0 }", target.native(), 0)  # fmt: skip
    with pytest.raises(compiling.CompilerFault) as error:
        link.link_executable([code], tmp_path / "out", target.native())
    assert "nowhere" in error.value.detail and not (tmp_path / "out").exists()


def test_modules_come_back_in_order() -> None:
    texts = [f"define i32 @f{n}() {{ ret i32 {n} }}" for n in range(3)]
    objects = compiling.compile_modules(texts, target.native(), 2)
    assert [f"f{n}".encode() in data for n, data in enumerate(objects)] == [True] * 3
    assert "ret" in compiling.to_asm(texts[0], target.native(), 2)


def test_the_cache_is_private_and_the_runtime_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "new" / "cache"
    warm = cache_root() / "zig"
    monkeypatch.setenv("VX_CACHE_DIR", str(root))
    assert stat.S_IMODE(cache_root().stat().st_mode) == 0o700
    if warm.is_dir():
        shutil.copytree(warm, root / "zig", symlinks=True)
    said: list[str] = []
    with ThreadPoolExecutor() as pool:  # two builds at once agree on one result
        first, second = pool.map(lambda _: link.runtime_objects(target.native(), said.append), range(2))
    assert first == second and first
    assert said and all("building the runtime" in line for line in said)
    said.clear()
    link.runtime_objects(target.native(), said.append)
    assert not said
    assert [path.name for path in (root / "runtime").iterdir()] == [first[0].parent.name]


def test_a_cache_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VX_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(CompileError) as error:
        cache_root()
    assert code_of(error) == "E9021"


def test_a_cache_that_everybody_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VX_CACHE_DIR", str(tmp_path))
    tmp_path.chmod(0o777)
    with pytest.raises(CompileError, match="everybody") as error:
        cache_root()
    assert code_of(error) == "E9021"


def test_an_output_that_cannot_be_written(tmp_path: Path) -> None:
    code = compiling.compile_llvm("define i32 @vx_program_main() { ret i32 0 }", target.native(), 0)
    with pytest.raises(CompileError) as error:
        link.link_executable([code], tmp_path / "absent" / "program", target.native())
    assert code_of(error) == "E9021"
    assert "VX_CACHE_DIR" not in error.value.diagnostics[0].helps[0].text


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> int:
        return os.open("/dev/full", os.O_WRONLY)

    monkeypatch.setattr("vx.codegen.cache.tempfile.mkstemp", lambda **_: (full(), str(tmp_path / "t")))
    with pytest.raises(CompileError) as error:
        write_atomically(tmp_path / "file", b"x" * 10)
    assert code_of(error) == "E9022"


def test_a_write_is_complete_or_absent(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", b"old")
    write_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new" and os.listdir(tmp_path) == ["file"]


def test_unknown_targets_are_refused() -> None:
    assert target.by_name("aarch64-linux-gnu").arch == "aarch64"
    assert target.by_name("x86_64").name == "x86_64-linux-gnu"
    with pytest.raises(CompileError, match="there is no target") as error:
        target.by_name("aarch64-linux-gun")
    assert error.value.diagnostics[0].helps[0].text == "did you mean `aarch64-linux-gnu`?"


def test_the_child_needs_nothing_but_llvmlite() -> None:
    text = Path(compiling._CHILD).read_text(encoding="utf-8")
    assert "vx" not in [
        line.split()[1].split(".")[0] for line in text.splitlines() if line.startswith(("import", "from"))
    ]
    assert sys.executable


QEMU = shutil.which("qemu-aarch64")
SYSROOT = Path("/usr/aarch64-linux-gnu")


@pytest.mark.skipif(QEMU is None or not SYSROOT.is_dir(), reason="qemu-user or the aarch64 C library is not installed")
def test_an_aarch64_executable_runs(tmp_path: Path) -> None:
    machine = target.AARCH64
    code = compiling.compile_llvm(b.llvm(HELLO), machine, 2)
    link.link_executable([code], tmp_path / "program", machine)
    done = subprocess.run(
        [str(QEMU), "-L", str(SYSROOT), tmp_path / "program"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "hello ")

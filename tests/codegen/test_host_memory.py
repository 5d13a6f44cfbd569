"""Programs under the address sanitizer of a system gcc: nothing is used after it was freed, freed twice or lost."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from codegen.test_host_programs import PROGRAMS

from vx.build import check, translate
from vx.codegen.compile import compile_modules
from vx.codegen.link import RUNTIME
from vx.diagnostics.report import Reporter
from vx.diagnostics.source import SourceMap
from vx.options import Options

RUN = Path(__file__).parent.parent / "programs" / "run"
SOURCES = {name: text for name, (text, _) in PROGRAMS.items()}
SOURCES |= {
    name: (RUN / f"{name}.vx").read_text(encoding="utf-8") for name in ("std_vec", "std_string", "kernel_structs")
}

SANITIZE = ("-fsanitize=address", "-g", "-O0", "-std=c17", "-Dbit_SSE41=bit_SSE4_1", "-Dbit_SSE42=bit_SSE4_2")
"""gcc calls two bits of cpuid otherwise than the compiler that the runtime is written for."""


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The runtime's objects with the sanitizer in them."""
    folder = tmp_path_factory.mktemp("sanitized")
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("there is no gcc here, whose address sanitizer this needs")
    sources = map(str, sorted(RUNTIME.glob("*.c")))
    done = subprocess.run([gcc, *SANITIZE, "-c", *sources], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return sorted(folder.glob("*.o"))


@pytest.mark.parametrize("name", SOURCES)
def test_memory(name: str, tmp_path: Path, runtime: list[Path]) -> None:
    path = tmp_path / "program.vx"
    path.write_text(SOURCES[name], encoding="utf-8")
    reporter = Reporter()
    checked = check(str(path), Options(), SourceMap(), reporter)
    modules = compile_modules(translate(checked, reporter).texts, checked.typed.target, 1)
    objects = [tmp_path / f"{number}.o" for number in range(len(modules))]
    for file, data in zip(objects, modules, strict=True):
        file.write_bytes(data)
    inputs = map(str, (*objects, *runtime))
    linked = subprocess.run(
        ["gcc", "-fsanitize=address", *inputs, "-o", "program", "-lm", "-lpthread", "-ldl"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "asan" in linked.stderr:
        pytest.skip("the gcc here has no address sanitizer")
    assert linked.returncode == 0, linked.stderr
    environment = {"ASAN_OPTIONS": "detect_leaks=1"}
    done = subprocess.run([tmp_path / "program"], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")

"""The command line: what it understands, what it prints, how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from vx.cli import fast, vxc
from vx.cli.guard import ERRORS, FAULT, INTERRUPTED, OUTPUT, guarded
from vx.cli.options import options_of
from vx.options import Options

HELLO = 'import std::io;\n\nfn main() -> i32 {\n    println!("hello");\n    return 3;\n}\n'
WRONG = "fn main() -> i32 {\n    return nothing;\n}\n"


def run_vx(*words: str, tool: str = "main", **environment: str) -> subprocess.CompletedProcess[str]:
    code = f"from vx.cli.{tool} import run; run()"
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
        check=False,
    )


@pytest.fixture
def hello(tmp_path: Path) -> str:
    path = tmp_path / "hello.vx"
    path.write_text(HELLO, encoding="utf-8")
    return str(path)


@pytest.fixture
def wrong(tmp_path: Path) -> str:
    path = tmp_path / "wrong.vx"
    path.write_text(WRONG, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run", "p.vx"], Options()),
        (["run", "p.vx", "-O0", "--strict-index"], Options(opt_level=0, strict_index=True)),
        (
            ["run", "--model", "m", "p.vx", "--machine", "a", "--host", "default"],
            Options(3, False, "a", "default", "m"),
        ),
        (["run", "p.vx", "--const", "A=1", "--const", "B = 2"], Options(consts=(("A", "1"), ("B", "2")))),
        (["run", "p.vx", "--target", "aarch64-linux-gnu"], Options(target="aarch64-linux-gnu")),
    ],
)
def test_the_fast_path_reads_what_the_command_reads(words: list[str], expected: Options) -> None:
    found = fast.parse([*words, "--", "--ids", "--"])
    assert found == fast.Request("p.vx", expected, ("--ids", "--"))


def test_the_fast_path_agrees_with_the_options_of_commands() -> None:
    found = fast.parse(["run", "p.vx", "--const", " A = 1 ", "-O2"])
    assert found is not None and found.options == options_of(None, None, None, [" A = 1 "], 2)


@pytest.mark.parametrize(
    "words",
    [[], ["build", "p.vx"], ["run"], ["run", "a.vx", "b.vx"], ["run", "p.vx", "--help"], ["run", "p.vx", "--model"],
     ["run", "p.vx", "--const", "A"], ["run", "p.vx", "--const", "A=1", "--const", "A=2"], ["run", "p.vx", "-O9"], ["run", "p.vx", "-O", "2"]],
)  # fmt: skip
def test_the_fast_path_leaves_everything_else(words: Sequence[str]) -> None:
    assert fast.parse(words) is None


def test_vxc_flags() -> None:
    found = vxc.parse(["p.vx", "--machine", "m.vx", "--host", "default", "--diagnostics-json", "--run", "--", "-x"])
    assert found == vxc.Invocation("p.vx", Options(3, False, "m.vx", "default"), "run-jit", None, "-", ("-x",))
    assert vxc.parse(["--diagnostics-json", "out.json", "p.vx"]).json == "out.json"
    assert vxc.parse(["--diagnostics-json=out", "p.vx"]).json == "out"
    assert vxc.parse(["p.vx", "--diagnostics-json", "out"]).json == "out"
    assert vxc.parse(["p.vx", "--diagnostics-json", "-"]).json == "-"
    assert vxc.parse(["--diagnostics-json", "p.vx"]).program == "p.vx"
    assert vxc.parse(["p.vx", "--action", "emit-llvm", "-o", "p.ll"]).output == "p.ll"
    with pytest.raises(SystemExit) as ending:
        vxc.parse([])
    assert ending.value.code == 2


def test_endings(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VX_DEBUG", raising=False)

    def raising(error: BaseException) -> int:
        raise error

    assert guarded(lambda: 0) == 0
    assert guarded(lambda: raising(KeyboardInterrupt())) == INTERRUPTED
    assert guarded(lambda: raising(ZeroDivisionError("oops"))) == FAULT
    told = capsys.readouterr().err
    assert "ZeroDivisionError: oops" in told and "fault of the compiler" in told and "Traceback" not in told
    monkeypatch.setenv("VX_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        guarded(lambda: raising(ZeroDivisionError()))


@pytest.mark.parametrize("words", [["run", "--help"], ["model", "import", "--help"], ["--help"], ["emit", "-h"]])
def test_help_has_examples(words: list[str]) -> None:
    done = run_vx(*words)
    assert done.returncode == 0 and "Examples:" in done.stdout and "\x1b" not in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["frobnicate"],
        ["run"],
        ["emit", "p.vx"],
        ["run", "p.vx", "--const", "A"],
        ["check", "p.vx", *("--const", "A=1") * 2],
    ],
)
def test_wrong_usage(words: list[str]) -> None:
    done = run_vx(*words)
    assert done.returncode == 2 and "Traceback" not in done.stderr and done.stderr


def test_explain() -> None:
    assert run_vx("explain", "e6040").stdout.startswith("# E6040: ")
    unknown = run_vx("explain", "E604")
    assert unknown.returncode == ERRORS and "did you mean" in unknown.stderr
    assert "E6040  " in run_vx("explain").stdout


def test_a_closed_pipe_is_quiet() -> None:
    command = f"{sys.executable} -c 'from vx.cli.main import run; run()' explain | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == "" and done.stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "status", "told"),
    [
        ("explain > /dev/full", OUTPUT, "standard output: No space left on device\n"),
        ("explain >&-", 0, ""),
        ("explain <&- >&- 2>&-", 0, ""),
    ],
)
def test_output_that_goes_nowhere(command: str, status: int, told: str) -> None:
    whole = f"{sys.executable} -c 'from vx.cli.main import run; run()' {command}"
    done = subprocess.run(["bash", "-c", whole], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", told)


def test_a_cache_that_cannot_be_used_is_a_refusal(hello: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run_vx("run", hello, VX_CACHE_DIR=str(tmp_path / "file"))
    assert done.returncode == ERRORS and "E9021" in done.stderr and "fault" not in done.stderr


def test_doctor_knows_this_machine() -> None:
    done = run_vx("doctor")
    assert done.returncode == 0 and "executables for" in done.stdout and "BROKEN" not in done.stdout


def test_run_ends_as_the_program_does(hello: str) -> None:
    first = run_vx("run", hello)
    assert (first.stdout, first.returncode) == ("hello\n", 3)
    again = run_vx("run", hello)
    assert (again.stdout, again.stderr, again.returncode) == ("hello\n", "", 3)


def test_run_writes_evidence_where_it_is_told(tmp_path: Path) -> None:
    path = tmp_path / "placed.vx"
    path.write_text(
        "fn main() -> i32 {\n  let a = transfer(Tensor<f32>([[1.0, 2.0]]), Topology::Device[0]);\n"
        "  let b = transfer(a, Memory::CPU_DRAM);\n  b[0][1] as i32\n}\n"
    )
    machine = ("--machine", "h200", "--host", "default", "--devices", "host", "--trace", str(tmp_path / "run.jsonl"))
    done = run_vx("run", str(path), *machine)
    assert done.returncode == 2, done.stderr
    events = [json.loads(line)["event"] for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert events[:4] == ["run", "open", "device", "arena"] and events[-1] == "end"
    refused = run_vx("run", str(path), *machine, "--kernels", "vendor")
    assert refused.returncode == 2 and "vendors' are not used yet" in refused.stderr


def test_run_counts_lints_and_shows_what_matters(tmp_path: Path) -> None:
    path = tmp_path / "lint.vx"
    path.write_text("fn main() -> i32 {\n    let unused = 1;\n    return 0;\n}\n", encoding="utf-8")
    assert run_vx("run", str(path)).stderr == f"1 warning, which `vx check {path}` shows\n"
    assert run_vx("run", str(path)).stderr == ""
    assert "W1001" in run_vx("check", str(path)).stderr
    path.write_text(
        "fn main() -> i32 {\n    let mut n = 1;\n    spawn on(Topology::NPU[0]) { n = n + 1; }\n    return n;\n}\n",
        encoding="utf-8",
    )
    for _ in range(2):
        done = run_vx("run", str(path))
        assert done.returncode == 2 and "Warning[W9034] at 3:5" in done.stderr and "3 |" in done.stderr


def test_another_target_is_built_and_not_run(hello: str) -> None:
    import platform

    other = "x86_64" if platform.machine() == "aarch64" else "aarch64"
    for _ in range(2):
        done = run_vx("run", hello, "--target", f"{other}-linux-gnu")
        assert done.returncode == ERRORS and "Error[E9035]" in done.stderr


def test_refusals(wrong: str) -> None:
    for command in (["run", wrong], ["check", wrong], ["build", wrong]):
        done = run_vx(*command)
        assert done.returncode == ERRORS and "at 2:12" in done.stderr and "\x1b" not in done.stderr
    record = run_vx(wrong, "--diagnostics-json", tool="vxc")
    assert record.returncode == ERRORS and '"schema": "vx-diagnostics-v1"' in record.stdout


def test_a_record_that_cannot_be_written(hello: str, wrong: str, tmp_path: Path) -> None:
    for program, codes in ((hello, ["E9021"]), (wrong, ["E0201", "E9021"])):
        done = run_vx("check", program, "--diagnostics-json", str(tmp_path))
        assert done.returncode == ERRORS and all(f"Error[{code}]" in done.stderr for code in codes)


def test_a_name_too_long_for_a_file_is_no_fault(hello: str) -> None:
    name = "m" * 5000
    for words in (["check", hello, "--machine", name], ["admit", hello, "--machine", name], ["machine", "show", name]):
        done = run_vx(*words)
        assert done.returncode == ERRORS and "Error[E9001]" in done.stderr
    assert run_vx("admit", "matrix", "--table", name).returncode == 2


@pytest.mark.parametrize("format_", ["json", "sarif"])
def test_formats_are_on_stdout(wrong: str, format_: str) -> None:
    import json

    done = run_vx("check", wrong, "--format", format_)
    assert done.returncode == ERRORS and json.loads(done.stdout)


def test_sarif_has_the_verdict(hello: str, wrong: str) -> None:
    import json

    for program, verdict in ((hello, "admitted"), (wrong, "rejected")):
        (run,) = json.loads(run_vx("check", program, "--format", "sarif").stdout)["runs"]
        assert run["properties"]["verdict"] == verdict and run["properties"]["file"] == program


def test_build_leaves_an_executable(hello: str, tmp_path: Path) -> None:
    out = tmp_path / "out" / "hello"
    done = run_vx("build", hello, "-o", str(out))
    assert (done.returncode, done.stdout) == (0, f"{out}\n")
    assert subprocess.run([str(out)], check=False).returncode == 3
    digest = done.stderr.split()[-1]
    assert done.stderr.endswith(f"digest {digest}\n") and run_vx("verify", str(out), "--digest", digest).returncode == 0
    in_the_way = run_vx("build", hello, "-o", str(tmp_path))
    assert in_the_way.returncode == ERRORS and "E9033" in in_the_way.stderr


MODEL_USER = """import model;
import std::io;

fn main() -> i32 {
    print(model::out_norm.extent(0) as i32 - DIM);
    print(model::out_norm[0] > 0.0);
    return 0;
}
"""


def test_build_takes_the_model_along(tmp_path: Path) -> None:
    path, out, moved = tmp_path / "user.vx", tmp_path / "user", tmp_path / "elsewhere"
    path.write_text(MODEL_USER, encoding="utf-8")
    for _ in range(2):
        done = run_vx("build", str(path), "-o", str(out))
        assert done.returncode == 0, done.stderr
    assert sorted(entry.name for entry in out.iterdir()) == ["admission.json", "manifest.json", "model", "program"]
    out.rename(moved)
    assert subprocess.run([str(moved / "program")], capture_output=True, check=True).stdout == b"0true"
    (moved / "notes.txt").write_text("mine", encoding="utf-8")
    refused = run_vx("build", str(path), "-o", str(moved))
    assert refused.returncode == ERRORS and "E9033" in refused.stderr and (moved / "notes.txt").exists()


def test_build_does_not_overwrite_the_source(tmp_path: Path) -> None:
    path = tmp_path / "source"
    path.write_text(HELLO, encoding="utf-8")
    refused = run_vx("build", str(path), "-o", str(path))
    assert refused.returncode == ERRORS and "E9033" in refused.stderr
    assert path.read_text(encoding="utf-8") == HELLO


@pytest.mark.parametrize(
    ("stage", "says"),
    [
        ("tokens", "keyword fn"),
        ("ast", "Function name=main"),
        ("types", "fn main() -> i32"),
        ("llvm", "define"),
        ("asm", "vx_program_main:"),
    ],
)
def test_emit(hello: str, stage: str, says: str) -> None:
    done = run_vx("emit", "--stage", stage, hello)
    assert done.returncode == 0 and says in done.stdout, done.stderr


def test_a_missing_program_is_an_error(tmp_path: Path) -> None:
    done = run_vx("run", str(tmp_path / "none.vx"))
    assert done.returncode == ERRORS and "E9001" in done.stderr

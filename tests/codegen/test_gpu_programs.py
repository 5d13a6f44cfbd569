"""Programs on a GPU, by `bench/gpu.py`. Here the stand-in takes the GPU's place, and doctored results must be refused; tests
marked `gpu` run everything where there is one."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import gpu_judge  # noqa: E402
import gpu_prepare  # noqa: E402
import gpu_programs  # noqa: E402
import gpu_run  # noqa: E402

import vx  # noqa: E402
from vx.diagnostics.report import CompileError, Level  # noqa: E402
from vx.evidence.schema import SCHEMA, VERSION  # noqa: E402
from vx.evidence.trace import read_trace  # noqa: E402
from vx.model.shapes import random_model  # noqa: E402

HERE = ("kernel_placed_products", "kernel_placed_attention", "kernel_borders", "kernel_histogram")
"""Programs that are run on the stand-in; on a GPU all are."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """What was prepared for the stand-in, and what running it left."""
    folder, out, scratch = (tmp_path_factory.mktemp(name) for name in ("prepared", "out", "scratch"))
    p = gpu_prepare.Preparation(folder, scratch, "host")
    gpu_prepare.tiny(p)
    for name in HERE:
        gpu_prepare.kernel(p, name)
    gpu_prepare.write_plan(p)
    gpu_run.run_all(folder, out, 120)
    return folder, out


def test_the_stand_in_gives_what_is_wanted(ran: tuple[Path, Path]) -> None:
    assert gpu_judge.judge(*ran, "T1") == 0


def test_a_stand_in_is_no_gpu(ran: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_judge.judge(*ran, "T2") == 1
    assert "it proves T1, not T2" in capsys.readouterr().out


def _change(case: str, **values: object) -> Callable[[dict[str, Any]], None]:
    return lambda cases: cases[case]["runs"][0].update(values)


def _other_id(cases: dict[str, Any]) -> None:
    words = cases["tiny"]["runs"][1]["stdout"].split()
    cases["tiny"]["runs"][1]["stdout"] = " ".join([*words[:200], str((int(words[200]) + 1) % 768), *words[201:]])


def _other_number(cases: dict[str, Any]) -> None:
    run = cases["kernel_placed_attention"]["runs"][0]
    run["stdout"] = run["stdout"].replace("0.207807", "0.207907", 1)


DOCTORED: dict[str, tuple[str, Callable[[dict[str, Any]], None]]] = {
    "another id": ("200 of 256 ids agree", _other_id),
    "too few ids": ("1 ids, not 256", _change("tiny", stdout="1\n")),
    "another number": ("is 0.207907, not", _other_number),
    "no numbers": ("0 numbers, not", _change("kernel_histogram", stdout="")),
    "nan": ("is nan, not", _change("kernel_histogram", stdout="nan " * 32)),
    "status": ("status 3: broken", _change("kernel_borders", status=3, stderr="broken\n")),
    "late": ("status late", _change("kernel_borders", status="late")),
    "no trace": ("a run left no trace", lambda cases: cases["tiny"]["runs"][0].pop("trace")),
    "not run": ("it was not run", lambda cases: cases.pop("kernel_borders")),
    "no time": ("no time was left", lambda cases: cases["kernel_borders"].update(skipped="no time was left")),
    "another's trace": ("TraceError", _change("kernel_borders", trace="doctored.jsonl")),
}


@pytest.mark.parametrize("name", DOCTORED)
def test_doctored_results_fail(
    name: str, ran: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, change = DOCTORED[name]
    folder, out = ran
    results = json.loads((out / gpu_run.RESULTS).read_text())
    change(results["cases"])
    (tmp_path / gpu_run.RESULTS).write_text(json.dumps(results))
    _with_doctored_trace(out / gpu_run.TRACES, tmp_path)
    assert gpu_judge.judge(folder, tmp_path, "T1") == 1
    assert text in capsys.readouterr().out


def _with_doctored_trace(traces: Path, folder: Path) -> None:
    """The traces, and one that has a dispatch less."""
    with tarfile.open(traces) as given, tarfile.open(folder / gpu_run.TRACES, "w:gz") as made:
        given.extractall(folder, filter="data")
        lines = (folder / "tiny.0.jsonl").read_text().splitlines(keepends=True)
        doctored = [line for line in lines if '"seq":20,' not in line]
        assert len(doctored) == len(lines) - 1
        (folder / "doctored.jsonl").write_text("".join(doctored))
        for path in folder.glob("*.jsonl"):
            made.add(path, path.name)


def test_steps_are_counted(ran: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = ran
    expected = json.loads((folder / gpu_prepare.EXPECTED).read_text())
    assert expected["tiny"][1] == {"kind": "evidence", "steps": 252}
    expected["tiny"][1]["steps"] = 253
    (tmp_path / gpu_prepare.EXPECTED).write_text(json.dumps(expected))
    assert gpu_judge.judge(tmp_path, out, "T1") == 1
    assert "{252}, not 253" in capsys.readouterr().out


def test_nothing_at_all_is_no_proof(tmp_path: Path) -> None:
    (tmp_path / gpu_prepare.EXPECTED).write_text("{}")
    (tmp_path / gpu_run.RESULTS).write_text('{"machine": {}, "cases": {}}')
    tarfile.open(tmp_path / gpu_run.TRACES, "w:gz").close()
    assert gpu_judge.judge(tmp_path, tmp_path, "T1") == 1


def test_refusals(tmp_path: Path) -> None:
    (tmp_path / "begun").write_text('{"seq":3,"event":"stage"}\n')

    def verdict(**run: object) -> bool | None:
        results = gpu_judge.Results({"a": {"runs": [{"stdout": "", "stderr": "no libcuda", **run}]}}, tmp_path, "T2")
        return next(gpu_judge.verdicts({"a": [{"kind": "refusal", "text": "libcuda"}]}, results)).ok

    assert verdict(status=1)
    assert not verdict(status=0)
    assert not verdict(status=-11)
    assert not verdict(status="late")
    assert not verdict(status=1, stderr="something else")
    assert not verdict(status=1, stdout="1 2 3")
    assert not verdict(status=1, trace="begun")


STEPS_NS = 250_000


@pytest.mark.parametrize(
    ("limit", "share", "ok"), [(0.3, 0.5, True), (0.2, 0.5, False), (0.3, 0.9, False)], ids=["met", "slow", "share"]
)
def test_times(limit: float, share: float, ok: bool, tmp_path: Path) -> None:
    """600 MB in 0.25 ms is 53 % of a read rate of 4.5 TB/s that was measured in the same call."""
    device = {"device": "Device[0]", "ordinal": 0, "uuid": "a"}
    step = {"region": "r_step", "by": "graph", "recorded": 0, "emitted": 1, "vendor": 0, "host": 0, **device}
    made = [("run", {"schema": SCHEMA, "version": VERSION, "abi": 1, "unix_ns": 1}), *[("dispatch", step)] * 200]
    _write_trace(tmp_path / "trace", made)
    plugin = {"stdout": '{"what": "device read", "tb_per_s_best": 4.5}\n', "status": 0}
    runs = {"plugin": {"runs": [plugin]}, "a": {"runs": [{"status": 0, "trace": "trace"}]}}
    want = {"kind": "time", "lengths": [201], "at": 100, "limit_ms": limit, "share": share, "bytes": 600_000_000}
    row = next(gpu_judge.verdicts({"a": [want]}, gpu_judge.Results(runs, tmp_path, "T2")))
    assert row.ok is ok
    assert row.detail.startswith("0.250 ms at 100") and "53.3% of reading" in row.detail


def test_the_first_token_takes_prefill_and_its_reading(tmp_path: Path) -> None:
    phases: list[dict[str, object]] = [
        {"name": name, "edge": edge} for name in ("prefill", "decode") for edge in ("begin", "end")
    ]
    run: dict[str, object] = {"schema": SCHEMA, "version": VERSION, "abi": 1, "unix_ns": 1}
    _write_trace(tmp_path / "trace", [("run", run), *[("phase", phase) for phase in phases]])
    assert gpu_judge.first_token_ms(read_trace(tmp_path / "trace")) == pytest.approx(3 * STEPS_NS * 1e-6)


def _write_trace(path: Path, events: list[tuple[str, dict[str, object]]]) -> None:
    """A trace of events that are `STEPS_NS` apart."""
    lines = [
        json.dumps({"seq": i, "ns": i * STEPS_NS, "event": kind, **fields}) for i, (kind, fields) in enumerate(events)
    ]
    text = "".join(line + "\n" for line in lines)
    end = {"events": len(lines), "status": 0, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    text += json.dumps({"seq": len(lines), "ns": len(lines) * STEPS_NS, "event": "end", **end}) + "\n"
    path.write_text(text)


def test_the_8b_shape_does_not_fit_everywhere(tmp_path: Path) -> None:
    """By bytes alone: refused on 40 GB, and then there is nothing to build; admitted on 80 GB."""
    model = random_model("llama-3.1-8b", 1, tmp_path / "8B", "f32", 65536).dir
    program = ROOT / "programs" / "llama.vx"
    refused = vx.check(program, machine="a100-40", host="default", model=model)
    assert {found.code for found in refused.diagnostics if found.level is Level.ERROR} == {"E6010"}
    assert vx.check(program, machine="a100-80", host="default", model=model).ok
    with pytest.raises(CompileError, match="E6010"):
        vx.compile(program, machine="a100-40", host="default", model=model)


def test_moving_transfers_what_a_region_touches() -> None:
    text = """const N : i32 = 3;
fn twice(out : &mut Tensor<f32, [?]>) -> void {
  spawn on(Topology::CPU) { for i in 0..N { out[i] = out[i] * 2.0; } }
}
fn main() -> i32 {
  let mut a = Tensor<f32, [N]>::new();
  let mut other = Tensor<f32, [N]>::new();
  spawn on(Topology::CPU) { for i in 0..N { a[i] = 1.0; } }
  twice(&mut a);
  0
}
"""
    moved = gpu_programs.moved(text)
    assert "Topology::CPU" not in moved
    assert "out : &mut Tensor<f32, [?], Topology::Device[0]>" in moved
    assert moved.count("let mut on_device_a = transfer(a, Topology::Device[0]);") == 2
    assert moved.count("a = transfer(on_device_a, Memory::CPU_DRAM);") == 2
    assert "twice(&mut on_device_a);" in moved
    assert "on_device_other" not in moved


def test_tensors_in_structs_are_not_moved() -> None:
    assert gpu_programs.moved("fn main() -> i32 { 0 }\n") == "fn main() -> i32 { 0 }\n"
    with pytest.raises(gpu_programs.NotMovable):
        gpu_programs.moved("struct S { t : Tensor<f32, [3]> }\nfn main() -> i32 { spawn on(Topology::CPU) { }  0 }\n")


def test_most_programs_run_on_a_device() -> None:
    assert len(gpu_prepare.kernel_names()) >= 36


@pytest.mark.gpu
@pytest.mark.parametrize("group", [name for name in gpu_prepare.GROUPS if name != "plugin"])
def test_on_a_gpu(group: str, tmp_path: Path) -> None:
    if not gpu_run.device_count():
        pytest.skip("SKIPPED LOUDLY: there is no GPU here, so nothing ran on one; bench/gpu.py takes it to one")
    gpu_prepare.prepare(tmp_path / "gpu", None, [group])
    gpu_run.run_all(tmp_path / "gpu", tmp_path / "out", 600)
    status = gpu_judge.judge(tmp_path / "gpu", tmp_path / "out", "T2")
    shutil.rmtree(tmp_path / "gpu")
    assert status == 0

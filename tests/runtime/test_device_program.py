"""A program's side of its devices: the plugin beside the executable, failures that end it, evidence in its trace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from vx.codegen.plugin import DRIVERS, library_name, plugin_library, plugin_sources
from vx.codegen.target import native
from vx.evidence.checks import check
from vx.evidence.trace import read_trace
from vx.runtime.abi import EXIT_ABORT


@pytest.fixture(scope="module")
def folder(program: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The executable with its plugins, as an artifact has them."""
    folder = tmp_path_factory.mktemp("artifact")
    shutil.copy(program("devices"), folder / "program")
    for name in DRIVERS:
        shutil.copy(plugin_library(name, native()), folder / library_name(name))
    return folder


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"} | environment
    return subprocess.run(
        [folder / "program", *arguments], capture_output=True, text=True, check=False, env=environment
    )


def test_region_on_the_second_stand_in(folder: Path, tmp_path: Path) -> None:
    done = run(folder, "host", VX_TRACE=str(tmp_path / "trace"))
    assert (done.returncode, done.stdout) == (0, "3 6 9 12\n"), done.stderr
    events = [json.loads(line) for line in (tmp_path / "trace").read_text().splitlines()]
    kinds = [event["event"] for event in events]
    assert kinds[0] == "run" and kinds[-2:] == ["close", "end"]
    assert [e["device"] for e in events if e["event"] == "dispatch"] == ["Device[1]"]
    assert [(e["from"], e["to"]) for e in events if e["event"] in ("copy", "peer")] == [
        ("host", "Device[0]"),
        ("Device[0]", "Device[1]"),
        ("Device[1]", "host"),
    ]
    results = {result.name: result.ok for result in check(read_trace(tmp_path / "trace"))}
    assert [name for name, ok in results.items() if ok is False] == ["every device worked"], "Device[0] only held data"
    assert results["arena is the only drop"] and results["memory is flat"]


def test_tensors_move_between_any_layouts(folder: Path) -> None:
    """Host, one device, the other, host: each in every order of three dimensions, with gaps."""
    done = run(folder, "host")
    assert (done.returncode, done.stdout) == (0, "3 6 9 12\n"), done.stderr


def test_a_failure_ends_the_program_with_its_place(folder: Path, tmp_path: Path) -> None:
    done = run(folder, "host", "wrong", VX_TRACE=str(tmp_path / "trace"))
    assert done.returncode == EXIT_ABORT and done.stdout == ""
    assert "runs on Device[0], but" in done.stderr and "at devices.vx:7" in done.stderr
    events = [json.loads(line) for line in (tmp_path / "trace").read_text().splitlines()]
    assert [event["event"] for event in events[-2:]] == ["error", "end"]
    assert events[-1]["status"] == EXIT_ABORT


def test_compatibility_entries_need_open_devices(folder: Path) -> None:
    done = run(folder, "early")
    assert done.returncode == EXIT_ABORT and "no role of this program has opened any at devices.vx:7" in done.stderr


def test_a_plugin_that_is_not_there(folder: Path) -> None:
    done = run(folder, "rocm")
    assert done.returncode == EXIT_ABORT
    assert "libvx_rocm.so" in done.stderr and "beside the executable" in done.stderr


def test_no_gpu_is_an_error_and_nothing_else_runs(folder: Path) -> None:
    done = run(folder, "cuda")
    if "no GPU" not in done.stderr and "libcuda" not in done.stderr and done.returncode == 0:
        pytest.skip("this machine has GPUs")
    assert done.returncode == EXIT_ABORT and done.stdout == ""


def test_plugins_hold_nothing_of_this_machine(folder: Path) -> None:
    for name in DRIVERS:
        data = (folder / library_name(name)).read_bytes()
        assert len(data) < 200_000
        for word in (b"/work/", b"/home/", b"/tmp/", str(Path(__file__).parents[2]).encode()):
            assert word not in data, (name, word)


def test_every_source_belongs_to_a_plugin() -> None:
    used = {path for name in DRIVERS for path in plugin_sources(name)}
    assert {path for path in plugin_sources("host")[0].parent.glob("*.c")} <= used

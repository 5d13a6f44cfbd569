"""Start-up, arguments, statuses, aborts, threads and traces of whole programs."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from vx.runtime.abi import EXIT_ABORT

Build = Callable[[str], Path]
Done = subprocess.CompletedProcess[bytes]


def run(program: Build, *arguments: str | bytes, **environment: str) -> Done:
    return subprocess.run(
        [program("speak"), *arguments], capture_output=True, check=False, timeout=60, env={**os.environ, **environment}
    )


@pytest.mark.parametrize("threads", ["1", "2", "4"])
def test_every_index_runs_once(program: Build, threads: str) -> None:
    done = run(program, "jobs", VX_THREADS=threads)
    assert (done.returncode, done.stdout, done.stderr) == (0, threads.encode(), b"")


@pytest.mark.parametrize("threads", ["0", "-1", "two", "", "3x", "1025", "99999999999999999999"])
def test_bad_thread_count_is_refused(program: Build, threads: str) -> None:
    done = run(program, "threads", VX_THREADS=threads)
    message = f'vx: VX_THREADS is "{threads}": it must be a whole number from 1 to 1024\n'
    assert (done.returncode, done.stderr.decode()) == (EXIT_ABORT, message)


def test_threads_default_to_the_cores_we_may_use(program: Build) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "VX_THREADS"}
    command = ["taskset", "-c", str(min(os.sched_getaffinity(0))), str(program("speak")), "threads"]
    assert subprocess.run(command, capture_output=True, check=True, env=environment).stdout == b"1"


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("message", "the message"),
        ("index", "Vec: index 7 is outside 0..3"),
        ("negative", "memory: -1 bytes asked for, less than none"),
        ("huge", "memory: no room for 1152921504606846976 bytes"),
        ("twice", "memory: freed twice, or not from vx_alloc"),
        ("task", "inside a task"),
    ],
)
def test_aborts_flush_then_explain(program: Build, way: str, message: str) -> None:
    done = run(program, "abort", way, VX_THREADS="2")
    assert (done.returncode, done.stdout, done.stderr.decode()) == (EXIT_ABORT, b"before", f"vx: {message}\n")


@pytest.mark.parametrize(("status", "seen"), [("0", 0), ("3", 3), ("255", 255), ("-1", 255), ("256", 255), ("257", 1)])
def test_status_is_never_lost(program: Build, status: str, seen: int) -> None:
    assert run(program, "status", status).returncode == seen


def test_arguments_are_bytes(program: Build) -> None:
    done = run(program, "arguments", "a b", b"\xff\xfe", "")
    assert done.stdout == b"(none)\narguments\na b\n\xff\xfe\n\n(none)\n"


def test_cpu_level(program: Build) -> None:
    level = int(run(program, "level").stdout)
    flags = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), "")
    if flags:
        known = set(flags.split())
        assert (level >= 3) == ({"avx2", "fma", "bmi2", "f16c", "movbe"} <= known)
        assert (level >= 4) == ({"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512cd"} <= known)
        assert run(program, "level", VX_CPU_LEVEL="2").stdout == b"2"
    else:
        assert level == 0


@pytest.mark.parametrize("level", ["5", "", "x", "33"])
def test_cpu_level_can_only_be_lowered(program: Build, level: str) -> None:
    done = run(program, "level", VX_CPU_LEVEL=level)
    assert done.returncode == EXIT_ABORT
    assert done.stderr.decode().startswith(f'vx: VX_CPU_LEVEL is "{level}": it must be a whole number from ')


def test_trace_lines_are_json(program: Build, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    assert run(program, "trace", VX_TRACE=str(path)).returncode == 0
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert [e["event"] for e in events] == ["run", "phase", "value", "phase", "end"]
    assert [e.get("name") for e in events[1:4]] == ['one "quoted"\n', "bytes", "one"]
    assert [e.get("edge") for e in events[1:4]] == ["begin", None, "end"]
    assert events[2]["value"] == -5
    assert [e["ns"] for e in events] == sorted(e["ns"] for e in events)
    assert [e["seq"] for e in events] == list(range(5))


def test_trace_ends_with_what_came_before(program: Build, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    run(program, "trace", VX_TRACE=str(path))
    *before, last = path.read_bytes().splitlines(keepends=True)
    end = json.loads(last)
    assert (end["events"], end["status"]) == (len(before), 0)
    assert end["sha256"] == hashlib.sha256(b"".join(before)).hexdigest()


def test_trace_that_cannot_be_opened_is_refused(program: Build, tmp_path: Path) -> None:
    done = run(program, "trace", VX_TRACE=str(tmp_path / "no" / "trace"))
    assert done.returncode == EXIT_ABORT
    assert b"No such file or directory" in done.stderr

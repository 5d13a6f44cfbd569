"""Runs prepared artifacts, on a machine with a GPU: only Python's standard library is used here.

Enters: a folder that `gpu.py prepare` made, with `plan.json`. Leaves: `results.json` (what every run printed, how it ended
and how long it took) and `traces.tar.gz`. Nothing is judged here.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PLAN, RESULTS, TRACES = "plan.json", "results.json", "traces.tar.gz"
LONGEST = 400_000
"""Characters of a run's output that are kept."""
LEAST_S = 5.0
"""A case is not started with less time left."""


@dataclass(frozen=True, slots=True)
class Case:
    """A program to run: `program` and the values of `environment` that begin with `./` are relative to the folder.
    `devices` is how many it needs, `runs` how often it is run, `seconds` the limit of one run. A case whose `program`
    ends in `.py` is run by this Python, from the root of the checkout."""

    name: str
    program: str
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    devices: int = 1
    runs: int = 1
    seconds: float = 60.0
    traced: bool = True


def read_plan(folder: Path) -> list[Case]:
    """The cases, the important ones first."""
    plain = json.loads((folder / PLAN).read_text())
    return [
        Case(**{**case, "arguments": tuple(case["arguments"]), "environment": tuple(map(tuple, case["environment"]))})
        for case in plain
    ]


def run_all(folder: Path, out: Path, seconds: float) -> None:
    """Run every case that `seconds` in all and the machine's devices allow, and write what came of it after each."""
    out.mkdir(parents=True, exist_ok=True)
    begin, devices = time.monotonic(), device_count()
    results: dict[str, Any] = {"machine": about_machine(), "devices": devices, "cases": {}}
    with tarfile.open(out / TRACES, "w:gz", compresslevel=5) as traces:
        for case in read_plan(folder):
            left = seconds - (time.monotonic() - begin)
            results["cases"][case.name] = _case(case, folder, devices, left, traces)
            _say(case.name, results["cases"][case.name])
            (out / RESULTS).write_text(json.dumps(results, indent=1))
    print(f"{time.monotonic() - begin:.0f} s", flush=True)


def device_count() -> int:
    """GPUs that the driver lists, 0 without one."""
    return sum(line.startswith("GPU ") for line in _ask("nvidia-smi", "-L").splitlines())


def about_machine() -> dict[str, str]:
    query = "--query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem"
    return {
        "gpu": _ask("nvidia-smi", query, "--format=csv,noheader").strip(),
        "processors": str(os.cpu_count()),
        "processor": next((line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")), ""),
        "kernel": os.uname().release,
    }


def _cpuinfo() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []


def _ask(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _case(case: Case, folder: Path, devices: int, left: float, traces: tarfile.TarFile) -> dict[str, Any]:
    standin = not devices and any(folder.glob("*/libvx_host.so"))
    if case.devices > devices and not standin:
        return {"skipped": f"needs {case.devices} devices, there are {devices}", "runs": []}
    runs: list[dict[str, Any]] = []
    begin = time.monotonic()
    for number in range(case.runs):
        rest = left - (time.monotonic() - begin)
        if rest < LEAST_S:
            return {"skipped": "no time was left", "runs": runs}
        runs.append(_run(case, folder, min(case.seconds, rest), traces, f"{case.name}.{number}.jsonl"))
        if runs[-1]["status"] == "late":
            break
    return {"runs": runs}


def _run(case: Case, folder: Path, limit: float, traces: tarfile.TarFile, name: str) -> dict[str, Any]:
    trace = folder / "trace.jsonl"
    trace.unlink(missing_ok=True)
    environment = {**os.environ, **{key: _here(value, folder) for key, value in case.environment}}
    if case.traced:
        environment["VX_TRACE"] = str(trace)
    command = [str(folder / case.program), *case.arguments]
    if case.program.endswith(".py"):
        command = [sys.executable, case.program, *(_here(word, folder) for word in case.arguments)]
    begin = time.monotonic()
    status: int | str
    try:
        done = subprocess.run(command, capture_output=True, env=environment, timeout=limit, stdin=subprocess.DEVNULL, check=False)  # fmt: skip
        status, output, errors = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        status, output, errors = "late", late.stdout or b"", late.stderr or b""
    except OSError as error:
        status, output, errors = "unstartable", b"", str(error).encode()
    found = {
        "status": status,
        "seconds": time.monotonic() - begin,
        "stdout": output.decode("utf-8", "backslashreplace")[:LONGEST],
        "stderr": errors.decode("utf-8", "backslashreplace")[-LONGEST:],
    }
    if trace.exists():
        data = trace.read_bytes()
        member = tarfile.TarInfo(name)
        member.size = len(data)
        traces.addfile(member, io.BytesIO(data))
        found["trace"] = name
    return found


def _here(value: str, folder: Path) -> str:
    return str(folder.resolve() / value[2:]) if value.startswith("./") else value


def _say(name: str, result: dict[str, Any]) -> None:
    if "skipped" in result:
        print(f"{name:<28} skipped: {result['skipped']}", flush=True)
        return
    states = ",".join(str(run["status"]) for run in result["runs"])
    spent = sum(run["seconds"] for run in result["runs"])
    last = result["runs"][-1]["stderr"].strip().splitlines()[-1:] or [""]
    print(f"{name:<28} status {states:<8} {spent:6.1f} s  {last[0][:90]}", flush=True)

"""Decoding on this CPU against llama.cpp and against the memory's read rate.

    pip install -e '.[bench]'
    python bench/cpu.py

Random weights of the stories15M shape; greedy from BOS to 256 positions; only decode steps are timed, not
loading. Ours, llama.cpp (through `xllamacpp`, on a GGUF of the same weights), plain loops in C (f32, one thread) and
a loop that only reads as many bytes run in turns, and each figure is the median of all turns, with its range. Ours is the executable that
`vx build` makes; its time is the phase `decode` of its own trace. llama.cpp runs in the fastest of the
settings tried. Both must generate the same ids, up to a tie.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from gguf import write_gguf

import vx
from vx.model.info import ModelInfo
from vx.model.report import kv_bytes, weight_bytes
from vx.model.shapes import random_model
from vx.model.weights import array

HERE = Path(__file__).resolve().parent
PROGRAM = HERE.parent / "programs" / "llama.vx"
TIE = {"f32": 2e-3, "f16": 5e-2}
"""Ids may part where llama.cpp's two likeliest tokens differ by less than this (it rounds activations to f16)."""
FLOOR_PASSES = 21
PAUSE_S = 0.1
"""Idle time before each measurement, so that no thread of the one before still spins."""


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the result: an element type and a number of threads."""

    info: ModelInfo
    gguf: Path
    threads: int
    positions: int

    @property
    def step_bytes(self) -> int:
        """Bytes that one decode step must read: all weights and, on average, half of the cache."""
        unused = self.info.tensors["head"].bytes if self.info.architecture.tied else 0
        return weight_bytes(self.info) - unused + kv_bytes(self.info, self.positions // 2, 4)


# ---- llama.cpp ---------------------------------------------------------------------------------
class Peer:
    """A running llama.cpp process."""

    def __init__(self, process: subprocess.Popen[str], settings: str) -> None:
        self.process, self.settings = process, settings
        self.about = self._read()

    def decode(self, ids: bool = False) -> dict[str, Any]:
        pipe: IO[str] | None = self.process.stdin
        assert pipe is not None
        pipe.write(json.dumps({"ids": ids}) + "\n")
        pipe.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"llama.cpp ({self.settings}) ended with status {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def open_peer(case: Case, flash: bool, kv: str) -> Iterator[Peer]:
    settings = ["flash" if flash else "plain", kv]
    command = [
        sys.executable,
        str(HERE / "llamacpp.py"),
        str(case.gguf),
        str(case.threads),
        *settings,
        str(case.positions),
    ]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield Peer(process, f"{'flash' if flash else 'plain'} attention, {kv} cache")
    finally:
        process.stdin.close() if process.stdin else None
        process.wait(timeout=30)


def fastest_settings(case: Case) -> tuple[bool, str]:
    """llama.cpp's better attention, by the best of three; the cache is f32, as ours."""
    speeds = {}
    for flash in (False, True):
        with open_peer(case, flash, "f32") as peer:
            speeds[flash] = min(peer.decode()["seconds"] for _ in range(3))
    return min(speeds, key=lambda flash: speeds[flash]), "f32"


# ---- ours --------------------------------------------------------------------------------------
def our_decode(program: vx.Program, case: Case, trace: Path) -> dict[str, Any]:
    """Run the executable; seconds and steps of its decode phase, and the ids."""
    trace.unlink(missing_ok=True)
    settings = {"VX_THREADS": str(case.threads), "VX_TRACE": str(trace)}
    result = program.run(["--ids", "--no-stop", "--positions", str(case.positions)], env=settings)
    if result.status:
        raise SystemExit(f"{PROGRAM.name} ended with status {result.status}: {result.stderr}")
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    times = {event["edge"]: event["ns"] for event in events if event.get("name") == "decode"}
    ids = [int(word) for word in result.stdout.split()]
    if len(ids) != case.positions:
        raise SystemExit(f"{PROGRAM.name} printed {len(ids)} ids, not {case.positions}")
    return {"seconds": (times["end"] - times["begin"]) * 1e-9, "steps": case.positions - 2, "ids": ids}


# ---- a plain loop ------------------------------------------------------------------------------
PLAIN_ORDER = ("emb", "att_norm", "wq", "wk", "wv", "wo", "ffn_norm", "w1", "w3", "w2", "out_norm")


def prepare_plain(info: ModelInfo, folder: Path) -> list[str] | None:
    """The command that runs `plain.c` on the same weights; None where it cannot (it knows f32 and tied heads)."""
    if info.elem != "f32" or not info.architecture.tied:
        return None
    flat, program, shape = folder / "flat", folder / "plain", info.architecture
    with flat.open("wb") as file:
        for name in PLAIN_ORDER:
            file.write(array(info, name).tobytes())
    compile_c("plain.c", program, "-ffast-math", "-lm")
    figures = (shape.dim, shape.hidden, shape.layers, shape.heads, shape.kv_heads, shape.vocab)
    return [str(program), str(flat), *map(str, figures)]


def plain_decode(command: list[str], case: Case) -> dict[str, Any]:
    done = subprocess.run([*command, str(case.positions)], capture_output=True, text=True, check=True)
    seconds, ids = done.stdout.splitlines()
    return {"seconds": float(seconds), "steps": case.positions - 2, "ids": [int(word) for word in ids.split()]}


def compile_c(source: str, out: Path, *flags: str) -> None:
    compiler = [sys.executable, "-m", "ziglang", "cc", "-O3", "-march=native", "-pthread"]
    subprocess.run([*compiler, str(HERE / source), *flags, "-o", str(out)], check=True)


# ---- the floor ---------------------------------------------------------------------------------
def read_rate(program: Path, case: Case) -> float:
    """Bytes per second at which this machine reads as many bytes as a decode step: the median pass."""
    command = [str(program), str(case.step_bytes), str(case.threads), str(FLOOR_PASSES)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return 1e9 * statistics.median(float(word) for word in done.stdout.split())


# ---- comparison --------------------------------------------------------------------------------
def agreement(ours: list[int], peer: dict[str, Any], tie: float) -> str:
    """How far the ids agree; a difference that is no tie ends the benchmark."""
    theirs: list[int] = peer["ids"]
    for at, (left, right) in enumerate(zip(ours, theirs, strict=True)):
        if left != right:
            margin = peer["margins"][at - 1]
            if margin > tie:
                raise SystemExit(
                    f"ids differ at position {at} ({left}, {right}), and it is no tie: margin {margin:.4f}"
                )
            return f"ids agree for {at} positions, then a tie (margin {margin:.1e})"
    return f"all {len(ours)} ids agree"


def rate(run: dict[str, Any]) -> float:
    return float(run["steps"] / run["seconds"])


@dataclass(frozen=True, slots=True)
class Tools:
    """The programs to compare; a None is left out."""

    ours: vx.Program | None
    plain: list[str] | None
    floor: Path
    trace: Path


def measure(case: Case, tools: Tools, runs: int) -> dict[str, Any]:
    """One row: alternating runs of ours, llama.cpp, the plain loop (one thread) and the floor."""
    with open_peer(case, *fastest_settings(case)) as peer:
        decoders: dict[str, Callable[[], dict[str, Any]]] = {}
        ours, plain = tools.ours, tools.plain if case.threads == 1 else None
        if ours is not None:
            decoders["ours"] = lambda: our_decode(ours, case, tools.trace)
        if plain is not None:
            decoders["plain"] = lambda: plain_decode(plain, case)
        answer, tie = peer.decode(ids=True), TIE[case.info.elem]
        checks = {name: agreement(run()["ids"], answer, tie) for name, run in decoders.items()}
        decoders["peer"] = peer.decode
        rates: dict[str, list[float]] = {name: [] for name in (*decoders, "floor")}
        for _ in range(runs):
            for name, run in decoders.items():
                time.sleep(PAUSE_S)
                rates[name].append(rate(run()))
            time.sleep(PAUSE_S)
            rates["floor"].append(read_rate(tools.floor, case) / case.step_bytes)
    return {
        "elem": case.info.elem,
        "threads": case.threads,
        "step_bytes": case.step_bytes,
        "llama.cpp": peer.about | {"settings": peer.settings},
        "checks": checks,
        "rates": rates,
    }


def show(row: dict[str, Any]) -> None:
    """Print one row: medians, ranges, shares of the floor, ratios."""
    rates: dict[str, list[float]] = row["rates"]
    medians = {name: statistics.median(values) for name, values in rates.items()}
    threads = "1 thread" if row["threads"] == 1 else f"{row['threads']} threads"
    print(f"\n{row['elem']}, {threads}, {row['step_bytes'] / 1e6:.1f} MB a step")
    titles = {"ours": "vx", "peer": f"llama.cpp, {row['llama.cpp']['settings']}"}
    titles |= {"plain": "plain loops in C", "floor": "reading alone"}
    for name, values in rates.items():
        spread = f"({min(values):.1f} to {max(values):.1f})"
        share = "" if name == "floor" else f"{medians[name] / medians['floor']:.1%} of the floor"
        check = row["checks"].get(name, "")
        print(f"  {titles[name]:<38} {medians[name]:8.1f} tok/s {spread:<20} {share:<19} {check}".rstrip())
    for name in ("peer", "plain"):
        if "ours" in medians and name in medians:
            print(f"  vx / {titles[name]} = {medians['ours'] / medians[name]:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--like", default="stories15M", help="the shape (see `vx model random --help`)")
    parser.add_argument("--dtypes", default="f32,f16")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--positions", type=int, default=256)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also write every measurement to this file")
    parser.add_argument("--peer-only", action="store_true", help="measure llama.cpp and the floor alone")
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} processors, median of {options.runs}, {options.positions} positions")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        floor = folder / "read_floor"
        compile_c("read_floor.c", floor)
        for elem in options.dtypes.split(","):
            info = random_model(options.like, options.seed, folder / elem, elem)
            gguf = folder / f"{elem}.gguf"
            write_gguf(info, gguf)
            ours = None if options.peer_only else vx.compile(PROGRAM, model=info.dir)
            tools = Tools(ours, prepare_plain(info, folder), floor, folder / "trace")
            for threads in map(int, options.threads.split(",")):
                case = Case(info, gguf, threads, options.positions)
                rows.append(measure(case, tools, options.runs))
                show(rows[-1])
    if not rows:
        raise SystemExit("nothing was measured")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    print(
        f"\nllama.cpp as packaged in xllamacpp {rows[0]['llama.cpp']['version']}: {rows[0]['llama.cpp']['built_for']}"
    )


if __name__ == "__main__":
    main()

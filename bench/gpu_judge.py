"""Verdicts on what a GPU machine brought back.

Enters: the folder of `gpu.py prepare`, and the results and traces of `gpu.py run`. Leaves: a table with one row for each
thing that must hold, and an exit status: 0 if every row holds or is about what the machine did not have.
"""

from __future__ import annotations

import json
import math
import re
import statistics
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from gpu_prepare import EXPECTED
from gpu_programs import LOGITS
from gpu_run import RESULTS, TRACES

from vx.evidence.checks import check, switches, tier
from vx.evidence.trace import Event, Trace, TraceError, read_trace

STEP = "_step"
"""The end of the name of the region that decodes one token."""
WINDOW = 32
"""Steps on either side of a position that its time is the mean of."""

Wanted = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """One verdict. `ok` None: there was nothing to look at, and `detail` says why."""

    case: str
    what: str
    ok: bool | None
    tier: str
    detail: str


@dataclass(frozen=True, slots=True)
class Results:
    """All that came back. `artifacts` are the digests of what was sent, by the case that runs it."""

    cases: dict[str, Any]
    folder: Path
    tier: str

    def runs(self, case: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.cases.get(case, {}).get("runs", [])
        return found

    def traces(self, case: str) -> list[Trace]:
        """Raises `TraceError` if one proves nothing."""
        return [read_trace(self.folder / run["trace"]) for run in self.runs(case) if "trace" in run]

    def ids(self, case: str) -> list[int]:
        return [int(word) for word in self.runs(case)[0]["stdout"].split()]


def judge(folder: Path, out: Path, least: str = "T2") -> int:
    """Print the table. Returns the exit status."""
    results = json.loads((out / RESULTS).read_text())
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(out / TRACES) as traces:
            traces.extractall(scratch, filter="data")
        rows = list(
            verdicts(json.loads((folder / EXPECTED).read_text()), Results(results["cases"], Path(scratch), least))
        )
    print(", ".join(f"{name}: {value}" for name, value in results["machine"].items() if value))
    for row in rows:
        mark = {True: "ok", False: "FAILED", None: "–"}[row.ok]
        print(f"{mark:<7}{row.tier:<4}{row.case:<26}{row.what:<10}{row.detail}")
    failed = sum(row.ok is False for row in rows)
    held = sum(row.ok is True for row in rows)
    print(f"{held} hold, {failed} failed, {len(rows) - held - failed} not looked at")
    return int(failed > 0 or not held)


def verdicts(expected: dict[str, list[Wanted]], results: Results) -> Iterator[Row]:
    """One row for each thing wanted of each case."""
    for case, wanted in expected.items():
        yield from _case(case, wanted, results)


def _case(case: str, wanted: Sequence[Wanted], results: Results) -> Iterator[Row]:
    skipped = results.cases.get(case, {"skipped": "it was not run"}).get("skipped")
    if skipped is not None:
        yield Row(case, "run", None if skipped.startswith("needs") else False, "", f"SKIPPED: {skipped}")
        return
    refusal = any(want["kind"] == "refusal" for want in wanted)
    bad = [run for run in results.runs(case) if run["status"] != 0]
    if bad and not refusal:
        last = bad[0]["stderr"].strip().splitlines()[-1:] or [""]
        yield Row(case, "run", False, "", f"status {bad[0]['status']}: {last[0]}")
        return
    for want in wanted:
        try:
            ok, detail = CHECKS[want["kind"]](case, want, results)
        except (TraceError, ValueError, LookupError) as error:
            ok, detail = False, f"{type(error).__name__}: {error}"
        yield Row(case, want["kind"], ok, _tier(case, results), detail)


def _tier(case: str, results: Results) -> str:
    try:
        return min((tier(trace) for trace in results.traces(case)), default="")
    except TraceError:
        return ""


Verdict = tuple[bool | None, str]


# ---- what came out ------------------------------------------------------------------------------------
def _ids(case: str, want: Wanted, results: Results) -> Verdict:
    """The ids of every run; `at_least`: as many from the start suffice, where a tie may be decided otherwise."""
    expected, worst = want["ids"], len(want["ids"])
    for run in results.runs(case):
        got = [int(word) for word in run["stdout"].split()]
        if len(got) != len(expected):
            return False, f"{len(got)} ids, not {len(expected)}"
        worst = min(worst, _agreement(got, expected))
    return worst >= want.get("at_least", len(expected)), f"{worst} of {len(expected)} ids agree"


def _agreement(got: Sequence[int], expected: Sequence[int]) -> int:
    differing = (at for at, (a, b) in enumerate(zip(got, expected, strict=False)) if a != b)
    return next(differing, min(len(got), len(expected)))


def _same(case: str, want: Wanted, results: Results) -> Verdict:
    worst = _agreement(results.ids(case), results.ids(want["as"]))
    return worst >= want["at_least"], f"{worst} of {len(results.ids(case))} ids agree with {want['as']}"


def _numbers(case: str, want: Wanted, results: Results) -> Verdict:
    """|got - wanted| <= absolute + relative * |wanted|, or both are NaN or the same infinity."""
    got = [float(word) for word in re.split(r"[\s\[\],]+", results.runs(case)[0]["stdout"]) if word]
    expected = want["numbers"]
    if len(got) != len(expected):
        return False, f"{len(got)} numbers, not {len(expected)}"
    worst, at = 0.0, 0
    for number, (a, b) in enumerate(zip(got, expected, strict=True)):
        if a == b or (a != a and b != b):
            continue
        allowed = want["absolute"] + want["relative"] * abs(b)
        share = abs(a - b) / allowed if allowed and abs(a - b) < float("inf") else float("inf")
        if not share <= worst:
            worst, at = share, number
    detail = f"{len(got)} numbers, largest difference {worst:.2g} of what is allowed"
    return worst <= 1, detail if worst <= 1 else f"{detail}: number {at} is {got[at]}, not {expected[at]}"


def _logits(case: str, want: Wanted, results: Results) -> Verdict:
    """Rows of logits against float64, by the norm of the difference over the norm of what should be."""
    lines = [line for line in results.runs(case)[0]["stdout"].splitlines() if line.startswith(LOGITS)]
    rows = [[float(word) for word in line[len(LOGITS) :].split()] for line in lines]
    if [len(row) for row in rows] != [len(row) for row in want["rows"]]:
        return False, f"{len(rows)} rows of logits, not {len(want['rows'])}"
    error = _distance([*chain(*rows)], [*chain(*want["rows"])])
    worst = max(_distance(row, wanted) for row, wanted in zip(rows, want["rows"], strict=True))
    text = f"relative error {error:.2e} over {len(rows)} positions, {worst:.2e} at the worst one; limit {want['limit']}"
    return error <= want["limit"], text


def _distance(got: Sequence[float], wanted: Sequence[float]) -> float:
    return math.dist(got, wanted) / math.hypot(*wanted)


def _refusal(case: str, want: Wanted, results: Results) -> Verdict:
    """It ended with the message, and before anything was loaded, computed or printed."""
    run = results.runs(case)[0]
    said, trace = run["stderr"].strip(), results.folder / run.get("trace", "none")
    begun = trace.exists() and re.search(r'"event":"(stage|dispatch|copy)"', trace.read_text()) is not None
    told = isinstance(run["status"], int) and run["status"] > 0 and re.search(want["text"], said) is not None
    detail = f"status {run['status']}: {said[-110:]}"
    return told and not begun and not run["stdout"].strip(), f"{detail}; it had begun" if begun else detail


def _plugin(case: str, want: Wanted, results: Results) -> Verdict:
    lines = [json.loads(line) for line in results.runs(case)[0]["stdout"].splitlines() if line.startswith("{")]
    end = [line for line in lines if line["what"] == "end"]
    return bool(end) and not end[0]["failed"], f"{sum(line.get('ok') is True for line in lines)} checks, failed: {end[0]['failed'] if end else 'it did not end'}"  # fmt: skip


def read_rate(results: Results) -> float | None:
    """Bytes per second that the device reads at best, as `gpu_plugin.py` measured it in the same call."""
    lines = [line for run in results.runs("plugin") for line in run["stdout"].splitlines() if '"device read"' in line]
    return max((json.loads(line)["tb_per_s_best"] * 1e12 for line in lines), default=None)


# ---- evidence ----------------------------------------------------------------------------------------
def _evidence(case: str, want: Wanted, results: Results) -> Verdict:
    """Every run has a trace, every check on it holds (but those that `except` names), and it proves what was asked."""
    traces = results.traces(case)
    if len(traces) != len(results.runs(case)):
        return False, "a run left no trace"
    for trace in traces:
        failed = [found for found in check(trace) if found.ok is False and found.name not in want.get("except", ())]
        wrong = [f"{found.name}: {found.detail}" for found in failed]
        if wrong:
            return False, "; ".join(wrong)
        if tier(trace) < results.tier:
            return False, f"it proves {tier(trace)}, not {results.tier}"
        if "switches" in want and switches(trace) != want["switches"]:
            return False, f"{switches(trace)} switches between devices, not {want['switches']}"
        if "steps" in want and (found := _steps(trace)) - {want["steps"]}:
            return False, f"steps issued and steps counted on the device: {found}, not {want['steps']}"
    steps = f"{want['steps']} steps, " if "steps" in want else ""
    return True, f"{len(traces)} traces, {steps}{_memory(traces[0])}"


def _steps(trace: Trace) -> set[int]:
    """How many tokens' steps were issued, and how many the devices counted, where they count."""
    issued = sum(event.text("region").endswith(STEP) for event in trace.of("dispatch"))
    counts = [event.number("count") for event in trace.of("counter") if event.text("region").endswith(STEP)]
    return {issued, sum(counts)} if counts else {issued}


def _memory(trace: Trace) -> str:
    memory = [f"arena {e.number('arena_bytes')}, driver_bytes {e.number('driver_bytes')}" for e in trace.of("memory")]
    loaded = sum(event.number("loaded_bytes") for event in trace.of("traffic"))
    return f"{'; '.join(memory)}, weights {loaded}"


# ---- time --------------------------------------------------------------------------------------------
def decode_seconds(trace: Trace) -> float:
    """Length of the phase `decode`."""
    edges = {event.text("edge"): event.ns for event in trace.of("phase") if event.text("name") == "decode"}
    return (edges["end"] - edges["begin"]) * 1e-9


def slopes(results: Results, case: str, lengths: Sequence[int]) -> list[float]:
    """Milliseconds a token between two lengths: runs of both, in pairs."""
    both = (map(decode_seconds, results.traces(name)) for name in (f"{case} {lengths[0]}", case))
    return [(b - a) / (lengths[1] - lengths[0]) * 1e3 for a, b in zip(*both, strict=False)]


def first_token_ms(trace: Trace) -> float:
    """From the start of prefill until the first token was read, in a run that generates no other."""
    edges = {(event.text("name"), event.text("edge")): event.ns for event in trace.of("phase")}
    return (edges["decode", "end"] - edges["prefill", "begin"]) * 1e-6


def step_ms(trace: Trace, at: int) -> float:
    """Milliseconds a token around a position: the spacing of the steps that were issued there."""
    steps = [event for event in trace.of("dispatch") if event.text("region").endswith(STEP)]
    first, last = at - WINDOW, at + WINDOW
    if first < 0 or last >= len(steps):
        raise ValueError(f"there are {len(steps)} steps, none around {at}")
    return (steps[last].ns - steps[first].ns) / (last - first) * 1e-6


def _slowest(trace: Trace) -> str:
    steps: list[Event] = [event for event in trace.of("dispatch") if event.text("region").endswith(STEP)]
    gaps = sorted((b.ns - a.ns) * 1e-6 for a, b in pairwise(steps))
    recorded = sum(event.number("recorded") for event in steps)
    return f"slowest step {gaps[-1]:.3f}, {recorded} graphs recorded"


def _time(case: str, want: Wanted, results: Results) -> Verdict:
    traces = results.traces(case)
    here = [step_ms(trace, want["at"]) for trace in traces]
    ms = statistics.median(here)
    text = f"{ms:.3f} ms at {want['at']} ({min(here):.3f} to {max(here):.3f}; limit {want['limit_ms']})"
    if len(want["lengths"]) > 1:
        whole = statistics.median(slopes(results, case, want["lengths"]))
        text += f", {whole:.3f} from {want['lengths'][0]} to {want['lengths'][1]}"
    text += f", {_slowest(traces[0])}"
    rate, share = read_rate(results), None
    if rate is not None:
        share = want["bytes"] / rate / (ms * 1e-3)
        text += f", {share:.1%} of reading {want['bytes']} bytes at {rate / 1e12:.2f} TB/s"
    return ms <= want["limit_ms"] and (share is None or share >= want["share"]), text


def _first(case: str, want: Wanted, results: Results) -> Verdict:
    """How long the first token takes; graphs of the prompt's blocks are recorded in this time."""
    found = [first_token_ms(trace) for trace in results.traces(case)]
    return None, f"{statistics.median(found):.2f} ms until the first token ({min(found):.2f} to {max(found):.2f})"


def _faster(case: str, want: Wanted, results: Results) -> Verdict:
    """Decoding takes less time than on the CPU, in the same call."""
    ours, theirs = (statistics.median(slopes(results, name, want["lengths"])) for name in (case, want["than"]))
    detail = f"{ours:.3f} ms a token, {want['than']} {theirs:.3f}: {theirs / ours:.2f} times as fast"
    return ours < theirs if want["required"] else None, detail


CHECKS: dict[str, Callable[[str, Wanted, Results], Verdict]] = {
    "ids": _ids,
    "same": _same,
    "numbers": _numbers,
    "logits": _logits,
    "refusal": _refusal,
    "plugin": _plugin,
    "evidence": _evidence,
    "time": _time,
    "first": _first,
    "faster": _faster,
}

"""From samples to figures: tables that never fall, impossible figures, calibration, and the machine file's text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import vx
from vx import resources
from vx.diagnostics.report import Reporter
from vx.diagnostics.source import SourceMap
from vx.diagnostics.span import NOWHERE
from vx.machine.load import load_file, load_machine
from vx.machine.units import duration_ps
from vx.probe.calibrate import Result, calibrate
from vx.probe.campaign import Kind, Link, Medians, Points, Reading, links, never_falling, quicker_of_two, table_of
from vx.probe.peaks import best_rate, gigabytes, impossible_reading, impossible_times
from vx.probe.probe import predicted
from vx.probe.report import note_of, report
from vx.probe.write import Facts, machine_text, time_text
from vx.syntax.ast import Quantity

COPY, NETWORK = links("loopback", quick=True)
READING = Reading(one=20e9, all=30e9, cached=100e9)
FACTS = Facts(
    "2026-11-29T23:10:02Z", 'a "processor" \\ of\nours, 2 threads', "Linux 6", "vx 1", "loopback", "x86_64", 4, 2,
    8 << 30, 256 << 20, (replace(READING, all=20e9), READING),
)  # fmt: skip


def true_time(kind: Kind, size: int) -> float:
    """Nanoseconds: a knee at 256 KiB for copies, a latency for the network."""
    return 300 + size / 20 + max(size - (256 << 10), 0) / 30 if kind == "copy" else 15_000 + size / 3


def machine(*drifts: float) -> Callable[[Sequence[tuple[Kind, int]]], Medians]:
    """Measures `true_time`, each campaign slower by its factor; the last one's goes on."""
    campaigns = iter(drifts)
    last = [1.0]

    def measure(work: Sequence[tuple[Kind, int]]) -> Medians:
        last[0] = next(campaigns, last[0])
        return {(kind, size): true_time(kind, size) * last[0] for kind, size in work}

    return measure


def predict(tables: Mapping[Link, Points], link: Link, sizes: Sequence[int]) -> list[int]:
    return predicted(machine_text(FACTS, (COPY, NETWORK), tables, {}), link, sizes)


def calibrated(*drifts: float, attempts: int = 1, refusal: str | None = None) -> list[Result]:
    return calibrate(
        (COPY, NETWORK), machine(*drifts), predict, lambda tables, link: refusal, lambda done: done < attempts
    )


# ---- tables ----
@given(st.lists(st.floats(1, 1e9), min_size=1, max_size=30))
def test_tables_never_fall_and_never_rise_above_a_sample(values: list[float]) -> None:
    times = never_falling(values)
    assert all(one <= other for one, other in pairwise(times))
    assert all(mine <= measured for mine, measured in zip(times, values, strict=True))
    assert set(times) <= set(values) and times[-1] == values[-1]
    assert never_falling(sorted(values)) == sorted(values)


def test_a_size_that_was_held_up_gets_the_time_of_a_larger_one() -> None:
    assert never_falling([1, 5, 3, 4, 10, 9, 20]) == [1, 3, 3, 4, 9, 9, 20]


def test_the_quicker_of_two() -> None:
    assert quicker_of_two([5, 3, 2, 9, 1]) == [3, 2]
    assert quicker_of_two([5]) == [5]


def test_sizes_of_tables_and_of_checks_are_apart() -> None:
    for quick in (False, True):
        for link in links("loopback", quick):
            assert len(link.sizes) >= 5 and len(link.held_out) >= 6
            assert not set(link.sizes) & set(link.held_out)
            assert link.sizes[0] < min(link.held_out) and max(link.held_out) < link.sizes[-1]


# ---- impossible figures ----
def test_memory_is_not_quicker_than_caches() -> None:
    assert impossible_reading(READING) is None
    assert "caches at 29 GB/s" in (impossible_reading(replace(READING, cached=29e9)) or "")
    assert "one thread" in (impossible_reading(Reading(31e9, 30e9, 30e9)) or "")


@pytest.mark.parametrize(
    ("points", "peak", "words"),
    [
        (((1000, 100), (2000, 200)), 10e9, None),
        (((1000, 100), (2000, 200)), None, None),
        (((1000, 100), (2000, 199)), 10e9, "2000 bytes moved at 10.05 GB/s, above the caches, 10 GB/s"),
        (((1000, 1), (2000, 200)), None, "no time"),
        (((1000, 200), (2000, 200)), None, "same time"),
    ],
)
def test_times_that_cannot_be(points: Points, peak: float | None, words: str | None) -> None:
    found = impossible_times(points, peak, "the caches")
    assert found is None if words is None else words in (found or "")
    assert best_rate(((1000, 100), (2000, 100))) == 20e9


# ---- calibration ----
def test_a_quiet_machine_is_calibrated() -> None:
    """The table predicts within a percent what it was not made from, knee included."""
    for result in calibrated(1, 1):
        assert result.state == "calibrated" and result.settled and result.attempt == 1
        assert result.error < 0.02 and result.difference == 0
        assert [check.size for check in result.checks] == list(result.link.held_out)
        assert result.points == table_of(result.link, {key: true_time(*key) for key in work_of(result.link)})


def work_of(link: Link) -> list[tuple[Kind, int]]:
    return [(link.kind, size) for size in link.sizes]


@pytest.mark.parametrize(
    ("drifts", "state"),
    [
        ((1, 1.2), "calibrated"),
        ((1, 1.26), "not calibrated"),
        ((1.26, 1), "not calibrated"),
        ((2, 1), "not calibrated"),
    ],
)
def test_two_repeats_decide(drifts: tuple[float, ...], state: str) -> None:
    """Up to a quarter apart an error as large is tolerated; beyond, nothing is claimed, and both are said."""
    for result in calibrated(*drifts):
        assert result.state == state
        assert result.difference == pytest.approx(max(drifts) / min(drifts) - 1)
        text = "\n".join(report(result))
        for check in result.checks:
            assert time_text(round(check.earlier)) in text and time_text(round(check.measured)) in text
        assert ("took" in note_of(result)) == (state == "not calibrated")


def test_a_wrong_prediction_on_a_quiet_machine_is_inaccurate() -> None:
    def doubled(tables: Mapping[Link, Points], link: Link, sizes: Sequence[int]) -> list[int]:
        return [2 * time for time in predict(tables, link, sizes)]

    for result in calibrate((COPY,), machine(1), doubled, lambda tables, link: None, lambda done: False):
        assert result.state == "inaccurate" and result.error == pytest.approx(1, abs=0.02)


def test_another_attempt_starts_from_the_last_measurement() -> None:
    """A burst spoils the first repeat only; the second and third agree."""
    results = calibrated(3, 1, 1, attempts=5)
    assert [(result.state, result.attempt) for result in results] == [("calibrated", 2)] * 2
    assert all(result.points[0][1] < 2 * true_time(result.link.kind, result.points[0][0]) for result in results)


def test_the_attempt_whose_repeats_agree_best_counts() -> None:
    results = calibrated(1, 2, 2.4, 6, attempts=3)
    assert [(result.state, result.attempt) for result in results] == [("calibrated", 2)] * 2
    assert [result.attempt for result in calibrated(1, 2, 4, 8, attempts=1)] == [1, 1]


def test_an_impossible_table_predicts_nothing() -> None:
    for result in calibrated(1, 1, attempts=3, refusal="too quick"):
        assert result.state == "refused" and result.checks[0].predicted is None
        assert list(report(result))[1:] == ["  too quick"] and note_of(result) == "refused: too quick"


# ---- the machine file ----
def text_of(*kept: Link, readings: tuple[Reading, ...] = FACTS.readings) -> str:
    tables = {link: table_of(link, {key: true_time(*key) for key in work_of(link)}) for link in kept}
    notes = {COPY: "held out: median error 1.0 %", NETWORK: "not calibrated: 1 us and 2 us"}
    return machine_text(replace(FACTS, readings=readings), (COPY, NETWORK), tables, notes)


def test_the_file_declares_what_cpu_vx_declares(tmp_path: Path) -> None:
    path = tmp_path / "here.vx"
    path.write_text(text_of(COPY, NETWORK), encoding="utf-8")
    reporter = Reporter()
    here = load_machine(path, "default", reporter, SourceMap(), "x86_64")
    generic = load_file(resources.find("fleet", "cpu.vx"), reporter, SourceMap())
    assert not reporter.diagnostics
    edges = {(edge.source, edge.target) for edge in here.edges}
    assert {(edge.source, edge.target) for edge in generic.edges} <= edges
    priced = {(edge.source, edge.target) for edge in here.edges if edge.table}
    assert priced == {*COPY.edges, *NETWORK.edges}
    memory, device = here.spaces["HBM"], here.topologies["Device"]
    assert (memory.capacity, memory.managed, memory.scope) == (8 << 30, "explicit", "device")
    assert memory.bandwidth is not None and memory.bandwidth.bytes == 30 * 10**9
    assert (device.visible, device.arch, device.isa) == (("HBM",), "x86_64", "x86_64_v4")
    mark = here.measurements[str(path)]
    assert (mark.part, mark.network) == ("a  processor    of ours, 2 threads", "loopback")
    assert memory.measured and device.measured and all(edge.measured for edge in here.edges if edge.table)


def test_what_is_not_calibrated_has_no_figure(tmp_path: Path) -> None:
    path = tmp_path / "here.vx"
    path.write_text(text_of(COPY, readings=()), encoding="utf-8")
    reporter = Reporter()
    here = load_file(path, reporter, SourceMap())
    assert not reporter.diagnostics
    assert here.spaces["HBM"].bandwidth is None
    assert {(edge.source, edge.target) for edge in here.edges if edge.table} == set(COPY.edges)
    assert "-> Memory::Remote_HBM  // spec: not calibrated: 1 us and 2 us\n" in path.read_text(encoding="utf-8")


def test_programs_are_admitted_on_it(tmp_path: Path) -> None:
    path = tmp_path / "here.vx"
    path.write_text(text_of(COPY, NETWORK), encoding="utf-8")
    found = vx.check(resources.find("programs", "llama.vx"), machine=path, host="default")
    assert found.ok, str(found)


@given(st.integers(1, 10**12))
def test_times_are_written_exactly(nanoseconds: int) -> None:
    number, unit = time_text(nanoseconds).split()
    assert duration_ps(Quantity(NOWHERE, number, unit, None)) == nanoseconds * 1000


def test_rates_are_written_in_megabytes() -> None:
    assert [gigabytes(rate) for rate in (30e9, 30.4996e9, 1e6)] == ["30 GB/s", "30.5 GB/s", "0.001 GB/s"]

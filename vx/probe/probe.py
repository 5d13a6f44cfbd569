"""`vx machine probe`, without its command line: from a machine to its measured machine file.

Enters: a `Request`. Leaves: an `Outcome`, the text of the machine file and what its tables predicted. The processor is
measured, its memory, and the network to a peer or, without one, over loopback.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from vx import __version__
from vx.machine.cost import hop_cost
from vx.machine.load import host_architecture
from vx.probe import campaign, native, peaks, system
from vx.probe.calibrate import Result, calibrate
from vx.probe.campaign import MIB, Kind, Link, Medians, Points, Reading
from vx.probe.report import note_of
from vx.probe.reread import picoseconds, reread
from vx.probe.write import Facts, machine_text

ROUNDS, QUICK_ROUNDS, READINGS = 64, 60, 60
ATTEMPTS = 5
SECONDS, QUICK_SECONDS = 60, 20
"""What all measurements together may take: an attempt that may not end by then is not begun."""
LOOPBACK_SECONDS = 300
LOOPBACK = "loopback"
_THIS_MACHINE = ("to 127.", "to localhost:", "to [::1]:", "to :")

Progress = Callable[[str, int, int], None]
"""Told what is being measured, how many samples were taken and how many there will be."""


@dataclass(frozen=True, slots=True)
class Request:
    """`peer` HOST:PORT of a serving probe, or None for loopback; `quick` leaves large sizes and repetition out."""

    peer: str | None = None
    quick: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """A machine file and how it came about. `refusal` says why the memory's rate was refused, if it was."""

    text: str
    results: tuple[Result, ...]
    refusal: str | None
    load: float
    seconds: float

    @property
    def calibrated(self) -> bool:
        """Whether every figure stands."""
        return self.refusal is None and all(result.state == "calibrated" for result in self.results)


def probe(request: Request, progress: Progress) -> Outcome:
    """Measure this machine. Raises E9040 (it cannot be measured) and what building the native program raises."""
    program = native.built()
    began, load = time.monotonic(), system.load()
    until = began + (QUICK_SECONDS if request.quick else SECONDS)
    block = min(max(8 * system.largest_cache_bytes(), 256 * MIB), system.available_bytes() // 4)

    def read() -> Reading:
        return campaign.read_memory(program, block, READINGS, _steps(progress, "reading memory", 3 * READINGS + 1))

    reading = read()
    with _peer(program, request.peer) as (address, network):
        facts = _facts(program, network, block)
        links = campaign.links(network, request.quick)
        bench = _Bench(program, address, QUICK_ROUNDS if request.quick else ROUNDS, progress, until)
        peak = partial(_peak, reading=reading, network=network)
        results = calibrate(
            links, bench.measure, partial(_predict, facts, links), partial(_refuse, peak), bench.has_time
        )
    readings = (reading, read())
    refusal = next(filter(None, map(peaks.impossible_reading, readings)), None)
    kept = {result.link: result.points for result in results if result.state in ("calibrated", "inaccurate")}
    notes = {result.link: note_of(result) for result in results}
    text = machine_text(replace(facts, readings=() if refusal else readings), links, kept, notes)
    return Outcome(text, tuple(results), refusal, load, time.monotonic() - began)


@dataclass(slots=True)
class _Bench:
    """Runs campaigns until a point in time; `spent` is what the last one took."""

    program: Path
    peer: str
    rounds: int
    progress: Progress
    until: float
    spent: float = 0.0

    def measure(self, work: Sequence[tuple[Kind, int]]) -> Medians:
        began = time.monotonic()
        pieces = len(work) + any(kind == "network" for kind, _ in work)
        advance = _steps(self.progress, "measuring transfers", pieces * self.rounds)
        medians = campaign.measure(self.program, self.peer, work, self.rounds, random.getrandbits(62), advance)
        self.spent = time.monotonic() - began
        return medians

    def has_time(self, attempts: int) -> bool:
        return attempts < ATTEMPTS and time.monotonic() + self.spent < self.until


def _predict(
    facts: Facts, links: Sequence[Link], tables: Mapping[Link, Points], link: Link, sizes: Sequence[int]
) -> list[int]:
    return predicted(machine_text(facts, links, tables, {}), link, sizes)


def predicted(text: str, link: Link, sizes: Sequence[int]) -> list[int]:
    """Picoseconds of the link's first edge, by the machine file `text`, written and read as any other."""
    source, target = link.edges[0]
    machine = reread(text)
    return picoseconds(hop_cost(machine, source, target, size) for size in sizes)


Peak = Callable[[Mapping[Link, Points], Link], tuple[float | None, str]]
"""The rate that a link cannot exceed, bytes per second, and what it is."""


def _refuse(peak: Peak, tables: Mapping[Link, Points], link: Link) -> str | None:
    return peaks.impossible_times(tables[link], *peak(tables, link))


def _peak(tables: Mapping[Link, Points], link: Link, reading: Reading, network: str) -> tuple[float | None, str]:
    if link.kind == "copy":
        return reading.cached, "the rate at which all threads read their caches"
    if network == LOOPBACK or network.startswith(_THIS_MACHINE):
        copies = next(points for other, points in tables.items() if other.kind == "copy")
        return peaks.best_rate(copies), "the best rate of a copy"
    return system.network_rate(), "the fastest network card"


def _facts(program: Path, network: str, block: int) -> Facts:
    found = dict(line.split(" ", 1) for line in native.lines(program, ["facts"], "asking the processor"))
    threads, level = int(found["threads"]), int(found["level"])
    return Facts(
        date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        part=f"{system.processor()}, {threads} threads",
        driver=system.kernel(),
        tool=f"vx {__version__}",
        network=network,
        arch=host_architecture(),
        level=level,
        threads=threads,
        capacity=system.available_bytes(),
        block=block,
    )


@contextmanager
def _peer(program: Path, peer: str | None) -> Iterator[tuple[str, str]]:
    """The address to send to, and what to call the network."""
    if peer is not None:
        yield peer, f"to {peer}"
        return
    with native.serving(program, "127.0.0.1:0", LOOPBACK_SECONDS) as (_, port):
        yield f"127.0.0.1:{port}", LOOPBACK


def _steps(progress: Progress, what: str, total: int) -> Callable[[int], None]:
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        progress(what, done, total)

    return advance

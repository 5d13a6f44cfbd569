"""`vx machine probe --from`, without its command line: from what the native program found to a measured machine file.

Enters: a `Run`. Leaves: a `GpuOutcome`: the machine file's text, and for each way what its table predicted, by the cost
functions that programs are predicted with, from a machine file that was written and read back. Tables are made of the
first repeat of device 0; the second repeat, and what the other devices did, checks them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vx.machine.cost import hop_cost, peer_cost
from vx.machine.measured import LEAST_POINTS
from vx.probe import peaks
from vx.probe.calibrate import DIFFER_AT_MOST, Check, Result
from vx.probe.campaign import Kind, Link, Points, table_of
from vx.probe.gpu_folder import HELD_OUT
from vx.probe.gpu_result import Gpu, Run, Way, no_result
from vx.probe.gpu_write import GpuFacts, machine_text
from vx.probe.report import note_of
from vx.probe.reread import picoseconds, reread

LEAST_HELD_OUT = 6
PRICES: Mapping[Kind, Kind] = {
    "in": "in",
    "out": "out",
    "pinned_in": "in",
    "pinned_out": "out",
    "load": "in",
    "peer": "peer",
}
"""Whose place in a machine file a kind's table takes when it predicts. The file that is kept has `in`, `out` and `peer`
themselves, which are what programs do; the other tables are checked in the same way."""
_EDGES: Mapping[Kind, tuple[str, str]] = {"in": ("CPU_DRAM", "HBM"), "out": ("HBM", "CPU_DRAM"), "peer": ("HBM", "HBM")}
_TITLES: Mapping[Kind, str] = {
    "in": "from the program's memory to",
    "out": "to the program's memory from",
    "pinned_in": "from pinned memory to",
    "pinned_out": "to pinned memory from",
    "load": "weights, by way of the pinned staging, to",
    "peer": "from",
}


@dataclass(frozen=True, slots=True)
class GpuOutcome:
    """A machine file and how it came about. `lines` say of memory what it did; `refusals`, what of it was refused."""

    text: str
    results: tuple[Result, ...]
    lines: tuple[str, ...]
    refusals: tuple[str, ...]

    @property
    def calibrated(self) -> bool:
        """Whether every figure stands."""
        return not self.refusals and all(result.state == "calibrated" for result in self.results)


def gpu_outcome(run: Run) -> GpuOutcome:
    """The machine file of a run. Raises E9041 if it lacks a way or sizes of it."""
    ways = {link_of(way, run.times): way for way in sorted(run.times, key=_rank)}
    tables = {link: _table(link, run.times[way]) for link, way in ways.items() if _makes_table(way)}
    by_kind = {link.kind: link for link in tables}
    if not {"in", "out"} <= set(by_kind):
        raise no_result("the copies from and to the host are not there")
    results = []
    for link, way in ways.items():
        if link.kind not in by_kind:
            raise no_result(f"{link.title}: there is no table of device 0")
        results.append(_result(run, link, way, tables[by_kind[link.kind]]))
    kept, notes = _kept(run, tables, results)
    memory_refusals = tuple(_impossible_memory(run.gpus))
    facts = GpuFacts(run, () if memory_refusals else _rates(run.gpus), _asides(results))
    return GpuOutcome(machine_text(facts, kept, notes), tuple(results), tuple(_memory_lines(run.gpus)), memory_refusals)


def predicted(text: str, kind: Kind, sizes: Sequence[int]) -> list[int]:
    """Picoseconds of transfers of a kind, by the machine file `text`, written and read as any other."""
    machine = reread(text)
    if kind == "peer":
        return picoseconds(peer_cost(machine.topologies["Device"], size) for size in sizes)
    return picoseconds(hop_cost(machine, *_EDGES[kind], size) for size in sizes)


def link_of(way: Way, times: Mapping[Way, Mapping[int, object]]) -> Link:
    """What a way's table and checks are made of. Raises E9041 if too few sizes were measured."""
    measured = times[way]
    held_out = tuple(size for size in sorted(measured) if size in HELD_OUT)
    sizes = tuple(size for size in sorted(measured) if size not in HELD_OUT)
    to = f" to Device[{way.other}]" if way.other >= 0 else ""
    title = f"{_TITLES[way.kind]} Device[{way.device}]{to}"
    if len(held_out) < LEAST_HELD_OUT or (_makes_table(way) and len(sizes) < LEAST_POINTS):
        raise no_result(f"{title}: {len(sizes)} sizes of a table and {len(held_out)} held out")
    return Link(way.kind, title, sizes, held_out, (_EDGES[PRICES[way.kind]],))


def _makes_table(way: Way) -> bool:
    return way.device == 0 and way.other in (-1, 1)


def _rank(way: Way) -> tuple[int, int, int]:
    return list(PRICES).index(way.kind), way.device, way.other


def _table(link: Link, times: Mapping[int, tuple[float, float]]) -> Points:
    return table_of(link, {(link.kind, size): first for size, (first, _) in times.items()})


def _result(run: Run, link: Link, way: Way, points: Points) -> Result:
    """The table's check by what this way did; refused if it is impossible."""
    own = (
        points
        if _makes_table(way)
        else tuple((size, max(round(min(run.times[way][size])), 1)) for size in link.held_out)
    )
    refusal = peaks.impossible_times(points, None, "") or _above_peak(run, way, own)
    earlier_later = [run.times[way][size] for size in link.held_out]
    expected: list[int | None] = [None] * len(link.held_out)
    if refusal is None:
        priced = PRICES[link.kind]
        expected = [*predicted(machine_text(GpuFacts(run, (), ()), {priced: points}, {}), priced, link.held_out)]
    checks = tuple(
        Check(size, None if ps is None else ps / 1000, max(earlier, 1.0), max(later, 1.0))
        for size, ps, (earlier, later) in zip(link.held_out, expected, earlier_later, strict=True)
    )
    return Result(link, points, checks, 1, refusal)


def _above_peak(run: Run, way: Way, points: Points) -> str | None:
    """Why a way is refused: quicker than the links of its devices."""
    gpu = run.gpus[way.device]
    peak, name = gpu.pcie_peak, "what PCIe can do"
    if way.kind == "peer" and gpu.nvlinks:
        peak, name = gpu.nvlink_peak, "what all of its NVLinks can do"
    size, time = max(points, key=lambda point: point[0] / point[1])
    rate = size * 1e9 / time
    if peak is None or rate <= peak:
        return None
    return f"{size} bytes moved at {peaks.gigabytes(rate)}, above {name}, {peaks.gigabytes(peak)}"


def _kept(
    run: Run, tables: Mapping[Link, Points], results: Sequence[Result]
) -> tuple[dict[Kind, Points], dict[Kind, str]]:
    """The tables that the file has, and what is said of each."""
    own = {result.link.kind: result for result in results if result.link in tables and result.link.kind in _EDGES}
    spoilt = {result.link.kind for result in results if result.state in ("not calibrated", "refused")}
    kept = {kind: tables[result.link] for kind, result in own.items() if kind not in spoilt}
    notes = {kind: note_of(_worst(kind, results)) for kind in own}
    return kept, notes


def _worst(kind: Kind, results: Sequence[Result]) -> Result:
    """Of one kind, the way about which most is to be said."""
    order = ("refused", "not calibrated", "inaccurate", "calibrated")
    mine = [result for result in results if result.link.kind == kind]
    return min(mine, key=lambda result: (order.index(result.state), -result.error))


def _rates(gpus: Sequence[Gpu]) -> tuple[float, ...]:
    """Bytes per second at which each device's memory was read, both repeats."""
    return tuple(gpu.read_bytes * 1e9 / time for gpu in gpus for time in gpu.read)


def _impossible_memory(gpus: Sequence[Gpu]) -> Iterator[str]:
    for number, gpu in enumerate(gpus):
        if gpu.largest > gpu.total:
            yield f"Device[{number}] granted {gpu.largest} bytes, but has {gpu.total}"
        if min(gpu.read) <= 1:
            yield f"Device[{number}] read {gpu.read_bytes} bytes in no time"
        elif gpu.memory_peak is not None and max(_rates([gpu])) > gpu.memory_peak:
            rate, peak = peaks.gigabytes(max(_rates([gpu]))), peaks.gigabytes(gpu.memory_peak)
            yield f"Device[{number}] read its memory at {rate}, above what its memory's clock and width can do, {peak}"
        elif abs(gpu.read[0] - gpu.read[1]) > DIFFER_AT_MOST * min(gpu.read):
            yield f"Device[{number}] read its memory in {gpu.read[0]:.0f} and {gpu.read[1]:.0f} ns: not calibrated"


def _memory_lines(gpus: Sequence[Gpu]) -> Iterator[str]:
    for number, gpu in enumerate(gpus):
        repeats = " and ".join(peaks.gigabytes(rate) for rate in _rates([gpu])) if min(gpu.read) > 1 else "no time"
        of = "" if gpu.memory_peak is None else f" of {peaks.gigabytes(gpu.memory_peak)} at most"
        yield f"Device[{number}]: {gpu.name}, {gpu.uuid}"
        yield f"  grants {gpu.largest} of {gpu.total} bytes in one piece; memory read at {repeats}{of}"


def _asides(results: Sequence[Result]) -> tuple[str, ...]:
    """What else was measured, for the file's comments: the best rate of each kind that it has no table of."""
    found = []
    for result in results:
        if result.link.kind not in _EDGES and result.link.sizes and result.state in ("calibrated", "inaccurate"):
            found.append(
                f"{result.link.title}: {peaks.gigabytes(peaks.best_rate(result.points))} at best, {note_of(result)}"
            )
    return tuple(found)

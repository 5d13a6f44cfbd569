"""What was measured of GPUs, as a machine file.

Enters: a `Run`, the tables that stand and notes on each. Leaves: the text of a measured machine file. A table that does
not stand leaves its edge without a figure: a transfer over it is unpriced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vx.machine.units import size_text
from vx.probe.campaign import MIB, Kind, Points
from vx.probe.gpu_result import Run
from vx.probe.peaks import gigabytes
from vx.probe.write import quotable, rows

_TILE_GRANULE = 256
_NUMBERS = "i128, i64, i32, i16, i8, i4, u128, u64, u32, u16, u8, u4, bool"
_DTYPES = {
    "sm_8": f"f64, f32, bf16, f16, {_NUMBERS}",
    "sm_9": f"f64, f32, bf16, f16, f8e4m3, f8e5m2, {_NUMBERS}",
    "sm_10": f"f64, f32, bf16, f16, f8e4m3, f8e5m2, f4e2m1, {_NUMBERS}",
}
"""By major architecture, as in the declared files of the fleet."""


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """What the file says besides tables: `rates` at which memory was read, bytes per second (none: no figure stands),
    and `asides`, what else was measured."""

    run: Run
    rates: tuple[float, ...]
    asides: tuple[str, ...]


def machine_text(facts: GpuFacts, tables: Mapping[Kind, Points], notes: Mapping[Kind, str]) -> str:
    """The machine file."""
    lines = [*_head(facts.run), "", *_memory(facts), "", *_device(facts, tables, notes)]
    return "\n".join(lines) + "\n"


def _head(run: Run) -> Iterator[str]:
    first, count = run.gpus[0], len(run.gpus)
    said = {
        "date": run.date,
        "part": first.name if count == 1 else f"{count} x {first.name}",
        "uuid": ", ".join(gpu.uuid for gpu in run.gpus),
        "driver": run.driver,
        "tool": run.tool,
    }
    yield "// Written by `vx machine probe`: what one machine did on one day. It is not edited afterwards; measure again."
    yield ""
    yield "Measured {"
    for name, value in said.items():
        yield f'    {name}: "{quotable(value)}",'
    yield "}"


def _memory(facts: GpuFacts) -> Iterator[str]:
    gpus = facts.run.gpus
    granted, total, granule = (min(gpu.largest for gpu in gpus), gpus[0].total, gpus[0].granule)
    yield "Memory HBM {"
    yield f"    capacity: {granted // MIB} MiB,  // spec: the largest single allocation; the driver reports {total} bytes in all"
    yield f"    granule: {_TILE_GRANULE} B,  // spec: how tiles are aligned; an allocation is a multiple of {size_text(granule)}"
    if facts.rates:
        repeats = ", ".join(gigabytes(rate) for rate in facts.rates)
        how = f"{size_text(gpus[0].read_bytes)} read by a kernel, two repeats on each device: {repeats}"
        yield f"    bandwidth: {gigabytes(min(facts.rates))},  // spec: {how}"
    yield "    managed: explicit,"
    yield "    scope: device,"
    yield "}"


def _device(facts: GpuFacts, tables: Mapping[Kind, Points], notes: Mapping[Kind, str]) -> Iterator[str]:
    isa, count = facts.run.gpus[0].isa, len(facts.run.gpus)
    dtypes = _DTYPES.get(isa[:-1])
    yield from (f"// {quotable(aside)}" for aside in facts.asides)
    yield "Topology Device {"
    yield "    memory: Memory::HBM,"
    yield "    visible: [Memory::HBM],"
    yield "    arch: nvptx64,"
    yield f"    isa: {isa},"
    if dtypes:
        yield f"    dtypes: [{dtypes}],"
    if count > 1:
        yield f"    instances: {count},"
        if "peer" in tables:
            yield from _priced("    peer: ", tables["peer"], ",", notes.get("peer"))
        elif "peer" in notes:
            yield f"    // {notes['peer']}"
    yield from _transfer("in", "    transfer Memory::CPU_DRAM -> Memory::HBM", tables, notes)
    yield from _transfer("out", "    transfer Memory::HBM -> Memory::CPU_DRAM", tables, notes)
    yield "}"


def _transfer(kind: Kind, head: str, tables: Mapping[Kind, Points], notes: Mapping[Kind, str]) -> Iterator[str]:
    if kind in tables:
        yield from _priced(f"{head} : ", tables[kind], " copy_engine", notes.get(kind))
    else:
        yield f"{head} copy_engine" + (f"  // spec: {notes[kind]}" if kind in notes else "")


def _priced(head: str, points: Points, tail: str, note: str | None) -> Iterator[str]:
    yield f"{head}measured ["
    yield from rows(points)
    yield f"    ]{tail}" + (f"  // spec: {note}" if note else "")

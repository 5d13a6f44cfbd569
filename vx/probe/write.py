"""What was measured, as a machine file.

Enters: facts of the machine and the tables of its links. Leaves: the text of a measured machine file. It declares what
`fleet/cpu.vx` declares, so that the same programs are placed on it. A link without a table has its edges without a
figure: a transfer over them is unpriced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vx.machine.units import size_text
from vx.probe.campaign import MIB, Link, Points, Reading
from vx.probe.peaks import gigabytes

_POINTS_IN_A_LINE = 6


@dataclass(frozen=True, slots=True)
class Facts:
    """What a machine file says besides tables. `readings` are two repeats; none if the memory's rate was refused."""

    date: str
    part: str
    driver: str
    tool: str
    network: str
    arch: str
    level: int
    threads: int
    capacity: int
    block: int
    readings: tuple[Reading, ...] = ()


def machine_text(facts: Facts, links: Sequence[Link], tables: Mapping[Link, Points], notes: Mapping[Link, str]) -> str:
    """The machine file. `notes` says of each link how its figures came about."""
    lines = [*_head(facts), "", *_memory(facts), "", *_device(facts, links, tables, notes)]
    return "\n".join(lines) + "\n"


def time_text(nanoseconds: int) -> str:
    """Whole nanoseconds, as microseconds."""
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03}".rstrip("0").rstrip(".") + " us"


def _head(facts: Facts) -> Iterator[str]:
    yield "// Written by `vx machine probe`: what one machine did on one day. It is not edited afterwards; measure again."
    yield ""
    yield "Measured {"
    for name in ("date", "part", "driver", "tool", "network"):
        yield f'    {name}: "{quotable(getattr(facts, name))}",'
    yield "}"


def _memory(facts: Facts) -> Iterator[str]:
    yield "Memory HBM {"
    yield f"    capacity: {facts.capacity // MIB} MiB,  // spec: what the system could give a new process"
    if facts.readings:
        best = max(facts.readings, key=lambda reading: reading.all)
        repeats = " and ".join(gigabytes(reading.all) for reading in facts.readings)
        how = f"{facts.threads} threads read {size_text(facts.block)} at {repeats}; one alone {gigabytes(best.one)}"
        yield f"    bandwidth: {gigabytes(best.all)},  // spec: {how}"
    yield "    managed: explicit,"
    yield "    scope: device,"
    yield "}"


def _device(
    facts: Facts, links: Sequence[Link], tables: Mapping[Link, Points], notes: Mapping[Link, str]
) -> Iterator[str]:
    yield "Topology Device {"
    yield "    memory: Memory::HBM,"
    yield f"    arch: {facts.arch},"
    if facts.arch == "x86_64" and facts.level > 1:
        yield f"    isa: x86_64_v{facts.level},"
    for link in links:
        for source, target in link.edges:
            head = f"    transfer Memory::{source} -> Memory::{target}"
            note = f"  // spec: {notes[link]}" if link in notes else ""
            if link in tables:
                yield f"{head} : measured ["
                yield from rows(tables[link])
                yield f"    ]{note}"
            else:
                yield head + note
    yield "}"


def rows(points: Points) -> Iterator[str]:
    """The lines of a table."""
    written = [f"{size_text(size)}: {time_text(time)}," for size, time in points]
    for start in range(0, len(written), _POINTS_IN_A_LINE):
        yield "        " + " ".join(written[start : start + _POINTS_IN_A_LINE])


def quotable(text: str) -> str:
    """A text as it may stand between quotes: without quotes, backslashes and what is not printable."""
    return "".join(character if character.isprintable() and character not in '"\\' else " " for character in text)

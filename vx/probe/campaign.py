"""What is measured, and how samples become figures.

Enters: links (kinds of transfer) and the native program. Leaves: the median time of each size of each link, and
tables of them that never fall. One campaign does all its work in rounds, each in an order of its own: what else the
machine does meanwhile falls on all sizes alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Literal

from vx.probe.native import lines

KIB, MIB = 1 << 10, 1 << 20

Kind = Literal["copy", "network", "in", "out", "pinned_in", "pinned_out", "load", "peer"]
"""A processor's are the first two, the others a GPU's."""
Medians = Mapping[tuple[Kind, int], float]
"""Nanoseconds of each kind and size."""
Points = tuple[tuple[int, int], ...]
"""A table: (bytes, nanoseconds)."""


@dataclass(frozen=True, slots=True)
class Link:
    """A kind of transfer: the `sizes` of its table, the `held_out` ones that check it, the edges that it prices."""

    kind: Kind
    title: str
    sizes: tuple[int, ...]
    held_out: tuple[int, ...]
    edges: tuple[tuple[str, str], ...]


COPY_EDGES = (
    ("CPU_DRAM", "HBM"),
    ("HBM", "CPU_DRAM"),
    ("HBM", "NIC_RAM"),
    ("NIC_RAM", "HBM"),
    ("CPU_DRAM", "NIC_RAM"),
    ("NIC_RAM", "CPU_DRAM"),
)
"""On a processor these spaces are one memory, and a transfer between any two is the same copy."""
NETWORK_EDGES = (("NIC_RAM", "Remote_HBM"),)

_SIZES = (
    *(size * KIB for size in (4, 8, 16, 32, 56, 96, 160, 288, 544)),
    *(size * MIB for size in (1, 2, 4, 8, 16, 32, 64)),
)
"""Between 64 KiB and 1 MiB not at multiples of 64 KiB: over loopback these leave a small last segment, which takes
longer than that of most sizes, and no table that never falls can have both."""
_HELD_OUT = tuple(size * KIB for size in (6, 24, 80, 224, 416, 1536, 6 * 1024, 20 * 1024, 44 * 1024))
_QUICK_HELD_OUT = tuple(size * KIB for size in (6, 24, 80, 224, 416, 1536, 3 * 1024))
_QUICK_LIMIT, _NETWORK_LIMIT = 4 * MIB, 32 * MIB


def links(network: str, quick: bool) -> tuple[Link, Link]:
    """What a processor has: copies within its memory, and the network to a peer. `quick` leaves large sizes out."""
    held_out = _QUICK_HELD_OUT if quick else _HELD_OUT

    def up_to(most: int, sizes: Iterable[int]) -> tuple[int, ...]:
        return tuple(size for size in sizes if size <= (min(most, _QUICK_LIMIT) if quick else most))

    copied, sent = up_to(_SIZES[-1], _SIZES), up_to(_NETWORK_LIMIT, _SIZES)
    return (
        Link("copy", "copies within this machine's memory", copied, up_to(copied[-1], held_out), COPY_EDGES),
        Link("network", network, sent, up_to(sent[-1], held_out), NETWORK_EDGES),
    )


def measure(
    program: Path, peer: str, work: Iterable[tuple[Kind, int]], rounds: int, seed: int, advance: Callable[[int], None]
) -> Medians:
    """The median over pairs of rounds of the quicker of two, for each piece of work, 2 ms idle before each sample.

    Others on the machine only ever add time: where they add it to half of all samples, the median of these says which
    half was larger, and that of the quicker of two what the machine does. The network's time is one way: half of an
    empty exchange is the answer's, and is taken off. `advance` hears of samples taken.
    """
    pieces = list(dict.fromkeys(work))
    if any(kind == "network" for kind, _ in pieces):
        pieces.append(("network", 0))
    samples: dict[tuple[Kind, int], list[int]] = {piece: [] for piece in pieces}
    names = {f"{kind}:{size}": (kind, size) for kind, size in pieces}
    for line in lines(program, ["measure", str(rounds), str(seed), peer, *names], "measuring"):
        name, _, nanoseconds = line.partition(" ")
        samples[names[name]].append(int(nanoseconds))
        advance(1)
    medians = {piece: median(quicker_of_two(taken)) for piece, taken in samples.items()}
    answer = medians.pop(("network", 0), 0.0) / 2
    return {piece: time - answer if piece[0] == "network" else time for piece, time in medians.items()}


def quicker_of_two(samples: Sequence[int]) -> list[int]:
    """Of each two samples that follow each other, the smaller; an odd one at the end is left out, if not the only."""
    return [min(pair) for pair in zip(samples[::2], samples[1::2], strict=False)] or list(samples)


def table_of(link: Link, medians: Medians) -> Points:
    """The link's table: its medians, in whole nanoseconds, none above that of a larger size."""
    times = never_falling([medians[link.kind, size] for size in link.sizes])
    return tuple((size, max(round(time), 1)) for size, time in zip(link.sizes, times, strict=True))


def never_falling(values: Sequence[float]) -> list[float]:
    """Each value, or the least of those after it: what a larger transfer was seen to take bounds a smaller one."""
    return list(accumulate(reversed(values), min))[::-1]


@dataclass(frozen=True, slots=True)
class Reading:
    """Rates at which memory is read, bytes per second: by one thread, by all, and by all from their caches."""

    one: float
    all: float
    cached: float


def read_memory(program: Path, block: int, rounds: int, advance: Callable[[int], None]) -> Reading:
    """Reads a block of `block` bytes. Medians of the quicker of two, as in `measure`; the caches' rate is the best seen,
    because it serves as a limit."""
    taken: dict[str, list[int]] = {}
    for line in lines(program, ["read", str(rounds), str(block)], "reading memory"):
        name, _, value = line.partition(" ")
        taken.setdefault(name, []).append(int(value))
        advance(1)
    (cached_bytes,) = taken["cached_bytes"]
    return Reading(
        block * 1e9 / median(quicker_of_two(taken["one"])),
        block * 1e9 / median(quicker_of_two(taken["all"])),
        cached_bytes * 1e9 / max(min(taken["cached"]), 1),
    )

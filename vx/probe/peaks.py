"""Figures that cannot be: above a physical peak, or no time at all.

Enters: what was measured. Leaves: for each impossible figure, why it is refused. The peaks are this machine's own,
because its memory channels and links are not known beforehand:

- memory is not read faster than the same threads read their nearest caches;
- a copy is not faster than that either, because it reads each byte;
- loopback is not faster than a copy, because each byte is copied into the system and out of it;
- a network is not faster than the fastest network card, where the system says how fast that is.
"""

from __future__ import annotations

from collections.abc import Iterable

from vx.probe.campaign import Points, Reading


def impossible_reading(reading: Reading) -> str | None:
    """Why the rate at which memory is read is refused; None if it is possible."""
    for who, rate in (("one thread", reading.one), ("all threads", reading.all)):
        if rate > reading.cached:
            return f"{who} read memory at {gigabytes(rate)}, but the caches at {gigabytes(reading.cached)} at most"
    return None


def impossible_times(points: Points, peak: float | None, peak_is: str) -> str | None:
    """Why a table is refused: a time of nothing, no growth at its end, or a rate above `peak` bytes per second."""
    if any(time <= 1 for _, time in points):
        return "a transfer took no time: the clock is not fit for this"
    if points[-1][1] <= points[-2][1]:
        return "the two largest sizes took the same time, so nothing is said about larger ones"
    size, time = max(points, key=lambda point: point[0] / point[1])
    best = size * 1e9 / time
    if peak is not None and best > peak:
        return f"{size} bytes moved at {gigabytes(best)}, above {peak_is}, {gigabytes(peak)}"
    return None


def best_rate(points: Iterable[tuple[int, int]]) -> float:
    """The highest rate of a table, bytes per second."""
    return max(size * 1e9 / time for size, time in points)


def gigabytes(rate: float) -> str:
    """A rate for people and for machine files: three decimals at most, so that it is a whole number of bytes."""
    return f"{round(rate / 1e6) / 1000:.3f}".rstrip("0").rstrip(".") + " GB/s"

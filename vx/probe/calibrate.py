"""Measures tables, and checks each on sizes that it was not made from.

Enters: the native program, links and a peer. Leaves: a `Result` for each link: its table, what that predicted for the
sizes held out, what they took, and how far two repeats of the same measurement lie apart. Predictions are made by the
cost functions that programs are predicted with, from a machine file that was written and read back.

All sizes are measured, those of the table and those held out; the table is written and read, and everything is measured
a second time. Where that shows an unquiet machine the second measurement gives the table, which is checked by a third:
a neighbour that was busy for a moment spoils one attempt, not the machine file. The first attempt within 10 % counts;
without one, of those that are calibrated, or else of all, the one whose repeats agree best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from vx.probe.campaign import Kind, Link, Medians, Points, table_of

DIFFER_AT_MOST = 0.25
"""Two repeats further apart than this say that nothing can be predicted."""
ERROR_AT_MOST = 0.10
"""Median error that a table may have, or the difference of two repeats where that is more."""

State = Literal["calibrated", "inaccurate", "not calibrated", "refused"]
Predict = Callable[[Mapping[Link, Points], Link, Sequence[int]], list[int]]
"""From the tables of all links: the picoseconds of sizes of one link."""
Refuse = Callable[[Mapping[Link, Points], Link], str | None]
"""From the tables of all links: why one of them cannot be; None if it can."""
Measure = Callable[[Sequence[tuple[Kind, int]]], Medians]


@dataclass(frozen=True, slots=True)
class Check:
    """One size held out, in nanoseconds: what the table predicted, what was measured when the table was made (and not
    used for it), and what was measured afterwards."""

    size: int
    predicted: float | None
    earlier: float
    measured: float

    @property
    def error(self) -> float:
        """Of the prediction: signed, as a share of what was measured."""
        return 0.0 if self.predicted is None else (self.predicted - self.measured) / self.measured

    @property
    def difference(self) -> float:
        """How far the two measurements lie apart, as a share of the quicker."""
        return abs(self.measured - self.earlier) / min(self.measured, self.earlier)


@dataclass(frozen=True, slots=True)
class Result:
    """A link's table with its check. `refusal`: why the table cannot be; nothing is predicted from it then."""

    link: Link
    points: Points
    checks: tuple[Check, ...]
    attempt: int = 1
    refusal: str | None = None

    @property
    def error(self) -> float:
        """The median size of the errors."""
        return median(abs(check.error) for check in self.checks)

    @property
    def difference(self) -> float:
        """The median over the sizes of how far two repeats lie apart."""
        return median(check.difference for check in self.checks)

    @property
    def state(self) -> State:
        """What became of the link."""
        if self.refusal is not None:
            return "refused"
        if self.difference > DIFFER_AT_MOST:
            return "not calibrated"
        return "calibrated" if self.error <= max(ERROR_AT_MOST, self.difference) else "inaccurate"

    @property
    def settled(self) -> bool:
        """Whether another attempt could not do better."""
        return self.refusal is None and max(self.error, self.difference) <= ERROR_AT_MOST


def calibrate(
    links: Sequence[Link], measure: Measure, predict: Predict, refuse: Refuse, goes_on: Callable[[int], bool]
) -> list[Result]:
    """A result for each link, from as many attempts as `goes_on` (told how many there were) allows."""
    first = measure(_work(links))
    results: dict[Link, list[Result]] = {link: [] for link in links}
    tables = {link: table_of(link, first) for link in links}
    open_, attempt = list(links), 0
    while open_:
        attempt += 1
        refusals = {link: refuse(tables, link) for link in open_}
        possible = {link: points for link, points in tables.items() if not refusals.get(link)}
        predicted = {link: predict(possible, link, link.held_out) for link in open_ if link in possible}
        second = measure(_work(open_))
        for link in open_:
            checks = tuple(_checks(link, predicted.get(link), first, second))
            results[link].append(Result(link, tables[link], checks, attempt, refusals[link]))
        open_ = [link for link in open_ if not results[link][-1].settled]
        if not goes_on(attempt):
            break
        first = second
        tables |= {link: table_of(link, first) for link in open_}
    return [min(results[link], key=_rank) for link in links]


def _rank(result: Result) -> tuple[bool, bool, bool, float]:
    """What counts first comes first."""
    return not result.settled, result.refusal is not None, result.state != "calibrated", result.difference


def _work(links: Sequence[Link]) -> list[tuple[Kind, int]]:
    return [(link.kind, size) for link in links for size in (*link.sizes, *link.held_out)]


def _checks(link: Link, predicted_ps: Sequence[int] | None, first: Medians, second: Medians) -> Iterator[Check]:
    for number, size in enumerate(link.held_out):
        predicted = None if predicted_ps is None else predicted_ps[number] / 1000
        yield Check(size, predicted, max(first[link.kind, size], 1.0), max(second[link.kind, size], 1.0))

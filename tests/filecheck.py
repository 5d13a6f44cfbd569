"""The part of LLVM's FileCheck that Vx programs use: does an output meet the `CHECK` lines of a text?

Enters: `(kind, text)` pairs in source order and an output. Leaves: None, or what is wrong. Kinds, after the prefix:

| kind | meaning |
|---|---|
| `CHECK` | somewhere after the previous match |
| `-NEXT`, `-SAME` | in the line after the previous match; in its rest of the line |
| `-EMPTY` | the next line is empty |
| `-COUNT-n` | n times, one after another |
| `-DAG` | neighbours in any order, not overlapping |
| `-NOT` | nowhere between its neighbours |
| `-LABEL` | divides output and checks: what stands between two labels is sought between them only |

In a text, `{{…}}` is a regular expression, `[[X:…]]` one whose match is kept as X, `[[X]]` what was kept. Runs of
spaces and tabs are one space.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Check = tuple[str, str]

_KINDS = r"(?:-(?:NEXT|SAME|EMPTY|DAG|NOT|LABEL|COUNT-\d+))?"
_SPECIAL = re.compile(r"\{\{(?P<regex>.*?)\}\}|\[\[(?P<name>\w+)(?::(?P<kept>.*?))?\]\]")


class Mismatch(Exception):
    """What the output lacks, or has too much."""


def checks_of(text: str, prefixes: Sequence[str] = ("CHECK",)) -> tuple[Check, ...]:
    """The check lines in `text`, their kinds written with `CHECK` whatever the prefix is."""
    names = "|".join(map(re.escape, prefixes))
    line = re.compile(rf"(?<![\w-])(?:{names})({_KINDS}):(.*)")
    return tuple((f"CHECK{found[1]}", found[2].strip()) for found in line.finditer(text))


def failures(checks: Sequence[Check], output: str) -> str | None:
    """Why `output` does not satisfy the check lines, or None."""
    text = "\n".join(_squeezed(line) for line in output.splitlines()) + "\n"
    variables: dict[str, str] = {}
    try:
        for block, part in _blocks(checks, text, variables):
            block.match(part)
    except Mismatch as wrong:
        return str(wrong)
    return None


def _blocks(checks: Sequence[Check], text: str, variables: dict[str, str]) -> Iterable[tuple[_Block, Sequence[Check]]]:
    """The output cut at the labels, each piece with the checks that belong to it."""
    labels = [number for number, (kind, _) in enumerate(checks) if kind == "CHECK-LABEL"]
    at, first, piece = 0, 0, 0
    for number in labels:
        hit = _pattern(checks[number][1], variables).search(text, at)
        if hit is None:
            raise Mismatch(f"CHECK-LABEL: {checks[number][1]!r} not found after {_told(text, at)}")
        yield _Block(text[: hit.start()], piece, variables), checks[first:number]
        at = piece = hit.end()
        first = number + 1
    yield _Block(text, piece, variables), checks[first:]


@dataclass
class _Block:
    """A piece of the output: what is before `at` has been matched."""

    text: str
    at: int
    variables: dict[str, str]
    forbidden: list[str] = field(default_factory=list)

    def match(self, checks: Sequence[Check]) -> None:
        number = 0
        while number < len(checks):
            kind, wanted = checks[number]
            if kind == "CHECK-DAG":
                last = number
                while last < len(checks) and checks[last][0] == kind:
                    last += 1
                self._unordered([text for _, text in checks[number:last]])
                number = last
                continue
            if kind == "CHECK-NOT":
                self.forbidden.append(wanted)
            else:
                self._ordered(kind, wanted)
            number += 1
        self._allowed(len(self.text))

    def _ordered(self, kind: str, wanted: str) -> None:
        if kind.startswith("CHECK-COUNT-"):
            for _ in range(int(kind.rpartition("-")[2])):
                self._ordered("CHECK", wanted)
            return
        empty = kind == "CHECK-EMPTY"
        hit = re.compile(r"^(?=\n)", re.M).search(self.text, self.at) if empty else self._search(wanted, self.at)
        if hit is None:
            raise Mismatch(f"{kind}: {wanted!r} not found after {_told(self.text, self.at)}")
        lines = self.text.count("\n", self.at, hit.start())
        if kind in ("CHECK-NEXT", "CHECK-EMPTY") and lines != 1:
            raise Mismatch(f"{kind}: {wanted!r} is {lines} lines further and not on the next line")
        if kind == "CHECK-SAME" and lines != 0:
            raise Mismatch(f"{kind}: {wanted!r} is not on the same line")
        self._allowed(hit.start())
        self._keep(hit)
        self.at = hit.end()

    def _unordered(self, wanted: Sequence[str]) -> None:
        taken: list[tuple[int, int]] = []
        for text in wanted:
            at = self.at
            while (hit := self._search(text, at)) is not None and any(
                hit.start() < end and start < hit.end() for start, end in taken
            ):
                at = hit.start() + 1
            if hit is None:
                raise Mismatch(f"CHECK-DAG: {text!r} not found after {_told(self.text, self.at)}")
            self._keep(hit)
            taken.append(hit.span())
        self._allowed(min(start for start, _ in taken))
        self.at = max(end for _, end in taken)

    def _allowed(self, end: int) -> None:
        """None of the forbidden texts stands between the last match and `end`."""
        for text in self.forbidden:
            hit = _pattern(text, self.variables).search(self.text, self.at, end)
            if hit is not None:
                raise Mismatch(f"CHECK-NOT: {text!r} was found: {hit[0]!r}")
        self.forbidden = []

    def _search(self, wanted: str, at: int) -> re.Match[str] | None:
        return _pattern(wanted, self.variables).search(self.text, at)

    def _keep(self, hit: re.Match[str]) -> None:
        self.variables.update((name, text) for name, text in hit.groupdict().items() if text is not None)


def _pattern(text: str, variables: dict[str, str]) -> re.Pattern[str]:
    """A check's text as a regular expression. Raises `Mismatch` for a variable that has no value."""
    text = _squeezed(text)
    parts: list[str] = []
    at = 0
    own: set[str] = set()
    for found in _SPECIAL.finditer(text):
        parts += re.escape(text[at : found.start()]), _special(found, own, variables)
        at = found.end()
    return re.compile("".join([*parts, re.escape(text[at:])]), re.MULTILINE)


def _special(found: re.Match[str], own: set[str], variables: dict[str, str]) -> str:
    regex, name, kept = found["regex"], found["name"], found["kept"]
    if regex is not None:
        return f"(?:{regex})"
    if kept is not None:
        own.add(name)
        return f"(?P<{name}>{kept})"
    if name in own:
        return f"(?P={name})"
    if name not in variables:
        raise Mismatch(f"[[{name}]] has no value")
    return re.escape(variables[name])


def _squeezed(text: str) -> str:
    return re.sub(r"[ \t]+", " ", text)


def _told(text: str, at: int) -> str:
    return repr(text[max(0, at - 60) : at]) + " in front of " + repr(text[at : at + 200])

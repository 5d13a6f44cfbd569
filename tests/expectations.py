"""Expectations that a Vx program states about itself, in its comments.

| line | meaning |
|---|---|
| `// RUN: vx run %s [flags] [-- args]` | how to run it; without such a line: `vx run %s` |
| `// RUN: not vx run %s …` | it must be refused, or end with a status other than 0 |
| `// RUN: vxc %s … \\| FileCheck %s` | the same with the alias's flags; what follows `\\|` is implied |
| `// CHECK: text`, `// CHECK-NEXT: text`, … | what the output contains, in this order: see `filecheck.py` |
| `// EXPECT: text` | somewhere in the output |
| `// WARN: text` | in the code or message of a warning |
| `// EXPECT-ERROR: CODE line:col` | the errors reported are exactly these |
| `// STATUS: n` | the exit status (otherwise 0) |
| `// STDIN: text` | a line of standard input |
| `// NO_EXEC` | build only |
| `// REQUIRES: cuda` | skipped where there is none |
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

_LINE = re.compile(r"^\s*//\s?([A-Z][A-Z_-]+)(?::\s?(.*?))?\s*$")
_KNOWN = frozenset(
    {
        *("RUN", "CHECK", "CHECK-NEXT", "CHECK-NOT", "EXPECT", "WARN", "EXPECT-ERROR"),
        *("STATUS", "STDIN", "NO_EXEC", "REQUIRES"),
    }
)


@dataclass(frozen=True)
class Command:
    """One RUN line: the words after `%s` was filled in; `negated` for `not`."""

    words: tuple[str, ...]
    negated: bool


@dataclass(frozen=True)
class Expectations:
    """What one program's comments say, in order."""

    commands: tuple[Command, ...]
    checks: tuple[tuple[str, str], ...]
    contains: tuple[str, ...]
    warnings: tuple[str, ...]
    errors: tuple[tuple[str, int, int], ...]
    status: int
    stdin: str
    no_exec: bool
    requires: tuple[str, ...]


def read(text: str, path: str) -> Expectations:
    """The expectations in a program's text; `path` replaces `%s`."""
    found: dict[str, list[str]] = {name: [] for name in _KNOWN}
    checks: list[tuple[str, str]] = []
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None or match[1] not in _KNOWN:
            continue
        found[match[1]].append(match[2] or "")
        if match[1].startswith("CHECK"):
            checks.append((match[1], match[2] or ""))
    commands = tuple(_command(line, path) for line in found["RUN"])
    return Expectations(
        commands=commands or (Command(("vx", "run", path), False),),
        checks=tuple(checks),
        contains=tuple(found["EXPECT"]),
        warnings=tuple(found["WARN"]),
        errors=tuple(_error(line) for line in found["EXPECT-ERROR"]),
        status=int(found["STATUS"][0]) if found["STATUS"] else 0,
        stdin="".join(line + "\n" for line in found["STDIN"]),
        no_exec=bool(found["NO_EXEC"]),
        requires=tuple(found["REQUIRES"]),
    )


def _command(line: str, path: str) -> Command:
    words = shlex.split(line.split("|")[0].replace("2>&1", "").replace("%s", shlex.quote(path)))
    negated = words[:1] == ["not"]
    return Command(tuple(words[1:] if negated else words), negated)


def _error(line: str) -> tuple[str, int, int]:
    match = re.fullmatch(r"(E\d{4}) (\d+):(\d+)", line.strip())
    if match is None:
        raise ValueError(f"`// EXPECT-ERROR: {line}` is not CODE line:col")
    return match[1], int(match[2]), int(match[3])

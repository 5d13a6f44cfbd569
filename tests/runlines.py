"""`// RUN:` lines of a Vx program, run as they stand.

Enters: a program and a folder for its files. Leaves: `Outcome`, or an `AssertionError` that says which line failed
and what it printed. A line is commands joined by `|` and `&&`, with `2>&1`, `> FILE`, `2> FILE`; a pipe fails if
any of its commands does. `vxc` and `vx` are forked from this process, which has them loaded; `FileCheck` and `not`
are done here; other commands are those of the system.

`%s` is the program, `%S` its folder, `%t` a name for files, `%T` their folder, `%{fleet}` that of the machine files.
"""

from __future__ import annotations

import importlib
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from filecheck import checks_of, failures

from vx.cli import vxc

for _module in (
    "vx.build",
    "vx.emit",
    "vx.cli.app",
    "vx.cli.record",
    "vx.codegen.cpu",
    "vx.codegen.host",
    "vx.sema.check",
):
    importlib.import_module(_module)  # so that the children have them

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_S = 60
NEVER_REFUSALS = (70, 126, 127)
"""Statuses that `not` does not take for a refusal: the compiler's own fault, and commands that cannot run."""

_RUN = re.compile(r"^\s*//\s*RUN:\s*(.*?)\s*$", re.M)
_ANNOTATION = re.compile(r"^\s*//\s*(EXPECT|WARN|REQUIRES|NO_EXEC)(?::[ \t]*(.*?))?[ \t]*$", re.M)
_REDIRECTION = re.compile(r"(2?>)(&1|.*)")


@dataclass(frozen=True)
class Done:
    """What one command ended with."""

    status: int
    out: str
    err: str


@dataclass
class Outcome:
    """What the compiler and the programs printed, of all lines of one program."""

    printed: str = ""
    warnings: str = ""


@dataclass
class _Command:
    words: list[str]
    merged: bool = False
    files: dict[str, str] = field(default_factory=dict)


def annotations(text: str) -> dict[str, list[str]]:
    """The values of `EXPECT`, `WARN`, `REQUIRES` and `NO_EXEC` lines."""
    found: dict[str, list[str]] = {}
    for match in _ANNOTATION.finditer(text):
        found.setdefault(match[1], []).append(match[2] or "")
    return found


def lines_of(text: str) -> list[str]:
    """The RUN lines, a `\\` at the end joining the next. Without any, the program is built and run."""
    lines: list[str] = []
    joins = False
    for line in _RUN.findall(text):
        own = line.rstrip("\\").rstrip()
        if joins:
            lines[-1] += " " + own
        else:
            lines.append(own)
        joins = line.endswith("\\")
    if lines:
        return lines
    return ["vxc %s -o %t"] if "NO_EXEC" in annotations(text) else ["vxc %s --run"]


def meet(program: Path, folder: Path) -> None:
    """Run all lines of `program`, and compare with its `EXPECT` and `WARN` lines."""
    text = program.read_text(encoding="utf-8")
    lines = lines_of(text)
    wanted = annotations(text)
    outcome = Outcome()
    for line in lines:
        _line(line, program, folder, outcome)
    assert not checks_of(text) or any("FileCheck" in line for line in lines), "nothing reads the CHECK lines"
    for part in wanted.get("EXPECT", ()):
        assert part in outcome.printed, f"{part!r} is not in\n{outcome.printed}"
    for part in wanted.get("WARN", ()):
        assert part in outcome.warnings, f"no warning has {part!r}:\n{outcome.warnings}"


def _line(line: str, program: Path, folder: Path, outcome: Outcome) -> None:
    filled = {
        "%s": str(program),
        "%S": str(program.parent),
        "%t": str(folder / program.stem),
        "%T": str(folder),
        "%{fleet}": str(ROOT / "fleet"),
    }
    words = shlex.split(re.sub(r"%(?:[sStT](?!\w)|\{fleet\})", lambda found: filled[found[0]], line))
    for pipe in _split(words, "&&"):
        _pipe([_command(part) for part in _split(pipe, "|")], line, folder, outcome)


def _split(words: Sequence[str], mark: str) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for word in words:
        if word == mark:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _command(words: Sequence[str]) -> _Command:
    command = _Command([])
    rest = iter(words)
    for word in rest:
        found = _REDIRECTION.fullmatch(word)
        if found is None:
            command.words.append(word)
        elif found[2] == "&1":
            command.merged = True
        else:
            command.files[found[1]] = found[2] or next(rest)
    return command


def _pipe(commands: Sequence[_Command], line: str, folder: Path, outcome: Outcome) -> None:
    text = ""
    for command in commands:
        done = _run(command.words, text, folder, command.merged, outcome)
        told = f"RUN: {line}\n{shlex.join(command.words)}: status {done.status}\n{done.out}\n{done.err}"
        assert done.status == 0, told
        for mark, name in command.files.items():
            Path(name).write_text(done.err if mark == "2>" else done.out, encoding="utf-8")
        text = "" if ">" in command.files else done.out


def _run(words: Sequence[str], stdin: str, folder: Path, merged: bool, outcome: Outcome) -> Done:
    name, *arguments = words
    if name == "not":
        done = _run(arguments, stdin, folder, merged, outcome)
        if done.status in NEVER_REFUSALS:
            return done
        return Done(int(done.status == 0), done.out, done.err)
    if name == "FileCheck":
        return _file_check(arguments, stdin)
    if name in ("vxc", "vx"):
        done = _forked(_vxc if name == "vxc" else _vx, arguments, stdin, folder, merged)
    else:
        done = _system(words, stdin, folder, merged)
    outcome.printed += done.out + done.err
    outcome.warnings += "".join(text + "\n" for text in (done.out + done.err).splitlines() if "Warning[" in text)
    return done


def _file_check(arguments: Sequence[str], stdin: str) -> Done:
    prefixes = ["CHECK"]
    names: list[str] = []
    text = stdin
    for argument in arguments:
        option, _, value = argument.lstrip("-").partition("=")
        if not argument.startswith("-"):
            names.append(argument)
        elif option in ("check-prefix", "check-prefixes"):
            prefixes = value.split(",")
        elif option == "input-file":
            text = Path(value).read_text(encoding="utf-8")
        elif option != "allow-empty":
            return Done(2, "", f"FileCheck: unknown option {argument}")
    checks = checks_of(Path(names[0]).read_text(encoding="utf-8"), prefixes)
    if not checks:
        return Done(2, "", f"FileCheck: no {prefixes} lines in {names[0]}")
    if not text and "--allow-empty" not in arguments:
        return Done(2, "", "FileCheck: the input is empty")
    wrong = failures(checks, text)
    return Done(0, "", "") if wrong is None else Done(1, "", f"{wrong}\n--- input\n{text}")


def _vxc(arguments: Sequence[str]) -> None:
    sys.argv = ["vxc", *arguments]
    vxc.run()


def _vx(arguments: Sequence[str]) -> None:
    from vx.cli import main

    sys.argv = ["vx", *arguments]
    main.run()


def _forked(
    command: Callable[[Sequence[str]], None], arguments: Sequence[str], stdin: str, folder: Path, merged: bool
) -> Done:
    """Run a command of this project in a child of this process."""
    with tempfile.TemporaryFile() as in_, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        in_.write(stdin.encode())
        in_.seek(0)
        child = os.fork()
        if child == 0:
            _become_command(command, arguments, folder, (in_.fileno(), out.fileno(), (out if merged else err).fileno()))
        _, status = os.waitpid(child, 0)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return Done(os.waitstatus_to_exitcode(status), texts[0], texts[1])


def _become_command(
    command: Callable[[Sequence[str]], None], arguments: Sequence[str], folder: Path, streams: tuple[int, int, int]
) -> None:
    """In the child: take the streams, run `command` (which may become another program), and end."""
    status = 255
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
        signal.alarm(TIMEOUT_S)  # also of what the child becomes
        os.chdir(folder)
        command(arguments)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _system(words: Sequence[str], stdin: str, folder: Path, merged: bool) -> Done:
    try:
        done = subprocess.run(
            words,
            input=stdin.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE,
            cwd=folder,
            timeout=TIMEOUT_S,
            check=False,
        )
    except OSError as error:
        return Done(127, "", f"{words[0]}: {error.strerror}")
    return Done(done.returncode, done.stdout.decode(errors="replace"), (done.stderr or b"").decode(errors="replace"))

"""`vxc`: the same compiler behind the flags that programs' own `// RUN:` lines use."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vx.cli.guard import guarded
from vx.cli.output import write_output
from vx.options import Options, all_consts

if TYPE_CHECKING:
    from vx.cli.report import Session
    from vx.diagnostics.report import Diagnostic

ACTIONS = ("check", "parse-only", "run-jit", "emit-obj", "emit-llvm", "print-ast")
_STAGES = {"emit-llvm": "llvm", "print-ast": "ast"}


@dataclass(frozen=True, slots=True)
class Invocation:
    """A `vxc` command line. `json` is where the diagnostics record goes: a path, "-" for stdout, or None."""

    program: str
    options: Options
    action: str
    output: str | None
    json: str | None
    arguments: tuple[str, ...]


def run() -> None:
    """Run `vxc` with the process's arguments and exit."""
    sys.exit(guarded(lambda: _main(parse(sys.argv[1:]))))


def parse(argv: Sequence[str]) -> Invocation:
    """Read a command line. Raises `SystemExit` with status 2 for a wrong one."""
    words = list(argv)
    at = words.index("--") if "--" in words else len(words)
    own, json = _json_flag(words[:at])
    parser = _parser()
    found = parser.parse_args(own)
    try:
        consts = all_consts(found.const)
    except ValueError as error:
        parser.error(str(error))
    options = Options(found.O, found.strict_index, found.machine, found.host, found.model, consts, found.target)
    action = "run-jit" if found.run else found.action
    return Invocation(found.program, options, action, found.output, json, tuple(words[at + 1 :]))


def _json_flag(words: list[str]) -> tuple[list[str], str | None]:
    """`--diagnostics-json`, whose PATH may be missing: an option or a name that ends in `.vx` is taken for none."""
    rest: list[str] = []
    json = None
    skip = False
    for word, following in zip(words, [*words[1:], ""], strict=False):
        if skip:
            skip = False
        elif word == "--diagnostics-json":
            skip = following == "-" or not (following == "" or following.startswith("-") or following.endswith(".vx"))
            json = following if skip else "-"
        elif word.startswith("--diagnostics-json="):
            json = word.partition("=")[2]
        else:
            rest.append(word)
    return rest, json


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vxc",
        description="Check, run or translate a Vx program.",
        epilog="examples: vxc p.vx --run -- ARGS · vxc p.vx --machine m.vx --host default --diagnostics-json",
    )
    parser.add_argument("program", metavar="FILE")
    parser.add_argument("--machine", metavar="F", help="machine file of the accelerator")
    parser.add_argument("--host", metavar="F|default", help="machine file of the host")
    parser.add_argument("--diagnostics-json", metavar="PATH", help="write the diagnostics record (default: stdout)")
    parser.add_argument("--action", choices=ACTIONS, default="check", help="what to do (default: check)")
    parser.add_argument("--run", action="store_true", help="build and run; the same as --action run-jit")
    parser.add_argument("-o", dest="output", metavar="PATH", help="write the executable, object or text here")
    parser.add_argument("--model", metavar="DIR", help="the model directory")
    parser.add_argument("--const", metavar="NAME=VALUE", action="append", default=[], help="override a constant")
    parser.add_argument("--strict-index", action="store_true", help="check each dimension of an index")
    parser.add_argument("--target", metavar="TARGET", help="the target to compile for")
    parser.add_argument("-O", type=int, choices=range(4), default=3, metavar="0..3", help="optimisation level")
    return parser


def _main(invocation: Invocation) -> int:
    from vx.cli.report import Session, status_of
    from vx.diagnostics.report import CompileError

    session = Session(pedantic=True)
    try:
        status = _act(invocation, session)
        found = session.reporter.diagnostics
    except CompileError as error:
        status, found = status_of(error), error.diagnostics
    try:
        _write_record(invocation, session, found)
    except CompileError as error:
        status = status_of(error)
        found = (*found, *(item for item in error.diagnostics if item not in found))
    if status or invocation.action != "run-jit":
        session.show(found)
    return status


def _act(invocation: Invocation, session: Session) -> int:
    from vx import build as driver

    program, options = invocation.program, invocation.options
    if invocation.action == "parse-only":
        driver.parse(program, session.sources, session.reporter)
    elif invocation.action in _STAGES:
        _emit(invocation, session)
    elif invocation.action == "emit-obj":
        _emit_object(invocation, session)
    elif invocation.action == "run-jit" or invocation.output:
        _build(invocation, session)
    else:
        driver.check(program, options, session.sources, session.reporter)
    return 0


def _emit(invocation: Invocation, session: Session) -> None:
    from vx.emit import Stage, emit

    stage = Stage(_STAGES[invocation.action])
    text = emit(invocation.program, stage, invocation.options, session.sources, session.reporter)
    if invocation.output is None or invocation.output == "-":
        print(text, end="")
        return
    write_output(invocation.output, text)


def _emit_object(invocation: Invocation, session: Session) -> None:
    """The host module's object at PATH; for PATH `p.o`, those of the regions are `p.1.o`, `p.2.o`, …"""
    from vx import build as driver
    from vx.codegen.compile import compile_modules

    options = invocation.options
    checked = driver.check(invocation.program, options, session.sources, session.reporter)
    texts = driver.translate(checked, session.reporter).texts
    path = Path(invocation.output or Path(invocation.program).with_suffix(".o").name)
    for number, data in enumerate(compile_modules(texts, checked.typed.target, options.opt_level)):
        write_output(str(path.with_suffix(f".{number}.o") if number else path), data)


def _build(invocation: Invocation, session: Session) -> None:
    """Build; then write the executable to PATH, or become it."""
    from vx import build as driver
    from vx.artifact.write import write_output
    from vx.launch.local import become

    built = driver.build(invocation.program, invocation.options, session.sources, session.reporter)
    for diagnostic in built.diagnostics:  # the reporter knows nothing of a cached build's
        session.reporter.add(diagnostic)
    if invocation.action == "run-jit":
        _write_record(invocation, session, built.diagnostics)
        session.show(built.diagnostics)
        become(built.executable, built.model_dir, invocation.program, invocation.arguments)
    write_output(built, invocation.program, invocation.options, invocation.output)


def _write_record(invocation: Invocation, session: Session, found: Sequence[Diagnostic]) -> None:
    from vx.admission.record import Check
    from vx.cli.record import examined, write_record

    if invocation.json is None:
        return
    file, options = invocation.program, invocation.options
    if invocation.action == "parse-only":
        check = Check(file, options.machine, found, session.sources)
    else:
        check = examined(file, options, found, session.sources)
    write_record(invocation.json, check)

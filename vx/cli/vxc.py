"""`vxc`: the same compiler behind the flags that programs' own `// RUN:` lines use."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from vx.cli.guard import guarded
from vx.options import Options

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
    found = _parser().parse_args(own)
    options = Options(
        found.O, found.strict_index, found.machine, found.host, found.model, tuple(found.const or ()), found.target
    )
    action = "run-jit" if found.run else found.action
    return Invocation(found.program, options, action, found.output, json, tuple(words[at + 1 :]))


def _json_flag(words: list[str]) -> tuple[list[str], str | None]:
    """`--diagnostics-json`, whose PATH may be missing: only a name that ends in `.json` is taken for one."""
    rest: list[str] = []
    json = None
    skip = False
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if skip:
            skip = False
        elif word == "--diagnostics-json":
            skip = following.endswith(".json")
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
    parser.add_argument("--const", metavar="NAME=VALUE", action="append", type=_const, help="override a constant")
    parser.add_argument("--strict-index", action="store_true", help="check each dimension of an index")
    parser.add_argument("--target", metavar="TARGET", help="the target to compile for")
    parser.add_argument("-O", type=int, choices=range(4), default=3, metavar="0..3", help="optimisation level")
    return parser


def _const(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name.strip(), value.strip()


def _main(invocation: Invocation) -> int:
    import typer

    from vx.cli.report import Session

    session = Session("text", invocation.program, invocation.options.machine, invocation.json)
    try:
        with session:
            return _act(invocation, session)
    except typer.Exit as end:
        return end.exit_code


def _act(invocation: Invocation, session: Session) -> int:
    from vx import build as driver

    program, options = invocation.program, invocation.options
    if invocation.action in _STAGES:
        return _emit(invocation, session)
    if invocation.action == "parse-only":
        driver.parse(program, session.sources, session.reporter)
    elif invocation.action == "run-jit" or (invocation.action == "check" and invocation.output):
        return _build(invocation, session)
    elif invocation.action == "emit-obj":
        driver.emit_object(program, options, session.sources, session.reporter, _output(invocation, ".o"))
    else:
        driver.check(program, options, session.sources, session.reporter)
    session.finish()
    return 0

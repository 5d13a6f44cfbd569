"""`vx run PROGRAM …` when nothing has changed: straight to the program, importing next to nothing.

Enters: the arguments after `vx`. It understands the options of `vx run` in their plainest form; whatever
else it sees, it leaves to the command itself, which means the same but takes longer to load.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from vx.options import Options, all_consts, all_roles

_VALUES = {
    "--model": "model",
    "--machine": "machine",
    "--host": "host",
    "--target": "target",
    "--reserve": "reserve",
    "--devices": "devices",
    "--roles": "roles",
}
_LINTS = frozenset({"W1001", "W1003", "W1007", "W1009", "W1013", "W1014"})


def is_lint(code: str) -> bool:
    """Whether a warning is about how a program is written and not about what running it means. `vx run` only
    counts those, when it builds; the others it shows at every run."""
    return code in _LINTS


@dataclass(frozen=True, slots=True)
class Request:
    """A `vx run` as written: the program, its options and its own arguments."""

    program: str
    options: Options
    arguments: tuple[str, ...]


def run_cached(argv: Sequence[str]) -> None:
    """Become the program if `argv` is a `vx run` whose build is finished and current; else return."""
    request = parse(argv)
    if request is None:
        return
    from vx.build import cached_build
    from vx.diagnostics.report import CompileError
    from vx.launch.local import become

    with suppress(CompileError):  # the command itself says what is wrong
        built = cached_build(request.program, request.options)
        if built is not None and all(is_lint(found.code) for found in built.diagnostics):
            become(built.executable, built.model_dir, request.program, request.arguments)


def parse(argv: Sequence[str]) -> Request | None:
    """The request of a plain `vx run`, or None if this is anything else."""
    if not argv or argv[0] != "run":
        return None
    own, arguments = _split(argv[1:])
    values: dict[str, str] = {}
    consts: list[str] = []
    programs: list[str] = []
    level, strict = 3, False
    rest = iter(own)
    for word in rest:
        if word in _VALUES:
            values[_VALUES[word]] = next(rest, "")
        elif word == "--const":
            consts.append(next(rest, ""))
        elif word == "--strict-index":
            strict = True
        elif word in ("-O0", "-O1", "-O2", "-O3"):
            level = int(word[2])
        elif word.startswith("-"):
            return None
        else:
            programs.append(word)
    if len(programs) != 1 or "" in values.values():
        return None
    try:
        roles = all_roles(values.pop("roles")) if "roles" in values else None
        options = Options(level, strict, consts=all_consts(consts), roles=roles, **values)
    except ValueError:
        return None
    return Request(programs[0], options, tuple(arguments))


def _split(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The compiler's words and the program's, which follow `--`."""
    if "--" not in words:
        return words, ()
    at = list(words).index("--")
    return words[:at], words[at + 1 :]

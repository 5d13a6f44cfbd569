"""Vx from Python: check, compile and run programs, with typed results.

    import vx
    result = vx.check("program.vx")
    print(result.ok, result)
    program = vx.compile("programs/llama.vx", model="stories15M")
    print(program.run(["--positions", "64"]).stdout)

Enters: paths and options, the same as on the command line. Leaves: `CheckResult`, `Program`, `RunResult`. A
refused program is a result of `check` and a `CompileError` of `compile`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

from vx.diagnostics.report import CompileError, Diagnostic, Level, Reporter, without_pedantic
from vx.diagnostics.source import SourceMap
from vx.options import Options, check_reserve, consts_of

PathArgument = str | PathLike[str]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found. As a string: the diagnostics as the command line prints them."""

    diagnostics: tuple[Diagnostic, ...]
    sources: SourceMap

    @property
    def ok(self) -> bool:
        """Whether the program was accepted; it may have warnings."""
        return all(diagnostic.level is not Level.ERROR for diagnostic in self.diagnostics)

    def position(self, diagnostic: Diagnostic) -> tuple[int, int]:
        """Line and column of a diagnostic, both 1-based."""
        return self.sources.line_col(diagnostic.span)

    def __str__(self) -> str:
        from vx.diagnostics.render import render_text

        return render_text(self.diagnostics, self.sources)


@dataclass(frozen=True, slots=True)
class RunResult:
    """A finished run. `status` is the exit status, or minus the number of the signal that ended it."""

    status: int
    output: bytes
    errors: bytes

    @property
    def stdout(self) -> str:
        """Standard output; bytes that are not UTF-8 are shown as `\\xNN`."""
        return self.output.decode("utf-8", "backslashreplace")

    @property
    def stderr(self) -> str:
        """Standard error; bytes that are not UTF-8 are shown as `\\xNN`."""
        return self.errors.decode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True)
class Program:
    """A built program. `key` names the build by content; `diagnostics` are the warnings."""

    path: str
    executable: Path
    key: str
    cached: bool
    model_dir: str | None
    diagnostics: tuple[Diagnostic, ...]

    @property
    def record(self) -> Path:
        """The record of its admission: JSON, `vx-diagnostics-v1`."""
        from vx.buildcache import RECORD

        return self.executable.parent / RECORD

    def run(
        self,
        arguments: Sequence[str | bytes] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: PathArgument | None = None,
        stdin: str | bytes = b"",
        timeout: float | None = None,
        runner: Sequence[str] = (),
    ) -> RunResult:
        """Run it and wait.

        `env` adds to this process's environment, `cwd` is where it runs, `timeout` is in seconds, `runner` is put
        before the executable (an emulator for another target). Raises `TimeoutError`; the program is dead then.
        """
        from vx.launch.local import capture

        data = stdin.encode() if isinstance(stdin, str) else stdin
        status, output, errors = capture(
            [*runner, str(self.executable), *arguments], self.model_dir, env or {}, _path(cwd), data, timeout
        )
        return RunResult(status, output, errors)


def check(
    path: PathArgument,
    *,
    model: PathArgument | None = None,
    machine: PathArgument | None = None,
    host: PathArgument | None = None,
    consts: Mapping[str, int | float | bool | str] | None = None,
    target: str | None = None,
    roles: Sequence[str] | None = None,
    reserve: str | None = None,
    pedantic: bool = False,
) -> CheckResult:
    """Check a program. Every refusal is in the result; nothing is raised for a wrong program.

    `pedantic`: report also the lints that are hidden by default.
    """
    from vx import build as driver

    sources, reporter = SourceMap(), Reporter()
    options = _options(model, machine, host, consts, 3, False, target, roles, reserve)
    try:
        driver.check(fspath(path), options, sources, reporter)
        found = reporter.diagnostics
    except CompileError as error:
        found = error.diagnostics
    return CheckResult(found if pedantic else without_pedantic(found), sources)


def compile(
    path: PathArgument,
    *,
    model: PathArgument | None = None,
    machine: PathArgument | None = None,
    host: PathArgument | None = None,
    consts: Mapping[str, int | float | bool | str] | None = None,
    opt_level: int = 3,
    strict_index: bool = False,
    target: str | None = None,
    roles: Sequence[str] | None = None,
    reserve: str | None = None,
    devices: str | None = None,
    pedantic: bool = False,
) -> Program:
    """Build a program, or find its build in the cache. Raises `CompileError` if it is refused.

    `pedantic`: `Program.diagnostics` has also the lints that are hidden by default.
    """
    from vx import build as driver

    if opt_level not in range(4):
        raise ValueError(f"opt_level is 0, 1, 2 or 3, not {opt_level!r}")
    options = _options(model, machine, host, consts, opt_level, strict_index, target, roles, reserve, devices)
    built = driver.build(fspath(path), options, SourceMap(), Reporter())
    found = tuple(built.diagnostics) if pedantic else without_pedantic(built.diagnostics)
    return Program(fspath(path), built.executable, built.key, built.cached, built.model_dir, found)


def _options(
    model: PathArgument | None,
    machine: PathArgument | None,
    host: PathArgument | None,
    consts: Mapping[str, int | float | bool | str] | None,
    opt_level: int,
    strict_index: bool,
    target: str | None,
    roles: Sequence[str] | None,
    reserve: str | None,
    devices: str | None = None,
) -> Options:
    """Raises `ValueError` for a malformed reserve or an unknown stand-in."""
    if devices not in (None, "host"):
        raise ValueError(f"devices is None or 'host', not {devices!r}")
    options = Options(
        opt_level,
        strict_index,
        _path(machine),
        _path(host),
        _path(model),
        consts_of(consts or {}),
        target,
        None if roles is None else tuple(roles),
        reserve,
        devices,
    )
    check_reserve(options)
    return options


def _path(path: PathArgument | None) -> str | None:
    return None if path is None else fspath(path)

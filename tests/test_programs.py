"""Whole programs, with what is expected of them in their own comments (`expectations.py` has the table).

`accept` is checked and must have no error, `refuse` must report exactly its errors, `run` is built and run.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from expectations import Command, Expectations, read
from filecheck import failures

import vx
from vx.api import CheckResult, RunResult
from vx.cli import fast, vxc
from vx.diagnostics.report import CompileError, Diagnostic, Level
from vx.options import Options

PROGRAMS = Path(__file__).parent / "programs"
TIMEOUT_S = 60.0


def programs(folder: str) -> list[object]:
    paths = sorted((PROGRAMS / folder).rglob("*.vx"))
    # A module that programs import is none itself.
    return [pytest.param(path, id=path.stem) for path in paths if "fn main(" in path.read_text(encoding="utf-8")]


@pytest.fixture(autouse=True)
def _in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROGRAMS.parent.parent)


def errors_of(result: CheckResult) -> list[tuple[str, int, int]]:
    found = [item for item in result.diagnostics if item.level is Level.ERROR]
    return sorted((item.code, *result.position(item)) for item in found)


@pytest.mark.parametrize("path", programs("accept"))
def test_accept(path: Path) -> None:
    expected = read(path.read_text(encoding="utf-8"), str(path))
    options = _options(expected.commands[0])
    result = _check(path, options)
    assert errors_of(result) == [], str(result)
    _meets_warnings(expected, result.diagnostics)


@pytest.mark.parametrize("path", programs("refuse"))
def test_refuse(path: Path) -> None:
    expected = read(path.read_text(encoding="utf-8"), str(path))
    assert expected.errors, "a program in `refuse` has `// EXPECT-ERROR:` lines"
    result = _check(path, _options(expected.commands[0]))
    assert errors_of(result) == sorted(expected.errors), str(result)


@pytest.mark.parametrize("path", programs("run"))
def test_run(path: Path, tmp_path: Path) -> None:
    expected = read(path.read_text(encoding="utf-8"), str(path))
    if "cuda" in expected.requires and not Path("/dev/nvidia0").exists():
        pytest.skip(f"{path.name} needs a CUDA device and there is none here")
    for command in expected.commands:
        _run(path, command, expected, tmp_path)


def _run(path: Path, command: Command, expected: Expectations, folder: Path) -> None:
    options, arguments = _parsed(command)
    try:
        program = _compile(path, options)
    except CompileError as error:
        assert command.negated, str(error)
        _meets_output(expected, _told(path, options, error))
        return
    _meets_warnings(expected, program.diagnostics)
    if expected.no_exec or not _executes(command):
        assert not command.negated, "it was to be refused, but was accepted"
        return
    result = program.run(arguments, cwd=folder, stdin=expected.stdin, timeout=TIMEOUT_S)
    _meets_result(expected, command, result)


def _meets_result(expected: Expectations, command: Command, result: RunResult) -> None:
    told = f"status {result.status}\n--- stdout\n{result.stdout}--- stderr\n{result.stderr}"
    if command.negated:
        assert result.status != 0, told
    else:
        assert result.status == expected.status, told
    _meets_output(expected, result.stdout + result.stderr)


def _meets_output(expected: Expectations, output: str) -> None:
    assert failures(expected.checks, output) is None, f"{failures(expected.checks, output)}\n--- output\n{output}"
    for text in expected.contains:
        assert text in output, output


def _meets_warnings(expected: Expectations, diagnostics: tuple[Diagnostic, ...]) -> None:
    found = [item for item in diagnostics if item.level is Level.WARNING]
    for wanted in expected.warnings:
        assert any(wanted == item.code or wanted in item.message for item in found), found


def _parsed(command: Command) -> tuple[Options, tuple[str, ...]]:
    """The options and program arguments of a RUN line, read by the commands' own parsers."""
    tool, *words = command.words
    if tool == "vxc":
        invocation = vxc.parse(words)
        return invocation.options, invocation.arguments
    assert tool == "vx", f"{tool} is neither vx nor vxc"
    request = fast.parse(["run", *words[1:]])
    assert request is not None, f"cannot read RUN line: {' '.join(command.words)}"
    return request.options, request.arguments


def _executes(command: Command) -> bool:
    if command.words[0] == "vxc":
        return vxc.parse(command.words[1:]).action == "run-jit"
    return command.words[1] == "run"


def _options(command: Command) -> Options:
    return _parsed(command)[0]


def _check(path: Path, options: Options) -> CheckResult:
    return vx.check(
        os.path.relpath(path),
        model=options.model,
        machine=options.machine,
        host=options.host,
        consts=dict(options.consts),
        target=options.target,
        pedantic=True,
    )


def _compile(path: Path, options: Options) -> vx.Program:
    return vx.compile(
        os.path.relpath(path),
        model=options.model,
        machine=options.machine,
        host=options.host,
        consts=dict(options.consts),
        opt_level=options.opt_level,
        strict_index=options.strict_index,
        target=options.target,
        pedantic=True,
    )


def _told(path: Path, options: Options, error: CompileError) -> str:
    """What the command line would print of a refusal."""
    codes = {item.code for item in error.diagnostics}
    assert any(code.startswith("E") for code in codes), "a refusal has a code"
    checked = str(_check(path, options))
    return checked or str(error)

"""Running an executable on this machine.

Enters: an executable, the model directory that it reads, its arguments. Leaves: either this process
becomes the program (`become`) or the program's status and output (`capture`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from vx.diagnostics.report import CompileError, Diagnostic, Help, Level
from vx.diagnostics.span import NOWHERE

MODEL_VARIABLE = "VX_MODEL_DIR"
TRACE_VARIABLE = "VX_TRACE"


def environment(model_dir: str | None, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The program's environment: this process's, where its model is, and `extra`."""
    variables = dict(os.environ)
    if model_dir is not None:
        variables[MODEL_VARIABLE] = model_dir
    variables.update(extra or {})
    return variables


def become(
    executable: Path, model_dir: str | None, name: str, arguments: Sequence[str], trace: str | None = None
) -> NoReturn:
    """Replace this process by the program, which sees `name` as its own name. Evidence goes to the file `trace`.

    Raises `CompileError` (E9035) if this machine cannot execute it.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    # Python ignores SIGPIPE, and what a process ignores its successor ignores too.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        extra = {} if trace is None else {TRACE_VARIABLE: os.path.abspath(trace)}
        os.execve(executable, [name, *arguments], environment(model_dir, extra))
    except OSError as error:
        raise _cannot_run(executable, error) from error


def _cannot_run(executable: Path, error: OSError) -> CompileError:
    message = f"this machine cannot run the executable: {error.strerror or error}"
    helps = (Help(f"the executable is {executable}; one for another target runs under an emulator such as qemu-user"),)
    return CompileError([Diagnostic("E9035", Level.ERROR, message, NOWHERE, helps=helps)])


def capture(
    command: Sequence[str | bytes],
    model_dir: str | None,
    extra: Mapping[str, str],
    cwd: str | None,
    stdin: bytes,
    timeout: float | None,
) -> tuple[int, bytes, bytes]:
    """Run a program to its end: its status, standard output and standard error.

    Raises `TimeoutError` after `timeout` seconds, when the program has been killed.
    """
    variables = environment(model_dir, extra)
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, env=variables, cwd=cwd, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"the program did not end within {timeout:g} s") from error
    return done.returncode, done.stdout, done.stderr

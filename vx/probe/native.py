"""The program that measures: C with the runtime that compiled programs have, built once and kept in the cache.

Enters: what to measure, and how often. Leaves: samples in nanoseconds, streamed as they are taken. What the
program cannot do (a peer that does not answer, too little memory) is E9040.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from vx.codegen.cache import cache_root, writing
from vx.codegen.link import Announce, announce_on_stderr, compile_c, link_executable, runtime_objects
from vx.codegen.target import native
from vx.diagnostics.report import CompileError, Diagnostic, Help, Level
from vx.diagnostics.span import NOWHERE

SOURCE = Path(__file__).with_name("probe.c")


def built(announce: Announce = announce_on_stderr) -> Path:
    """The program for this machine, built now if it is not in the cache.

    Raises E9020 (no such target), and what building the runtime raises.
    """
    target = native()
    runtime = runtime_objects(target, announce)[0].parent.name
    key = hashlib.sha256(SOURCE.read_bytes() + runtime.encode()).hexdigest()[:24]
    program = cache_root() / "probe" / key
    if not program.is_file():
        with writing(program):
            program.parent.mkdir(mode=0o700, exist_ok=True)
        link_executable([compile_c(SOURCE, target)], program, target, announce)
    return program


def lines(program: Path, arguments: Sequence[str], what: str) -> Iterator[str]:
    """What the program prints, line by line; ended with the caller. E9040 if it fails."""
    with tempfile.TemporaryFile() as errors:
        command = [str(program), *arguments]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors) as process:
            try:
                assert process.stdout is not None
                for line in process.stdout:
                    yield line.decode("ascii", "replace").rstrip("\n")
            except BaseException:
                process.kill()
                raise
        if process.returncode != 0:
            errors.seek(0)
            raise failed(what, errors.read(4096).decode("utf-8", "replace"), process.returncode)


def failed(what: str, words: str, status: int) -> CompileError:
    """E9040 for a measurement that ended badly."""
    reason = words.strip().removeprefix("vx: ") or (f"signal {-status}" if status < 0 else f"status {status}")
    help_text = "the probe needs about 1 GiB of memory, and a peer started with `vx machine probe --serve`"
    return CompileError([Diagnostic("E9040", Level.ERROR, f"{what}: {reason}", NOWHERE, helps=(Help(help_text),))])


@contextmanager
def serving(program: Path, address: str, seconds: int) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The program as the peer of a measurement, listening on `address`; its process and the port it got."""
    with tempfile.TemporaryFile() as errors:
        command = [str(program), "serve", address, str(seconds)]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors) as process:
            try:
                assert process.stdout is not None
                word, _, port = process.stdout.readline().decode("ascii", "replace").strip().partition(" ")
                if word != "port":
                    status = process.wait()
                    errors.seek(0)
                    raise failed("serving", errors.read(4096).decode("utf-8", "replace"), status)
                yield process, int(port)
            finally:
                process.kill()

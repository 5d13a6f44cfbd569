"""Two processes that talk over TCP through `std::net`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import vx

PROGRAM = Path(__file__).parent / "programs" / "echo.vx"


def test_echo_with_many_short_reads() -> None:
    executable = vx.compile(PROGRAM).executable
    with subprocess.Popen([executable, "serve"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        client = subprocess.run([executable, port], capture_output=True, text=True, timeout=30, check=False)
        served, complaints = server.communicate(timeout=30)
    assert (client.returncode, client.stdout) == (
        0,
        "end of stream\nthe peer ended the stream early: true false\n0\n",
    ), client.stderr
    assert (server.returncode, complaints) == (0, "")
    assert int(served) > 300


def test_nobody_listens() -> None:
    result = vx.compile(PROGRAM).run(["1"], timeout=30)
    assert (result.status, result.stderr) == (1, "connection refused\n")

"""The native program on this machine, its peers, and `vx machine probe`."""

from __future__ import annotations

import errno
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Thread

import pytest
from typer.testing import CliRunner

from vx.cli.app import app
from vx.diagnostics.report import CompileError, Reporter
from vx.diagnostics.source import SourceMap
from vx.machine.load import load_file
from vx.probe import campaign, native, probe

MAGIC = 0x31656F6270207876


@pytest.fixture(scope="module")
def program() -> Path:
    return native.built(announce=lambda _: None)


@pytest.fixture(scope="module")
def port(program: Path) -> Iterator[int]:
    with native.serving(program, "127.0.0.1:0", 60) as (_, number):
        yield number


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rounds and one attempt: enough to see the way, not to calibrate."""
    for name, value in (("QUICK_ROUNDS", 3), ("READINGS", 2), ("QUICK_SECONDS", 0)):
        monkeypatch.setattr(probe, name, value)


def quietly(count: int) -> None:
    pass


# ---- measuring ----
def test_medians_are_of_all_the_work(program: Path, port: int) -> None:
    work: list[tuple[campaign.Kind, int]] = [("copy", 4096), ("copy", 1 << 22), ("network", 1 << 22)]
    heard: list[int] = []
    medians = campaign.measure(program, f"127.0.0.1:{port}", work, 3, 1, heard.append)
    assert set(medians) == set(work) and all(spent > 0 for spent in medians.values())
    assert sum(heard) == 3 * (len(work) + 1)  # and the empty exchange


def test_larger_transfers_take_longer(program: Path, port: int) -> None:
    """The quickest of each: a busy machine can hold up any one of them."""
    quickest: dict[str, int] = {}
    work = ["copy:4096", "copy:4194304", "network:0", "network:4194304"]
    for line in native.lines(program, ["measure", "8", "1", f"127.0.0.1:{port}", *work], "measuring"):
        name, _, spent = line.partition(" ")
        quickest[name] = min(int(spent), quickest.get(name, int(spent)))
    assert 0 < quickest["copy:4096"] < quickest["copy:4194304"]
    assert 0 < quickest["network:0"] < quickest["network:4194304"]


def test_each_sample_comes_after_two_idle_milliseconds(program: Path) -> None:
    began = time.monotonic()
    samples = list(native.lines(program, ["measure", "20", "1", "-", "copy:4096"], "measuring"))
    assert len(samples) == 20 and time.monotonic() - began > 22 * 0.002


def test_memory_is_read(program: Path) -> None:
    reading = campaign.read_memory(program, 64 << 20, 3, quietly)
    assert 1e8 < reading.one < 1e13 and 1e8 < reading.all < 1e14 and 1e8 < reading.cached < 1e15


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["measure", "1", "1", "127.0.0.1:1", "network:1"], "refused"),
        (["measure", "1", "1", "nonsense", "network:1"], "nonsense"),
        (["measure", "0", "1", "-", "copy:1"], "not a number in range"),
        (["measure", "1", "1", "-", "copy:99999999999"], "not a number in range"),
        (["measure", "1", "1", "-", "copy"], "not a piece of work"),
        (["measure", "1", "1", "-"], "work"),
        (["read", "1", "x"], "not a number in range"),
        (["dance"], "dance"),
        ([], "no mode"),
    ],
)
def test_what_cannot_be_measured(program: Path, arguments: list[str], words: str) -> None:
    with pytest.raises(CompileError, match=f"E9040.*{words}"):
        list(native.lines(program, arguments, "measuring"))


# ---- serving ----
def talk(port: int, data: bytes, end: bool) -> bytes:
    """What the server answers until it ends the connection; empty too if it resets it."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as stream:
        try:
            stream.sendall(data)
            if end:
                stream.shutdown(socket.SHUT_WR)
            return stream.recv(64)
        except TimeoutError:
            raise
        except OSError:
            return b""


def message(size: int, data: bytes = b"") -> bytes:
    return struct.pack("<QQ", MAGIC, size) + data


GARBAGE = [
    b"",
    b"GET / HTTP/1.0\r\n\r\n",
    Random(1).randbytes(100_000),
    struct.pack("<QQ", MAGIC + 1, 4) + b"data",
    message(2**63),
    message(2**64 - 1),
    message((128 << 20) + 1),
    message(1000, b"short"),
    message(3)[:9],
]


def test_garbage_is_dropped_and_the_server_stays(port: int) -> None:
    for data in GARBAGE:
        assert talk(port, data, end=True) == b"", data[:20]
        assert talk(port, message(4, b"data"), end=False) == message(4)


def test_the_silent_are_dropped(port: int) -> None:
    began = time.monotonic()
    assert talk(port, b"", end=False) == b""
    assert 1.5 < time.monotonic() - began < 10
    assert talk(port, message(0), end=False) == message(0)


def test_the_server_is_reached_from_this_machine_alone() -> None:
    command = [sys.executable, "-m", "vx", "machine", "probe", "--serve", "0", "--seconds", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        line = serving.stdout.readline()
        assert line.startswith("serving on 127.0.0.1:")
        number = int(line.split(":")[1].split()[0])
        listening = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()
        assert any(f"0100007F:{number:04X} 00000000:0000 0A" in row for row in listening)
        assert not any(f"00000000:{number:04X} 00000000:0000 0A" in row for row in listening)
        assert serving.wait(20) == 0  # after its second is over


def test_a_peer_that_is_none(brief: None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            stream, _ = server.accept()
            with stream:
                stream.sendall(b"x" * 64)
                stream.recv(1 << 20)

        answering = Thread(target=answer)
        answering.start()
        words = ["machine", "probe", "--quick", "--peer", f"127.0.0.1:{server.getsockname()[1]}"]
        result = CliRunner().invoke(app, words)
        answering.join()
    assert result.exit_code == 1 and "E9040" in result.stderr and not result.stdout


# ---- the command ----
def test_probe_writes_a_machine_file(brief: None, tmp_path: Path) -> None:
    path = tmp_path / "here.vx"
    result = CliRunner().invoke(app, ["machine", "probe", "--quick", "-o", str(path)])
    assert result.exit_code in (0, 1), result.stderr  # three rounds may be too few here and now
    assert (result.exit_code == 0) == (result.stdout.count(": calibrated") == 2)
    assert "held out" in result.stdout and result.stdout.endswith(f"{path}\n")
    reporter = Reporter()
    machine = load_file(path, reporter, SourceMap())
    assert not reporter.diagnostics
    mark = machine.measurements[str(path)]
    assert mark.network == "loopback" and mark.tool.startswith("vx ") and "threads" in mark.part
    assert os.stat(path).st_mode & 0o777 == 0o644
    assert CliRunner().invoke(app, ["machine", "show", str(path)]).exit_code == 0


def test_without_a_file_it_goes_to_stdout(brief: None, port: int, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["machine", "probe", "--quick", "--peer", f"127.0.0.1:{port}"])
    assert result.exit_code in (0, 1), result.stderr
    assert "held out" in result.stderr
    path = tmp_path / "here.vx"
    path.write_text(result.stdout, encoding="utf-8")
    assert load_file(path, Reporter(), SourceMap()).measurements[str(path)].network == f"to 127.0.0.1:{port}"


def test_a_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "here.vx"
    path.write_text("mine", encoding="utf-8")
    for target in (path, tmp_path, tmp_path / "none" / "here.vx"):
        result = CliRunner().invoke(app, ["machine", "probe", "-o", str(target)])
        assert result.exit_code == 2, result.stdout
    result = CliRunner().invoke(app, ["machine", "probe", "--force", "-o", str(tmp_path)])
    assert result.exit_code == 2
    assert path.read_text(encoding="utf-8") == "mine"


def test_a_full_disk_leaves_the_old_file(brief: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "here.vx"
    path.write_text("mine", encoding="utf-8")

    def full(source: str, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("vx.codegen.cache.os.replace", full)
    result = CliRunner().invoke(app, ["machine", "probe", "--quick", "--force", "-o", str(path)])
    assert result.exit_code == 1 and "E9022" in result.stderr
    assert path.read_text(encoding="utf-8") == "mine" and os.listdir(tmp_path) == ["here.vx"]


@pytest.mark.parametrize(
    "words",
    [["--serve", "1", "--quick"], ["--serve", "1", "-o", "x"], ["--serve", "1", "--seconds", "0"], ["--rounds", "1"]],
)
def test_wrong_usage(words: list[str]) -> None:
    assert CliRunner().invoke(app, ["machine", "probe", *words]).exit_code == 2


@pytest.mark.parametrize("address", ["x", "70000", "192.0.2.1:1"])
def test_an_address_that_cannot_be_served(address: str) -> None:
    result = CliRunner().invoke(app, ["machine", "probe", "--serve", address])
    assert result.exit_code == 1 and f"E9040]: serving: {address}" in result.stderr


def test_an_impossible_figure_is_refused(brief: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A clock that runs a thousand times too slow."""
    honest = campaign.measure

    def quick(*arguments: object) -> campaign.Medians:
        return {piece: spent / 1000 for piece, spent in honest(*arguments).items()}  # type: ignore[arg-type]

    monkeypatch.setattr(campaign, "measure", quick)
    path = tmp_path / "here.vx"
    result = CliRunner().invoke(app, ["machine", "probe", "--quick", "-o", str(path)])
    assert result.exit_code == 1 and "refused" in result.stdout
    reporter = Reporter()
    machine = load_file(path, reporter, SourceMap())
    assert not reporter.diagnostics
    assert not any(edge.table for edge in machine.edges if (edge.source, edge.target) == ("CPU_DRAM", "HBM"))

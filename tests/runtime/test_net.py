"""TCP: ends of streams, errors and deadlines are three different things."""

from __future__ import annotations

import ctypes
import errno
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

NEVER = 2**63 - 1


def soon(library: ctypes.CDLL, seconds: float = 5) -> int:
    return int(library.vx_time_now()) + int(seconds * 1e9)


@contextmanager
def connected(library: ctypes.CDLL) -> Iterator[tuple[int, socket.socket]]:
    """A stream of the runtime, and Python's other end."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = library.vx_tcp_connect(f"127.0.0.1:{server.getsockname()[1]}".encode(), soon(library))
        assert ours >= 0
        theirs, _ = server.accept()
        with theirs:
            yield ours, theirs
        library.vx_tcp_close(ours)


def test_many_short_reads_fill_a_buffer(library: ctypes.CDLL) -> None:
    data = bytes(range(256)) * 40

    def dribble(theirs: socket.socket) -> None:
        for i in range(0, len(data), 7):
            theirs.sendall(data[i : i + 7])
            if i % 700 == 0:
                time.sleep(0.001)

    with connected(library) as (ours, theirs):
        sender = threading.Thread(target=dribble, args=(theirs,))
        sender.start()
        buffer = ctypes.create_string_buffer(len(data))
        assert library.vx_tcp_read_exact(ours, buffer, len(data), soon(library)) == len(data)
        sender.join()
        assert buffer.raw == data


def test_large_write_waits_for_a_slow_reader(library: ctypes.CDLL) -> None:
    data = bytes(1_000_000) + b"end"
    received = bytearray()

    def read_slowly(theirs: socket.socket) -> None:
        while piece := theirs.recv(100_000):
            received.extend(piece)
            time.sleep(0.002)

    with connected(library) as (ours, theirs):
        reader = threading.Thread(target=read_slowly, args=(theirs,))
        reader.start()
        assert library.vx_tcp_write_all(ours, data, len(data), soon(library)) == len(data)
        assert library.vx_tcp_finish(ours) == 0
        reader.join()
    assert received == data


def test_end_of_stream_is_not_an_error(library: ctypes.CDLL) -> None:
    buffer = ctypes.create_string_buffer(100)
    with connected(library) as (ours, theirs):
        theirs.sendall(b"abc")
        theirs.shutdown(socket.SHUT_WR)
        assert library.vx_tcp_read_exact(ours, buffer, 100, soon(library)) == 3
        assert library.vx_tcp_read(ours, buffer, 100, soon(library)) == 0


def test_deadlines(library: ctypes.CDLL) -> None:
    buffer = ctypes.create_string_buffer(100)
    with connected(library) as (ours, _):
        start = time.monotonic()
        assert library.vx_tcp_read(ours, buffer, 100, soon(library, 0.05)) == -errno.ETIMEDOUT
        assert 0.045 < time.monotonic() - start < 2
        big = bytes(50_000_000)
        assert library.vx_tcp_write_all(ours, big, len(big), soon(library, 0.05)) == -errno.ETIMEDOUT
    listener = library.vx_tcp_listen(b"127.0.0.1:0", 1)
    assert library.vx_tcp_accept(listener, soon(library, 0.02)) == -errno.ETIMEDOUT
    library.vx_tcp_close(listener)


def test_refused_and_reset(library: ctypes.CDLL) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}".encode()
        assert library.vx_tcp_connect(address, soon(library)) == -errno.ECONNREFUSED
    buffer = ctypes.create_string_buffer(10)
    with connected(library) as (ours, theirs):
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        theirs.close()
        assert library.vx_tcp_read(ours, buffer, 10, soon(library)) == -errno.ECONNRESET


@pytest.mark.parametrize(
    "address",
    [b"", b":", b"host", b"host:", b"host:x", b"host:70000", b"1::2:80", b"[::1:80", b"h:1 ", b"[]:80", b"::"],
)
def test_bad_addresses(library: ctypes.CDLL, address: bytes) -> None:
    assert library.vx_tcp_connect(address, soon(library)) == -errno.EINVAL
    assert library.vx_tcp_listen(address, 1) == -errno.EINVAL


def test_unknown_host(library: ctypes.CDLL) -> None:
    assert library.vx_tcp_connect(b"no-such-host.invalid:80", soon(library)) in (-errno.ENOENT, -errno.EAGAIN)


@pytest.mark.parametrize("address", [b":0", b"0", b"127.0.0.1:0", b"localhost:0"])
def test_listener_serves_and_its_port_can_be_reused(library: ctypes.CDLL, address: bytes) -> None:
    listener = library.vx_tcp_listen(address, 8)
    port = library.vx_tcp_port(listener)
    assert port > 0
    assert library.vx_tcp_listen(f"127.0.0.1:{port}".encode(), 8) == -errno.EADDRINUSE
    with socket.create_connection(("127.0.0.1", port)) as theirs:
        ours = library.vx_tcp_accept(listener, soon(library))
        assert library.vx_tcp_write_all(ours, b"hi", 2, NEVER) == 2
        assert theirs.recv(10) == b"hi"
        library.vx_tcp_close(ours)
    library.vx_tcp_close(listener)
    again = library.vx_tcp_listen(f"127.0.0.1:{port}".encode(), 8)
    assert again >= 0
    library.vx_tcp_close(again)

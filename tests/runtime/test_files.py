"""Files and numbers read from text."""

from __future__ import annotations

import ctypes
import errno
import math
import os
from pathlib import Path

import pytest

from vx.runtime.abi import FILE_MODES


def test_write_read_append_map(library: ctypes.CDLL, tmp_path: Path) -> None:
    path = str(tmp_path / "f").encode()
    for mode, data in (("CREATE", b"hello "), ("APPEND", b"world")):
        file = library.vx_file_open(path, FILE_MODES[mode])
        assert library.vx_file_write(file, data, len(data)) == len(data)
        assert library.vx_file_close(file) == 0
    file = library.vx_file_open(path, FILE_MODES["READ"])
    buffer = ctypes.create_string_buffer(100)
    assert library.vx_file_size(file) == 11
    assert library.vx_file_read(file, buffer, 100) == 11
    assert library.vx_file_read(file, buffer, 100) == 0
    data = library.vx_file_map(file, 11)
    assert ctypes.string_at(data, 11) == b"hello world"
    library.vx_file_unmap(data, 11)
    library.vx_file_close(file)


def test_errors_are_negative_numbers(library: ctypes.CDLL, tmp_path: Path) -> None:
    assert library.vx_file_open(str(tmp_path / "no").encode(), 0) == -errno.ENOENT
    folder = library.vx_file_open(str(tmp_path).encode(), 0)
    assert library.vx_file_size(folder) == -errno.EISDIR
    assert library.vx_file_map(folder, 10) is None
    library.vx_file_close(folder)
    assert library.vx_file_close(folder) == -errno.EBADF
    full = library.vx_file_open(b"/dev/full", FILE_MODES["CREATE"])
    assert library.vx_file_write(full, b"x", 1) == -errno.ENOSPC
    library.vx_file_close(full)
    library.vx_error_text.restype = ctypes.c_char_p
    assert library.vx_error_text(-errno.ENOENT) == os.strerror(errno.ENOENT).encode()


@pytest.mark.parametrize(
    "text", ["1", "-1.5", "1e-5", "+3", ".5", "5.", "inf", "-nan", "0.1", "1e400", "123456789.125"]
)
def test_numbers_are_read_as_python_reads_them(library: ctypes.CDLL, text: str) -> None:
    f64, f32 = ctypes.c_double(), ctypes.c_float()
    assert library.vx_parse_f64(text.encode(), len(text), ctypes.byref(f64)) == 1
    assert library.vx_parse_f32(text.encode(), len(text), ctypes.byref(f32)) == 1
    expected = float(text)
    assert f64.value == expected or (math.isnan(f64.value) and math.isnan(expected))
    assert f32.value == ctypes.c_float(expected).value or math.isnan(expected)


@pytest.mark.parametrize("text", ["", " 1", "1 ", "0x10", "1.2.3", "e5", "one", "1e", "--1", "9" * 500, "1\0"])
def test_what_is_no_number(library: ctypes.CDLL, text: str) -> None:
    assert library.vx_parse_f64(text.encode(), len(text), ctypes.byref(ctypes.c_double())) == 0

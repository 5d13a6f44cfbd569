"""Reading sources, and lines and columns in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from vx.diagnostics.report import CompileError
from vx.diagnostics.source import MAX_SOURCE_BYTES, SourceMap
from vx.diagnostics.span import Span


def code_of(path: Path) -> tuple[str, str]:
    with pytest.raises(CompileError) as caught:
        SourceMap().load(path)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic.code, diagnostic.helps[0].text


def test_load(tmp_path: Path) -> None:
    file = tmp_path / "a.vx"
    file.write_bytes("\ufeffé\r\nb".encode())
    sources = SourceMap()
    assert sources.load(file) == "é\r\nb" == sources.text(str(file))
    assert str(file) in sources and "other" not in sources
    file.unlink()
    assert sources.load(file) == "é\r\nb"


def test_missing(tmp_path: Path) -> None:
    (tmp_path / "llama.vx").write_text("")
    assert code_of(tmp_path / "lama.vx") == ("E9001", f"did you mean {tmp_path / 'llama.vx'}?")
    assert code_of(tmp_path / "no" / "such.vx")[0] == "E9001"


def test_directory(tmp_path: Path) -> None:
    assert code_of(tmp_path)[0] == "E9002"


@pytest.mark.parametrize("name", ["a\0b.vx", "x" * 5000])
def test_impossible_names(tmp_path: Path, name: str) -> None:
    assert code_of(tmp_path / name)[0] in ("E9001", "E9003")


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"ab\x80", b"a\0b", bytes(range(256)) * 4096])
def test_not_text(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "a.vx"
    file.write_bytes(data)
    assert code_of(file)[0] == "E9004"


def test_too_large(tmp_path: Path) -> None:
    file = tmp_path / "a.vx"
    file.write_bytes(b" " * MAX_SOURCE_BYTES)
    SourceMap().load(file)
    file.write_bytes(b" " * (MAX_SOURCE_BYTES + 1))
    assert code_of(file)[0] == "E9005"


def test_line_and_column() -> None:
    sources = SourceMap()
    sources.add("t", "ab\n\ncd")
    positions = [sources.line_col(Span("t", at, at)) for at in range(7)]
    assert positions == [(1, 1), (1, 2), (1, 3), (2, 1), (3, 1), (3, 2), (3, 3)]
    assert [sources.line_text("t", line) for line in (0, 1, 2, 3, 4)] == ["", "ab", "", "cd", ""]
    assert sources.line_col(Span("unknown", 0, 0)) == (1, 1)


def test_a_text_can_be_replaced() -> None:
    sources = SourceMap()
    sources.add("t", "a\nb")
    assert sources.line_col(Span("t", 2, 3)) == (2, 1)
    sources.add("t", "abc")
    assert sources.line_col(Span("t", 2, 3)) == (1, 3)

"""Files that the user names are written whole or left as they were."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from vx.cli.output import print_text, write_output
from vx.diagnostics.report import CompileError


def test_new_file_has_the_umask_mode(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_output(tmp_path / "a", "×\n")
    finally:
        os.umask(old)
    assert (tmp_path / "a").read_text("utf-8") == "×\n" and (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_replaced_file_keeps_its_mode_and_a_link_stays_a_link(tmp_path: Path) -> None:
    kept, link = tmp_path / "kept", tmp_path / "link"
    kept.write_text("old")
    kept.chmod(0o604)
    link.symlink_to(kept)
    write_output(link, b"new")
    assert link.is_symlink() and kept.read_bytes() == b"new" and kept.stat().st_mode & 0o777 == 0o604


def test_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("vx.codegen.cache.os.replace", full)
    with pytest.raises(CompileError) as refused:
        write_output(tmp_path / "a", "new")
    assert refused.value.diagnostics[0].code == "E9022"
    assert (tmp_path / "a").read_text() == "old" and os.listdir(tmp_path) == ["a"]


@pytest.mark.skipif(os.getuid() == 0, reason="root writes in every folder")
def test_what_a_link_names_is_written_in_place_where_nothing_can_be_made(tmp_path: Path) -> None:
    closed, link = tmp_path / "closed", tmp_path / "link"
    closed.mkdir()
    (closed / "a").write_text("old")
    link.symlink_to(closed / "a")
    closed.chmod(0o500)
    try:
        write_output(link, "new")
        assert (closed / "a").read_text() == "new"
    finally:
        closed.chmod(0o700)


def test_standard_output_that_is_a_file_stays_that_file(tmp_path: Path) -> None:
    script = "from vx.cli.output import write_output; write_output('/dev/stdout', 'text'); print('more', flush=True)"
    with (tmp_path / "log").open("w") as log:
        subprocess.run([sys.executable, "-c", script], stdout=log, check=True)
        assert os.fstat(log.fileno()).st_nlink == 1
    assert "more" in (tmp_path / "log").read_text()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_devices_are_written_in_place() -> None:
    write_output("/dev/null", "text")
    with pytest.raises(CompileError) as refused:
        write_output("/dev/full", "text")
    assert refused.value.diagnostics[0].code == "E9022"


def test_pipes_are_written_in_place(tmp_path: Path) -> None:
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write_output(pipe, "text")
    reader.join()
    assert got == [b"text"] and pipe.is_fifo()


@pytest.mark.parametrize("name", ["missing/a", "."])
def test_what_cannot_be_written_is_refused_with_advice(tmp_path: Path, name: str) -> None:
    with pytest.raises(CompileError) as refused:
        write_output(tmp_path / name, "text", "name another file")
    (found,) = refused.value.diagnostics
    assert found.code == "E9021" and "name another file" in str(found.helps)


def test_characters_that_a_terminal_lacks_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ascii:
        encoding = "ascii"

        def write(self, text: str) -> None:
            text.encode("ascii")
            written.append(text)

        def flush(self) -> None: ...

    written: list[str] = []
    monkeypatch.setattr("sys.stdout", Ascii())
    print_text("3 × 4 ✓ é\n")
    assert "".join(written) == "3 x 4 + \\xe9\n"

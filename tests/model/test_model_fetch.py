"""Downloads, against a server of our own: whole, resumed, cut off, changed, refused."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from made_checkpoint import Made

from vx.model.errors import ModelError
from vx.model.fetch import CATALOGUE, Download, Published, download, fetch


class Handler(BaseHTTPRequestHandler):
    """Serves `files`; `cut` ends every answer after so many bytes, `ranges` says whether parts are served."""

    files: ClassVar[dict[str, bytes]] = {}
    cut: ClassVar[int | None] = None
    ranges: ClassVar[bool] = True
    asked: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        data = self.files.get(self.path)
        wanted = self.headers.get("Range")
        self.asked.append(wanted)
        if data is None:
            self.send_error(404)
            return
        start = int(re.findall(r"\d+", wanted)[0]) if wanted and self.ranges else 0
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        self.wfile.write(data[start:] if self.cut is None else data[start : start + self.cut])

    def log_message(self, *_: object) -> None:
        return None


@pytest.fixture
def server() -> Iterator[str]:
    Handler.files, Handler.cut, Handler.ranges, Handler.asked = {}, None, True, []
    httpd = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def published(server: str, data: bytes) -> Download:
    Handler.files["/file"] = data
    return Download(f"{server}/file", len(data), sha256(data).hexdigest())


DATA = bytes(range(256)) * 3000


def catalogue(server: str, made: Made) -> Mapping[str, Published]:
    downloads = []
    for path in (made.checkpoint, made.tokenizer):
        data = path.read_bytes()
        Handler.files[f"/{path.name}"] = data
        downloads.append(Download(f"{server}/{path.name}", len(data), sha256(data).hexdigest()))
    return {"made": Published(*downloads, license="none")}


def test_fetch_makes_a_model_directory(server: str, made: Made) -> None:
    seen: list[tuple[int, int]] = []
    info = fetch("made", made.out, "f16", lambda done, total: seen.append((done, total)), catalogue(server, made))
    assert info.elem == "f16" and info.digest == made.load().digest
    total = made.checkpoint.stat().st_size + made.tokenizer.stat().st_size
    assert seen[-1] == (total, total) and seen == sorted(seen)
    assert not Path(f"{made.out}.download").exists()


def test_a_download_goes_on_where_it_stopped(server: str, tmp_path: Path) -> None:
    file = published(server, DATA)
    Handler.cut = 300_000
    with pytest.raises(ModelError) as caught:
        download(file, tmp_path / "f")
    assert caught.value.code == "E9109" and "300000 bytes are kept" in caught.value.helps[0]
    Handler.cut = None
    assert download(file, tmp_path / "f").read_bytes() == DATA
    assert Handler.asked == [None, "bytes=300000-"]
    download(file, tmp_path / "f")
    assert len(Handler.asked) == 2, "what is there is not fetched again"


def test_a_server_without_ranges_starts_over(server: str, tmp_path: Path) -> None:
    file = published(server, DATA)
    (tmp_path / "f.part").write_bytes(b"x" * 1000)
    Handler.ranges = False
    assert download(file, tmp_path / "f").read_bytes() == DATA


@pytest.mark.parametrize("sent", [DATA[:-1] + b"?", DATA + b"more", DATA + DATA * 40])
def test_a_changed_file_is_thrown_away(server: str, tmp_path: Path, sent: bytes) -> None:
    file = published(server, DATA)
    Handler.files["/file"] = sent
    with pytest.raises(ModelError, match="E9114"):
        download(file, tmp_path / "f")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_part_is_thrown_away(server: str, tmp_path: Path) -> None:
    file = published(server, DATA)
    (tmp_path / "f.part").write_bytes(b"x" * 1000)
    with pytest.raises(ModelError, match="E9114"):
        download(file, tmp_path / "f")
    assert download(file, tmp_path / "f").read_bytes() == DATA


def test_refusals(server: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"E9109.*404"):
        download(Download(f"{server}/none", 10, "0" * 64), tmp_path / "f")
    with pytest.raises(ModelError) as caught:
        download(Download("http://127.0.0.1:9/x", 10, "0" * 64), tmp_path / "f")
    assert caught.value.code == "E9109" and "vx model import" in caught.value.helps[-1]
    with pytest.raises(ModelError, match="E9108"):
        download(published(server, DATA), tmp_path / "no" / "such" / "folder" / "f")


def test_names(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        fetch("stories15", tmp_path / "m")
    assert caught.value.code == "E9112" and caught.value.helps[0] == "did you mean `stories15M`?"
    for entry in CATALOGUE.values():
        for file in (entry.checkpoint, entry.tokenizer):
            assert file.url.startswith("https://") and re.fullmatch("[0-9a-f]{64}", file.sha256)

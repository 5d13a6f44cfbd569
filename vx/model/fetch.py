"""Public models by name: downloaded, checked, imported.

Enters: a name of `CATALOGUE`. Leaves: a model directory. What has been downloaded stays in `OUT.download`
until the model is complete, so an interrupted download goes on where it stopped.
"""

from __future__ import annotations

import difflib
import http.client
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

from vx.model.directory import Progress
from vx.model.errors import ModelError, printable, reading
from vx.model.info import ModelInfo
from vx.model.llama2c import import_llama2c

TIMEOUT_S = 30.0
"""Longest silence of a server."""
CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class Download:
    """A file that never changes: its size in bytes and SHA-256 (hex) are known before it is fetched."""

    url: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Published:
    """A llama2.c checkpoint with its tokenizer, and what one may do with them."""

    checkpoint: Download
    tokenizer: Download
    license: str


CATALOGUE: Mapping[str, Published] = MappingProxyType(
    {
        "stories15M": Published(
            Download(
                "https://huggingface.co/karpathy/tinyllamas/resolve/main/stories15M.bin",
                60_816_028,
                "cd590644d963867a2b6e5a1107f51fad663c41d79c149fbecbbb1f95fa81f49a",
            ),
            Download(
                "https://github.com/karpathy/llama2.c/raw/master/tokenizer.bin",
                433_869,
                "50a52ef822ee9e83de5ce9d0be0a025a773d019437f58b5ff9dcafb063ece361",
            ),
            "MIT",
        ),
    }
)


def fetch(
    name: str,
    out: str | Path,
    dtype: str = "f32",
    progress: Progress | None = None,
    catalogue: Mapping[str, Published] = CATALOGUE,
) -> ModelInfo:
    """Download the model `name` into the model directory `out`. `progress` counts bytes received.

    E9112 unknown name, E9109 the network or the server refuses, E9114 what came is not what was published,
    E9108 cannot write, and what `import_llama2c` raises.
    """
    if name not in catalogue:
        close = difflib.get_close_matches(name, catalogue, n=1)
        helps = [f"did you mean `{close[0]}`?"] if close else []
        raise ModelError("E9112", f"no published model `{name}` is known", [*helps, f"known: {', '.join(catalogue)}"])
    published = catalogue[name]
    store = Path(f"{out}.download")
    total = published.checkpoint.bytes + published.tokenizer.bytes
    with _writing(store):
        store.mkdir(parents=True, exist_ok=True)
    try:
        tokenizer = download(published.tokenizer, store / "tokenizer.bin", _offset(progress, 0, total))
        checkpoint = download(
            published.checkpoint, store / f"{name}.bin", _offset(progress, published.tokenizer.bytes, total)
        )
        info = import_llama2c(checkpoint, tokenizer, out, dtype)
    except ModelError:
        with suppress(OSError):
            store.rmdir()
        raise
    shutil.rmtree(store, ignore_errors=True)
    return info


def _offset(progress: Progress | None, before: int, total: int) -> Progress | None:
    if progress is None:
        return None
    return lambda done, _: progress(before + done, total)


def download(file: Download, path: Path, progress: Progress | None = None) -> Path:
    """Fetch `file` to `path` unless it is there; resumes `path.part`. E9108, E9109, E9114."""
    if path.exists() and path.stat().st_size == file.bytes and _digest(path) == file.sha256:
        return path
    part = path.with_name(path.name + ".part")
    try:
        _receive(file, part, progress)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise _refused(file, part, error) from error
    if part.stat().st_size != file.bytes or _digest(part) != file.sha256:
        size = part.stat().st_size
        part.unlink()
        raise ModelError(
            "E9114",
            f"what `{file.url}` sent ({size} bytes) is not the published file ({file.bytes} bytes, SHA-256 {file.sha256})",
            ["it was thrown away; try again, and if it happens again something on the way changes files"],
        )
    with _writing(path):
        part.replace(path)
    return path


def _receive(file: Download, part: Path, progress: Progress | None) -> None:
    """Append what is missing to `part`, never more than the file's size and one chunk."""
    done = part.stat().st_size if part.exists() else 0
    if done == file.bytes:
        return
    request = urllib.request.Request(file.url, headers={"User-Agent": "vx"})
    if 0 < done < file.bytes:
        request.add_header("Range", f"bytes={done}-")
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
        done = done if _continues(response, done) else 0
        with _writing(part), part.open("ab" if done else "wb") as target:
            while done <= file.bytes and (piece := response.read(CHUNK)):
                target.write(piece)
                done += len(piece)
                if progress is not None:
                    progress(min(done, file.bytes), file.bytes)
    if done < file.bytes:
        raise http.client.IncompleteRead(b"", file.bytes - done)


def _continues(response: Any, done: int) -> bool:
    """Whether the server sends the rest of the file; otherwise it sends all of it."""
    found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return done > 0 and response.status == 206 and found is not None and int(found[1]) == done


def _refused(file: Download, part: Path, error: Exception) -> ModelError:
    reason = getattr(error, "reason", None) or error
    reason = getattr(reason, "strerror", None) or reason
    if isinstance(error, urllib.error.HTTPError):
        reason = f"the server answers {error.code} {error.reason}"
    if isinstance(error, http.client.IncompleteRead):
        reason = "the connection ended early"
    helps = [f"fetch the file by other means and use `vx model import CHECKPOINT --tokenizer FILE`: {file.url}"]
    if part.exists() and part.stat().st_size:
        helps.insert(0, f"the first {part.stat().st_size} bytes are kept; the same command goes on from there")
    return ModelError("E9109", f"cannot download `{file.url}`: {reason}", helps)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """The system's refusals to write `path` become E9108; the network's pass."""
    try:
        yield
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        raise
    except OSError as error:
        raise ModelError("E9108", f"cannot write `{printable(path)}`: {error.strerror or error}") from error


def _digest(path: Path) -> str:
    hashed = sha256()
    with reading(path, "download"), path.open("rb") as file:
        while piece := file.read(CHUNK):
            hashed.update(piece)
    return hashed.hexdigest()

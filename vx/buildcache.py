"""Finished builds by the content of everything they were made from.

Enters: a program's path and `Options`. Leaves: the executable of an earlier build, if every file that it
read still has the same content; or a place for a new one. A *request* (path and options) has a manifest of
the files read; a *build* is named by the hash of their contents, the options and the compiler itself.

This is the path of every cached run, so it imports nothing of the compiler.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from vx.codegen.cache import cache_root, write_atomically, writing
from vx.options import Options

KEPT_BUILDS = 256
"""Builds kept; the least recently used are removed when there are more."""

RECORD = "admission.json"
"""The record of a build's admission, beside its executable."""
_FORMAT = 2
_ABANDONED_S = 24 * 3600.0
_HEADER_LIMIT = 1 << 26
_TOOLS = ("llvmlite", "triton", "ziglang")


@dataclass(frozen=True, slots=True)
class Dependency:
    """A file that a build was made from. `kind` "text" counts in full, "header" only by its size and the
    header of a safetensors file (weights are data of the program, not of the build)."""

    path: str
    kind: str
    digest: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A finished build. `model_dir` is the model directory that it runs with, if it uses one; `diagnostics`
    are its warnings as plain data."""

    executable: Path
    key: str
    model_dir: str | None
    diagnostics: list[object]


def text_digest(text: str) -> str:
    """The digest of a source text as `digest` computes it of the file."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digest(path: str, kind: str) -> str:
    """The content of a file as far as `kind` says that it matters; "absent" if it cannot be read."""
    try:
        with open(path, "rb") as stream:
            if kind == "text":
                return sha256(stream.read().removeprefix(b"\xef\xbb\xbf")).hexdigest()
            length = int.from_bytes(stream.read(8), "little")
            size = os.fstat(stream.fileno()).st_size
            return sha256(b"%d:%d:" % (size, length) + stream.read(min(length, _HEADER_LIMIT))).hexdigest()
    except OSError:
        return "absent"


def compiler_digest() -> str:
    """A hash over the compiler: its own files, the versions of its tools and of Python."""
    package = Path(__file__).resolve().parent
    total = sha256(repr((_FORMAT, sys.version_info[:3], _tool_versions())).encode())
    for folder, folders, names in os.walk(package):
        folders[:] = sorted(name for name in folders if name not in ("__pycache__", "_data"))
        for name in sorted(names):
            if name.endswith((".py", ".vx", ".c", ".h")):
                path = os.path.join(folder, name)
                total.update(f"{os.path.relpath(path, package)}:{digest(path, 'text')}".encode())
    return total.hexdigest()


def request_key(program: str, options: Options, model: str | None, compiler: str) -> str:
    """The name of a request: which program, with which options, model directory and compiler."""
    parts = [os.path.abspath(program), program, os.getcwd(), options.canonical(), model, compiler]
    return sha256(json.dumps(parts, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def build_key(options: Options, dependencies: Iterable[Dependency], compiler: str) -> str:
    """The name of a build: a hash over everything that it is made from."""
    files = sorted((item.path, item.kind, item.digest) for item in dependencies)
    return sha256(json.dumps([options.canonical(), files, compiler], sort_keys=True).encode()).hexdigest()


def look_up(request: str) -> Entry | None:
    """The finished build of a request, if nothing that it was made from has changed since."""
    root = cache_root()
    try:
        manifest = json.loads((root / "requests" / f"{request}.json").read_bytes())
        dependencies = [Dependency(*item) for item in manifest["dependencies"]]
        entry = Entry(
            root / "builds" / manifest["key"] / "program",
            manifest["key"],
            manifest["model_dir"],
            manifest["diagnostics"],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if any(digest(item.path, item.kind) != item.digest for item in dependencies):
        return None
    if not os.access(entry.executable, os.X_OK):
        return None
    with suppress(OSError):  # only marks it as used
        os.utime(entry.executable.parent)
    return entry


def find_build(key: str) -> Path | None:
    """The executable of the build `key`, if there is one."""
    program = cache_root() / "builds" / key / "program"
    return program if os.access(program, os.X_OK) else None


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder of one running build; `program` and `record` are to be written."""

    folder: Path

    @property
    def program(self) -> Path:
        return self.folder / "program"

    @property
    def record(self) -> Path:
        return self.folder / RECORD


def workspace() -> Workspace:
    """A new private folder inside the cache. `store` or `discard` ends it."""
    parent = cache_root() / "tmp"
    with writing(parent):
        parent.mkdir(exist_ok=True)
        return Workspace(Path(tempfile.mkdtemp(dir=parent)))


def discard(space: Workspace) -> None:
    """Remove an unfinished build."""
    shutil.rmtree(space.folder, ignore_errors=True)


def store(space: Workspace, key: str) -> Path:
    """Make a finished workspace the build `key`; if another process was first, its build stays."""
    builds = cache_root() / "builds"
    final = builds / key
    with writing(builds):
        builds.mkdir(exist_ok=True)
        try:
            os.rename(space.folder, final)
        except OSError:
            if not os.access(final / "program", os.X_OK):
                raise
            discard(space)
    _prune(builds, keep=final)
    return final / "program"


def record(
    request: str,
    key: str,
    dependencies: Iterable[Dependency],
    model_dir: str | None,
    diagnostics: list[object],
) -> None:
    """Write the manifest of a request, so that the next one with the same content finds the build."""
    requests = cache_root() / "requests"
    with writing(requests):
        requests.mkdir(exist_ok=True)
    manifest = {
        "key": key,
        "dependencies": [[item.path, item.kind, item.digest] for item in dependencies],
        "model_dir": model_dir,
        "diagnostics": diagnostics,
    }
    write_atomically(requests / f"{request}.json", json.dumps(manifest).encode())


def _prune(builds: Path, keep: Path) -> None:
    """Remove the least recently used builds beyond `KEPT_BUILDS`, old manifests, and what killed builds left."""
    by_age = sorted((entry for entry in builds.iterdir() if entry != keep), key=_age)
    for stale in by_age[: max(0, len(by_age) + 1 - KEPT_BUILDS)]:
        shutil.rmtree(stale, ignore_errors=True)
    requests = builds.parent / "requests"
    manifests = sorted(requests.glob("*.json"), key=_age) if requests.is_dir() else []
    for stale in manifests[: max(0, len(manifests) - 4 * KEPT_BUILDS)]:
        stale.unlink(missing_ok=True)
    for left in (builds.parent / "tmp").iterdir():
        if _age(left) < time.time() - _ABANDONED_S:
            shutil.rmtree(left, ignore_errors=True)


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _tool_versions() -> list[str]:
    """The installed versions of the tools that make code, read off their metadata folders' names."""
    found = []
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        found += [name for name in names if name.endswith(".dist-info") and name.startswith(_TOOLS)]
    return sorted(set(found))

"""`manifest.json`: what an artifact is, and the size and SHA-256 of each of its files.

Enters: facts and files of a build, or the bytes of a manifest from anywhere. Leaves: a `Manifest`, whose text is the
same wherever it is made. A manifest that is read is believed in nothing: every field has the type, and every name the
form, that `docs/reference/artifact.md` says, or it is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from vx.artifact.errors import MANIFEST as REFUSED
from vx.artifact.errors import ArtifactError, shown

SCHEMA, VERSION = "vx-artifact", 1
PROGRAM, MODEL, RECORD, MANIFEST = "program", "model", "admission.json", "manifest.json"
"""Names in every artifact: the executable, the model's folder, the record of admission, and what lists them."""
LIMIT = 16 << 20
"""Bytes of the longest manifest that is read."""
_NAME_LIMIT = 240

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class File:
    """Size in bytes, and SHA-256 in hexadecimal."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Role:
    """A role, and whether it is part of the build: `admitted`, or why not."""

    role: str
    verdict: str
    why: str | None


@dataclass(frozen=True, slots=True)
class Model:
    """`digest` is the model's own, `seed` that of generated weights. `files` are those of the model directory if they
    are not in the artifact: the program finds them through VX_MODEL_DIR."""

    digest: str
    seed: int | None
    included: bool
    files: Mapping[str, File]


@dataclass(frozen=True, slots=True)
class Manifest:
    """`artifact`, `machine_sha256` and `plan` are what the executable says of itself (`identity.py`); `options` are
    those of the compilation that are not paths. `files` are all but the manifest."""

    program: str
    compiler: str
    target: str
    artifact: str
    machine: str | None
    machine_sha256: str
    plan: str
    roles: tuple[Role, ...]
    options: Mapping[str, Any]
    model: Model | None
    files: Mapping[str, File]


def text_of(manifest: Manifest) -> bytes:
    """The manifest as JSON. Equal manifests have equal text."""
    fields = {"schema": SCHEMA, "version": VERSION, **asdict(manifest)}
    return (json.dumps(fields, indent=1, sort_keys=True, ensure_ascii=True) + "\n").encode()


def is_name(name: object) -> bool:
    """Whether it may name a file of an artifact: relative, inside it, of printable characters, not too long."""
    if not isinstance(name, str) or not name.isprintable() or "\\" in name:
        return False
    parts = name.split("/")
    return len(name.encode("utf-8", "replace")) <= _NAME_LIMIT and not {"", ".", ".."} & set(parts)


# ---- reading -----------------------------------------------------------------------------------
def parse(data: bytes, where: str = MANIFEST) -> Manifest:
    """The manifest in `data`. Raises `ArtifactError` (E9202) naming what is wrong with it."""
    if len(data) > LIMIT:
        raise ArtifactError(REFUSED, where, f"it has more than {LIMIT >> 20} MiB, so it is no manifest")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise ArtifactError(REFUSED, where, "it is not JSON") from None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise ArtifactError(REFUSED, where, f"it is not the manifest of an artifact: `schema` is not `{SCHEMA}`")
    if found.get("version") is True or found.get("version") != VERSION:
        version = shown(str(found.get("version")))
        raise ArtifactError(REFUSED, where, f"it has version {version}, and this vx reads version {VERSION}")
    return _manifest(_Reader(where, "", found).only("schema", "version", *Manifest.__slots__))


def _manifest(read: _Reader) -> Manifest:
    files = {name: _file(inner) for name, inner in read.mapping("files")}
    if MANIFEST in files or not {PROGRAM, RECORD} <= files.keys():
        raise read.wrong("files", f"must list `{PROGRAM}` and `{RECORD}`, and not `{MANIFEST}`")
    return Manifest(
        program=read.text("program"),
        compiler=read.text("compiler"),
        target=read.text("target"),
        artifact=read.digest("artifact"),
        machine=read.optional("machine", _Reader.text),
        machine_sha256=read.digest("machine_sha256", empty=True),
        plan=read.digest("plan", empty=True),
        roles=tuple(_role(inner) for inner in read.rows("roles")),
        options=read.object("options"),
        model=read.optional("model", _model),
        files=files,
    )


def _role(read: _Reader) -> Role:
    read.only(*Role.__slots__)
    return Role(read.text("role"), read.text("verdict"), read.optional("why", _Reader.text))


def _model(outer: _Reader, name: str) -> Model:
    read = outer.inner(name).only(*Model.__slots__)
    seed = read.optional("seed", _Reader.number)
    files = {key: _file(inner) for key, inner in read.mapping("files")}
    return Model(read.digest("digest"), seed, read.flag("included"), files)


def _file(read: _Reader) -> File:
    read.only(*File.__slots__)
    return File(read.number("bytes"), read.digest("sha256"))


@dataclass(frozen=True, slots=True)
class _Reader:
    """An object of the manifest. Each method gives one field, of the type that it is named for, or refuses."""

    where: str
    path: str
    fields: Mapping[str, Any]

    def wrong(self, name: str, what: str) -> ArtifactError:
        return ArtifactError(REFUSED, self.where, f"`{shown(self.path + name)}` {what}")

    def only(self, *names: str) -> _Reader:
        for name in sorted(self.fields.keys() ^ set(names)):
            raise self.wrong(name, "is missing" if name in names else "is not a field that is known")
        return self

    def text(self, name: str) -> str:
        value = self.fields[name]
        if not isinstance(value, str):
            raise self.wrong(name, "must be text")
        return value

    def digest(self, name: str, empty: bool = False) -> str:
        value = self.fields[name]
        if isinstance(value, str) and (re.fullmatch("[0-9a-f]{64}", value) or (empty and not value)):
            return value
        raise self.wrong(name, "must be a SHA-256 in hexadecimal")

    def number(self, name: str) -> int:
        value = self.fields[name]
        if type(value) is not int or not 0 <= value < 1 << 63:
            raise self.wrong(name, "must be a natural number")
        return value

    def flag(self, name: str) -> bool:
        value = self.fields[name]
        if not isinstance(value, bool):
            raise self.wrong(name, "must be true or false")
        return value

    def object(self, name: str) -> Mapping[str, Any]:
        value = self.fields[name]
        if not isinstance(value, dict):
            raise self.wrong(name, "must be an object")
        return value

    def inner(self, name: str) -> _Reader:
        return _Reader(self.where, f"{self.path}{name}.", self.object(name))

    def rows(self, name: str) -> list[_Reader]:
        value = self.fields[name]
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.wrong(name, "must be a list of objects")
        return [_Reader(self.where, f"{self.path}{name}.{number}.", item) for number, item in enumerate(value)]

    def mapping(self, name: str) -> list[tuple[str, _Reader]]:
        files = self.inner(name)
        for key in files.fields:
            if not is_name(key):
                raise files.wrong(key, "cannot be the name of a file of an artifact")
        return [(key, files.inner(key)) for key in files.fields]

    def optional(self, name: str, read: Callable[[_Reader, str], T]) -> T | None:
        return None if self.fields[name] is None else read(self, name)

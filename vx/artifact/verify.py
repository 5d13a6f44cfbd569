"""Whether an artifact is whole: every file as it was listed, nothing missing or added, and its record that of its program.

Enters: a folder, an archive, or an executable. Leaves: a `Report`. Nothing is extracted or executed, and whatever is read
comes in blocks, so an artifact of any size, or one made to do harm, costs bounded memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import Any

from vx.artifact import errors
from vx.artifact.archive import GZIP, archive_members
from vx.artifact.errors import ArtifactError, Problem, shown
from vx.artifact.identity import MAGIC, Identity, IdentityError, identity_of
from vx.artifact.manifest import LIMIT, MANIFEST, PROGRAM, RECORD, File, Manifest, Role, is_name, parse
from vx.artifact.member import FILE, FOLDER, Member, file_blocks, file_of, folder_members, unreadable

MOST_PROBLEMS = 20
"""Problems after which the search ends."""
KEPT = {PROGRAM: 256 << 20, RECORD: 64 << 20}
"""Files that are looked into, and the most bytes that are read of each."""
SEARCHED = 1 << 30
"""Bytes of an archive among which its manifest has to be."""
RECORD_SCHEMA = "vx-diagnostics-v1"
_LEFT_OUT = ("not applicable", "not asked for")

Members = Callable[[], Iterator[Member]]


@dataclass(frozen=True, slots=True)
class Report:
    """What was found. Without problems there is a `manifest`, or, for an executable alone, its `identity`. `digest` is
    the SHA-256 by which the whole can be pinned: of the manifest, or of the executable."""

    problems: tuple[Problem, ...]
    digest: str = ""
    manifest: Manifest | None = None
    identity: Identity | None = None


def verify(path: Path, model: Path | None = None, digest: str | None = None) -> Report:
    """Check the artifact at `path`. `model`: the model directory, for an artifact that leaves its model out; `digest`:
    the SHA-256 that it must have. At most `MOST_PROBLEMS` are reported."""
    try:
        if path.is_dir():
            return _whole(path, partial(folder_members, path), model, digest)
        head = next(file_blocks(path), b"") if path.is_file() or not path.exists() else b""
        if head.startswith(MAGIC):
            return _executable(path, digest)
        if head.startswith(GZIP):
            return _whole(path, partial(_below_top, path), model, digest)
    except ArtifactError as error:
        return Report((error.problem,))
    what = "it is neither an executable of Vx, nor a folder, nor a `.tar.gz`"
    return Report((Problem(errors.UNREADABLE, str(path), what),))


def _found(*problems: Iterator[Problem]) -> tuple[Problem, ...]:
    """The first problems, up to one after which nothing more can be checked."""

    def caught() -> Iterator[Problem]:
        try:
            yield from chain(*problems)
        except ArtifactError as error:
            yield error.problem

    return tuple(islice(caught(), MOST_PROBLEMS))


# ---- an executable alone -----------------------------------------------------------------------
def _executable(path: Path, digest: str | None) -> Report:
    data = _whole_file(path, KEPT[PROGRAM])
    try:
        own = identity_of(data)
    except IdentityError as error:
        raise ArtifactError(errors.PROGRAM, str(path), str(error)) from None
    found = sha256(data).hexdigest()
    problems = _found(_check_digest(path, found, digest), _check_record_beside(path, own))
    return Report(problems, found, identity=own)


def _check_record_beside(path: Path, own: Identity) -> Iterator[Problem]:
    record = path.with_name(RECORD if path.name == PROGRAM else f"{path.name}.{RECORD}")
    if record.is_file():
        yield from _check_record(str(record), _whole_file(record, KEPT[RECORD]), own, None)
    elif own.plan:
        yield Problem(errors.MISSING, str(record), "the record of the executable's admission is not beside it")


def _whole_file(path: Path, limit: int) -> bytes:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise unreadable(path, error) from error
    if size > limit:
        raise ArtifactError(errors.UNREADABLE, str(path), f"it has {size} bytes; at most {limit} are read")
    return b"".join(file_blocks(path))


# ---- a folder or an archive --------------------------------------------------------------------
def _whole(path: Path, members: Members, model: Path | None, digest: str | None) -> Report:
    text = _manifest_text(path, members())
    found = sha256(text).hexdigest()
    manifest = parse(text)
    kept: dict[str, bytes] = {}
    problems = _found(
        _check_digest(path, found, digest),
        _check_members(members(), manifest, kept),
        _check_program(manifest, kept),
        _check_model(manifest, model),
    )
    return Report(problems, found, manifest)


def _below_top(path: Path) -> Iterator[Member]:
    """The members of an archive without the name of the one folder that all of them have to be in."""
    top = None
    for member in archive_members(path):
        parts = PurePosixPath(member.name).parts if is_name(member.name) else ()
        top = top or (parts[0] if parts else None)
        if not parts or parts[0] != top or (len(parts) == 1 and member.kind == FILE):
            yield replace(member, kind="outside the artifact's folder")
        elif len(parts) > 1 or member.kind != FOLDER:
            yield replace(member, name="/".join(parts[1:]) or member.name)


def _manifest_text(path: Path, members: Iterator[Member]) -> bytes:
    searched = 0
    for member in members:
        if (member.name, member.kind) == (MANIFEST, FILE):
            if member.size > LIMIT:
                raise ArtifactError(errors.MANIFEST, MANIFEST, f"it has {member.size} bytes, so it is no manifest")
            return b"".join(member.blocks())
        searched += member.size
        if searched > SEARCHED:
            break
    raise ArtifactError(errors.MANIFEST, str(path), f"it is no artifact: it has no `{MANIFEST}`")


def _check_digest(path: Path, found: str, digest: str | None) -> Iterator[Problem]:
    if digest is not None and found != digest:
        yield Problem(errors.DIGEST, str(path), f"its digest is {found}, not {digest}")


def _check_members(members: Iterator[Member], manifest: Manifest, kept: dict[str, bytes]) -> Iterator[Problem]:
    """Every member against the list. Of those in `KEPT` that are as listed, the bytes come into `kept`."""
    folders = {str(parent) for name in manifest.files for parent in PurePosixPath(name).parents}
    missing = {**manifest.files, MANIFEST: File(0, "")}
    room = sum(file.bytes for file in manifest.files.values()) + LIMIT
    for member in members:
        room -= member.size if member.kind != FOLDER else 0
        if room < 0:
            raise ArtifactError(errors.UNLISTED, member.name, "with it there is more than the manifest lists")
        expected = missing.pop(member.name, None) if member.kind == FILE else None
        if expected is None:
            yield from _check_other(member, manifest, folders)
        elif member.name != MANIFEST:
            yield from _check_file(member, expected, kept)
    for name in missing:
        yield Problem(errors.MISSING, name, "it is listed in the manifest, and not there")


def _check_other(member: Member, manifest: Manifest, folders: set[str]) -> Iterator[Problem]:
    if member.kind not in (FILE, FOLDER):
        what = member.kind if member.kind.startswith("outside") else f"{member.kind}: an artifact has only files"
        yield Problem(errors.FORBIDDEN, member.name, f"it is {what}")
    elif member.kind == FILE and member.name in (*manifest.files, MANIFEST):
        yield Problem(errors.FORBIDDEN, member.name, "it is there twice")
    elif member.kind == FILE or member.name not in folders:
        yield Problem(errors.UNLISTED, member.name, "it is not listed in the manifest")


def _check_file(member: Member, expected: File, kept: dict[str, bytes]) -> Iterator[Problem]:
    if member.size != expected.bytes:
        what = f"it has {member.size} bytes, and the manifest says {expected.bytes}"
        yield Problem(errors.ALTERED, member.name, what)
        return
    digest, parts = sha256(), []
    for block in member.blocks():
        digest.update(block)
        if expected.bytes <= KEPT.get(member.name, -1):
            parts.append(block)
    if digest.hexdigest() != expected.sha256:
        yield _altered(member.name, digest.hexdigest(), expected)
    elif member.name in KEPT:
        kept[member.name] = b"".join(parts)


def _altered(name: str, found: str, expected: File) -> Problem:
    return Problem(errors.ALTERED, name, f"its SHA-256 is {found}, and the manifest says {expected.sha256}")


def _check_model(manifest: Manifest, directory: Path | None) -> Iterator[Problem]:
    """The files of a model that was left out, if it is known where they are."""
    if manifest.model is None or manifest.model.included or directory is None:
        return
    for name, expected in manifest.model.files.items():
        path = directory / name
        if not path.is_file():
            yield Problem(errors.MISSING, str(path), "it is listed in the manifest, and not there")
        elif (found := file_of(path)) != expected:
            yield _altered(str(path), found.sha256, expected)


# ---- the program and its record ----------------------------------------------------------------
def _check_program(manifest: Manifest, kept: Mapping[str, bytes]) -> Iterator[Problem]:
    """The manifest against what the executable says of itself, and the record against both. Nothing if they were
    altered: that has been said."""
    if kept.keys() < KEPT.keys():
        return
    try:
        own = identity_of(kept[PROGRAM])
    except IdentityError as error:
        yield Problem(errors.PROGRAM, PROGRAM, str(error))
        return
    claims = (
        ("artifact", manifest.artifact, own.artifact),
        ("machine_sha256", manifest.machine_sha256, own.machine),
        ("plan", manifest.plan, own.plan),
        ("target", manifest.target.partition("-")[0], own.arch),
    )
    for name, claimed, is_ in claims:
        if claimed != is_:
            yield Problem(errors.PROGRAM, PROGRAM, f"it has {name} `{is_}`, and the manifest `{shown(claimed)}`")
    yield from _check_record(RECORD, kept[RECORD], own, manifest.roles)


def _check_record(where: str, data: bytes, own: Identity, roles: tuple[Role, ...] | None) -> Iterator[Problem]:
    """Whether a record is the admission of an executable, in each of its roles."""

    def wrong(what: str) -> Problem:
        return Problem(errors.RECORD, where, what)

    try:
        record = json.loads(data)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or record.get("schema") != RECORD_SCHEMA:
        yield wrong(f"it is no record of a check, `{RECORD_SCHEMA}`")
        return
    found = sha256(data).hexdigest()
    if own.plan and found != own.plan:
        yield wrong(f"it is not that of this executable: its SHA-256 is {found}, and the plan {own.plan}")
    if not own.plan and record.get("resident_sets"):
        yield wrong("it is not that of this executable, which places nothing")
    named = list(_roles(record))
    compiled = [role for role in named if role.verdict not in _LEFT_OUT]
    if record.get("verdict") != "admitted" or not compiled or any(role.verdict != "admitted" for role in compiled):
        yield wrong("it does not say that the program is admitted")
    if roles is not None and list(roles) != named:
        yield wrong("its roles are not those of the manifest")


def _roles(record: Mapping[str, Any]) -> Iterator[Role]:
    """The roles in a record; what is not one is left out."""
    rows = record.get("roles")
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and {"role", "verdict", "why"} <= row.keys():
            yield Role(row["role"], row["verdict"], row["why"])

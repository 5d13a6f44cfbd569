"""What `vx build` leaves behind: an executable, a folder, or an archive of one.

Enters: a finished build in the cache, and where to put it. Leaves: OUT, complete or untouched. A folder can be moved: the
program finds its plugins, kernels and `model/` beside itself. The record of admission is `admission.json` in the folder,
`OUT.admission.json` beside an executable; one that places nothing has none there.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path

from vx import __version__
from vx.artifact.archive import SUFFIXES, Changed, archive_members, write_archive
from vx.artifact.errors import ArtifactError
from vx.artifact.identity import MAGIC, identity_of
from vx.artifact.manifest import LIMIT, MANIFEST, MODEL, PROGRAM, RECORD, File, Manifest, Model, Role, parse, text_of
from vx.artifact.member import FILE, FOLDER, file_of, folder_members
from vx.artifact.verify import RECORD_SCHEMA
from vx.build import MODEL_FILES, Built
from vx.codegen.cache import writing
from vx.diagnostics.report import CompileError, Diagnostic, Help, Level
from vx.diagnostics.span import NOWHERE
from vx.options import Options

PORTABLE = ("opt_level", "strict_index", "consts", "reserve", "devices")
"""Options that the manifest names: those that are not paths and that nothing else in it says."""
_HELP = "name another place with -o"
_TREE, _ARCHIVE, _OLD = "tree", "archive", "old"
_TOP_LENGTH = 64


def write_output(
    built: Built, program: str, options: Options, output: str | None = None, with_model: bool = True
) -> tuple[Path, str]:
    """Write the build of `program` to `output` (else the program's name in the current folder). Returns its path, and
    the SHA-256 that pins it.

    An archive if `output` is called so, a folder if the program needs more than itself or `output` ends in `/`, else an
    executable. Without `with_model` the model's files are only named. An earlier output of the same kind is replaced.
    Raises E9033 for anything else in the way, E9032 if the model changes meanwhile, E9021 or E9022 if OUT cannot be
    written.
    """
    out = Path(output or Path(program).stem)
    archive = out.name.endswith(SUFFIXES)
    folder = not archive and (built.model_dir is not None or bool(built.extra) or (output or "").endswith("/"))
    refuse = partial(_refuse_what_is_there, out, Path(program), archive, folder)
    with writing(out, _HELP), _workspace(out) as work:
        with _locked(out.parent):
            refuse()
        if not archive and not folder:
            digest = _make_executable(built, work)
        else:
            manifest = _assemble(built, program, options, with_model, work / _TREE)
            digest = sha256(text_of(manifest)).hexdigest()
            if archive:
                _make_archive(manifest, work, out)
        with _locked(out.parent):
            refuse()  # something may have come there meanwhile
            if folder:
                _replace_folder(work, out)
            elif archive:
                os.replace(work / _ARCHIVE, out)
            else:
                _replace_executable(work, out)
    return out, digest


@contextmanager
def _workspace(out: Path) -> Iterator[Path]:
    """A folder on the disk of `out`, removed at the end with what is still in it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".vx-", dir=out.parent))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Alone among the builds that put their output into `folder`, as far as its file system has locks."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


# ---- the three forms ---------------------------------------------------------------------------
def _make_executable(built: Built, work: Path) -> str:
    _place(built.executable, work / PROGRAM, 0o755)
    if json.loads(built.record.read_bytes())["resident_sets"]:
        _place(built.record, work / RECORD)
    return _listing(work / PROGRAM).sha256


def _replace_executable(work: Path, out: Path) -> None:
    record = out.with_name(f"{out.name}.{RECORD}")
    if (work / RECORD).exists():
        os.replace(work / RECORD, record)
    elif record.is_file():
        record.unlink()  # that of an earlier program
    os.replace(work / PROGRAM, out)


def _make_archive(manifest: Manifest, work: Path, out: Path) -> None:
    """The manifest comes first, so that reading can check as it goes."""
    tree = work / _TREE
    listed = {MANIFEST: _listing(tree / MANIFEST), **dict(sorted(manifest.files.items()))}
    top = re.sub(r"[^A-Za-z0-9_-]", "_", manifest.program)[:_TOP_LENGTH] or PROGRAM
    try:
        with open(work / _ARCHIVE, "wb") as stream:
            write_archive(stream, top, ((name, tree / name, file) for name, file in listed.items()))
    except Changed as error:
        name = Path(str(error)).name
        raise _refusal("E9032", f"`{name}` changed while it was put into `{out}`", "build again") from None
    (work / _ARCHIVE).chmod(0o644)


def _replace_folder(work: Path, out: Path) -> None:
    if os.path.lexists(out):
        os.rename(out, work / _OLD)
    try:
        os.rename(work / _TREE, out)
    except OSError:
        with suppress(OSError):
            os.rename(work / _OLD, out)
        raise


# ---- the folder --------------------------------------------------------------------------------
def _assemble(built: Built, program: str, options: Options, with_model: bool, tree: Path) -> Manifest:
    """Put every file into `tree`, and the manifest that lists them."""
    tree.mkdir()
    _place(built.executable, tree / PROGRAM, 0o755)
    _place(built.record, tree / RECORD)
    for name, source in built.extra.items():
        _place(source, tree / name, source.stat().st_mode & 0o755 | 0o644)
    model = None if built.model_dir is None else _place_model(Path(built.model_dir), with_model, tree)
    names = sorted(member.name for member in folder_members(tree) if member.kind == FILE)
    manifest = _manifest(built, program, options, model, {name: _listing(tree / name) for name in names})
    (tree / MANIFEST).write_bytes(text_of(manifest))
    for folder in (tree, *(path for path in tree.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    return manifest


def _manifest(built: Built, program: str, options: Options, model: Model | None, files: Mapping[str, File]) -> Manifest:
    own = identity_of(built.executable.read_bytes())
    record = json.loads(built.record.read_bytes())
    chosen = options.canonical()
    return Manifest(
        program=Path(program).stem,
        compiler=f"vx {__version__}",
        target=f"{own.arch}-linux-gnu",
        artifact=own.artifact,
        machine=record["machine"],
        machine_sha256=own.machine,
        plan=own.plan,
        roles=tuple(Role(row["role"], row["verdict"], row["why"]) for row in record["roles"]),
        options={name: chosen[name] for name in PORTABLE},
        model=model,
        files=files,
    )


def _listing(path: Path) -> File:
    try:
        return file_of(path)
    except ArtifactError as error:
        raise _refusal(error.problem.code, str(error.problem)) from error


def _place(source: Path, target: Path, mode: int = 0o644) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def _place_model(directory: Path, with_model: bool, tree: Path) -> Model:
    from vx.model.errors import ModelError
    from vx.model.info import load_model

    try:
        info = load_model(directory)
    except ModelError as error:
        raise _refusal(error.code, error.message, *error.helps) from error
    names = [name for name, _ in MODEL_FILES if (directory / name).is_file()]
    if not with_model:
        return Model(info.digest, info.random_seed, False, {name: _listing(directory / name) for name in names})
    (tree / MODEL).mkdir()
    for name in names:
        _link_or_copy(directory / name, tree / MODEL / name)
    return Model(info.digest, info.random_seed, True, {})


def _link_or_copy(source: Path, target: Path) -> None:
    """A hard link where the file system allows it: weights are large and never written to."""
    try:
        os.link(os.path.realpath(source), target)
    except OSError:
        shutil.copyfile(source, target)


# ---- what is in the way ------------------------------------------------------------------------
def _refuse_what_is_there(out: Path, program: Path, archive: bool, folder: bool) -> None:
    if not archive and not folder:
        _refuse_foreign_record(out.with_name(f"{out.name}.{RECORD}"))
    if not os.path.lexists(out):
        return
    if out.exists() and program.exists() and out.samefile(program):
        raise _in_the_way(out, "it is the program's own source")
    if folder:
        _refuse_foreign_folder(out)
    elif out.is_dir():
        form = "an archive" if archive else "one executable"
        raise _in_the_way(out, f"it is a folder, and the output is {form}")
    elif out.exists() and not out.is_file():
        raise _in_the_way(out, "it is no plain file")
    elif out.exists() and out.stat().st_size and not (_is_archive(out) if archive else _is_executable(out)):
        form = "an artifact" if archive else "an executable"
        raise _in_the_way(out, f"it is a file, and not {form}")


def _refuse_foreign_record(record: Path) -> None:
    """What lies where the record of an executable's admission is to be, has to be such a record."""
    if not os.path.lexists(record):
        return
    if record.is_file():
        with open(record, "rb") as stream:
            if RECORD_SCHEMA.encode() in stream.read(64):
                return
    raise _in_the_way(record, "it is no record of an admission")


def _is_executable(path: Path) -> bool:
    with open(path, "rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


def _is_archive(path: Path) -> bool:
    try:
        return next(archive_members(path)).name.endswith(f"/{MANIFEST}")
    except (ArtifactError, StopIteration):
        return False


def _refuse_foreign_folder(out: Path) -> None:
    """A folder is replaced if it is empty, or an artifact to which nothing was added."""
    if not out.is_dir():
        raise _in_the_way(out, "it is a file, and the output is a folder")
    try:
        listed = {MANIFEST, *_listed(out)}
        strangers = (member.name for member in folder_members(out) if member.kind != FOLDER)
        stranger = next((name for name in strangers if name not in listed), None)
    except ArtifactError as error:
        raise _in_the_way(out, str(error)) from error
    if stranger is not None:
        raise _in_the_way(out, f"it is a folder that holds something else (`{stranger}`)")


def _listed(folder: Path) -> Iterable[str]:
    """The files of the artifact that a folder is; none if it is no artifact."""
    path = folder / MANIFEST
    if not path.is_file() or path.stat().st_size > LIMIT:
        return ()
    try:
        return parse(path.read_bytes()).files
    except ArtifactError:
        return ()


def _in_the_way(out: Path, why: str) -> CompileError:
    return _refusal("E9033", f"cannot write to `{out}`: {why}", f"{_HELP}, or remove it")


def _refusal(code: str, message: str, *helps: str) -> CompileError:
    return CompileError([Diagnostic(code, Level.ERROR, message, NOWHERE, helps=tuple(Help(text) for text in helps))])

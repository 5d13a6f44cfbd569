"""What `vx build` leaves behind: an executable, or a folder with one and its model; and the record of its admission.

Enters: a finished build in the cache. Leaves: OUT, complete or untouched. Such a folder can be moved: the
program finds the model in `model/` beside itself. The record is `admission.json` in the folder, `OUT.admission.json`
beside an executable; a program that places nothing leaves none there.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

from vx.build import MODEL_FILES, Built
from vx.buildcache import RECORD
from vx.codegen.cache import writing
from vx.diagnostics.report import CompileError, Diagnostic, Help, Level
from vx.diagnostics.span import NOWHERE

PROGRAM, MODEL = "program", "model"


def write_output(built: Built, program: str, output: str | None) -> Path:
    """Write the build to `output` (else the program's name in the current folder); returns its path.

    An earlier output of the same kind is replaced. Raises E9033 for anything else in the way, E9021 or E9022
    if it cannot be written.
    """
    out = Path(output or Path(program).stem)
    if out.exists() and Path(program).exists() and out.samefile(program):
        raise _in_the_way(out, "it is the program's own source")
    if built.model_dir is None:
        _refuse_directory(out)
        with writing(out):
            _place_file(built.executable, out)
            if json.loads(built.record.read_bytes())["resident_sets"]:
                _place_file(built.record, out.with_name(f"{out.name}.{RECORD}"), 0o644)
        return out
    _refuse_foreign(out)
    with writing(out):
        _place_folder(built, Path(built.model_dir), out)
    return out


def _place_file(source: Path, out: Path, mode: int = 0o755) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{out.name}.", dir=out.parent)
    os.close(handle)
    shutil.copyfile(source, name)
    os.chmod(name, mode)
    os.replace(name, out)


def _place_folder(built: Built, model: Path, out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        _place_file(built.executable, work / PROGRAM)
        _place_file(built.record, work / RECORD, 0o644)
        (work / MODEL).mkdir()
        for name, _ in MODEL_FILES:
            if (model / name).is_file():
                _link_or_copy(model / name, work / MODEL / name)
        os.chmod(work, 0o755)
        if out.is_dir():
            shutil.rmtree(out)
        os.rename(work, out)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _link_or_copy(source: Path, target: Path) -> None:
    """A hard link where the file system allows it: weights are large and never written to."""
    try:
        os.link(os.path.realpath(source), target)
    except OSError:
        shutil.copyfile(source, target)


def _refuse_directory(out: Path) -> None:
    if out.is_dir():
        raise _in_the_way(out, "it is a folder, and the program uses no model: the output is one executable")


def _refuse_foreign(out: Path) -> None:
    if not out.exists():
        return
    if not out.is_dir():
        raise _in_the_way(out, "it is a file, and the program uses a model: the output is a folder")
    strangers = sorted(entry.name for entry in out.iterdir() if entry.name not in (PROGRAM, MODEL, RECORD))
    if strangers:
        raise _in_the_way(out, f"it is a folder that holds something else (`{strangers[0]}`)")


def _in_the_way(out: Path, why: str) -> CompileError:
    help_ = Help("name another place with -o, or remove it")
    return CompileError([Diagnostic("E9033", Level.ERROR, f"cannot write to `{out}`: {why}", NOWHERE, helps=(help_,))])

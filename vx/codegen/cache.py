"""Where built things are kept between runs: one private folder.

Enters: the environment. Leaves: paths under `$VX_CACHE_DIR`, else `$XDG_CACHE_HOME/vx`, else
`~/.cache/vx`, and writes that are complete or absent, also with several builds at once.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vx.diagnostics.report import CompileError, Diagnostic, Help, Level
from vx.diagnostics.span import NOWHERE

_FULL = (errno.ENOSPC, errno.EDQUOT)


def _refuse(code: str, message: str, help_text: str) -> CompileError:
    return CompileError([Diagnostic(code, Level.ERROR, message, NOWHERE, helps=(Help(help_text),))])


@contextmanager
def writing(where: Path, help_text: str = "") -> Iterator[None]:
    """Turn the system's refusals to write under `where` into E9022 (disk full) or E9021 (anything else).

    `help_text` is the advice for the latter; without one it depends on whether `where` is in the cache.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise disk_full(where) from error
        reason = error.strerror or str(error)
        general = "choose a folder for built things with VX_CACHE_DIR" if _in_cache(where) else "name another place"
        raise _refuse("E9021", f"cannot write to `{where}`: {reason}", help_text or general) from error


def _in_cache(where: Path) -> bool:
    """Whether a path is in the cache, and not one that the user named."""
    try:
        return where.absolute().is_relative_to(_chosen_root())
    except CompileError:  # there is none
        return False


def disk_full(where: Path) -> CompileError:
    """The error E9022 for a full disk under `where`."""
    advice = "make room, or " + ("set VX_CACHE_DIR to another disk" if _in_cache(where) else "name another place")
    return _refuse("E9022", f"no space left to write `{where}`", advice)


def cache_root() -> Path:
    """The cache folder, made with mode 0700 if it is not there.

    Raises E9021 if it cannot be made, or if others can write to it: what is in it gets executed.
    """
    root = _chosen_root()
    with writing(root):
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = root.stat()
    help_text = "choose a folder of yours with VX_CACHE_DIR"
    if hasattr(os, "getuid") and found.st_uid != os.getuid():
        raise _refuse("E9021", f"the cache folder `{root}` belongs to another user", help_text)
    if found.st_mode & stat.S_IWOTH:
        raise _refuse("E9021", f"everybody can write to the cache folder `{root}`", help_text)
    return root


def _chosen_root() -> Path:
    chosen = os.environ.get("VX_CACHE_DIR")
    if chosen:
        return Path(chosen).absolute()
    xdg = os.environ.get("XDG_CACHE_HOME")
    if xdg and os.path.isabs(xdg):
        return Path(xdg) / "vx"
    try:
        return Path.home() / ".cache" / "vx"
    except RuntimeError as error:
        raise _refuse("E9021", "there is no home directory for the cache", "set VX_CACHE_DIR to a folder") from error


def write_atomically(path: Path, data: bytes, mode: int = 0o600, help_text: str = "") -> None:
    """Write a file so that readers see the old contents or all of the new. E9021 (with `help_text`), E9022."""
    with writing(path, help_text):
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            os.chmod(name, mode)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

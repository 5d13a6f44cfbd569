"""Where the files that ship with Vx are: `fleet/`, `models/`, `programs/`, `std/`.

In a checkout they stand beside the package, in an installed wheel inside it (`vx/_data/`); the standard
library is always inside it.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def directory(kind: str) -> Path:
    """The folder `kind` (`fleet`, `models`, `programs` or `std`). It need not exist in a damaged installation."""
    if kind == "std":
        return _PACKAGE / "std"
    installed = _PACKAGE / "_data" / kind
    return installed if installed.is_dir() else _PACKAGE.parent / kind


def find(kind: str, *parts: str) -> Path:
    """The path of one file or folder in `directory(kind)`."""
    return directory(kind).joinpath(*parts)

"""Where the files that ship with Vx are: `fleet/`, `models/`, `programs/`, `std/`.

In a checkout they stand beside the package, in an installed wheel inside it (`vx/_data/`); the standard
library is always inside it.
"""

from __future__ import annotations

import os
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


def machine_file(name: str) -> Path:
    """The machine file that `--machine` or `--host` names: the path of one, else one of the fleet, by its name
    there (`h200`, `published/h200`). A name that is neither is given back as the path it could be."""
    path = Path(name)
    if path.is_absolute() or os.path.isfile(path):  # which says no, and raises nothing, for what cannot be a name
        return path
    shipped = (find("fleet", name), find("fleet", f"{name}.vx"))
    return next((found for found in shipped if os.path.isfile(found)), path)


def fleet() -> list[str]:
    """The names of the machine files that ship, without the parts that they import."""
    root = directory("fleet")
    names = (path.relative_to(root) for path in root.rglob("*.vx"))
    return sorted(name.with_suffix("").as_posix() for name in names if name.parts[0] != "parts")

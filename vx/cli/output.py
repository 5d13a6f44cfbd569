"""What commands print and write: text that every terminal can take, and files that are whole or as they were."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_PLAIN = str.maketrans({"✓": "+", "✗": "x", "×": "x", "−": "-", "│": "|", "├": "|", "└": "`", "─": "-"})


def print_text(text: str) -> None:
    """Print; on an output that cannot take the characters, others in their place."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_PLAIN).encode(encoding, "backslashreplace").decode(encoding)
    print(text, end="")


def write_output(path: str | Path, data: str | bytes, help_text: str = "") -> None:
    """Write a file that the user named: completely, or not at all.

    What is no regular file (a device, a pipe, a name below /dev), and a file in a folder that only it can be written
    in, are written in place. A link stays, and what it names is replaced. Raises E9022 for a full disk, E9021 for any other refusal, with `help_text` as advice.
    """
    from vx.codegen.cache import write_atomically, writing

    target, real = Path(path), Path(os.path.realpath(path))
    raw = data.encode() if isinstance(data, str) else data
    with writing(target, help_text):
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
        special = target.exists() and (not target.is_file() or target.is_relative_to("/dev"))
        if special or not os.access(real.parent, os.W_OK):
            target.write_bytes(raw)
            return
        if target.exists():
            target.open("ab").close()  # a file that may not be written is not replaced either
    write_atomically(real, raw, mode, help_text)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask

"""What goes wrong with models: one exception type for every function of this package.

Leaves: `ModelError`, whose `code` (E91xx) has a page and whose `helps` say what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


class ModelError(Exception):
    """A model, checkpoint, tokenizer or download was refused."""

    def __init__(self, code: str, message: str, helps: Iterable[str] = ()) -> None:
        self.code = code
        self.message = message
        self.helps = tuple(helps)
        super().__init__(f"{code}: {message}")


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn the system's refusals to read `path` (a `what`) into E9101 or E9111."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ModelError("E9101", f"there is no {what} at `{printable(path)}`") from error
    except IsADirectoryError as error:
        raise ModelError("E9111", f"cannot read the {what} `{printable(path)}`: it is a directory") from error
    except OSError as error:
        raise ModelError("E9111", f"cannot read the {what} `{printable(path)}`: {error.strerror or error}") from error


def printable(path: object) -> str:
    """A path or name from outside, safe to put into a message."""
    return str(path).encode("utf-8", "backslashreplace").decode("utf-8")

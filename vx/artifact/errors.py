"""What can be wrong with an artifact: a code (E92xx, each with a page) and one line of text."""

from __future__ import annotations

from dataclasses import dataclass

UNREADABLE, MANIFEST, ALTERED, MISSING, UNLISTED = "E9201", "E9202", "E9203", "E9204", "E9205"
ARCHIVE, FORBIDDEN, RECORD, PROGRAM, DIGEST = "E9206", "E9207", "E9208", "E9209", "E9210"

_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. `where` is a file of the artifact, or the artifact itself."""

    code: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.code}: {shown(self.where)}: {self.what}"


class ArtifactError(Exception):
    """A problem after which nothing else can be checked."""

    def __init__(self, code: str, where: str, what: str) -> None:
        self.problem = Problem(code, where, what)
        super().__init__(str(self.problem))


def shown(name: str) -> str:
    """A name from outside, safe to print: on one line, without control characters, not too long."""
    text = "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode() for c in name[:_LONGEST])
    return text + "…" * (len(name) > _LONGEST)

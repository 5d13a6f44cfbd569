"""What a user may choose about a compilation, in one frozen value.

Enters: command line options or keyword arguments. Leaves: `Options`, which the driver hands to the stages
and whose `canonical` form is part of every build's key. Imports nothing heavy: a cached run reads it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """`machine` and `host` are machine files (`host` may be "default"), `model` a model directory, `consts`
    overrides of the program's constants as written, `target` a target's name. None: the default of each."""

    opt_level: int = 3
    strict_index: bool = False
    machine: str | None = None
    host: str | None = None
    model: str | None = None
    consts: tuple[tuple[str, str], ...] = ()
    target: str | None = None

    def canonical(self) -> dict[str, object]:
        """The options as plain data with absolute paths: equal for equal compilations."""
        host = self.host if self.host == "default" else _absolute(self.host)
        return {
            "opt_level": self.opt_level,
            "strict_index": self.strict_index,
            "machine": _absolute(self.machine),
            "host": host,
            "model": _absolute(self.model),
            "consts": sorted(self.consts),
            "target": self.target,
        }


def const_of(text: str) -> tuple[str, str]:
    """`NAME=VALUE` of a command line, split. Raises ValueError if it is something else."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (name and equals and value):
        raise ValueError(f"{text!r} is not NAME=VALUE, such as --const CTX=128")
    return name, value


def all_consts(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Every `--const` of a command line. Raises ValueError for one that is malformed or given twice."""
    found: dict[str, str] = {}
    for name, value in map(const_of, texts):
        if name in found:
            raise ValueError(f"--const {name} is given twice")
        found[name] = value
    return tuple(found.items())


def consts_of(values: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Constants given as Python values, as the text that `--const NAME=VALUE` would give."""
    return tuple((name, _literal(value)) for name, value in values.items())


def _literal(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _absolute(path: str | None) -> str | None:
    return None if path is None else os.path.abspath(path)

"""What a user may choose about a compilation, in one frozen value.

Enters: command line options or keyword arguments. Leaves: `Options`, which the driver hands to the stages
and whose `canonical` form is part of every build's key. Imports nothing heavy: a cached run reads it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vx import resources

if TYPE_CHECKING:
    from vx.machine.machine import Reserve


@dataclass(frozen=True, slots=True)
class Options:
    """`machine` and `host` are machine files or names of the fleet (`host` may be "default"), `model` a model
    directory, `consts` overrides of the program's constants as written, `target` a target's name, `roles` the names
    of the roles to compile, `reserve` what a deployment keeps of a device's memory, such as `8%` or `2 GiB`,
    `devices` "host" if memory of this host is to stand in for the devices. None: the default of each."""

    opt_level: int = 3
    strict_index: bool = False
    machine: str | None = None
    host: str | None = None
    model: str | None = None
    consts: tuple[tuple[str, str], ...] = ()
    target: str | None = None
    roles: tuple[str, ...] | None = None
    reserve: str | None = None
    devices: str | None = None

    def canonical(self) -> dict[str, object]:
        """The options as plain data with absolute paths: equal for equal compilations."""
        host = self.host if self.host == "default" else _machine(self.host)
        return {
            "opt_level": self.opt_level,
            "strict_index": self.strict_index,
            "machine": _machine(self.machine),
            "host": host,
            "model": _absolute(self.model),
            "consts": sorted(self.consts),
            "target": self.target,
            "roles": None if self.roles is None else sorted(self.roles),
            "reserve": self.reserve,
            "devices": self.devices,
        }

    def reserved(self) -> Reserve | None:
        """`reserve` as the machine's declarations have it. Raises `UnitError` if it is malformed."""
        from vx.machine.units import reserve_of

        return None if self.reserve is None else reserve_of(self.reserve)


def check_reserve(options: Options) -> None:
    """Raises ValueError, saying what to write, if the reserve is malformed."""
    if options.reserve is None:
        return
    from vx.machine.units import UnitError

    try:
        options.reserved()
    except UnitError as error:
        raise ValueError(f"{error.message}: {error.help}") from error


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


def all_roles(text: str) -> tuple[str, ...]:
    """The names of `--roles prefill,decode`. Raises ValueError for an empty one or one that is given twice."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ValueError(f"{text!r} is not a list of roles, such as --roles prefill,decode")
    if len(set(names)) < len(names):
        raise ValueError(f"{text!r} names a role twice")
    return names


def consts_of(values: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Constants given as Python values, as the text that `--const NAME=VALUE` would give."""
    return tuple((name, _literal(value)) for name, value in values.items())


def _literal(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _machine(name: str | None) -> str | None:
    return None if name is None else _absolute(str(resources.machine_file(name)))


def _absolute(path: str | None) -> str | None:
    return None if path is None else os.path.abspath(path)

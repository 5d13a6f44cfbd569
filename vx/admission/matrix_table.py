"""Tables of configurations: what `vx admit matrix --table` names, a TOML file.

Enters: the name of a table that ships, or a path. Leaves: a `Table`, or E9040 that points at what is wrong in the
file. `docs/how-to/admit.md` describes the format.
"""

from __future__ import annotations

import os
import re
import tomllib
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from vx import resources
from vx.diagnostics.report import CompileError, Diagnostic, Help, Label, Level
from vx.diagnostics.source import SourceMap
from vx.diagnostics.span import Span
from vx.options import consts_of

Consts = tuple[tuple[str, str], ...]

FIELDS: Mapping[str, str] = {"context": "CTX", "batch": "BATCH", "tp": "TP"}
"""Numbers of a configuration, and the constant of the program that each sets."""

_TOP = ("program", "role", "host", "machines", "compare", "constants", "models", "configurations")
_ROW = ("model", *FIELDS, "constants")
_LARGEST = 2**63 - 1
_SYNTAX_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass(frozen=True, slots=True)
class Configuration:
    """One row: a model and how it is used. `consts` are all constants that it gives to the program, as written."""

    name: str
    model: str
    context: int | None
    batch: int | None
    tp: int | None
    directory: str | None
    consts: Consts

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for rows that mean the same."""
        return self.model, self.context, self.batch, self.tp, self.directory, tuple(sorted(self.consts))

    @property
    def label(self) -> tuple[object, ...]:
        """What identifies the row in another table."""
        return self.model, self.context, self.batch, self.tp


@dataclass(frozen=True, slots=True)
class Table:
    """Configurations by machines. `machines` maps the names in the file to paths or names of the fleet."""

    name: str
    program: str
    role: str | None
    host: str
    machines: Mapping[str, str]
    configurations: tuple[Configuration, ...]
    compare: str | None
    role_at: Span

    def refuse_role(self, names: tuple[str, ...]) -> CompileError:
        """E9040: the program's roles are `names`, and `role` is none of them or missing."""
        known = ", ".join(f"`{name}`" for name in names)
        if self.role is None:
            return refusal(
                "the table does not say which role of the program it is about", self.role_at, f"it has {known}"
            )
        near = get_close_matches(self.role, names, n=1)
        help_ = f"did you mean `{near[0]}`?" if near else f"it has {known}"
        return refusal(f"the program has no role `{self.role}`", self.role_at, help_)


def shipped() -> list[str]:
    """The names of the tables that ship."""
    return sorted(path.stem for path in resources.find("programs", "tables").glob("*.toml"))


def find_table(name: str) -> Path:
    """The file of a table given by name or path. Raises ValueError, saying what there is, for an unknown name."""
    if name in shipped():
        return resources.find("programs", "tables", f"{name}.toml")
    path = Path(name)
    if os.path.exists(path) or path.suffix or len(path.parts) > 1:
        return path
    near = get_close_matches(name, shipped(), n=1)
    help_ = f"did you mean `{near[0]}`?" if near else f"there are {' and '.join(shipped())}, and files of yours"
    raise ValueError(f"there is no table `{name}`; {help_}")


def read_table(path: Path, sources: SourceMap) -> Table:
    """Raises `CompileError`: E9001 to E9005 if the file cannot be read, E9040 if it is not a table."""
    return _Reader(path, sources.load(path)).table()


def refusal(message: str, span: Span, help_: str = "", labels: tuple[Label, ...] = ()) -> CompileError:
    """E9040."""
    helps = (Help(help_),) if help_ else ()
    return CompileError([Diagnostic("E9040", Level.ERROR, message, span, labels=labels, helps=helps)])


class _Reader:
    """One file while it is read: the data, and what is wrong with it at which place of the text."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.text = text
        try:
            self.data: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise self._syntax(str(error)) from error
        except (ValueError, RecursionError) as error:
            lines = text.splitlines(keepends=True)
            last = bisect_left(range(len(lines) + 1), True, key=lambda count: _breaks(lines[:count])) - 1
            at = sum(map(len, lines[:last]))
            message = "a number here has too many digits, or brackets are nested too deeply"
            raise refusal(message, Span(str(path), at, at + len(lines[last]))) from error

    def table(self) -> Table:
        self._only((), self.data, _TOP)
        machines = self._machines()
        models = self._tables("models")
        rows = tuple(self._row(name, models) for name in self._tables("configurations"))
        if not rows:
            raise self._refuse(("configurations",), "the table has no configurations: there is nothing to evaluate")
        self._no_row_twice(rows)
        host = self._text("host") or "default"
        return Table(
            name=self.path.stem,
            program=self._file(self._needed("program"), resources.directory("programs")),
            role=self._text("role"),
            host=host if host == "default" else self._file(host),
            machines=machines,
            configurations=rows,
            compare=self._text("compare"),
            role_at=self._span(("role",), "role") if "role" in self.data else Span(str(self.path), 0, 0),
        )

    # ---- parts ----
    def _machines(self) -> dict[str, str]:
        names = self.data.get("machines")
        if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
            message = "`machines` is a list of at least one machine file"
            raise self._refuse(("machines",), message, 'such as machines = ["h100-sxm", "h200", "mine.vx"]')
        for position, name in enumerate(names):
            if name in names[:position]:
                raise self._refuse(("machines",), f"the machine `{name}` is given twice", word=f'"{name}"')
        return {name: self._file(name) for name in names}

    def _row(self, name: str, models: Mapping[str, Mapping[str, Any]]) -> Configuration:
        keys = ("configurations", name)
        row = self.data["configurations"][name]
        self._only(keys, row, _ROW)
        model = row.get("model")
        if not isinstance(model, str) or model not in models:
            raise self._unknown_model(keys, model, models)
        numbers = {field: self._number((*keys, field), row[field]) for field in FIELDS if field in row}
        own = self._constants((*keys, "constants"), row.get("constants", {}))
        for field, const in FIELDS.items():
            if field in numbers and const in own:
                raise self._refuse((*keys, "constants"), f"`{const}` is what `{field}` says", word=const)
        shape = dict(models[model])
        directory = shape.pop("directory", None)
        if directory is not None and not isinstance(directory, str):
            raise self._refuse(("models", model, "directory"), "`directory` is the path of a model directory")
        consts = {
            **self._constants(("constants",), self.data.get("constants", {})),
            **self._constants(("models", model), shape),
            **{FIELDS[field]: value for field, value in numbers.items()},
            **own,
        }
        where = None if directory is None else str(self.path.parent / directory)
        context, batch, tp = (numbers.get(field) for field in FIELDS)
        return Configuration(name, model, context, batch, tp, where, consts_of(consts))

    def _no_row_twice(self, rows: Iterable[Configuration]) -> None:
        seen: dict[tuple[object, ...], str] = {}
        for row in rows:
            before = seen.setdefault(row.key, row.name)
            if before != row.name:
                first = Label(self._span(("configurations", before), before), "the first")
                message = f"`{row.name}` is the same configuration as `{before}`"
                raise refusal(message, self._span(("configurations", row.name), row.name), labels=(first,))

    # ---- values ----
    def _only(self, keys: tuple[str, ...], table: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for key in table:
            if key not in known:
                near = get_close_matches(key, known, n=1)
                help_ = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(known)}"
                raise self._refuse((*keys, key), f"`{key}` means nothing here", help_)

    def _tables(self, key: str) -> dict[str, dict[str, Any]]:
        found = self.data.get(key, {})
        if not isinstance(found, dict):
            raise self._refuse((key,), f"`{key}` is a table of tables", f"such as [{key}.NAME]")
        for name, value in found.items():
            if not isinstance(value, dict):
                raise self._refuse((key, name), f"`{name}` is not a table", f"such as [{key}.{name}]")
        return found

    def _constants(self, keys: tuple[str, ...], found: object) -> dict[str, object]:
        if not isinstance(found, dict):
            raise self._refuse(keys, f"`{keys[-1]}` is a table of constants", "such as { CTX = 4096 }")
        for name, value in found.items():
            if not isinstance(value, int | float | str) or value == "":
                raise self._refuse((*keys, name), f"`{name}` is not a number, true, false or a text that is one")
        return found

    def _number(self, keys: tuple[str, ...], value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._refuse(keys, f"`{keys[-1]}` is a whole number, not `{value}`")
        if not 0 < value <= _LARGEST:
            raise self._refuse(keys, f"`{keys[-1]}` is at least 1 and at most {_LARGEST}")
        return value

    def _text(self, key: str) -> str | None:
        value = self.data.get(key)
        if value is not None and (not isinstance(value, str) or not value):
            raise self._refuse((key,), f"`{key}` is a text, not `{value}`")
        return value

    def _needed(self, key: str) -> str:
        value = self._text(key)
        if value is None:
            raise self._refuse((), f"the table does not say which {key} it is about", f'add {key} = "…"')
        return value

    def _file(self, name: str, shipped_in: Path | None = None) -> str:
        """A file that the table names: beside it, else one that ships, else as it is written."""
        near = Path(os.path.normpath(self.path.parent / name))
        if os.path.isfile(near):
            return str(near)
        if shipped_in is not None and os.path.isfile(shipped_in / name):
            return str(shipped_in / name)
        return str(near) if shipped_in is not None else name

    # ---- errors ----
    def _unknown_model(self, keys: tuple[str, ...], model: object, models: Iterable[str]) -> CompileError:
        if model is None:
            return self._refuse(keys, f"`{keys[-1]}` does not say which model it is about", 'add model = "…"')
        near = get_close_matches(str(model), list(models), n=1)
        known = f"the table has {', '.join(f'`{name}`' for name in models) or 'none'}"
        help_ = f"did you mean `{near[0]}`?" if near else known
        return self._refuse((*keys, "model"), f"there is no model `{model}`", help_, word=str(model))

    def _syntax(self, message: str) -> CompileError:
        found = _SYNTAX_AT.search(message)
        at = len(self.text)
        if found is not None and found[1]:
            lines = self.text.splitlines(keepends=True)
            at = sum(map(len, lines[: int(found[1]) - 1])) + int(found[2]) - 1
        what = _SYNTAX_AT.sub("", message)
        return refusal(f"this is not TOML: {what[:1].lower()}{what[1:]}", Span(str(self.path), at, at))

    def _refuse(self, keys: tuple[str, ...], message: str, help_: str = "", word: str = "") -> CompileError:
        span = self._span(keys, word or keys[-1]) if keys else Span(str(self.path), 0, 0)
        return refusal(message, span, help_)

    def _span(self, keys: tuple[str, ...], word: str) -> Span:
        """Where `word` of the value at `keys` stands: in the lines up to the first one after which it is there."""
        lines = self.text.splitlines(keepends=True)
        count = bisect_left(range(len(lines) + 1), True, key=lambda count: _has(lines, count, keys))
        at = self.text.rfind(word, 0, sum(map(len, lines[:count])))
        return Span(str(self.path), at, at + len(word)) if at >= 0 else Span(str(self.path), 0, 0)


def _breaks(lines: list[str]) -> bool:
    """Whether lines have something that Python cannot hold, be they TOML or not."""
    try:
        tomllib.loads("".join(lines))
    except tomllib.TOMLDecodeError:
        return False
    except (ValueError, RecursionError):
        return True
    return False


def _has(lines: list[str], count: int, keys: tuple[str, ...]) -> bool:
    """Whether the longest part of the first `count` lines that is TOML has a value at `keys`."""
    while True:
        try:
            here: Any = tomllib.loads("".join(lines[:count]))
        except tomllib.TOMLDecodeError:
            count -= 1
            continue
        for key in keys:
            if not isinstance(here, dict) or key not in here:
                return False
            here = here[key]
        return True

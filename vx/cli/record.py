"""The diagnostics record `vx-diagnostics-v1`, for tools that read the outcome of a check.

Enters: diagnostics and the texts they point into. Leaves: JSON, two-space indent at top level and one
record a line.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from vx.diagnostics.render import encodable
from vx.diagnostics.report import Diagnostic, Level
from vx.diagnostics.source import SourceMap


def diagnostics_record(diagnostics: Sequence[Diagnostic], sources: SourceMap, file: str, machine: str | None) -> str:
    """The record of one check of `file` against the machine file `machine`."""
    errors = sum(diagnostic.level is Level.ERROR for diagnostic in diagnostics)
    fields: dict[str, object] = {
        "schema": "vx-diagnostics-v1",
        "file": file,
        "machine": machine,
        "verdict": "rejected" if errors else "accepted",
        "error_count": errors,
        "warning_count": len(diagnostics) - errors,
        "diagnostics": [_record(diagnostic, sources) for diagnostic in diagnostics],
    }
    lines = (f"  {json.dumps(name)}: {_value(value)}" for name, value in fields.items())
    return encodable("{\n" + ",\n".join(lines) + "\n}\n")


def _value(value: object) -> str:
    if not isinstance(value, list) or not value:
        return json.dumps(value, ensure_ascii=False)
    return "[\n" + ",\n".join(f"    {json.dumps(item, ensure_ascii=False)}" for item in value) + "\n  ]"


def _record(diagnostic: Diagnostic, sources: SourceMap) -> dict[str, object]:
    line, column = sources.line_col(diagnostic.span)
    return {
        "level": diagnostic.level.value,
        "code": diagnostic.code,
        "message": diagnostic.message,
        "line": line,
        "column": column,
    }

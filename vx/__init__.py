"""Vx: a systems language in which placement is part of the program.

For Python users: `vx.check(path)`, `vx.compile(path).run([...])`. Both are loaded when first used, so that
importing this package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vx.api import CheckResult, Program, RunResult, check, compile

__version__ = "0.1.0"
__all__ = ["CheckResult", "Program", "RunResult", "__version__", "check", "compile"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from vx import api

        return getattr(api, name)
    raise AttributeError(f"module 'vx' has no attribute {name!r}")

"""The entry point of `vx`.

Enters: the process's arguments. Leaves: an exit status. A cached `vx run` is recognised before anything
heavy is imported (`fast.py`); everything else goes to the commands (`app.py`).
"""

from __future__ import annotations

import sys

from vx.cli.guard import guarded


def run() -> None:
    """Run `vx` with the process's arguments and exit."""
    sys.exit(guarded(_main))


def _main() -> int:
    from vx.cli.fast import run_cached

    run_cached(sys.argv[1:])
    from vx.cli.app import main

    return main()

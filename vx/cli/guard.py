"""What may end a command, and the exit status of each.

0 success · 1 the program was refused · 2 wrong usage · 70 the compiler is at fault · 130 interrupted ·
141 nobody reads the output. A Python traceback is shown only with VX_DEBUG=1.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

ERRORS, FAULT, INTERRUPTED, PIPE = 1, 70, 130, 141


def guarded(command: Callable[[], int]) -> int:
    """Run `command`; turn whatever it raises into a message on stderr and a status."""
    try:
        status = command()
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE
    except Exception as error:
        if os.environ.get("VX_DEBUG") == "1":
            raise
        return _fault(error)


def _fault(error: Exception) -> int:
    import platform

    from vx import __version__

    what = str(error) or "no message"
    print(
        f"fault: {type(error).__name__}: {what}\n"
        "  this is a fault of the compiler, not of your program; please report it with\n"
        f"  - the program, and the command: {' '.join(sys.argv)}\n"
        f"  - vx {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
        "  - the traceback that VX_DEBUG=1 shows",
        file=sys.stderr,
    )
    return FAULT

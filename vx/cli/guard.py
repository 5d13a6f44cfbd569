"""What may end a command, and the exit status of each.

0 success · 1 the program was refused · 2 wrong usage · 70 the compiler is at fault · 74 the output cannot be
written · 130 interrupted · 141 nobody reads the output. A Python traceback is shown only with VX_DEBUG=1.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Callable

ERRORS, FAULT, OUTPUT, INTERRUPTED, PIPE = 1, 70, 74, 130, 141
_LOST = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)


def guarded(command: Callable[[], int]) -> int:
    """Run `command`; turn whatever it raises into a message on stderr and a status.

    The process is short and what it makes is hardly ever garbage, so looking for cycles would cost a third of the time
    of a large program and find nothing.
    """
    gc.disable()
    _open_missing_streams()
    try:
        status = command()
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return PIPE
    except Exception as error:
        if isinstance(error, OSError) and error.filename is None and error.errno in _LOST:
            _discard_output()
            print(f"standard output: {error.strerror}", file=sys.stderr)
            return OUTPUT
        if os.environ.get("VX_DEBUG") == "1":
            raise
        return _fault(error)


def _open_missing_streams() -> None:
    """Put /dev/null where a standard stream was closed: the next file opened would take its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode))


def _discard_output() -> None:
    """Let what is still buffered go nowhere, so that it cannot fail again at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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

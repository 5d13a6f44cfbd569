"""Where a message of the library or the allocator says that it happened: in the program's own code.

Enters: calls of library functions, allocations and regions in the program's own functions. Leaves: a store of
`file.vx:12` to the runtime's `vx_caller`, just before. Inside the library nothing is stored, so that the place
in the program stays.
"""

from __future__ import annotations

from vx.codegen.host_function import Emitter
from vx.codegen.scan import walk
from vx.diagnostics.span import Span
from vx.runtime.abi import CALLER
from vx.sema import tree

_MAY_ABORT = (tree.Abort, tree.CallExtern, tree.TensorNew, tree.CopyTensor)


def note_place(fn: Emitter, span: Span) -> None:
    """What runs next may abort, and this is where it stands in the program."""
    if fn.function.asked is None:
        name = fn.module.declare(CALLER, f"@{CALLER} = external global ptr")
        fn.line(f"store ptr {fn.where(span)}, ptr {name}")


def note_call(fn: Emitter, node: tree.Call) -> None:
    """As `note_place`, for a call of a library function that may abort."""
    if fn.module.program.functions[node.key].asked is not None and _may_abort(fn, node.key):
        note_place(fn, node.span)


def _may_abort(fn: Emitter, key: str) -> bool:
    """Whether the function, or one that it calls, can end the program with a message."""
    known = fn.module.may_abort
    if key not in known:
        known[key] = False  # what a recursive call adds is found by the call that is looking
        nodes = list(walk(fn.module.program.functions[key].body))
        known[key] = any(isinstance(node, _MAY_ABORT) for node in nodes) or any(
            isinstance(node, tree.Call) and _may_abort(fn, node.key) for node in nodes
        )
    return known[key]

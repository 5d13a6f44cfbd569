"""Private memory of one function: small buffers on the stack, the rest from the runtime.

Enters: requests while the function is written. Leaves: pointers, and the instructions that begin and end
the memory's life.
"""

from __future__ import annotations

from vx.codegen.cpu_text import FunctionText
from vx.kernels import ir

STACK_BYTES = 64 << 10
"""What a function may put on its thread's stack."""

_ALIGN = 64


class Frame:
    """Buffers of one function. `thread`: large ones come from the thread's scratch memory; else they are
    allocated at entry and freed at the end."""

    def __init__(self, text: FunctionText, thread: bool) -> None:
        self._text = text
        self._thread = thread
        self._stack = 0
        self._beyond = 0
        self._made: dict[tuple[ir.BufferId, int], tuple[str, int]] = {}

    def private(self, buffer: ir.BufferId, copy: int, bytes_: int) -> str:
        """Memory for one copy of a buffer; what was given for it before is used again if it suffices."""
        pointer, had = self._made.get((buffer, copy), ("", -1))
        if had < bytes_:
            pointer = self._new(max(bytes_, 1))
            self._made[buffer, copy] = (pointer, bytes_)
        return pointer

    def _new(self, bytes_: int) -> str:
        room = -(-bytes_ // _ALIGN) * _ALIGN
        if self._stack + room <= STACK_BYTES:
            self._stack += room
            return self._text.alloca(f"[{room} x i8]", _ALIGN)
        pointer = self._text.at_entry(f"getelementptr i8, ptr %beyond, i64 {self._beyond}")
        self._beyond += room
        return pointer

    def begin(self) -> list[str]:
        """Instructions for the start of the function, known at its end."""
        if not self._beyond:
            return []
        return [f"  %beyond = call ptr @{'vx_thread_scratch' if self._thread else 'vx_alloc'}(i64 {self._beyond})"]

    def end(self) -> None:
        """Writes what gives the memory back."""
        if self._beyond and not self._thread:
            self._text.effect("call void @vx_free(ptr %beyond)")

"""What the functions of one module share: messages, math functions, and what is known of each region.

Enters: requests while functions are written. Leaves: the module's other definitions and declarations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vx.codegen import vecmath
from vx.codegen.cpu_values import Features
from vx.codegen.llvm_text import string_global
from vx.kernels import ir
from vx.kernels.effects import statements

RUNTIME = """\
declare void @vx_parallel(ptr, ptr, i64, i64)
declare i32 @vx_thread_count()
declare i32 @vx_cpu_level()
declare void @vx_abort(ptr) cold noreturn
declare ptr @vx_alloc(i64)
declare void @vx_free(ptr)
declare ptr @vx_thread_scratch(i64)
@vx.zero = private unnamed_addr constant [16 x i8] zeroinitializer, align 16"""
"""What regions need of the runtime, and the memory that a load reads when none of its lanes takes part."""

METADATA = """\
!0 = !{!"branch_weights", i32 1048575, i32 1}
!1 = distinct !{!1, !2, !3}
!2 = !{!"llvm.loop.vectorize.enable", i1 false}
!3 = !{!"llvm.loop.unroll.disable"}"""
"""Checks rarely fail; loops are already vectorised and unrolled as far as is useful."""

_FIRST_FREE_METADATA = 4


@dataclass(slots=True)
class Library:
    """Definitions of one module, each made once, in the order of first use."""

    _messages: dict[str, str] = field(default_factory=dict)
    _math: dict[str, str] = field(default_factory=dict)
    _externals: dict[str, str] = field(default_factory=dict)
    _metadata: list[str] = field(default_factory=list)

    def message(self, text: str) -> str:
        """The constant string's name."""
        return self._messages.setdefault(text, f"@vx.message{len(self._messages)}")

    def math(self, name: str, lanes: int, have: Features) -> str:
        """A vector function of f32, as a function's name."""
        symbol = f"@vx.{name}.{lanes}.{have.name}"
        if symbol not in self._math:
            if name in vecmath.C_FUNCTIONS:
                self.external(vecmath.C_FUNCTIONS[name][0], "float", vecmath.C_FUNCTIONS[name][1])
            self._math[symbol] = vecmath.define(symbol, name, lanes, have)
        return symbol

    def external(self, name: str, type_: str, arity: int) -> str:
        """A function of the C library."""
        self._externals[name] = (
            f"declare {type_} @{name}({', '.join([type_] * arity)}) nounwind willreturn memory(none)"
        )
        return f"@{name}"

    def metadata(self, text: str) -> str:
        """A new metadata node; `SELF` in the text is its own name."""
        name = f"!{_FIRST_FREE_METADATA + len(self._metadata)}"
        self._metadata.append(f"{name} = {text.replace('SELF', name)}")
        return name

    def definitions(self) -> str:
        """Everything collected, as module text."""
        strings = [string_global(name, text.encode()) for text, name in self._messages.items()]
        return "\n".join(
            [RUNTIME, *self._externals.values(), *strings, *self._math.values(), METADATA, *self._metadata]
        )


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a region: its buffers, how accesses to each are marked so that LLVM knows that
    buffers do not overlap, what each scalar that never changes was declared as, and which do change."""

    region: ir.Region
    buffers: Mapping[ir.BufferId, ir.Buffer]
    marks: Mapping[ir.BufferId, str]
    declared: Mapping[ir.VarId, ir.Expr]
    changing: frozenset[ir.VarId]


def facts(region: ir.Region, library: Library) -> Facts:
    """Looks through a region once."""
    domain = library.metadata("distinct !{SELF}")
    scopes = {b.id: library.metadata("distinct !{SELF, " + domain + "}") for b in region.buffers}
    marks = {}
    for buffer in region.buffers:
        own = library.metadata("!{" + scopes[buffer.id] + "}")
        others = library.metadata("!{" + ", ".join(s for b, s in scopes.items() if b != buffer.id) + "}")
        marks[buffer.id] = f", !alias.scope {own}, !noalias {others}"
    declared: dict[ir.VarId, ir.Expr] = {}
    changing: set[ir.VarId] = set()
    for body in (region.body, *(segment.body for kernel in region.kernels for segment in kernel.segments)):
        for let in (s for s in statements(body) if isinstance(s, ir.Let)):
            if let.mutable:
                changing.add(let.var.id)
            else:
                declared[let.var.id] = let.value
    return Facts(region, {b.id: b for b in region.buffers}, marks, declared, frozenset(changing))

"""Small functions that host code calls by the line and LLVM inlines: checks, division, bf16 rounding.

Enters: nothing. Leaves: `HELPERS`, the text of each by name. A check that is a call is one line in the
module's text instead of six.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from vx.sema.tree import SIGNED, UNSIGNED


@dataclass(frozen=True, slots=True)
class Helper:
    """A function's text, and the helpers, runtime functions and intrinsics that it calls."""

    text: str
    needs: tuple[str, ...] = ()
    runtime: tuple[str, ...] = ()


_ATTRIBUTES = "alwaysinline nounwind"

_INDEX = f"""\
define internal void @vx.index(i64 %i, i64 %n, ptr %where) {_ATTRIBUTES} {{
  %in = icmp ult i64 %i, %n
  br i1 %in, label %ok, label %out, !prof !0
out:
  call void @vx_abort_index(ptr %where, i64 %i, i64 %n)
  unreachable
ok:
  ret void
}}"""

_WINDOW = f"""\
define internal void @vx.window(i64 %at, i64 %span, i64 %limit, ptr %where) {_ATTRIBUTES} {{
  %end = add i64 %at, %span
  %a = icmp sge i64 %at, 0
  %b = icmp sle i64 %end, %limit
  %in = and i1 %a, %b
  br i1 %in, label %ok, label %out, !prof !0
out:
  call void @vx_abort_index(ptr %where, i64 %at, i64 %limit)
  unreachable
ok:
  ret void
}}"""

_SLICE = f"""\
define internal void @vx.slice(i64 %low, i64 %high, i64 %extent, ptr %where) {_ATTRIBUTES} {{
  %a = icmp ule i64 %high, %extent
  br i1 %a, label %next, label %past, !prof !0
past:
  %more = add i64 %extent, 1
  call void @vx_abort_index(ptr %where, i64 %high, i64 %more)
  unreachable
next:
  %b = icmp ule i64 %low, %high
  br i1 %b, label %ok, label %out, !prof !0
out:
  %most = add i64 %high, 1
  call void @vx_abort_index(ptr %where, i64 %low, i64 %most)
  unreachable
ok:
  ret void
}}"""

_SIZE = f"""\
define internal i64 @vx.size(i64 %a, i64 %b, ptr %message) {_ATTRIBUTES} {{
  %both = call {{i64, i1}} @llvm.smul.with.overflow.i64(i64 %a, i64 %b)
  %r = extractvalue {{i64, i1}} %both, 0
  %over = extractvalue {{i64, i1}} %both, 1
  %negative = icmp slt i64 %b, 0
  %bad = or i1 %over, %negative
  br i1 %bad, label %out, label %ok, !prof !1
out:
  call void @vx_abort(ptr %message)
  unreachable
ok:
  ret i64 %r
}}
declare {{i64, i1}} @llvm.smul.with.overflow.i64(i64, i64)"""

_REQUIRE = f"""\
define internal void @vx.require(i1 %holds, ptr %message) {_ATTRIBUTES} {{
  br i1 %holds, label %ok, label %out, !prof !0
out:
  call void @vx_abort(ptr %message)
  unreachable
ok:
  ret void
}}"""

_BF16_FROM_F32 = f"""\
define internal bfloat @vx.bf16.f32(float %x) {_ATTRIBUTES} {{
  %bits = bitcast float %x to i32
  %shifted = lshr i32 %bits, 16
  %odd = and i32 %shifted, 1
  %bias = add i32 %odd, 32767
  %sum = add i32 %bits, %bias
  %rounded = lshr i32 %sum, 16
  %quiet = or i32 %shifted, 64
  %nan = fcmp uno float %x, %x
  %chosen = select i1 %nan, i32 %quiet, i32 %rounded
  %half = trunc i32 %chosen to i16
  %r = bitcast i16 %half to bfloat
  ret bfloat %r
}}"""

# f64 to f32 with the last bit set when inexact (rounding to odd), so that the second rounding is exact.
_BF16_FROM_F64 = f"""\
define internal bfloat @vx.bf16.f64(double %x) {_ATTRIBUTES} {{
  %near = fptrunc double %x to float
  %back = fpext float %near to double
  %bits = bitcast float %near to i32
  %wide = bitcast double %x to i64
  %widenear = bitcast double %back to i64
  %size = and i64 %wide, 9223372036854775807
  %nearsize = and i64 %widenear, 9223372036854775807
  %above = icmp ugt i64 %nearsize, %size
  %less = sext i1 %above to i32
  %down = add i32 %bits, %less
  %inexact = fcmp one double %back, %x
  %sticky = zext i1 %inexact to i32
  %odd = or i32 %down, %sticky
  %single = bitcast i32 %odd to float
  %r = call bfloat @vx.bf16.f32(float %single)
  ret bfloat %r
}}"""


def _division(op: str, name: str, bits: int) -> str:
    """Division that aborts on zero, and where the least value by -1 wraps."""
    signed = name in SIGNED
    word = ("s" if signed else "u") + op
    head = f"""\
define internal i{bits} @vx.{op}.{name}(i{bits} %a, i{bits} %b, ptr %message) {_ATTRIBUTES} {{
  %zero = icmp eq i{bits} %b, 0
  br i1 %zero, label %out, label %ok, !prof !1
out:
  call void @vx_abort(ptr %message)
  unreachable
ok:
"""
    if not signed:
        return head + f"  %r = {word} i{bits} %a, %b\n  ret i{bits} %r\n}}"
    by_minus_one = f"sub i{bits} 0, %a" if op == "div" else f"add i{bits} 0, 0"
    return (
        head
        + f"""\
  %minus = icmp eq i{bits} %b, -1
  br i1 %minus, label %one, label %usual, !prof !1
one:
  %n = {by_minus_one}
  ret i{bits} %n
usual:
  %r = {word} i{bits} %a, %b
  ret i{bits} %r
}}"""
    )


def _all() -> Iterator[tuple[str, Helper]]:
    yield "index", Helper(_INDEX, runtime=("vx_abort_index",))
    yield "window", Helper(_WINDOW, runtime=("vx_abort_index",))
    yield "slice", Helper(_SLICE, runtime=("vx_abort_index",))
    yield "size", Helper(_SIZE, runtime=("vx_abort",))
    yield "require", Helper(_REQUIRE, runtime=("vx_abort",))
    yield "bf16.f32", Helper(_BF16_FROM_F32)
    yield "bf16.f64", Helper(_BF16_FROM_F64, needs=("bf16.f32",))
    for table in (SIGNED, UNSIGNED):
        for name, bits in table.items():
            for op in ("div", "rem"):
                yield f"{op}.{name}", Helper(_division(op, name, bits), runtime=("vx_abort",))


HELPERS: Mapping[str, Helper] = MappingProxyType(dict(_all()))

METADATA = '!0 = !{!"branch_weights", i32 2000, i32 1}\n!1 = !{!"branch_weights", i32 1, i32 2000}'
"""What the helpers' branches say about their likelihood."""

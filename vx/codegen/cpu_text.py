"""Writing one LLVM function: instructions, blocks and loops as text, equal instructions once.

Enters: operands and instruction text. Leaves: the text of the function. Two rules keep it small:
an instruction without effects is written once per dominating block, and i64 arithmetic on known
numbers is done here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

Body = Callable[[str, list[str]], list[str]]
"""A loop's inside: from the loop variable and the carried values to the next carried values."""


@dataclass(frozen=True, slots=True)
class Carried:
    """A value that a loop carries from one round to the next."""

    type: str
    first: str


def known(value: str) -> int | None:
    """The number that an i64 operand is, if it is written out."""
    return None if value.startswith("%") else int(value)


class FunctionText:
    """The text of a function while it grows. Blocks are added at the end; `block` is the open one."""

    def __init__(self, header: str) -> None:
        self._header = header
        self._entry: list[str] = []
        self._lines: list[str] = []
        self._names = 0
        self._known: list[dict[str, str]] = [{}]
        self._epoch = 0
        self._aborts: dict[str, str] = {}
        self.block = "start"

    # ---- instructions --------------------------------------------------------------------------
    def fresh(self) -> str:
        self._names += 1
        return f"%v{self._names}"

    def find(self, text: str) -> str | None:
        """The name of an instruction that was already written in a dominating block."""
        for scope in reversed(self._known):
            if text in scope:
                return scope[text]
        return None

    def op(self, text: str, key: str = "") -> str:
        """An instruction without effects; `key` distinguishes equal text that may give another value."""
        name = self.find(text + key)
        if name is None:
            name = self.result(text)
            self._known[-1][text + key] = name
        return name

    def first_time(self, note: str) -> bool:
        """Whether `note` was not yet left in a dominating block; leaves it."""
        if self.find(note) is not None:
            return False
        self._known[-1][note] = note
        return True

    def result(self, text: str) -> str:
        """An instruction that must be executed here."""
        name = self.fresh()
        self._lines.append(f"  {name} = {text}")
        return name

    def effect(self, text: str) -> None:
        self._lines.append(f"  {text}")

    def alloca(self, type_: str, align: int = 0) -> str:
        """Stack memory of the whole call, made in the entry block."""
        name = self.fresh()
        self._entry.append(f"  {name} = alloca {type_}" + (f", align {align}" if align else ""))
        return name

    def at_entry(self, text: str) -> str:
        """An instruction of the entry block."""
        name = self.fresh()
        self._entry.append(f"  {name} = {text}")
        return name

    # ---- memory --------------------------------------------------------------------------------
    @property
    def epoch(self) -> int:
        """Changes whenever memory that this function writes may have changed."""
        return self._epoch

    def wrote(self) -> None:
        self._epoch += 1

    # ---- blocks --------------------------------------------------------------------------------
    def label(self) -> str:
        self._names += 1
        return f"b{self._names}"

    def place(self, label: str) -> None:
        self._lines.append(f"{label}:")
        self.block = label
        self._epoch += 1

    def jump(self, label: str) -> None:
        self.effect(f"br label %{label}")

    def branch(self, cond: str, then: str, orelse: str) -> None:
        self.effect(f"br i1 {cond}, label %{then}, label %{orelse}")

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is computed inside is not known after it (its blocks do not dominate what follows)."""
        self._known.append({})
        try:
            yield
        finally:
            self._known.pop()

    def when(self, cond: str, inside: Callable[[], None]) -> None:
        """Runs `inside` if `cond`."""
        then, after = self.label(), self.label()
        self.branch(cond, then, after)
        with self.scope():
            self.place(then)
            inside()
            self.jump(after)
        self.place(after)

    def unless_abort(self, cond: str, call: str) -> None:
        """Goes on if `cond`; else leaves through one block that makes the call."""
        label = self._aborts.get(call)
        if label is None:
            label = self._aborts[call] = self.label()
        after = self.label()
        self.effect(f"br i1 {cond}, label %{after}, label %{label}, !prof !0")
        self.place(after)

    # ---- i64 arithmetic ------------------------------------------------------------------------
    def add(self, a: str, b: str) -> str:
        x, y = known(a), known(b)
        if x is not None and y is not None:
            return str(x + y)
        if x == 0:
            return b
        if y == 0:
            return a
        return self.op(f"add i64 {a}, {b}" if x is None else f"add i64 {b}, {a}")

    def sub(self, a: str, b: str) -> str:
        y = known(b)
        if y is not None:
            return self.add(a, str(-y))
        return "0" if a == b else self.op(f"sub i64 {a}, {b}")

    def mul(self, a: str, b: str) -> str:
        x, y = known(a), known(b)
        if x is not None and y is not None:
            return str(x * y)
        if x is not None:
            return self.mul(b, a)
        if y in (0, 1):
            return a if y else "0"
        return self.op(f"mul i64 {a}, {b}")

    def div(self, a: str, b: str) -> str:
        """a / b, b > 0, rounded toward zero."""
        x, y = known(a), known(b)
        if x is not None and y is not None:
            return str(abs(x) // y * (1 if x >= 0 else -1))
        return a if y == 1 else self.op(f"sdiv i64 {a}, {b}")

    def least(self, a: str, b: str) -> str:
        return self._pick("smin", min, a, b)

    def most(self, a: str, b: str) -> str:
        return self._pick("smax", max, a, b)

    def _pick(self, name: str, fold: Callable[[int, int], int], a: str, b: str) -> str:
        x, y = known(a), known(b)
        if x is not None and y is not None:
            return str(fold(x, y))
        return a if a == b else self.op(f"call i64 @llvm.{name}.i64(i64 {a}, i64 {b})")

    def below(self, a: str, b: str) -> str:
        """a < b, signed, as an i1 operand."""
        x, y = known(a), known(b)
        if x is not None and y is not None:
            return "true" if x < y else "false"
        return self.op(f"icmp slt i64 {a}, {b}")

    # ---- loops ---------------------------------------------------------------------------------
    def loop(self, low: str, limit: str, step: int, carried: Sequence[Carried], body: Body) -> tuple[str, list[str]]:
        """`for (i = low; i < limit; i += step)`; the loop variable and the carried values after the loop."""
        x, y = known(low), known(limit)
        certain = x is not None and y is not None
        if x is not None and y is not None and x >= y:
            return low, [c.first for c in carried]
        if x is not None and y is not None and x + step >= y:
            with self.scope():
                return str(x + step), body(low, [c.first for c in carried])
        return self._rotated(low, limit, step, carried, body, certain)

    def _rotated(
        self, low: str, limit: str, step: int, carried: Sequence[Carried], body: Body, certain: bool
    ) -> tuple[str, list[str]]:
        inside, after = self.label(), self.label()
        before = self.block
        if certain:
            self.jump(inside)
        else:
            self.branch(self.below(low, limit), inside, after)
        with self.scope():
            self.place(inside)
            slot = len(self._lines)
            i = self.fresh()
            values = [self.fresh() for _ in carried]
            self._lines.append("")
            following = body(i, values)
            up = self.result(f"add nsw i64 {i}, {step}")
            latch = self.block
            more = self.result(f"icmp slt i64 {up}, {limit}")
            self.effect(f"br i1 {more}, label %{inside}, label %{after}, !llvm.loop !1")
        phis = [f"  {i} = phi i64 [ {low}, %{before} ], [ {up}, %{latch} ]"]
        for value, c, then in zip(values, carried, following, strict=True):
            phis.append(f"  {value} = phi {c.type} [ {c.first}, %{before} ], [ {then}, %{latch} ]")
        self._lines[slot] = "\n".join(phis)
        self.place(after)
        if certain:
            return up, following
        ends = [self.result(f"phi i64 [ {low}, %{before} ], [ {up}, %{latch} ]")]
        for c, then in zip(carried, following, strict=True):
            ends.append(self.result(f"phi {c.type} [ {c.first}, %{before} ], [ {then}, %{latch} ]"))
        return ends[0], ends[1:]

    # ---- the end -------------------------------------------------------------------------------
    def finish(self, first: Sequence[str] = (), result: str = "void") -> str:
        """The whole function; the open block returns. `first`: lines that the entry block begins with."""
        self.effect(f"ret {result}")
        for call, label in self._aborts.items():
            self._lines += [f"{label}:", f"  {call}", "  unreachable"]
        entry = ["entry:", *first, *self._entry, "  br label %start", "start:"]
        return "\n".join([f"{self._header} {{", *entry, *self._lines, "}"])

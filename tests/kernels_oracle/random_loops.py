"""Random loops: `for` and `while`, sums and extremes that loops carry, and the choice among all statements.

Enters: what is in scope. Leaves: lines in both languages.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from random_statements import Statements
from random_text import INTEGERS, LIMIT, SMALL, Index, Num, Scalar


class Loops(Statements):
    """Loops and lists of statements."""

    def statements(self, count: int) -> None:
        for _ in range(count):
            if self.left <= 0:
                return
            self.left -= 1
            self.statement()

    def statement(self) -> None:
        """One statement of any kind that is possible here."""
        kinds: list[tuple[int, Callable[[], bool]]] = [
            (6, self.store), (3, self.store_row), (1, self.declare), (2, self.change), (1, self.allocate),
            (1, self.call_row), (1, self.leave), (1, self.bind_view), (1, self.bind_row), (1, self.products),
            (1, self.table_inside),
        ]  # fmt: skip
        if self.depth < 6:
            kinds += [(2, self.branch), (2, self.guarded)]
            if self.steps <= self.most // 4:
                kinds += [(6, self.for_loop), (1, self.while_loop), (2, self.accumulate), (1, self.best)]
                kinds += [(2, self.accumulate_element), (1, self.accumulate_row), (1, self.compute_and_accumulate)]
        for _ in range(20):
            if self.rng.choices([make for _, make in kinds], [weight for weight, _ in kinds])[0]():
                return

    # ---- loops ---------------------------------------------------------------------------------
    def bounds(self) -> tuple[Num, Num, int, int]:
        """low..high of a loop, and the least and greatest value of its variable."""
        n = self.rng.choice(sorted({d for t in self.scope.tensors for d in t.dims}))
        i = self.rng.choice(self.scope.indices) if self.scope.indices else None
        whole = Num("0", "0"), Num(str(n), str(n)), 0, n - 1
        match self.rng.randrange(8):
            case 0 if i is not None and i.low >= 0 and i.high < 40:
                return whole[0], Num(f"{i.vx} + 1", f"{i.py} + 1"), 0, i.high
            case 1 if i is not None and i.low >= 0 and i.high < n:
                return Num(f"{i.vx} + 1", f"{i.py} + 1"), whole[1], i.low + 1, n - 1
            case 2 if n > 1:
                low = self.rng.randrange(n)
                return Num(str(low), str(low)), whole[1], low, n - 1
            case 3 if n > 2:
                return whole[0], Num(str(n - 1), str(n - 1)), 0, n - 2
            case 4:
                k = self.rng.randrange(3)
                return whole[0], Num(f"n{k}", f"n{k}"), 0, self.sizes[k] - 1
        return whole

    def loop(self, prefix: str, leaves: str = "") -> tuple[AbstractContextManager[None], str, int] | None:
        """A `for` loop, its variable, and how often it runs at most; None if that were too often."""
        low, high, least, most = self.bounds()
        trips = most - least + 1
        if trips < 0 or self.steps * trips > self.most:
            return None
        v = self.new(prefix)
        vx, py = f"for {v} in {low.vx}..{high.vx}", f"for {v} in range({low.py}, {high.py})"
        return self.block(vx, py, Index(v, v, least, max(most, least)), steps=trips, leaves=leaves), v, trips

    def for_loop(self) -> bool:
        made = self.loop("i", leaves="break continue continue")
        if made is None:
            return False
        with made[0]:
            self.statements(self.rng.randint(1, 3))
        return True

    def while_loop(self) -> bool:
        v, n = self.new("w"), self.rng.randint(1, 6)
        if self.steps * n > self.most:
            return False
        self.line(f"let mut {v} : i32 = 0;", f"{v} = 0")
        with self.block(f"while {v} < {n}", f"while {v} < {n}", Index(v, v, 0, n - 1), steps=n, leaves="break"):
            self.statements(self.rng.randint(1, 2))
            self.line(f"{v} += 1;")
        return True

    # ---- what loops carry ------------------------------------------------------------------------
    def begin(self, name: str, elem: str) -> None:
        """A mutable scalar."""
        value = self.small(self.leaf(elem)) if elem in LIMIT else self.leaf(elem)
        self.line(f"let mut {name} : {elem} = {value.vx};", f"{name} = {value.py}")

    def accumulate(self) -> bool:
        """A scalar that a loop adds to."""
        made = self.loop("k")
        if made is None:
            return False
        elem = self.rng.choice([e for e in self.elems if e in ("f32", "f64", "i32", "i64")])
        loop, _, trips = made
        s = self.new("s")
        self.begin(s, elem)
        with loop:
            self.add_to(elem, s, s, self.small(self.number(elem)) if elem in LIMIT else self.number(elem))
        self.scope.scalars.append(Scalar(s, elem, False, SMALL * (trips + 1)))
        return True

    def add_to(self, elem: str, vx: str, py: str, value: Num) -> None:
        """One of the ways to add to a place, or to keep the larger."""
        op = self.rng.choice("++-")
        now = f"float({py})" if elem in LIMIT else f"int({py})"
        added = f"{now} {op} ({value.py})"
        added = added if elem in LIMIT else f"wrap({added}, {INTEGERS[elem]})"
        match self.rng.randrange(6):
            case 0:
                self.line(f"if {value.vx} > {vx} {{ {vx} = {value.vx}; }}", f"if {value.py} > {now}: {py} = {value.py}")
            case 1:
                self.line(f"{vx} = ({vx}).max({value.vx});", f"{py} = max({now}, {value.py})")
            case 2:
                c = self.condition(1)
                self.line(f"if {c.vx} {{ {vx} {op}= {value.vx}; }}", f"if {c.py}: {py} = {added}")
            case 3:
                self.line(f"{vx} = {vx} {op} {value.vx};", f"{py} = {added}")
            case _:
                self.line(f"{vx} {op}= {value.vx};", f"{py} = {added}")

    def accumulate_element(self) -> bool:
        """An element that a loop adds to."""
        known = self.targets(("f32", "f64", "i32", "i64"))
        made = self.loop("k") if known else None
        if made is None:
            return False
        t = self.rng.choice(known)
        vx, py = self.element(t)
        with made[0]:
            self.add_to(t.elem, vx, py, self.small(self.number(t.elem)) if t.elem in LIMIT else self.number(t.elem))
        if t.elem in LIMIT:
            self.clamp(vx, py)
        return True

    def accumulate_row(self) -> bool:
        """A row that a loop adds to."""
        known = self.targets(("f32", "f64"))
        made = self.loop("k") if known else None
        if made is None:
            return False
        t = self.rng.choice(known)
        length = self.rng.choice(t.dims)
        place = self.row_place(t, length)
        assert place is not None
        py = place.py if "[" in place.py else f"{place.py}[:]"
        with made[0]:
            value = self.small(self.row(t.elem, length, 1))
            self.line(f"{place.vx} += {value.vx};", f"{py} = {py} + {value.py}")
        self.clamp(place.vx, py)
        return True

    def compute_and_accumulate(self) -> bool:
        """Elements that a loop stores, and their sum beside them."""
        known = self.targets(("f32", "f64", "i32", "i64"))
        made = self.loop("k") if known else None
        if made is None:
            return False
        loop, _, trips = made
        t, s, x = self.rng.choice(known), self.new("s"), self.new("x")
        self.begin(s, t.elem)
        with loop:
            vx, py = self.element(t)
            value = self.small(self.number(t.elem)) if t.elem in LIMIT else self.number(t.elem)
            self.line(f"let {x} : {t.elem} = {value.vx};", f"{x} = {value.py}")
            self.line(f"{vx} = {x};", f"{py} = {x}")
            now = f"float({py})" if t.elem in LIMIT else f"int({py})"
            self.add_to(t.elem, s, s, self.rng.choice((Num(x, x), Num(vx, now))))
        self.scope.scalars.append(Scalar(s, t.elem, False, SMALL * (trips + 1)))
        return True

    def best(self) -> bool:
        """Arg-max or arg-min by a loop."""
        made = self.loop("k")
        if made is None:
            return False
        loop, v, _ = made
        elem = self.rng.choice([e for e in self.elems if e != "bool"])
        s, at, x = self.new("s"), self.new("s"), self.new("x")
        self.begin(s, elem)
        self.line(f"let mut {at} : i32 = 0;", f"{at} = 0")
        with loop:
            value = self.small(self.number(elem)) if elem in LIMIT else self.number(elem)
            self.line(f"let {x} : {elem} = {value.vx};", f"{x} = {value.py}")
            op = self.rng.choice(("<", ">", "<=", ">="))
            test = f"{s} {op} {x}" if self.chance(40) else f"{x} {op} {s}"
            second = f" {at} = {v};" if self.chance(60) else ""
            self.line(f"if {test} {{ {s} = {x};{second} }}", f"if {test}: {s} = {x};{second}")
        self.scope.scalars += [Scalar(s, elem, False, SMALL), Scalar(at, "i32", False, 64)]
        return True

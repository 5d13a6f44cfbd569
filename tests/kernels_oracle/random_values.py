"""Random expressions: numbers of every element type, conditions, and rows.

Enters: an element type and how deep to go. Leaves: the expression in Vx and in Python, and how large it can be.
"""

from __future__ import annotations

from math import prod

from random_text import INTEGERS, LIMIT, SMALL, Num, Tensor, Writer


class Values(Writer):
    """Expressions."""

    # ---- scalars -------------------------------------------------------------------------------
    def number(self, elem: str, depth: int = 2) -> Num:
        if elem == "bool":
            return self.condition(depth)
        if elem in INTEGERS:
            return self.integer(elem, depth)
        return self.floating(elem, depth)

    def load(self, elem: str) -> Num | None:
        known = [t for t in self.scope.tensors if t.elem == elem]
        if not known:
            return None
        t = self.rng.choice(known)
        vx, py = self.element(t)
        convert = "float" if elem in LIMIT else "bool" if elem == "bool" else "int"
        return Num(vx, f"{convert}({py})", SMALL)

    def element(self, t: Tensor) -> tuple[str, str]:
        """An element of `t` as a place."""
        at = [self.index(d) for d in t.dims]
        py = f"{t.name}[{', '.join(a.py for a in at)}]"
        if len(at) == 2 and self.chance(10):
            return f"{t.name}.t()[{at[1].vx}][{at[0].vx}]", py
        if len(at) > 1 and not t.gaps and self.chance(8):
            flat, size = self.index(prod(t.dims)), prod(t.dims)
            return f"{t.name}.reshape([{size}])[{flat.vx}]", f"{t.name}.reshape({size})[{flat.py}]"
        if self.chance(50):
            return f"{t.name}[{', '.join(a.vx for a in at)}]", py
        return t.name + "".join(f"[{a.vx}]" for a in at), py

    def held(self, elem: str) -> Num | None:
        known = [s for s in self.scope.scalars if s.elem == elem]
        if not known:
            return None
        s = self.rng.choice(known)
        return Num(s.name, s.name, s.bound)

    def counted(self) -> Num | None:
        """A loop variable as a number."""
        if not self.scope.indices:
            return None
        i = self.rng.choice(self.scope.indices)
        return Num(i.vx, i.py, max(abs(i.low), abs(i.high)))

    def leaf(self, elem: str) -> Num:
        for _ in range(3):
            made = self.rng.choice((self.load, self.load, self.held))(elem)
            if made is not None:
                return made
        return self.literal(elem)

    def literal(self, elem: str) -> Num:
        n, suffix = self.rng.randrange(6), "" if elem in ("f32", "i32") else elem
        return Num(f"{n}.0{suffix}" if elem in LIMIT else f"{n}{suffix}", str(n), n)

    def floating(self, elem: str, depth: int) -> Num:
        made = self.float_form(elem, depth)
        return made if made.bound <= LIMIT[elem] else self.small(self.leaf(elem))

    def float_form(self, elem: str, depth: int) -> Num:  # noqa: C901
        if depth == 0 or self.chance(20):
            return self.leaf(elem)
        a = self.floating(elem, depth - 1)
        match self.rng.randrange(14):
            case 0 | 1 | 2 | 3:
                return self.combined(a, self.floating(elem, depth - 1), elem)
            case 4:
                b = self.floating(elem, depth - 1)
                name = self.rng.choice(("max", "min"))
                return Num(f"({a.vx}).{name}({b.vx})", f"{name}({a.py}, {b.py})", max(a.bound, b.bound))
            case 5:
                return Num(f"({a.vx}).abs()", f"abs({a.py})", a.bound)
            case 6:
                return Num(f"(({a.vx}) * 0.5).floor()", f"math.floor(({a.py}) * 0.5)", a.bound)
            case 7:
                c, b = self.condition(1), self.floating(elem, depth - 1)
                vx = f"(if {c.vx} {{ {a.vx} }} else {{ {b.vx} }})"
                return Num(vx, f"({a.py} if {c.py} else {b.py})", max(a.bound, b.bound))
            case 8 | 9:
                return self.reduced(elem) or a
            case 10:
                return self.called(elem) or a
            case 11:
                return self.converted(elem)
            case 12:
                i = self.counted()
                return a if i is None else Num(f"(({i.vx}) as {elem})", f"float({i.py})", i.bound)
            case _:
                return Num(f"(-({a.vx}))", f"(-({a.py}))", a.bound)

    def combined(self, a: Num, b: Num, elem: str) -> Num:
        op = self.rng.choice("+-*")
        bound = a.bound * b.bound if op == "*" else a.bound + b.bound
        if bound > LIMIT[elem]:
            a, b = self.small(a), self.small(b)
            bound = SMALL * SMALL
        return Num(f"({a.vx} {op} {b.vx})", f"({a.py} {op} {b.py})", bound)

    def small(self, a: Num) -> Num:
        """Clamped to what tensors hold."""
        return a if a.bound <= SMALL else a.clamped

    def converted(self, elem: str) -> Num:
        """From another type."""
        if self.chance(40):
            e = self.integer("i32", 1)
            return Num(f"((({e.vx}) % 5) as {elem})", f"float(rest({e.py}, 5))", 4)
        other = self.rng.choice([e for e in LIMIT if e != elem])
        a = self.small(self.floating(other, 1))
        return Num(f"(({a.vx}) as {elem})", f"float({a.py})", a.bound)

    def reduced(self, elem: str) -> Num | None:
        """`dot`, `sum`, `max` or `min` of rows."""
        if elem not in ("f32", "f64"):
            return None
        length = self.rng.choice(self.lengths())
        op = self.rng.choice(("dot", "sum", "max", "min"))
        source = self.rng.choice(("f16", "bf16")) if elem == "f32" and self.chance(15) else elem
        a = self.row(source, length, 1)
        if op != "dot":
            return Num(f"{op}({a.vx})", f"float(np.{op}({a.py}))", a.bound * (length if op == "sum" else 1))
        b = self.row(source, length, 1)
        return Num(f"dot({a.vx}, {b.vx})", f"float(np.dot({a.py}, {b.py}))", a.bound * b.bound * length)

    def called(self, elem: str) -> Num | None:
        if elem != "f32":
            return None
        match self.rng.randrange(4):
            case 0:
                a, b = self.small(self.floating(elem, 1)), self.small(self.floating(elem, 1))
                return Num(f"pick({a.vx}, {b.vx})", f"pick({a.py}, {b.py})", 2 * SMALL)
            case 1:
                r, b = self.row(elem, self.rng.choice(self.lengths()), 0), self.leaf(elem)
                return Num(f"(first_above(&{r.vx}, {b.vx}) as f32)", f"float(first_above({r.py}, {b.py}))", 64)
            case 2:
                n = self.rng.choice(self.lengths())
                r = self.row(elem, n, 0)
                return Num(f"alternating(&{r.vx})", f"alternating({r.py})", SMALL * n)
            case _:
                r, k = self.row(elem, self.rng.choice(self.lengths()), 0), self.rng.choice((1, 2, 3))
                return Num(f"every<{k}>(&{r.vx})", f"every({k}, {r.py})", SMALL * 64)

    # ---- integers and conditions -----------------------------------------------------------------
    def integer(self, elem: str, depth: int) -> Num:
        if depth == 0 or self.chance(20):
            return self.integer_leaf(elem)
        a, bits = self.integer(elem, depth - 1), INTEGERS[elem]
        match self.rng.randrange(9):
            case 0 | 1 | 2 | 3:
                b, op = self.integer(elem, depth - 1), self.rng.choice("+-*")
                if a.vx.lstrip("(")[0].isdigit():
                    known = self.load(elem) or self.counted_as(elem)
                    if known is None:
                        return a
                    a = known
                return Num(f"({a.vx} {op} {b.vx})", f"wrap({a.py} {op} {b.py}, {bits})")
            case 4:
                n, op = self.rng.randint(1, 6), self.rng.choice("/%")
                return Num(f"({a.vx} {op} {n})", f"{'quotient' if op == '/' else 'rest'}({a.py}, {n})")
            case 5:
                b, op = self.integer(elem, depth - 1), self.rng.choice("&|^")
                return Num(f"(({a.vx}) {op} ({b.vx}))", f"wrap(({a.py}) {op} ({b.py}), {bits})")
            case 6:
                c, b = self.condition(1), self.integer(elem, depth - 1)
                return Num(f"(if {c.vx} {{ {a.vx} }} else {{ {b.vx} }})", f"({a.py} if {c.py} else {b.py})")
            case 7:
                b, name = self.integer(elem, depth - 1), self.rng.choice(("max", "min"))
                return Num(f"({a.vx}).{name}({b.vx})", f"{name}({a.py}, {b.py})")
            case _:
                return self.whole(elem, bits)

    def whole(self, elem: str, bits: int) -> Num:
        """From another type."""
        if self.chance(50):
            other = self.rng.choice([e for e in INTEGERS if e != elem])
            e = self.integer(other, 1)
            return Num(f"(({e.vx}) as {elem})", f"wrap({e.py}, {bits})")
        a = self.small(self.floating(self.rng.choice(list(LIMIT)), 1))
        if bits < 0:
            a = Num(f"({a.vx}).abs()", f"abs({a.py})")
        return Num(f"(({a.vx}) as {elem})", f"int({a.py})")

    def counted_as(self, elem: str) -> Num | None:
        i = self.counted()
        return None if i is None else Num(f"(({i.vx}) as {elem})", f"wrap({i.py}, {INTEGERS[elem]})")

    def integer_leaf(self, elem: str) -> Num:
        i = self.counted()
        if i is not None and self.chance(25):
            return i if elem == "i32" else Num(f"(({i.vx}) as {elem})", f"wrap({i.py}, {INTEGERS[elem]})")
        return self.leaf(elem)

    def condition(self, depth: int) -> Num:
        """A condition."""
        kind = self.rng.randrange(8)
        if kind == 0 and depth > 0:
            a, b, op = self.condition(depth - 1), self.condition(depth - 1), self.rng.choice(("&&", "||"))
            return Num(f"({a.vx} {op} {b.vx})", f"({a.py} {'and' if op == '&&' else 'or'} {b.py})")
        if kind == 1:
            a = self.condition(0)
            return Num(f"(!{a.vx})", f"(not {a.py})")
        if kind == 2:
            flag = self.load("bool") or self.held("bool")
            if flag is not None:
                return flag
        elem = self.rng.choice(self.elems)
        if elem == "bool":
            elem = "i32"
        a, b = self.number(elem, 1), self.number(elem, 0)
        op = self.rng.choice(("<", ">", "<=", ">=", "==", "!="))
        return Num(f"({a.vx} {op} {b.vx})", f"({a.py} {op} {b.py})")

    # ---- rows ----------------------------------------------------------------------------------
    def lengths(self) -> list[int]:
        return sorted({d for t in self.scope.tensors for d in t.dims if t.elem in LIMIT})

    def row_place(self, t: Tensor, length: int) -> Num | None:
        """A view of rank 1 of `t` with `length` elements."""
        axes = [a for a, d in enumerate(t.dims) if d >= length]
        if not axes:
            return None
        axis = self.rng.choice(axes)
        low = self.start(t.dims[axis] - length)
        whole = t.dims[axis] == length and self.chance(80)
        vx, py = [], []
        for a, d in enumerate(t.dims):
            at = self.index(d)
            vx.append(at.vx if a != axis else f"{low.vx}..{low.vx} + {length}")
            py.append(at.py if a != axis else f"{low.py} : {low.py} + {length}")
        if whole and len(t.dims) == 1:
            return Num(t.name, t.name, SMALL)
        if whole and axis == len(t.dims) - 1:
            return Num(f"{t.name}[{', '.join(vx[:-1])}]", f"{t.name}[{', '.join(py[:-1])}]", SMALL)
        if whole and len(t.dims) == 2 and axis == 0 and self.chance(60):
            return Num(f"{t.name}.t()[{vx[1]}]", f"{t.name}.T[{py[1]}]", SMALL)
        return Num(f"{t.name}[{', '.join(vx)}]", f"{t.name}[{', '.join(py)}]", SMALL)

    def start(self, most: int) -> Num:
        """Where a slice starts: 0..=most."""
        made = self.index(most + 1) if self.chance(60) and most < 300 else None
        if made is None or "%" in made.vx or "/" in made.vx:
            return self.constant_index(most + 1)
        return Num(f"({made.vx})" if " " in made.vx else made.vx, f"({made.py})")

    def row(self, elem: str, length: int, depth: int) -> Num:
        places = [p for t in self.scope.tensors if t.elem == elem if (p := self.row_place(t, length)) is not None]
        if not places:
            other = self.rng.choice([e for e in LIMIT if e != elem])
            places = [
                Num(f"({p.vx} as {elem})", p.py, p.bound)
                for t in self.scope.tensors
                if t.elem == other and (p := self.row_place(t, length)) is not None
            ]
        if not places:
            return Num(f"Tensor<{elem}, [{length}]>::fill(3.0)", f"np.full({length}, 3.0)", 3)
        a = self.rng.choice(places)
        if depth == 0 or self.chance(25):
            return a
        return self.row_form(elem, length, depth, a)

    def row_form(self, elem: str, length: int, depth: int, a: Num) -> Num:
        match self.rng.randrange(9):
            case 6 | 7 if length > 0 and not self.unknown:
                c, b = self.condition(1), self.row(elem, length, depth - 1)
                vx = f"(if {c.vx} {{ {self.owned(a)} }} else {{ {self.owned(b)} }})"
                made = Num(vx, f"({a.py} if {c.py} else {b.py})", max(a.bound, b.bound))
            case 8 if elem == "f32" and not self.unknown:
                x = self.small(self.floating(elem, 1))
                made = Num(f"early<{length}>(&{a.vx}, {x.vx})", f"early({a.py}, {x.py})", SMALL + 1)
            case 0 | 1 | 2:
                made = self.combined(a, self.row(elem, length, depth - 1), elem)
            case 3:
                made = self.combined(a, self.small(self.floating(elem, 1)), elem)
            case 4:
                made = Num(f"({a.vx}).abs()", f"np.abs({a.py})", a.bound)
            case _:
                b = self.small(self.floating(elem, 1))
                name = self.rng.choice(("max", "min"))
                made = Num(f"({a.vx}).{name}({b.vx})", f"np.{name}imum({a.py}, {b.py})", SMALL)
        return made

    def owned(self, a: Num) -> str:
        """A row expression that does not move a tensor."""
        return a.vx if a.vx.startswith(("(", "early<", "Tensor<")) else f"{a.vx}.copy()"

"""Random statements that are not loops: stores, rows, branches, declarations, calls, products.

Enters: what is in scope. Leaves: lines in both languages; False where a kind of statement is not possible. Statements
that the borrow checker would refuse are not made.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection

from random_text import INTEGERS, LIMIT, SMALL, Index, Num, Scalar, Tensor
from random_values import Values


class Statements(Values):
    """Statements."""

    @abstractmethod
    def statements(self, count: int) -> None:
        """That many statements of any kind."""

    def targets(self, elems: Collection[str] | None = None) -> list[Tensor]:
        """Tensors that can be written here."""
        return [
            t
            for t in self.scope.tensors
            if t.writable and t.name not in self.scope.frozen and (elems is None or t.elem in elems)
        ]

    def store(self) -> bool:
        """An element."""
        known = self.targets()
        if not known:
            return False
        t = self.rng.choice(known)
        vx, py = self.element(t)
        value = self.number(t.elem)
        value = self.small(value) if t.elem in LIMIT else value
        if t.elem == "bool" or self.chance(75):
            self.line(f"{vx} = {value.vx};", f"{py} = {value.py}")
            return True
        op = self.rng.choice("+-*")
        if t.elem in INTEGERS:
            self.line(f"{vx} {op}= {value.vx};", f"{py} = wrap(int({py}) {op} ({value.py}), {INTEGERS[t.elem]})")
        else:
            self.line(f"{vx} {op}= {value.vx};", f"{py} = float({py}) {op} ({value.py})")
            self.clamp(vx, py)
        return True

    def clamp(self, vx: str, py: str) -> None:
        """Bring a place of floats back into its range."""
        now = Num(vx, py).clamped
        self.line(f"{vx} = {now.vx};", f"{py} = {now.py}")

    def store_row(self) -> bool:
        known = self.targets(LIMIT)
        if not known:
            return False
        t = self.rng.choice(known)
        length = self.rng.choice(t.dims) - (self.rng.randrange(3) if self.chance(30) else 0)
        target = self.row_place(t, length) if length > 0 else None
        if target is None:
            return False
        py = target.py if "[" in target.py else f"{target.py}[:]"
        if self.chance(15):
            value = self.small(self.floating(t.elem, 1)) if self.chance(50) else self.row(t.elem, length, 0)
            op = self.rng.choice("+-")
            self.line(f"{target.vx} {op}= {value.vx};", f"{py} = {py} {op} {value.py}")
            self.clamp(target.vx, py)
            return True
        value = self.small(self.row(t.elem, length, 2))
        whole = value.vx in [t.name for t in self.scope.tensors]
        self.line(f"{target.vx} = {value.vx}{'.copy()' if whole else ''};", f"{py} = ({value.py}) + 0")
        return True

    def branch(self) -> bool:
        c = self.condition(1)
        with self.block(f"if {c.vx}", f"if {c.py}"):
            self.statements(self.rng.randint(1, 2))
        if self.chance(40):
            with self.block("else", "else"):
                self.statements(1)
        return True

    def guarded(self) -> bool:
        """A branch in which an index that may be out of range elsewhere is in range."""
        if not self.scope.indices:
            return False
        i, n = self.rng.choice(self.scope.indices), self.rng.choice(self.rng.choice(self.scope.tensors).dims)
        e = self.narrow(i) if self.chance(30) else self.anywhere(i, n)
        vx, py = f"0 <= {e.vx} && {e.vx} < {n}", f"0 <= {e.py} < {n}"
        if self.chance(30):
            vx = f"!({e.vx} < 0 || {n - 1} < {e.vx})"
        elif e.low >= 0:
            vx = f"{n} > {e.vx}"
        with self.block(f"if {vx}", f"if {py}", Index(e.vx, e.py, 0, n - 1)):
            self.statements(self.rng.randint(1, 2))
        return True

    def anywhere(self, i: Index, n: int) -> Index:
        """An index that is not always in 0..n."""
        k, c = self.rng.choice((-2, -1, 1, 1, 1, 2, 3)), self.rng.randint(-3, n)
        ends = sorted((i.low * k + c, i.high * k + c))
        return Index(f"({i.vx} * ({k}) + {c})", f"({i.py} * {k} + {c})", *ends)

    def narrow(self, i: Index) -> Index:
        """An index of 8 bits, whose arithmetic wraps."""
        name, k, c = self.new("s"), self.rng.choice((1, 3, 64, 100, 128)), self.rng.randrange(256)
        other = self.gathered(256) or Num(i.vx, i.py)
        vx = f"let {name} : u8 = ({i.vx}) as u8 * {k}u8 + {c}u8 + ({other.vx}) as u8;"
        self.line(vx, f"{name} = wrap(({i.py}) * {k} + {c} + ({other.py}), -8)")
        return Index(f"({name} as i32)", name, 0, 255)

    def table_inside(self) -> bool:
        """A tensor of indices, made where it is used."""
        name, length, span = self.new("p"), self.rng.randint(1, 3), self.rng.choice(self.lengths())
        self.line(f"let mut {name} = Tensor<i32, [{length}]>::new();", f"{name} = np.zeros({length}, dtype=np.int64)")
        for k in range(length):
            at = self.index(span)
            self.line(f"{name}[{k}] = {at.vx};", f"{name}[{k}] = {at.py}")
        self.scope.tensors.append(Tensor(name, "i32", (length,), False, span))
        return True

    def declare(self) -> bool:
        elem = self.rng.choice([*self.elems, "i32"])
        value = self.number(elem)
        mutable = self.chance(60)
        if elem in LIMIT:
            value = self.small(value)
        name = self.new("s")
        self.line(f"let {'mut ' if mutable else ''}{name} : {elem} = {value.vx};", f"{name} = {value.py}")
        self.scope.scalars.append(Scalar(name, elem, mutable, SMALL))
        return True

    def change(self) -> bool:
        known = [s for s in self.scope.scalars if s.mutable]
        if not known:
            return False
        s = self.rng.choice(known)
        value = self.number(s.elem)
        if s.elem in LIMIT:
            both = Num(f"{s.name} + {value.vx}", f"{s.name} + {value.py}", value.bound + SMALL)
            value = self.small(both if self.chance(40) and both.bound <= LIMIT[s.elem] else value)
        elif s.elem in INTEGERS and self.chance(40):
            self.line(f"{s.name} += {value.vx};", f"{s.name} = wrap({s.name} + {value.py}, {INTEGERS[s.elem]})")
            return True
        self.line(f"{s.name} = {value.vx};", f"{s.name} = {value.py}")
        return True

    def allocate(self) -> bool:
        elem = self.rng.choice([e for e in self.elems if e in LIMIT] or ["f32"])
        name, length = self.new("t"), self.rng.choice(self.lengths())
        match self.rng.randrange(3):
            case 0:
                self.line(f"let mut {name} = Tensor<{elem}, [{length}]>::new();", f"{name} = np.zeros({length})")
            case 1:
                row = self.row(elem, length, 0)
                if not row.vx.endswith("]") or "::" in row.vx:
                    return False
                self.line(f"let mut {name} = {row.vx}.copy();", f"{name} = {row.py}.copy()")
            case _:
                x = self.small(self.floating(elem, 1))
                self.line(
                    f"let mut {name} = Tensor<{elem}, [{length}]>::fill({x.vx});",
                    f"{name} = np.full({length}, {x.py} + 0.0)",
                )
        self.scope.tensors.append(Tensor(name, elem, (length,)))
        return True

    def bind_view(self) -> bool:
        """`let r = t[i];`: nobody may write t while r lives."""
        known = [t for t in self.targets(LIMIT) if len(t.dims) > 1]
        if not known:
            return False
        t, name = self.rng.choice(known), self.new("r")
        at = self.index(t.dims[0])
        self.line(f"let {name} = {t.name}[{at.vx}];", f"{name} = {t.name}[{at.py}]")
        self.scope.tensors.append(Tensor(name, t.elem, t.dims[1:], False, 0, t.gaps))
        self.scope.frozen.add(t.name)
        return True

    def bind_row(self) -> bool:
        """`let r = row expression;`, a tensor of its own."""
        elem = self.rng.choice([e for e in self.elems if e in LIMIT])
        length, name = self.rng.choice(self.lengths()), self.new("r")
        a = self.row(elem, length, 2)
        if a.vx[0] != "(" and not a.vx.startswith("early"):
            return False
        a = self.small(a)
        self.line(f"let {name} = {a.vx};", f"{name} = ({a.py}) + 0")
        self.scope.tensors.append(Tensor(name, elem, (length,), False))
        return True

    def call_row(self) -> bool:
        """A function that changes a row."""
        known = self.targets(("f32",))
        if not known:
            return False
        t = self.rng.choice(known)
        length = self.rng.choice(t.dims)
        target = self.row_place(t, length)
        assert target is not None
        name = self.rng.choice(("running", "reversed", "scaled", "until_negative"))
        if name in ("running", "reversed"):
            self.line(f"{name}(&mut {target.vx});", f"{name}({target.py})")
            return True
        others = [o for o in self.scope.tensors if o.elem == "f32" and o.name != t.name]
        sources = [p for o in others if (p := self.row_place(o, length)) is not None]
        if not sources:
            return False
        s, x = self.rng.choice(sources), self.small(self.floating("f32", 0))
        last = (f", {x.vx}", f", {x.py}") if name == "scaled" else ("", "")
        self.line(f"{name}(&mut {target.vx}, &{s.vx}{last[0]});", f"{name}({target.py}, {s.py}{last[1]})")
        return True

    def leave(self) -> bool:
        """`if c { …; continue; }` or `break`."""
        if not self.leaves:
            return False
        word, c = self.rng.choice(self.leaves[-1].split()), self.condition(1)
        with self.block(f"if {c.vx}", f"if {c.py}"):
            if self.chance(40):
                self.statements(1)
            self.line(f"{word};")
        return True

    def products(self) -> bool:
        """`c = a @ b` of matrices or a matrix and a vector."""
        flat = [t for t in self.scope.tensors if len(t.dims) <= 2]
        known = [t for t in self.targets(("f32", "f64")) if t in flat and not self.unknown]
        self.rng.shuffle(known)
        return any(
            a.elem == b.elem == t.elem and len(a.dims) + len(b.dims) - 2 == len(t.dims) > 0 and self.product(t, a, b)
            for t in known
            for a in flat
            for b in flat
        )

    def product(self, t: Tensor, a: Tensor, b: Tensor) -> bool:
        for x, x_dims in self.either(a):
            for y, y_dims in self.either(b):
                if x_dims[-1] == y_dims[0] and x_dims[:-1] + y_dims[1:] == t.dims and self.chance(50):
                    value = Num(f"{x.vx} @ {y.vx}", f"{x.py} @ {y.py}").clamped
                    self.line(f"{t.name} = {value.vx};", f"{t.name}[...] = {value.py}")
                    return True
        return False

    def either(self, t: Tensor) -> list[tuple[Num, tuple[int, ...]]]:
        forms = [(Num(t.name, t.name), t.dims)]
        if len(t.dims) == 2:
            forms.append((Num(f"{t.name}.t()", f"{t.name}.T"), t.dims[::-1]))
        return forms

"""Random programs that place, move, return and drop tiles: texts that the checker accepts."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

TYPES = {
    "A": "Tensor<u8, [1000], Topology::Device[0]>",
    "B": "Tensor<f32, [77], Topology::Device[1]>",
    "C": "Tensor<i4, [333], Topology::Device[0]>",
    "R": "Tensor<f64, [], Topology::Device[1]>",
    "Z": "Tensor<f32, [0, 5], Topology::Device[0]>",
}
HEAD = (
    "\n".join(f"type {name} = {type_};" for name, type_ in TYPES.items())
    + """
struct P { x : A, n : i32, y : B }
struct Q { p : P, z : C, d : D }
struct D { n : i32 }
impl D { fn drop(self : &mut D) -> void { let a = A::new(); see_A(&a); see_B(&B::new()); } }
struct O { t : A, d : D, r : R }
impl O { fn drop(self : &mut O) -> void { see_A(&self.t); if cond() { let b = B::new(); see_B(&b); } let d = D { n: 2 }; } }
fn cond() -> bool { true }
fn pick() -> i32 { 1 }
fn host_A() -> Tensor<u8, [1000]> { Tensor<u8, [1000]>::new() }
fn host_B() -> Tensor<f32, [77]> { Tensor<f32, [77]>::new() }
fn test_A(t : A) -> bool { see_A(&t); true }
fn test_P(t : P) -> bool { see_P(&t); test_A(t.x) }
fn see_A(t : &A) -> void { }
fn see_B(t : &B) -> void { }
fn see_C(t : &C) -> void { }
fn see_P(t : &P) -> void { }
fn see_Q(t : &Q) -> void { }
fn see_D(t : &D) -> void { }
fn see_O(t : &O) -> void { }
fn see_R(t : &R) -> void { }
fn see_Z(t : &Z) -> void { }
fn see_V(t : &Tensor<u8, [?], Topology::Device[0]>) -> void { }
fn same_A(t : A) -> A { t }
fn same_P(t : P) -> P { let u = t; P { x: u.x, n: 7, y: u.y } }
fn x_of(t : P) -> A { see_P(&t); t.x }
fn back(t : &A) -> &A { t }
fn maybe_D() -> Option<D> { if cond() { Option<D>::Some(D { n: 3 }) } else { Option<D>::None } }
"""
)
OWNED = ("A", "B", "C", "P", "Q", "D", "O", "R", "Z")
FIELDS = {"P": (("x", "A"), ("y", "B")), "Q": (("p", "P"), ("z", "C"), ("d", "D"))}


@dataclass
class Function:
    name: str
    params: list[str]
    result: str | None


@dataclass
class Writer:
    """Writes one function. `names` are the live bindings: name, type, and in how many loops it was declared."""

    random: Random
    known: list[Function]
    names: list[tuple[str, str, int]] = field(default_factory=list)
    result: str | None = None
    loops: int = 0
    count: int = 0
    budget: int = 14

    def new(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def movable(self, type_: str) -> list[str]:
        return [name for name, kind, loops in self.names if kind == type_ and loops == self.loops]

    def forget(self, name: str) -> None:
        self.names = [item for item in self.names if item[0] != name]

    # ---- values ----
    def value(self, type_: str, depth: int = 2) -> str:
        ways = [self.fresh]
        if depth:
            ways += [self.moved, self.called, self.called, self.branching, self.block_value, self.bound, self.part_of]
            ways += [self.never] if self.random.random() < 0.2 else []
        return self.random.choice(ways)(type_, depth)

    def fresh(self, type_: str, depth: int) -> str:
        if type_ == "P":
            return f"P {{ x: {self.value('A', depth - 1 if depth else 0)}, n: 1, y: {self.value('B', 0)} }}"
        if type_ == "Q":
            return f"Q {{ p: {self.value('P', depth - 1 if depth else 0)}, z: {self.value('C', 0)}, d: D {{ n: 4 }} }}"
        if type_ == "O":
            return f"O {{ t: {self.value('A', depth - 1 if depth else 0)}, d: D {{ n: 5 }}, r: {self.value('R', 0)} }}"
        if type_ == "D":
            return "D { n: 6 }"
        seen = [name for name, kind, _ in self.names if kind == "A"] if type_ == "A" else []
        if seen and self.random.random() < 0.2:
            return f"spawn on(Topology::Device[0]) {{ {self.random.choice(seen)}.copy() }}"
        if type_ in ("A", "B") and self.random.random() < 0.3:
            return f"transfer(host_{type_}(), Topology::Device[{'AB'.index(type_)}])"
        return f"{type_}::{self.random.choice(['new()', 'uninit()'])}"

    def bound(self, type_: str, depth: int) -> str:
        """A value that a pattern binds."""
        given, name = self.random.choice([type_, self.random.choice(OWNED)]), self.new()
        value = self.value(given, depth - 1)
        before = list(self.names)
        self.names.append((name, given, self.loops))
        passed_on = given == type_ and self.random.random() < 0.5
        inner = f"{{ see_{given}(&{name}); {name} }}" if passed_on else self.block_value(type_, depth - 1)
        self.names = [item for item in before if item in self.names]
        return f"match ({value}) {{ {name} => {inner} }}"

    def part_of(self, type_: str, depth: int) -> str:
        """A field of a value that nobody keeps."""
        for whole, fields in FIELDS.items():
            for field_, kind in fields:
                makers = [f for f in self.known if f.result == whole]
                if kind == type_ and makers:
                    return f"{self.call(self.random.choice(makers), depth - 1)}.{field_}"
        return self.fresh(type_, depth)

    def never(self, type_: str, depth: int) -> str:
        """No value at all."""
        before = self.names
        value = "" if self.result is None else self.fresh(self.result, 0)
        self.names = before
        return f"{{ return {value}; }}".replace(" ;", ";")

    def moved(self, type_: str, depth: int) -> str:
        choices = self.movable(type_)
        if not choices:
            return self.fresh(type_, depth)
        name = self.random.choice(choices)
        self.forget(name)
        return name

    def called(self, type_: str, depth: int) -> str:
        choices = [function for function in self.known if function.result == type_]
        if not choices:
            return self.fresh(type_, depth)
        return self.call(self.random.choice(choices), depth - 1)

    def call(self, function: Function, depth: int) -> str:
        args = []
        for param in function.params:
            if param.startswith("&"):
                names = [name for name, kind, _ in self.names if kind == param[1:]]
                args.append(f"&{self.random.choice(names)}" if names else f"&{self.fresh(param[1:], 0)}")
            else:
                args.append(self.value(param, max(depth, 0)))
        # An argument must not be borrowed and moved in the same call.
        moved = {arg for arg in args if arg.isidentifier()}
        args = [
            f"&{self.fresh(p[1:], 0)}" if p.startswith("&") and any(m in a for m in moved) else a
            for p, a in zip(function.params, args, strict=True)
        ]
        return f"{function.name}({', '.join(args)})"

    def branching(self, type_: str, depth: int) -> str:
        before = list(self.names)
        first = self.block_value(type_, depth - 1)
        after = self.names
        self.names = list(before)
        second = self.block_value(type_, depth - 1)
        self.names = [item for item in before if item in after and item in self.names]
        if self.random.random() < 0.3:
            return f"match pick() {{ 1 => {first} _ => {second} }}"
        return f"if {self.test()} {first} else {second}"

    def block_value(self, type_: str, depth: int) -> str:
        before = {name for name, _, _ in self.names}
        lines = self.statements(self.random.randrange(2), None)
        value = self.value(type_, max(depth - 1, 0))
        self.names = [item for item in self.names if item[0] in before]
        return f"{{ {' '.join(lines)} {value} }}"

    def test(self) -> str:
        """A condition, perhaps with temporaries."""
        chance = self.random.random()
        if chance < 0.1:
            return f"test_P({self.fresh('P', 0)})"
        return "cond() && test_A(A::new())" if chance < 0.2 else "cond()"

    # ---- statements ----
    def statements(self, count: int, result: str | None) -> list[str]:
        lines = []
        for _ in range(count):
            if self.budget <= 0:
                break
            self.budget -= 1
            lines.append(self.statement(result))
        return lines

    def statement(self, result: str | None) -> str:
        ways = [self.let, self.let, self.let, self.see, self.see, self.run, self.scope, self.branch, self.loop]
        ways += [
            self.land,
            self.assign,
            self.early,
            self.leave,
            self.field_out,
            self.shadow,
            self.bounded,
            self.payload,
        ]
        return self.random.choice(ways)(result)

    def let(self, _: str | None) -> str:
        type_ = self.random.choice(OWNED)
        value, name = self.value(type_), self.new()
        self.names.append((name, type_, self.loops))
        return f"let mut {name} = {value};"

    def see(self, _: str | None) -> str:
        if not self.names:
            return ""
        name, type_, _loops = self.random.choice(self.names)
        if type_ == "A" and self.random.random() < 0.2:
            return f"let back{name} = back(&{name}); see_A(back{name});"
        return f"see_{type_}(&{name});"

    def shadow(self, _: str | None) -> str:
        choices = [item for item in self.names if item[2] == self.loops and item[0].startswith("v")]
        return f"let mut {(name := self.random.choice(choices)[0])} = {name};" if choices else ""

    def bounded(self, _: str | None) -> str:
        name = self.new()
        seen = f" see_V(&{name});" if self.random.random() < 0.7 else ""
        return f"let {name} = transfer(host_A()[0..pick()], Topology::Device[0]);{seen}"

    def payload(self, result: str | None) -> str:
        name = self.new()
        pattern, before = self.random.choice([name, "_"]), list(self.names)
        if pattern == name:
            self.names.append((name, "D", self.loops))
        first = self.inner(2, result)
        self.names = [item for item in before if item in self.names]
        return f"match maybe_D() {{ Option::Some({pattern}) => {first} Option::None => {{ }} }}"

    def run(self, _: str | None) -> str:
        return f"{self.call(self.random.choice(self.known), 1)};" if self.known else ""

    def inner(self, count: int, result: str | None) -> str:
        before = {name for name, _, _ in self.names}
        lines = self.statements(count, result)
        self.names = [item for item in self.names if item[0] in before]
        return f"{{ {' '.join(lines)} }}"

    def land(self, _: str | None) -> str:
        names = [name for name, kind, _ in self.names if kind == "A" and name.startswith("v")]
        return f"{self.random.choice(names)} = transfer(host_A(), Topology::Device[0]);" if names else ""

    def scope(self, result: str | None) -> str:
        return self.inner(3, result)

    def branch(self, result: str | None) -> str:
        before = list(self.names)
        first = self.inner(2, result)
        after = self.names
        self.names = list(before)
        second = self.inner(2, result)
        self.names = [item for item in before if item in after and item in self.names]
        return f"if {self.test()} {first} else {second}"

    def loop(self, result: str | None) -> str:
        self.loops += 1
        body = self.inner(3, result)
        self.loops -= 1
        if self.random.random() < 0.15:
            return f"loop {{ {body} if cond() {{ break; }} }}"
        return f"while {self.test()} {body}" if self.random.random() < 0.5 else f"for i in 0..3 {body}"

    def assign(self, _: str | None) -> str:
        mutable = [item for item in self.names if item[0].startswith("v") and item[2] == self.loops]
        choices = [(name, kind) for name, kind, _ in mutable if kind in FIELDS]
        if not choices or self.random.random() < 0.7:
            return ""
        name, kind = self.random.choice(choices)
        eaters = [function for function in self.known if function.params == [kind]]
        if eaters and self.random.random() < 0.8:
            return f"{self.random.choice(eaters).name}({name}); {name} = {self.fresh(kind, 1)};"
        return f"{name} = {self.fresh(kind, 0)};"

    def field_out(self, _: str | None) -> str:
        choices = [(name, kind) for name, kind, loops in self.names if kind in FIELDS and loops == self.loops]
        if not choices:
            return ""
        name, kind = self.random.choice(choices)
        field_, type_ = self.random.choice(FIELDS[kind])
        self.forget(name)
        new = self.new()
        self.names.append((new, type_, self.loops))
        return f"let mut {new} = {name}.{field_};"

    def early(self, result: str | None) -> str:
        if result is None or self.random.random() < 0.4:
            return ""
        before = list(self.names)
        value = "" if result == "void" else self.value(result, 1)
        self.names = before
        return f"if cond() {{ return {value}; }}" if value else "if cond() { return; }"

    def leave(self, _: str | None) -> str:
        if not self.loops:
            return ""
        return f"if cond() {{ {self.random.choice(['break', 'continue'])}; }}"


def random_program(seed: int) -> str:
    """A program with some functions that call earlier ones, and a `main` that calls them."""
    random = Random(seed)
    known = [Function("same_A", ["A"], "A"), Function("same_P", ["P"], "P"), Function("x_of", ["P"], "A")]
    parts = [HEAD]
    for number in range(random.randrange(3, 8)):
        params = [random.choice([*OWNED, "&A", "&P"]) for _ in range(random.randrange(3))]
        result = random.choice([*OWNED, None])
        parts.append(_function(random, known, f"f{number}", params, result))
        known.append(Function(f"f{number}", params, result))
    parts.append(_function(random, known, "start", [], None))
    parts.append("fn main() -> i32 { start(); 0 }")
    return "\n".join(parts)


def _function(random: Random, known: list[Function], name: str, params: list[str], result: str | None) -> str:
    itself = [Function(name, params, result)] if random.random() < 0.1 else []
    writer = Writer(random, [*known, *itself], result=result)
    declared = []
    for number, param in enumerate(params):
        declared.append(f"p{number} : {param}")
        if not param.startswith("&"):
            writer.names.append((f"p{number}", param, 0))
    lines = writer.statements(random.randrange(2, 9), result or "void")
    value = "" if result is None else writer.value(result)
    body = "\n  ".join(line for line in lines if line)
    return f"fn {name}({', '.join(declared)}) -> {result or 'void'} {{\n  {body}\n  {value}\n}}"

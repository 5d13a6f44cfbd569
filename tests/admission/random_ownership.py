"""Random programs that place, move, return and drop tiles: texts that the checker accepts."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

TYPES = {
    "A": "Tensor<u8, [1000], Topology::Device[0]>",
    "B": "Tensor<f32, [77], Topology::Device[1]>",
    "C": "Tensor<i4, [333], Topology::Device[0]>",
}
HEAD = (
    "\n".join(f"type {name} = {type_};" for name, type_ in TYPES.items())
    + """
struct P { x : A, n : i32, y : B }
struct Q { p : P, z : C }
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
"""
)
OWNED = ("A", "B", "C", "P", "Q")
FIELDS = {"P": (("x", "A"), ("y", "B")), "Q": (("p", "P"), ("z", "C"))}


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
            ways += [self.moved, self.called, self.called, self.branching, self.block_value]
        return self.random.choice(ways)(type_, depth)

    def fresh(self, type_: str, depth: int) -> str:
        if type_ == "P":
            return f"P {{ x: {self.value('A', depth - 1 if depth else 0)}, n: 1, y: {self.value('B', 0)} }}"
        if type_ == "Q":
            return f"Q {{ p: {self.value('P', depth - 1 if depth else 0)}, z: {self.value('C', 0)} }}"
        seen = [name for name, kind, _ in self.names if kind == "A"] if type_ == "A" else []
        if seen and self.random.random() < 0.2:
            return f"spawn on(Topology::Device[0]) {{ {self.random.choice(seen)}.copy() }}"
        if type_ in ("A", "B") and self.random.random() < 0.3:
            return f"transfer(host_{type_}(), Topology::Device[{'AB'.index(type_)}])"
        return f"{type_}::{self.random.choice(['new()', 'uninit()'])}"

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
        ways += [self.land, self.assign, self.early, self.leave, self.field_out]
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
        return f"see_{type_}(&{name});"

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
    known: list[Function] = []
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
    writer = Writer(random, list(known))
    declared = []
    for number, param in enumerate(params):
        declared.append(f"p{number} : {param}")
        if not param.startswith("&"):
            writer.names.append((f"p{number}", param, 0))
    lines = writer.statements(random.randrange(2, 9), result or "void")
    value = "" if result is None else writer.value(result)
    body = "\n  ".join(line for line in lines if line)
    return f"fn {name}({', '.join(declared)}) -> {result or 'void'} {{\n  {body}\n  {value}\n}}"

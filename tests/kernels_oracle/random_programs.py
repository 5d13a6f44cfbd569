"""Random Vx programs, each beside the same program in Python: what the one prints, the other must compute.

Enters: a seed. Leaves: a `Case` with two texts that a single walk wrote side by side, statement by statement. Numbers
are small whole numbers in every element type, so that results are exact and do not depend on the order of a sum: the
comparison needs no tolerance, and a wrong bit is a wrong program.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from math import prod

from random_loops import Loops
from random_prelude import PY_PRELUDE, prelude, shown
from random_text import (
    LIMIT,
    MOST_STEPS,
    SMALL,
    Case,
    Function,
    Num,
    Scalar,
    Scope,
    Tensor,
    py_lines,
    vx_lines,
)


class Maker(Loops):
    """Writes one case."""

    def make(self) -> Case:
        others = self.rng.sample(["f64", "f16", "bf16", "bool", "i32", "i64", "i8", "u8", "i16", "u32"], 2)
        self.elems = ["f32", *others]
        self.sizes = self.rng.sample([1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 20], 3)
        if self.kind == "mixed" and self.chance(25):
            self.sizes = self.rng.sample([3, 7, 16, 31, 33, 64, 67, 100, 129, 257], 3)
            self.most = 8000
        made = [self.tensor(elem) for elem in ["f32", "f32", *others, "f32"]]
        if self.kind == "mixed" and self.chance(40):
            made += self.struct(others)
        made.append(self.table(self.rng.choice(self.sizes), self.rng.choice(self.sizes)))
        self.scope.tensors += made
        for number, size in enumerate(self.sizes):
            self.scope.scalars.append(Scalar(f"n{number}", "i32", False, size))
        kept = [self.host_scalar() for _ in range(0 if self.kind == "views" else self.rng.randint(0, 2))]
        for _ in range(self.rng.randint(1, 3)):
            self.part()
        for t in made:
            self.line(f"dump_{t.elem}(&{t.name}.reshape([{prod(t.dims)}]));", f"out.append({t.name})")
        for s in kept:
            self.show(s.name, s.elem)
        return self.case()

    def case(self) -> Case:
        """What is written so far, as functions."""
        params = ", ".join(f"n{k} : i32" for k in range(3))
        vx, py = [*self.structs], []
        for f in self.functions:
            vx += [f.vx, *vx_lines(f.lines, 1), "}"]
            py += [f.py, "  pass", *py_lines(f.lines, 1)]
        vx += [f"fn {self.name}({params}) -> void {{", *vx_lines(self.lines, 1), "}"]
        sizes = ", ".join(map(str, self.sizes))
        py += [f"def {self.name}():", f"  n0, n1, n2 = {sizes}", "  out = []", *py_lines(self.lines, 1), "  return out"]
        starts = [line.py for line in takewhile(lambda line: line.body is None, self.lines) if line.py]
        starts.append(f"n0, n1, n2 = {sizes}")
        return Case(self.name, "\n".join(vx), "\n".join(py), f"{self.name}({sizes});", tuple(starts))

    def show(self, name: str, elem: str) -> None:
        """Print a scalar."""
        self.line(f'print({shown(name, elem)});  print("\\n");', f"out.append(np.array([{name}]))")

    def part(self) -> None:
        """A region, or statements of the host."""
        kind = {"plain": 0, "views": 14}.get(self.kind, self.rng.randrange(20))
        if kind < 11:
            with self.block("spawn on(Topology::CPU)", "if True"):
                self.statements(self.rng.randint(2, 6))
        elif kind < 14:
            self.value_part()
        elif kind < 18:
            self.function_part()
        else:
            with self.block("if n0 >= 0", "if True"):
                self.statements(self.rng.randint(1, 3))

    def value_part(self) -> None:
        """A region with a value."""
        elem, name = self.rng.choice(self.elems), self.new("s")
        with self.block(f"let {name} = spawn on(Topology::CPU)", "if True"):
            self.statements(self.rng.randint(1, 3))
            value = self.number(elem)
            value = self.small(value) if elem in LIMIT else value
            self.line(value.vx, f"{name} = {value.py}")
        self.lines[-1].end = "};"
        self.show(name, elem)

    def function_part(self) -> None:
        """A region in a function that takes views."""
        taken, params, args = [], [], []
        for t in self.scope.tensors:
            if self.chance(70):
                for made, param, arg in self.halves(t) or [self.passed(t)]:
                    taken.append(made)
                    params.append(param)
                    args.append(arg)
        if not any(t.elem in LIMIT for t in taken):
            return
        name = self.new(f"part_{self.name}_")
        outer, self.scope = self.scope, Scope(list(taken), [s for s in self.scope.scalars if s.name[0] == "n"])
        around, self.lines = self.lines, []
        self.unknown = any("?" in param for param in params)
        if self.kind == "views" or self.chance(80):
            with self.block("spawn on(Topology::CPU)", "if True"):
                self.statements(self.rng.randint(2, 5))
        else:
            self.statements(self.rng.randint(1, 3))
        vx = f"fn {name}({', '.join([*params, 'n0 : i32, n1 : i32, n2 : i32'])}) -> void {{"
        py = f"def {name}({', '.join([*(t.name for t in taken), 'n0, n1, n2'])}):"
        self.functions.append(Function(vx, py, self.lines))
        self.lines, self.scope, self.unknown = around, outer, False
        given = [", ".join([*texts, "n0, n1, n2"]) for texts in zip(*((a.vx, a.py) for a in args), strict=True)]
        self.line(f"{name}({given[0]});", f"{name}({given[1]})")

    def halves(self, t: Tensor) -> list[tuple[Tensor, str, Num]]:
        """Two windows of one tensor that do not overlap, as two parameters."""
        axes = [a for a, d in enumerate(t.dims) if d > 1]
        if t.span or not axes or self.chance(80):
            return []
        axis = self.rng.choice(axes)
        middle = self.rng.randint(1, t.dims[axis] - 1)
        ranges = [[(0, d) for d in t.dims] for _ in range(2)]
        ranges[0][axis], ranges[1][axis] = (0, middle), (middle, t.dims[axis])
        return [self.window(t, windows, False) for windows in ranges]

    def passed(self, t: Tensor) -> tuple[Tensor, str, Num]:
        """A tensor, or a window of it, as a parameter of a function: in there, its declaration, the argument."""
        ranges = [(0, d) for d in t.dims]
        if not t.span and self.chance(40):
            extents = [self.rng.randint(max(1, d - 3), d) for d in t.dims]
            lows = [self.rng.randint(0, d - extent) for d, extent in zip(t.dims, extents, strict=True)]
            ranges = [(low, low + extent) for low, extent in zip(lows, extents, strict=True)]
        return self.window(t, ranges, not t.span and len(t.dims) > 1 and self.chance(30))

    def window(self, t: Tensor, ranges: Sequence[tuple[int, int]], turned: bool) -> tuple[Tensor, str, Num]:
        """What `passed` gives, for the window that these ranges cut out; `turned`: transposed, or without one axis."""
        vx, py = ([f"{low}{to}{high}" for low, high in ranges] for to in ("..", ":"))
        dims = [high - low for low, high in ranges]
        transposed = turned and len(dims) == 2 and self.chance(60)
        if turned and not transposed:
            axis = self.rng.randrange(len(dims))
            vx[axis] = py[axis] = str(self.rng.randint(ranges[axis][0], ranges[axis][1] - 1))
            del dims[axis]
        taking, name = "&mut " if t.writable else "&", self.new("v")
        whole = not turned and all(part == (0, d) for part, d in zip(ranges, t.dims, strict=True))
        arg = Num(taking + t.name, t.name)
        if not whole:
            arg = Num(f"{arg.vx}[{', '.join(vx)}]", f"{arg.py}[{', '.join(py)}]")
        if transposed:
            dims.reverse()
            arg = Num(f"{arg.vx}.t()", f"{arg.py}.T")
        shape = ", ".join("?" if self.chance(30) else str(d) for d in dims)
        made = Tensor(name, t.elem, tuple(dims), t.writable, t.span, not whole or t.gaps)
        return made, f"{name} : {taking}Tensor<{t.elem}, [{shape}]>", arg

    def host_scalar(self) -> Scalar:
        elem, name = self.rng.choice(self.elems), self.new("h")
        value = self.literal(elem) if elem != "bool" else Num("true", "True")
        self.line(f"let mut {name} : {elem} = {value.vx};", f"{name} = {value.py}")
        self.scope.scalars.append(Scalar(name, elem, True, SMALL))
        return self.scope.scalars[-1]

    def struct(self, elems: Sequence[str]) -> list[Tensor]:
        """A struct of two tensors."""
        kind, name = self.new(f"Pair_{self.name}_"), self.new("q")
        parts = [
            Tensor(f"{name}.{f}", self.rng.choice(("f32", e)), self.shape()) for f, e in zip("uv", elems, strict=True)
        ]
        fields = [f"{t.name[-1]} : Tensor<{t.elem}, [{', '.join(map(str, t.dims))}]>" for t in parts]
        made = [f"{t.name[-1]}: Tensor<{t.elem}, [{', '.join(map(str, t.dims))}]>::new()" for t in parts]
        self.structs.append(f"struct {kind} {{ {', '.join(fields)} }}")
        self.line(f"let mut {name} = {kind} {{ {', '.join(made)} }};", f"{name} = Pair()")
        for t in parts:
            salt = self.rng.randrange(100)
            call = f"start_{t.elem}(&mut {t.name}.reshape([{prod(t.dims)}]), {salt});"
            self.line(call, f"{t.name} = start('{t.elem}', {t.dims!r}, {salt})")
        return parts

    def shape(self) -> tuple[int, ...]:
        rank = self.rng.choice((1, 1, 2, 2, 2, 3, 4))
        dims = tuple(self.rng.choice(self.sizes) for _ in range(rank))
        while prod(dims) > (2500 if self.most > MOST_STEPS else 400):
            dims = dims[1:]
        return dims

    def tensor(self, elem: str) -> Tensor:
        dims = self.shape()
        name = self.new("a")
        salt = self.rng.randrange(100)
        shape = ", ".join(map(str, dims))
        self.line(
            f"let mut {name} = Tensor<{elem}, [{shape}]>::uninit();", f"{name} = start('{elem}', {dims!r}, {salt})"
        )
        self.line(f"start_{elem}(&mut {name}.reshape([{prod(dims)}]), {salt});", "")
        return Tensor(name, elem, dims)

    def table(self, length: int, span: int) -> Tensor:
        name, salt = self.new("p"), self.rng.randrange(100)
        self.line(
            f"let mut {name} = Tensor<i32, [{length}]>::uninit();",
            f"{name} = np.array([(k * 7 + {salt}) % {span} for k in range({length})])",
        )
        self.line(f"for k in 0..{length} {{ {name}[k] = (k * 7 + {salt}) % {span}; }}", "")
        return Tensor(name, "i32", (length,), False, span)


def program(cases: Sequence[Case]) -> str:
    """One Vx program that runs all cases."""
    calls = "\n".join(f"  {case.call}" for case in cases)
    return prelude() + "\n".join(case.vx for case in cases) + f"\nfn main() -> i32 {{\n{calls}\n  0\n}}\n"


def make(seed: int, kind: str = "mixed") -> Case:
    """The case of a seed; a "plain" one computes only in regions of its own function, one of "views" only in regions
    of functions that take views."""
    return Maker(seed, f"case{seed}", kind).make()


def expected(case: Case) -> list[list[float]]:
    """The rows of numbers that the case prints, by running its Python side."""
    space: dict[str, object] = {}
    exec(PY_PRELUDE + case.py, space)
    arrays = space[case.name]()  # type: ignore[operator]
    return [[float(x) for x in a.reshape(-1)] for a in arrays]

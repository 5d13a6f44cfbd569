"""Expressions of kernels → Triton text.

Enters: an expression and what its variables are in the text so far. Leaves: a `Val`. What has to be a statement
(loads, reductions) is written as one first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

from vx.codegen.triton_places import Hazards, Memory, Tile, entry_text
from vx.codegen.triton_values import (
    HALVES,
    AxisId,
    Mask,
    Text,
    Unsupported,
    Val,
    atom,
    integer_limits,
    is_float,
    number,
    spread,
    type_name,
    union,
    variable_of,
)
from vx.kernels import affine, device, ir
from vx.kernels.device_facts import DIVISION, divides
from vx.sema.tree import SIGNED, UNSIGNED

_FUNCTIONS: Mapping[str, str] = MappingProxyType(
    {
        "exp": "tl.exp",
        "exp2": "tl.exp2",
        "ln": "tl.log",
        "log2": "tl.log2",
        "sin": "tl.sin",
        "cos": "tl.cos",
        "erf": "tl.erf",
        "abs": "tl.abs",
        "floor": "tl.floor",
        "ceil": "tl.ceil",
        "min": "tl.minimum",
        "max": "tl.maximum",
        "mul_add": "tl.fma",
    }
    | {name: f"libdevice.{name}" for name in ("log10", "tan", "tanh", "round", "trunc", "pow", "atan2")}
)
"""Functions of f32 and f64."""


class Expressions:
    """Writes expressions into `text`."""

    def __init__(self, region: device.Region, kernel: device.Kernel, text: Text, dependent: bool) -> None:
        self.region = region
        self.kernel = kernel
        self.text = text
        self.dependent = dependent
        self.constant_buffers = {b.id for b in region.buffers if b.kind == "param" and not b.written}
        self.entries: dict[ir.VarId, int] = {}
        """Scalars of the parameter block that are read where they are first needed."""
        self.env: dict[ir.VarId, Val] = {}
        self.later: dict[ir.VarId, ir.Let] = {}
        """Scalars that are defined where they are first needed."""
        self.sizes: dict[AxisId, int] = {}
        self.places: dict[ir.BufferId, Tile | Memory] = {}
        self.full: dict[ir.VarId, int] = {}
        """Loop variables that index a tile in registers, and its length."""
        self.products = False
        """Whether this part's tiles are those of a matrix product, which reads them more than once."""
        self.in_registers: dict[ir.BufferId, int] = {}
        """Private buffers that are tiles in registers, and their padded lengths."""
        self.lane_axes: set[AxisId] = set()
        """The axes of loops around the current statement."""
        self.masks: list[Mask] = []
        self.stores = 0
        """Stores and barriers so far: what was loaded from a buffer that the kernel changes is not loaded anew only
        as long as there are no more."""
        self.known_loads: dict[tuple[str, int, int], Val] = {}
        self.hazards = Hazards()
        self.written: set[ir.BufferId] = set()
        self.mutable: set[ir.VarId] = set()
        self.changing: set[str] = set()
        """Names that are assigned more than once."""

    # ---- axes and names ------------------------------------------------------------------------
    def axis(self, size: int) -> AxisId:
        """A new innermost axis."""
        number_ = len(self.sizes)
        self.sizes[number_] = size
        return number_

    def shape(self, axes: Sequence[AxisId]) -> str:
        return "[" + ", ".join(str(self.sizes[a]) for a in axes) + "]"

    def bind(self, name: str, v: Val) -> Val:
        """The value under a name, so that it is computed once."""
        v = self.typed(v)
        if v.text.isidentifier() and v.text not in self.changing:
            return v
        found = self.text.fresh(name)
        self.text.line(f"{found} = {v.text}")
        return Val(found, v.type, v.axes)

    def typed(self, v: Val) -> Val:
        """The value as a tensor of its type, also if it is a bare number."""
        if not v.constant:
            return v
        return Val(f"tl.full([], {v.text}, {type_name(v.type)})", v.type)

    def broadcast(self, v: Val, axes: Sequence[AxisId]) -> Val:
        """The value with an element for each lane of `axes`."""
        axes = tuple(axes)
        if v.axes == axes and not v.constant:
            return v
        if v.constant:
            return Val(f"tl.full({self.shape(axes)}, {v.text}, {type_name(v.type)})", v.type, axes)
        return Val(f"tl.broadcast_to({spread(v, axes)}, {self.shape(axes)})", v.type, axes)

    # ---- masks ---------------------------------------------------------------------------------
    def both(self, masks: Sequence[Val]) -> Val | None:
        """All of these conditions."""
        if not masks:
            return None
        axes = union(*masks)
        return Val(" & ".join(atom(spread(m, axes)) for m in masks), "bool", axes)

    def mask_for(self, axes: Sequence[AxisId]) -> Val | None:
        """Which lanes along `axes` may touch memory: those for which some lane along the other axes takes part, by all
        conditions at once: a lane that is out may not lend its bounds to others."""
        inside = [mask.value for mask in self.masks if set(mask.value.axes) <= set(axes)]
        outside = [mask for mask in self.masks if not set(mask.value.axes) <= set(axes)]
        together = self.both([mask.value for mask in outside])
        if together is None or all(mask.sure for mask in outside):
            return self.both(inside)
        extra = [a for a in together.axes if a not in axes]
        return self.both([*inside, self.any_along(together, extra)])

    def any_along(self, v: Val, axes: Sequence[AxisId]) -> Val:
        """Whether it holds for some lane along `axes`."""
        v = Val(f"{atom(v.text)}.to(tl.int32)", "i32", v.axes)
        for a in sorted(axes, reverse=True):
            position = v.axes.index(a)
            v = Val(f"tl.max({v.text}, axis={position})", "i32", tuple(x for x in v.axes if x != a))
        return self.bind("some", Val(f"{v.text} != 0", "bool", v.axes))

    def active(self) -> Val | None:
        """Which lanes take part, along all axes that decide it."""
        return self.both([m.value for m in self.masks])

    # ---- memory --------------------------------------------------------------------------------
    def pointer(self, place: Memory, offset: ir.Affine) -> Val:
        index = self.index(offset)
        if place.lane is not None:
            index = self.plus(self.times(index, place.stride), place.lane)
        if index.text == "0":
            return Val(place.pointer, "ptr")
        return Val(f"{place.pointer} + {index.text}", "ptr", index.axes)

    def load(self, expr: ir.Load) -> Val:
        place = self.places[expr.buffer]
        if isinstance(place, Tile):
            return self._tile(place, expr.offset)
        if expr.buffer not in self.constant_buffers:
            self.wait()
        found = self._load_text(place, expr)
        key = self._load_key(expr, found.text)
        if key not in self.known_loads:
            self.known_loads[key] = self.bind(self.load_name(expr.buffer), found)
        return self.known_loads[key]

    def _load_text(self, place: Memory, expr: ir.Load) -> Val:
        where = self.pointer(place, expr.offset)
        mask = self.mask_for(where.axes)
        self.before_load(expr.buffer, expr.offset)
        extra = ""
        if mask is not None:
            extra = f", mask={spread(mask, where.axes)}, other=0"
        found = f"tl.load({where.text}{extra}{self._eviction(expr.buffer, where)})"
        return Val(found + (" != 0" if expr.type == "bool" else ""), expr.type, where.axes)

    def _load_key(self, expr: ir.Load, text: str) -> tuple[str, int, int]:
        return text, self.text.scope, self.stores if expr.buffer in self.written else 0

    @contextmanager
    def kept(self) -> Iterator[None]:
        """What is loaded inside, in this block, is known after the loop that is written inside as well."""
        scope, before = self.text.scope, set(self.known_loads)
        yield
        for key in self.known_loads.keys() - before:
            if key[1] == scope:
                self.known_loads[(key[0], self.text.scope, key[2])] = self.known_loads[key]

    def arrived(self, expr: ir.Load, v: Val) -> None:
        """A load need not be written here: `v` is its value."""
        place = self.places[expr.buffer]
        assert isinstance(place, Memory)
        self.known_loads[self._load_key(expr, self._load_text(place, expr).text)] = v

    def _eviction(self, buffer: ir.BufferId, where: Val) -> str:
        """A matrix that nobody changes is read once: it should not displace what is read again."""
        streamed = len(where.axes) > 1 and not next(b.written for b in self.region.buffers if b.id == buffer)
        return ', eviction_policy="evict_first"' if streamed and not self.products else ""

    def load_name(self, buffer: ir.BufferId) -> str:
        name = next(b.name for b in self.region.buffers if b.id == buffer)
        return name.rsplit(".", 1)[-1] + "_at"

    def _tile(self, place: Tile, offset: ir.Affine) -> Val:
        var = variable_of(offset)
        assert var is not None
        own = self.env[var.id].axes
        return Val(place.name, place.elem, (*place.axes, *own))

    def before_load(self, buffer: ir.BufferId, offset: ir.Affine) -> None:
        if buffer not in self.written:
            return
        if not self.apart(self.hazards.stored.get(buffer, ()), offset):
            self.barrier()
        before = self.hazards.loaded.get(buffer, ())
        self.hazards.loaded[buffer] = before if offset in before else (*before, offset)

    def apart(self, offsets: Sequence[ir.Affine], offset: ir.Affine) -> bool:
        """Whether an iteration touches different elements at `offset` and at the others. Iterations of parallel
        loops never meet, so only one and the same iteration is looked at."""
        for other in offsets:
            gap = affine.sub(other, offset)
            fixed = not affine.variables(offset) & self.mutable and not any(affine.loads(offset))
            if gap.terms or not gap.const or not fixed:
                return False
        return True

    def wait(self) -> None:
        """In front of what the launch before may have written, or may still read: it has ended from here on. Then the
        next launch may begin, up to the point where it waits itself."""
        if self.dependent and not self.text.waited:
            self.text.line("gdc_wait()")
            self.text.line("gdc_launch_dependents()")
            self.text.waited = True

    def barrier(self) -> None:
        """All warps of the program meet, and see each other's stores."""
        self.text.line("tl.debug_barrier()")
        self.stores += 1
        self.hazards = Hazards()

    # ---- indices -------------------------------------------------------------------------------
    def index(self, expr: ir.Affine) -> Val:
        """A sum of scaled values, those that vary along fewer axes first."""
        parts: dict[tuple[AxisId, ...], list[str]] = {}
        const = expr.const
        for c, e in expr.terms:
            v = self.value(e)
            if v.constant:
                const += c * int(v.text)
                continue
            parts.setdefault(v.axes, []).append(v.text if c == 1 else f"{c} * {atom(v.text)}")
        if not parts:
            return Val(str(const), "i64", constant=True)
        if const:
            parts.setdefault(min(parts, key=len), []).append(str(const))
        axes = tuple(sorted({a for key in parts for a in key}))
        groups = [Val(" + ".join(parts[key]), "i64", key) for key in sorted(parts, key=lambda k: (len(k), k))]
        return Val(" + ".join(spread(g, axes) for g in groups), "i64", axes)

    def plus(self, a: Val, b: Val) -> Val:
        axes = union(a, b)
        return Val(f"{spread(a, axes)} + {spread(b, axes)}", "i64", axes)

    def times(self, a: Val, factor: int) -> Val:
        return a if factor == 1 else Val(f"{factor} * {atom(a.text)}", "i64", a.axes)

    # ---- expressions ---------------------------------------------------------------------------
    def value(self, expr: ir.Expr) -> Val:
        """The value of an expression."""
        match expr:
            case ir.Lit(value=value, type=type_):
                type_name(type_)
                return Val(number(value, type_), type_, constant=True)
            case ir.Var(id=v):
                return self.env[v] if v in self.env else self.at_last(v)
            case ir.Affine():
                return self.index(expr)
            case ir.Load():
                return self.load(expr)
            case ir.Reduce():
                return self.reduced(expr)
            case _:
                return self._computed(expr)

    def _computed(self, expr: ir.Expr) -> Val:
        match expr:
            case ir.Unary(op=op, operand=operand):
                return self._unary(op, self.value(operand))
            case ir.Binary():
                return self._binary(expr)
            case ir.Cast(operand=operand, type=to):
                return self.cast(self.value(operand), to)
            case ir.Call(name=name, args=args, type=to):
                return self._call(name, [self.typed(self.value(a)) for a in args], to)
            case ir.Select():
                return self._select(expr)
        raise TypeError(f"not an expression: {expr!r}")

    def reduced(self, expr: ir.Reduce) -> Val:
        raise NotImplementedError

    def at_last(self, v: ir.VarId) -> Val:
        """The definition of a scalar that waited for its first use. It is the same for all lanes, so none is masked."""
        masks, self.masks = self.masks, []
        found = self.entry(v) if v in self.entries else self.defined(self.later[v])
        self.masks = masks
        return found

    def entry(self, v: ir.VarId) -> Val:
        """A scalar of the parameter block, which an earlier launch may write if it has a slot."""
        number_ = self.entries[v]
        var = self.region.block[number_].var
        if self.region.block[number_].slot is not None:
            self.wait()
        self.env[v] = self.bind(var.name, Val(entry_text(number_, var.type), var.type))
        return self.env[v]

    def defined(self, let: ir.Let) -> Val:
        """Writes the definition of a scalar that does not change."""
        v = self.value(let.value)
        self.env[let.var.id] = v if v.constant else self.bind(let.var.name, v)
        return self.env[let.var.id]

    def _unary(self, op: str, v: Val) -> Val:
        v = self.typed(v)
        if op == "!":
            return Val(f"~{atom(v.text)}", v.type, v.axes)
        return Val(f"{atom(v.text)} * -1.0" if is_float(v.type) else f"-{atom(v.text)}", v.type, v.axes)

    # ---- operators -----------------------------------------------------------------------------
    def _binary(self, expr: ir.Binary) -> Val:
        left = self.value(expr.left)
        if expr.op in ("&&", "||") and may_fault(expr.right):
            left = self.bind("left", left)
            needed = left if expr.op == "&&" else self._unary("!", left)
            right = self._where(needed, expr.right)
        else:
            right = self.value(expr.right)
        if divides(expr):
            return self._checked_division(expr.op, left, right)
        return self.operator(expr.op, left, right, expr.type)

    def _where(self, cond: Val, expr: ir.Expr) -> Val:
        """The value in the lanes where `cond` holds; elsewhere no memory is touched, and it is arbitrary."""
        self.masks.append(Mask(self.bind("cond", cond), False))
        found = self.value(expr)
        self.masks.pop()
        return found

    def operator(self, op: str, a: Val, b: Val, to: str) -> Val:
        """An operator on two values of one type; the result has type `to`."""
        axes = union(a, b)
        if a.constant and b.constant:
            a = self.typed(a)
        if a.type == "f64" or op in ("<<", ">>"):
            a, b = self.typed(a), self.typed(b)
        if a.type in HALVES and op in "+-*/%":
            return self.cast(self._arithmetic(op, self.cast(a, "f32"), self.cast(b, "f32"), "f32"), to)
        if op in ("<<", ">>"):
            bits = SIGNED.get(a.type) or UNSIGNED[a.type]
            b = Val(f"({spread(b, axes)} & {bits - 1})", b.type, axes)
        return self._arithmetic(op, a, b, to)

    def _arithmetic(self, op: str, a: Val, b: Val, to: str) -> Val:
        axes = union(a, b)
        x, y = spread(a, axes), spread(b, axes)
        if a.type == "f32" and op == "/":
            a, b = self.typed(a), self.typed(b)
            return Val(f"tl.div_rn({spread(a, axes)}, {spread(b, axes)})", to, axes)
        sign = {"&&": "&", "||": "|", "/": "/" if is_float(a.type) else "//"}.get(op, op)
        return Val(f"{atom(x)} {sign} {atom(y)}", to, axes)

    def _checked_division(self, op: str, left: Val, right: Val) -> Val:
        """An integer division, after reporting a divisor of zero in a lane that takes part."""
        left, right = self.typed(left), self.bind("divisor", right)
        self.check(Val(f"{right.text} != 0", "bool", right.axes), DIVISION)
        safe = self.bind("divisor", Val(f"tl.where({right.text} == 0, 1, {right.text})", right.type, right.axes))
        if right.type in UNSIGNED:
            return self.operator(op, left, safe, left.type)
        # The least integer divided by -1 wraps.
        axes = union(left, right)
        one = self.bind("divisor", Val(f"tl.where({safe.text} == -1, 1, {safe.text})", right.type, right.axes))
        plain = self.operator(op, left, one, left.type)
        wrapped = f"-{atom(spread(left, axes))}" if op == "/" else "0"
        return Val(f"tl.where({spread(safe, axes)} == -1, {wrapped}, {plain.text})", left.type, axes)

    def check(self, cond: Val, message: str) -> None:
        """Reports `message` unless the condition holds in all lanes that take part."""
        taking = self.active()
        failed = Val(f"~{atom(cond.text)}", "bool", cond.axes)
        found = failed if taking is None else self.both([taking, failed])
        assert found is not None
        bad = self.any_along(found, found.axes) if found.axes else self.bind("bad", found)
        self.wait()
        self.text.line(f"tl.store(error, {self.region.messages.index(message) + 1}, mask={bad.text})")

    def _select(self, expr: ir.Select) -> Val:
        cond = self.bind("cond", self.value(expr.cond))
        then = self._where(cond, expr.then) if may_fault(expr.then) else self.value(expr.then)
        orelse = self._where(self._unary("!", cond), expr.orelse) if may_fault(expr.orelse) else self.value(expr.orelse)
        return self.select(cond, then, orelse)

    def select(self, cond: Val, then: Val, orelse: Val) -> Val:
        axes = union(cond, then, orelse)
        a, b = self.typed(then), self.typed(orelse)
        return Val(f"tl.where({spread(cond, axes)}, {spread(a, axes)}, {spread(b, axes)})", then.type, axes)

    # ---- conversions and functions -------------------------------------------------------------
    def cast(self, v: Val, to: str) -> Val:
        """`v as to`: floats truncate and saturate to integers, NaN is 0; integers wrap."""
        if v.type == to:
            return v
        if v.constant and is_float(to) and not is_float(v.type):
            return Val(f"{v.text}.0", to, constant=True)
        v = self.typed(v)
        if to == "bool":
            return Val(f"{atom(v.text)} != 0", to, v.axes)
        if is_float(v.type) and not is_float(to):
            return self._truncated(v, to)
        if to in HALVES and v.type not in ("f32", "f64"):
            v = Val(f"{atom(v.text)}.to(tl.float32)", "f32", v.axes)
        return Val(f"{atom(v.text)}.to({type_name(to)})", to, v.axes)

    def _truncated(self, v: Val, to: str) -> Val:
        if v.type in HALVES:
            v = self.cast(v, "f32")
        v = self.bind("real", v)
        low, high = integer_limits(to)
        inside = f"({v.text} > {float(low) - 1.0!r}) & ({v.text} < {float(high) + 1.0!r})"
        if float(low) - 1.0 == float(low):
            inside = inside.replace(">", ">=", 1)
        x = self.bind("whole", Val(f"tl.where({inside}, {v.text}, 0.0).to({type_name(to)})", to, v.axes))
        top = f"tl.full([], {high}, {type_name(to)})"
        bottom = f"tl.full([], {low}, {type_name(to)})"
        text = f"tl.where({v.text} >= {float(high) + 1.0!r}, {top}, tl.where({v.text} <= {float(low)!r}, {bottom}, {x.text}))"
        return Val(text, to, v.axes)

    def _call(self, name: str, args: list[Val], to: str) -> Val:
        elem = args[0].type
        if name == "is_nan":
            v = self.bind("x", args[0])
            return Val(f"{v.text} != {v.text}", "bool", v.axes)
        if elem in HALVES:
            return self.cast(self._call(name, [self.cast(a, "f32") for a in args], "f32"), to)
        axes = union(*args)
        if not is_float(elem):
            return self._integer_call(name, args, to)
        operands = ", ".join(spread(a, axes) for a in args)
        root = "tl.sqrt_rn" if elem == "f32" else "tl.sqrt"
        if name == "sqrt":
            return Val(f"{root}({operands})", to, axes)
        if name == "rsqrt":
            one = Val("1.0", elem, constant=True)
            return self._arithmetic("/", self.typed(one), Val(f"{root}({operands})", elem, axes), to)
        if name not in _FUNCTIONS:
            raise Unsupported(f"{name} of {elem} has no form in GPU kernels")
        if len(args) > 1 and name in ("pow", "atan2", "mul_add"):
            operands = ", ".join(self.broadcast(a, axes).text for a in args)
        return Val(f"{_FUNCTIONS[name]}({operands})", to, axes)

    def _integer_call(self, name: str, args: list[Val], to: str) -> Val:
        axes = union(*args)
        if name == "abs":
            return args[0] if to in UNSIGNED else Val(f"tl.abs({args[0].text})", to, axes)
        if name == "mul_add":
            return self.operator("+", self.operator("*", args[0], args[1], to), args[2], to)
        operands = ", ".join(spread(a, axes) for a in args)
        return Val(f"{_FUNCTIONS[name]}({operands})", to, axes)

    # ---- what an expression will vary along ----------------------------------------------------
    def axes_of(self, expr: ir.Expr) -> set[AxisId]:
        """The axes that an expression's value will vary along, its own reductions' aside."""
        match expr:
            case ir.Var(id=v):
                return set(self.env[v].axes) if v in self.env else set()
            case ir.Load(buffer=buffer, offset=offset):
                place = self.places[buffer]
                own = set(place.axes) if isinstance(place, Tile) else set()
                if isinstance(place, Memory) and place.lane is not None:
                    own = set(place.lane.axes)
                return own | self.axes_of(offset)
            case _:
                found: set[AxisId] = set()
                for child in affine.children(expr):
                    found |= self.axes_of(child)
                return found


def may_fault(expr: ir.Expr) -> bool:
    """Whether computing it where the program would not may touch memory that is not there, or divide by zero."""
    return any(isinstance(e, ir.Load | ir.Reduce) or divides(e) for e in affine.walk(expr))

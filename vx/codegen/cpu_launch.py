"""Regions and kernels → functions: what a launch hands over, how work is divided, and the entry point.

Enters: a region. Leaves: for each processor level a function of the region and one per kernel, and the
region's C function, which goes to the level of the processor it runs on. A kernel's function gets units
begin..end of its segments, one after the other; a unit of any segment costs about the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vx.codegen.cpu_cost import Costs
from vx.codegen.cpu_library import Facts, Library, facts
from vx.codegen.cpu_memory import Frame
from vx.codegen.cpu_nest import Nests
from vx.codegen.cpu_plan import CHUNK, Nest, plan
from vx.codegen.cpu_text import FunctionText
from vx.codegen.cpu_values import (
    HALVES,
    Features,
    Lanes,
    Linear,
    Place,
    Slot,
    Val,
    features,
    register,
    scalar_index,
    size,
)
from vx.codegen.llvm_text import MEMORY, symbol
from vx.codegen.target import CpuLevel
from vx.kernels import affine, effects, ir

_ALONE = 120_000
"""Element operations (about 3 microseconds) below which waking threads costs more than it gives."""
_LEAST_UNIT = 16_000
_MOST_UNITS = 64
"""Units are small enough to be divided evenly and large enough to be worth handing out."""
_PORTIONS = 8
"""Portions per thread that a launch is handed out in."""
_SLOT = 16
"""Bytes per value that a launch hands over."""


@dataclass(frozen=True, slots=True)
class _Inputs:
    """What a kernel reads from the region: scalars and buffers, in the order in which they are handed over."""

    scalars: tuple[ir.Var, ...]
    buffers: tuple[ir.BufferId, ...]

    @property
    def count(self) -> int:
        return len(self.scalars) + len(self.buffers)


def _loops(kernel: ir.Kernel) -> list[ir.Stmt]:
    """The segments as loops, for questions about what they use."""
    body: list[ir.Stmt] = []
    for segment in kernel.segments:
        stmts = segment.body
        for axis in reversed(segment.axes):
            stmts = (ir.For(axis.var, axis.low, axis.high, stmts, True, "", kernel.span),)
        body += stmts
    return body


def _inputs(kernel: ir.Kernel) -> _Inputs:
    body = _loops(kernel)
    variables = {v.id: v for v in _variables(body)}
    scalars = tuple(variables[i] for i in sorted(effects.free_variables(body)))
    private = effects.allocated(body)
    buffers = tuple(sorted((effects.loaded(body) | effects.stored(body)) - private))
    return _Inputs(scalars, buffers)


def _variables(body: Sequence[ir.Stmt]) -> list[ir.Var]:
    return [e for expr in effects.all_expressions(body) for e in affine.walk(expr) if isinstance(e, ir.Var)]


class _Functions(Nests):
    """One function of a region: the region itself or one of its kernels."""

    def launch(self, lanes: Lanes, stmt: ir.Launch) -> None:
        kernel = self.facts.region.kernels[stmt.kernel]
        inputs = _inputs(kernel)
        context = self.text.alloca(f"[{(inputs.count + 3 * len(kernel.segments)) * _SLOT} x i8]", 16)
        for number, scalar in enumerate(inputs.scalars):
            self._hand_over(context, number, self._stored_form(self.evaluate(lanes, scalar)))
        for number, buffer in enumerate(inputs.buffers, len(inputs.scalars)):
            self._hand_over(context, number, f"ptr {self.place(lanes, buffer).pointer}")
        total, cost = self._divide(lanes, kernel, context, inputs.count)
        self._start(f"@{_kernel_name(self.facts.region, stmt.kernel, self.have)}", context, total, cost)

    def _hand_over(self, context: str, slot: int, typed: str) -> None:
        where = self.text.op(f"getelementptr i8, ptr {context}, i64 {slot * _SLOT}")
        self.text.effect(f"store {typed}, ptr {where}, align {_SLOT}")

    def _stored_form(self, v: Val) -> str:
        if v.elem == "bool":
            return f"i8 {self.text.op(f'zext i1 {v.text} to i8')}"
        return v.typed

    def _divide(self, lanes: Lanes, kernel: ir.Kernel, context: str, first: int) -> tuple[str, str]:
        """Hands over, for each segment, its first unit, the unit after its last, and the cells of a unit;
        the number of units and the cost of everything."""
        counts, costs = [], []
        for segment in kernel.segments:
            nest = plan(segment.axes, segment.body, self.facts, lanes, self.have)
            cells = "1"
            for count in self.cell_counts(lanes, nest):
                cells = self.text.mul(cells, count)
            counts.append(cells)
            costs.append(self._cell_cost(lanes, nest))
        total = "0"
        for cells, cost in zip(counts, costs, strict=True):
            total = self.text.add(total, self.text.mul(cells, cost))
        unit = self.text.most(self.text.div(total, str(_MOST_UNITS)), str(_LEAST_UNIT))
        units = "0"
        for number, (cells, cost) in enumerate(zip(counts, costs, strict=True)):
            each = self.text.most(self.text.div(unit, cost), "1")
            own = self.text.div(self.text.add(cells, self.text.sub(each, "1")), each)
            after = self.text.add(units, own)
            for offset, value in enumerate((units, after, each)):
                self._hand_over(context, first + 3 * number + offset, f"i64 {value}")
            units = after
        return units, total

    def _cell_cost(self, lanes: Lanes, nest: Nest) -> str:
        inner = lanes.inner({})
        for axis in nest.axes:
            low, high = self._bounds(lanes, axis)
            middle = self.text.div(self.text.add(low, high), "2")
            inner.bindings[axis.var.id] = scalar_index(middle)
        once = Costs(self).of(inner, nest.body)
        cost = self.text.mul(once, str(nest.block))
        if nest.rows > 1:
            low, high = self._bounds(lanes, nest.axes[-2])
            rows = self.text.least(self.text.most(self.text.sub(high, low), "1"), str(CHUNK))
            cost = self.text.mul(cost, rows)
        return self.text.most(cost, "1")

    def _start(self, function: str, context: str, units: str, cost: str) -> None:
        threads = self.text.result("call i32 @vx_thread_count()")
        portions = self.text.op(f"mul i64 {self.text.op(f'sext i32 {threads} to i64')}, {_PORTIONS}")
        grain = self.text.most(self.text.op(f"sdiv i64 {units}, {portions}"), "1")
        alone = self.text.op(f"icmp eq i32 {threads}, 1")
        small = self.text.below(cost, str(_ALONE))
        here, shared, after = self.text.label(), self.text.label(), self.text.label()
        self.text.branch(self.text.op(f"or i1 {alone}, {small}"), here, shared)
        self.text.place(here)
        self.text.effect(f"call void {function}(ptr {context}, i64 0, i64 {units})")
        self.text.jump(after)
        self.text.place(shared)
        self.text.effect(f"call void @vx_parallel(ptr {function}, ptr {context}, i64 {units}, i64 {grain})")
        self.text.jump(after)
        self.text.place(after)
        self.text.wrote()

    # ---- a kernel's function -------------------------------------------------------------------
    def kernel(self, kernel: ir.Kernel) -> None:
        """Units %begin..%end of the segments."""
        inputs = _inputs(kernel)
        lanes = Lanes(1)
        for number, scalar in enumerate(inputs.scalars):
            lanes.bindings[scalar.id] = self._received(number, scalar.type)
        for number, buffer in enumerate(inputs.buffers, len(inputs.scalars)):
            lanes.places[buffer] = Place(self._slot_value(number, "ptr"))
        for number, segment in enumerate(kernel.segments):
            self._segment(lanes, segment, inputs.count + 3 * number)

    def _slot_value(self, slot: int, type_: str) -> str:
        where = self.text.op(f"getelementptr i8, ptr %context, i64 {slot * _SLOT}")
        return self.text.op(f"load {type_}, ptr {where}, align {_SLOT}")

    def _received(self, slot: int, elem: str) -> Linear | Val:
        if elem == "i64":
            return scalar_index(self._slot_value(slot, "i64"))
        if elem == "bool":
            return Val(self.text.op(f"icmp ne i8 {self._slot_value(slot, 'i8')}, 0"), "bool")
        return Val(self._slot_value(slot, register(elem)), elem)

    def _segment(self, lanes: Lanes, segment: ir.Segment, slot: int) -> None:
        first, after, each = (self._slot_value(slot + n, "i64") for n in range(3))
        begin = self.text.most("%begin", first)
        end = self.text.least("%end", after)

        def inside() -> None:
            inner = lanes.inner({})
            nest = plan(segment.axes, segment.body, self.facts, inner, self.have)
            cells = "1"
            for count in self.cell_counts(inner, nest):
                cells = self.text.mul(cells, count)
            low = self.text.mul(self.text.sub(begin, first), each)
            high = self.text.least(cells, self.text.mul(self.text.sub(end, first), each))
            self.cells(inner, nest, low, high)

        self.text.when(self.text.below(begin, end), inside)

    # ---- a region's function -------------------------------------------------------------------
    def region(self) -> None:
        """The region's own statements, with its parameters and scratch buffers."""
        region = self.facts.region
        lanes = Lanes(1)
        slots: list[tuple[str, Slot]] = []
        for number, param in enumerate(region.params):
            name = f"%a{number}"
            if isinstance(param, ir.TensorParam):
                lanes.places[param.buffer] = Place(name)
            elif param.out:
                slot = self.new_slot(param.var, 1)
                self.write_slot(slot, self._from_c(self.text.op(f"load {_c_type(param.var)}, ptr {name}"), param.var))
                lanes.bindings[param.var.id] = slot
                slots.append((name, slot))
            else:
                value = self._from_c(name, param.var)
                lanes.bindings[param.var.id] = scalar_index(value.text) if value.elem == "i64" else value
        for buffer in region.buffers:
            if buffer.kind == "scratch":
                bytes_ = (buffer.length or 0) * size(buffer.elem)
                lanes.places[buffer.id] = Place(self.frame.private(buffer.id, 0, bytes_))
        self.run([lanes], region.body)
        for name, slot in slots:
            self.text.effect(f"store {self._stored_form(self._read_slot(slot))}, ptr {name}")

    def _from_c(self, name: str, var: ir.Var) -> Val:
        if var.type == "bool":
            return Val(self.text.op(f"icmp ne i8 {name}, 0"), "bool")
        return Val(name, var.type)


# ---- names and signatures ------------------------------------------------------------------------
def _kernel_name(region: ir.Region, kernel: int, have: Features) -> str:
    return f'"{region.name}.{kernel}.{have.name}"'


def _c_type(var: ir.Var) -> str:
    """How a scalar is handed over: 16-bit floats as their bits, for which every processor has registers."""
    return "i16" if var.type in HALVES else MEMORY[var.type]


def _params(region: ir.Region) -> str:
    parts = []
    for number, param in enumerate(region.params):
        pointer = isinstance(param, ir.TensorParam) or param.out
        type_ = "ptr" if isinstance(param, ir.TensorParam) or pointer else _c_type(param.var)
        parts.append(f"{type_} %a{number}")
    return ", ".join(parts)


def _level_functions(known: Facts, have: Features, library: Library, linkage: str) -> list[str]:
    """The functions of a region for one processor level; the region's own is visible as `linkage` says."""
    texts = []
    for number, kernel in enumerate(known.region.kernels):
        name = _kernel_name(known.region, number, have)
        header = f"define internal void @{name}(ptr %context, i64 %begin, i64 %end) nounwind {have.attributes}"
        text = FunctionText(header)
        frame = Frame(text, thread=True)
        _Functions(text, have, known, library, frame).kernel(kernel)
        texts.append(text.finish(frame.begin()))
    name = _level_name(known.region, have.level)
    text = FunctionText(f"define {linkage} void {name}({_params(known.region)}) nounwind {have.attributes}")
    frame = Frame(text, thread=False)
    _Functions(text, have, known, library, frame).region()
    frame.end()
    texts.append(text.finish(frame.begin()))
    return texts


def emit_module(regions: Sequence[ir.Region], own: Sequence[CpuLevel], entry: Sequence[CpuLevel]) -> str:
    """A module with the functions of the levels `own` and, if `entry` names any, the regions' C functions,
    which choose among those. What one module has and another needs is visible between them."""
    library = Library()
    alone = set(entry) <= set(own)
    texts: list[str] = []
    for region in regions:
        known = facts(region, library)
        for level in own:
            texts += _level_functions(known, features(level), library, "internal" if alone and entry else "hidden")
        if entry:
            texts += [f"declare hidden void {_level_name(region, x)}({_params(region)})" for x in entry if x not in own]
            texts.append(_entry_point(region, entry))
    return "\n\n".join([*texts, library.definitions()]) + "\n"


def _level_name(region: ir.Region, level: CpuLevel) -> str:
    return symbol(f"{region.name}.{features(level).name}")


def _entry_point(region: ir.Region, levels: Sequence[CpuLevel]) -> str:
    """Goes to the highest level that the processor has; levels ascend."""
    arguments = _params(region)
    lines = [f"define void {symbol(region.name)}({arguments}) nounwind {{"]
    if len(levels) > 1:
        lines.append("  %level = call i32 @vx_cpu_level()")
    for number in range(len(levels) - 1, 0, -1):
        lines += [
            f"  %has{number} = icmp sge i32 %level, {levels[number].level}",
            f"  br i1 %has{number}, label %go{number}, label %not{number}",
            f"go{number}:",
            f"  call void {_level_name(region, levels[number])}({arguments})",
            "  ret void",
            f"not{number}:",
        ]
    lines += [f"  call void {_level_name(region, levels[0])}({arguments})", "  ret void", "}"]
    return "\n".join(lines)

"""Kernels → `@triton.jit` source.

Enters: a `device.Region` and one of its kernels. Leaves: a `Printed`: readable source of one module, the parameters
of its function in order, how many programs it wants, and the private memory they need. What a tile is, is decided by
`triton_tiles`; statements by `triton_body`, loops by `triton_reduce`, expressions by `triton_expr`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vx.codegen import triton_tiles as tiles
from vx.codegen.triton_body import Body
from vx.codegen.triton_places import Hazards, Memory
from vx.codegen.triton_private import register_tiles
from vx.codegen.triton_values import SIGNATURE, Mask, Text, Val, atom, type_name
from vx.kernels import affine, device, effects, ir
from vx.kernels.device_facts import element_bytes

_HEADER = "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n\n\n"
_DEPENDENT = "from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait"


@dataclass(frozen=True, slots=True)
class Parameter:
    """`kind`: "buffer" (`index` is a buffer id), "block" (the parameter block), "error" (the error word), "private"
    (private memory) or "scalar" (`index` counts `device.Kernel.arguments`). `type` is Triton's signature type."""

    kind: str
    name: str
    type: str
    index: int


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs of one part: the product over its axes of ceil(iterations / tile), or `fixed` of them, which take
    turns until all is done."""

    axes: tuple[tuple[device.Axis, int], ...]
    fixed: int | None


@dataclass(frozen=True, slots=True)
class Printed:
    """`private_bytes` for all programs together. `dependent`: see `print_kernel`. `anywhere`: buffers that may start at
    any element; the others start at a multiple of 16 bytes."""

    symbol: str
    source: str
    parameters: tuple[Parameter, ...]
    programs: tuple[Programs, ...]
    warps: int
    private_bytes: int
    dependent: bool
    anywhere: frozenset[int] = frozenset()

    def aligned(self, parameter: Parameter) -> bool:
        """Whether a parameter is an address that is a multiple of 16."""
        return parameter.type.startswith("*") and not (parameter.kind == "buffer" and parameter.index in self.anywhere)


def print_kernel(region: device.Region, kernel: device.Kernel, dependent: bool = False) -> Printed:
    """The source of one kernel. `dependent`: it may be launched before the launch in front of it has ended (sm_90 and
    later), and waits for that where it first needs to. Raises `Unsupported` for what GPUs have no form of."""
    return _Printer(region, kernel, dependent).printed()


class _Printer(Body):
    def __init__(self, region: device.Region, kernel: device.Kernel, dependent: bool) -> None:
        super().__init__(region, kernel, Text(), dependent)
        self.ready = {}
        self.buffers = {b.id: b for b in region.buffers}
        self.private_bytes = 0
        self.private_name = ""
        self.part_programs = 0
        self.tiles = [tiles.choose(part) for part in kernel.parts]
        everything = [*kernel.prelude, *(s for part in kernel.parts for s in part.body)]
        self.written = effects.stored(everything)

    # ---- the function --------------------------------------------------------------------------
    def printed(self) -> Printed:
        kernel = self.kernel
        parameters = self._parameters()
        programs = tuple(self._programs(part, t) for part, t in zip(kernel.parts, self.tiles, strict=True))
        self._start()
        base = "0"
        pid = "pid"
        self.text.line(f"{pid} = tl.program_id(0)")
        for part, mine, t in zip(kernel.parts, programs, self.tiles, strict=True):
            base = self._part(part, mine, t, pid, base)
        if self.private_bytes:
            parameters = (*parameters, Parameter("private", "private", "*i8", 0))
        head = ", ".join(p.name for p in parameters)
        body = "\n".join(self.text.lines)
        header = _HEADER.rstrip() + f"\n{_DEPENDENT}\n\n\n" if self.dependent else _HEADER
        source = f"{header}@triton.jit\ndef {kernel.name}({head}):\n{body}\n"
        warps = max(t.warps for t in self.tiles)
        return Printed(kernel.name, source, parameters, programs, warps, self.private_bytes, self.dependent)

    def _parameters(self) -> tuple[Parameter, ...]:
        found: list[Parameter] = []
        for number in self.kernel.buffers:
            b = self.buffers[number]
            name = self.text.fresh(b.name)
            type_name(b.elem)
            found.append(Parameter("buffer", name, f"*{SIGNATURE[b.elem]}", number))
            self.places[number] = Memory(name, b.elem)
        if self.kernel.block:
            found.append(Parameter("block", "block", "*i64", 0))
        if self.region.messages:
            found.append(Parameter("error", "error", "*i32", 0))
        for i, var in enumerate(self.kernel.arguments):
            name = self.text.fresh(var.name)
            found.append(Parameter("scalar", name, SIGNATURE[var.type], i))
            self.env[var.id] = Val(name, var.type)
        return tuple(found)

    def _start(self) -> None:
        """What every program does first: scalars of the block, checks. Recomputed values wait until they are needed:
        what is loaded in between, mostly a large matrix, is on its way meanwhile."""
        if self.kernel.guarded:
            self.wait()
            self.text.line("if tl.load(error) != 0:")
            self.text.line("    return")
        self.entries = {self.region.block[number].var.id: number for number in self.kernel.block}
        for stmt in self.kernel.prelude:
            if isinstance(stmt, ir.Check):
                self._leave_unless(stmt)
            elif isinstance(stmt, ir.Let):
                self.later[stmt.var.id] = stmt

    def _leave_unless(self, stmt: ir.Check) -> None:
        code = self.region.messages.index(stmt.message) + 1
        holds = self.bind("holds", self.value(stmt.cond))
        self.wait()
        self.text.line(f"if {holds.text} == 0:")
        self.text.line(f"    tl.store(error, {code})")
        self.text.line("    return")

    # ---- parts ---------------------------------------------------------------------------------
    def _programs(self, part: device.Part, t: tiles.Tiles) -> Programs:
        axes = tuple(zip(part.axes, t.axes, strict=True))
        unknown = any(not a.on_host and a.most is None for a in part.axes)
        in_memory = bool(effects.allocated(part.body) - self._registers(part, t)[0].keys() - self._shared())
        return Programs(axes, tiles.PERSISTENT if unknown or (in_memory and axes) else None)

    def _shared(self) -> set[ir.BufferId]:
        return {b.id for b in self.region.buffers if b.kind != "private"}

    def _registers(self, part: device.Part, t: tiles.Tiles) -> tuple[dict[ir.BufferId, int], dict[ir.VarId, int]]:
        lanes = 1
        for size in t.axes:
            lanes *= size
        return register_tiles(part.body, self.buffers, lanes)

    def _part(self, part: device.Part, mine: Programs, t: tiles.Tiles, pid: str, base: str) -> str:
        """One part, run by its share of the programs; where the next part's begin."""
        self.hazards = Hazards()
        self.products = tiles.product_axes(part) is not None
        self.columns = t.columns
        self.in_registers, full = self._registers(part, t)
        self.full = full
        counts = self._counts(part, t)
        total = self._total(counts)
        fixed = str(mine.fixed) if mine.fixed else total
        if not part.axes:
            self.part_programs, self.private_name = 1, "0"
            self.block(part.body)
            return base
        alone = len(self.kernel.parts) == 1
        end = fixed if base == "0" else self._folded(f"{base} + {fixed}")
        if alone and mine.fixed is None:
            self._only_if_any(part, counts, pid, total)
            self._lanes(part, t, counts, pid)
            return end
        guard = f"if {pid} < {end}:" if base == "0" else f"if ({pid} >= {base}) & ({pid} < {end}):"
        self.text.line(guard)
        before = dict(self.env)
        with self.text.indented():
            work = pid
            if base != "0":
                work = self.text.fresh("work")
                self.text.line(f"{work} = {pid} - {atom(base)}")
            if mine.fixed is None:
                self._lanes(part, t, counts, work)
            else:
                self._persistent(part, t, counts, work, total, mine.fixed)
        self.env = before
        return end

    def _only_if_any(self, part: device.Part, counts: Sequence[str], pid: str, total: str) -> None:
        if not total.isdigit():
            self.text.line(f"if {pid} >= {total}:")
            with self.text.indented():
                self.wait()
                self.text.line("return")

    def _persistent(
        self, part: device.Part, t: tiles.Tiles, counts: Sequence[str], work: str, total: str, programs: int
    ) -> None:
        """Programs take turns; each has its own private memory."""
        self.part_programs = programs
        self.private_name = self.text.fresh("mine")
        self.text.line(f"{self.private_name} = {work}.to(tl.int64)")
        turn = self.text.fresh("turn")
        self.text.line(f"for {turn} in range({work}, {total}, {programs}):")
        with self.text.indented():
            self._lanes(part, t, counts, f"tl.cast({turn}, tl.int32)")
            self._meet(part.body)

    def claim(self, buffer: ir.Buffer, lanes: int) -> str:
        assert buffer.length is not None
        size = buffer.length * lanes
        at = -(-self.private_bytes // device.ALIGNMENT) * device.ALIGNMENT
        self.private_bytes = at + size * element_bytes(buffer.elem) * self.part_programs
        elem = "tl.int8" if buffer.elem == "bool" else type_name(buffer.elem)
        name = self.text.fresh(buffer.name)
        self.text.line(
            f"{name} = (private + {at}).to(tl.pointer_type({elem}), bitcast=True) + {size} * {self.private_name}"
        )
        return name

    def _counts(self, part: device.Part, t: tiles.Tiles) -> list[str]:
        """How many tiles each axis has."""
        counts = []
        for axis, size in zip(part.axes, t.axes, strict=True):
            extent = self.extent_of(axis.low, axis.high)
            if extent is not None:
                counts.append(str(-(-extent // size)))
                continue
            many = self.value(affine.sub(affine.of(axis.high), affine.of(axis.low)))
            if size > 1:
                many = Val(f"({many.text} + {size - 1}) // {size}", "i64")
            many = Val(f"tl.maximum({many.text}, 0)", "i64")
            counts.append(self.bind(f"{axis.var.name}_tiles", many).text)
        return counts

    def _total(self, counts: Sequence[str]) -> str:
        total = self._folded(" * ".join(counts)) if counts else "1"
        if total.isdigit() or total.isidentifier():
            return total
        return self.bind("tiles", Val(total, "i64")).text

    def _folded(self, text: str) -> str:
        parts = text.replace("*", " ").replace("+", " ").split()
        if all(p.isdigit() for p in parts):
            total = 1 if "*" in text else 0
            for p in parts:
                total = total * int(p) if "*" in text else total + int(p)
            return str(total)
        return text

    def _lanes(self, part: device.Part, t: tiles.Tiles, counts: Sequence[str], work: str) -> None:
        """The iterations of this program along each axis, the innermost fastest; then the body."""
        depth = len(self.masks)
        rest = work
        positions: list[str] = []
        for i in reversed(range(len(part.axes))):
            if i == 0:
                positions.append(rest)
                break
            if counts[i] == "1":
                positions.append("0")
                continue
            positions.append(f"{rest} % {counts[i]}")
            rest = f"({rest} // {counts[i]})"
        for axis, size, position in zip(part.axes, t.axes, reversed(positions), strict=True):
            self._axis(axis, size, position)
        self.block(part.body)
        del self.masks[depth:]
        self.lane_axes.clear()
        for axis in part.axes:
            del self.env[axis.var.id]

    def _axis(self, axis: device.Axis, size: int, position: str) -> None:
        low = self.value(axis.low)
        scaled = "0" if position == "0" else f"{atom(position)}.to(tl.int64)" + (f" * {size}" if size > 1 else "")
        terms = [x for x in (low.text, scaled) if x != "0"]
        if size > 1:
            own = self.axis(size)
            self.lane_axes.add(own)
            terms.append(f"tl.arange(0, {size}).to(tl.int64)")
            v = Val(" + ".join(terms), "i64", (own,))
        else:
            v = Val(" + ".join(terms) or "0", "i64", constant=not terms)
        self.env[axis.var.id] = v if v.constant else self.bind(axis.var.name, v)
        extent = self.extent_of(axis.low, axis.high)
        if size > 1 and (extent is None or extent % size):
            high = self.value(axis.high)
            inside = Val(f"{self.env[axis.var.id].text} < {high.text}", "bool", self.env[axis.var.id].axes)
            self.masks.append(Mask(self.bind(f"{axis.var.name}_in", inside), True))

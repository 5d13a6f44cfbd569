"""Regions on a GPU: what the host does before it issues one, and the function that issues its launches.

Enters: regions as launches (`kernels/device.py`) and their printed kernels. Leaves: instructions of host code, and a
*record* function for each region. The host makes the checks that need only its own scalars, writes all scalars to
the region's parameter block in device memory, and runs the region; `record` issues the launches, is called once for
each content of its parameters, and captured as a graph.

Memory of a region beside its tensors is one tile: the parameter block, the buffers that its kernels share, and
private memory of their programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vx.codegen.host_postfix import evaluate
from vx.codegen.triton import Parameter, Printed, Programs, print_kernel
from vx.codegen.triton_manifest import expression
from vx.codegen.triton_values import Unsupported
from vx.diagnostics.report import CompileError, Diagnostic, Level
from vx.kernels import affine, device, ir
from vx.kernels.device_form import device_region

WORD = 8
"""Bytes of one parameter of a record function, and of one entry of the parameter block."""
OVERLAPPING = ("sm_90", "sm_100")
"""Parts on which a kernel can wait by itself for the one before it."""
FIXED = ("block", "scratch", "private", "error")
"""Addresses that follow those of the tensors in the parameters."""


@dataclass(frozen=True, slots=True)
class GpuRegion:
    """A region as launches. `names` says what a host scalar is called in expressions: `b0`, `b1`, … are entries of
    the parameter block, `v0`, `v1`, … values of the launch list."""

    region: device.Region
    printed: tuple[Printed, ...]
    names: Mapping[ir.VarId, str]

    @property
    def tensors(self) -> tuple[ir.BufferId, ...]:
        """The region's tensor parameters, in order."""
        return tuple(p.buffer for p in self.region.params if isinstance(p, ir.TensorParam))

    @property
    def scratch_at(self) -> int:
        """Where the shared buffers start in the region's tile."""
        return _aligned(WORD * len(self.region.block))

    @property
    def private_at(self) -> int:
        """Where private memory starts."""
        return self.scratch_at + _aligned(self.region.scratch_bytes)

    @property
    def bytes(self) -> int:
        """The region's tile; launches follow one another, so they share private memory."""
        return self.private_at + max((p.private_bytes for p in self.printed), default=0)

    def deciding(self) -> tuple[str, ...]:
        """The entries of the parameter block that launches depend on: parameters of the record function."""
        words = {word for text in _deciding(self, self.region.body, {}) for word in text.split()}
        return tuple(f"b{i}" for i in range(len(self.region.block)) if f"b{i}" in words)


def _aligned(size: int) -> int:
    return -(-size // device.ALIGNMENT) * device.ALIGNMENT


def gpu_region(region: ir.Region, isa: str, anywhere: frozenset[ir.BufferId]) -> GpuRegion:
    """The GPU form of a region; `anywhere` are tensors that may start at any element. Raises `CompileError` (E0902) for
    what a GPU cannot do.

    Where the part can do it, a kernel may start while the one before it ends; the first has none of its region before it,
    but lets the next one start. Not where there are matrix products: their large tiles are better off alone.
    """
    try:
        formed = device_region(region)
        alone = _first(formed.body)[0]
        found = [print_kernel(formed, kernel) for kernel in formed.kernels]
        overlaps = isa in OVERLAPPING and not any("tl.dot(" in kernel.source for kernel in found)
        if overlaps:
            found = [print_kernel(formed, kernel, True) for kernel in formed.kernels]
        printed = tuple(
            replace(
                kernel,
                dependent=overlaps and n not in alone,
                anywhere=anywhere & {p.index for p in kernel.parameters},
            )
            for n, kernel in enumerate(found)
        )
    except Unsupported as error:
        message = f"this region cannot run on a GPU: it holds {error}"
        raise CompileError([Diagnostic("E0902", Level.ERROR, message, region.span)]) from error
    names = {entry.var.id: f"b{i}" for i, entry in enumerate(formed.block)}
    for var in _declared(formed.body):
        names[var.id] = f"v{len(names) - len(formed.block)}"
    return GpuRegion(formed, printed, names)


def _first(steps: Sequence[device.Step]) -> tuple[set[int], bool]:
    """The kernels that may be launched before any other, and whether one is launched in any case."""
    found: set[int] = set()
    for step in steps:
        certain = False
        match step:
            case device.Launch(kernel=number):
                found, certain = found | {number}, True
            case device.If(then=then, orelse=orelse):
                (some, always), (others, too) = _first(then), _first(orelse)
                found, certain = found | some | others, always and too
            case device.For(body=body):
                found |= _first(body)[0]
        if certain:
            return found, True
    return found, False


def _declared(steps: Sequence[device.Step]) -> Iterator[ir.Var]:
    for step in steps:
        match step:
            case device.Let(var=var):
                yield var
            case device.For(var=var, body=body):
                yield var
                yield from _declared(body)
            case device.If(then=then, orelse=orelse):
                yield from _declared((*then, *orelse))


def _deciding(gpu: GpuRegion, steps: Sequence[device.Step], lets: dict[str, str]) -> Iterator[str]:
    """The expressions that launches depend on, those of values that they use included."""
    for step in steps:
        if isinstance(step, device.Let):
            lets[gpu.names[step.var.id]] = expression(step.value, gpu.names)
            continue
        texts: list[str] = []
        match step:
            case device.Launch(kernel=number, arguments=arguments):
                texts = [expression(a, gpu.names) for a in arguments]
                texts += [e for p in gpu.printed[number].programs for e in _extents(gpu, p) if isinstance(e, str)]
            case device.If(cond=cond) if _launches(step):
                texts = [expression(cond, gpu.names)]
                yield from _deciding(gpu, (*step.then, *step.orelse), lets)
            case device.For(low=low, high=high, body=body) if _launches(step):
                texts = [expression(low, gpu.names), expression(high, gpu.names)]
                yield from _deciding(gpu, body, lets)
        for text in texts:
            yield text
            yield from (lets[word] for word in text.split() if word in lets)


def _launches(step: device.Step) -> bool:
    match step:
        case device.Launch():
            return True
        case device.If(then=then, orelse=orelse):
            return any(map(_launches, (*then, *orelse)))
        case device.For(body=body):
            return any(map(_launches, body))
    return False


def _extents(gpu: GpuRegion, programs: Programs) -> Iterator[str | int]:
    """The iterations of each axis: a host expression, or the most that there can be."""
    for axis, _ in programs.axes:
        if axis.on_host:
            yield expression(affine.sub(affine.of(axis.high), affine.of(axis.low)), gpu.names)
        else:
            assert axis.most is not None, "only fixed programs have axes without a bound"
            yield axis.most


# ---- text ----------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Code:
    """Instructions being written. `values` maps names of expressions to i64 operands."""

    values: dict[str, str]
    lines: list[str] = field(default_factory=list)
    count: int = 0

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def op(self, text: str) -> str:
        self.count += 1
        self.line(f"%x{self.count} = {text}")
        return f"%x{self.count}"

    def fresh(self) -> str:
        self.count += 1
        return f"B{self.count}"

    def label(self, name: str) -> None:
        self.lines += [f"  br label %{name}", f"{name}:"]

    def of(self, text: str) -> str:
        return evaluate(text, self.values, self.op)


def count_kernel(isa: str) -> Printed:
    """The last kernel of every region: it counts on the device how often the region ran there."""
    waits = isa in OVERLAPPING
    header = "import triton\nimport triton.language as tl\n"
    header += "from triton.language.extra.cuda import gdc_wait\n" if waits else ""
    body = ("    gdc_wait()\n" if waits else "") + "    tl.store(counter, tl.load(counter) + 1)\n"
    return Printed(
        "vx_count",
        f"{header}\n\n@triton.jit\ndef vx_count(counter):\n{body}",
        (Parameter("buffer", "counter", "*i64", 0),),
        (Programs((), 1),),
        warps=1,
        private_bytes=0,
        dependent=waits,
    )


@dataclass(frozen=True, slots=True)
class Numbers:
    """Of a region among all: its own, that of its first kernel, that of the counting kernel, and how many bytes the
    region's counter is behind its error word."""

    region: int
    first: int
    count: int
    counter: int


def record(gpu: GpuRegion, numbers: Numbers, launch: str) -> str:
    """The record function of a region. `launch` is the entry that launches a kernel."""
    code = Code({})
    widest = max((len(p.parameters) for p in gpu.printed), default=1)
    code.line(f"%slots = alloca [{max(widest, 1)} x i64]")
    code.line(f"%args = alloca [{max(widest, 1)} x ptr]")
    for at in range(widest):
        slot = code.op(f"getelementptr inbounds i64, ptr %slots, i64 {at}")
        code.line(f"store ptr {slot}, ptr {code.op(f'getelementptr inbounds ptr, ptr %args, i64 {at}')}")
    addresses = {f"t{at}": _parameter(code, at, "ptr") for at in range(len(gpu.tensors))}
    for at, name in enumerate(FIXED, len(gpu.tensors)):
        addresses[name] = _parameter(code, at, "ptr")
    for at, name in enumerate(gpu.deciding(), len(gpu.tensors) + len(FIXED)):
        code.values[name] = _parameter(code, at, "i64")
    writer = _Record(gpu, code, addresses, numbers.first, launch)
    writer.steps(gpu.region.body)
    counter = code.op(f"getelementptr inbounds i8, ptr {addresses['error']}, i64 {numbers.counter}")
    code.line(f"store ptr {counter}, ptr {code.op('getelementptr inbounds i64, ptr %slots, i64 0')}")
    writer.enqueue(numbers.count, "1")
    head = f"define internal i32 @vx.record.{numbers.region}(ptr %params) nounwind {{"
    return "\n".join([head, *code.lines, "  ret i32 0", "}"])


def _parameter(code: Code, at: int, kind: str) -> str:
    return code.op(f"load {kind}, ptr {code.op(f'getelementptr inbounds i8, ptr %params, i64 {WORD * at}')}")


@dataclass(slots=True)
class _Record:
    gpu: GpuRegion
    code: Code
    addresses: Mapping[str, str]
    first: int
    launch: str

    def steps(self, steps: Sequence[device.Step]) -> None:
        for step in steps:
            match step:
                case device.Let(var=var, value=value) if self._known(value):
                    self.code.values[self.gpu.names[var.id]] = self.code.of(expression(value, self.gpu.names))
                case device.Launch():
                    self._launch(step)
                case device.If() if _launches(step):
                    _branch(self.code, self.code.of(expression(step.cond, self.gpu.names)), self._arm, step)
                case device.For() if _launches(step):
                    _loop(self.code, self.gpu, step, self.steps)

    def _known(self, value: ir.Expr) -> bool:
        """Whether launches depend on the value, so that what it is made of is at hand."""
        words = expression(value, self.gpu.names).split()
        return all(word in self.code.values for word in words if word[0] in "bv" and word[1:].isdigit())

    def _arm(self, steps: Sequence[device.Step]) -> None:
        before = dict(self.code.values)
        self.steps(steps)
        self.code.values = before

    def _launch(self, step: device.Launch) -> None:
        code, printed = self.code, self.gpu.printed[step.kernel]
        programs = self._programs(printed)
        for at, parameter in enumerate(printed.parameters):
            slot = code.op(f"getelementptr inbounds i64, ptr %slots, i64 {at}")
            if parameter.kind == "scalar":
                value = code.of(expression(step.arguments[parameter.index], self.gpu.names))
                code.line(f"store i64 {value}, ptr {slot}")
            else:
                code.line(f"store ptr {self._address(parameter.kind, parameter.index)}, ptr {slot}")
        some, done = code.fresh(), code.fresh()
        code.line(f"br i1 {code.op(f'icmp sgt i64 {programs}, 0')}, label %{some}, label %{done}")
        code.lines.append(f"{some}:")
        self.enqueue(self.first + step.kernel, code.op(f"trunc i64 {programs} to i32"))
        code.label(done)

    def enqueue(self, number: int, grid: str) -> None:
        """Launch a kernel with what is in the slots; a status that is not 0 is given back at once."""
        code, after, failed = self.code, self.code.fresh(), self.code.fresh()
        status = code.op(f"call i32 {self.launch}(i32 {number}, i32 {grid}, i32 1, i32 1, ptr %args)")
        code.line(f"br i1 {code.op(f'icmp eq i32 {status}, 0')}, label %{after}, label %{failed}")
        code.lines += [f"{failed}:", f"  ret i32 {status}", f"{after}:"]

    def _address(self, kind: str, index: int) -> str:
        if kind != "buffer":
            return self.addresses[kind]
        if index in self.gpu.tensors:
            return self.addresses[f"t{self.gpu.tensors.index(index)}"]
        for number, entry in enumerate(self.gpu.region.block):
            if entry.slot == index:
                return self.code.op(f"getelementptr inbounds i8, ptr {self.addresses['block']}, i64 {WORD * number}")
        at = next(place.offset for place in self.gpu.region.scratch if place.buffer == index)
        return self.code.op(f"getelementptr inbounds i8, ptr {self.addresses['scratch']}, i64 {at}")

    def _programs(self, printed: Printed) -> str:
        """How many programs the parts of a kernel have together."""
        total = "0"
        for part in printed.programs:
            if part.fixed is not None:
                total = self.code.op(f"add i64 {total}, {part.fixed}")
                continue
            count = "1"
            for (_, tile), extent in zip(part.axes, _extents(self.gpu, part), strict=True):
                value = str(extent) if isinstance(extent, int) else self.code.of(extent)
                positive = self.code.op(f"icmp sgt i64 {value}, 0")
                value = self.code.op(f"select i1 {positive}, i64 {value}, i64 0")
                rounded = self.code.op(f"add i64 {value}, {tile - 1}")
                count = self.code.op(f"mul i64 {count}, {self.code.op(f'udiv i64 {rounded}, {tile}')}")
            total = self.code.op(f"add i64 {total}, {count}")
        return total


def _branch(code: Code, cond: str, arm: Callable[[Sequence[device.Step]], None], step: device.If) -> None:
    then, orelse, after = code.fresh(), code.fresh(), code.fresh()
    code.line(f"br i1 {code.op(f'icmp ne i64 {cond}, 0')}, label %{then}, label %{orelse}")
    code.lines.append(f"{then}:")
    arm(step.then)
    code.lines += [f"  br label %{after}", f"{orelse}:"]
    arm(step.orelse)
    code.label(after)


def _loop(code: Code, gpu: GpuRegion, step: device.For, body: Callable[[Sequence[device.Step]], None]) -> None:
    low, high = (code.of(expression(e, gpu.names)) for e in (step.low, step.high))
    name = gpu.names[step.var.id]
    head, inside, after = code.fresh(), code.fresh(), code.fresh()
    counter = code.op("alloca i64")
    code.line(f"store i64 {low}, ptr {counter}")
    code.label(head)
    value = code.op(f"load i64, ptr {counter}")
    code.line(f"br i1 {code.op(f'icmp slt i64 {value}, {high}')}, label %{inside}, label %{after}")
    code.lines.append(f"{inside}:")
    before = dict(code.values)
    code.values[name] = value
    body(step.body)
    code.values = before
    code.line(f"store i64 {code.op(f'add i64 {value}, 1')}, ptr {counter}")
    code.lines += [f"  br label %{head}", f"{after}:"]


# ---- checks ----------------------------------------------------------------------------------------------
def checked(gpu: GpuRegion, code: Code, require: Callable[[str, str], None]) -> None:
    """The checks that the host makes each time before it issues the region. `require(condition, message)` ends the
    program unless the i1 holds."""

    def steps(found: Sequence[device.Step]) -> None:
        for step in found:
            match step:
                case device.Let(var=var, value=value):
                    code.values[gpu.names[var.id]] = code.of(expression(value, gpu.names))
                case device.Check(cond=cond, message=message):
                    require(code.op(f"icmp ne i64 {code.of(expression(cond, gpu.names))}, 0"), message)
                case device.If() if _checks(step):
                    _branch(code, code.of(expression(step.cond, gpu.names)), arm, step)
                case device.For() if _checks(step):
                    _loop(code, gpu, step, steps)

    def arm(found: Sequence[device.Step]) -> None:
        before = dict(code.values)
        steps(found)
        code.values = before

    steps(gpu.region.body)


def _checks(step: device.Step) -> bool:
    match step:
        case device.Check():
            return True
        case device.If(then=then, orelse=orelse):
            return any(map(_checks, (*then, *orelse)))
        case device.For(body=body):
            return any(map(_checks, body))
    return False

"""What the functions of one host module share: strings, declarations, drop functions, regions.

Enters: the typed program and options. Leaves: pieces of module text, each asked for by name and written
once. `host.py` puts them together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from vx.admission.plan import Plan, RegionKey
from vx.admission.tiles import Types
from vx.codegen.host_arena import Arenas
from vx.codegen.host_device import Remote, anywhere
from vx.codegen.host_launch import GpuRegion, gpu_region
from vx.codegen.host_manifest import DeviceRegion
from vx.codegen.layout import Layouts, is_empty, is_view
from vx.codegen.llvm_text import MEMORY, REGISTER, string_global, symbol
from vx.codegen.prelude import HELPERS
from vx.diagnostics.source import SourceMap
from vx.diagnostics.span import Span
from vx.kernels.region import LoweredRegion
from vx.machine.machine import Machine
from vx.runtime.abi import ENTRIES
from vx.sema import tree
from vx.sema.tree import Extern, Program, Scalar, Type

LowerRegion = Callable[[Program, tree.Function, tree.Block, str], LoweredRegion]


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """Where the bytes of a model tensor are: one row of `vx_model_table` (`runtime/abi.py` says more)."""

    name: str
    elem: str
    offset: int
    bytes: int
    count: int
    key: int
    scale: float
    bias: float


@dataclass(frozen=True, slots=True)
class ModelTable:
    """The weights of a program: rows by name, the file (relative to the model directory), and the seed of
    random weights (-1: none)."""

    entries: tuple[ModelEntry, ...]
    file: str
    random_seed: int


@dataclass(frozen=True, slots=True)
class HostOptions:
    """`strict_index`: check every dimension, not only that an element lies in its tensor. `sources`: for the
    lines in messages. `model`: needed if the program uses model tensors. `plans`: of the program's roles, for
    `machine`; without any, placed tensors come from the heap. `stand_in`: devices are
    memory of the host, through the plugin that stands in for them. `gpu`: the GPU forms of regions that were made
    before, by name."""

    lower: LowerRegion
    sources: SourceMap
    strict_index: bool = False
    model: ModelTable | None = None
    machine: Machine | None = None
    plans: Sequence[Plan] = ()
    stand_in: bool = False
    gpu: dict[str, GpuRegion] = field(default_factory=dict)


@dataclass(slots=True)
class Module:
    """The module being written. Everything is asked for by what it is and numbered in order of asking."""

    program: Program
    options: HostOptions
    arenas: Arenas
    remote: Remote
    tiles: Types
    layouts: Layouts
    strings: dict[bytes, str] = field(default_factory=dict)
    arrays: list[str] = field(default_factory=list)
    declared: dict[str, str] = field(default_factory=dict)
    helpers: dict[str, None] = field(default_factory=dict)
    functions: dict[str, None] = field(default_factory=dict)
    """Keys of the functions that host code calls, in order of first use."""
    drops: dict[Type, str] = field(default_factory=dict)
    """Types whose drop functions are called, with their names."""
    regions: list[LoweredRegion] = field(default_factory=list)
    wheres: dict[tuple[str, int], str] = field(default_factory=dict)
    device_regions: list[DeviceRegion] = field(default_factory=list)
    """Those that are issued on remote devices, by number."""
    scratch: dict[RegionKey, int] = field(default_factory=dict)
    """Bytes that each `spawn` needs beside its tensors."""
    may_abort: dict[str, bool] = field(default_factory=dict)
    """Of library functions: whether they can end the program with a message."""

    def gpu_form(self, lowered: LoweredRegion, isa: str) -> GpuRegion:
        """The GPU form of a region, made once. Raises `CompileError` (E0902)."""
        region = lowered.region
        if region.name not in self.options.gpu:
            self.options.gpu[region.name] = gpu_region(region, isa, anywhere(lowered))
        return self.options.gpu[region.name]

    def string(self, data: bytes) -> str:
        """The address of a NUL-terminated constant."""
        name = self.strings.get(data)
        if name is None:
            name = self.strings[data] = f"@s{len(self.strings)}"
        return name

    def array(self, kind: str, values: Sequence[str]) -> str:
        """The address of a constant array of `kind`."""
        text = ", ".join(f"{kind} {value}" for value in values)
        name = f"@c{len(self.arrays)}"
        self.arrays.append(f"{name} = private unnamed_addr constant [{len(values)} x {kind}] [{text}]")
        return name

    def where(self, span: Span) -> str:
        """`file.vx:12` of a span; file names without folders, so that no path ends up in an executable."""
        key = (span.file, span.start)
        text = self.wheres.get(key)
        if text is None:
            name = os.path.basename(span.file)
            known = span.file in self.options.sources
            text = f"{name}:{self.options.sources.line_col(span)[0]}" if known else name
            self.wheres[key] = text
        return text

    def where_string(self, span: Span) -> str:
        """The address of `where(span)`."""
        return self.string(self.where(span).encode())

    def runtime(self, name: str) -> str:
        """A function of the runtime."""
        if name not in self.declared:
            entry = ENTRIES[name]
            params = ", ".join(ctype.llvm for _, ctype in entry.params)
            attributes = "cold noreturn nounwind" if entry.noreturn else "nounwind"
            self.declared[name] = f"declare {entry.ret.llvm} @{name}({params}) {attributes}"
        return f"@{name}"

    def declare(self, name: str, text: str) -> str:
        """A function declared by `text`, if nothing of the name is declared yet."""
        self.declared.setdefault(name, text)
        return f"@{name}"

    def extern(self, extern: Extern, fixed: int | None) -> str:
        """A C function that the program declares; `fixed` is the number of parameters before its `...`."""
        name = symbol(extern.name)
        if extern.name not in self.declared:
            params = [c_param(t) for t in extern.params[:fixed]] + (["..."] if fixed is not None else [])
            self.declared[extern.name] = f"declare {c_result(extern.ret)} {name}({', '.join(params)}) nounwind"
        return name

    def helper(self, name: str) -> str:
        """A function of the prelude."""
        if name not in self.helpers:
            self.helpers[name] = None
            for other in HELPERS[name].needs:
                self.helper(other)
            for other in HELPERS[name].runtime:
                self.runtime(other)
        return f"@vx.{name}"

    def function(self, key: str) -> str:
        """A function of the program, which will be written."""
        self.functions.setdefault(key)
        return symbol(f"vx:{key}")

    def drop(self, type_: Type) -> str:
        """The function `void (ptr)` that drops a value in memory."""
        name = self.drops.get(type_)
        if name is None:
            name = self.drops[type_] = f"@vx.drop.{len(self.drops)}"
        return name

    def string_globals(self) -> list[str]:
        """The text of all constants asked for."""
        return [*(string_global(name, data) for data, name in self.strings.items()), *self.arrays]


def register(type_: Type) -> str:
    """The LLVM type of a value in a register; what lives in memory is a `ptr`."""
    if isinstance(type_, Scalar):
        return REGISTER[type_.name]
    return "void" if is_empty(type_) else "ptr"


def memory(type_: Type) -> str:
    """The LLVM type with which a scalar or pointer is loaded and stored."""
    return MEMORY[type_.name] if isinstance(type_, Scalar) else "ptr"


def returns_by_pointer(type_: Type) -> bool:
    """Whether a function stores its result through a first parameter."""
    return is_view(type_) or isinstance(type_, tree.Struct | tree.Enum)


_NARROW = {"bool": "zeroext", "u8": "zeroext", "u16": "zeroext", "i8": "signext", "i16": "signext"}


def c_param(type_: Type) -> str:
    """The LLVM type of a C parameter, with the extension that the C convention asks for."""
    extension = _NARROW.get(type_.name) if isinstance(type_, Scalar) else None
    return f"{memory(type_)} {extension}" if extension else memory(type_)


def c_result(type_: Type) -> str:
    """The LLVM type of a C result."""
    if is_empty(type_):
        return "void"
    extension = _NARROW.get(type_.name) if isinstance(type_, Scalar) else None
    return f"{extension} {memory(type_)}" if extension else memory(type_)

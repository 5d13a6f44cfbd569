"""The driver: a program's path and options → checked, shown or built.

Every command and the Python façade go through here. The stages run in the order of the folders
(`docs/explanation/compiler.md`) and stop after the first that reports errors. Builds are kept by the content
of what they were made from (`buildcache.py`), so a second one costs nothing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from vx import buildcache, resources
from vx.buildcache import Dependency
from vx.options import Options

if TYPE_CHECKING:
    from vx.admission.plan import Plan
    from vx.codegen.host import HostModule
    from vx.codegen.host_manifest import KernelFile
    from vx.codegen.host_module import HostOptions, LowerRegion, ModelTable
    from vx.codegen.target import Target
    from vx.diagnostics.report import Diagnostic, Reporter
    from vx.diagnostics.source import SourceMap
    from vx.diagnostics.span import Span
    from vx.kernels.ir import Region
    from vx.kernels.region import LoweredRegion
    from vx.machine.machine import Machine
    from vx.model.info import ModelInfo
    from vx.sema.tree import Block, Function, Program
    from vx.syntax.ast import Module

SPLIT_LENGTH = 4000
"""Characters of dumped regions from which on their translation is split over processes."""

COMPILER_FAULT = "E9029"
"""The code of refusals that are the compiler's own fault."""

WEIGHTS_FILE = "model.safetensors"
MODEL_FILES = (("config.json", "text"), ("digests.json", "text"), (WEIGHTS_FILE, "header"))
"""What a build reads of a model directory, and how much of each file."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A program that the checker accepts, with what it was checked against. `model` is None if it uses none."""

    program: Program
    machine: Machine
    target: Target
    model: ModelInfo | None
    sources: SourceMap

    def where(self, span: Span) -> str:
        """`file.vx:12`, for messages of the running program; never a path."""
        return f"{os.path.basename(span.file)}:{self.sources.line_col(span)[0]}"


@dataclass(frozen=True, slots=True)
class Checked:
    """An accepted program: the plans of its roles, its host code as LLVM text and its regions as Kernels."""

    typed: Typed
    plans: tuple[Plan, ...]
    host: HostModule
    stand_in: bool = False
    """Whether memory of the host stands in for the devices."""

    @property
    def regions(self) -> tuple[Region, ...]:
        return tuple(lowered.region for lowered in self.host.regions)


@dataclass(frozen=True, slots=True)
class Built:
    """A finished build. `model_dir` is the model directory that it runs with, or None; `diagnostics` are the
    warnings of the compilation, also when the build was found in the cache."""

    executable: Path
    key: str
    cached: bool
    model_dir: str | None
    diagnostics: Sequence[Diagnostic]

    @property
    def record(self) -> Path:
        """The record of its admission, `vx-diagnostics-v1`."""
        return self.executable.parent / buildcache.RECORD

    @property
    def extra(self) -> dict[str, Path]:
        """What else the executable needs beside it (plugins, kernels), by its name there."""
        folder = self.executable.parent
        found = (path for path in sorted(folder.rglob("*")) if path.is_file())
        return {
            path.relative_to(folder).as_posix(): path for path in found if path not in (self.executable, self.record)
        }


def parse(path: str, sources: SourceMap, reporter: Reporter) -> Module:
    """Parse a program's own file, imports not followed. Raises `CompileError`."""
    from vx.syntax.parser import parse_module

    module = parse_module(sources.load(path), path, reporter)
    reporter.abort_if_errors()
    return module


def type_check(path: str, options: Options, sources: SourceMap, reporter: Reporter) -> Typed:
    """The typed program. Raises `CompileError` with everything reported if the program is refused."""
    from vx.codegen import target as targets
    from vx.machine.load import load_machine
    from vx.sema.borrow import check_borrows
    from vx.sema.check import check_program

    target = targets.native() if options.target is None else targets.by_name(options.target)
    machine = load_machine(options.machine, options.host, reporter, sources, target.arch)
    reporter.abort_if_errors()
    model = _model_info(options)
    consts = dict(options.consts)
    program = check_program(
        path,
        machine=machine,
        model=model,
        consts=consts,
        reporter=reporter,
        sources=sources,
        roles=options.roles,
    )
    reporter.abort_if_errors()
    assert program is not None
    check_borrows(program, reporter)
    reporter.abort_if_errors()
    return Typed(program, program.machine or machine, target, model if program.uses_model else None, sources)


def admit_roles(typed: Typed, options: Options, reporter: Reporter, role: str | None = None) -> tuple[Plan, ...]:
    """The plan of every role that is compiled, or of one. What does not fit is reported, nothing is raised for it.

    Kernels are formed before, since what they need beside their tensors counts. Raises `CompileError` if that fails.
    """
    return _admitted(typed, options, reporter, role)[0]


def _admitted(
    typed: Typed, options: Options, reporter: Reporter, role: str | None = None
) -> tuple[tuple[Plan, ...], HostOptions]:
    """The plans, and what writes host code with the same kernels."""
    from vx.admission.check import admit, roles
    from vx.admission.plan import Limits
    from vx.codegen.host import emit_host
    from vx.codegen.host_module import HostOptions
    from vx.kernels.lower import lower_region

    program = typed.program
    lower = _remembering(partial(lower_region, where=typed.where, strict_index=options.strict_index))
    settings = HostOptions(lower, typed.sources, options.strict_index, _model_table(typed), typed.machine)
    with _reported(reporter):
        first = emit_host(program, settings)
    limits = Limits(options.reserved(), first.scratch, first.control)
    names = roles(program) if role is None else (role,)
    plans = tuple(admit(program, typed.machine, reporter, name, limits) for name in names)
    return plans, replace(settings, plans=plans, stand_in=options.devices == "host")


def _remembering(lower: LowerRegion) -> LowerRegion:
    """The same, with each region formed once: names are the same each time that host code is written."""
    known: dict[str, LoweredRegion] = {}

    def remembered(program: Program, function: Function, block: Block, name: str) -> LoweredRegion:
        if name not in known:
            known[name] = lower(program, function, block, name)
        return known[name]

    return remembered


def check(path: str, options: Options, sources: SourceMap, reporter: Reporter) -> Checked:
    """Check a program completely: types, borrows, admission, and that its regions can become Kernels.

    Raises `CompileError` with everything reported if it is refused. A program whose capacity is not verified
    passes: `require_admitted` is for whoever goes on to build it.
    """
    from vx.codegen.host import emit_host

    typed = type_check(path, options, sources, reporter)
    plans, settings = _admitted(typed, options, reporter)
    reporter.abort_if_errors()
    with _reported(reporter):
        host = emit_host(typed.program, settings)
    return Checked(typed, plans, host, settings.stand_in)


def require_admitted(checked: Checked, reporter: Reporter) -> None:
    """Raise `CompileError` unless every role that is compiled is admitted: what is not proven is not built.

    Nor is a role whose need on a device is not known, though it may be admitted where nothing limits that.
    """
    from vx.admission.plan import Verdict
    from vx.machine.machine import GPU_ARCHES

    typed = checked.typed
    for plan in checked.plans:
        if plan.verdict is not Verdict.ADMITTED:
            reporter.error(
                "E6048",
                f"{plan.role} is {plan.verdict.value} on this machine, so it is not built",
                typed.program.functions[plan.frames[-1].function].span,
                notes=[f"not known when compiling: {what}" for what in plan.unverified],
                helps=["give every extent a bound, or build the other roles with --roles"],
            )
            continue
        for bank, size in ((arena.bank, arena.bytes) for arena in plan.arenas if not arena.bytes):
            device = typed.machine.space_owner(bank.space)
            what = "is not known, and a device's memory is taken at once" if size is None else "is 0: nothing to take"
            if device is not None and device.name != "CPU" and (checked.stand_in or device.arch in GPU_ARCHES):
                reporter.error(
                    "E6048",
                    f"how many bytes {plan.role} needs in {bank} {what}",
                    typed.program.functions[plan.frames[-1].function].span,
                    helps=["give every extent a bound above 0, and place no tiles in a recursion"],
                )
    reporter.abort_if_errors()


@dataclass(frozen=True, slots=True)
class Translation:
    """The LLVM modules of a program: host code, then, if there are any, its regions; and its GPU kernels, compiled."""

    texts: list[str]
    kernels: Sequence[KernelFile] = ()


def translate(checked: Checked, reporter: Reporter) -> Translation:
    """Generate code for a program.

    Raises `CompileError` if code is placed where it cannot be generated for, or the model has no weights.
    """
    from vx.placement.execution import check_execution
    from vx.syntax.limits import recursion_room

    typed = checked.typed
    require_admitted(checked, reporter)
    check_execution(typed.program, typed.machine, typed.target.arch, checked.stand_in, reporter)
    reporter.abort_if_errors()
    with _reported(reporter), recursion_room():
        _require_weights(typed)
        regions = [lowered.region for lowered in checked.host.host_regions]
        kernels, tables = _kernels(checked.host)
        texts = [checked.host.llvm_text, *tables, *_region_modules(regions, typed.target)]
    return Translation(texts, kernels)


def _kernels(host: HostModule) -> tuple[Sequence[KernelFile], list[str]]:
    """The kernels of a program for a GPU, and the module with their table. Raises `CompileError` (E9037)."""
    if host.remote.plugin != "cuda":
        return (), []
    from vx.codegen.gpu import compiled
    from vx.codegen.host_manifest import kernel_table

    kernels, min_driver = compiled([found.gpu for found in host.device_regions if found.gpu], host.remote.isa)
    return kernels, [kernel_table(kernels, min_driver)]


def _region_modules(regions: Sequence[Region], target: Target) -> list[str]:
    """One module, or, where translating it would take longer than starting processes, one per processor level."""
    from vx.codegen.cpu import emit_level_modules, emit_regions
    from vx.kernels.dump import dump_region

    if not regions:
        return []
    if sum(len(dump_region(region)) for region in regions) < SPLIT_LENGTH:
        return [emit_regions(regions, target)]
    return emit_level_modules(regions, target)


@contextmanager
def _reported(reporter: Reporter) -> Iterator[None]:
    """Make what a stage raises part of the report, after what stands there already."""
    from vx.diagnostics.report import CompileError

    try:
        yield
    except CompileError as error:
        if any(found.code == COMPILER_FAULT for found in error.diagnostics):
            raise
        for diagnostic in error.diagnostics:
            reporter.add(diagnostic)
        raise CompileError(reporter.diagnostics) from error


def build(path: str, options: Options, sources: SourceMap, reporter: Reporter) -> Built:
    """Build a program, or find the build of the same content. Raises `CompileError`."""
    found = cached_build(path, options)
    if found is not None:
        _load_texts(found.diagnostics, sources)
        return found
    model_dir = _model_dir(options)
    before = _model_dependencies(model_dir)
    compiler = buildcache.compiler_digest()
    checked = check(path, options, sources, reporter)
    uses_model = checked.typed.model is not None
    dependencies = [*_source_dependencies(checked.typed, sources), *(before if uses_model else ())]
    key = buildcache.build_key(options, dependencies, compiler)
    translation = translate(checked, reporter)
    executable = buildcache.find_build(key)
    if executable is None:
        record = _record(checked, path, options, reporter)
        executable = _compile(translation, checked, options.opt_level, key, record)
    if uses_model and before != _model_dependencies(model_dir):
        _refuse("E9032", f"the model directory `{model_dir}` changed during the build", "build again")
    used_model = model_dir if uses_model else None
    request = buildcache.request_key(path, options, model_dir, compiler)
    buildcache.record(request, key, dependencies, used_model, _plain(reporter.diagnostics))
    return Built(executable, key, False, used_model, reporter.diagnostics)


def cached_build(path: str, options: Options) -> Built | None:
    """The build of an unchanged program, without loading the compiler; None if there is none."""
    request = buildcache.request_key(path, options, _model_dir(options), buildcache.compiler_digest())
    entry = buildcache.look_up(request)
    if entry is None:
        return None
    return Built(entry.executable, entry.key, True, entry.model_dir, _diagnostics(entry.diagnostics))


def _record(checked: Checked, path: str, options: Options, reporter: Reporter) -> str:
    """The record of an admitted program, with names of files and no paths: it travels with the build."""
    from vx.admission.record import Check, admission_record

    typed = checked.typed
    machine = None if options.machine is None else os.path.basename(options.machine)
    found = (reporter.diagnostics, typed.sources, typed.machine, typed.program, checked.plans)
    return admission_record(Check(path, machine, *found, bare=True))


def _compile(translation: Translation, checked: Checked, opt_level: int, key: str, record: str) -> Path:
    from vx.artifact.identity import plan_digest, seal
    from vx.codegen.compile import compile_modules
    from vx.codegen.host_manifest import FOLDER
    from vx.codegen.link import link_executable
    from vx.codegen.plugin import plugin_library

    target = checked.typed.target
    space = buildcache.workspace()
    try:
        objects = compile_modules(translation.texts, target, opt_level)
        link_executable(objects, space.program, target)
        space.record.write_text(record, encoding="utf-8")
        seal(space.program, machine_digest(checked.typed), plan_digest(space.record.read_bytes()))
        if checked.host.remote.plugin:
            plugin = plugin_library(checked.host.remote.plugin, target)
            shutil.copyfile(plugin, space.folder / plugin.name)
        if translation.kernels:
            (space.folder / FOLDER).mkdir()
        for kernel in translation.kernels:
            (space.folder / FOLDER / kernel.file).write_bytes(kernel.image)
        return buildcache.store(space, key)
    except BaseException:
        buildcache.discard(space)
        raise


def machine_digest(typed: Typed) -> str:
    """SHA-256 over the machine files, by their names without folders; empty if none was read."""
    digest = buildcache.text_digest
    files = [f"{os.path.basename(name)} {digest(typed.sources.text(name))}" for name in typed.machine.files]
    return digest("\n".join(files)) if files else ""


# ---- models ------------------------------------------------------------------------------------
def _model_dir(options: Options) -> str | None:
    """The directory that `import model;` reads: the one given, else the tiny model that ships with Vx."""
    if options.model is not None:
        return str(Path(options.model).absolute())
    tiny = resources.find("models", "tiny")
    return str(tiny) if tiny.is_dir() else None


def _model_info(options: Options) -> ModelInfo | None:
    from vx.model.errors import ModelError
    from vx.model.info import load_model

    directory = _model_dir(options)
    if directory is None:
        return None
    try:
        return load_model(directory)
    except ModelError as error:
        _refuse(error.code, error.message, *error.helps)


def _model_dependencies(directory: str | None) -> list[Dependency]:
    if directory is None:
        return []
    files = [(str(Path(directory, name)), kind) for name, kind in MODEL_FILES]
    return [Dependency(path, kind, buildcache.digest(path, kind)) for path, kind in files]


def _model_table(typed: Typed) -> ModelTable | None:
    """Where the runtime finds each model tensor that the program uses."""
    from math import prod

    from vx.codegen.host_module import ModelEntry, ModelTable

    info = typed.model
    if info is None:
        return None
    tensors = {ref.name: info.tensors[ref.name] for ref in typed.program.model}
    entries = tuple(
        ModelEntry(name, t.elem, t.offset, t.bytes, prod(t.dims), t.key, t.scale, t.bias) for name, t in tensors.items()
    )
    seed = -1 if info.random_seed is None else info.random_seed
    return ModelTable(entries, WEIGHTS_FILE, seed)


def _require_weights(typed: Typed) -> None:
    from vx.model.errors import ModelError
    from vx.model.info import require_weights

    if typed.model is None or not typed.program.model:
        return
    try:
        require_weights(typed.model)
    except ModelError as error:
        _refuse(error.code, error.message, *error.helps)


# ---- what a build depends on -------------------------------------------------------------------
def _source_dependencies(typed: Typed, sources: SourceMap) -> list[Dependency]:
    """The source and machine files as they were read: an edit during the build makes the next one differ."""
    names = dict.fromkeys((*typed.program.files, *typed.machine.files))
    return [
        Dependency(str(Path(name).absolute()), "text", buildcache.text_digest(sources.text(name))) for name in names
    ]


def _plain(diagnostics: Sequence[Diagnostic]) -> list[object]:
    """Diagnostics as JSON data, for a manifest; `_diagnostics` reads them back."""
    from dataclasses import asdict

    return [{**asdict(diagnostic), "level": diagnostic.level.value} for diagnostic in diagnostics]


def _diagnostics(plain: Sequence[object]) -> list[Diagnostic]:
    return [_diagnostic(item) for item in plain if isinstance(item, dict)]


def _diagnostic(item: dict[str, Any]) -> Diagnostic:
    from vx.diagnostics.report import Diagnostic, Help, Label, Level
    from vx.diagnostics.span import Span

    def span(fields: dict[str, Any] | None) -> Span | None:
        return None if fields is None else Span(**fields)

    return Diagnostic(
        item["code"],
        Level(item["level"]),
        item["message"],
        Span(**item["span"]),
        tuple(Label(Span(**label["span"]), label["text"]) for label in item["labels"]),
        tuple(item["notes"]),
        tuple(Help(help_["text"], span(help_["span"]), help_["replacement"]) for help_ in item["helps"]),
    )


def _load_texts(diagnostics: Sequence[Diagnostic], sources: SourceMap) -> None:
    """Read the files that diagnostics from the cache point into, so that they can be shown with excerpts."""
    for diagnostic in diagnostics:
        for span in (diagnostic.span, *(label.span for label in diagnostic.labels)):
            if os.path.isfile(span.file):
                sources.load(span.file)


def _refuse(code: str, message: str, *helps: str) -> NoReturn:
    from vx.diagnostics.report import CompileError, Diagnostic, Help, Level
    from vx.diagnostics.span import NOWHERE

    helps_ = tuple(Help(text) for text in helps)
    raise CompileError([Diagnostic(code, Level.ERROR, message, NOWHERE, helps=helps_)])

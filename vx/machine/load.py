"""Machine files and declarations in programs → `Machine`.

Enters: paths of machine files, or the syntax tree of a program. Leaves: the built-in machine extended by
what they declare, checked. Declarations mean the same in both; a later one may repeat an earlier one
exactly, and replaces one of the generic machine that is used when no machine file is given.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TypeVar

from vx import resources
from vx.diagnostics.report import CompileError, Diagnostic, Help, Level, Reporter
from vx.diagnostics.source import SourceMap
from vx.diagnostics.span import NOWHERE, Span
from vx.machine.builtin import builtin_machine
from vx.machine.check import check_machine, shadows_builtin
from vx.machine.declare import edges_of, space_of, topology_of
from vx.machine.machine import GPU_ARCHES, Edge, Layer, Machine, Space, Topology
from vx.machine.measured import measurement_of
from vx.syntax import ast
from vx.syntax.parser import parse_module

_DEEPEST_IMPORT = 64

HOST_MEMORY = "CPU_DRAM"
"""The built-in space that a host's machine file may describe."""

Declared = TypeVar("Declared", Space, Topology)


def host_architecture() -> str:
    """The architecture of this machine, in the spelling of `arch:`."""
    name = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


def load_machine(
    path: str | os.PathLike[str] | None,
    host: str | None,
    reporter: Reporter,
    sources: SourceMap,
    host_arch: str | None = None,
) -> Machine:
    """The machine of `--machine path --host host`; without a path the generic machine, this CPU.

    `host` is a machine file that describes the host (it alone may say what `CPU_DRAM` is), `default` for an
    undescribed one, or None. Both may be names of the fleet (`resources.machine_file`). Errors go to the
    reporter; a file that cannot be read raises `CompileError`.
    """
    arch = host_arch or host_architecture()
    machine = builtin_machine(arch)
    layer: Layer = "default" if path is None else "machine"
    main = resources.find("fleet", "cpu.vx") if path is None else _existing(path)
    described = [] if host is None or host == "default" else _read_tree(_existing(host), reporter, sources)
    modules = _read_tree(os.fspath(main), reporter, sources)
    for _, module in described:
        machine = machine_from_module(module, machine, "machine", reporter, check=False, host=True)
    for _, module in modules:
        machine = machine_from_module(module, machine, layer, reporter, check=False)
    check_machine(machine, reporter)
    return replace(
        machine,
        files=tuple(name for name, _ in (*described, *modules)),
        host_declared=host is not None,
    )


def load_file(path: str | os.PathLike[str], reporter: Reporter, sources: SourceMap) -> Machine:
    """What one machine file and its imports declare, whether it describes an accelerator or a host.

    Errors go to the reporter; a file that cannot be read raises `CompileError`.
    """
    machine = builtin_machine(host_architecture())
    modules = _read_tree(_existing(path), reporter, sources)
    for _, module in modules:
        machine = machine_from_module(module, machine, "machine", reporter, check=False, host=True)
    check_machine(machine, reporter)
    return replace(machine, files=tuple(name for name, _ in modules))


def machine_from_module(
    module: ast.Module,
    base: Machine,
    layer: Layer,
    reporter: Reporter,
    *,
    check: bool = True,
    host: bool = False,
) -> Machine:
    """`base` extended by the `Memory` and `Topology` declarations of `module`.

    Other items are ignored: a program has them, a machine file's were refused when it was read. `check`
    also applies the rules between declarations; leave it out while more of them are to come. With `host`
    the module may describe the host's own memory, `CPU_DRAM`.
    """
    decls = [item for item in module.items if isinstance(item, ast.MemoryDecl | ast.TopologyDecl)]
    if not decls:
        return base
    measurement = measurement_of(module, reporter)
    measured = measurement is not None
    draft = _Draft(base, layer, reporter, host)
    for decl in decls:
        if isinstance(decl, ast.MemoryDecl):
            draft.add_space(space_of(decl, layer, reporter, measured))
        else:
            topology = topology_of(decl, layer, base.topologies["CPU"].arch or "", reporter, measured)
            if topology is not None:
                draft.add_topology(topology, edges_of(decl, layer, reporter, measured))
    machine = draft.finish()
    if measurement is not None:
        machine = replace(machine, measurements={**machine.measurements, measurement.span.file: measurement})
    if check:
        check_machine(machine, reporter)
    return machine


@dataclass
class _Draft:
    """A machine being extended; `finish` freezes it."""

    base: Machine
    layer: Layer
    reporter: Reporter
    host: bool
    spaces: dict[str, Space] = field(init=False)
    topologies: dict[str, Topology] = field(init=False)
    edges: list[Edge] = field(init=False)

    def __post_init__(self) -> None:
        self.spaces = dict(self.base.spaces)
        self.topologies = dict(self.base.topologies)
        self.edges = list(self.base.edges)

    def add_space(self, space: Space) -> None:
        if self.host and space.name == HOST_MEMORY:
            self._describe_host(space)
            return
        if not self._admit(space, self.spaces.get(space.name), "Memory"):
            return
        old = self.spaces.get(space.name)
        if old is not None and old.layer == "default" != self.layer:
            touching = (edge for edge in self.edges if space.name in (edge.source, edge.target))
            given_way = {id(edge) for edge in touching if edge.layer == "default"}
            self.edges = [edge for edge in self.edges if id(edge) not in given_way]
        if old is None or not old.measured:  # declared again as it was measured, it stays measured
            self.spaces[space.name] = space

    def _describe_host(self, space: Space) -> None:
        """The host's memory stays built in, with the figures of the first description of it."""
        old = self.spaces[HOST_MEMORY]
        described = old.span != NOWHERE
        if described and not _same(old, space):
            self._contradiction("Memory", old, space)
        elif not described:
            self.spaces[HOST_MEMORY] = replace(space, layer="builtin")

    def add_topology(self, topology: Topology, edges: Sequence[Edge]) -> None:
        old = self.topologies.get(topology.name)
        if self._admit(topology, old, "Topology") and (old is None or not old.measured):
            self.topologies[topology.name] = topology
        self.edges.extend(edge for edge in edges if edge not in self.edges)

    def _admit(self, new: Declared, old: Declared | None, kind: str) -> bool:
        """Whether `new` may be declared; reports why not."""
        if shadows_builtin(new.name, self.base):
            self.reporter.error(
                "E6016",
                f"{kind} {new.name} has the name of something built in",
                new.span,
                helps=[_builtin_help(new.name)],
            )
            return False
        if old is None or _same(old, new) or (old.layer == "default" and self.layer != "default"):
            return True
        self._contradiction(kind, old, new)
        return False

    def _contradiction(self, kind: str, old: Space | Topology, new: Space | Topology) -> None:
        self.reporter.error(
            "E6012",
            f"{kind} {new.name} is declared {_twice(old.span, new.span)}",
            new.span,
            labels=[(old.span, "declared here first")],
            helps=["make the declarations equal, or give one another name"],
        )

    def finish(self) -> Machine:
        gpu = _gpu_part(self.topologies.values())
        base = self.base
        return replace(
            base,
            spaces=self.spaces,
            topologies=self.topologies,
            edges=tuple(self.edges),
            owners=_owners(base, self.topologies.values()),
            topology_aliases={**base.topology_aliases, **({"GPU": gpu.name} if gpu else {})},
            space_aliases={**base.space_aliases, **({"GPU_HBM": gpu.memory} if gpu else {})},
        )


def _same(old: Declared, new: Declared) -> bool:
    def bare(thing: Declared) -> Declared:
        return replace(thing, span=NOWHERE, layer="builtin", measured=False)

    return bare(old) == bare(new)


def _twice(old: Span, new: Span) -> str:
    if old.file == new.file:
        return "twice, and differently"
    first, second = os.path.basename(old.file), os.path.basename(new.file)
    if first == second:
        first, second = old.file, new.file
    return f"differently in {first} and in {second}"


def _builtin_help(name: str) -> str:
    if name == HOST_MEMORY:
        return "describe the host's memory in a machine file of its own, and pass that with --host"
    return "choose another name; what is built in needs no declaration"


def _gpu_part(topologies: Iterable[Topology]) -> Topology | None:
    """The declared topology that `Topology::GPU` stands for: the first whose arch is a GPU's."""
    parts = (t for t in topologies if t.layer != "builtin" and t.arch in GPU_ARCHES)
    return next(parts, None)


def _owners(base: Machine, topologies: Iterable[Topology]) -> dict[str, str]:
    """Each space's one device. Declarations of the generic machine count only where nothing else claims."""
    fixed = {name: owner for name, owner in base.owners.items() if base.topologies[owner].layer == "builtin"}
    claims: dict[str, list[Topology]] = {}
    for topology in topologies:
        if topology.layer != "builtin" and topology.memory not in fixed:
            claims.setdefault(topology.memory, []).append(topology)
    owners = dict(fixed)
    for space, claimants in claims.items():
        declared = [topology for topology in claimants if topology.layer != "default"] or claimants
        if len(declared) == 1:
            owners[space] = declared[0].name
    return owners


def _existing(name: str | os.PathLike[str]) -> str:
    """The path of a machine file given by path or name. Raises E9001 if it is neither and a name of the fleet is meant."""
    path = resources.machine_file(os.fspath(name))
    near = [] if os.path.exists(path) else get_close_matches(os.fspath(name), resources.fleet(), n=1)
    if near:
        helps = (Help(f"did you mean `{near[0]}`? `vx machine list` shows the files that ship"),)
        message = f"no such machine file: {os.fspath(name)}"
        raise CompileError([Diagnostic("E9001", Level.ERROR, message, Span(str(path), 0, 0), helps=helps)])
    return str(path)


def _read_tree(path: str, reporter: Reporter, sources: SourceMap) -> list[tuple[str, ast.Module]]:
    """The modules of a machine file and of what it imports, imports first, each once."""
    found: dict[str, ast.Module] = {}
    open_files: list[str] = []

    def read(name: str, at: Span | None) -> None:
        key = os.path.realpath(name)
        if key in open_files:
            reporter.error("E6046", f"{name} imports itself", at or NOWHERE, helps=["remove this import"])
            return
        if len(open_files) > _DEEPEST_IMPORT:
            reporter.error("E6046", f"imports are more than {_DEEPEST_IMPORT} deep here", at or NOWHERE)
            return
        if any(os.path.realpath(known) == key for known in found):
            return
        text = _text(name, at, reporter, sources)
        if text is None:
            return
        module = parse_module(text, name, reporter)
        _refuse_other_items(module, reporter)
        open_files.append(key)
        for item in module.items:
            if isinstance(item, ast.ImportFile):
                read(os.path.join(os.path.dirname(name), item.path), item.span)
        open_files.pop()
        found[name] = module

    read(path, None)
    return list(found.items())


def _text(name: str, at: Span | None, reporter: Reporter, sources: SourceMap) -> str | None:
    """The text of a machine file; if an import `at` names one that cannot be read, None, and the error there."""
    try:
        return sources.load(name)
    except CompileError as error:
        if at is None:
            raise
        for found in error.diagnostics:
            reporter.add(replace(found, span=at))
        return None


def _refuse_other_items(module: ast.Module, reporter: Reporter) -> None:
    for item in module.items:
        if not isinstance(item, ast.MemoryDecl | ast.TopologyDecl | ast.MeasuredDecl | ast.ImportFile):
            reporter.error(
                "E6045",
                "a machine file has only `Memory`, `Topology` and `Measured` declarations and imports of machine files",
                item.span,
                helps=["move this into the program"],
            )

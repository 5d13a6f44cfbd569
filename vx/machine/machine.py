"""A machine: memory spaces, topologies (places that run code) and the edges between spaces.

Enters: nothing; this file only declares data and the questions one may ask of it. `builtin.py` holds the
topologies that every program has, `load.py` adds what machine files and programs declare. Sizes are exact
bytes, rates bytes per second or per cycle, latencies picoseconds, clocks hertz.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from vx.diagnostics.span import NOWHERE, Span

GPU_ARCHES = frozenset({"nvptx64", "amdgcn", "spirv64"})
"""Architectures whose code is a device image rather than host code."""
CPU_ARCHES = frozenset({"x86_64", "aarch64"})

SCOPES = ("thread", "cta", "sm", "device")
"""Who shares a space, from narrow to broad."""

_FIRST_DECLARED_ID = 3000
ID_LIMIT = 2**31

Layer = Literal["builtin", "default", "machine", "program"]
"""Who declared something. A `default` declaration (the generic machine) gives way to any other."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Bytes per second (`per` "s") or per clock cycle ("cyc")."""

    bytes: int
    per: str


@dataclass(frozen=True, slots=True)
class Table:
    """What transfers of some sizes took: (bytes, picoseconds), sizes growing, times never falling.

    Between two points time is linear in the size; above the last the last slope goes on; below the first a
    transfer takes as long as the first. `cost.py` computes with it.
    """

    points: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Measurement:
    """When and on what the figures of one machine file were measured. `part` is the device or processor, `uuid` the
    device's own, `network` where the network's transfers went."""

    date: str
    part: str
    driver: str
    tool: str
    uuid: str | None = None
    network: str | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Reserve:
    """What a deployment keeps free: `bytes`, or a share of the capacity in parts per million."""

    bytes: int | None
    ppm: int | None


@dataclass(frozen=True, slots=True)
class Space:
    """One memory space. `capacity` None is unconstrained; `granule` is the unit a tile is rounded up to.

    `fields` says where each field of the declaration stands; `measured`, whether its figures were measured.
    """

    name: str
    within: str | None = None
    capacity: int | None = None
    granule: int = 1
    bandwidth: Rate | None = None
    clock_hz: int | None = None
    replicas: int | None = None
    managed: str = "cached"
    crossing: str = "sequenced"
    scope: str | None = None
    overcommit: bool = False
    reserve: Reserve | None = None
    layer: Layer = "builtin"
    span: Span = NOWHERE
    fields: Mapping[str, Span] = field(default_factory=dict, compare=False, repr=False)
    measured: bool = False


@dataclass(frozen=True, slots=True)
class Peer:
    """The edge from one instance of a topology's memory to another instance's: `rate`, or a measured `table`."""

    rate: Rate | None
    latency_ps: int | None
    table: Table | None = None


@dataclass(frozen=True, slots=True)
class Topology:
    """A place that runs code, `instances` equal ones. `dtypes` None: no constraint on element types.

    `fields` says where each field of the declaration stands; `measured`, whether its figures (`peer`) were measured.
    """

    name: str
    memory: str
    visible: tuple[str, ...]
    arch: str | None = None
    isa: str | None = None
    dtypes: tuple[str, ...] | None = None
    instances: int = 1
    peer: Peer | None = None
    layer: Layer = "builtin"
    span: Span = NOWHERE
    fields: Mapping[str, Span] = field(default_factory=dict, compare=False, repr=False)
    measured: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """A directed transfer between two spaces; at most one of `weight` (unitless), `rate` and `table` is set.
    `measured`: it stands in a measured machine file."""

    source: str
    target: str
    weight: int | None = None
    rate: Rate | None = None
    latency_ps: int | None = None
    markers: tuple[str, ...] = ()
    layer: Layer = "builtin"
    span: Span = NOWHERE
    table: Table | None = None
    measured: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything that a program may be placed on.

    `aliases` maps another spelling of a topology or space to the declared one (`GPU` → `Device` when the
    machine's part is a GPU). `files` are the machine files read, in order; `host_declared` says whether the
    host that the accelerators hang off was described; `measurements` has, by the name of each measured file,
    when and on what it was measured.
    """

    spaces: Mapping[str, Space]
    topologies: Mapping[str, Topology]
    edges: tuple[Edge, ...]
    owners: Mapping[str, str]
    topology_aliases: Mapping[str, str]
    space_aliases: Mapping[str, str]
    files: tuple[str, ...] = ()
    host_declared: bool = False
    measurements: Mapping[str, Measurement] = field(default_factory=dict)
    _paths: dict[tuple[str, str], tuple[str, ...] | None] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    """Answers of `route`: they follow from the fields above, and programs ask again and again."""

    def topology(self, name: str) -> Topology | None:
        """The topology that `Topology::name` denotes, or None."""
        return self.topologies.get(self.topology_aliases.get(name, name))

    def space(self, name: str) -> Space | None:
        """The space that `Memory::name` denotes, or None."""
        return self.spaces.get(self.space_aliases.get(name, name))

    def space_owner(self, space: str) -> Topology | None:
        """The one topology whose memory is `space`; None if there is none or it is not unique."""
        name = self.owners.get(self.space_aliases.get(space, space))
        return None if name is None else self.topologies[name]

    def sees(self, topology: str, space: str) -> bool:
        """Whether code on `topology` may address `space` directly."""
        place, memory = self.topology(topology), self.space(space)
        return place is not None and memory is not None and memory.name in place.visible

    def route(self, source: str, target: str) -> tuple[str, ...] | None:
        """The spaces passed from `source` to `target`, both included; None if there is no path.

        The quickest path per byte over edges whose rate is known, else the one of least declared weight; see
        `route.py`, which also routes a given number of bytes.
        """
        from vx.machine.route import find_path

        if (source, target) not in self._paths:
            self._paths[source, target] = find_path(self, source, target)
        return self._paths[source, target]

    def measurement(self, thing: Space | Topology | Edge) -> Measurement | None:
        """When and on what the figures of a space, topology or edge were measured; None: they are declared."""
        return self.measurements.get(thing.span.file) if thing.measured else None

    @property
    def in_force(self) -> bool:
        """Whether a machine model constrains placement: some declared space is of device scope."""
        return any(space.scope == "device" and space.layer != "default" for space in self.spaces.values())


BUILTIN_IDS: Mapping[str, int] = {
    "CPU": 0, "Current": 0, "NPU": 100, "AccCore": 200, "AMX": 300, "ANE": 400, "GPU": 500,
    "CpuAvx512": 600, "CPU_AVX512": 600, "CpuNeon": 700, "CPU_Neon": 700,
}  # fmt: skip


def fnv1a32(name: str) -> int:
    """The 32-bit FNV-1a hash of a name's UTF-8 bytes."""
    value = 0x811C9DC5
    for byte in name.encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


def topology_id(name: str, instance: int = 0) -> int:
    """The dispatch id of instance `instance` of a topology: for the ABI, never for people to read."""
    base = BUILTIN_IDS.get(name)
    if base is None:
        base = _FIRST_DECLARED_ID + fnv1a32(name) % (ID_LIMIT - _FIRST_DECLARED_ID)
    return base + instance

"""Tiles of a type: which placed tensors a value owns, how many bytes they are, in which bank.

Enters: types of the typed program and the machine. Leaves: leaves (the placed tensors in a value), `Size`s
and `Bank`s. Host memory is never a tile: a tensor without a place costs nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

from vx.admission.plan import Bank
from vx.machine.machine import Machine, Space
from vx.sema import tree


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes before rounding, at most; `unknown` names the dimension that has no bound, and then `bytes` is 0."""

    bytes: int
    unknown: str | None = None

    def or_larger(self, other: Size) -> Size:
        """What holds either."""
        return Size(max(self.bytes, other.bytes), self.unknown or other.unknown)


EMPTY = Size(0)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A placed tensor inside a value: the fields that lead to it, and their names as `.a.b`."""

    path: tuple[int, ...]
    name: str
    tensor: tree.Tensor

    @property
    def place(self) -> tree.Place:
        assert self.tensor.place is not None
        return self.tensor.place


@dataclass(slots=True)
class Types:
    """Questions about the types of one program; answers are kept."""

    program: tree.Program
    _leaves: dict[tree.Type, tuple[Leaf, ...]] = field(default_factory=dict)
    _drops: dict[tree.Type, frozenset[str]] = field(default_factory=dict)

    def leaves(self, type_: tree.Type) -> tuple[Leaf, ...]:
        """The tiles that a value of this type owns where they can be followed: in itself and its fields."""
        if isinstance(type_, tree.Tensor):
            return () if type_.place is None else (Leaf((), "", type_),)
        if not isinstance(type_, tree.Struct):
            return ()
        if type_ not in self._leaves:
            self._leaves[type_] = tuple(self._find_leaves(type_))
        return self._leaves[type_]

    def _find_leaves(self, type_: tree.Struct) -> Iterator[Leaf]:
        for index, (name, inner) in enumerate(self.program.structs[type_.key].fields):
            for leaf in self.leaves(inner):
                yield Leaf((index, *leaf.path), f".{name}{leaf.name}", leaf.tensor)

    def drops(self, type_: tree.Type) -> frozenset[str]:
        """The functions that may run when a value of this type is dropped."""
        if not isinstance(type_, tree.Struct | tree.Enum):
            return frozenset()
        if type_ not in self._drops:
            self._drops[type_] = frozenset()
            self._drops[type_] = frozenset(self._find_drops(type_))
        return self._drops[type_]

    def _find_drops(self, type_: tree.Struct | tree.Enum) -> Iterator[str]:
        if isinstance(type_, tree.Struct):
            own = self.program.structs[type_.key]
            if own.drop is not None:
                yield own.drop
            inner = [field_type for _, field_type in own.fields]
        else:
            inner = [item for _, items in self.program.enums[type_.key].variants for item in items]
        for part in inner:
            yield from self.drops(part)

    def mentioned(self, type_: tree.Type) -> Iterator[tree.Tensor]:
        """Every placed tensor type that stands in a type, also behind references and in payloads."""
        seen: set[tree.Type] = set()
        pending = [type_]
        while pending:
            here = pending.pop()
            if here in seen:
                continue
            seen.add(here)
            match here:
                case tree.Tensor(place=place):
                    if place is not None:
                        yield here
                case tree.Ref(to=to) | tree.Ptr(to=to):
                    pending.append(to)
                case tree.Struct(key=key):
                    pending.extend(inner for _, inner in self.program.structs[key].fields)
                case tree.Enum(key=key):
                    pending.extend(inner for _, items in self.program.enums[key].variants for inner in items)


def size_of(tensor: tree.Tensor, extents: Sequence[tree.Value] = ()) -> Size:
    """Bytes of a tensor: ceil(bits * elements / 8), a bounded extent at its bound. `extents` are the values of
    the dimensions where they are written, which may be constants though the type says `?`."""
    dims: list[int] = []
    for axis, dim in enumerate(tensor.dims):
        extent = _extent(dim, extents[axis] if axis < len(extents) else None)
        if extent is None:
            return Size(0, f"dimension {axis} of {_shape(tensor)}")
        dims.append(extent)
    return Size((tree.BITS[tensor.elem] * prod(dims) + 7) // 8)


def alignment(tensor: tree.Tensor) -> int:
    """Bytes of one element, of which a tile's address is a multiple; packed elements share bytes."""
    return max(1, tree.BITS[tensor.elem] // 8)


def is_exact(tensor: tree.Tensor) -> bool:
    """Whether the number of bytes is known, not only a bound."""
    return all(isinstance(dim, int) for dim in tensor.dims)


def _extent(dim: tree.Dim, written: tree.Value | None) -> int | None:
    if isinstance(dim, int):
        return dim
    if isinstance(written, tree.Const) and isinstance(written.value, int):
        return written.value
    return dim.bound


def _shape(tensor: tree.Tensor) -> str:
    dims = ", ".join(str(dim) if isinstance(dim, int) else "?" for dim in tensor.dims)
    return f"Tensor<{tensor.elem}, [{dims}]>"


# ---- banks -------------------------------------------------------------------------------------
def bank_of(machine: Machine, place: tree.Place) -> Bank:
    """The bank where a place's bytes live."""
    space = machine.space(place.space)
    return Bank(space.name if space is not None else place.space, place.instance)


def host_space(machine: Machine) -> str:
    """The memory of host code."""
    cpu = machine.topology("CPU")
    return cpu.memory if cpu is not None else "CPU_DRAM"


def hop_bank(machine: Machine, space: str, source: tree.Place, target: tree.Place) -> Bank:
    """The bank of a space on the way: that of the device at either end to which the space belongs, else the first."""
    owner = _device_of(machine, space)
    for end in (target, source):
        if owner is not None and end.topology == owner:
            return Bank(space, end.instance)
    return Bank(space, 0)


def _device_of(machine: Machine, space: str) -> str | None:
    """The topology whose memory this space, or the nearest one around it, is."""
    seen: set[str] = set()
    here: str | None = space
    while here is not None and here not in seen:
        seen.add(here)
        owner = machine.space_owner(here)
        if owner is not None:
            return owner.name
        declared = machine.space(here)
        here = declared.within if declared is not None else None
    return None


def rounded(size: int, space: Space | None) -> int:
    """`size` up to the space's granule."""
    return multiple(size, space.granule if space is not None else 1)


def multiple(size: int, of: int) -> int:
    """The least multiple that is not below `size`."""
    return -(-size // of) * of

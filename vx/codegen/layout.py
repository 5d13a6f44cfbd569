"""How values lie in memory: sizes, alignments and offsets, the same for every 64-bit target.

Enters: types of the typed program. Leaves: bytes. A struct is laid out as C does, fields in order; an
enum is a 4-byte tag and then room for its largest payload; a tensor and a borrow of one are a descriptor
`{ptr data, [rank x i64] extents, [rank x i64] strides}`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from vx.sema.tree import BITS, Enum, EnumDef, Never, Ptr, Ref, Scalar, Struct, StructDef, Tensor, Type, Void


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes and alignment; `bytes` is a multiple of `align`."""

    bytes: int
    align: int


POINTER = Size(8, 8)


def element_bytes(elem: str) -> int:
    """Bytes of one element of a tensor in a CPU's memory; less than a byte counts as one."""
    return max(1, BITS[elem] // 8)


def descriptor_bytes(rank: int) -> int:
    """Bytes of a tensor's descriptor."""
    return 8 + 16 * rank


def is_view(type_: Type) -> bool:
    """Whether a value of the type is a tensor descriptor."""
    return isinstance(type_, Tensor) or (isinstance(type_, Ref) and isinstance(type_.to, Tensor))


def tensor_of(type_: Type) -> Tensor:
    """The tensor that a `Tensor` or a `Ref(Tensor)` is about."""
    if isinstance(type_, Ref):
        type_ = type_.to
    assert isinstance(type_, Tensor), type_
    return type_


def is_aggregate(type_: Type) -> bool:
    """Whether values of the type live in memory and not in a register."""
    return isinstance(type_, Struct | Enum)


def is_empty(type_: Type) -> bool:
    """Whether the type has no value."""
    return isinstance(type_, Void | Never)


def align_up(offset: int, align: int) -> int:
    """The least multiple of `align` that is at least `offset`."""
    return -(-offset // align) * align


@dataclass(slots=True)
class Layouts:
    """Layouts of one program's types, each computed once."""

    structs: Mapping[str, StructDef]
    enums: Mapping[str, EnumDef]
    planned: Callable[[Tensor], object] = lambda _: None
    """Not None for a tensor that lies in an arena, which nobody frees one by one."""
    _sizes: dict[Type, Size] = field(default_factory=dict)
    _drops: dict[Type, bool] = field(default_factory=dict)
    _offsets: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _payloads: dict[str, Size] = field(default_factory=dict)

    def size(self, type_: Type) -> Size:
        """Size of a value of the type in memory."""
        known = self._sizes.get(type_)
        if known is None:
            known = self._sizes[type_] = self._compute(type_)
        return known

    def _compute(self, type_: Type) -> Size:
        if isinstance(type_, Scalar):
            size = element_bytes(type_.name)
            return Size(size, size)
        if is_view(type_):
            return Size(descriptor_bytes(len(tensor_of(type_).dims)), 8)
        if isinstance(type_, Ptr | Ref):
            return POINTER
        if isinstance(type_, Struct):
            return self._sequence([t for _, t in self.structs[type_.key].fields])[1]
        if isinstance(type_, Enum):
            payload = self._payload(type_)
            return Size(
                align_up(self.payload_offset(type_) + payload.bytes, max(4, payload.align)), max(4, payload.align)
            )
        return Size(0, 1)

    def _sequence(self, types: Sequence[Type]) -> tuple[tuple[int, ...], Size]:
        offsets = []
        end, align = 0, 1
        for type_ in types:
            size = self.size(type_)
            end = align_up(end, size.align)
            offsets.append(end)
            end += size.bytes
            align = max(align, size.align)
        return tuple(offsets), Size(align_up(end, align), align)

    def _payload(self, type_: Enum) -> Size:
        known = self._payloads.get(type_.key)
        if known is None:
            sizes = [self._sequence(types)[1] for _, types in self.enums[type_.key].variants]
            align = max((s.align for s in sizes), default=1)
            known = Size(align_up(max((s.bytes for s in sizes), default=0), align), align)
            self._payloads[type_.key] = known
        return known

    def field_offsets(self, type_: Struct) -> tuple[int, ...]:
        """Byte offset of every field."""
        known = self._offsets.get(type_.key)
        if known is None:
            known = self._sequence([t for _, t in self.structs[type_.key].fields])[0]
            self._offsets[type_.key] = known
        return known

    def payload_offset(self, type_: Enum) -> int:
        """Byte offset of an enum's payload."""
        return align_up(4, self._payload(type_).align)

    def payload_offsets(self, type_: Enum, variant: int) -> tuple[int, ...]:
        """Byte offset, from the start of the enum, of every payload of a variant."""
        base = self.payload_offset(type_)
        return tuple(base + at for at in self._sequence(self.enums[type_.key].variants[variant][1])[0])

    def needs_drop(self, type_: Type) -> bool:
        """Whether something must be done when a value of the type goes."""
        known = self._drops.get(type_)
        if known is None:
            known = self._drops[type_] = self._compute_drop(type_)
        return known

    def _compute_drop(self, type_: Type) -> bool:
        if isinstance(type_, Tensor):
            return self.planned(type_) is None
        if isinstance(type_, Struct):
            definition = self.structs[type_.key]
            return definition.drop is not None or any(self.needs_drop(t) for _, t in definition.fields)
        if isinstance(type_, Enum):
            return any(self.needs_drop(t) for _, types in self.enums[type_.key].variants for t in types)
        return False

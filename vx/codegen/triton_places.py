"""Where kernels find what they read: tiles in registers, buffers in memory, entries of the parameter block."""

from __future__ import annotations

from dataclasses import dataclass, field

from vx.codegen.triton_values import AxisId, Val, type_name
from vx.kernels import ir


@dataclass(frozen=True, slots=True)
class Tile:
    """A private buffer in registers: the variable that holds it, the lanes it is private to, its padded length."""

    name: str
    axes: tuple[AxisId, ...]
    length: int
    elem: str


@dataclass(frozen=True, slots=True)
class Memory:
    """A buffer in device memory. A private one has an element of each lane side by side: `stride` lanes, of which
    this one is `lane`."""

    pointer: str
    elem: str
    stride: int = 1
    lane: Val | None = None


@dataclass(slots=True)
class Hazards:
    """What was touched since all warps of the program met: offsets by buffer."""

    loaded: dict[ir.BufferId, tuple[ir.Affine, ...]] = field(default_factory=dict)
    stored: dict[ir.BufferId, tuple[ir.Affine, ...]] = field(default_factory=dict)

    def copy(self) -> Hazards:
        return Hazards(dict(self.loaded), dict(self.stored))

    def join(self, other: Hazards) -> None:
        for mine, theirs in ((self.loaded, other.loaded), (self.stored, other.stored)):
            for buffer, offsets in theirs.items():
                mine[buffer] = (*mine.get(buffer, ()), *offsets)

    def touched(self) -> set[ir.BufferId]:
        return self.loaded.keys() | self.stored.keys()


def entry_text(number: int, elem: str) -> str:
    """A scalar of the parameter block."""
    word = "tl.load(block)" if number == 0 else f"tl.load(block + {number})"
    match elem:
        case "i64":
            return word
        case "bool":
            return f"{word}.to(tl.int8) != 0"
        case "f64":
            return f"{word}.to(tl.float64, bitcast=True)"
        case "f32":
            return f"{word}.to(tl.int32).to(tl.float32, bitcast=True)"
        case "f16" | "bf16":
            return f"{word}.to(tl.int16).to({type_name(elem)}, bitcast=True)"
        case _:
            return f"{word}.to({type_name(elem)})"

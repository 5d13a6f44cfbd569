"""What `lower_region` returns: a `Region`, and where the host finds each of its parameters."""

from __future__ import annotations

from dataclasses import dataclass

from vx.kernels import ir
from vx.sema import tree


@dataclass(frozen=True, slots=True)
class TensorBinding:
    """The data pointer of a tensor (or `Ref(Tensor)`) place of the host function."""

    place: tree.PlaceNode


@dataclass(frozen=True, slots=True)
class ExtentBinding:
    """Extent `axis` of that place's descriptor (i64)."""

    place: tree.PlaceNode
    axis: int


@dataclass(frozen=True, slots=True)
class StrideBinding:
    """Stride `axis`, in elements, of that place's descriptor (i64)."""

    place: tree.PlaceNode
    axis: int


@dataclass(frozen=True, slots=True)
class ScalarBinding:
    """The value of a scalar place, read when the region is issued."""

    place: tree.PlaceNode


@dataclass(frozen=True, slots=True)
class OutBinding:
    """The address of a scalar place that the region reads and writes."""

    place: tree.PlaceNode


def scratch_bytes(region: ir.Region) -> int:
    """What a region needs beside the tensors that it is given: the buffers that its kernels share."""
    made = (buffer for buffer in region.buffers if buffer.kind == "scratch" and buffer.length is not None)
    return sum(-(-(buffer.length or 0) * max(1, tree.BITS[buffer.elem] // 8) // 64) * 64 for buffer in made)


Binding = TensorBinding | ExtentBinding | StrideBinding | ScalarBinding | OutBinding


@dataclass(frozen=True, slots=True)
class LoweredRegion:
    """`bindings[i]` supplies `region.params[i]`. A `place` of type `Ref(Tensor)` means the tensor it
    refers to."""

    region: ir.Region
    bindings: tuple[Binding, ...]

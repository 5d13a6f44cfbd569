"""What one can say about a type by looking at it: how it is written, and whether it fits where another is expected.

Enters: types of `tree.py`. Leaves: text and answers. Nothing here knows a program; questions that need
declarations (is this enum Copy?) are answered by `context.Session`.
"""

from __future__ import annotations

import struct as _struct
from math import prod

from vx.sema import tree
from vx.sema.tree import BITS, Dim, Dyn, Never, Ptr, Ref, Scalar, Tensor, Type, Void

INTEGERS = {**tree.SIGNED, **tree.UNSIGNED}
NUMERIC = {**tree.FLOATS, **INTEGERS}


def show_place(place: tree.Place) -> str:
    """A place as a program writes it: `Topology::Device[0]`, `Memory::NIC_RAM`."""
    if not place.topology:
        return f"Memory::{place.space}"
    return f"Topology::{place.topology}[{place.instance}]"


def show_dim(dim: Dim) -> str:
    if isinstance(dim, int):
        return str(dim)
    return "?" if dim.bound is None else f"? (at most {dim.bound})"


def show_dims(dims: tuple[Dim, ...]) -> str:
    return f"[{', '.join(show_dim(d) for d in dims)}]"


def show(type_: Type) -> str:
    """The type as a program writes it."""
    match type_:
        case Void():
            return "void"
        case Never():
            return "!"
        case Scalar(name=name):
            return name
        case Ptr(to=to, mutable=mutable):
            return f"*{'mut' if mutable else 'const'} {show(to)}"
        case Ref(to=to, mutable=mutable):
            return f"&{'mut ' if mutable else ''}{show(to)}"
        case Tensor(elem=elem, dims=dims, place=place):
            where = "" if place is None else f", {show_place(place)}"
            return f"Tensor<{elem}, {show_dims(dims)}{where}>"
        case tree.Struct(key=key) | tree.Enum(key=key):
            return key


def dim_fits(actual: Dim, expected: Dim) -> bool:
    """Whether an extent may stand where `expected` is declared: static fits `?`, not the reverse."""
    if isinstance(expected, int):
        return actual == expected
    if expected.bound is None:
        return True
    most = actual if isinstance(actual, int) else actual.bound
    return most is not None and most <= expected.bound


def dims_fit(actual: tuple[Dim, ...], expected: tuple[Dim, ...]) -> bool:
    return len(actual) == len(expected) and all(map(dim_fits, actual, expected))


def dim_may_equal(a: Dim, b: Dim) -> bool:
    """Whether two extents can agree at run time, where that is checked."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    if isinstance(a, Dyn) and isinstance(b, int):
        return a.bound is None or b <= a.bound
    if isinstance(b, Dyn) and isinstance(a, int):
        return b.bound is None or a <= b.bound
    return True


def dims_may_equal(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    return len(a) == len(b) and all(map(dim_may_equal, a, b))


def merge_dim(a: Dim, b: Dim) -> Dim:
    """The extent of something that has both extents: the static one, else the smaller bound."""
    if isinstance(a, int):
        return a
    if isinstance(b, int):
        return b
    bounds = [d.bound for d in (a, b) if d.bound is not None]
    return Dyn(min(bounds) if bounds else None)


def fits(actual: Type, expected: Type) -> bool:
    """Whether a value of type `actual` may stand where `expected` is expected, without a conversion."""
    if actual == expected or isinstance(actual, Never):
        return True
    match actual, expected:
        case Tensor(), Tensor():
            same = actual.elem == expected.elem and actual.place == expected.place
            return same and dims_fit(actual.dims, expected.dims)
        case Ref(), Ref():
            return (actual.mutable or not expected.mutable) and fits(actual.to, expected.to)
        case Ptr(), Ptr():
            return (actual.mutable or not expected.mutable) and actual.to == expected.to
    return False


def is_integer(type_: Type) -> bool:
    return isinstance(type_, Scalar) and type_.name in INTEGERS


def is_float(type_: Type) -> bool:
    return isinstance(type_, Scalar) and type_.name in tree.FLOATS


def is_numeric(type_: Type) -> bool:
    return isinstance(type_, Scalar) and type_.name in NUMERIC


def tensor_of(type_: Type) -> Tensor | None:
    """The tensor type of an owned tensor, a borrow or a view."""
    if isinstance(type_, Ref):
        type_ = type_.to
    return type_ if isinstance(type_, Tensor) else None


def most_bytes(tensor: Tensor) -> int | None:
    """Bytes of a tensor with every extent at its bound; None if one has no bound."""
    most = [dim if isinstance(dim, int) else dim.bound for dim in tensor.dims]
    known = [extent for extent in most if extent is not None]
    return None if len(known) < len(most) else -(-BITS[tensor.elem] * prod(known) // 8)


def element(type_: Type) -> str | None:
    """The element type of a scalar, tensor or view."""
    if isinstance(type_, Scalar):
        return type_.name
    tensor = tensor_of(type_)
    return None if tensor is None else tensor.elem


def integer_range(name: str) -> tuple[int, int]:
    """Least and greatest value of an integer type."""
    if name in tree.SIGNED:
        half = 1 << (tree.SIGNED[name] - 1)
        return -half, half - 1
    return 0, (1 << tree.UNSIGNED[name]) - 1


def round_float(name: str, value: float) -> float:
    """`value` rounded to the nearest number of float type `name` (ties to even); overflow gives an infinity."""
    if name == "f64" or value != value or value in (float("inf"), float("-inf")):
        return value
    if name == "bf16":
        return _round_bf16(value)
    code = "<e" if name == "f16" else "<f"
    try:
        result: float = _struct.unpack(code, _struct.pack(code, value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return result


def _round_bf16(value: float) -> float:
    single = round_float("f32", value)
    if single in (float("inf"), float("-inf")):
        return single
    bits: int = _struct.unpack("<I", _struct.pack("<f", single))[0]
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    result: float = _struct.unpack("<f", _struct.pack("<I", rounded))[0]
    return result

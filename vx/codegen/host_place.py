"""Places that are not tensors: addresses, reads, moves and borrows.

Enters: place nodes and `Read`/`AddrOf`. Leaves: addresses and values. The windows of tensors are in
`host_tensor.py`.
"""

from __future__ import annotations

from vx.codegen.host_drop import drop_fields_except, mark_moved
from vx.codegen.host_function import Emitter, InMemory, Operand
from vx.codegen.host_tensor import element, index_i64, settle
from vx.codegen.layout import is_aggregate, is_view
from vx.codegen.scan import field_path
from vx.sema import tree
from vx.sema.tree import PlaceNode


def local_address(fn: Emitter, node: tree.Local) -> str:
    slot = fn.slots[node.id]
    assert isinstance(slot, InMemory), f"{fn.function.locals[node.id].name} has no address"
    return slot.address


def field_address(fn: Emitter, node: tree.Field) -> str:
    base = node.base
    assert isinstance(base.type, tree.Struct)
    address = fn.address(base)
    return fn.at_offset(address, fn.module.layouts.field_offsets(base.type)[node.index])


def deref_address(fn: Emitter, node: tree.Deref) -> str:
    return fn.scalar(node.ref)


def temp_address(fn: Emitter, node: tree.Temp) -> str:
    """Storage of a temporary, dropped at the end of its statement."""
    type_ = node.value.type
    if is_aggregate(type_):
        address = fn.scalar(node.value)
        fn.defer(lambda: fn.drop(address, type_))
        return address
    address = fn.storage(type_)
    value = fn.value(node.value)
    fn.store(value, type_, address)
    fn.defer(lambda: fn.drop(value, type_))
    return address


def is_raw_index(node: tree.Index) -> bool:
    """`p[i]` of a raw pointer, as opposed to indexing the tensor that it points to."""
    base = node.base
    return isinstance(base, tree.Deref) and isinstance(base.ref.type, tree.Ptr) and node.type == base.type


def index_address(fn: Emitter, node: tree.Index) -> str:
    if not is_raw_index(node):
        return element(fn, fn.tensor_place(node), node.span)
    assert isinstance(node.base, tree.Deref)
    pointer = fn.scalar(node.base.ref)
    at = node.indices[0]
    assert isinstance(at, tree.At)
    number = index_i64(fn, at.index)
    size = fn.module.layouts.size(node.type)
    return fn.op(f"getelementptr [{size.bytes} x i8], ptr {pointer}, i64 {number}")


def held(fn: Emitter, place: PlaceNode) -> Operand:
    """The value at a place, which stays there; of an aggregate, the address of a copy."""
    if isinstance(place, tree.Local):
        slot = fn.slots[place.id]
        return fn.load(place.type, slot.address) if isinstance(slot, InMemory) else slot
    if isinstance(place.type, tree.Tensor):
        return settle(fn, fn.tensor_place(place), place.span)
    return fn.load(place.type, fn.address(place))


def read(fn: Emitter, node: tree.Read) -> Operand:
    if not node.move:
        return fn.value(node.place.value) if isinstance(node.place, tree.Temp) else held(fn, node.place)
    path: list[int] = []
    root = node.place
    while isinstance(root, tree.Field):
        path.insert(0, root.index)
        root = root.base
    if isinstance(root, tree.Temp):
        return _move_out_of_temp(fn, root, tuple(path), node)
    value = held(fn, node.place)
    mark_moved(fn, node.place)
    return value


def read_into(fn: Emitter, node: tree.Read, address: str | None) -> None:
    """A read whose destination is known: aggregates are copied once."""
    local_path = field_path(node.place) is not None
    if address is None or not is_aggregate(node.type) or not local_path:
        value = read(fn, node)
        if address is not None:
            fn.store(value, node.type, address)
        return
    fn.copy(address, fn.address(node.place), node.type)
    if node.move:
        mark_moved(fn, node.place)


def _move_out_of_temp(fn: Emitter, temp: tree.Temp, path: tuple[int, ...], node: tree.Read) -> Operand:
    """Take one part of a temporary; the rest is dropped at once."""
    if not path:
        return fn.value(temp.value)
    address = fn.scalar(temp.value)
    offset, type_ = 0, temp.value.type
    for index in path:
        assert isinstance(type_, tree.Struct)
        offset += fn.module.layouts.field_offsets(type_)[index]
        type_ = fn.module.program.structs[type_.key].fields[index][1]
    value = fn.load(node.type, fn.at_offset(address, offset))
    drop_fields_except(fn, temp.value.type, address, path)
    return value


def address_of(fn: Emitter, node: tree.AddrOf) -> Operand:
    place = node.place
    if is_view(node.type):
        if isinstance(place.type, tree.Ref):
            return held(fn, place)
        return settle(fn, fn.tensor_place(place), place.span)
    if isinstance(place.type, tree.Tensor) and isinstance(node.type, tree.Ptr) and node.type.to != place.type:
        return settle(fn, fn.tensor_place(place), place.span).data
    return fn.address(place)

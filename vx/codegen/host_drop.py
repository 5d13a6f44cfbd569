"""Ownership in host code: locals come to life, are moved out of, are replaced and are dropped.

Enters: locals and places. Leaves: drop flags, calls of drop functions, and the drop functions themselves
(one for each type that needs one). A local has flags only for the paths that are moved out of somewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vx.codegen.host_arena import refuse_hidden
from vx.codegen.host_function import Emitter, InMemory, Operand, Slot, View
from vx.codegen.host_module import Module
from vx.codegen.layout import is_aggregate
from vx.codegen.scan import Path, field_path
from vx.sema import tree
from vx.sema.tree import LocalId, PlaceNode, Type, Value


# ---- locals --------------------------------------------------------------------------------------
def needs_memory(fn: Emitter, local: LocalId) -> bool:
    """Whether a local must have an address."""
    return is_aggregate(fn.type_of(local)) or local in fn.usage.in_memory


def bind(fn: Emitter, local: LocalId, slot: Slot) -> None:
    """A local lives from here to the end of the innermost scope."""
    fn.slots[local] = slot
    type_ = fn.type_of(local)
    if not fn.module.layouts.needs_drop(type_):
        return
    for path in sorted(fn.usage.moved.get(local, ())):
        flag = fn.flags.get((local, path))
        if flag is None:
            fn.count += 1
            flag = fn.flags[local, path] = f"%a{fn.count}"
            fn.allocas.append(f"  {flag} = alloca i1")
        fn.line(f"store i1 true, ptr {flag}")
    fn.defer(lambda: _drop_path(fn, local, (), type_, slot))


def bind_value(fn: Emitter, local: LocalId, value: Operand) -> None:
    """Bind a local to a value that is owned by nobody else."""
    type_ = fn.type_of(local)
    if is_aggregate(type_):
        assert isinstance(value, str)
        bind(fn, local, InMemory(value))
    elif needs_memory(fn, local):
        address = fn.storage(type_)
        fn.store(value, type_, address)
        bind(fn, local, InMemory(address))
    else:
        bind(fn, local, value)


def bind_expression(fn: Emitter, local: LocalId, node: Value) -> None:
    """`let`: temporaries of the initialiser go at its end, unless the local may refer to them."""
    if isinstance(fn.type_of(local), tree.Ref):
        bind_value(fn, local, fn.value(node))
        return
    if needs_memory(fn, local):
        address = fn.storage(fn.type_of(local))
        with fn.scope():
            fn.into(node, address)
        bind(fn, local, InMemory(address))
        return
    with fn.scope():
        value = fn.value(node)
    bind(fn, local, value)


def _set_flag(fn: Emitter, local: LocalId, path: Path, value: bool) -> None:
    flag = fn.flags.get((local, path))
    if flag is not None:
        fn.line(f"store i1 {'true' if value else 'false'}, ptr {flag}")


def mark_moved(fn: Emitter, place: PlaceNode) -> None:
    """The value of a place has gone; what is behind a pointer is its owner's affair."""
    found = field_path(place)
    if found is not None:
        _set_flag(fn, *found, False)


def _mark_alive(fn: Emitter, local: LocalId, path: Path) -> None:
    for moved in fn.usage.moved.get(local, ()):
        if moved[: len(path)] == path:
            _set_flag(fn, local, moved, True)


@contextmanager
def _guarded(fn: Emitter, flag: str | None) -> Iterator[None]:
    """Do what is inside only if the flag is set."""
    if flag is None:
        yield
        return
    then, after = fn.fresh_label(), fn.fresh_label()
    fn.branch(fn.op(f"load i1, ptr {flag}"), then, after)
    fn.label(then)
    yield
    fn.label(after)


def _drop_path(fn: Emitter, local: LocalId, path: Path, type_: Type, where: Slot) -> None:
    """Drop what is still there of a local's path."""
    if not fn.module.layouts.needs_drop(type_):
        return
    moved = fn.usage.moved.get(local, frozenset())
    with _guarded(fn, fn.flags.get((local, path))):
        if not any(len(m) > len(path) and m[: len(path)] == path for m in moved):
            drop_at(fn, where, type_)
            return
        assert isinstance(type_, tree.Struct) and isinstance(where, InMemory)
        offsets = fn.module.layouts.field_offsets(type_)
        for index, (_, field_type) in enumerate(fn.module.program.structs[type_.key].fields):
            if fn.module.layouts.needs_drop(field_type):
                address = fn.at_offset(where.address, offsets[index])
                _drop_path(fn, local, (*path, index), field_type, InMemory(address))


def drop_at(fn: Emitter, where: Slot, type_: Type) -> None:
    """Drop the value in a slot."""
    if not isinstance(where, InMemory):
        drop_value(fn, where, type_)
    elif isinstance(type_, tree.Tensor):
        data = fn.op(f"load ptr, ptr {where.address}")
        fn.line(f"call void {fn.module.runtime('vx_free')}(ptr {data})")
    else:
        drop_value(fn, where.address, type_)


def drop_value(fn: Emitter, value: Operand, type_: Type) -> None:
    """Drop an owned tensor, or an aggregate at an address."""
    if isinstance(value, View):
        fn.line(f"call void {fn.module.runtime('vx_free')}(ptr {value.data})")
    else:
        fn.line(f"call void {fn.module.drop(type_)}(ptr {value})")


def drop_fields_except(fn: Emitter, type_: Type, address: str, path: Path) -> None:
    """Drop every field of a struct but the one at `path`."""
    if not path:
        return
    assert isinstance(type_, tree.Struct)
    offsets = fn.module.layouts.field_offsets(type_)
    for index, (_, field_type) in enumerate(fn.module.program.structs[type_.key].fields):
        if not fn.module.layouts.needs_drop(field_type):
            continue
        there = fn.at_offset(address, offsets[index])
        if index == path[0]:
            drop_fields_except(fn, field_type, there, path[1:])
        else:
            drop_at(fn, InMemory(there), field_type)


# ---- assignment ------------------------------------------------------------------------------------
def is_raw(place: PlaceNode) -> bool:
    """Whether a place is reached through a raw pointer, where assignment drops nothing."""
    while isinstance(place, tree.Field | tree.Index):
        place = place.base
    return isinstance(place, tree.Deref) and isinstance(place.ref.type, tree.Ptr)


def replace(fn: Emitter, place: PlaceNode, value: Operand) -> None:
    """`place = value`: the old value is dropped, the new one moves in."""
    type_ = place.type
    address = fn.address(place)
    if fn.module.layouts.needs_drop(type_) and not is_raw(place):
        found = field_path(place)
        if found is None:
            drop_at(fn, InMemory(address), type_)
        else:
            _drop_path(fn, *found, type_, InMemory(address))
            fn.store(value, type_, address)
            _mark_alive(fn, *found)
            return
    fn.store(value, type_, address)


# ---- drop functions ----------------------------------------------------------------------------------
def drop_function(module: Module, type_: Type) -> str:
    """The text of the function that drops a value of the type in memory."""
    lines = [f"define internal void {module.drop(type_)}(ptr %p) nounwind {{"]
    if isinstance(type_, tree.Tensor):
        lines += _call_free(module, "%p", 0)
    elif isinstance(type_, tree.Struct):
        definition = module.program.structs[type_.key]
        if definition.drop is not None:
            span = module.program.functions[definition.drop].span
            refuse_hidden(module, definition.drop, "a destructor has no frame to place them in", span)
            lines.append(f"  call void {module.function(definition.drop)}(ptr %p)")
        fields = zip(module.layouts.field_offsets(type_), (t for _, t in definition.fields), strict=True)
        lines += _drop_parts(module, fields)
    elif isinstance(type_, tree.Enum):
        lines += _drop_variants(module, type_)
    return "\n".join([*lines, "  ret void", "}"])


def _call_free(module: Module, address: str, number: int) -> list[str]:
    return [
        f"  %d{number} = load ptr, ptr {address}",
        f"  call void {module.runtime('vx_free')}(ptr %d{number})",
    ]


def _drop_parts(module: Module, parts: Iterator[tuple[int, Type]], prefix: str = "f") -> list[str]:
    lines = []
    for number, (offset, type_) in enumerate(parts):
        if module.layouts.needs_drop(type_):
            name = f"%{prefix}{number}"
            lines.append(f"  {name} = getelementptr inbounds i8, ptr %p, i64 {offset}")
            lines.append(f"  call void {module.drop(type_)}(ptr {name})")
    return lines


def _drop_variants(module: Module, type_: tree.Enum) -> list[str]:
    variants = module.program.enums[type_.key].variants
    owning = [v for v, (_, types) in enumerate(variants) if any(map(module.layouts.needs_drop, types))]
    cases = " ".join(f"i32 {v}, label %v{v}" for v in owning)
    lines = ["  %tag = load i32, ptr %p", f"  switch i32 %tag, label %done [ {cases} ]"]
    for v in owning:
        parts = zip(module.layouts.payload_offsets(type_, v), variants[v][1], strict=True)
        lines += [f"v{v}:", *_drop_parts(module, parts, f"v{v}."), "  br label %done"]
    return [*lines, "done:"]

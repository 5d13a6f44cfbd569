"""Where host code puts placed tensors: at the offsets of the Plan, in arenas that a role takes when it is entered.

Enters: the plans of the program's roles. Leaves: addresses. A function whose frame is not empty is given the start
of its frame in every bank, and the addresses of the tiles of its result, as parameters after its own; it hands
them on at every call. A bank whose arena has no known size (an extent without a bound in a memory without a
capacity) is not planned: its tiles come from the heap, one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from vx.admission import tiles
from vx.admission.plan import Bank, Call, Frame, Home, Kind, Plan
from vx.codegen import host_device
from vx.diagnostics.report import CompileError, Diagnostic, Level
from vx.diagnostics.span import Span
from vx.sema import tree

if TYPE_CHECKING:
    from vx.codegen.host_function import Emitter
    from vx.codegen.host_module import Module
    from vx.machine.machine import Machine

Bases = Mapping[Bank, str]


@dataclass(frozen=True, slots=True)
class FrameMap:
    """A frame by the nodes of the function: `homes` of what they make, `calls` of theirs."""

    frame: Frame
    banks: tuple[Bank, ...]
    homes: Mapping[tuple[int, Kind, int], Home]
    calls: Mapping[int, Call]


@dataclass(frozen=True, slots=True)
class Arenas:
    """What the plans of all roles say. `banks` are those planned, `totals` their bytes by role."""

    machine: Machine | None = None
    banks: frozenset[Bank] = frozenset()
    frames: Mapping[str, FrameMap] = field(default_factory=dict)
    totals: Mapping[str, Mapping[Bank, int]] = field(default_factory=dict)
    floors: Mapping[str, Mapping[Bank, int]] = field(default_factory=dict)
    """Where the frames start in each arena, above the workspace."""
    reserves: Mapping[str, Mapping[Bank, int]] = field(default_factory=dict)

    def bank(self, type_: tree.Type) -> Bank | None:
        """The planned bank of a placed tensor; None for any other type."""
        if not self.banks or not isinstance(type_, tree.Tensor) or type_.place is None:
            return None
        assert self.machine is not None
        bank = tiles.bank_of(self.machine, type_.place)
        return bank if bank in self.banks else None

    def hidden(self, types: tiles.Types, function: tree.Function) -> tuple[tuple[Bank, ...], int]:
        """What a function is given beside its parameters: the banks of its frame, and how many result tiles."""
        mapped = self.frames.get(function.key)
        if mapped is None:
            return (), 0
        return mapped.banks, len(types.leaves(function.ret))


def arenas_of(plans: Sequence[Plan], machine: Machine | None) -> Arenas:
    """The arenas of a program. A function has the same frame in every role."""
    known = {arena.bank for plan in plans for arena in plan.arenas if arena.bytes is not None}
    open_ = {arena.bank for plan in plans for arena in plan.arenas if arena.bytes is None}
    banks = frozenset(known - open_)
    frames = {frame.function: _mapped(frame, banks) for plan in plans for frame in plan.frames}
    totals = {
        plan.frames[-1].function: {
            arena.bank: arena.bytes for arena in plan.arenas if arena.bank in banks and arena.bytes is not None
        }
        for plan in plans
    }
    entered = [(plan.frames[-1].function, plan.arenas) for plan in plans]
    floors = {role: {arena.bank: arena.workspace for arena in arenas} for role, arenas in entered}
    reserves = {role: {arena.bank: arena.reserve for arena in arenas} for role, arenas in entered}
    return Arenas(machine, banks, frames, totals, floors, reserves)


def _mapped(frame: Frame, banks: frozenset[Bank]) -> FrameMap:
    homes = {(id(home.node), home.kind, home.number): home for home in frame.homes}
    calls = {id(call.node): call for call in frame.calls if call.node is not None}
    return FrameMap(frame, tuple(sorted(bank for bank in frame.total if bank in banks)), homes, calls)


# ---- a function that is written ----------------------------------------------------------------------
def parameters(fn: Emitter) -> Iterator[str]:
    """The hidden parameters of the function, in order."""
    banks, results = fn.module.arenas.hidden(fn.module.tiles, fn.function)
    for number in range(len(banks)):
        yield f"ptr %frame{number}"
    for number in range(results):
        yield f"ptr %home{number}"


def tile(fn: Emitter, node: tree.Value | tree.Land, number: int = 0, kind: Kind = Kind.TILE) -> str | None:
    """The address of a tile that a node makes; None if its bank is not planned."""
    mapped = fn.module.arenas.frames.get(fn.function.key)
    home = None if mapped is None else mapped.homes.get((id(node), kind, number))
    if mapped is None or home is None:
        return None
    if home.slot is None:
        return f"%home{home.result}"
    slot = mapped.frame.slots[home.slot]
    if slot.bank not in mapped.banks:
        return None
    return fn.at_offset(f"%frame{mapped.banks.index(slot.bank)}", slot.offset)


def arguments(fn: Emitter, node: tree.Call) -> list[str]:
    """The hidden arguments of a call."""
    callee = fn.module.program.functions[node.key]
    banks, results = fn.module.arenas.hidden(fn.module.tiles, callee)
    if not banks and not results:
        return []
    if node.key in fn.module.arenas.totals and fn.function.key not in fn.module.arenas.frames:
        from vx.codegen.host_caller import note_place

        note_place(fn, node.span)
        bases, leaving = enter(fn.module, node.key, fn.line, fn.op)
        for text in leaving:
            fn.defer(partial(fn.line, text))
        return [f"ptr {base}" for base in bases]
    own = fn.module.arenas.frames.get(fn.function.key)
    call = own.calls.get(id(node)) if own is not None else None
    if own is None or (call is None and banks):
        raise _fault(f"the plan has no frame for the call of {callee.name}", node.span)
    starts = [fn.at_offset(f"%frame{own.banks.index(bank)}", call.base[bank]) for bank in banks if call is not None]
    homes = [tile(fn, node, number) or "null" for number in range(results)]
    return [f"ptr {address}" for address in (*starts, *homes)]


# ---- roles -------------------------------------------------------------------------------------------
def enter(
    module: Module, role: str, line: Callable[[str], None], op: Callable[[str], str]
) -> tuple[list[str], list[str]]:
    """Take the arenas of a role: their addresses in the order of its parameters, and the instructions that give them
    back. `line` writes an instruction, `op` one with a result, whose name it returns."""
    mapped = module.arenas.frames.get(role)
    remote = host_device.role_banks(module, role)
    leaving: list[str] = []
    if remote:
        host_device.set_driver(module, role, line, op)
        line(host_device.open_devices(module, role))
        for index, device in enumerate(host_device.role_devices(module, role)):
            line(f"store i32 {index}, ptr {host_device.device_global(device)}")
        leaving.append(f"call i32 {host_device.entry(module, 'vx_close')}()")
    bases = []
    for bank in mapped.banks if mapped is not None else ():
        size, floor = module.arenas.totals[role][bank], module.arenas.floors[role][bank]
        if bank in remote:
            start = op(f"call ptr {host_device.entry(module, 'vx_tile')}(i32 {remote.index(bank)}, i64 0, i64 {size})")
            device = module.remote.devices.index(module.remote.banks[bank])
            line(f"store ptr {start}, ptr {host_device.error_global(device)}")
        else:
            start = op(f"call ptr {module.runtime('vx_alloc')}(i64 {size})")
            leaving.append(f"call void {module.runtime('vx_free')}(ptr {start})")
        bases.append(op(f"getelementptr inbounds i8, ptr {start}, i64 {floor}") if floor else start)
    return bases, leaving


def refuse_hidden(module: Module, key: str, what: str, span: Span) -> None:
    """E6034 for a function that places tiles where nobody can give it its frame."""
    function = module.program.functions[key]
    if any(module.arenas.hidden(module.tiles, function)):
        message = f"`{function.name}` places tensors, and {what}"
        raise CompileError([Diagnostic("E6034", Level.ERROR, message, span)])


def _fault(message: str, span: Span) -> CompileError:
    return CompileError([Diagnostic("E9029", Level.ERROR, f"compiler fault: {message}", span)])

"""What admission has to say: the analysis of a role compared with the machine, as diagnostics.

Enters: the peaks of a role's functions. Leaves: diagnostics with the figures behind them (`Misfit`), the reasons
why nothing is proven, and the banks whose need is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vx.admission import tiles
from vx.admission.peaks import Peak, peaks
from vx.admission.plan import Arena, Bank, Limits, Misfit, Slot
from vx.admission.slots import Lost, Placing
from vx.admission.tiles import Types
from vx.diagnostics.report import Label, Reporter
from vx.diagnostics.span import Span
from vx.machine.machine import Machine
from vx.sema import tree

MAX_LABELS = 8
"""Tiles pointed at in one message; the others are counted."""


@dataclass(slots=True)
class Findings:
    """Collects the diagnostics of one role. `found` are its functions, callees first."""

    program: tree.Program
    machine: Machine
    found: dict[str, Peak]
    reporter: Reporter = field(default_factory=Reporter)
    misfits: list[Misfit] = field(default_factory=list)
    unverified: list[str] = field(default_factory=list)
    open: frozenset[Bank] = frozenset()
    """Banks whose need is unbounded or unknown."""

    # ---- the machine ----
    def capacity(self, bank: Bank) -> int | None:
        space = self.machine.space(bank.space)
        return space.capacity if space is not None else None

    def overcommitted(self, bank: Bank) -> bool:
        space = self.machine.space(bank.space)
        return space is not None and space.overcommit

    def _too_large(self, bank: Bank, needed: int) -> bool:
        capacity = self.capacity(bank)
        return capacity is not None and needed > capacity

    def _rounded(self, bank: Bank, size: int) -> int:
        return tiles.rounded(size, self.machine.space(bank.space))

    def _name(self, key: str) -> str:
        return f"`{self.program.functions[key].name}`"

    # ---- ownership ----
    def ownership(self) -> None:
        """E6034, E6035."""
        lost = [(key, item) for key, peak in self.found.items() for item in peak.slots.lost]
        for key, item in [(key, item) for key, item in lost if not item.late] or lost:
            self._lost(key, item)
        for key, peak in self.found.items():
            for shared in peak.slots.shared:
                span, labels = self._in_program(key, shared.span)
                self.reporter.error(
                    "E6035",
                    shared.message,
                    span,
                    labels=[*labels, *([(shared.other, shared.other_text)] if shared.other != shared.span else [])],
                    notes=["a value that is moved keeps its storage, so all its owners are one slot, for one tile"],
                    helps=[
                        "give each its own name and use them apart, or copy into storage that exists: `x = transfer(…)`"
                    ],
                )

    def _in_program(self, key: str, span: Span) -> tuple[Span, list[tuple[Span, str]]]:
        """Where to point at for what is found in a function: in one of the library, at the program's call that led
        there, with a label at the place itself."""
        asked = self.program.functions[key].asked
        return (span, []) if asked is None else (asked, [(span, "reached from that call")])

    def _lost(self, key: str, item: Lost) -> None:
        if item.late:
            message = f"a placed value is taken from {item.where}, where its owner cannot be followed"
        else:
            name = item.name if " " in item.name else f"`{item.name}`"
            message = f"{name} would be owned {_where(item.where)}, where it cannot be followed"
        span, labels = self._in_program(key, item.span)
        self.reporter.error(
            "E6034",
            message,
            span,
            labels=labels,
            notes=["placed values are owned by bindings, parameters, and fields of structs that these own"],
            helps=["keep it in a binding or struct, and pass `&` to it"],
        )

    def outside_roles(self, limits: Limits) -> None:
        """E6036: what `main` places without entering a role."""
        if not self.program.roles:
            return
        roles = frozenset(self.program.roles)
        around = peaks(self.program, self.machine, limits, self.program.main, roles)
        called_by_c = [found for _, _, found in self._callbacks(around, limits, roles)]
        for placing in _placings(around, *called_by_c):
            message = f"{_quoted(placing.name)} is placed in {placing.bank}, but no role is running here"
            self._outside(message, placing.span, "place it in a `role fn`, or in a function that only roles call")

    def role_result(self, role: tree.Function, types: Types) -> None:
        """E6036: what a role leaves to `main`, where its memory is gone."""
        for leaf in types.leaves(role.ret) if role.is_role else ():
            bank = tiles.bank_of(self.machine, leaf.place)
            message = f"the result{leaf.name} of role `{role.name}` is in {bank}, which is given back when it is left"
            self._outside(message, role.span, "bring it to host memory: `transfer(…, Memory::CPU_DRAM)`")

    def _outside(self, message: str, span: Span, help_: str) -> None:
        note = "a device's memory is taken when a role is entered and given back when it is left"
        self.reporter.error("E6036", message, span, notes=[note], helps=[help_])

    # ---- what is not known ----
    def unknown(self) -> None:
        """W1029: extents without a bound, in spaces with a capacity."""
        open_ = set()
        for _, placing in self._all_placings():
            if placing.size.unknown is None:
                continue
            open_.add(placing.bank)
            if self.capacity(placing.bank) is not None:
                self._unverified(f"{_quoted(placing.name)} in {placing.bank}: {placing.size.unknown}", placing.span)
        self.open |= open_

    def _unverified(self, what: str, span: Span) -> None:
        self.unverified.append(what)
        self.reporter.warning(
            "W1029",
            f"capacity is not verified: {what} has no bound that is known when compiling",
            span,
            helps=[
                "use a tensor of the largest extent and keep the length beside it, or a slice of one",
                "or bound the length where the function is declared: `requires n <= 512`",
            ],
        )

    def callbacks(self, limits: Limits) -> None:
        """W1029: functions given to C as pointers, if calling them would place something."""
        for key, span, reached in self._callbacks(self.found, limits):
            if any(self.capacity(placing.bank) is not None for placing in _placings(reached)):
                self._unverified(f"how often {self._name(key)}, which places tiles, is called by C", span)

    def _callbacks(
        self, found: Mapping[str, Peak], limits: Limits, closed: frozenset[str] = frozenset()
    ) -> Iterator[tuple[str, Span, dict[str, Peak]]]:
        """Functions whose address is taken, also by one another: each with what it reaches, once."""
        pending, seen = [found], set(closed)
        while pending:
            for peak in pending.pop().values():
                for key, span in peak.slots.lowered.callbacks:
                    if key not in seen:
                        seen.add(key)
                        reached = peaks(self.program, self.machine, limits, key, closed)
                        pending.append(reached)
                        yield key, span, reached

    # ---- single tiles ----
    def single_tiles(self, types: Types) -> None:
        """E6009, where a tile is placed, and for types of parameters and results that were not placed here."""
        told: set[tuple[Bank, int]] = set()
        for key, placing in self._all_placings():
            told.update(self._single(key, placing))
        for key in self.found:
            for name, type_, span in _signature(self.program.functions[key]):
                for tensor in types.mentioned(type_):
                    assert tensor.place is not None
                    bank, size = tiles.bank_of(self.machine, tensor.place), tiles.size_of(tensor)
                    if (bank, size.bytes) not in told:
                        told.update(self._single(key, Placing(bank, size, name, span)))

    def _single(self, key: str, placing: Placing) -> Iterator[tuple[Bank, int]]:
        needed = self._rounded(placing.bank, placing.size.bytes)
        if not self._too_large(placing.bank, needed):
            return
        yield placing.bank, placing.size.bytes
        self._misfit("E6009", key, placing.bank, needed, 1, placing.span)
        self.reporter.error(
            "E6009",
            f"{_quoted(placing.name)} needs {needed} bytes in {placing.bank}, whose capacity is "
            f"{self.capacity(placing.bank)} bytes",
            placing.span,
            notes=[f"{needed - (self.capacity(placing.bank) or 0)} bytes are missing"],
            helps=["make it smaller, use a narrower element type, or split it over instances"],
        )

    def _all_placings(self) -> Iterator[tuple[str, Placing]]:
        for key, peak in self.found.items():
            for placing in peak.slots.placings:
                yield key, placing

    # ---- frames and calls ----
    def frames(self) -> None:
        """E6010, E6027, E6028, or W1028 for spaces that may be overcommitted."""
        for key, peak in self.found.items():
            for bank in sorted(peak.total):
                if self._too_large(bank, peak.layout.own.get(bank, 0)):
                    self._frame(key, peak, bank)
                elif self._too_large(bank, peak.total[bank]):
                    self._calls(key, peak, bank)
        for cycle in {peak.cycle: None for peak in self.found.values() if peak.cycle}:
            self._cycle(cycle)

    def _frame(self, key: str, peak: Peak, bank: Bank) -> None:
        present = [placed for placed in peak.layout.present(bank, peak.layout.peak_at(bank)) if placed.bytes]
        if len(present) < 2:
            return
        last = present[-1].slot.span
        self._overflow(
            "E6010",
            key,
            bank,
            peak.layout.own[bank],
            f"{self._name(key)} holds {len(present)} tiles in {bank} at once",
            [(placed.slot.name, placed.bytes, placed.slot.span) for placed in present],
            last,
        )

    def _calls(self, key: str, peak: Peak, bank: Bank) -> None:
        callees = [self.found[site.callee] for site in peak.slots.lowered.sites if site.callee in self.found]
        if any(self._too_large(bank, callee.total.get(bank, 0)) for callee in callees):
            return
        site = peak.through[bank]
        assert site is not None
        held = peak.layout.present(bank, site.at)
        below = self.found[site.callee].total[bank]
        self._overflow(
            "E6027",
            key,
            bank,
            peak.total[bank],
            f"{self._name(key)} holds {peak.total[bank] - below} bytes in {bank} while it calls "
            f"{self._name(site.callee)}, which needs {below}",
            [(placed.slot.name, placed.bytes, placed.slot.span) for placed in held],
            site.span,
        )

    def _cycle(self, cycle: frozenset[str]) -> None:
        members = [key for key in self.found if key in cycle]
        banks = sorted({bank for key in members for bank in self.found[key].layout.own})
        for bank in banks:
            held = sum(self.found[key].layout.own.get(bank, 0) for key in members)
            if not held:
                continue
            self.open |= {bank}
            if self.capacity(bank) is None:
                continue
            key = next(key for key in members if self.found[key].layout.own.get(bank, 0))
            site = next(site for site in self.found[key].slots.lowered.sites if site.callee in cycle)
            names = ", ".join(self._name(member) for member in members)
            again = "calls itself" if len(members) == 1 else "call one another"
            present = self.found[key].layout.present(bank, self.found[key].layout.peak_at(bank))
            slots = [(placed.slot.name, placed.bytes, placed.slot.span) for placed in present]
            message = f"{names} {again}, each time with {held} bytes in {bank}, and nothing says how often"
            self._overflow("E6028", key, bank, held, message, slots, site.span)

    def _overflow(
        self,
        code: str,
        function: str,
        bank: Bank,
        required: int,
        message: str,
        slots: Sequence[tuple[str, int, Span]],
        span: Span,
    ) -> None:
        available = self.capacity(bank) or 0
        labels = _labels(slots, span)
        notes = [f"{required} bytes are required, {available} are there, {required - available} are missing"]
        if code == "E6028":
            notes = [f"{bank} has {available} bytes"]
        hidden = len({at for _, _, at in slots}) - MAX_LABELS
        if hidden > 0:
            notes.append(f"{len(slots)} tiles coexist; the places of the largest are shown, {hidden} more are not")
        if self.overcommitted(bank):
            notes.append(f"{bank.space} is declared `overcommit`, so this is allowed")
            self.reporter.warning("W1028", f"{message}: more than it has", span, labels, notes)
            return
        self._misfit(code, function, bank, required, len(slots), span)
        self.reporter.error(code, message, span, labels, notes, _HELPS[code])

    def _misfit(self, code: str, function: str, bank: Bank, required: int, count: int, span: Span) -> None:
        available = self.capacity(bank) or 0
        self.misfits.append(Misfit(code, function, bank, required, available, count, span))

    # ---- the whole role ----
    def arenas(self, arenas: Iterable[Arena], role: tree.Function) -> None:
        """E6037, and E6027 where only the library workspace makes a role too large."""
        for arena in arenas:
            margin, kept = arena.device_margin, arena.deployment_margin
            if margin is None or kept is None or arena.bytes is None:
                continue
            slots = [(slot.name, slot.bytes, slot.span) for slot in _largest(arena.peak)]
            if margin < 0 <= margin + arena.workspace:
                message = f"role `{role.name}` needs {arena.bytes} bytes in {arena.bank}, of which {arena.workspace} are library workspace"
                self._overflow("E6027", role.key, arena.bank, arena.bytes, message, slots, role.span)
            elif margin >= 0 > kept and not self.overcommitted(arena.bank):
                self._deployment(arena, role)

    def _deployment(self, arena: Arena, role: tree.Function) -> None:
        assert arena.bytes is not None and arena.capacity is not None
        left = arena.capacity - arena.reserve
        self.misfits.append(Misfit("E6037", role.key, arena.bank, arena.bytes, left, len(arena.peak), role.span))
        self.reporter.error(
            "E6037",
            f"role `{role.name}` needs {arena.bytes} bytes in {arena.bank}, and a deployment has {left}",
            role.span,
            notes=[
                f"{arena.capacity} bytes less a reserve of {arena.reserve}; {arena.bytes - left} are missing",
                f"it fits the device itself, with {arena.capacity - arena.bytes} bytes to spare",
            ],
            helps=["make it smaller, or state a smaller reserve if the deployment keeps less"],
        )


_HELPS = {
    "E6010": ["let tiles end sooner: blocks `{ … }` that follow one another share storage"],
    "E6027": ["let tiles end before the call, or make them smaller"],
    "E6028": ["place the tile outside and pass `&mut` to it, or write a loop"],
}


def _placings(*found: Mapping[str, Peak]) -> Iterator[Placing]:
    for peaks_ in found:
        for peak in peaks_.values():
            yield from peak.slots.placings


def _labels(slots: Sequence[tuple[str, int, Span]], span: Span) -> list[Label]:
    """What is held where, the most bytes first; the tiles of one place together."""
    places: dict[Span, list[tuple[str, int]]] = {}
    for name, size, at in slots:
        places.setdefault(at, []).append((name, size))
    largest = sorted(places.items(), key=lambda place: -sum(size for _, size in place[1]))
    return [Label(at, _held(tiles_)) for at, tiles_ in largest[:MAX_LABELS] if at != span]


def _held(slots: Sequence[tuple[str, int]]) -> str:
    """One tile by its name, several with how many they are: `w.w1`, `w.w2`, … (13 tiles)."""
    names = [_quoted(name) for name, _ in sorted(slots, key=lambda slot: -slot[1])]
    shown = ", ".join([*names[:2], *(["…"] if len(names) > 2 else [])])
    count = f" ({len(names)} tiles)" if len(names) > 1 else ""
    return f"{shown}{count}: {sum(size for _, size in slots)} bytes"


def _signature(function: tree.Function) -> Iterator[tuple[str, tree.Type, Span]]:
    for id_ in function.params:
        local = function.locals[id_]
        yield local.name, local.type, local.span
    yield f"the result of {function.name}", function.ret, function.span


def _largest(slots: Sequence[Slot]) -> list[Slot]:
    return sorted(slots, key=lambda slot: -slot.bytes)


def _quoted(name: str) -> str:
    return name if " " in name else f"`{name}`"


def _where(where: str) -> str:
    return where if where.startswith("behind") else f"by {where}"

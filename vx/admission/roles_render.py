"""Answers about roles as text and as JSON.

Enters: `Answer`s. Leaves: a line for each (more where several memories are used, or what they hold is itemised),
or data. The diagnostics of what was refused are printed by the command.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from vx.admission.itemise import Item, itemise
from vx.admission.matrix import verdict_text
from vx.admission.matrix_render import amount
from vx.admission.plan import Arena
from vx.admission.roles import Answer
from vx.diagnostics.render import encodable, render_json
from vx.diagnostics.report import without_pedantic

SCHEMA = "vx-admission-roles-v1"


def render_text(answers: Sequence[Answer], itemised: bool) -> str:
    """One verdict line for each answer, and with `itemised` what each memory holds."""
    roles = max(len(one.role) for one in answers)
    machines = max(len(one.machine) for one in answers)
    verdicts = max(len(verdict_text(one.verdict)) for one in answers)
    lines: list[str] = []
    for one in answers:
        head = f"{one.role:<{roles}}  {one.machine:<{machines}}  {verdict_text(one.verdict):<{verdicts}}  "
        for arena in one.arenas or (None,):
            lines.append((head + (_why(one) if arena is None else _fit(arena))).rstrip())
            if itemised and arena is not None:
                lines.extend(_itemised(one, arena, "    "))
            head = " " * len(head)
    return "\n".join(lines) + "\n"


def _why(one: Answer) -> str:
    """What is to be said instead of figures."""
    if one.verdict is None:
        return one.needs
    codes = ", ".join(dict.fromkeys(found.code for found in one.errors))
    return codes or "places nothing in a device's memory"


def _fit(arena: Arena) -> str:
    if arena.bytes is None:
        return f"{arena.bank}: how much it needs is not known"
    if arena.capacity is None:
        return f"{arena.bank}: {amount(arena.bytes)}, no capacity is declared"
    device, deployment = arena.device_margin or 0, arena.deployment_margin or 0
    return (
        f"{arena.bank}: {amount(arena.bytes)} of {amount(arena.capacity)}, "
        f"device margin {amount(device)}, deployment margin {amount(deployment)}"
    )


def _itemised(one: Answer, arena: Arena, indent: str) -> Iterator[str]:
    found = [*_items(one, arena), *_nothing(one, arena)]
    rows = [(item.name, item.bytes, _note(item)) for item in found if item.kind != "reserve"]
    if arena.bytes is not None:
        rows.append(("in all", arena.bytes, ""))
    rows.extend((item.name, item.bytes, "kept for the deployment") for item in found if item.kind == "reserve")
    if arena.capacity is not None:
        rows.append(("capacity", arena.capacity, ""))
    width = max((len(name) for name, _, _ in rows), default=0)
    for name, count, note in rows:
        yield f"{indent}{name:<{width}}{count:>20,} bytes  {amount(count):>10}  {note}".rstrip()


def _nothing(one: Answer, arena: Arena) -> Iterator[Item]:
    """What a reader looks for and this memory has none of, so that they need not wonder."""
    there = {item.kind for item in _items(one, arena)}
    return (Item(arena.bank, kind, kind, 0, 0) for kind in ("scratch", "workspace", "reserve") if kind not in there)


def _items(one: Answer, arena: Arena) -> list[Item]:
    if one.plan is None or one.program is None:
        return []
    return [item for item in itemise(one.plan, one.program) if item.bank == arena.bank]


def _note(item: Item) -> str:
    tiles = f"{item.tiles} tile{'s' * (item.tiles != 1)}"
    return f"{tiles}, copied from the model" if item.kind == "weights" else tiles


# ---- JSON --------------------------------------------------------------------------------------
def render_data(program: str, host: str, reserve: str | None, answers: Sequence[Answer], fine: bool) -> str:
    """The answers as data: `SCHEMA`. `admitted` is whether everything that was asked for is."""
    data = {
        "schema": SCHEMA,
        "program": program,
        "host": host,
        "reserve": reserve,
        "admitted": fine,
        "answers": [_answer(one) for one in answers],
    }
    return encodable(json.dumps(data, indent=2, ensure_ascii=False)) + "\n"


def _answer(one: Answer) -> dict[str, object]:
    found = json.loads(render_json(without_pedantic(one.diagnostics), one.sources))
    return {
        "role": one.role,
        "machine": one.machine,
        "verdict": verdict_text(one.verdict),
        "device_verdict": verdict_text(one.device_verdict),
        "needs": one.needs.removeprefix("needs ") or None,
        "spaces": [_space(one, arena) for arena in one.arenas],
        "unverified": list(one.plan.unverified) if one.plan is not None else [],
        **found,
    }


def _space(one: Answer, arena: Arena) -> dict[str, object]:
    return {
        "space": arena.bank.space,
        "instance": arena.bank.instance,
        "required_bytes": arena.bytes,
        "capacity_bytes": arena.capacity,
        "reserve_bytes": arena.reserve,
        "margins": {"device": arena.device_margin, "deployment": arena.deployment_margin},
        "items": [
            {"name": item.name, "kind": item.kind, "bytes": item.bytes, "tiles": item.tiles}
            for item in _items(one, arena)
        ],
    }

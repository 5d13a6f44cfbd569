"""Programs changed for a test: regions of the host moved to a device, and Llama fed with given tokens.

Enters: the text of a program. Leaves: for one with `spawn on(Topology::CPU)` the same regions on `Topology::Device[0]`,
where host tensors that a region touches are transferred before it, and back after it; for `llama.vx` a program that
prints all logits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_SPAWN = re.compile(r"spawn on\(Topology::CPU\) \{")
_FUNCTION = re.compile(r"^fn (\w+)(?:<[^>]*>)?\(", re.M)
_TENSOR = re.compile(r"let mut (\w+) = Tensor<")


class NotMovable(Exception):
    """The program's regions touch what only a rewrite by hand could move; the message says what."""


def moved(text: str) -> str:
    """The program with its regions on device 0. Raises `NotMovable` if a tensor belongs to a struct."""
    if not _SPAWN.search(text):
        return text
    if re.search(r"^struct [^\n]*Tensor<", text, re.M):
        raise NotMovable("its tensors are in structs")
    entries = {name for name, body in _functions(text) if _SPAWN.search(body) and "&" in body.split(")")[0]}
    pieces = [_entered(body) if name in entries else _moved_function(body, entries) for name, body in _functions(text)]
    first = _FUNCTION.search(text)
    assert first is not None
    return text[: first.start()] + "".join(pieces)


def _functions(text: str) -> Iterator[tuple[str, str]]:
    """Each function with what follows it, up to the next."""
    starts = list(_FUNCTION.finditer(text))
    for match, after in zip(starts, [*starts[1:], None], strict=True):
        yield match[1], text[match.start() : after.start() if after else len(text)]


def _entered(body: str) -> str:
    """A function with a region over its parameters: they are on the device already."""
    head, brace, rest = body.partition("{")
    head = re.sub(r"(Tensor<\w+, \[[^\]]*\])>", r"\1, Topology::Device[0]>", head)
    return head + brace + _SPAWN.sub("spawn on(Topology::Device[0]) {", rest)


def _moved_function(body: str, entries: set[str]) -> str:
    calls = "|".join(rf"\b{name}\([^;]*;" for name in sorted(entries))
    place = re.compile(f"{_SPAWN.pattern}|{calls}" if calls else _SPAWN.pattern)
    out, at = [], 0
    for match in place.finditer(body):
        if match.start() < at or body.startswith("fn ", match.start() - 3):
            continue
        spawned = body[match.start() :].startswith("spawn")
        end = _closing(body, match.end()) if spawned else match.end()
        region = body[match.start() : end].replace("Topology::CPU", "Topology::Device[0]")
        out += [body[at : match.start()], _around(region, _TENSOR.findall(body[: match.start()]))]
        at = end
    return "".join(out) + body[at:]


def _closing(text: str, at: int) -> int:
    """Behind the brace that closes the one before `at`."""
    depth = 1
    while depth:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return at


def _around(region: str, tensors: list[str]) -> str:
    """The region over copies on the device."""
    used = [name for name in dict.fromkeys(tensors) if re.search(rf"(?<!\.)\b{name}\b", region)]
    for name in used:
        region = re.sub(rf"(?<!\.)\b{name}\b", f"on_device_{name}", region)
    there = "".join(f"let mut on_device_{name} = transfer({name}, Topology::Device[0]);\n" for name in used)
    back = "".join(f"\n{name} = transfer(on_device_{name}, Memory::CPU_DRAM);" for name in used)
    return there + region + back


LOGITS = "logits:"
"""What a line with the logits of a position begins with."""
_SAMPLED = re.compile(r"next\[0\] = if all_finite[^;]*;")
_FORCED = f"""next[0] = forced(p);
  print("\\n{LOGITS}");
  for i in 0..VOCAB {{ print(" ");  print(host[i]); }}
  print("\\n");"""


def forced(text: str, ids: Sequence[int]) -> str:
    """`llama.vx` where it samples (`--temperature 1`): it prints the logits and goes on with `ids` instead."""
    changed, count = _SAMPLED.subn(lambda _: _FORCED, text)
    assert count == 1, "llama.vx samples in one place"
    arms = " ".join(f"{p} => {token}," for p, token in enumerate(ids))
    return f"{changed}\nfn forced(p : i32) -> i32 {{ match p {{ {arms} _ => {ids[-1]} }} }}\n"

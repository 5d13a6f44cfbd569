"""Traces for tests: a good one, event by event, and ways to alter it before it is sealed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from vx.evidence.schema import MEMORY, TRAFFIC

Line = dict[str, Any]
Change = Callable[[list[Line]], object]

DEVICES = [{"device": f"Device[{i}]", "ordinal": i, "uuid": f"GPU-{i}"} for i in range(2)]
STEPS = 5
WEIGHTS = 4096


def good(tier: str = "T2", steps: int = STEPS) -> list[Line]:
    """Prefill on the first device, a peer copy, `steps` decode steps on the second; without `end`."""
    first, second = DEVICES
    opened = {"role": "disagg", "plugin": "cuda", "tier": tier, "library": "/lib/libcuda.so.1", "library_sha256": "ab",
              "isa": "sm_90", "artifact": "", "machine": "", "plan": "", "driver": 13000}  # fmt: skip
    lines: list[Line] = [
        {"event": "run", "schema": "vx-evidence", "version": 1, "abi": 1, "unix_ns": 1},
        {"event": "open", **opened},
    ]
    lines += [{"event": "device", **d, "name": "H200", "isa": "sm_90", "total": 1000, "free": 900} for d in DEVICES]
    lines += [{"event": "arena", **d, "space": "HBM", "bytes": 90, "reserve": 150} for d in DEVICES]
    lines += [
        {"event": "stage", **d, "space": "HBM", "offset": o, "bytes": WEIGHTS} for d in DEVICES for o in (0, WEIGHTS)
    ]
    lines += [phase("prefill", "begin"), dispatch(first, "prefill", 1), phase("prefill", "end")]
    lines.append({"event": "peer", "from": "Device[0]", "to": "Device[1]", "bytes": 4096, "by": "direct"})
    lines.append({"event": "handoff", "from": "prefill", "to": "decode", "bytes": 4096, "seconds": 0.001,
                  "predicted_bytes": 4096, "predicted_seconds": 0.0011, "digest": "cd"})  # fmt: skip
    lines.append(phase("decode", "begin"))
    for position in range(steps):
        lines += [
            dispatch(second, "decode", int(position == 0)),
            {"event": "token", **second, "position": 3 + position},
        ]
    lines.append(phase("decode", "end"))
    for device, region, count in ((first, "prefill", 1), (second, "decode", steps)):
        traffic = dict.fromkeys(TRAFFIC, 0) | {"loaded_bytes": 2 * WEIGHTS, "graph_launches": count, "graphs": 1}
        memory = dict.fromkeys(MEMORY, 0) | {
            "total": 1000, "free_before": 900, "free_after": 800, "free_warm": 790, "free_end": 790, "arena_bytes": 90,
            "arena_rounded": 100, "driver_bytes": 110, "reserve": 150, "allocations": 1, "arenas": 1, "granule": 100,
        }  # fmt: skip
        lines.append({"event": "counter", **device, "region": region, "count": count})
        lines += [{"event": "traffic", **device, **traffic}, {"event": "memory", **device, **memory}]
    return [*lines, {"event": "close", "role": "disagg", "status": 0}]


def phase(name: str, edge: str) -> Line:
    return {"event": "phase", "name": name, "edge": edge}


def dispatch(device: Line, region: str, recorded: int) -> Line:
    return {"event": "dispatch", **device, "region": region, "by": "graph", "recorded": recorded, "emitted": 4, "vendor": 1,
            "host": 0}  # fmt: skip


def sealed(lines: Iterable[Line], status: int = 0) -> bytes:
    """The text of a trace that holds these events."""
    rows = [json.dumps({"seq": i, "ns": 10 * i, **line}).encode() + b"\n" for i, line in enumerate(lines)]
    digest = hashlib.sha256(b"".join(rows)).hexdigest()
    end = {
        "seq": len(rows),
        "ns": 10 * len(rows),
        "event": "end",
        "events": len(rows),
        "status": status,
        "sha256": digest,
    }
    return b"".join(rows) + json.dumps(end).encode() + b"\n"


def written(path: Path, change: Change = lambda lines: None, status: int = 0) -> Path:
    """The good trace after `change`, sealed anew: only its content can show that something is wrong."""
    lines = good()
    change(lines)
    path.write_bytes(sealed(lines, status))
    return path


def last(lines: list[Line], kind: str) -> Line:
    return next(line for line in reversed(lines) if line["event"] == kind)


def drop(lines: list[Line], kind: str, **fields: object) -> None:
    """Take out every event of a kind that has these fields."""
    lines[:] = [line for line in lines if line["event"] != kind or any(line[k] != v for k, v in fields.items())]

"""The events of a trace and the fields of each, as the native runtime and the plugins write them.

Enters: nothing. Leaves: tables. `docs/reference/evidence.md` says what the fields mean. Text, whole numbers and
seconds only; a field that is not listed, or a listed one that is missing, makes a trace unreadable.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

SCHEMA = "vx-evidence"
VERSION = 1

Fields = Mapping[str, type]

_DEVICE: Fields = {"device": str, "ordinal": int, "uuid": str}
_COPY: Fields = {"from": str, "to": str, "bytes": int}
TRAFFIC = (
    "to_device_bytes", "to_device_calls", "to_host_bytes", "to_host_calls", "peer_bytes", "peer_calls", "local_bytes",
    "local_calls", "loaded_bytes", "loads", "launches", "graph_launches", "graphs",
)  # fmt: skip
MEMORY = (
    "total", "free_before", "free_after", "free_warm", "free_end", "arena_bytes", "arena_rounded", "driver_bytes",
    "reserve", "allocations", "arenas", "granule",
)  # fmt: skip

COMMON: Fields = {"seq": int, "ns": int, "event": str}
EVENTS: Mapping[str, Fields] = MappingProxyType(
    {
        "run": {"schema": str, "version": int, "abi": int, "unix_ns": int},
        "open": {
            **dict.fromkeys(("role", "plugin", "tier", "library", "library_sha256", "isa", "artifact", "machine"), str),
            "plan": str,
            "driver": int,
        },
        "device": {**_DEVICE, "name": str, "isa": str, "total": int, "free": int},
        "arena": {**_DEVICE, "space": str, "bytes": int, "reserve": int},
        "stage": {**_DEVICE, "space": str, "offset": int, "bytes": int},
        "phase": {"name": str, "edge": str},
        "value": {"name": str, "value": int},
        "dispatch": {**_DEVICE, "region": str, "by": str, "recorded": int, "emitted": int, "vendor": int, "host": int},
        "copy": _COPY,
        "peer": {**_COPY, "by": str},
        "handoff": {
            **_COPY, "seconds": float, "predicted_bytes": int, "predicted_seconds": float, "digest": str,
        },
        "token": {**_DEVICE, "position": int},
        "dropped": {**_DEVICE, "tokens": int},
        "counter": {**_DEVICE, "region": str, "count": int},
        "traffic": {**_DEVICE, **dict.fromkeys(TRAFFIC, int)},
        "memory": {**_DEVICE, **dict.fromkeys(MEMORY, int)},
        "error": {"status": int, "message": str},
        "close": {"role": str, "status": int},
        "end": {"events": int, "status": int, "sha256": str},
    }
)  # fmt: skip

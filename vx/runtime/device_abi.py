"""The contract between compiled programs and a device plugin, `libvx_<name>.so`, defined once.

Enters: nothing. Leaves: the tables that code generation reads (`ENTRIES`, `STRUCTS`, `Status`, …), and two C headers
that `python -m vx.runtime.device_abi` writes: `device/vx_device.h` for plugins, `vx_forward.h` for the program's side.

A plugin is opened with a *manifest*: constants of the program that say which devices, arenas, kernels and regions
one role needs. Every entry returns a `Status` (or null for an address); `vx_last_error` then says what was wrong and
what to do. Nothing falls back. One thread of the program calls a plugin.

**Addresses.** Memory of all instances and of the host has distinct addresses, so an address says whose it is. A
range that is partly in an arena is refused; one that touches no arena is host memory.

**Order.** Work is issued in program order and waits for exactly the work in flight whose footprint overlaps its own
where one of the two writes. `vx_access` is the same for what the host itself is about to read, write or free.

**Regions.** `vx_run` calls the region's `record` function, which calls `vx_launch` for each kernel. Where the region
may be a graph it is recorded once for each content of `params` (addresses and constants: all that the launches depend
on) and replayed from then on without calling `record`.

**Checks in kernels.** A kernel that finds an index outside stores a number in its region's error word and computes on
without harm; the host learns of it where it next waits for what came from the device (FAILED).

**Tokens.** A slot of a token ring holds `position << 32 | token`; position p is in slot p mod slots. The kernel
stores it with release at system scope. `TOKEN_NOT_FINITE` as token says that the logits were not finite.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from types import MappingProxyType

from vx.runtime.abi import I32, I64, IN, OUT, STR, U32, U64, VOID, CType, Entry

DEVICE_ABI = 1
"""Version of this contract: a plugin refuses a manifest of another one."""
PARAMS_BYTES = 4096
"""Most bytes of `params` that `vx_run` takes."""
SET_BYTES = 256
"""Most bytes that `vx_set` writes."""
LAUNCH_PARAMS = 128
"""Most parameters of a kernel, trailing ones included."""
TOKEN_NOT_FINITE = 0xFFFFFFFF


class Status(IntEnum):
    """What an entry returns."""

    OK = 0
    MISUSE = 1
    """The call is wrong: an address that is nobody's, an index outside, opened twice, freed twice."""
    ABI = 2
    """Program and plugin were made for different contracts."""
    NO_LIBRARY = 3
    """The driver's library is missing or incomplete."""
    NO_DEVICE = 4
    ARCH = 5
    """The device is of another architecture than the kernels."""
    OLD_DRIVER = 6
    NO_MEMORY = 7
    KERNEL = 8
    """A kernel file is missing, altered, or not what the manifest says."""
    DRIVER = 9
    """The driver refused a call."""
    TIMEOUT = 10
    NOT_FINITE = 11
    FAILED = 12
    """A check that a kernel makes did not hold: an index outside, say."""


class Access(IntEnum):
    """How a program means to use memory of `vx_plugin_alloc_and_transfer`."""

    UNKNOWN = 0
    EXPLICIT = 1
    HOST_READABLE = 2


class Control(IntEnum):
    """Opcodes of `vx_plugin_control`. INIT takes a manifest, DEVICE_COUNT an int32_t to write to."""

    INIT = 1
    SHUTDOWN = 2
    DEVICE_COUNT = 3


def _pointer(to: str) -> CType:
    return CType(f"const {to} *", "ptr", "")


_F32_OUT = CType("float *", "ptr", "")
_ADDRESS_OUT = CType("void **", "ptr", "")
_ARGS = CType("void *const *", "ptr", "")
_ADDRESS_IN = CType("const char *const *", "ptr", "")
_I32_OUT = CType("int32_t *", "ptr", "")
_I64_OUT = CType("int64_t *", "ptr", "")
_DIMS = CType("const int32_t *", "ptr", "")
_RECORD = CType("vx_record", "ptr", "")
_HOST_KERNEL = CType("vx_host_kernel", "ptr", "")
_SINK = CType("vx_event_sink", "ptr", "")

Fields = tuple[tuple[str, CType, str], ...]

STRUCTS: Mapping[str, Fields] = MappingProxyType(
    {
        "vx_device": (
            ("name", STR, "As the program spells it: `Device[1]`."),
            ("ordinal", I32, "The driver's number of the device."),
            ("topology", U32, "The id that the vx_plugin_ entries use."),
            ("counter_arena", I32, "Arena that holds the device's counters; -1: none."),
            ("counters", I32, "How many; each is a u64 that the last kernel of a region increments."),
            ("counter_offset", I64, ""),
            ("error_offset", I64, "In the same arena: an i32 for each region, its error word; -1: none."),
        ),
        "vx_arena": (
            ("space", STR, ""),
            ("device", I32, "Index in the manifest's devices."),
            ("pad", I32, ""),
            ("bytes", I64, "Exactly what the Plan admits."),
            ("reserve", I64, "What must stay free beside it."),
            ("window_offset", I64, "The part from which vx_plugin_alloc_and_transfer serves."),
            ("window_bytes", I64, "0: it serves nothing here."),
        ),
        "vx_kernel": (
            ("name", STR, "The symbol in the file."),
            ("file", STR, "Relative to the manifest's directory."),
            ("sha256", IN, "32 bytes: of the file."),
            ("host", _HOST_KERNEL, "The same computation for libvx_host.so; null: none."),
            ("provenance", STR, "vendor, emitted or host."),
            ("threads", I32, "Per block."),
            ("shared", I32, "Bytes of dynamic shared memory."),
            ("cluster_x", I32, "0: no cluster."),
            ("cluster_y", I32, ""),
            ("cluster_z", I32, ""),
            ("dependent", I32, "1: may start before the previous kernel ends (it waits by itself)."),
            ("params", I32, "Parameters that vx_launch is given."),
            ("trailing", I32, "Null pointers that follow them."),
            ("grid_x", I32, "Grid when started by name through vx_plugin_dispatch_async."),
            ("grid_y", I32, ""),
            ("grid_z", I32, ""),
            ("pad", I32, ""),
        ),
        "vx_region": (
            ("name", STR, ""),
            ("record", _RECORD, "Issues the launches."),
            ("graph", I32, "1: recorded once and replayed; 0: launched one by one, each time."),
            ("counter", I32, "The device counter that its last kernel increments; -1: none."),
            ("messages", _ADDRESS_IN, "What error words mean: n + 1 is messages[n]."),
            ("message_count", I32, ""),
            ("pad", I32, ""),
        ),
        "vx_manifest": (
            ("abi", U32, "VX_PLUGIN_ABI."),
            ("min_driver", I32, "As cuDriverGetVersion gives it (12080 is 12.8); 0: any."),
            ("role", STR, ""),
            ("isa", STR, "What the kernels are compiled for: `sm_90`."),
            ("directory", STR, "Where kernel files are; null: `kernels` beside the executable."),
            ("artifact", STR, "Hex SHA-256 of the artifact; or empty."),
            ("machine", STR, "Hex SHA-256 of the machine file; or empty."),
            ("plan", STR, "Hex SHA-256 of the Plan; or empty."),
            ("devices", _pointer("vx_device"), ""),
            ("arenas", _pointer("vx_arena"), ""),
            ("kernels", _pointer("vx_kernel"), ""),
            ("regions", _pointer("vx_region"), ""),
            ("device_count", I32, ""),
            ("arena_count", I32, ""),
            ("kernel_count", I32, ""),
            ("region_count", I32, ""),
            ("staging", I64, "Bytes of pinned memory through which vx_load goes, a device."),
            ("sink", _SINK, "Takes evidence; null: none is made."),
        ),
        "vx_touch": (
            ("address", IN, ""),
            ("bytes", I64, ""),
            ("write", I32, "1: written (or both); 0: only read."),
            ("pad", I32, ""),
        ),
        "vx_memory": (
            ("total", I64, "Of the device."),
            ("free_before", I64, "Just before the arenas were taken."),
            ("free_after", I64, "Just after."),
            ("free_warm", I64, "At vx_warm; -1 before."),
            ("free_end", I64, "Now."),
            ("arena_bytes", I64, "Sum of the arenas as admitted."),
            ("arena_rounded", I64, "The same, each rounded up to the driver's granule."),
            ("driver_bytes", I64, "What is taken beside the arenas: context, modules, graphs, other processes."),
            ("reserve", I64, "The largest reserve of the device's arenas."),
            ("allocations", I64, "Allocations of device memory, counted where the driver is called."),
            ("arenas", I64, "Arenas of this device: what `allocations` must be."),
            ("granule", I64, "To which the driver rounds."),
        ),
        "vx_traffic": (
            ("to_device_bytes", I64, "All counted where the driver is called."),
            ("to_device_calls", I64, ""),
            ("to_host_bytes", I64, ""),
            ("to_host_calls", I64, ""),
            ("peer_bytes", I64, ""),
            ("peer_calls", I64, ""),
            ("local_bytes", I64, "Within the device."),
            ("local_calls", I64, ""),
            ("loaded_bytes", I64, "The part of to_device that vx_load issued."),
            ("loads", I64, ""),
            ("launches", I64, "Kernels launched one by one, those recorded into a graph included."),
            ("graph_launches", I64, ""),
            ("graphs", I64, "Graphs made."),
        ),
    }
)
"""Structures by name, each a table of (field, type, meaning). All have no padding that is not a field."""


def _entry(name: str, ret: CType, doc: str, /, **params: CType) -> Entry:
    return Entry(name, tuple(params.items()), ret, doc)


_TOUCHES = _pointer("vx_touch")

LOWERED: tuple[Entry, ...] = (
    _entry("vx_device_abi", U32, "VX_PLUGIN_ABI of the plugin."),
    _entry("vx_plugin_name", STR, "`cuda`, `host`, …"),
    _entry("vx_last_error", STR, "What the last call that failed found, and what to do. Valid until the next call."),
    _entry("vx_open", I32, "Checks abi, driver, devices, architecture, kernel files and free memory, in this order and "
           "before anything is taken; then takes the arenas, loads the kernels, zeroes the counters.",
           manifest=_pointer("vx_manifest")),
    _entry("vx_close", I32, "Waits for all work, reads the counters back, gives everything back. Closed already: MISUSE."),
    _entry("vx_tile", OUT, "The address of bytes of an arena; null if they do not lie in it.", arena=I32, offset=I64,
           bytes=I64),
    _entry("vx_copy", I32, "Copies between host, device and peer; asynchronous.", target=OUT, source=IN, bytes=I64),
    _entry("vx_copy_rows", I32, "As vx_copy, `rows` rows of `bytes`, whose starts are `*_pitch` bytes apart; not "
           "between peers.", target=OUT, target_pitch=I64, source=IN, source_pitch=I64, bytes=I64, rows=I64),
    _entry("vx_fill", I32, "Fills `count` elements of 1, 2, 4 or 8 bytes with `value`; asynchronous, `value` is read before "
           "it returns.", target=OUT, value=IN, element_bytes=I64, count=I64),
    _entry("vx_load", I32, "Copies a weight from host memory (the mapped model file) by way of the pinned staging. "
           "`source` is read before it returns.", target=OUT, source=IN, bytes=I64),
    _entry("vx_set", I32, "Writes a few words (a multiple of 4, at most SET_BYTES) in order with the device's "
           "regions; `value` is read before it returns.", target=OUT, value=IN, bytes=I64),
    _entry("vx_run", I32, "Issues a region on a device; asynchronous. `touches` is its footprint.", region=I32,
           device=I32, params=IN, params_bytes=I64, touches=_TOUCHES, touch_count=I64),
    _entry("vx_launch", I32, "One kernel, only inside a region's `record`. `args` point to the parameters, as many "
           "as the manifest says; they are read before it returns.", kernel=I32, grid_x=I32, grid_y=I32, grid_z=I32,
           args=_ARGS),
    _entry("vx_access", I32, "Waits until the host may read (write = 0), or write or free (1), this memory.",
           address=IN, bytes=I64, write=I32),
    _entry("vx_sync", I32, "Waits for all work in flight and reports its errors."),
    _entry("vx_pin", OUT, "Pinned host memory, which every device can reach; null: none.", bytes=I64),
    _entry("vx_unpin", I32, "Gives it back, after the work in flight that uses it.", memory=OUT),
    _entry("vx_ring", OUT, "A token ring of a device: `slots` words (a power of two, at least 16), in pinned host "
           "memory, all empty. The device sees it at the same address. Given back by vx_close.", device=I32, slots=I32),
    _entry("vx_token", I32, "Waits until the ring holds `position`, or until `deadline` (as vx_time_now). NOT_FINITE "
           "if that is what the device says; DRIVER if its work ended or failed without storing it.", ring=OUT,
           position=I64, deadline=I64, token=_I32_OUT),
    _entry("vx_ring_clear", I32, "Waits for the device, empties the ring and counts what nobody read (steps enqueued "
           "beyond a stop).", ring=OUT, dropped=_I64_OUT),
    _entry("vx_warm", I32, "Waits for all work and notes each device's free memory: from here on it must not change."),
    _entry("vx_phase", I32, "Evidence that a phase (`prefill`, `decode`) begins (1) or ends (0).", name=STR, begin=I32),
    _entry("vx_counter", I32, "Waits for the device and reads one of its counters.", device=I32, index=I32,
           value=_I64_OUT),
    _entry("vx_seconds", I32, "Waits for the device; the time between the last two vx_stamp calls by its own clock.",
           device=I32, seconds=_F32_OUT),
    _entry("vx_stamp", I32, "Marks a point between the device's regions for vx_seconds.", device=I32),
    _entry("vx_memory_of", I32, "A device's memory figures, from the driver.", device=I32,
           figures=CType("vx_memory *", "ptr", "")),
    _entry("vx_traffic_of", I32, "What was moved and launched on a device.", device=I32,
           figures=CType("vx_traffic *", "ptr", "")),
    _entry("vx_owner", I32, "The driver's own number of the device that holds an address.", address=IN,
           ordinal=_I32_OUT),
)  # fmt: skip
"""What lowered programs call, each by way of its forwarder."""

COMPATIBLE: tuple[Entry, ...] = (
    _entry("vx_plugin_alloc_and_transfer", OUT, "Bytes of the window of `topology`'s first arena that has one; copies "
           "`host` in if it is not null. Null: refused.", bytes=U64, host=OUT, topology=U32, access=U32),
    _entry("vx_plugin_dispatch_async", U64, "Starts the kernel that `payload` names (`NAME abi=1 topo=ID …`); a "
           "future, or 0: refused.", payload=IN, bytes=U64, args=_ADDRESS_OUT, tags=_DIMS, arg_count=I64),
    _entry("vx_plugin_await_future", I32, "Waits for it.", future=U64),
    _entry("vx_plugin_release_future", I32, "Gives the handle back; its work goes on.", future=U64),
    _entry("vx_plugin_transfer_device_to_host", I32, "Copies and waits.", device=OUT, host=OUT, bytes=U64,
           topology=U32),
    _entry("vx_plugin_transfer_peer", OUT, "A copy in the target's window. Null: refused.", source=OUT,
           source_topology=U32, target_topology=U32, bytes=U64),
    _entry("vx_plugin_free", I32, "Gives back what alloc_and_transfer or transfer_peer gave; anything else is "
           "refused.", device=OUT, topology=U32),
    _entry("vx_plugin_control", I32, "See Control.", opcode=U32, payload=OUT),
)  # fmt: skip
"""The compatibility surface, usable from Vx through `extern` once a role has opened its devices: what fails gives a status
or null."""

ENTRIES: Mapping[str, Entry] = MappingProxyType({e.name: e for e in (*LOWERED, *COMPATIBLE)})
"""Every function that a plugin exports, by name."""

_BY_HAND = frozenset({"vx_device_abi", "vx_plugin_name", "vx_last_error", "vx_open"})
"""What the runtime's devices.c calls by itself."""


SYMBOLS: Mapping[str, str] = MappingProxyType(
    {e.name: f"vx_device_{e.name.removeprefix('vx_')}" for e in LOWERED if e.name not in _BY_HAND}
)
"""For each entry of `LOWERED`: the function of the native runtime (devices.c) that programs call for it, with the same
parameters. A failure ends the program with the plugin's message, so that OK and addresses are all that comes back;
but `vx_device_launch` gives its status, which a record function returns: the region is ended properly first."""

MOVE_TO_HOST = 1
"""In `sides` of the moves below: the target is memory of the host."""
MOVE_FROM_HOST = 2
"""The source is memory of the host."""

_STRIDES = CType("const int64_t *", "ptr", "")

OPEN: Entry = _entry("vx_device_open", VOID, "Opens `libvx_<plugin>.so` beside the executable, and it with the "
                     "manifest; the manifest's `sink` becomes the trace, if there is one. Once for each role.",
                     plugin=STR, manifest=_pointer("vx_manifest"))  # fmt: skip

MOVE: Entry = _entry("vx_device_move", VOID, "Copies a tensor without gaps. Where a side is the host's, its memory may be read "
                     "and written when this returns.", target=OUT, source=IN, bytes=I64, sides=I32)  # fmt: skip
MOVE_STRIDED: Entry = _entry("vx_device_move_strided", VOID, "As vx_device_move, between layouts; strides in elements.",
                             target=OUT, target_strides=_STRIDES, source=IN, source_strides=_STRIDES, extents=_STRIDES,
                             rank=I32, elem_bytes=I64, sides=I32)  # fmt: skip

_TOP = """\
/* The contract between compiled programs and device plugins. Written by `python -m vx.runtime.device_abi`: edit
   device_abi.py, which also explains it. */
#ifndef VX_DEVICE_H
#define VX_DEVICE_H

#include <stdint.h>
"""

_TYPES = """\
/* Issues the launches of a region; 0, or the status of the first vx_launch that failed. */
typedef int32_t (*vx_record)(const void *params);
/* Computes what a kernel computes, in the memory of one instance. */
typedef void (*vx_host_kernel)(void *const *args, const int32_t grid[3]);
/* Takes one event: its name, and its fields as JSON text without the braces. 0, or it could not be kept. */
typedef int32_t (*vx_event_sink)(const char *event, const char *fields);
"""


def _declare(type_: CType, name: str) -> str:
    return f"{type_.c}{name}" if type_.c.endswith("*") else f"{type_.c} {name}"


def _prototype(entry: Entry) -> str:
    params = ", ".join(_declare(type_, name) for name, type_ in entry.params) or "void"
    return f"/* {entry.doc} */\nVX_EXPORT {_declare(entry.ret, entry.name)}({params});"


def _constants() -> list[str]:
    values = {
        "VX_PLUGIN_ABI": DEVICE_ABI,
        "VX_PARAMS_BYTES": PARAMS_BYTES,
        "VX_SET_BYTES": SET_BYTES,
        "VX_LAUNCH_PARAMS": LAUNCH_PARAMS,
        **{f"VX_DEVICE_{member.name}": member.value for member in Status},
        **{f"VX_ACCESS_{member.name}": member.value for member in Access},
        **{f"VX_CONTROL_{member.name}": member.value for member in Control},
    }
    return [*(f"#define {name} ({value})" for name, value in values.items()),
            f"#define VX_TOKEN_NOT_FINITE ({TOKEN_NOT_FINITE:#x}u)",
            '#define VX_EXPORT __attribute__((visibility("default")))']  # fmt: skip


def _struct(name: str, fields: Fields) -> str:
    lines = [f"    {_declare(type_, field)};" + (f" /* {doc} */" if doc else "") for field, type_, doc in fields]
    return "\n".join(["typedef struct {", *lines, f"}} {name};", ""])


def render_header() -> str:
    """The text of `device/vx_device.h`."""
    lines = [
        _TOP,
        *_constants(),
        "",
        _TYPES,
        *(_struct(name, fields) for name, fields in STRUCTS.items()),
        "#ifndef VX_DEVICE_TYPES_ONLY",
        *(_prototype(entry) for entry in ENTRIES.values()),
        "#endif",
        "",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


# ---- the program's side ------------------------------------------------------------------------
_FORWARD_TOP = """\
/* What a program calls for each entry of a plugin. Written by `python -m vx.runtime.device_abi`; included once, by
   devices.c, which opens the plugin and has the functions declared below. */
"""


def _signature(entry: Entry) -> str:
    return ", ".join(_declare(type_, name) for name, type_ in entry.params) or "void"


def _forward(entry: Entry) -> str:
    call = f"plugin.{entry.name}({', '.join(param for param, _ in entry.params)})"
    if entry.name != "vx_launch":
        call = f"check{'_address' if entry.ret is OUT else ''}({call})"
    return f"{_declare(entry.ret, SYMBOLS[entry.name])}({_signature(entry)}) {{ return {call}; }}"


def _passed_on(entry: Entry) -> str:
    call = f"plugin.{entry.name}({', '.join(param for param, _ in entry.params)})"
    return f"{_declare(entry.ret, entry.name)}({_signature(entry)}) {{ need_plugin(); return {call}; }}"


def render_forwarders() -> str:
    """The text of `vx_forward.h`."""
    table = [f"    {_declare(e.ret, f'(*{e.name})')}({_signature(e)});" for e in ENTRIES.values()]
    names = [f'    {{"{name}", offsetof(Plugin, {name})}},' for name in ENTRIES]
    forwarded = [e for e in LOWERED if e.name in SYMBOLS]
    prototypes = [f"{_declare(e.ret, SYMBOLS[e.name])}({_signature(e)});" for e in forwarded]
    prototypes += [f"{_declare(e.ret, e.name)}({_signature(e)});" for e in (OPEN, MOVE, MOVE_STRIDED, *COMPATIBLE)]
    prototypes += ["", f"enum {{ VX_MOVE_TO_HOST = {MOVE_TO_HOST}, VX_MOVE_FROM_HOST = {MOVE_FROM_HOST} }};"]
    forwards = [*map(_forward, forwarded), "", *map(_passed_on, COMPATIBLE)]
    lines = [_FORWARD_TOP, "typedef struct {", *table, "} Plugin;", "", "static Plugin plugin;", ""]
    lines += ["static const struct {", "    const char *name;", "    size_t at;", "} MEMBERS[] = {", *names, "};", ""]
    lines += ["static int32_t check(int32_t status);", "static void *check_address(void *address);"]
    lines += ["static void need_plugin(void);", ""]
    return "\n".join([*lines, *prototypes, "", *forwards]) + "\n"


HEADER = Path(__file__).parent / "device" / "vx_device.h"
FORWARDERS = Path(__file__).with_name("vx_forward.h")

if __name__ == "__main__":
    HEADER.write_text(render_header(), encoding="utf-8")
    FORWARDERS.write_text(render_forwarders(), encoding="utf-8")

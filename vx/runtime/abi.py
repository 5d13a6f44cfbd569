"""The contract between compiled programs and the native runtime, defined once.

Enters: nothing. Leaves: the tables that code generation reads (`ELEMENTS`, `ENTRIES`, `MODEL_SYMBOLS`,
…), and two files that `python -m vx.runtime.abi` writes: the C header that the runtime includes,
`vx_abi.h`, and the declarations for the standard library, `std/runtime.vx`.

**Status.** A run-time abort (`vx_abort`, a failed check, no memory) ends the process with `EXIT_ABORT`;
output that cannot be written (a closed pipe, a full disk) with `EXIT_OUTPUT`; entering a role that is not part
of the build (the machine cannot have it, or it was not asked for) with `EXIT_REFUSED`.

**Numbers as text.** The fewest significant digits that read back as the same value of the same type.
Positional (`38`, `1.5`, `0.0001`) while the decimal exponent e of the leading digit is -5 < e < 16, else
as in `1e-05`, `1.5e+16`; a whole number has no `.0`; `nan`, `inf`, `-inf`, `-0`.

**Random models.** A table entry whose offset is `MODEL_GENERATED` has no bytes in a file. Element i is a
pure function of the seed, the entry's key and i. With 64-bit wrapping arithmetic

    mix(z)    = z ^= z >> 30;  z *= 0xBF58476D1CE4E5B9;  z ^= z >> 27;  z *= 0x94D049BB133111EB;  z ^= z >> 31
    stream    = mix(mix(seed + GAMMA) ^ key)                        GAMMA = 0x9E3779B97F4A7C15
    bits(i)   = mix(stream + (i + 1) * GAMMA) >> 40                 24 bits
    unit(i)   = f32(bits(i)) * 2^-23 - 1                            exact, in [-1, 1)
    value(i)  = f32(f32(unit(i) * scale) + bias)                    two roundings, never fused

then rounded to the element type (ties to even). The key is `fnv1a64` of the tensor's name, so that a
tensor does not change when another is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

ABI_VERSION = 1
EXIT_ABORT = 101
EXIT_OUTPUT = 102
EXIT_REFUSED = 103
MAX_RANK = 8
"""Greatest rank of a tensor that `vx_print_tensor` and `vx_copy_strided` take."""
MODEL_GENERATED = -1
"""Offset of a model tensor that is computed from the seed."""
TRACE_VERSION = 1
"""Version of the evidence schema."""
SHA256_STATE_BYTES = 128
"""Memory that an unfinished SHA-256 needs (8-byte aligned)."""

ELEMENTS: Mapping[str, int] = MappingProxyType(
    {
        "bool": 1,
        "i8": 2,
        "i16": 3,
        "i32": 4,
        "i64": 5,
        "f32": 6,
        "f64": 7,
        "f16": 8,
        "bf16": 9,
        "u8": 10,
        "u16": 11,
        "u32": 12,
        "u64": 13,
        "i128": 14,
        "u128": 15,
        "i4": 16,
        "u4": 17,
        "f8e4m3": 18,
        "f8e5m2": 19,
        "f4e2m1": 20,
    }
)
"""Element tags: bits 15:8 of an argument tag; 1 to 7 are also its kinds."""

KIND_MEMREF = 0
TAG_SLOT = 1 << 24


def memref_tag(elem: str, rank: int) -> int:
    """The argument tag of a tensor: bits 7:0 kind, 15:8 element, 23:16 rank."""
    return KIND_MEMREF | ELEMENTS[elem] << 8 | rank << 16


@dataclass(frozen=True, slots=True)
class CType:
    """A type of the boundary: how C spells it, what LLVM calls it (`ptr` for every pointer), and how Vx
    spells it (empty: Vx programs do not call functions that take it)."""

    c: str
    llvm: str
    vx: str


VOID = CType("void", "void", "void")
I32 = CType("int32_t", "i32", "i32")
I64 = CType("int64_t", "i64", "i64")
U32 = CType("uint32_t", "i32", "u32")
U64 = CType("uint64_t", "i64", "u64")
F32 = CType("float", "float", "f32")
F64 = CType("double", "double", "f64")
OUT = CType("void *", "ptr", "*mut u8")
IN = CType("const void *", "ptr", "*const u8")
STR = CType("const char *", "ptr", "*const i8")
OUT_F32 = CType("float *", "ptr", "*mut f32")
OUT_F64 = CType("double *", "ptr", "*mut f64")
DIMS = CType("const int64_t *", "ptr", "")
TASK = CType("vx_task", "ptr", "")


@dataclass(frozen=True, slots=True)
class Entry:
    """One function of the runtime. `noreturn` functions never come back."""

    name: str
    params: tuple[tuple[str, CType], ...]
    ret: CType
    doc: str
    noreturn: bool = False


def _entry(name: str, ret: CType, doc: str, /, *, noreturn: bool = False, **params: CType) -> Entry:
    return Entry(name, tuple(params.items()), ret, doc, noreturn)


PROGRAM_MAIN = _entry("vx_program_main", I32, "Defined by the program: its `main`. The runtime's start-up calls it.")

CORE: tuple[Entry, ...] = (
    _entry("vx_alloc", OUT, "64-byte aligned memory, contents undefined. Aborts if there is none.", bytes=I64),
    _entry("vx_alloc_zero", OUT, "As vx_alloc, zeroed.", bytes=I64),
    _entry("vx_free", VOID, "Gives back what vx_alloc gave; null is allowed.", memory=OUT),
    _entry("vx_abort", VOID, "Flushes stdout, prints `vx: message`, exits EXIT_ABORT.", noreturn=True, message=STR),
    _entry("vx_refuse", VOID, "As vx_abort, with EXIT_REFUSED: a role that is not part of the build is entered.",
           noreturn=True, message=STR),
    _entry("vx_abort_index", VOID, "As vx_abort: `index` is outside 0..count of `what`.", noreturn=True,
           what=STR, index=I64, count=I64),
    _entry("vx_abort_called", VOID, "As vx_abort, with the place in vx_caller.", noreturn=True, message=STR),
    _entry("vx_abort_range", VOID, "As vx_abort_index, with the place in vx_caller.", noreturn=True,
           what=STR, index=I64, count=I64),
    _entry("vx_parallel", VOID, "task(context, begin, end) over all of 0..count, at most `grain` indices a call; "
           "nested calls run inline.", task=TASK, context=OUT, count=I64, grain=I64),
    _entry("vx_thread_count", I32, "Threads that vx_parallel uses (VX_THREADS)."),
    _entry("vx_thread_scratch", OUT, "This thread's scratch memory, at least `bytes`; valid until its next call.",
           bytes=I64),
    _entry("vx_cpu_level", I32, "x86-64 level 1 to 4 (VX_CPU_LEVEL may lower it); 0 on other machines."),
    _entry("vx_copy_strided", VOID, "Copies a tensor; strides in elements. Where the two overlap, as if the source had been read in full before.", target=OUT,
           target_strides=DIMS, source=IN, source_strides=DIMS, extents=DIMS, rank=I32, elem_bytes=I64),
    _entry("vx_model_tensor", IN, "The bytes of entry `index` of vx_model_table. Aborts if it cannot be read.",
           index=I32),
)  # fmt: skip
"""What generated code calls by itself."""

PRINT: tuple[Entry, ...] = (
    _entry("vx_flush", VOID, "Writes out what was printed."),
    _entry("vx_print_i64", VOID, "", value=I64),
    _entry("vx_print_u64", VOID, "", value=U64),
    _entry("vx_print_i128", VOID, "Points to 16 bytes, little-endian.", value=IN),
    _entry("vx_print_u128", VOID, "Points to 16 bytes, little-endian.", value=IN),
    _entry("vx_print_f32", VOID, "", value=F32),
    _entry("vx_print_f64", VOID, "", value=F64),
    _entry("vx_print_f16", VOID, "Bits 15:0 of `bits`.", bits=I32),
    _entry("vx_print_bf16", VOID, "Bits 15:0 of `bits`.", bits=I32),
    _entry("vx_print_bool", VOID, "`true` or `false`.", value=I32),
    _entry("vx_print_str", VOID, "", text=STR),
    _entry("vx_print_bytes", VOID, "", data=IN, bytes=I64),
    _entry("vx_print_tensor", VOID, "Nested rows, six significant digits; strides in elements.", data=IN, elem=I32,
           rank=I32, extents=DIMS, strides=DIMS),
)  # fmt: skip
"""`print` of every type, buffered: flushed at a newline on a terminal, when full, at exit and before an abort."""

STD: tuple[Entry, ...] = (
    # io
    _entry("vx_stdin_read", I64, "Bytes read, 0 at the end, or -errno.", data=OUT, bytes=I64),
    _entry("vx_eprint_bytes", VOID, "To stderr, unbuffered; flushes stdout first.", data=IN, bytes=I64),
    _entry("vx_exit", VOID, "Flushes and ends the process.", noreturn=True, status=I32),
    # text
    _entry("vx_format_i64", I64, "Writes the text (at most 64 bytes, no NUL); its length.", value=I64, text=OUT),
    _entry("vx_format_u64", I64, "As vx_format_i64.", value=U64, text=OUT),
    _entry("vx_format_f32", I64, "As vx_format_i64.", value=F32, text=OUT),
    _entry("vx_format_f64", I64, "As vx_format_i64.", value=F64, text=OUT),
    _entry("vx_parse_f64", I32, "1 if all of the text is one number, written to `value`; else 0.", text=STR,
           bytes=I64, value=OUT_F64),
    _entry("vx_parse_f32", I32, "As vx_parse_f64, rounded once to f32.", text=STR, bytes=I64, value=OUT_F32),
    # env
    _entry("vx_arg_count", I32, "Arguments after the program's name."),
    _entry("vx_arg", STR, "Argument `index`, from 0; null outside.", index=I32),
    _entry("vx_env", STR, "An environment variable, or null.", name=STR),
    # memory
    _entry("vx_copy", VOID, "memmove", target=OUT, source=IN, bytes=I64),
    _entry("vx_compare", I32, "memcmp: negative, 0 or positive.", left=IN, right=IN, bytes=I64),
    # fs
    _entry("vx_file_open", I32, "FILE_* mode; a descriptor or -errno.", path=STR, mode=I32),
    _entry("vx_file_size", I64, "Bytes, or -errno (a directory is -EISDIR).", file=I32),
    _entry("vx_file_read", I64, "Reads until `bytes` or the end; bytes read, or -errno.", file=I32, data=OUT,
           bytes=I64),
    _entry("vx_file_write", I64, "Writes all; `bytes`, or -errno.", file=I32, data=IN, bytes=I64),
    _entry("vx_file_close", I32, "0 or -errno.", file=I32),
    _entry("vx_file_map", OUT, "The first `bytes` of a file, read-only; null if refused.", file=I32, bytes=I64),
    _entry("vx_file_unmap", VOID, "", data=OUT, bytes=I64),
    _entry("vx_error_text", STR, "What an errno means, in English.", code=I32),
    # time
    _entry("vx_time_now", I64, "Monotonic nanoseconds."),
    _entry("vx_time_unix", I64, "Nanoseconds since 1970 (UTC)."),
    _entry("vx_time_sleep", VOID, "", nanoseconds=I64),
    # hash
    _entry("vx_crc32c", U32, "CRC-32C continued from `crc` (0 at first).", crc=U32, data=IN, bytes=I64),
    _entry("vx_sha256_begin", VOID, "`state`: SHA256_STATE_BYTES.", state=OUT),
    _entry("vx_sha256_update", VOID, "", state=OUT, data=IN, bytes=I64),
    _entry("vx_sha256_end", VOID, "Writes 32 bytes.", state=OUT, digest=OUT),
    # net: deadlines are vx_time_now values; every call gives -errno on failure, -ETIMEDOUT past its deadline
    _entry("vx_tcp_listen", I32, "`address` is HOST:PORT (port 0: any free one); a descriptor or -errno.",
           address=STR, backlog=I32),
    _entry("vx_tcp_port", I32, "The local port, or -errno.", socket=I32),
    _entry("vx_tcp_accept", I32, "A descriptor or -errno.", socket=I32, deadline=I64),
    _entry("vx_tcp_connect", I32, "A descriptor or -errno.", address=STR, deadline=I64),
    _entry("vx_tcp_read", I64, "At least one byte; 0 at the end of the stream.", socket=I32, data=OUT, bytes=I64,
           deadline=I64),
    _entry("vx_tcp_read_exact", I64, "`bytes`, or fewer if the stream ended.", socket=I32, data=OUT, bytes=I64,
           deadline=I64),
    _entry("vx_tcp_write", I64, "At least one byte written.", socket=I32, data=IN, bytes=I64, deadline=I64),
    _entry("vx_tcp_write_all", I64, "`bytes`.", socket=I32, data=IN, bytes=I64, deadline=I64),
    _entry("vx_tcp_finish", I32, "Ends our side of the stream; the peer reads its end.", socket=I32),
    _entry("vx_tcp_close", VOID, "", socket=I32),
    # trace
    _entry("vx_trace_enabled", I32, "1 if VX_TRACE names a file."),
    _entry("vx_trace_begin", VOID, "", name=STR),
    _entry("vx_trace_end", VOID, "", name=STR),
    _entry("vx_trace_value", VOID, "", name=STR, value=I64),
)  # fmt: skip
"""What the standard library calls through `extern "C"`."""

ENTRIES: Mapping[str, Entry] = MappingProxyType({e.name: e for e in (*CORE, *PRINT, *STD)})
"""Every function of the runtime by name."""

FILE_MODES: Mapping[str, int] = MappingProxyType({"READ": 0, "CREATE": 1, "APPEND": 2})

MODEL_ENTRY_FIELDS: tuple[tuple[str, CType], ...] = (
    ("name", STR),
    ("offset", I64),
    ("bytes", I64),
    ("elem", I32),
    ("pad", I32),
    ("count", I64),
    ("key", U64),
    ("scale", F32),
    ("bias", F32),
)
"""One element of `vx_model_table`: 56 bytes. `offset` counts from the start of the file; `bytes` is the
length there, `count` the number of elements; `key`, `scale`, `bias` are for generated tensors."""

MODEL_SYMBOLS: tuple[tuple[str, str], ...] = (
    ("vx_model_table", "const vx_model_entry vx_model_table[]"),
    ("vx_model_count", "const int32_t vx_model_count"),
    ("vx_model_file", "const char *const vx_model_file"),
    ("vx_model_random_seed", "const int64_t vx_model_random_seed"),
)
"""Constants that a program with a model defines (external linkage); the runtime holds weak defaults for the
others. `vx_model_file` is relative to the model directory; the seed is -1 if there is none."""

CALLER = "vx_caller"
"""The variable in which a program leaves, for messages, where it last called the library, allocated or started a
region (`file.vx:12`); null before that."""

_TOP = """\
/* The contract between compiled programs and the runtime. Written by `python -m vx.runtime.abi`: edit abi.py. */
#ifndef VX_ABI_H
#define VX_ABI_H

#include <stdint.h>
"""


def _declare(type_: CType, name: str) -> str:
    return f"{type_.c}{name}" if type_.c.endswith("*") else f"{type_.c} {name}"


def _prototype(entry: Entry) -> str:
    params = ", ".join(_declare(type_, name) for name, type_ in entry.params) or "void"
    comment = f"/* {entry.doc} */\n" if entry.doc else ""
    return f"{comment}{'_Noreturn ' if entry.noreturn else ''}{_declare(entry.ret, entry.name)}({params});"


def _constants() -> list[str]:
    values = {
        "VX_ABI_VERSION": ABI_VERSION,
        "VX_EXIT_ABORT": EXIT_ABORT,
        "VX_EXIT_OUTPUT": EXIT_OUTPUT,
        "VX_EXIT_REFUSED": EXIT_REFUSED,
        "VX_MAX_RANK": MAX_RANK,
        "VX_MODEL_GENERATED": MODEL_GENERATED,
        "VX_SHA256_STATE_BYTES": SHA256_STATE_BYTES,
        "VX_TRACE_VERSION": TRACE_VERSION,
        **{f"VX_ELEM_{name.upper()}": tag for name, tag in ELEMENTS.items()},
        **{f"VX_FILE_{name}": mode for name, mode in FILE_MODES.items()},
    }
    return [f"#define {name} ({value})" for name, value in values.items()]


def render_header() -> str:
    """The text of `vx_abi.h`."""
    fields = [f"    {_declare(type_, name)};" for name, type_ in MODEL_ENTRY_FIELDS]
    lines = [
        _TOP,
        *_constants(),
        "",
        "/* Works on indices begin..end of a parallel loop. */",
        "typedef void (*vx_task)(void *context, int64_t begin, int64_t end);",
        "",
        "typedef struct {",
        *fields,
        "} vx_model_entry;",
        "",
        *(f"extern {declaration};" for _, declaration in MODEL_SYMBOLS),
        f"extern const char *{CALLER};",
        "",
        *(_prototype(entry) for entry in (PROGRAM_MAIN, *ENTRIES.values())),
        "",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


_VX_TOP = """\
// The runtime's functions, for the standard library. Written by `python -m vx.runtime.abi`: edit abi.py.
// A function without pointers can do no harm; the others trust their arguments.

extern "C" {
"""


def _vx_declaration(entry: Entry) -> str:
    pointers = any(type_.llvm == "ptr" for _, type_ in entry.params)
    params = ", ".join(f"{name} : {type_.vx}" for name, type_ in entry.params)
    return f"  {'' if pointers else 'safe '}fn {entry.name}({params}) -> {entry.ret.vx};"


def render_declarations() -> str:
    """The text of `std/runtime.vx`."""
    callable_ = [e for e in ENTRIES.values() if all(type_.vx for _, type_ in e.params)]
    return _VX_TOP + "\n".join(map(_vx_declaration, callable_)) + "\n}\n"


HEADER = Path(__file__).with_name("vx_abi.h")
DECLARATIONS = Path(__file__).parent.with_name("std") / "runtime.vx"

if __name__ == "__main__":
    HEADER.write_text(render_header(), encoding="utf-8")
    DECLARATIONS.write_text(render_declarations(), encoding="utf-8")

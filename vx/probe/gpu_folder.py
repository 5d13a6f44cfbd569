"""The folder with which GPUs are measured: made here, carried to their machine, run there without Python or a compiler.

Enters: what the GPUs run (`sm_90`). Leaves: a folder with the native program, the device plugin that it drives, a kernel
that reads memory, and `probe.txt`, which says what to measure. The program prints one JSON document, from which
`gpu_result` makes a machine file.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from vx import __version__
from vx.codegen.cache import write_atomically, writing
from vx.codegen.link import Announce, announce_on_stderr, compile_c, link_executable
from vx.codegen.plugin import library_name, plugin_library
from vx.codegen.target import X86_64, Target
from vx.codegen.triton import Parameter, Printed
from vx.codegen.triton_compile import TARGETS, Binary, NoTriton, assembler, compile_kernels
from vx.diagnostics.report import CompileError, Diagnostic, Level
from vx.diagnostics.span import NOWHERE
from vx.probe.campaign import KIB, MIB

SOURCES = tuple(Path(__file__).with_name(name) for name in ("gpu.c", "gpu_facts.c"))
PROGRAM, KERNEL, SETTINGS = "probe", "read.cubin", "probe.txt"
FILES = (PROGRAM, library_name("cuda"), KERNEL, SETTINGS, "README")
READ_BYTES = 4 << 30
"""What one reading of the memory reads: much more than any cache."""

_SIZES = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16 * KIB, 32 * KIB, 64 * KIB)
HOST_SIZES = tuple(size * KIB for size in _SIZES)
PEER_SIZES = (*HOST_SIZES, 128 * MIB, 256 * MIB)
HELD_OUT = tuple(size * KIB for size in (6, 24, 96, 192, 384, 1536, 6 * 1024, 20 * 1024, 44 * 1024))

_READ = """import triton
import triton.language as tl


@triton.jit
def read_all(data, sums, blocks):
    pid = tl.program_id(0)
    total = tl.zeros((4096,), tl.int32)
    for block in range(pid, blocks, tl.num_programs(0)):
        total += tl.load(data + block.to(tl.int64) * 4096 + tl.arange(0, 4096))
    tl.store(sums + pid, tl.sum(total))
"""
_PARAMETERS = (
    Parameter("buffer", "data", "*i32", 0),
    Parameter("buffer", "sums", "*i32", 1),
    Parameter("scalar", "blocks", "i32", 0),
)
READ_KERNEL = Printed("read_all", _READ, _PARAMETERS, (), 8, 0, False)
"""Each program sums every n-th block of 16 KiB, n the number of programs: its sum shows that it read all of them."""


def gpu_isas() -> tuple[str, ...]:
    """What a folder can be made for: the plugin drives CUDA devices."""
    return tuple(name for name, (backend, _, _) in TARGETS.items() if backend == "cuda")


def make_folder(folder: Path, isa: str, target: Target = X86_64, announce: Announce = announce_on_stderr) -> None:
    """Write `FILES` into `folder`, which is made if it is not there.

    Raises E9037 if Triton is not installed, E9021 or E9022 if a file cannot be written, and what building the program
    and the plugin raises.
    """
    binary, least_driver = _read_kernel(isa)
    with writing(folder):
        folder.mkdir(exist_ok=True)
    link_executable([compile_c(source, target) for source in SOURCES], folder / PROGRAM, target, announce)
    plugin = plugin_library("cuda", target, announce).read_bytes()
    settings = settings_text(isa, binary, least_driver).encode()
    for name, data in zip(FILES[1:], (plugin, binary.image, settings, _readme(isa).encode()), strict=True):
        write_atomically(folder / name, data, mode=0o644)


def settings_text(isa: str, binary: Binary, least_driver: int, read_bytes: int = READ_BYTES) -> str:
    """What the program reads: `KEY VALUE` lines."""
    lines = [
        f"tool vx {__version__}",
        f"isa {isa}",
        f"min_driver {least_driver}",
        f"kernel {binary.symbol}",
        f"sha256 {hashlib.sha256(binary.image).hexdigest()}",
        f"threads {binary.threads}",
        f"shared {binary.shared}",
        f"read {read_bytes}",
    ]
    sizes = (("host", HOST_SIZES), ("host_check", HELD_OUT), ("peer", PEER_SIZES), ("peer_check", HELD_OUT))
    return "\n".join([*lines, *(f"{key} {size}" for key, list_ in sizes for size in list_)]) + "\n"


def _read_kernel(isa: str) -> tuple[Binary, int]:
    try:
        return compile_kernels([READ_KERNEL], isa)[0], assembler(isa)[1]
    except NoTriton as error:
        raise CompileError([Diagnostic("E9037", Level.ERROR, str(error), NOWHERE)]) from error


def _readme(isa: str) -> str:
    return f"""Measures the GPUs ({isa}) of the machine that it runs on. It needs their driver, and neither Python nor a compiler.

    ./{PROGRAM} > result.json

takes about a minute. Where this folder was made, then:

    vx machine probe --from result.json -o measured.vx
"""

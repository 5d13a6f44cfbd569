"""Kernels of a program for its GPU, compiled.

Enters: the regions that run on a GPU, and what the GPU is called (`sm_90`). Leaves: a file for each kernel, in the
order of their numbers, and the oldest driver that loads them.
"""

from __future__ import annotations

from collections.abc import Sequence

from vx.codegen.host_launch import GpuRegion, count_kernel
from vx.codegen.host_manifest import KernelFile
from vx.codegen.triton_compile import TARGETS, NoTriton, assembler, compile_kernels
from vx.codegen.triton_manifest import file_name
from vx.diagnostics.report import CompileError, Diagnostic, Help, Level
from vx.diagnostics.span import NOWHERE


def supported(isa: str | None) -> bool:
    """Whether programs can be built for this part: kernels can be compiled, and there is a plugin that runs them."""
    return isa is not None and isa in TARGETS and TARGETS[isa][0] == "cuda"


def compiled(regions: Sequence[GpuRegion], isa: str) -> tuple[list[KernelFile], int]:
    """The kernels and the least driver version. Raises `CompileError` (E9037) if Triton is not installed."""
    printed = [*(kernel for region in regions for kernel in region.printed), count_kernel(isa)]
    try:
        binaries = compile_kernels(printed, isa)
        _, min_driver = assembler(isa)
    except NoTriton as error:
        help_ = Help(
            "install it: pip install 'vx[gpu]'; or let host memory stand in for the device with --devices host"
        )
        raise CompileError([Diagnostic("E9037", Level.ERROR, str(error), NOWHERE, helps=(help_,))]) from error
    files = []
    for kernel, binary in zip(printed, binaries, strict=True):
        if binary.global_scratch or binary.profile_scratch:
            message = f"the kernel {kernel.symbol} wants scratch memory of its compiler's own"
            raise CompileError([Diagnostic("E9029", Level.ERROR, message, NOWHERE)])
        files.append(
            KernelFile(
                kernel.symbol,
                file_name(kernel.symbol, isa),
                binary.image,
                binary.threads,
                binary.shared,
                len(kernel.parameters),
                kernel.dependent,
            )
        )
    return files, min_driver

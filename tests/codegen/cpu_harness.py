"""Runs regions inside the test process: LLVM's JIT, and a runtime made of a few callbacks."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from vx.codegen.cpu import emit_level_modules, emit_regions
from vx.codegen.target import X86_64
from vx.kernels import ir

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()

DTYPES: dict[str, Any] = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": np.uint16, "bool": np.uint8,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
}  # fmt: skip
_C: dict[str, Any] = {
    "f32": ctypes.c_float, "f64": ctypes.c_double, "bool": ctypes.c_int8,
    "i8": ctypes.c_int8, "i16": ctypes.c_int16, "i32": ctypes.c_int32, "i64": ctypes.c_int64,
    "u8": ctypes.c_uint8, "u16": ctypes.c_uint16, "u32": ctypes.c_uint32, "u64": ctypes.c_uint64,
}  # fmt: skip

ABORTED = 101


class Runtime:
    """The runtime's functions. `level` and `threads` are what they claim; units are handed out in an order
    that no real pool would choose, so that a dependence between units shows."""

    level = 0
    threads = 1
    portions = 0

    def __init__(self) -> None:
        task = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

        def parallel(function: int, context: int, count: int, grain: int) -> None:
            starts = list(range(0, count, grain))
            for start in [*starts[1::2], *starts[0::2][::-1]]:
                task(function)(context, start, min(start + grain, count))
                self.portions += 1

        def abort(message: bytes) -> None:
            os.write(2, message)
            os._exit(ABORTED)

        def scratch(size: int) -> int:
            self._scratch = ctypes.create_string_buffer(size + 64)
            address = ctypes.addressof(self._scratch)
            return address + (-address) % 64

        p, i64, i32 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
        self._callbacks = {
            "vx_parallel": ctypes.CFUNCTYPE(None, p, p, i64, i64)(parallel),
            "vx_thread_count": ctypes.CFUNCTYPE(i32)(lambda: self.threads),
            "vx_cpu_level": ctypes.CFUNCTYPE(i32)(lambda: self.level),
            "vx_abort": ctypes.CFUNCTYPE(None, ctypes.c_char_p)(abort),
            "vx_thread_scratch": ctypes.CFUNCTYPE(p, i64)(scratch),
        }
        for name, callback in self._callbacks.items():
            llvm.add_symbol(name, ctypes.cast(callback, p).value)
        libc = ctypes.CDLL(None)
        for name, own in (("vx_alloc", "malloc"), ("vx_free", "free")):
            llvm.add_symbol(name, ctypes.cast(getattr(libc, own), p).value)


RUNTIME = Runtime()


def cpu_levels() -> list[int]:
    """The x86-64 levels that this machine runs; none on another architecture."""
    flags = set(Path("/proc/cpuinfo").read_text().split())
    levels = [2] if "sse4_2" in flags else []
    levels += [3] if {"avx2", "fma", "f16c", "bmi2"} <= flags else []
    return levels + ([4] if {"avx512f", "avx512bw", "avx512vl", "avx512dq"} <= flags else [])


class Compiled:
    """Regions as callable machine code."""

    def __init__(self, regions: Sequence[ir.Region], opt: int = 2, per_level: bool = False) -> None:
        texts = emit_level_modules(regions, X86_64) if per_level else [emit_regions(regions, X86_64)]
        self.text = "\n".join(texts)
        machine = llvm.Target.from_triple(X86_64.triple).create_target_machine(opt=opt, jit=True)
        parsed = [llvm.parse_assembly(f'target datalayout = "{machine.target_data}"\n{text}') for text in texts]
        module = parsed[0]
        for other in parsed[1:]:
            module.link_in(other)
        module.verify()
        if opt:
            builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=opt))
            builder.getModulePassManager().run(module, builder)
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Where a region's function is."""
        return int(self._engine.get_function_address(name))


def call(
    compiled: Compiled, region: ir.Region, tensors: Sequence[np.ndarray[Any, Any]], scalars: Sequence[Any]
) -> list[Any]:
    """Calls a region; the final values of its `out` scalars."""
    arguments: list[Any] = []
    types: list[Any] = []
    outs: list[Any] = []
    flat, numbers = iter(tensors), iter(scalars)
    for param in region.params:
        if isinstance(param, ir.TensorParam):
            types.append(ctypes.c_void_p)
            arguments.append(next(flat).ctypes.data)
            continue
        type_ = _C[param.var.type]
        value = type_(next(numbers))
        if param.out:
            outs.append(value)
            types.append(ctypes.c_void_p)
            arguments.append(ctypes.addressof(value))
        else:
            types.append(type_)
            arguments.append(value)
    ctypes.CFUNCTYPE(None, *types)(compiled.address(region.name))(*arguments)
    return [out.value for out in outs]


def run_at(compiled: Compiled, region: ir.Region, level: int, tensors: Sequence[np.ndarray[Any, Any]], scalars: Sequence[Any] = (), threads: int = 1) -> list[Any]:  # fmt: skip
    """Calls a region as on a processor of a level."""
    RUNTIME.level, RUNTIME.threads = level, threads
    return call(compiled, region, tensors, scalars)


def ends_process(compiled: Compiled, region: ir.Region, level: int, tensors: Sequence[np.ndarray[Any, Any]], scalars: Sequence[Any] = ()) -> bool:  # fmt: skip
    """Whether a region, run in a child process, aborts."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        run_at(compiled, region, level, tensors, scalars)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == ABORTED

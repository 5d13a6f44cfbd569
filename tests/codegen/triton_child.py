"""Runs launches of generated kernels in Triton's interpreter, in a process of its own: `triton_child.py JOB RESULT`.

The job is a pickle of `(folder for the sources, [(device region, printed kernels, arrays, scalars)])`; the result
one of `[(arrays, out scalars, message of the failed check or None)]`.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import sys
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter as triton_interpreter

from vx.codegen.triton import Printed
from vx.kernels import device, ir
from vx.kernels.interpret import Interpreter

NUMPY = {"f16": "float16", "f32": "float32", "f64": "float64", "bool": "int8", "bf16": "int16"}
NUMPY |= {f"{s[0]}{b}": f"{s}{b}" for s in ("int", "uint") for b in (8, 16, 32, 64)}


class Ended(Exception):
    """A check of the host failed."""


# ---- what the interpreter lacks ----------------------------------------------------------------
def repair_interpreter() -> None:
    """Comparisons of scalars are booleans also after they were broadcast; products of bf16 take its values, not
    its bits."""
    builder = triton_interpreter.InterpreterBuilder
    original, dot = builder.binary_op, builder.create_dot

    def binary_op(self: Any, left: Any, right: Any, op: Any) -> Any:
        result = original(self, left, right, op)
        if result.data.dtype == np.bool_:
            result.dtype = tl.int1
        return result

    def create_dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        wide = [self.cast_impl(x, tl.float32) if x.dtype == tl.bfloat16 else x for x in (a, b)]
        return dot(self, *wide, *rest)

    builder.binary_op, builder.create_dot = binary_op, create_dot


class Libdevice:
    """The functions of `triton.language.extra.libdevice` that kernels call, in numpy."""


def _rounded(x: Any) -> Any:
    half = np.asarray(0.49999997019767761 if x.dtype == np.float32 else 0.49999999999999994, x.dtype)
    return np.trunc(x + np.copysign(half, x))


def _function(compute: Any) -> Any:
    def call(*args: Any) -> Any:
        data = compute(*[a.handle.data for a in args]).astype(args[0].handle.data.dtype)
        return tl.core.tensor(triton_interpreter.TensorHandle(data, args[0].handle.dtype), args[0].type)

    return call


for name, compute in {"tan": np.tan, "tanh": np.tanh, "log10": np.log10, "pow": np.power, "atan2": np.arctan2,
                      "trunc": np.trunc, "round": _rounded}.items():  # fmt: skip
    setattr(Libdevice, name, staticmethod(_function(compute)))


def load(printed: list[Printed], folder: Path, number: int) -> Any:
    path = folder / f"kernels_{number}.py"
    head = printed[0].source.split("@triton.jit")[0]
    path.write_text(head + "\n\n".join(p.source[len(head) :] for p in printed))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.libdevice = Libdevice
    module.gdc_wait = module.gdc_launch_dependents = lambda: None
    return module


# ---- one region --------------------------------------------------------------------------------
def to_torch(array: Any, elem: str) -> Any:
    found = torch.from_numpy(np.array(array).view(NUMPY[elem]))
    return found.view(torch.bfloat16) if elem == "bf16" else found


def to_numpy(tensor: Any, elem: str) -> Any:
    return tensor.view(torch.int16).numpy().view(np.uint16) if elem == "bf16" else tensor.numpy()


class Runner:
    """The memory of one region, and its launches."""

    def __init__(self, region: device.Region, printed: list[Printed], module: Any, arrays: Any, numbers: Any) -> None:
        self.region, self.printed, self.module = region, printed, module
        self.elems = {b.id: b.elem for b in region.buffers}
        self.memory: dict[int, Any] = {}
        self.host = Interpreter(ir.Region("", (), (), (), (), region.span))
        self.block = torch.full((max(len(region.block), 1),), 0x5A5A5A5A5A5A5A5A, dtype=torch.int64)
        self.error = torch.zeros(1, dtype=torch.int32)
        flat, given = iter(arrays), iter(numbers)
        entries = iter(enumerate(region.block))
        for param in region.params:
            if isinstance(param, ir.TensorParam):
                self.memory[param.buffer] = to_torch(next(flat), self.elems[param.buffer])
            else:
                self._scalar(*next(entries), next(given))
        for scratch in region.scratch:
            size = scratch.bytes // np.dtype(NUMPY[self.elems[scratch.buffer]]).itemsize
            poison = np.full(size, 77, NUMPY[self.elems[scratch.buffer]])
            self.memory[scratch.buffer] = to_torch(poison, self.elems[scratch.buffer])

    def _scalar(self, number: int, entry: device.Entry, value: Any) -> None:
        kind = NUMPY[entry.var.type]
        raw = np.array([value], kind)
        self.block.numpy().view(np.uint8)[8 * number : 8 * number + raw.itemsize] = raw.view(np.uint8)
        self.host.scalars[entry.var.id] = value
        if entry.slot is not None:
            self.memory[entry.slot] = to_torch(raw, entry.var.type)

    def issue(self, steps: tuple[device.Step, ...]) -> None:
        for step in steps:
            match step:
                case device.Check(cond=cond, message=message):
                    if not self.host.value(cond):
                        raise Ended(message)
                case device.Let(var=var, value=value):
                    self.host.scalars[var.id] = self.host.value(value)
                case device.If(cond=cond, then=then, orelse=orelse):
                    self.issue(then if self.host.value(cond) else orelse)
                case device.For(var=var, low=low, high=high, body=body):
                    for i in range(int(self.host.value(low)), int(self.host.value(high))):
                        self.host.scalars[var.id] = i
                        self.issue(body)
                case device.Launch():
                    self._launch(step)

    def _programs(self, printed: Printed) -> int:
        total = 0
        for part in printed.programs:
            count = 1
            for axis, tile in part.axes:
                extent = self.host.value(axis.high) - self.host.value(axis.low) if axis.on_host else axis.most or 0
                count *= -(-max(int(extent), 0) // tile)
            total += count if part.fixed is None else part.fixed
        return total

    def _launch(self, launch: device.Launch) -> None:
        printed = self.printed[launch.kernel]
        programs = self._programs(printed)
        arguments = []
        for p in printed.parameters:
            match p.kind:
                case "buffer":
                    arguments.append(self.memory[p.index])
                case "scalar":
                    arguments.append(self.host.value(launch.arguments[p.index]))
                case "private":
                    arguments.append(torch.full((printed.private_bytes,), 77, dtype=torch.int8))
                case _:
                    arguments.append(self.block if p.kind == "block" else self.error)
        if programs:
            getattr(self.module, printed.symbol)[(programs,)](*arguments)

    def results(self, failed: str | None) -> Any:
        code = int(self.error[0])
        if code:
            failed = self.region.messages[code - 1]
        arrays = [to_numpy(self.memory[p.buffer], self.elems[p.buffer])
                  for p in self.region.params if isinstance(p, ir.TensorParam)]  # fmt: skip
        outs = [self.memory[e.slot].numpy()[0] for e in self.region.block if e.slot is not None]
        return arrays, outs, failed


def main() -> None:
    repair_interpreter()
    np.seterr(all="ignore")
    folder, runs = pickle.loads(Path(sys.argv[1]).read_bytes())
    modules: dict[tuple[str, ...], Any] = {}
    results = []
    for region, printed, arrays, numbers in runs:
        key = tuple(p.source for p in printed)
        if key and key not in modules:
            modules[key] = load(printed, Path(folder), len(modules))
        runner = Runner(region, printed, modules.get(key), arrays, numbers)
        failed = None
        try:
            runner.issue(region.body)
        except Ended as ended:
            failed = str(ended)
        results.append(runner.results(failed))
    Path(sys.argv[2]).write_bytes(pickle.dumps(results))


if __name__ == "__main__":
    main()

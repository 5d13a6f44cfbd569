#!/usr/bin/env python3
"""The kernels of `programs/llama.vx`, one region at a time, on a GPU, against values computed on a CPU.

    python bench/gpu_kernels.py --prepare DIR [--model MODEL]... [--time MODEL]... [--random N]
                                              [--variants FILE] [--dependent] [--target sm_90]
                                                                                       where vx is installed
    python bench/gpu_kernels.py DIR                                                    on the GPU machine

`--prepare` compiles the kernels of each model's regions, makes inputs, and lets the CPU build compute what should
come out (a model given with `--time` is only timed; `--random` adds N random regions, to be exact). `--variants` names
a JSON file, {NAME: {"rows,length,bits,sums": [rows, columns, warps], …}}: tables of tiles (`codegen/triton_table.py`)
in place of the built-in one, with each of which the decode step of every timed model is prepared; "-dependent" at the
end of a name stands for `--dependent`. The second form needs only Python and the driver (`libcuda.so.1`): it launches
the kernels in order, prints the largest differences of every buffer that a region writes, the time of each kernel
(its launches as one captured graph), and of the whole region as a captured graph. It ends with status 1 if a
difference is above the stated limit or an error word is set.
"""

from __future__ import annotations

import argparse
import array
import ctypes
import json
import math
import statistics
import struct
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PERIOD = 8191
"""Inputs repeat after so many elements, a prime, so that they need little room."""
LIMIT = 2e-4
"""‖got − expected‖ / ‖expected‖ that is allowed in f32."""
HALVES = {"f16": 2e-3, "bf16": 2e-2}
"""The same for 16-bit elements, by type."""
CODES = {"f32": "f", "f64": "d", "f16": "H", "bf16": "H", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u8": "B", "u16": "H", "u32": "I",
         "u64": "Q", "bool": "b"}  # fmt: skip


# ---- preparing, where vx is installed --------------------------------------------------------------
def sizes(config: dict) -> dict[str, int]:
    """Elements of each tensor of the program."""
    dim, hidden, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    layers, ctx, block = config["num_hidden_layers"], config["max_position_embeddings"], 256
    head = config.get("head_dim") or dim // config["num_attention_heads"]
    kv = config["num_key_value_heads"] * head
    rows = {"x": ctx, "xn": block, "q": block, "o": block}
    found = {f"s.{name}": n * dim for name, n in rows.items()}
    found |= {"s.kn": block * kv, "s.g": block * hidden, "s.u": block * hidden, "s.h": hidden}
    found |= {"t.toks": ctx + 1, "s.toks": ctx + 1, "t.logits": vocab, "s.logits": vocab, "w.out_norm": dim}
    found |= {"w.emb": vocab * dim, "w.head": vocab * dim, "c.k": layers * ctx * kv, "c.v": layers * ctx * kv}
    found |= {"w.rope": ctx * head, "w.att_norm": layers * dim, "w.ffn_norm": layers * dim}
    found |= {"w.wq": layers * dim * dim, "w.wo": layers * dim * dim, "w.wk": layers * kv * dim}
    return found | {"w.wv": layers * kv * dim} | {f"w.w{i}": layers * hidden * dim for i in (1, 2, 3)}


CASES = (
    ("embed", {"n": 7}),
    ("prefill_layer", {"l": 1, "at": 0, "m": 5}),
    ("prefill_layer", {"l": 2, "at": 70, "m": 20}),
    ("prefill_layer", {"l": 0, "at": 0, "m": 256}),
    ("first_token", {"n": 9, "greedy": True}),
    ("step", {"p": 0, "greedy": True}),
    ("step", {"p": 83, "greedy": True}),
    ("step", {"p": 255, "greedy": True}),
)


TIMED = (("prefill_layer", {"l": 0, "at": 0, "m": 256}), ("step", {"p": 127, "greedy": True}),
         ("step", {"p": 4000, "greedy": True}))  # fmt: skip


def prepare_model(folder: Path, model: str | None, target: str, timed: bool, dependent: bool) -> None:
    if dependent:
        folder = folder.with_name(f"{folder.name}-dependent")
    from cpu_harness import Compiled

    from vx import build
    from vx.diagnostics.report import Reporter
    from vx.diagnostics.source import SourceMap
    from vx.options import Options

    options = Options(model=model)
    regions = list(build.check(str(ROOT / "programs" / "llama.vx"), options, SourceMap(), Reporter()).regions)
    prepare_kernels(folder, regions, target, dependent)
    config = json.loads((Path(model or ROOT / "models" / "tiny") / "config.json").read_text())
    cases = prepare_cases(folder, regions, None if timed else Compiled(regions), config, TIMED if timed else CASES)
    (folder / "cases.json").write_text(json.dumps(cases, indent=1))
    print(f"{folder}: {len(regions)} regions, {len(cases)} cases")


def prepare_variants(folder: Path, model: str, target: str, tables: dict[str, dict[str, list[int]]]) -> None:
    """The decode step with each of the tables."""
    from vx import build
    from vx.codegen import triton_table
    from vx.diagnostics.report import Reporter
    from vx.diagnostics.source import SourceMap
    from vx.options import Options

    options = Options(model=model)
    found = build.check(str(ROOT / "programs" / "llama.vx"), options, SourceMap(), Reporter()).regions
    regions = [r for r in found if r.name.endswith("_step")]
    config = json.loads((Path(model) / "config.json").read_text())
    built_in = triton_table.TUNED
    for name, table in tables.items():
        tiles = {triton_table.Shape(*map(int, k.split(","))): triton_table.Tile(*v) for k, v in table.items()}
        triton_table.TUNED = tiles
        mine = folder.with_name(f"{folder.name}-{name}")
        prepare_kernels(mine, regions, target, name.endswith("-dependent"))
        cases = prepare_cases(mine, regions, None, config, TIMED[1:])
        (mine / "cases.json").write_text(json.dumps(cases, indent=1))
        print(mine)
    triton_table.TUNED = built_in


def prepare_random(folder: Path, count: int, target: str) -> None:
    """Random regions, whose results are small whole numbers and so exact."""
    from dataclasses import replace
    from random import Random

    import numpy as np
    from cpu_harness import Compiled, cpu_levels, run_at
    from test_cpu_random import ELEMS, OUT, OUT_INT, SCALARS, SIZE, Writer

    regions = [replace(Writer(Random(seed)).region(), name=f"random_{seed}") for seed in range(count)]
    prepare_kernels(folder, regions, target)
    compiled = Compiled(regions)
    rng = np.random.default_rng(1)
    floats, ints = rng.integers(-4, 5, SIZE).astype(np.float32), rng.integers(-50, 50, SIZE).astype(np.int32)
    given = [
        floats,
        ints,
        rng.integers(0, SIZE, SIZE).astype(np.int32),
        np.zeros(SIZE, np.float32),
        np.zeros(SIZE, np.int32),
    ]
    cases = []
    for i, values in enumerate(given):
        values.tofile(folder / "data" / f"{i}.in")
    for number, region in enumerate(regions):
        tensors, scalars = [a.copy() for a in given], [value for _, value in SCALARS]
        run_at(compiled, region, max(cpu_levels()), tensors, scalars)
        for i in (OUT, OUT_INT):
            tensors[i].tofile(folder / "data" / f"{number}_{i}.out")
        shapes = [{"name": f"{i}", "type": e, "length": SIZE, "in": f"{i}.in"} for i, e in enumerate(ELEMS)]
        outs = [[i, 0, SIZE] for i in (OUT, OUT_INT)]
        cases.append({"region": region.name, "scalars": scalars, "tensors": shapes, "outs": outs, "checked": True})
    (folder / "cases.json").write_text(json.dumps(cases, indent=1))
    print(f"{folder}: {len(regions)} regions")


def prepare_kernels(folder: Path, regions: list, target: str, dependent: bool = False) -> None:
    """The folder's kernels, their sources and the manifest."""
    from vx.codegen.triton_manifest import build_kernels

    facts, files, sources = build_kernels(regions, target, dependent)
    for name in ("kernels", "data", "source"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name, image in files.items():
        (folder / "kernels" / name).write_bytes(image)
    for symbol, source in sources.items():
        (folder / "source" / f"{symbol}.py").write_text(source)
    (folder / "manifest.json").write_text(json.dumps(facts, indent=1))


def bfloat16(x: object) -> object:
    import numpy as np

    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def prepare_cases(folder: Path, regions: list, compiled: object, config: dict, wanted: tuple) -> list[dict]:
    import numpy as np
    from cpu_harness import cpu_levels, run_at

    from vx.kernels import ir

    count, made = sizes(config), {}
    rng = np.random.default_rng(1)

    def input_of(b: ir.Buffer) -> np.ndarray:
        name = f"{b.name}.{b.elem}"
        if name not in made:
            n = min(PERIOD, count[b.name])
            if b.elem == "i32":
                made[name] = rng.integers(0, config["vocab_size"], n).astype(np.int32)
            else:
                scale = 0.5 / math.sqrt(config["hidden_size"]) if b.name.startswith("w.w") else 1.0
                x = scale * rng.standard_normal(n)
                made[name] = (
                    bfloat16(x) if b.elem == "bf16" else x.astype({"f32": np.float32, "f16": np.float16}[b.elem])
                )
            made[name].tofile(folder / "data" / f"{name}.in")
        return np.resize(made[name], count[b.name] if compiled else 1)

    cases = []
    fitting = (case for case in wanted if case[1].get("p", 0) < config["max_position_embeddings"])
    for number, (name, scalars) in enumerate(fitting):
        region = next(r for r in regions if r.name.endswith(f"_{name}"))
        buffers = {b.id: b for b in region.buffers}
        params = [buffers[p.buffer] for p in region.params if isinstance(p, ir.TensorParam)]
        tensors = [input_of(b) for b in params]
        before = [t.copy() for t in tensors]
        given = [scalars[p.var.name] for p in region.params if isinstance(p, ir.ScalarParam)]
        if compiled:
            run_at(compiled, region, max(cpu_levels()), tensors, given)
        outs = []
        for i, b in enumerate(params):
            changed = np.flatnonzero(before[i] != tensors[i])
            if changed.size:
                first, last = int(changed[0]), int(changed[-1]) + 1
                tensors[i][first:last].tofile(folder / "data" / f"{number}_{b.name}.out")
                outs.append([i, first, last])
        shapes = [
            {"name": b.name, "type": b.elem, "length": count[b.name], "in": f"{b.name}.{b.elem}.in"} for b in params
        ]
        cases.append(
            {"region": region.name, "scalars": given, "tensors": shapes, "outs": outs, "checked": bool(compiled)}
        )
    return cases


# ---- the driver ------------------------------------------------------------------------------------
class Driver:
    """libcuda.so.1, with errors as exceptions."""

    def __init__(self) -> None:
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        name = ctypes.create_string_buffer(100)
        self.call("cuDeviceGetName", name, 100, device)
        version = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        self.name, self.version = name.value.decode(), version.value
        self.context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.call("cuCtxSetCurrent", self.context)
        self.stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)

    def call(self, name: str, *args: object) -> None:
        status = getattr(self.lib, name)(*args)
        if status:
            text = ctypes.c_char_p()
            self.lib.cuGetErrorString(status, ctypes.byref(text))
            raise RuntimeError(f"{name}: {status} {(text.value or b'?').decode()}")

    def sync(self) -> None:
        self.call("cuStreamSynchronize", self.stream)

    def alloc(self, size: int, fill: int = 0xFF) -> int:
        at = ctypes.c_uint64()
        size = max(size, 256)
        self.call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(size))
        self.call("cuMemsetD8_v2", at, ctypes.c_ubyte(fill), ctypes.c_size_t(size))
        return at.value

    def upload(self, at: int, data: bytes) -> None:
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(at), data, ctypes.c_size_t(len(data)))

    def fill(self, at: int, pattern: bytes, size: int) -> None:
        """The pattern over and over; what is there is doubled on the device."""
        done = min(len(pattern), size)
        self.upload(at, pattern[:done])
        while done < size:
            more = min(done, size - done)
            self.call("cuMemcpyDtoD_v2", ctypes.c_uint64(at + done), ctypes.c_uint64(at), ctypes.c_size_t(more))
            done += more

    def download(self, at: int, size: int) -> bytes:
        data = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(at), ctypes.c_size_t(size))
        return data.raw

    def event(self) -> ctypes.c_void_p:
        found = ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(found), 0)
        return found

    def milliseconds(self, enqueue, repeat: int) -> float:
        """Of one of `repeat` enqueued in a row."""
        first, last = self.event(), self.event()
        self.call("cuEventRecord", first, self.stream)
        for _ in range(repeat):
            enqueue()
        self.call("cuEventRecord", last, self.stream)
        self.call("cuEventSynchronize", last)
        took = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(took), first, last)
        return took.value / repeat


# ---- launching -------------------------------------------------------------------------------------
def wrap(value: int, kind: str) -> int:
    if kind == "bool":
        return int(value != 0)
    bits = int(kind[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if (kind[0] == "i" or bits == 64) and value >> (bits - 1) else value


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


BINARY = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": quotient,
    "%": lambda a, b: a - quotient(a, b) * b, "==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b), ">": lambda a, b: int(a > b), "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b), "&&": lambda a, b: a & b, "||": lambda a, b: a | b, "&": lambda a, b: a & b,
    "|": lambda a, b: a | b, "^": lambda a, b: a ^ b, "min": min, "max": max,
}  # fmt: skip


def evaluate(text: str, names: dict[str, int]) -> int:
    """A postfix program of the manifest."""
    stack: list[int] = []
    for word in text.split():
        if word in names:
            stack.append(names[word])
        elif word.lstrip("-").isdigit():
            stack.append(int(word))
        elif word in BINARY:
            b, a = stack.pop(), stack.pop()
            stack.append(wrap(BINARY[word](a, b), "i64"))
        elif word == "neg":
            stack.append(wrap(-stack.pop(), "i64"))
        elif word == "not":
            stack.append(1 - stack.pop())
        elif word == "?":
            c, b, a = stack.pop(), stack.pop(), stack.pop()
            stack.append(b if a else c)
        else:
            stack.append(wrap(stack.pop(), word))
    return stack[0]


class LaunchAttribute(ctypes.Structure):
    """6: programmatic stream serialization, allowed or not."""

    _fields_ = (
        ("id", ctypes.c_int),
        ("pad", ctypes.c_char * 4),
        ("allowed", ctypes.c_int),
        ("rest", ctypes.c_char * 60),
    )


class LaunchConfig(ctypes.Structure):
    _fields_ = (
        *((f"grid_{a}", ctypes.c_uint) for a in "xyz"), *((f"block_{a}", ctypes.c_uint) for a in "xyz"),
        ("shared", ctypes.c_uint), ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint),
    )  # fmt: skip


class Kernels:
    """The loaded kernels of one folder."""

    def __init__(self, driver: Driver, folder: Path, manifest: dict) -> None:
        self.driver, self.facts, self.functions = driver, manifest["kernels"], {}
        for symbol, facts in self.facts.items():
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            image = (folder / "kernels" / facts["file"]).read_bytes()
            driver.call("cuModuleLoadData", ctypes.byref(module), image)
            driver.call("cuModuleGetFunction", ctypes.byref(function), module, symbol.encode())
            if facts["shared"] > 48 * 1024:
                driver.call("cuFuncSetAttribute", function, 8, facts["shared"])
            self.functions[symbol] = function


class Run:
    """One region with its memory."""

    def __init__(self, driver: Driver, kernels: Kernels, region: dict, case: dict, folder: Path) -> None:
        self.driver, self.kernels, self.region = driver, kernels, region
        self.block = driver.alloc(region["block_bytes"])
        self.error = driver.alloc(4, 0)
        self.private = driver.alloc(region["private_bytes"])
        scratch = driver.alloc(region["scratch_bytes"])
        self.names: dict[str, int] = {}
        for i, value in enumerate(case["scalars"]):
            self.names[f"b{i}"] = int(value)
            driver.upload(self.block + 8 * i, struct.pack("<q", int(value)))
        self.inputs = []
        tensors = []
        for t in case["tensors"]:
            pattern = (folder / "data" / t["in"]).read_bytes()
            size = t["length"] * array.array(CODES[t["type"]]).itemsize
            tensors.append(driver.alloc(size))
            self.inputs.append((tensors[-1], pattern, size))
        where = {"tensor": lambda at: tensors[at], "block": lambda at: self.block + 8 * at,
                 "scratch": lambda at: scratch + at}  # fmt: skip
        self.buffers = {b["id"]: where[b["where"]](b["at"]) for b in region["buffers"]}
        self.tensors = tensors
        self.keep: list[object] = []
        self.launches: list[tuple[str, list[object], int]] = []
        self.collect(region["steps"])

    def reset(self) -> None:
        for at, pattern, size in self.inputs:
            self.driver.fill(at, pattern, size)
        self.driver.upload(self.error, bytes(4))
        self.driver.call("cuCtxSynchronize")

    def collect(self, steps: list[dict]) -> None:
        """The launches in order, with their arguments."""
        for step in steps:
            if step["do"] == "launch":
                self.launch(step)
            elif step["do"] == "let":
                self.names[f"v{step['value']}"] = evaluate(step["is"], self.names)
            elif step["do"] == "check":
                if not evaluate(step["cond"], self.names):
                    raise RuntimeError(step["message"])
            elif step["do"] == "if":
                self.collect(step["then"] if evaluate(step["cond"], self.names) else step["else"])
            else:
                for i in range(evaluate(step["low"], self.names), evaluate(step["high"], self.names)):
                    self.names[f"v{step['value']}"] = i
                    self.collect(step["body"])

    def launch(self, step: dict) -> None:
        facts = self.kernels.facts[step["kernel"]]
        programs = 0
        for part in step["grid"]:
            count = 1
            for axis in part.get("axes", []):
                extent = axis["most"] if axis["extent"] is None else evaluate(axis["extent"], self.names)
                count *= -(-max(extent, 0) // axis["tile"])
            programs += part.get("fixed", count)
        if programs == 0:
            return
        values: list[object] = []
        for p in facts["parameters"]:
            if p["kind"] == "scalar":
                types = {"i64": ctypes.c_int64, "i32": ctypes.c_int32}
                values.append(types[p["type"]](evaluate(step["arguments"][p["index"]], self.names)))
            elif p["kind"] == "buffer":
                values.append(ctypes.c_uint64(self.buffers[p["index"]]))
            else:
                values.append(ctypes.c_uint64(getattr(self, p["kind"])))
        for kind in ("global_scratch", "profile_scratch"):
            size = facts[kind] * programs
            values.append(ctypes.c_uint64(self.driver.alloc(size) if size else 0))
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        self.keep += values
        self.launches.append((step["kernel"], [pointers, facts], programs))

    def enqueue(self, one: tuple[str, list[object], int]) -> None:
        """The first launch of a region waits for all before it; others that are made for it may overlap."""
        symbol, (pointers, facts), programs = one
        if facts["dependent"] and one is not self.launches[0]:
            attribute = LaunchAttribute(6, b"", 1)
            how = LaunchConfig(programs, 1, 1, facts["threads"], 1, 1, facts["shared"], self.driver.stream,
                               ctypes.addressof(attribute), 1)  # fmt: skip
            self.driver.call("cuLaunchKernelEx", ctypes.byref(how), self.kernels.functions[symbol], pointers, None)
            return
        self.driver.call("cuLaunchKernel", self.kernels.functions[symbol], programs, 1, 1, facts["threads"], 1, 1,
                         facts["shared"], self.driver.stream, pointers, None)  # fmt: skip

    def all(self) -> None:
        for one in self.launches:
            self.enqueue(one)

    def graph(self, launches):
        """Enqueues launches as one captured graph."""
        graph, ready = ctypes.c_void_p(), ctypes.c_void_p()
        self.driver.call("cuStreamBeginCapture_v2", self.driver.stream, 2)
        for one in launches:
            self.enqueue(one)
        self.driver.call("cuStreamEndCapture", self.driver.stream, ctypes.byref(graph))
        self.driver.call("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, ctypes.c_uint64(0))
        return lambda: self.driver.call("cuGraphLaunch", ready, self.driver.stream)

    def graph_time(self, launches) -> tuple[float, float]:
        """Median and least time of launches as a graph, in ms."""
        replay = self.graph(launches)
        replay()
        times = [self.driver.milliseconds(replay, 20) for _ in range(5)]
        return statistics.median(times), min(times)

    def close(self) -> None:
        self.driver.sync()
        for at in self.tensors:
            self.driver.call("cuMemFree_v2", ctypes.c_uint64(at))


def decoded(elements: array.array, kind: str) -> array.array:
    """16-bit floats as floats."""
    if kind == "f16":
        return array.array("f", struct.unpack(f"<{len(elements)}e", elements.tobytes()))
    if kind == "bf16":
        found = array.array("f")
        found.frombytes(array.array("I", [x << 16 for x in elements]).tobytes())
        return found
    return elements


def compare(run: Run, case: dict, number: int, folder: Path) -> bool:
    """Prints how far each written buffer is from what the CPU computed; whether all are close."""
    good = True
    if not case["checked"]:
        return good
    error = struct.unpack("<i", run.driver.download(run.error, 4))[0]
    if error:
        print(f"    error word {error}: {run.region['messages'][error - 1]}")
        good = False
    types = {t["type"] for t in case["tensors"]}
    changed = {i: (first, last) for i, first, last in case["outs"]}
    for i, t in enumerate(case["tensors"]):
        expected, got = array.array(CODES[t["type"]]), array.array(CODES[t["type"]])
        _, pattern, size = run.inputs[i]
        before = (pattern * (size // len(pattern) + 1))[:size]
        after = run.driver.download(run.tensors[i], len(before))
        first, last = (x * got.itemsize for x in changed.get(i, (0, 0)))
        if before[:first] != after[:first] or before[last:] != after[last:]:
            print(f"    {t['name']}: elements CHANGED that the region does not store to")
            good = False
        if i not in changed:
            continue
        expected.frombytes((folder / "data" / f"{number}_{t['name']}.out").read_bytes())
        got.frombytes(after[first:last])
        expected, got = decoded(expected, t["type"]), decoded(got, t["type"])
        if t["type"][0] not in "fb" or t["type"] == "bool":
            same = expected == got
            print(f"    {t['name']}: {'equal' if same else 'DIFFERENT'}")
            good &= same
            continue
        worst = max(abs(a - b) if a - b == a - b else math.inf for a, b in zip(expected, got, strict=True))
        size = math.sqrt(sum(a * a for a in expected))
        relative = math.sqrt(sum((a - b) ** 2 for a, b in zip(expected, got, strict=True))) / (size or 1.0)
        fine = relative <= HALVES.get(t["type"], max([LIMIT, *(HALVES[e] for e in types & HALVES.keys())]))
        good &= fine
        print(f"    {t['name']}: max |difference| {worst:.3g}, relative {relative:.3g}{'' if fine else '  TOO FAR'}")
    return good


def measure(run: Run) -> None:
    """Prints the time of a launch of each kernel, when its launches follow each other, and of the region."""
    for symbol in dict.fromkeys(s for s, _, _ in run.launches):
        mine = [one for one in run.launches if one[0] == symbol]
        took = 1000 * run.graph_time(mine)[0] / len(mine)
        print(f"    {symbol}: {took:.2f} µs × {len(mine)} ({mine[0][2]} programs)")
    median, least = run.graph_time(run.launches)
    print(f"    {len(run.launches)} launches as one graph: {median:.4f} ms (least {least:.4f})", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--prepare", type=Path)
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--time", action="append", default=[])
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--variants", type=Path)
    parser.add_argument("--dependent", action="store_true", help="kernels that overlap with the launch before them")
    parser.add_argument("--target", default="sm_90")
    options = parser.parse_args()
    if options.prepare:
        sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "codegen")]
        if options.random:
            prepare_random(options.prepare / "random", options.random, options.target)
        for model in options.model or ([] if options.time else [None]):
            name = Path(model).name if model else "tiny"
            prepare_model(options.prepare / name, model, options.target, False, options.dependent)
        if options.variants:
            tables = json.loads(options.variants.read_text())
            for model in options.time:
                prepare_variants(options.prepare / Path(model).name, model, options.target, tables)
            return 0
        for model in options.time:
            prepare_model(options.prepare / Path(model).name, model, options.target, True, options.dependent)
        return 0
    if options.folder is None:
        parser.error("name the prepared folder")
    driver = Driver()
    print(f"{driver.name}, driver {driver.version}")
    good, seen = True, 0
    for folder in sorted(p.parent for p in options.folder.glob("*/manifest.json")):
        manifest = json.loads((folder / "manifest.json").read_text())
        kernels = Kernels(driver, folder, manifest)
        print(f"{folder.name}: {len(kernels.functions)} kernels for {manifest['target']}")
        for number, case in enumerate(json.loads((folder / "cases.json").read_text())):
            region = next(r for r in manifest["regions"] if r["name"] == case["region"])
            print(f"  {region['name']} {case['scalars']}")
            run = Run(driver, kernels, region, case, folder)
            run.reset()
            run.all()
            run.driver.sync()
            good &= compare(run, case, number, folder)
            measure(run)
            run.close()
            seen += 1
    print("all close" if good and seen else "FAILED")
    return 0 if good and seen else 1


if __name__ == "__main__":
    sys.exit(main())

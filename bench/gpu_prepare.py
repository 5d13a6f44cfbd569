"""Builds all that a run on a GPU needs, and what each run must give.

Enters: the checkout with vx installed; `../shared` where there are real weights. Leaves: in a folder, artifacts by name,
`plan.json` (what `gpu_run.py` runs) and `expected.json` (what `gpu_judge.py` holds it against). With `devices="host"` the
stand-in takes the GPU's place, so that all of this is tested without one.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gpu_programs import NotMovable, forced, moved
from gpu_run import PLAN, Case

from vx.artifact.write import write_output
from vx.build import build as build_program
from vx.diagnostics.report import Reporter
from vx.diagnostics.source import SourceMap
from vx.model.info import ModelInfo, load_model
from vx.model.llama2c import import_llama2c
from vx.model.report import kv_bytes, weight_bytes
from vx.model.shapes import random_model
from vx.options import Options

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
LLAMA = ROOT / "programs" / "llama.vx"
EXPECTED = "expected.json"
PROMPT = (1, 403, 407)
SEED = 5

Wanted = dict[str, Any]


@dataclass(slots=True)
class Preparation:
    """What is being prepared. `devices` is "host" for the stand-in, else None."""

    folder: Path
    scratch: Path
    devices: str | None
    cases: list[Case] = field(default_factory=list)
    expected: dict[str, list[Wanted]] = field(default_factory=dict)

    def artifact(self, name: str, program: Path, **options: Any) -> str:
        """Build a program for the GPU machine, as `name`. Returns the executable, relative to the folder."""
        chosen = {"machine": "h200", "host": "default", "devices": self.devices} | options
        built = build_program(str(program), Options(**chosen), SourceMap(), Reporter())
        write_output(built, str(program), Options(**chosen), f"{self.folder / name}/")
        return f"{name}/program"

    def cpu(self, name: str, program: Path, **options: Any) -> str:
        """Build a program for the CPU alone."""
        return self.artifact(name, program, machine=None, host=None, devices=None, **options)

    def add(self, case: Case, *wanted: Wanted) -> None:
        self.cases.append(case)
        self.expected[case.name] = list(wanted)


def prepare(folder: Path, devices: str | None = None, only: Sequence[str] = ()) -> None:
    """Prepare the cases of every group, or of those in `only`."""
    groups = [(name, GROUPS[name]) for name in only or GROUPS]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        p = Preparation(Path(work, "made"), Path(work, "scratch"), devices)
        p.scratch.mkdir()
        for name, group in groups:
            print(f"{name} …", flush=True)
            group(p)
        write_plan(p)
        shutil.rmtree(folder, ignore_errors=True)
        p.folder.rename(folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {len(p.cases)} cases, {size / 2**20:.1f} MB")


def write_plan(p: Preparation) -> None:
    """What is to be run, and what it must give."""
    (p.folder / PLAN).write_text(json.dumps([asdict(case) for case in p.cases], indent=1))
    (p.folder / EXPECTED).write_text(json.dumps(p.expected, indent=1))


# ---- Llama --------------------------------------------------------------------------------------------
def ids_arguments(positions: int, prompt: Sequence[int] = PROMPT) -> tuple[str, ...]:
    words = ["--ids", "--no-stop", "--positions", str(positions)]
    return tuple([*words, "--prompt-ids", ",".join(map(str, prompt))] if prompt else words)


def decoding(positions: int, prompt: int = len(PROMPT), **more: int) -> Wanted:
    """Evidence with as many steps as tokens: the first comes out of the prompt."""
    return {"kind": "evidence", "steps": positions - prompt - 1, **more}


def tiny(p: Preparation) -> None:
    """The model that ships with Vx. What it must generate is what the CPU generates here."""
    program = p.artifact("tiny", LLAMA)
    ids = _ids_here(p, p.cpu("tiny-cpu", LLAMA), 256)
    p.add(Case("tiny", program, ids_arguments(256), runs=3), {"kind": "ids", "ids": ids}, decoding(256))
    _timed_cpu(p, "tiny", "tiny-cpu/program", (64, 256))
    p.add(Case("tiny 64", program, ids_arguments(64), runs=3))
    p.expected["tiny"] += [{"kind": "faster", "than": "tiny cpu", "lengths": [64, 256], "required": False}]


def _ids_here(p: Preparation, program: str, positions: int, prompt: Sequence[int] = PROMPT) -> list[int]:
    import subprocess

    command = [str(p.folder / program), *ids_arguments(positions, prompt)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    return [int(word) for word in done.stdout.split()]


def _timed_cpu(p: Preparation, name: str, program: str, lengths: tuple[int, int]) -> None:
    for suffix, length in zip((f" {lengths[0]}", ""), lengths, strict=True):
        p.add(Case(f"{name} cpu{suffix}", program, ids_arguments(length), devices=0, runs=3))


def stories(p: Preparation) -> None:
    """The real 260K model: every golden story, on one device."""
    if (found := _golden()) is None:
        return
    program = p.artifact("stories260K", LLAMA, model=str(_stories(p, "f32").dir))
    for number, case in enumerate(found["cases"]):
        name = f"stories260K {number}"
        arguments = ids_arguments(len(case["ids"]), case["prompt_ids"])
        wanted = {"kind": "ids", "ids": case["ids"]}, decoding(len(case["ids"]), len(case["prompt_ids"]))
        p.add(Case(name, program, arguments), *wanted)


LONG_PROMPT = 300
"""More rows than prefill takes at once, and a rest that is a multiple of nothing."""


def long_prompts(p: Preparation) -> None:
    """The same model up to its last position, alone and after a prompt that takes two blocks: as the CPU tells it."""
    if _golden() is None:
        return
    model = str(_stories(p, "f32").dir)
    ids = _ids_here(p, p.cpu("stories260K-cpu", LLAMA, model=model), 512, (1,))
    shutil.rmtree(p.folder / "stories260K-cpu")
    wanted: Wanted = {"kind": "ids", "ids": ids}
    program, two = (p.artifact(f"long-{name}", LLAMA, model=model, machine=name) for name in ("h200", "node-2gpu-h200"))
    p.add(Case("long", program, ids_arguments(512, (1,))), wanted, decoding(512, 1))
    arguments = ids_arguments(512, ids[:LONG_PROMPT])
    p.add(Case("long prompt", program, arguments), wanted, decoding(512, LONG_PROMPT))
    case = Case("long prompt disagg", two, (*arguments, "--role", "disagg"), devices=2)
    p.add(case, wanted, decoding(512, LONG_PROMPT, switches=1))


def _golden() -> dict[str, Any] | None:
    path = SHARED / "golden" / "stories260K.json"
    if not path.exists():
        print(f"SKIPPED LOUDLY: {path} is not here, so nothing is checked against real weights")
        return None
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def _stories(p: Preparation, elem: str) -> ModelInfo:
    out = p.scratch / f"stories260K-{elem}"
    models = SHARED / "models"
    return load_model(out) if out.exists() else import_llama2c(models / "stories260K.bin", models / "tok512.bin", out, elem)  # fmt: skip


def halves(p: Preparation) -> None:
    """The same model in 16 bits: as far as possible what the CPU generates with the same weights."""
    if _golden() is None:
        return
    for elem in ("f16", "bf16"):
        model = str(_stories(p, elem).dir)
        ids = _ids_here(p, p.cpu(f"stories260K-{elem}-cpu", LLAMA, model=model), 256)
        shutil.rmtree(p.folder / f"stories260K-{elem}-cpu")
        program = p.artifact(f"stories260K-{elem}", LLAMA, model=model)
        wanted = {"kind": "ids", "ids": ids, "at_least": 24}
        p.add(Case(f"stories260K {elem}", program, ids_arguments(256)), wanted, decoding(256))


FORCED = ((9, 40), (LONG_PROMPT, LONG_PROMPT + 8))
"""Prompts and positions for which logits are wanted."""
LOGIT_LIMITS = {"f32": 1e-5, "f16": 5e-3, "bf16": 4e-2}
"""‖logits − reference‖ / ‖reference‖ that is allowed, over all positions."""


def logits(p: Preparation) -> None:
    """The real 260K model fed with golden stories: logits of prefill's last row and of each step against float64, with
    the weights as they are stored."""
    found = _golden()
    if found is None:
        return
    sys.path.insert(0, str(ROOT / "tests" / "model"))
    from llama_reference import Reference

    fed = [*found["cases"][1]["ids"], *found["cases"][2]["ids"]]
    program = p.scratch / "programs" / "llama.vx"
    shutil.copytree(LLAMA.parent, program.parent)
    program.write_text(forced(LLAMA.read_text(), fed[: FORCED[-1][1]]))
    for elem, limit in LOGIT_LIMITS.items():
        info = _stories(p, elem)
        reference = Reference(info)
        rows = [reference.step(token) for token in fed[: FORCED[-1][1]]]
        built = p.artifact(f"logits-{elem}", program, model=str(info.dir))
        for prompt, positions in FORCED:
            expected = [[round(float(x), 7) for x in row] for row in rows[prompt - 1 : positions - 1]]
            arguments = ("--temperature", "1", *ids_arguments(positions, fed[:prompt])[1:])
            wanted = {"kind": "logits", "rows": expected, "limit": limit}
            p.add(Case(f"logits {elem} {prompt}", built, arguments), wanted, decoding(positions, prompt))


def disaggregated(p: Preparation) -> None:
    """Prefill on one device, decode on another."""
    two = {"machine": "node-2gpu-h200"}
    program = p.artifact("tiny-two", LLAMA, **two)
    ids = _ids_here(p, p.cpu("tiny-once", LLAMA), 256)
    shutil.rmtree(p.folder / "tiny-once")
    role = ("--role", "disagg")
    case = Case("tiny disagg", program, (*ids_arguments(256), *role), devices=2, runs=3)
    p.add(case, {"kind": "ids", "ids": ids}, decoding(256, switches=1))
    found = _golden()
    if found is not None:
        program = p.artifact("stories260K-two", LLAMA, model=str(_stories(p, "f32").dir), **two)
        for number, story in enumerate(found["cases"]):
            arguments = (*ids_arguments(len(story["ids"]), story["prompt_ids"]), *role)
            steps = decoding(len(story["ids"]), len(story["prompt_ids"]), switches=1)
            wanted = {"kind": "ids", "ids": story["ids"]}, steps
            p.add(Case(f"stories260K disagg {number}", program, arguments, devices=2), *wanted)


@dataclass(frozen=True, slots=True)
class Timed:
    """A shape to time, up to `lengths[-1]` positions; with a shorter one before it the slope between both is taken too.
    At `at` positions a token may take `limit_ms`, and the reading of its bytes must be at least `share` of it."""

    like: str
    elem: str
    seq: int
    lengths: tuple[int, ...]
    at: int
    runs: int
    limit_ms: float
    share: float
    seconds: float


TIMED = {
    "15M": Timed("stories15M", "f32", 512, (64, 512), 128, 5, 0.25, 0.0, 30),
    "1B": Timed("llama-3.2-1b", "bf16", 640, (96, 512), 128, 3, 0.73, 0.75, 90),
    "8B": Timed("llama-3.1-8b", "bf16", 640, (288,), 128, 3, 3.88, 0.85, 150),
    "1B at 4096": Timed("llama-3.2-1b", "bf16", 4352, (4200,), 4096, 2, 0.85, 0.70, 60),
}


def timed(p: Preparation, name: str) -> None:
    """Random weights: only the seed travels."""
    t = TIMED[name]
    info = random_model(t.like, SEED, p.scratch / name, t.elem, t.seq)
    folder = name.replace(" ", "-")
    program = p.artifact(folder, LLAMA, model=str(info.dir))
    unread = info.tensors["head"].bytes if info.architecture.tied else info.tensors["emb"].bytes
    step_bytes = weight_bytes(info) - unread + kv_bytes(info, t.at, 4 if t.elem == "f32" else 2)
    wanted: Wanted = {"kind": "time", "lengths": t.lengths, "at": t.at, "limit_ms": t.limit_ms, "share": t.share}
    for length in t.lengths[:-1]:
        p.add(Case(f"{name} {length}", program, ids_arguments(length), runs=t.runs, seconds=t.seconds))
    case = Case(name, program, ids_arguments(t.lengths[-1]), runs=t.runs, seconds=t.seconds)
    p.add(case, wanted | {"bytes": step_bytes}, decoding(t.lengths[-1]))


FIRST_TOKENS = (128, 1024, 4096)


def one_billion_long(p: Preparation) -> None:
    """The 1B shape with room for 4096 positions: a token there, and the first token after prompts of several lengths."""
    timed(p, "1B at 4096")
    for length in FIRST_TOKENS:
        prompt = [(at * 7919 + 13) % 128000 for at in range(length)]
        case = Case(f"1B first after {length}", "1B-at-4096/program", ids_arguments(length + 1, prompt), runs=3)
        p.add(case, {"kind": "first"}, {"kind": "evidence", "except": ["decode steps"]})


def fifteen_million(p: Preparation) -> None:
    timed(p, "15M")
    info = p.scratch / "15M"
    p.cpu("15M-cpu", LLAMA, model=str(info))
    _timed_cpu(p, "15M", "15M-cpu/program", (64, 512))
    p.expected["15M"] += [
        {"kind": "faster", "than": "15M cpu", "lengths": [64, 512], "required": True},
        {"kind": "same", "as": "15M cpu", "at_least": 24},
    ]


# ---- kernels ------------------------------------------------------------------------------------------
def kernels(p: Preparation) -> None:
    """The programs that compute in regions, on the device, against float64."""
    for name in kernel_names():
        kernel(p, name)


def kernel_names() -> list[str]:
    names = sorted(path.stem for path in (ROOT / "tests" / "programs" / "run").glob("kernel_*.vx"))
    return [name for name in names if _on_device(name) is not None]


def _on_device(name: str) -> str | None:
    try:
        text = moved((ROOT / "tests" / "programs" / "run" / f"{name}.vx").read_text())
    except NotMovable:
        return None
    return text if "spawn on(Topology::Device[0])" in text else None


def kernel(p: Preparation, name: str) -> None:
    text = _on_device(name)
    assert text is not None
    source = p.scratch / f"{name}.vx"
    source.write_text(text)
    oracle = _oracles()[name]
    wanted = {"kind": "numbers", "numbers": oracle.numbers(), "relative": oracle.relative, "absolute": oracle.absolute}
    p.add(Case(name, p.artifact(name, source), seconds=30), wanted, {"kind": "evidence"})


def _oracles() -> Mapping[str, Any]:
    sys.path.insert(0, str(ROOT / "tests" / "kernels_oracle"))
    import oracles
    import oracles_control  # noqa: F401 (registers its oracles)
    import oracles_placed  # noqa: F401

    found: Mapping[str, Any] = oracles.ORACLES
    return found


# ---- the plugin and refusals -------------------------------------------------------------------------
def plugin(p: Preparation) -> None:
    """`gpu_plugin.py`: what each entry of the plugin does and costs; it also measures how fast the device reads."""
    import gpu_plugin

    if p.devices is None:
        gpu_plugin.build(p.folder / "plugin", "sm_90")
        case = Case("plugin", "bench/gpu_plugin.py", ("run", "./plugin"), seconds=120, traced=False)
        p.add(case, {"kind": "plugin"})


LARGE = """fn main() -> i32 {
  let mut x = Tensor<f32, [1000, 50000000], Topology::Device[0]>::uninit();
  spawn on(Topology::Device[0]) { x[0][0] = 1.0; }
  println!("{}", transfer(x[0][0..1], Memory::CPU_DRAM));
  0
}
"""


def refusals(p: Preparation) -> None:
    """What must end with a message before any weights are read, and nothing running elsewhere."""
    tree = p.folder / p.artifact("refused", LLAMA)
    altered = sorted((tree.parent / "kernels").glob("*.cubin"))
    if p.devices is None:
        data = bytearray(altered[0].read_bytes())
        data[len(data) // 2] ^= 1
        altered[0].write_bytes(bytes(data))
        _refused(p, "altered kernel", "refused/program", "SHA-256")
        p.artifact("driverless", LLAMA)
        (p.folder / "no-driver").mkdir()
        (p.folder / "no-driver" / "libcuda.so.1").write_bytes(b"")
        _refused(p, "no libcuda", "driverless/program", "libcuda", ("LD_LIBRARY_PATH", "./no-driver"))
        _refused(p, "no device", "driverless/program", "no GPU|no device|0 devices", ("CUDA_VISIBLE_DEVICES", ""))
        p.artifact("two-devices", LLAMA, machine="node-2gpu-h200")
        one = ("CUDA_VISIBLE_DEVICES", "0")
        _refused(p, "index too high", "two-devices/program", r"Device\[1\]", one, ("--role", "disagg"))
        _refused(p, "too little memory", _large(p), "bytes free")


def _large(p: Preparation) -> str:
    """A program for a machine that claims twice the memory that an H200 has."""
    source, machine, fleet = p.scratch / "large.vx", p.scratch / "claimed.vx", ROOT / "fleet"
    source.write_text(LARGE)
    memory = (fleet / "parts" / "h200-memory.vx").read_text().replace("143771 MiB", "287542 MiB")
    machine.write_text((fleet / "h200.vx").read_text().replace('import "parts/h200-memory.vx";', memory))
    return p.artifact("large", source, machine=str(machine))


def _refused(p: Preparation, name: str, program: str, text: str, setting: tuple[str, str] | None = None, role: tuple[str, ...] = ()) -> None:  # fmt: skip
    arguments = (*ids_arguments(8), *role) if program != "large/program" else ()
    case = Case(f"refuses: {name}", program, arguments, (setting,) if setting else (), seconds=30)
    p.add(case, {"kind": "refusal", "text": text})


GROUPS: Mapping[str, Callable[[Preparation], None]] = {
    "tiny": tiny,
    "stories": stories,
    "long": long_prompts,
    "15M": fifteen_million,
    "plugin": plugin,
    "1B": lambda p: timed(p, "1B"),
    "kernels": kernels,
    "halves": halves,
    "logits": logits,
    "disaggregated": disaggregated,
    "refusals": refusals,
    "8B": lambda p: timed(p, "8B"),
    "1B at 4096": one_billion_long,
}
"""Groups of cases, the important ones first."""

"""Generated Triton source → machine code for a GPU, without a GPU.

Enters: `Printed` kernels and a target such as "sm_90" or "gfx942". Leaves: a cubin or hsaco each, with what a launch
needs to know. What was compiled before is taken from vx's cache, by content. `triton` (the extra `gpu`) is needed
only here.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from types import MappingProxyType
from typing import Any

from vx.codegen.cache import cache_root, write_atomically
from vx.codegen.triton import Printed

TARGETS: Mapping[str, tuple[str, int | str, int]] = MappingProxyType(
    {f"sm_{n}": ("cuda", n, 32) for n in (80, 90, 100)} | {"gfx942": ("hip", "gfx942", 64)}
)
"""Targets by name: Triton's backend, architecture, threads of a warp."""
STAGES = 3
"""Loads of a loop in flight ahead of a matrix product."""


class NoTriton(RuntimeError):
    """`triton` is not installed."""


@dataclass(frozen=True, slots=True)
class Binary:
    """One kernel's machine code. Two pointers come after its own parameters, to `global_scratch` and
    `profile_scratch` bytes of memory for each program (0: pass a null pointer)."""

    symbol: str
    image: bytes
    threads: int
    shared: int
    global_scratch: int
    profile_scratch: int


def compile_kernels(kernels: Sequence[Printed], target: str, workers: int = 2) -> list[Binary]:
    """The machine code of each kernel. Raises `NoTriton` where that is missing and something is not in the cache."""
    folder = cache_root() / "kernels"
    keys = [_key(k, target) for k in kernels]
    missing = [(k, key) for k, key in zip(kernels, keys, strict=True) if not (folder / key / "kernel.json").exists()]
    if len(missing) > 1 and workers > 1:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            list(pool.map(_compile_into, *zip(*[(k, target, str(folder / key)) for k, key in missing], strict=True)))
    else:
        for kernel, key in missing:
            _compile_into(kernel, target, str(folder / key))
    return [_read(folder / key) for key in keys]


def version() -> str:
    """Triton's version; raises `NoTriton`."""
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError as error:
        raise NoTriton("device kernels need Triton: pip install 'vx-lang[gpu]'") from error


def assembler(target: str) -> tuple[str, int]:
    """The release of the assembler that makes code for the target, and the least CUDA version that a driver must
    support to load it (as `cuDriverGetVersion` counts; 0 for AMD). Code of one major release loads in every driver
    of that release."""
    if TARGETS[target][0] != "cuda":
        return "llvm", 0
    import triton

    name = "ptxas-blackwell" if target == "sm_100" else "ptxas"
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name
    text = subprocess.run([str(tool), "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"release (\d+)\.(\d+)", text)
    assert found is not None, text
    return f"{found[1]}.{found[2]}", 1000 * int(found[1])


def _key(kernel: Printed, target: str) -> str:
    parts = [
        version(),
        target,
        str(STAGES),
        str(kernel.warps),
        kernel.source,
        *(f"{p.type} {kernel.aligned(p)}" for p in kernel.parameters),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _read(folder: Path) -> Binary:
    facts = json.loads((folder / "kernel.json").read_text())
    return Binary(image=(folder / "kernel.bin").read_bytes(), **facts)


def _compile_into(kernel: Printed, target: str, folder: str) -> None:
    """Compile one kernel and keep it. The folder is complete once it has `kernel.json`."""
    binary = _compile(kernel, target, Path(folder))
    facts = {k: v for k, v in asdict(binary).items() if k != "image"}
    write_atomically(Path(folder) / "kernel.bin", binary.image)
    write_atomically(Path(folder) / "kernel.json", json.dumps(facts).encode())


def _compile(kernel: Printed, target: str, folder: Path) -> Binary:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    backend, arch, warp = TARGETS[target]
    triton.knobs.cache.dir = str(cache_root() / "triton")
    triton.knobs.compilation.disable_line_info = True
    folder.mkdir(parents=True, exist_ok=True)
    source = ASTSource(
        fn=_function(kernel, folder),
        signature={p.name: p.type for p in kernel.parameters},
        constexprs={},
        attrs={(i,): [["tt.divisibility", 16]] for i, p in enumerate(kernel.parameters) if kernel.aligned(p)},
    )
    options = {"num_warps": kernel.warps, "num_stages": STAGES, "enable_fp_fusion": True}
    compiled = triton.compile(source, target=GPUTarget(backend, arch, warp), options=options)
    facts = compiled.metadata
    image = compiled.asm["cubin" if backend == "cuda" else "hsaco"]
    return Binary(
        kernel.symbol,
        image,
        facts.num_warps * warp,
        facts.shared,
        getattr(facts, "global_scratch_size", 0) or 0,
        getattr(facts, "profile_scratch_size", 0) or 0,
    )


def _function(kernel: Printed, folder: Path) -> Any:
    """The jit function; Triton reads its source from a file."""
    path = folder / f"{kernel.symbol}.py"
    path.write_text(kernel.source)
    spec = importlib.util.spec_from_file_location(f"vx_kernels.{kernel.symbol}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, kernel.symbol)

"""`vx doctor`: what this machine has, and what will and will not work on it."""

from __future__ import annotations

import ctypes.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from vx import __version__, resources
from vx.diagnostics.report import CompileError


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. `state` is "ok", "no" (something optional will not work) or "broken"."""

    what: str
    state: str
    detail: str


def doctor() -> None:
    """Report what this machine has and what will and will not work.

    Examples:

        vx doctor

    Exit status 1 if programs cannot be built and run here.
    """
    findings = list(examine())
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"vx {__version__}")
    for finding in findings:
        mark, style = {"ok": ("ok    ", "green"), "no": ("no    ", "yellow"), "broken": ("BROKEN", "bold red")}[
            finding.state
        ]
        console.print(Text.assemble((mark, style), f"  {finding.what:<22}{finding.detail}"))
    if any(finding.state == "broken" for finding in findings):
        raise typer.Exit(1)


def examine() -> Iterator[Finding]:
    """Everything worth knowing, most necessary first."""
    yield Finding("Python", "ok", f"{platform.python_version()} at {sys.executable}")
    yield from (_guarded(what, check) for what, check in _NEEDED)
    yield from (check() for check in (_model, _programs, _processor, _memory, _emulator, _nvidia, _gpu_kernels, _amd))


def _guarded(what: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(what, "ok", check())
    except CompileError as error:
        return Finding(what, "broken", str(error))
    except (ImportError, OSError, subprocess.SubprocessError) as error:
        return Finding(what, "broken", f"{type(error).__name__}: {error}")


def _target() -> str:
    from vx.codegen.target import native

    return f"executables for {native().name}; others with --target"


def _llvm() -> str:
    import llvmlite
    import llvmlite.binding

    version = ".".join(map(str, llvmlite.binding.llvm_version_info))
    return f"LLVM {version} (llvmlite {llvmlite.__version__})"


def _zig() -> str:
    from vx.codegen.link import zig

    path = zig()
    done = subprocess.run([str(path), "version"], capture_output=True, text=True, timeout=60, check=True)
    return f"zig {done.stdout.strip()}: compiles the runtime and links, no system compiler needed"


def _std() -> str:
    names = sorted(path.stem for path in resources.directory("std").glob("*.vx"))
    if not names:
        raise FileNotFoundError(f"no modules in {resources.directory('std')}")
    return f"{len(names)} modules: {', '.join(names)}"


def _cache() -> str:
    from vx.codegen.cache import cache_root

    root = cache_root()
    size = sum(file.stat().st_size for file in root.rglob("*") if file.is_file())
    return f"{root} ({size / 1e6:.0f} MB); move it with VX_CACHE_DIR, it may be deleted at any time"


_NEEDED: tuple[tuple[str, Callable[[], str]], ...] = (
    ("target", _target),
    ("code generator", _llvm),
    ("C compiler and linker", _zig),
    ("standard library", _std),
    ("cache", _cache),
)


def _model() -> Finding:
    tiny = resources.find("models", "tiny")
    if (tiny / "model.safetensors").is_file():
        return Finding("model", "ok", f"{tiny}: what `import model;` means without --model")
    return Finding("model", "no", f"no model at {tiny}: programs with `import model;` need --model DIR")


def _programs() -> Finding:
    folder = resources.directory("programs")
    if (folder / "llama.vx").is_file():
        return Finding("programs", "ok", f"{folder}: llama.vx and examples to start from")
    return Finding("programs", "no", f"the programs that ship with vx are missing from {folder}")


def _processor() -> Finding:
    flags = _first_line("/proc/cpuinfo", "flags") or _first_line("/proc/cpuinfo", "Features")
    known = [flag for flag in ("avx2", "fma", "f16c", "avx512f", "avx512bw", "asimd", "sve") if flag in flags.split()]
    name = _first_line("/proc/cpuinfo", "model name") or platform.machine()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Finding("processor", "ok", f"{name}, {cores} usable, {' '.join(known) or 'no vector extensions known'}")


def _memory() -> Finding:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Finding("memory", "ok", f"{total / 2**30:.1f} GiB")


def _emulator() -> Finding:
    other = "x86_64" if platform.machine().lower() in ("aarch64", "arm64") else "aarch64"
    name = f"qemu-{other}"
    path = shutil.which(name) or shutil.which(f"{name}-static")
    if path:
        return Finding(f"running {other}", "ok", path)
    return Finding(f"running {other}", "no", f"building for it works; running needs {name} (package qemu-user)")


def _nvidia() -> Finding:
    library = ctypes.util.find_library("cuda")
    devices = sorted(Path("/dev").glob("nvidia[0-9]*"))
    if library and devices:
        return Finding("NVIDIA GPU", "ok", f"{len(devices)} present, with a driver")
    return Finding("NVIDIA GPU", "no", "none usable here (no driver library or device)")


def _gpu_kernels() -> Finding:
    """Whether programs for GPUs can be built, which needs no GPU."""
    from vx.codegen.triton_compile import TARGETS, NoTriton, version

    try:
        found = version()
    except NoTriton:
        return Finding("GPU kernels", "no", "building for GPUs needs Triton: pip install 'vx-lang[gpu]'")
    return Finding("GPU kernels", "ok", f"Triton {found}: {', '.join(TARGETS)}")


def _amd() -> Finding:
    if Path("/dev/kfd").exists():
        return Finding("AMD GPU", "no", "present, but this version has no plugin for it")
    return Finding("AMD GPU", "no", "none here (no /dev/kfd)")


def _first_line(path: str, key: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as lines:
            return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), "")
    except OSError:
        return ""

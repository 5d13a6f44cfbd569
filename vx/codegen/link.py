"""Objects → executable, with the native runtime in it.

Enters: objects of a program and a `Target`. Leaves: an executable that starts with glibc 2.28 or newer
and holds no symbol and no path of the machine that made it. The C compiler and the linker are zig's, so
no system compiler is needed. The runtime's own objects are built once for each target and version and
kept in the cache.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from vx.codegen.cache import cache_root, disk_full, writing
from vx.codegen.compile import CompilerFault
from vx.codegen.target import Target
from vx.diagnostics.report import CompileError, Diagnostic, Help, Level
from vx.diagnostics.span import NOWHERE

RUNTIME = Path(__file__).parent.parent / "runtime"

COMPILE_FLAGS = (
    "-std=c17", "-O2", "-g0", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections",
    "-fno-sanitize=undefined", "-ffp-contract=off",
)  # fmt: skip
LINK_FLAGS = ("-pie", "-s", "-Wl,--gc-sections", "-Wl,--build-id=none", "-Wl,-z,relro", "-Wl,-z,now")
LIBRARIES = ("-lm", "-lpthread", "-ldl")

Announce = Callable[[str], None]


def announce_on_stderr(message: str) -> None:
    """Say on stderr that something takes a while this once."""
    print(message, file=sys.stderr, flush=True)


def zig() -> Path:
    """The zig program of the `ziglang` package. E9023 if the package is not there or not whole."""
    spec = importlib.util.find_spec("ziglang")
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent
        for name in ("zig", "zig.exe"):
            if (folder / name).is_file():
                return folder / name
    help_text = "install it again: python -m pip install ziglang"
    message = "the `ziglang` package, which compiles and links, is not installed or is incomplete"
    raise CompileError([Diagnostic("E9023", Level.ERROR, message, NOWHERE, helps=(Help(help_text),))])


def run_zig(arguments: Sequence[str], cwd: Path, doing: str) -> None:
    """Run `zig cc`. E9022 if it ran out of disk, E9029 if it refuses what we gave it."""
    cache = cache_root() / "zig"
    environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(cache), "ZIG_LOCAL_CACHE_DIR": str(cache)}
    command = [str(zig()), "cc", *arguments]
    with writing(cache):
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, check=False)
    if done.returncode == 0:
        return
    words = done.stderr.decode("utf-8", "replace")
    if "NoSpaceLeft" in words or "No space left" in words:
        raise disk_full(cache)
    raise CompilerFault(f"{doing} failed", words)


def _sources() -> list[Path]:
    return sorted(RUNTIME.glob("*.c"))


def _runtime_key(target: Target) -> str:
    """What the runtime's objects depend on: sources, headers, flags, target and the C compiler."""
    digest = hashlib.sha256()
    compiler = zig().stat()
    for word in (target.zig, target.zig_cpu, *COMPILE_FLAGS, *LINK_FLAGS, str(compiler.st_size), str(zig())):
        digest.update(word.encode() + b"\0")
    for path in sorted((*_sources(), *RUNTIME.glob("*.h"), *RUNTIME.glob("device/*.h"))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:24]


def _compile_source(source: Path, folder: Path, target: Target) -> None:
    arguments = ["-target", target.zig, f"-mcpu={target.zig_cpu}", *COMPILE_FLAGS, f"-I{RUNTIME}"]
    arguments += ["-c", str(source), "-o", f"{source.stem}.o"]
    run_zig(arguments, folder, f"compiling {source.name}")


def compile_c(source: Path, target: Target) -> bytes:
    """The object of one C source outside the runtime that is linked with it. E9021, E9022, E9023, E9029."""
    kept = cache_root()
    with writing(kept), tempfile.TemporaryDirectory(prefix=".compiling-", dir=kept) as name:
        _compile_source(source, Path(name), target)
        return (Path(name) / f"{source.stem}.o").read_bytes()


def runtime_objects(target: Target, announce: Announce = announce_on_stderr) -> tuple[Path, ...]:
    """The runtime's objects for `target`, built now if they are not in the cache.

    Raises E9021 or E9022 (the cache cannot be written), E9023 (no C compiler), E9029 (it refuses).
    """
    kept = cache_root() / "runtime"
    folder = kept / f"{target.name}-{_runtime_key(target)}"
    if not folder.is_dir():
        announce(f"building the runtime for {target.name} (once) …")
        with writing(kept):
            kept.mkdir(mode=0o700, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".building-", dir=kept) as name:
                _build_runtime(Path(name) / "objects", folder, target)
    return tuple(sorted(folder.glob("*.o")))


def _build_runtime(work: Path, folder: Path, target: Target) -> None:
    """Compile every source into `work`, try a link (which builds the C library's stubs), keep the result."""
    work.mkdir(mode=0o700)
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        list(pool.map(partial(_compile_source, folder=work, target=target), _sources()))
    trial = work.parent / "trial.c"
    trial.write_text("int main(void) { return 0; }\n", encoding="utf-8")
    run_zig(["-target", target.zig, *LINK_FLAGS, str(trial), "-o", "trial", *LIBRARIES], work.parent, "a trial link")
    try:
        os.rename(work, folder)
    except OSError:
        if not folder.is_dir():  # another build finished first: its objects are the same
            raise


def link_executable(
    objects: Sequence[bytes], output: Path, target: Target, announce: Announce = announce_on_stderr
) -> None:
    """Link a program's objects with the runtime into the executable `output` (mode 0755, replaced at once).

    Raises what `runtime_objects` raises, and E9021 or E9022 if `output` cannot be written.
    """
    runtime = runtime_objects(target, announce)
    with writing(output), tempfile.TemporaryDirectory(prefix=".linking-", dir=output.parent) as name:
        folder = Path(name)
        names = [f"{number}.o" for number in range(len(objects))]
        for object_name, data in zip(names, objects, strict=True):
            (folder / object_name).write_bytes(data)
        inputs = [*names, *map(str, runtime)]
        run_zig(["-target", target.zig, *LINK_FLAGS, *inputs, "-o", "program", *LIBRARIES], folder, "linking")
        os.chmod(folder / "program", 0o755)
        shutil.move(folder / "program", output)

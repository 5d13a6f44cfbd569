"""Device plugins: C sources of the runtime → `libvx_<name>.so`, which a program opens beside its executable.

Enters: the name of a plugin and a `Target`. Leaves: a shared library for glibc 2.28 or newer that needs nothing but
the C library: the vendor's driver is opened when the program runs. It is built once for each target and version
and kept in the cache.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from vx.codegen.cache import cache_root, writing
from vx.codegen.link import COMPILE_FLAGS, RUNTIME, Announce, announce_on_stderr, run_zig, zig
from vx.codegen.target import Target

DRIVERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "host": ("host",),
        "cuda": ("cuda_library", "cuda_device", "cuda_queue", "cuda_kernel"),
    }
)
"""Plugins, and the sources in which each differs from the others."""
FOLDER = RUNTIME / "device"
LINK_FLAGS = ("-shared", "-s", "-Wl,-Bsymbolic", "-Wl,--build-id=none", "-Wl,-z,relro", "-Wl,-z,now")


def library_name(name: str) -> str:
    """The file that a program opens."""
    return f"libvx_{name}.so"


def plugin_sources(name: str) -> tuple[Path, ...]:
    """The C files of a plugin: those that all share, its own, and what they use of the program's runtime."""
    special = {stem for stems in DRIVERS.values() for stem in stems}
    common = [path for path in sorted(FOLDER.glob("*.c")) if path.stem not in special]
    return (*common, *(FOLDER / f"{stem}.c" for stem in DRIVERS[name]), RUNTIME / "sha256.c")


def _key(name: str, target: Target) -> str:
    digest = hashlib.sha256()
    for word in (target.zig, *COMPILE_FLAGS, *LINK_FLAGS, str(zig()), str(zig().stat().st_size)):
        digest.update(word.encode() + b"\0")
    for path in (*plugin_sources(name), *sorted(FOLDER.glob("*.h")), *sorted(RUNTIME.glob("*.h"))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:24]


def plugin_library(name: str, target: Target, announce: Announce = announce_on_stderr) -> Path:
    """The library of plugin `name` for `target`, built now if it is not in the cache. The same sources give the same
    bytes wherever they are.

    Raises E9021 or E9022 (the cache cannot be written), E9023 (no C compiler), E9029 (it refuses).
    """
    kept = cache_root() / "plugins"
    folder = kept / f"{target.name}-{_key(name, target)}"
    found = folder / library_name(name)
    if found.is_file():
        return found
    announce(f"building the {name} plugin for {target.name} (once) …")
    with writing(kept):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".building-", dir=kept) as work:
            arguments = ["-target", target.zig, *COMPILE_FLAGS, f"-I{RUNTIME}", f"-I{FOLDER}", *LINK_FLAGS]
            inputs = map(str, plugin_sources(name))
            run_zig([*arguments, *inputs, "-o", library_name(name), "-ldl"], Path(work), f"building the {name} plugin")
            os.replace(Path(work) / library_name(name), found)
    return found

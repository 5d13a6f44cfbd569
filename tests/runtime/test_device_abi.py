"""The plugin interface: the header is in step with device_abi.py, and the C types with NVIDIA's where those are."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from pathlib import Path

import pytest
from runtime import device_plugin
from runtime.native import PROGRAMS

from vx.runtime import device_abi

SOURCES = device_plugin.SOURCES


def test_header_is_generated() -> None:
    assert device_abi.HEADER.read_text(encoding="utf-8") == device_abi.render_header()
    assert device_abi.FORWARDERS.read_text(encoding="utf-8") == device_abi.render_forwarders()


def test_every_entry_is_defined() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in SOURCES.glob("*.c"))
    missing = [name for name in device_abi.ENTRIES if not re.search(rf"^\w[^;]*[ *]{name}\(", text, re.MULTILINE)]
    assert missing == []


def test_constants_have_names_of_their_own() -> None:
    names = re.findall(r"^#define (\w+)", device_abi.render_header(), re.MULTILINE)
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", list(device_abi.STRUCTS))
def test_structures_have_no_hidden_padding(name: str) -> None:
    """So that code generation may write them field after field."""
    structure = device_plugin._structure(name)
    fields = [getattr(structure, key) for key, _, _ in device_abi.STRUCTS[name]]
    ends = [field.offset + field.size for field in fields]
    assert [field.offset for field in fields] == [0, *ends[:-1]]
    assert ctypes.sizeof(structure) == ends[-1]


def test_types_are_those_of_the_driver(tmp_path: Path) -> None:
    found = sorted(Path("/usr/local").glob("cuda*/include/cuda.h"))
    if not found:
        pytest.skip("no cuda.h on this machine: the layouts of cuda_api.h were NOT compared")
    command = [sys.executable, "-m", "ziglang", "cc", "-std=c17", "-c", f"-I{found[-1].parent}"]
    command += [
        f"-I{SOURCES}",
        f"-I{SOURCES.parent}",
        str(PROGRAMS / "cuda_layout.c"),
        "-o",
        str(tmp_path / "layout.o"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_file_but_those_of_the_driver_calls_it() -> None:
    """Decisions are apart from vendor calls, and measuring is apart from the Plan."""
    for path in SOURCES.glob("*.[ch]"):
        text = path.read_text(encoding="utf-8")
        if not path.name.startswith("cuda"):
            assert "cuda_api.h" not in text and not re.search(r"\bcu[A-Z]\w+\(", text), path.name
        elif path.suffix == ".c":
            assert "manifest" not in text, f"{path.name}: bytes are counted where nothing is known of the Plan"

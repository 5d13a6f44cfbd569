"""What the native program found on a GPU machine, read and checked.

Enters: its JSON document. Leaves: a `Run`. A document that is not whole, not this program's or made with a stand-in for
the driver is E9041: no figure is taken from it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vx.diagnostics.report import CompileError, Diagnostic, Help, Level
from vx.diagnostics.span import NOWHERE
from vx.probe.campaign import Kind

FORMAT = 1
KINDS: tuple[Kind, ...] = ("in", "out", "pinned_in", "pinned_out", "load", "peer")
NVLINK_RATES = {1: 20e9, 2: 25e9, 3: 25e9, 4: 25e9, 5: 25e9, 6: 25e9, 7: 50e9}
"""Bytes per second of one link, one way, by NVML's number of its version: 1.0, 2.0, 2.2, 3.0, 3.1, 4.0, 5.0. spec:
NVIDIA's data sheets, half of the total of all links divided by their number."""
PCIE_RATES = {3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""Bytes per second of one lane, one way, by generation: 8, 16, 32 GT/s with 128b/130b; 64 GT/s with FLITs of 242 in 256."""

Pair = tuple[float, float]
"""Nanoseconds of two repeats."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device. Peaks in bytes per second, None where the system does not say; `read` are two repeats' nanoseconds
    of reading `read_bytes`."""

    name: str
    uuid: str
    isa: str
    total: int
    largest: int
    granule: int
    read_bytes: int
    read: Pair
    memory_peak: float | None
    pcie_peak: float | None
    nvlinks: int
    nvlink_peak: float | None


@dataclass(frozen=True, slots=True)
class Way:
    """A kind of transfer and its devices; `other` is where a copy between devices goes, else -1."""

    kind: Kind
    device: int
    other: int


@dataclass(frozen=True, slots=True)
class Run:
    """All of a document: `times` has the two medians of each size, of each way."""

    date: str
    tool: str
    driver: str
    rounds: int
    gpus: tuple[Gpu, ...]
    times: Mapping[Way, Mapping[int, Pair]]


def read_result(path: Path) -> Run:
    """The document at `path`. Raises E9041, and E9001 or E9003 if it cannot be read."""
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise CompileError([Diagnostic("E9001", Level.ERROR, f"no such file: {path}", NOWHERE)]) from error
    except OSError as error:
        raise CompileError([Diagnostic("E9003", Level.ERROR, f"{path}: {error.strerror}", NOWHERE)]) from error
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise no_result("it is not JSON, or was cut off") from error
    try:
        return _run(document)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError, OverflowError) as error:
        raise no_result(f"a figure is missing or is none ({error})") from error


def no_result(why: str) -> CompileError:
    """E9041 for a document from which nothing is taken."""
    help_text = "run the folder's `probe` again on the GPU machine, and take all that it prints on stdout"
    message = f"this is no result of a GPU probe: {why}"
    return CompileError([Diagnostic("E9041", Level.ERROR, message, NOWHERE, helps=(Help(help_text),))])


def _run(document: Any) -> Run:
    if document["format"] != FORMAT or document["whole"] is not True:
        raise no_result("it is of another version, or not whole")
    if document["open"]["tier"] != "T2":
        raise no_result("a stand-in for the driver was measured, not a device")
    reads = {int(row["device"]): row for row in document["reads"]}
    gpus = tuple(_gpu(row, reads[number]) for number, row in enumerate(document["devices"]))
    if not gpus or len({gpu.name for gpu in gpus}) != 1:
        names = ", ".join(gpu.name for gpu in gpus)
        raise no_result(f"a machine file has devices of one kind, these are: {names}")
    return Run(
        str(document["date"]),
        str(document["tool"]),
        _driver(document),
        _whole(document["rounds"]),
        gpus,
        _times(document["transfers"], len(gpus)),
    )


def _times(rows: Any, devices: int) -> dict[Way, dict[int, Pair]]:
    found: dict[Way, dict[int, Pair]] = {}
    for row in rows:
        way = Way(KINDS[KINDS.index(row["kind"])], int(row["device"]), int(row["other"]))
        if not 0 <= way.device < devices or way.other >= devices or (way.kind == "peer") != (way.other >= 0):
            raise no_result(f"a transfer of device {way.device} to {way.other}, of {devices} devices")
        found.setdefault(way, {})[_whole(row["bytes"])] = _pair(row["ns"])
    return found


def _driver(document: Any) -> str:
    """The driver's version, from NVML or from the kernel module's own words, and the CUDA version that it supports."""
    module = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", document["module"])
    version = document["driver_version"] or (module[1] if module else "")
    cuda = _whole(document["open"]["driver"])
    return (f"{version}, " if version else "") + f"CUDA {cuda // 1000}.{cuda % 1000 // 10}"


def _gpu(row: Any, read: Any) -> Gpu:
    lanes, links = row.get("pcie_width", 0), row.get("nvlinks", 0)
    per_lane, per_link = PCIE_RATES.get(row.get("pcie_generation")), NVLINK_RATES.get(row.get("nvlink_version"))
    memory = 2 * row.get("memory_khz", 0) * 1000 * row.get("bus_bits", 0) / 8  # two transfers a clock
    return Gpu(
        str(row["name"]),
        str(row["uuid"]),
        str(row["isa"]),
        _whole(row["total"]),
        _whole(row["largest"]),
        _whole(row["granule"]),
        _whole(read["bytes"]),
        _pair(read["ns"]),
        memory or None,
        per_lane * lanes if per_lane and lanes else None,
        int(links),
        per_link * links if per_link and links else None,
    )


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 < value < 1 << 60:
        raise ValueError(f"{value!r} is not a positive number")
    return value


def _pair(value: Any) -> Pair:
    first, second = (float(v) for v in value)
    if not (0 <= first < 1e15 and 0 <= second < 1e15):
        raise ValueError(f"{value!r} are not two times")
    return first, second

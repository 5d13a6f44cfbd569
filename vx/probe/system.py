"""What the system says of this machine: its processor, its memory, its network cards.

Enters: files of /proc and /sys. Leaves: facts for the head of a machine file. Nothing here is measured.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path


def processor() -> str:
    """The processor's name, as the system knows it."""
    info = _read(Path("/proc/cpuinfo"))
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in info.splitlines())}
    if fields.get("model name"):
        return fields["model name"]
    if "CPU implementer" in fields:
        return f"{platform.machine()} implementer {fields['CPU implementer']} part {fields.get('CPU part', 'unknown')}"
    return platform.machine()


def kernel() -> str:
    """The operating system's name and release: what drives a processor."""
    return f"{platform.system()} {platform.release()}"


def available_bytes() -> int:
    """Memory that a new process can have, of the machine and of the container."""
    machine = next(
        (line.split()[1] for line in _read(Path("/proc/meminfo")).splitlines() if "MemAvailable" in line), ""
    )
    found = int(machine) * 1024 if machine.isdigit() else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    group = Path("/sys/fs/cgroup")
    limit, used = _read(group / "memory.max").strip(), _read(group / "memory.current").strip()
    if limit.isdigit() and used.isdigit():
        found = min(found, int(limit) - int(used))
    return found


def largest_cache_bytes() -> int:
    """The largest cache of the first core; 32 MiB if the system does not say."""
    sizes = [_read(path).strip() for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max(
        (int(size[:-1]) * 1024 for size in sizes if size[:-1].isdigit() and size.endswith("K")), default=32 << 20
    )


def network_rate() -> int | None:
    """Bytes per second of the fastest network card; None if the system does not say, as in most containers."""
    speeds = [_read(path).strip() for path in Path("/sys/class/net").glob("*/speed")]
    return max((int(speed) * 125_000 for speed in speeds if speed.isdigit() and int(speed) > 0), default=None)


def load() -> float:
    """How many processes want to run, over the last minute."""
    return os.getloadavg()[0]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""

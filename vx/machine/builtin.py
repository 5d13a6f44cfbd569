"""The topologies, spaces and edges that every program has without declaring them.

Leaves: `builtin_machine(arch)`, the machine that `load.py` extends. `NPU`, `AccCore` and `GPU` take an index;
their ids leave room for 100 instances each.
"""

from __future__ import annotations

from vx.machine.machine import Edge, Machine, Space, Topology

_INDEXED = 100

_SPACES = ("CPU_DRAM", "NPU_HBM", "GPU_HBM", "Local_SRAM", "NIC_RAM", "Remote_HBM")

_OWNERS = {"CPU_DRAM": "CPU", "NPU_HBM": "NPU", "GPU_HBM": "GPU", "Local_SRAM": "AccCore"}

_ALIASES = {"CPU_AVX512": "CpuAvx512", "CPU_Neon": "CpuNeon"}

_EDGES = (
    ("CPU_DRAM", "NPU_HBM", 50),
    ("NPU_HBM", "CPU_DRAM", 50),
    ("CPU_DRAM", "GPU_HBM", 50),
    ("GPU_HBM", "CPU_DRAM", 50),
    ("NPU_HBM", "Local_SRAM", 10),
    ("Local_SRAM", "NPU_HBM", 10),
    ("CPU_DRAM", "Remote_HBM", 300),
    ("NPU_HBM", "NIC_RAM", 5),
    ("NIC_RAM", "Remote_HBM", 20),
)


def builtin_machine(arch: str) -> Machine:
    """The built-in machine; `arch` is the architecture that host code is compiled for."""
    topologies = (
        Topology("CPU", "CPU_DRAM", ("CPU_DRAM", "NPU_HBM"), arch),
        Topology("Current", "CPU_DRAM", ("CPU_DRAM", "NPU_HBM"), arch),
        Topology("NPU", "NPU_HBM", ("NPU_HBM",), instances=_INDEXED),
        Topology("AccCore", "Local_SRAM", ("Local_SRAM",), instances=_INDEXED),
        Topology("AMX", "CPU_DRAM", ("CPU_DRAM",)),
        Topology("ANE", "NPU_HBM", ("NPU_HBM", "CPU_DRAM")),
        Topology("GPU", "GPU_HBM", ("GPU_HBM", "CPU_DRAM"), instances=_INDEXED),
        Topology("CpuAvx512", "CPU_DRAM", ("CPU_DRAM",), "x86_64"),
        Topology("CpuNeon", "CPU_DRAM", ("CPU_DRAM",), "aarch64"),
    )
    return Machine(
        spaces={name: Space(name) for name in _SPACES},
        topologies={topology.name: topology for topology in topologies},
        edges=tuple(Edge(source, target, weight) for source, target, weight in _EDGES),
        owners=_OWNERS,
        topology_aliases=_ALIASES,
        space_aliases={},
    )

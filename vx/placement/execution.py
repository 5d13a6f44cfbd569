"""Whether the code of a program can be generated for where it is placed.

Enters: the typed program, its machine, the architecture being compiled for. Leaves: an error for every
place that needs another code generator. Nothing is run or kept elsewhere than placed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from vx.codegen.gpu import supported
from vx.diagnostics.report import Reporter
from vx.diagnostics.span import Span
from vx.machine.machine import GPU_ARCHES, Machine, Topology
from vx.sema.tree import BITS, Expr, Program, Spawn, Tensor


def check_execution(program: Program, machine: Machine, arch: str, stand_in: bool, reporter: Reporter) -> None:
    """Report E9031 for code placed on another architecture than `arch`, unless a stand-in for the machine's devices
    was asked for, and for tensors where it cannot put them; E9036 for placed elements of less than a byte, W9034 for
    a topology that no machine describes."""
    told: set[str] = set()
    for function in program.functions.values():
        if function.on is not None:
            _check_place(machine.topology(function.on.topology), function.span, arch, stand_in, reporter)
        for node in _nodes(function.body):
            if isinstance(node, Spawn):
                _check_place(machine.topology(node.place.topology), node.span, arch, stand_in, reporter)
            if isinstance(node.type, Tensor):
                _check_element(node.type, node.span, reporter)
                if node.type.place is not None and node.type.place.space not in told:
                    told.add(node.type.place.space)
                    _check_memory(node.type.place.space, node.span, machine, stand_in, reporter)


def _check_element(tensor: Tensor, span: Span, reporter: Reporter) -> None:
    """Admission counts elements of less than a byte packed, and generated code gives each a byte of its own: what
    was admitted would not be enough."""
    if tensor.place is not None and BITS[tensor.elem] < 8:
        reporter.error(
            "E9036",
            f"a tensor of {tensor.elem} in {tensor.place.space} cannot be built: generated code gives each element a byte",
            span,
            notes=[f"admission counts elements of {tensor.elem} packed, {8 // BITS[tensor.elem]} in a byte"],
            helps=["check the program with `vx check`, or place a tensor of u8 or i8 instead"],
        )


def _check_memory(space: str, span: Span, machine: Machine, stand_in: bool, reporter: Reporter) -> None:
    """Host code can put a tensor into the memory of one device, and into none that lies within that of a GPU."""
    memory, devices = _devices_around(machine, space)
    if not any(stand_in or device.arch in GPU_ARCHES for device in devices):
        return
    if len(devices) > 1:
        names = " and ".join(device.name for device in devices)
        message = f"a tensor in {space} cannot be built: {memory} is the memory of {names}, and generated code needs one device"
        reporter.error("E9031", message, span, helps=["give each a memory of its own in the machine file"])
    elif memory != space and not stand_in:
        message = f"a tensor in {space} cannot be built: generated code keeps tensors of {devices[0].name} in {memory}"
        help_ = "check the program with `vx check`, or let memory of the host stand in: `--devices host`"
        reporter.error("E9031", message, span, helps=[help_])


def _devices_around(machine: Machine, space: str) -> tuple[str, list[Topology]]:
    """This memory, or the nearest around it that is a declared topology's, and all topologies whose it is."""
    declared = [topology for topology in machine.topologies.values() if topology.layer in ("machine", "program")]
    here = machine.space(space)
    while here is not None:
        devices = [topology for topology in declared if topology.memory == here.name]
        if devices or here.within is None:
            return here.name, devices
        here = machine.space(here.within)
    return space, []


def _check_place(topology: Topology | None, span: Span, arch: str, stand_in: bool, reporter: Reporter) -> None:
    if topology is None or (stand_in and topology.layer != "builtin"):
        return
    if topology.layer != "builtin" and topology.arch == "nvptx64" and supported(topology.isa):
        return
    if topology.name == "GPU" or topology.arch not in (None, arch):
        reporter.error(
            "E9031",
            f"code on {topology.name} is for {_part(topology)}, and this build generates code for {arch} and NVIDIA GPUs",
            span,
            helps=[
                "check the program with `vx check`, place the code on a topology whose `arch` is the host's, or name the "
                "part in the machine file: `arch: nvptx64, isa: sm_90`"
            ],
        )
    elif topology.arch is None and topology.layer == "builtin":
        reporter.warning(
            "W9034",
            f"there is no {topology.name} in the machine: its code runs on this {arch} CPU as a stand-in",
            span,
            helps=["describe the real part in a machine file and pass it with --machine"],
        )


def _part(topology: Topology) -> str:
    return " ".join(filter(None, (topology.arch or "a GPU", topology.isa)))


def _nodes(node: object) -> Iterator[Expr]:
    """Every expression below `node`."""
    stack: list[object] = [node]
    while stack:
        here = stack.pop()
        if isinstance(here, Expr):
            yield here
        if isinstance(here, tuple):
            stack.extend(reversed(here))
        elif is_dataclass(here) and not isinstance(here, Span):
            stack.extend(getattr(here, field.name) for field in reversed(fields(here)))

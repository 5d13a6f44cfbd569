"""LLVM in a process of its own: text on stdin, an object or assembly on stdout.

LLVM ends the process when it meets something that a processor cannot do, so it never runs inside the
compiler's own process. Run as a file, so that it imports nothing but llvmlite.

Arguments: triple, cpu, optimisation level 0..3, and "obj" or "asm". A refusal of the text gives
status 1 and LLVM's words on stderr.
"""

from __future__ import annotations

import sys

import llvmlite.binding as llvm


def translate(text: str, triple: str, cpu: str, level: int, output: str) -> bytes:
    """Optimise a module and translate it. Raises RuntimeError with LLVM's words if the text is refused."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=level, reloc="pic", codemodel="small")
    header = f'target datalayout = "{machine.target_data}"\ntarget triple = "{triple}"\n'
    module = llvm.parse_assembly(header + text)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    if output == "asm":
        return str(machine.emit_assembly(module)).encode()
    return bytes(machine.emit_object(module))


def main() -> int:
    triple, cpu, level, output = sys.argv[1:]
    try:
        result = translate(sys.stdin.buffer.read().decode(), triple, cpu, int(level), output)
    except RuntimeError as error:
        sys.stderr.write(str(error))
        return 1
    sys.stdout.buffer.write(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())

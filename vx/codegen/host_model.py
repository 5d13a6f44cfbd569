"""The table of model tensors that the runtime reads.

Enters: the program's model tensors and the `ModelTable` of the options. Leaves: the constants that
`runtime/abi.py` names in `MODEL_SYMBOLS`; nothing for a program without a model.
"""

from __future__ import annotations

from vx.codegen.host_module import ModelEntry, Module
from vx.codegen.llvm_text import constant
from vx.runtime.abi import ELEMENTS, MODEL_ENTRY_FIELDS

_ENTRY = "{" + ", ".join(ctype.llvm for _, ctype in MODEL_ENTRY_FIELDS) + "}"


def model_globals(module: Module) -> list[str]:
    """Rows in the order of `Program.model`: their numbers are what `vx_model_tensor` is called with."""
    if not module.program.model:
        return []
    table = module.options.model
    assert table is not None, "a program with model tensors needs HostOptions.model"
    by_name = {entry.name: entry for entry in table.entries}
    rows = ", ".join(_row(module, by_name[ref.name]) for ref in module.program.model)
    count = len(module.program.model)
    return [
        f"@vx_model_table = constant [{count} x {_ENTRY}] [{rows}]",
        f"@vx_model_count = constant i32 {count}",
        f"@vx_model_file = constant ptr {module.string(table.file.encode())}",
        f"@vx_model_random_seed = constant i64 {constant(table.random_seed, 'i64')}",
    ]


def _row(module: Module, entry: ModelEntry) -> str:
    values = (
        module.string(entry.name.encode()),
        entry.offset,
        entry.bytes,
        ELEMENTS[entry.elem],
        0,
        entry.count,
        constant(entry.key, "u64"),
        constant(entry.scale, "f32"),
        constant(entry.bias, "f32"),
    )
    fields = ", ".join(f"{c.llvm} {v}" for (_, c), v in zip(MODEL_ENTRY_FIELDS, values, strict=True))
    return f"{_ENTRY} {{{fields}}}"

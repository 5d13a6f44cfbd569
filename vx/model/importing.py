"""Importing a checkpoint of any kind that is known.

Enters: a file (llama2.c) or a directory (Hugging Face). Leaves: a model directory.
"""

from __future__ import annotations

from pathlib import Path

from vx.model.directory import Progress
from vx.model.errors import ModelError, printable
from vx.model.huggingface import import_hugging_face
from vx.model.info import ModelInfo
from vx.model.llama2c import import_llama2c


def import_checkpoint(
    checkpoint: str | Path,
    tokenizer: str | Path | None,
    out: str | Path,
    dtype: str | None = None,
    progress: Progress | None = None,
) -> ModelInfo:
    """Make a model directory; `dtype` None keeps the checkpoint's element type.

    A llama2.c checkpoint needs its `tokenizer` file (E9107 without); a directory may bring its own. Raises what
    `import_llama2c` and `import_hugging_face` raise.
    """
    if Path(checkpoint).is_dir():
        return import_hugging_face(checkpoint, out, dtype, tokenizer, progress)
    if tokenizer is None:
        raise ModelError(
            "E9107",
            f"the checkpoint `{printable(checkpoint)}` brings no tokenizer of its own",
            ["name the file with `--tokenizer`"],
        )
    return import_llama2c(checkpoint, tokenizer, out, dtype or "f32", progress)

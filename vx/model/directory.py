"""Writing model directories: all or nothing.

Enters: an architecture, a source of f32 values per tensor, a packed tokenizer. Leaves: a directory with
`config.json`, `model.safetensors` and `digests.json`, put in place by one rename.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from vx.model.architecture import Architecture, config_of
from vx.model.container import Spec, write_container
from vx.model.errors import ModelError, printable
from vx.model.info import CONFIG_FILE, DIGESTS_FILE, FORMAT, WEIGHTS_FILE, combined_digest, tensor_shapes
from vx.model.rounding import Floats, to_elem

Source = Callable[[], Iterator[Floats]]
"""Gives a tensor's values in order, in flat f32 pieces."""

Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in all."""

OWN_FILES = frozenset({CONFIG_FILE, WEIGHTS_FILE, DIGESTS_FILE, "README.md"})


def write_model(
    out: Path,
    shape: Architecture,
    sources: Mapping[str, Source],
    tokenizer: bytes,
    origin: Mapping[str, Any],
    progress: Progress | None = None,
) -> None:
    """Write a model directory; matrices are rounded to `shape.elem`, digests taken before that.

    `sources` has every tensor of the checkpoint (no `head` if tied: a row of zeros stands in).
    E9108 if it cannot be written, E9115 if a weight does not fit its element type.
    """
    digests = {"tokenizer": sha256(tokenizer).hexdigest()}
    with replacing(out) as partial:
        write_weights(partial / WEIGHTS_FILE, shape, sources, tokenizer, digests, progress)
        write_json(partial / CONFIG_FILE, configuration(shape, "file", len(tokenizer), origin))
        listed = {"model": combined_digest(shape, digests), "tensors": digests}
        write_json(partial / DIGESTS_FILE, listed)


def configuration(shape: Architecture, weights: str, tokenizer_bytes: int, more: Mapping[str, Any]) -> dict[str, Any]:
    """The contents of `config.json`; `weights` is `file` or `random(SEED)`."""
    section = {"format": FORMAT, "weights": weights, "tokenizer_bytes": tokenizer_bytes, **more}
    return {**config_of(shape), "vx": section}


def write_weights(
    path: Path,
    shape: Architecture,
    sources: Mapping[str, Source],
    tokenizer: bytes,
    digests: dict[str, str],
    progress: Progress | None = None,
) -> None:
    """Write the weights file; adds each source's SHA-256 (of its f32 values) to `digests`."""
    specs = [Spec(name, elem, dims) for name, (elem, dims) in tensor_shapes(shape).items()]
    specs.append(Spec("tokenizer", "u8", (len(tokenizer),)))
    report = _counted(progress, sum(spec.bytes for spec in specs))

    def pieces(spec: Spec) -> Iterator[bytes]:
        hashed = sha256()
        count = 0
        for values in sources[spec.name]():
            hashed.update(np.ascontiguousarray(values, dtype="<f4").data)
            stored = np.ascontiguousarray(to_elem(values, spec.elem, spec.name))
            count += stored.size
            report(stored.nbytes)
            yield stored.tobytes()
        if count != prod(spec.dims):
            raise ModelError("E9105", f"tensor `{spec.name}` has {count} elements, not {prod(spec.dims)}")
        digests[spec.name] = hashed.hexdigest()

    parts = {spec.name: pieces(spec) for spec in specs if spec.name in sources}
    with path.open("wb") as file:
        write_container(file, specs, {**parts, "tokenizer": iter([tokenizer])})


def _counted(progress: Progress | None, total: int) -> Callable[[int], None]:
    done = 0

    def report(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(done, total)

    return report


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write one JSON object, indented, with a newline at the end."""
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


@contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """A fresh directory that becomes `out` when the block ends well, and vanishes when it does not.

    An `out` that exists is replaced only if it is empty or a model directory of ours. E9108 for whatever
    the system refuses: no space, no permission.
    """
    _refuse_foreign(out)
    partial: Path | None = None
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".partial", dir=out.parent))
        yield partial
        partial.chmod(0o755)
        _swap(partial, out)
    except OSError as error:
        raise ModelError("E9108", f"cannot write `{printable(out)}`: {error.strerror or error}") from error
    finally:
        if partial is not None:
            shutil.rmtree(partial, ignore_errors=True)


def _refuse_foreign(out: Path) -> None:
    try:
        if not out.exists():
            return
        foreign = "it is a file" if not out.is_dir() else _foreign_file(out)
    except (OSError, ValueError) as error:
        raise ModelError("E9108", f"cannot write `{printable(out)}`: {error}") from error
    if foreign:
        raise ModelError("E9108", f"`{printable(out)}` exists and is not a model directory: {foreign}")


def _foreign_file(out: Path) -> str:
    others = sorted(set(os.listdir(out)) - OWN_FILES)
    return f"it holds `{printable(others[0])}`" if others else ""


def _swap(partial: Path, out: Path) -> None:
    """Put `partial` in place of `out`; what was there goes away last."""
    if not out.exists():
        partial.rename(out)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".old", dir=out.parent))
    try:
        out.rename(old)
        partial.rename(out)
    finally:
        shutil.rmtree(old, ignore_errors=True)

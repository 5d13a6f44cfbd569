"""Reading a model's weights as f32, whether they lie in a file or come from a seed.

Enters: a `ModelInfo`. Leaves: `Source`s, whole arrays for small models, the packed tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from vx.model.directory import Source
from vx.model.errors import ModelError, printable, reading
from vx.model.info import ModelInfo, TensorInfo, require_weights
from vx.model.random import chunks
from vx.model.rounding import Floats, from_elem, numpy_type, to_elem

CHUNK = 1 << 20
"""Elements read at a time."""


def sources(info: ModelInfo) -> dict[str, Source]:
    """A source per weight, the values as the program sees them: rounded to the element type.

    Without `head` where the embedding serves as the head.
    """
    require_weights(info)
    names = [name for name in info.tensors if name != "tokenizer" and not (name == "head" and info.architecture.tied)]
    return {name: _source(info, name, info.tensors[name]) for name in names}


def array(info: ModelInfo, name: str) -> Floats:
    """A whole weight in its shape, as f32."""
    pieces = list(sources(info)[name]())
    return np.concatenate(pieces).reshape(info.tensors[name].dims)


def read_tokenizer(info: ModelInfo) -> bytes:
    """The packed tokenizer. E9111 if the file cannot be read, E9113 if there is none."""
    require_weights(info)
    return _read(info, info.tensors["tokenizer"].offset, info.tensors["tokenizer"].bytes)


def _source(info: ModelInfo, name: str, tensor: TensorInfo) -> Source:
    def generated() -> Iterator[Floats]:
        seed = info.random_seed or 0
        for values in chunks(seed, tensor.key, tensor.scale, tensor.bias, prod(tensor.dims)):
            yield from_elem(to_elem(values, tensor.elem, name), tensor.elem)

    def stored() -> Iterator[Floats]:
        kind = numpy_type(tensor.elem)
        for at in range(0, tensor.bytes, CHUNK * kind.itemsize):
            data = _read(info, tensor.offset + at, min(CHUNK * kind.itemsize, tensor.bytes - at))
            yield from_elem(np.frombuffer(data, dtype=kind), tensor.elem)

    return stored if info.random_seed is None else generated


def _read(info: ModelInfo, offset: int, count: int) -> bytes:
    path = info.file
    if path is None:
        raise ModelError("E9113", f"`{printable(info.dir)}` has no weights file")
    with reading(path, "weights file"), path.open("rb") as file:
        file.seek(offset)
        data = file.read(count)
    if len(data) != count:
        raise ModelError("E9111", f"`{printable(path)}` became shorter while it was read")
    return data

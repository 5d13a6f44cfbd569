"""Private buffers that fit in registers.

Enters: the body of a part. Leaves: the padded length of each buffer that is a tile: always indexed by just the
variable of a parallel loop or reduction that starts at 0, so that whole tiles meet and no lane looks for another's
element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vx.codegen.triton_values import power_of_two, variable_of
from vx.kernels import effects, ir

MOST = 16384
"""Elements of a tile, all lanes together, that may stay in registers."""


def register_tiles(
    body: Sequence[ir.Stmt], buffers: Mapping[ir.BufferId, ir.Buffer], lanes: int
) -> tuple[dict[ir.BufferId, int], dict[ir.VarId, int]]:
    """Padded lengths by buffer, and by the loop variables that index them."""
    lengths = {}
    for buffer in effects.allocated(body):
        b = buffers[buffer]
        if b.kind == "private" and b.length and power_of_two(b.length) * lanes <= MOST:
            lengths[buffer] = power_of_two(b.length)
    while True:
        variables, bad = _indexing(body, lengths)
        if not bad:
            return lengths, variables
        for buffer in bad:
            del lengths[buffer]


def _indexing(
    body: Sequence[ir.Stmt], lengths: Mapping[ir.BufferId, int]
) -> tuple[dict[ir.VarId, int], set[ir.BufferId]]:
    """The variables that index the buffers, and the buffers that one of their accesses disqualifies."""
    serial = {s.var.id for s in effects.statements(body) if isinstance(s, ir.For) and not s.parallel}
    variables: dict[ir.VarId, int] = {}
    bad: set[ir.BufferId] = set()
    for access in effects.accesses(body):
        if access.buffer not in lengths:
            continue
        var = variable_of(access.offset)
        loop = next((x for x in access.inner if var is not None and x.var.id == var.id), None)
        length = lengths[access.buffer]
        fits = loop is not None and loop.low == ir.Lit(0, "i64") and loop.var.id not in serial and length > 1
        if loop is None or not fits or variables.setdefault(loop.var.id, length) != length:
            bad.add(access.buffer)
    return variables, bad

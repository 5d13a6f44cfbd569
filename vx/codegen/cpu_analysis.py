"""How indices move: along a reduction's variable, and from lane to lane.

Enters: expressions and the copy of the body (`Lanes`) they are for; variables that are not bound yet are
followed to what they were declared as. Leaves: steps, which accesses are contiguous, and from that along
which direction a reduction runs in vectors. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Sequence

from vx.codegen.cpu_library import Facts
from vx.codegen.cpu_values import Lanes, Linear, Place
from vx.kernels import affine, ir


def literal_of(expr: ir.Expr) -> int | None:
    """The number that an integer expression is, if it is one."""
    if isinstance(expr, ir.Lit):
        return int(expr.value)
    if isinstance(expr, ir.Affine) and not expr.terms:
        return expr.const
    return None


def trips(low: ir.Expr, high: ir.Expr) -> int | None:
    """How often a loop runs, if known."""
    a, b = literal_of(low), literal_of(high)
    return None if a is None or b is None else max(b - a, 0)


def _place(lanes: Lanes | None, buffer: ir.BufferId) -> Place | None:
    while lanes is not None:
        if buffer in lanes.places:
            return lanes.places[buffer]
        lanes = lanes.outer
    return None


class Strides:
    """Steps of indices in the lanes of one copy of a body. `private`: buffers that each lane has its own of."""

    def __init__(self, facts: Facts, lanes: Lanes, private: frozenset[ir.BufferId] = frozenset()) -> None:
        self._facts = facts
        self._lanes = lanes
        self._private = private

    # ---- lanes ---------------------------------------------------------------------------------
    def _own_copies(self, buffer: ir.BufferId) -> bool:
        place = _place(self._lanes, buffer)
        return buffer in self._private or (place is not None and place.lanes > 1 and self._lanes.count > 1)

    def _variable_step(self, var: ir.VarId) -> int | None:
        here: Lanes | None = self._lanes
        through_row = False
        while here is not None and var not in here.bindings:
            through_row = through_row or here.row is not None
            here = here.outer
        if here is None:
            declared = self._facts.declared.get(var)
            if declared is not None:
                return self.lane_step(declared)
            return None if var in self._facts.changing else 0
        binding = here.bindings[var]
        if through_row or not (isinstance(binding, Linear) or binding.lanes > 1):
            return 0
        if isinstance(binding, Linear):
            return None if binding.vectors else binding.step
        return None

    def differs(self, expr: ir.Expr) -> bool:
        """Whether the value may differ between lanes."""
        if isinstance(expr, ir.Var):
            return self._variable_step(expr.id) != 0
        if isinstance(expr, ir.Load) and self._own_copies(expr.buffer):
            return True
        return any(self.differs(child) for child in affine.children(expr))

    def lane_step(self, expr: ir.Expr) -> int | None:
        """By how much an integer grows from lane to lane; None if it does in no regular way."""
        match expr:
            case ir.Var(id=var):
                return self._variable_step(var)
            case ir.Affine(terms=terms):
                steps = [(c, self.lane_step(atom)) for c, atom in terms]
                return None if any(s is None for _, s in steps) else sum(c * (s or 0) for c, s in steps)
            case _:
                return None if self.differs(expr) else 0

    def load_lane_step(self, load: ir.Load) -> int | None:
        """The same for the address of a load."""
        step = self.lane_step(load.offset)
        if self._own_copies(load.buffer):
            return 1 if step == 0 else None
        return step

    # ---- a reduction's variable ----------------------------------------------------------------
    def along(self, reduce: ir.Reduce | ir.ArgReduce, lanes: int, width: int) -> bool:
        """Whether vectors should run along the reduction's variable (`width` elements) instead of along the
        `lanes` iterations: by the number of memory operations that each way takes per row of elements."""
        body = reduce.body if isinstance(reduce, ir.Reduce) else reduce.value
        loads = [e for e in affine.walk(body) if isinstance(e, ir.Load)]
        count = trips(reduce.low, reduce.high)
        if width < 2 or (count is not None and count < 2) or _bounds_depend(body, reduce.var.id):
            return False
        return self._along(loads, reduce.var.id, lanes, width) <= self._across(loads, reduce.var.id, lanes, width)

    def cheapest(self, reduce: ir.Reduce, lanes: int, width: int) -> float:
        """Memory operations per row for `width` elements, in the better direction."""
        loads = [e for e in affine.walk(reduce.body) if isinstance(e, ir.Load)]
        var = reduce.var.id
        return min(self._along(loads, var, lanes, width), self._across(loads, var, lanes, width))

    def _along(self, loads: Sequence[ir.Load], var: ir.VarId, lanes: int, width: int) -> float:
        return sum(self._along_cost(load, var, lanes, width) for load in loads)

    def _across(self, loads: Sequence[ir.Load], var: ir.VarId, lanes: int, width: int) -> float:
        return sum(self._across_cost(load, var, lanes, width) for load in loads)

    def _along_cost(self, load: ir.Load, var: ir.VarId, lanes: int, width: int) -> float:
        step = affine.coefficient(load.offset, var)
        rows = 1 if self.load_lane_step(load) == 0 else lanes
        per_row = 1.0 if step in (0, 1) else 2.0 * width
        return rows * per_row / lanes

    def _across_cost(self, load: ir.Load, var: ir.VarId, lanes: int, width: int) -> float:
        step = affine.coefficient(load.offset, var)
        each = 1.0 if self.load_lane_step(load) in (0, 1) else 2.0 * lanes
        return each * (1 if step == 0 else width) / lanes


def _bounds_depend(body: ir.Expr, var: ir.VarId) -> bool:
    """Whether a reduction inside has a range that depends on the variable."""
    return any(
        var in affine.variables(e.low) | affine.variables(e.high) for e in affine.walk(body) if isinstance(e, ir.Reduce)
    )

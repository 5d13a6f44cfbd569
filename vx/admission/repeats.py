"""How often the transfers and regions of a role run: what loops and calls multiply.

Enters: the functions of a role, callees before callers. Leaves: every transfer and region with its node and an
`Often`. A branch counts as taken and a loop as run to its end, so a count is what happens at most. Functions whose
calls cannot be counted (recursion, drops, calls by C) are counted from: so many times for each call of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vx.admission.formulas import UNKNOWN, count_text
from vx.admission.nodes import parts_of
from vx.admission.plan import Often, Unknown
from vx.sema import tree

MAX_TERMS = 8
"""Terms of a sum over calls, and loops around one another; a function with more is counted from."""
MAX_COUNT = 2**63
"""Times that are counted; likewise."""

Step = tree.Transfer | tree.Land | tree.Spawn
Context = tuple[Unknown, ...]
"""What is around something, outermost first."""

_ONCE: Often = {(): 1}


@dataclass(frozen=True, slots=True)
class Site:
    """A transfer, region, call, or taken address, in a function, and how often for each call of that."""

    node: Step | tree.Call | tree.FnAddr
    often: Often


@dataclass(frozen=True, slots=True)
class Repeated:
    """A transfer or region of a role. `often` is empty if no call was found that leads to its function."""

    function: str
    node: Step
    often: Often


def repeated(program: tree.Program, functions: Sequence[str]) -> Iterator[Repeated]:
    """The transfers and regions of a role's functions, in the order of these; the role's own is the last."""
    sites = {key: sites_of(program, program.functions[key]) for key in functions}
    entered = _entered(program, functions, sites)
    for key in functions:
        for site in sites[key]:
            if not isinstance(site.node, tree.Call | tree.FnAddr):
                yield Repeated(key, site.node, _within(entered[key], site))


def _entered(
    program: tree.Program, functions: Sequence[str], sites: Mapping[str, Sequence[Site]]
) -> Mapping[str, Often]:
    """How often each function is entered in a run of the last one."""
    entered: dict[str, dict[Context, int]] = {key: {} for key in functions}
    entered[functions[-1]][()] = 1
    uncounted = _recursive(functions, sites) | _called_unseen(program, sites)
    for key in reversed(functions):
        if key in uncounted or _is_long(entered[key]):
            span = program.functions[key].span
            entered[key] = {(Unknown(span.file, span.start, span.end, UNKNOWN, True),): 1}
        for site in sites[key]:
            if isinstance(site.node, tree.Call) and site.node.key in entered:
                into = entered[site.node.key]
                for context, times in _within(entered[key], site).items():
                    into[context] = into.get(context, 0) + times
    return entered


def _is_long(often: Often) -> bool:
    return len(often) > MAX_TERMS or any(len(a) > MAX_TERMS or times > MAX_COUNT for a, times in often.items())


def _called_unseen(program: tree.Program, sites: Mapping[str, Sequence[Site]]) -> frozenset[str]:
    """The functions that are called where nobody wrote a call: when a value dies, or by C."""
    drops = {struct.drop for struct in program.structs.values() if struct.drop in sites}
    given = {site.node.key for found in sites.values() for site in found if isinstance(site.node, tree.FnAddr)}
    return frozenset(key for key in drops | given if key is not None)


def _recursive(functions: Sequence[str], sites: Mapping[str, Sequence[Site]]) -> frozenset[str]:
    """The functions in cycles of calls. A cycle stands together in the order, and some call in it goes forward."""
    number = {key: at for at, key in enumerate(functions)}
    found: set[str] = set()
    for key, at in number.items():
        for site in sites[key]:
            if isinstance(site.node, tree.Call) and number.get(site.node.key, -1) >= at:
                found.update(functions[at : number[site.node.key] + 1])
    return frozenset(found)


def _within(entered: Often, site: Site) -> Often:
    return {(*a, *b): times * inner for a, times in entered.items() for b, inner in site.often.items()}


# ---- one function ------------------------------------------------------------------------------
def sites_of(program: tree.Program, function: tree.Function) -> tuple[Site, ...]:
    """The transfers, regions and calls of a function in the order in which they are evaluated."""
    walk = _Walk(program, function)
    walk.block(function.body, _ONCE)
    return tuple(walk.found)


@dataclass(slots=True)
class _Walk:
    program: tree.Program
    function: tree.Function
    found: list[Site] = field(default_factory=list)

    def block(self, block: tree.Block, often: Often) -> None:
        for stmt in block.stmts:
            self.node(stmt, often)
        if block.value is not None:
            self.node(block.value, often)

    def node(self, node: tree.Expr | tree.Stmt, often: Often) -> None:
        if isinstance(node, tree.For | tree.While | tree.Loop):
            self._repeat(node, often)
            return
        for part in _parts(node):
            self.node(part, often)
        match node:
            case tree.Transfer() | tree.Land() | tree.Call() | tree.FnAddr():
                self.found.append(Site(node, often))
            case tree.IfExpr(then=then, orelse=orelse):
                self.block(then, often)
                if orelse is not None:
                    self.block(orelse, often)
            case tree.Match(arms=arms):
                for arm in arms:
                    self.block(arm.body, often)
            case tree.BlockExpr(block=block):
                self.block(block, often)
            case tree.Spawn(body=body):
                self.found.append(Site(node, often))
                self.block(body, often)
            case _:
                pass

    def _repeat(self, node: tree.For | tree.While | tree.Loop, often: Often) -> None:
        match node:
            case tree.For(low=low, high=high):
                self.node(low, often)
                self.node(high, often)
                if isinstance(low, tree.Const) and isinstance(high, tree.Const):
                    turns = max(0, int(high.value) - int(low.value))
                    inside: Often = {around: times * turns for around, times in often.items()}
                else:
                    inside = self._turns(node, often, count_text(self.program, self.function, low, high))
            case tree.While(cond=cond):
                inside = self._turns(node, often, UNKNOWN)
                self.node(cond, {**often, **inside})  # once more than the body
            case tree.Loop():
                inside = self._turns(node, often, UNKNOWN)
        self.block(node.body, inside)

    def _turns(self, node: tree.Stmt, often: Often, count: str) -> Often:
        """How often the body of a loop runs that is reached so often."""
        loop = Unknown(node.span.file, node.span.start, node.span.end, count)
        return {(*around, loop): times for around, times in often.items()}


def _parts(node: tree.Expr | tree.Stmt) -> Iterator[tree.Value | tree.PlaceNode]:
    if isinstance(node, tree.StructLit):
        return (node.values[index] for index in node.order)
    return parts_of(node)

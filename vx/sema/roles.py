"""Roles: which of them a build compiles, and what becomes of the others.

Enters: everything that was checked, with who needs what (`Session.demands`) and the devices that the machine has
not (`Session.lacks`). Leaves: `Outcome`. A role that needs a missing device is *not applicable*, one that was left
out by `--roles` is *not asked for*: either is compiled as a function that says so and ends the process, and what
only such roles reach is left out. A missing device is an error where no role stands in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from vx.diagnostics.span import Span
from vx.sema import tree
from vx.sema.context import Instance, Lack, Session
from vx.sema.names import did_you_mean


@dataclass(frozen=True, slots=True)
class Outcome:
    """Roles that are compiled and roles that are not, by key, and the nodes of `Session.demands` that go."""

    compiled: tuple[str, ...]
    refused: Mapping[str, tree.Refusal] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()


def settle(session: Session, main: str, asked: tuple[str, ...] | None) -> Outcome:
    """Decide what is compiled. `asked` are names of roles, None all that the machine can have.

    Errors: E0212 for a name that is no role; E6032 for a device that the machine has not where `main` needs it, or
    a role that was asked for, or every role.
    """
    roles = {key: one for key, one in session.requested.items() if one.item.node.is_role}
    if asked is not None and not _check_names(session, main, roles, asked):
        return Outcome(tuple(roles))
    if not session.lacks and asked is None:
        return Outcome(tuple(roles))
    graph = _Graph(session, frozenset(roles))
    lacking = {key: lacks for key in roles if (lacks := graph.lacks_of(key))}
    wanted = [key for key, one in roles.items() if asked is None or one.item.node.name in asked]
    if asked is None and lacking.keys() != roles.keys():
        wanted = [key for key in wanted if key not in lacking]
    _report(session, [main, *wanted], graph, "" if asked is not None else ", and there is no role that does without")
    if not lacking:
        _report(session, [None, *session.lacks], graph)
    refused = {key: _refusal(one, lacking.get(key)) for key, one in roles.items() if key not in wanted}
    return Outcome(tuple(wanted), refused, graph.dropped([main, *wanted], refused))


def _check_names(session: Session, main: str, roles: Mapping[str, Instance], asked: tuple[str, ...]) -> bool:
    """E0212 for names in `asked` that are no roles; a program without roles has one, its `main`."""
    names = list(dict.fromkeys(one.item.node.name for one in roles.values())) or [main]
    unknown = [name for name in asked if name not in names]
    for name in unknown:
        span = Span(session.requested[main].item.node.span.file, 0, 0)
        known = ", ".join(f"`{known}`" for known in names)
        helps = did_you_mean(name, names) or [f"it has {known}"]
        session.report("E0212", f"the program has no role `{name}`", span, helps=helps)
    return not unknown


def _refusal(role: Instance, lacks: Iterable[Lack] | None) -> tree.Refusal:
    node = role.item.node
    if lacks is None:
        return tree.Refusal(node.name, False, "was not asked for in this build (--roles)", node.name_span)
    devices = ", ".join(dict.fromkeys(lack.device for lack in lacks))
    return tree.Refusal(node.name, True, f"needs {devices}", node.name_span)


def _report(session: Session, roots: Iterable[str | None], graph: _Graph, of_role: str = "") -> None:
    """E6032 for what these need. `of_role` is added to what is noted of a role."""
    for root in roots:
        for lack in graph.lacks_of(root):
            notes = list(lack.notes)
            if root in graph.roles:
                notes.append(f"the role `{session.requested[root].item.node.name}` needs it{of_role}")
            session.asked = lack.asked
            session.report("E6032", lack.message, lack.span, notes=notes)
            session.asked = None


@dataclass(slots=True)
class _Graph:
    """Who needs what. Nothing leads into a role: `main` calls it, but can do without."""

    session: Session
    roles: frozenset[str]

    def reached(self, roots: Iterable[str | None]) -> dict[str | None, None]:
        """What is needed, the roots included, in the order in which it was met."""
        found: dict[str | None, None] = dict.fromkeys(roots)
        pending = list(found)
        while pending:
            here = pending.pop()
            needs = self.session.demands.get(here, {}) if here is not None else {}
            new = [node for node in needs if node not in found and node not in self.roles]
            found.update(dict.fromkeys(new))
            pending.extend(new)
        return found

    def lacks_of(self, root: str | None) -> list[Lack]:
        """The missing devices that are needed, one by one."""
        return [lack for node in self.reached([root]) for lack in self.session.lacks.get(node, ())]

    def _unfit(self) -> set[str | None]:
        """What needs a missing device."""
        needers: dict[str, list[str]] = {}
        for node, needs in self.session.demands.items():
            for need in needs:
                if need not in self.roles:
                    needers.setdefault(need, []).append(node)
        found: set[str | None] = set(self.session.lacks)
        pending = list(found)
        while pending:
            here = pending.pop()
            new = [] if here is None else [node for node in needers.get(here, ()) if node not in found]
            found.update(new)
            pending.extend(new)
        return found

    def dropped(self, kept: Iterable[str], refused: Iterable[str]) -> frozenset[str]:
        """What needs a missing device, and what only refused roles reach."""
        idle = self.reached(refused).keys() - self.reached(kept).keys()
        return frozenset(node for node in self._unfit() | idle if node is not None)


# ---- a role that is not compiled ---------------------------------------------------------------
def stub(role: Instance, refusal: tree.Refusal) -> tree.Function:
    """A role as its own refusal: it says why it cannot be entered, and ends the process."""
    node = role.item.node
    locals_ = {
        id_: tree.LocalDecl(id_, param.name, type_, False, param.span)
        for id_, (param, type_) in enumerate(zip(node.params, role.params, strict=True))
    }
    span = node.name_span
    leave = tree.ExprStmt(span, tree.Abort(tree.NEVER, span, refusal.message.encode(), refuses=True))
    body = tree.Block((leave,), None, tree.NEVER, node.body.span)
    return tree.Function(role.key, node.name, tuple(locals_), locals_, role.ret, body, role.on, True, node.span)

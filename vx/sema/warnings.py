"""Which warnings are given: those about what is compiled.

Enters: what was found odd while checking (`Session.doubts`), names that are declared and not used, and which functions
are left out. Leaves: warnings. A generic function is checked once for each instance; that something in it is never
reached is worth a warning only if no instance reaches it.
"""

from __future__ import annotations

from collections.abc import Set

from vx.sema.context import Session
from vx.sema.roles import Outcome


def about_code(session: Session, outcome: Outcome) -> None:
    """Warnings about code of the functions that are compiled."""
    gone = _gone(outcome)
    for (code, span), doubt in session.doubts.items():
        if doubt.nodes <= gone or (code == "W1003" and _reached_elsewhere(session, doubt.nodes, gone)):
            continue
        session.warn(code, doubt.message, span, doubt.helps)


def about_names(session: Session, outcome: Outcome) -> None:
    """W1001 and W1009 for names that are never used, in functions that are compiled whole."""
    gone = _gone(outcome) | session.incomplete
    kept = {id(one.item) for key, one in session.requested.items() if key not in gone}
    cut = {one.item.node.span for one in session.requested.values() if id(one.item) not in kept}
    for span, (code, name) in session.declared.items():
        if span not in session.used and not any(span.file == c.file and c.start <= span.start < c.end for c in cut):
            what = "the parameter" if code == "W1009" else "the variable"
            session.warn(code, f"{what} `{name}` is not used", span, [f"if that is meant, write `_{name}`"])


def _gone(outcome: Outcome) -> Set[str | None]:
    """What was checked and is not compiled."""
    return outcome.dropped | outcome.refused.keys()


def _reached_elsewhere(session: Session, nodes: Set[str | None], gone: Set[str | None]) -> bool:
    """Whether another instance of the same function, which is compiled, was not found wanting."""
    items = {id(session.requested[key].item) for key in nodes if key in session.requested}
    return any(id(one.item) in items and key not in nodes and key not in gone for key, one in session.requested.items())

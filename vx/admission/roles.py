"""The roles of a program on one machine after another: `answer`, what `vx admit` reports.

Enters: a program's path, and options that name a machine. Leaves: an `Answer` for one role, which is checked and
admitted by itself, so that what another role needs spoils nothing. Nothing is kept from one answer to the next:
each reads program and machine again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from vx import build
from vx.admission.plan import Arena, Plan, Verdict
from vx.diagnostics.report import CompileError, Diagnostic, Level, Reporter
from vx.diagnostics.source import SourceMap
from vx.machine.load import load_machine
from vx.options import Options
from vx.sema import tree
from vx.syntax import ast

PLACEMENT = "E60"
"""How the codes begin that say that a program cannot be placed on this machine, though it may be on another."""
_ENDLESS = "{loop{}}"
_DEVICE = re.compile(r"`Topology::([^`]+)`")


@dataclass(frozen=True, slots=True)
class Answer:
    """What admission says about one role on one machine, named as the user named it.

    `verdict` None: the role is not applicable, and `needs` says what the machine has not, `needs Device[1]`. `plan`
    and `program` are None where the role could not be placed. Spans of the diagnostics point into `sources`.
    """

    role: str
    machine: str
    verdict: Verdict | None
    needs: str
    plan: Plan | None
    program: tree.Program | None
    diagnostics: tuple[Diagnostic, ...]
    sources: SourceMap

    @property
    def arenas(self) -> tuple[Arena, ...]:
        return self.plan.arenas if self.plan is not None else ()

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return tuple(found for found in self.diagnostics if found.level is Level.ERROR)

    @property
    def device_verdict(self) -> Verdict | None:
        """The verdict if nothing had to be kept for a deployment."""
        deployment_only = {found.code for found in self.errors} == {"E6037"}
        if self.plan is None or not deployment_only:
            return self.verdict
        return Verdict.UNVERIFIED if self.plan.unverified else Verdict.ADMITTED

    @property
    def tightest(self) -> Arena | None:
        """The arena with the least left in a deployment; without capacities the largest; None if there is none."""
        known = [arena for arena in self.arenas if arena.deployment_margin is not None]
        largest = max(self.arenas, key=lambda arena: arena.bytes or 0, default=None)
        return min(known, key=lambda arena: arena.deployment_margin or 0, default=largest)


def role_names(program: str, sources: SourceMap, reporter: Reporter) -> tuple[str, ...]:
    """The roles that a program declares, or `main`. Raises `CompileError` if it cannot be read or parsed."""
    items = build.parse(program, sources, reporter).items
    return tuple(item.name for item in items if isinstance(item, ast.Function) and item.is_role) or ("main",)


def answer(program: str, options: Options, role: str, told: SourceMap) -> Answer:
    """Whether one role of a program, one of `role_names`, fits the machine of the options.

    Raises `CompileError` if the machine file is refused, or the program for another reason than its placement; the
    texts that its diagnostics point into are added to `told`, from which nothing is read.
    """
    sources = SourceMap()
    try:
        return _answer(program, options, role, sources)
    except CompileError as error:
        for found in error.diagnostics:
            for span in (found.span, *(label.span for label in found.labels)):
                if span.file in sources:
                    told.add(span.file, sources.text(span.file))
        raise


def _answer(program: str, options: Options, role: str, sources: SourceMap) -> Answer:
    reporter = Reporter()
    machine = options.machine or "cpu"
    _check_machine(options, sources)
    try:
        with _alone(program, role, sources):
            typed = build.type_check(program, options, sources, reporter)
    except CompileError as error:
        verdict, needs = _refused(error)
        return Answer(role, machine, verdict, needs, None, None, error.diagnostics, sources)
    lacking = next((found.why for found in typed.program.refused.values() if found.role == role), None)
    if lacking is not None:
        return Answer(role, machine, None, lacking, None, None, (), sources)
    (plan,) = build.admit_roles(typed, options, reporter, role)
    return Answer(role, machine, plan.verdict, "", plan, typed.program, reporter.diagnostics, sources)


def _check_machine(options: Options, sources: SourceMap) -> None:
    """Refuse a machine file that is wrong by itself. Its errors have codes of `PLACEMENT` too."""
    reporter = Reporter()
    load_machine(options.machine, options.host, reporter, sources)
    reporter.abort_if_errors()


@contextmanager
def _alone(program: str, role: str, sources: SourceMap) -> Iterator[None]:
    """Let the bodies of the other roles be endless loops of the same length: nobody calls a role but `main`, and
    what only they need says nothing about this one. Positions stay, so messages show the text as it is."""
    written = sources.load(program)
    text = written
    for item in build.parse(program, sources, Reporter()).items:
        if isinstance(item, ast.Function) and item.is_role and item.name != role:
            start, end = item.body.span.start, item.body.span.end
            if end - start >= len(_ENDLESS):
                text = text[:start] + _ENDLESS.ljust(end - start) + text[end:]
    sources.add(program, text)
    try:
        yield
    finally:
        sources.add(program, written)


def _refused(error: CompileError) -> tuple[Verdict | None, str]:
    """Rejected, or not applicable where devices are all that is missing; raises `error` if placement is not to blame."""
    errors = [found for found in error.diagnostics if found.level is Level.ERROR]
    if not all(found.code.startswith(PLACEMENT) for found in errors):
        raise error
    if any(found.code != "E6032" for found in errors):
        return Verdict.REJECTED, ""
    devices = (match[1] for found in errors if (match := _DEVICE.search(found.message)))
    return None, f"needs {', '.join(dict.fromkeys(devices))}"


def admitted(answers: tuple[Answer, ...], named: bool) -> bool:
    """Whether everything asked for is admitted. A role that is not applicable is no failure unless it was `named`,
    but each machine must have one that is admitted."""
    machines = {one.machine for one in answers}
    carried = {one.machine for one in answers if one.verdict is Verdict.ADMITTED}
    fine = all(one.verdict is Verdict.ADMITTED or (one.verdict is None and not named) for one in answers)
    return fine and machines == carried != set()

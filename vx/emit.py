"""What each stage makes of a program, as text.

Enters: a program's path, options, a stage. Leaves: the textual dump of that stage's structure, which is
also what the stages' tests compare. Stages before the asked one must accept the program.
"""

from __future__ import annotations

from enum import StrEnum

from vx import build
from vx.diagnostics.report import Reporter
from vx.diagnostics.source import SourceMap
from vx.options import Options
from vx.syntax.limits import recursion_room


class Stage(StrEnum):
    """The stages in the order that a program passes through them."""

    TOKENS = "tokens"
    AST = "ast"
    TYPES = "types"
    KERNELS = "kernels"
    LLVM = "llvm"
    ASM = "asm"


def emit(path: str, stage: Stage, options: Options, sources: SourceMap, reporter: Reporter) -> str:
    """The text of `stage`. Raises `CompileError` if the program is refused on the way there."""
    with recursion_room():
        return _emit(path, stage, options, sources, reporter)


def _emit(path: str, stage: Stage, options: Options, sources: SourceMap, reporter: Reporter) -> str:
    if stage is Stage.TOKENS:
        return _tokens(path, sources, reporter)
    if stage is Stage.AST:
        from vx.syntax.dump import dump_ast

        return dump_ast(build.parse(path, sources, reporter))
    if stage is Stage.TYPES:
        from vx.sema.dump import dump_program

        return dump_program(build.type_check(path, options, sources, reporter).program)
    checked = build.check(path, options, sources, reporter)
    if stage is Stage.KERNELS:
        from vx.kernels.dump import dump_region

        return "\n".join(dump_region(region) for region in checked.regions)
    texts = build.translate(checked, reporter).texts
    if stage is Stage.LLVM:
        return "\n".join(texts)
    from vx.codegen.compile import to_asm

    return "\n".join(to_asm(text, checked.typed.target, options.opt_level) for text in texts)


def _tokens(path: str, sources: SourceMap, reporter: Reporter) -> str:
    from vx.syntax.dump import dump_tokens
    from vx.syntax.lexer import lex

    tokens = lex(sources.load(path), path, reporter)
    reporter.abort_if_errors()
    return dump_tokens(tokens)

"""Short ways to parse in tests, and a printer that shows how an expression was grouped."""

from __future__ import annotations

from vx.diagnostics.report import Reporter
from vx.syntax import ast
from vx.syntax.dump import dump_ast
from vx.syntax.parser import parse_module


def parse(text: str) -> tuple[ast.Module, Reporter]:
    reporter = Reporter()
    return parse_module(text, "test.vx", reporter), reporter


def tree(text: str) -> str:
    """The dump of a text that must have no errors."""
    module, reporter = parse(text)
    assert not reporter.diagnostics, reporter.diagnostics
    return dump_ast(module)


def codes(text: str) -> list[str]:
    return [diagnostic.code for diagnostic in parse(text)[1].diagnostics]


def errors(text: str) -> list[str]:
    """`CODE line:col message` of every error."""
    found = []
    for diagnostic in parse(text)[1].diagnostics:
        start = diagnostic.span.start
        line = text.count("\n", 0, start) + 1
        found.append(f"{diagnostic.code} {line}:{start - text.rfind(chr(10), 0, start)} {diagnostic.message}")
    return found


def expr(text: str) -> str:
    """The expression in `let x = text;`, with every operator in brackets."""
    module, reporter = parse(f"fn f() -> void {{ let x = {text}; }}")
    assert not reporter.diagnostics, reporter.diagnostics
    function = module.items[0]
    assert isinstance(function, ast.Function)
    let = function.body.stmts[0]
    assert isinstance(let, ast.Let)
    return show(let.value)


def show(node: object) -> str:
    kind = type(node)
    return _SHOW[kind](node) if kind in _SHOW else f"<{kind.__name__}>"


def _list(items: tuple[object, ...]) -> str:
    return ", ".join(show(item) for item in items)


def _args(items: tuple[object, ...]) -> str:
    return f"<{_list(items)}>" if items else ""


def _block(block: ast.Block) -> str:
    return f"{{{len(block.stmts)}; {show(block.value) if block.value else ''}}}"


_SHOW = {
    ast.Number: lambda n: str(n.value) + (n.suffix or ""),
    ast.StringLit: lambda n: repr(n.value),
    ast.BoolLit: lambda n: str(n.value).lower(),
    ast.NanLit: lambda n: "NAN",
    ast.Path: lambda n: "::".join(s.name + _args(s.args) for s in n.segments),
    ast.PathType: lambda n: "::".join(n.segments) + _args(n.args),
    ast.RefType: lambda n: f"&{'mut ' if n.mutable else ''}{show(n.inner)}",
    ast.PtrType: lambda n: f"*{'mut' if n.mutable else 'const'} {show(n.inner)}",
    ast.Unary: lambda n: f"({n.op}{show(n.operand)})",
    ast.AddrOf: lambda n: f"(&{'mut ' if n.mutable else ''}{show(n.operand)})",
    ast.Binary: lambda n: f"({show(n.left)} {n.op} {show(n.right)})",
    ast.Range: lambda n: f"({show(n.low) if n.low else ''}..{show(n.high) if n.high else ''})",
    ast.Call: lambda n: f"{show(n.callee)}({_list(n.args)})",
    ast.MethodCall: lambda n: f"{show(n.receiver)}.{n.name}{_args(n.generic_args)}({_list(n.args)})",
    ast.FieldAccess: lambda n: f"{show(n.receiver)}.{n.name}",
    ast.Index: lambda n: f"{show(n.receiver)}[{_list(n.indices)}]",
    ast.Cast: lambda n: f"({show(n.operand)} as {show(n.target)})",
    ast.StructLit: lambda n: f"{show(n.path)}{{{', '.join(f.name + ': ' + show(f.value) for f in n.fields)}}}",
    ast.ArrayLit: lambda n: f"[{_list(n.items)}]",
    ast.TensorCtor: lambda n: f"Tensor::{n.kind}({_list(n.args)})",
    ast.SizeOf: lambda n: f"sizeof<{show(n.type)}>",
    ast.BlockExpr: lambda n: f"{n.kind}{_block(n.block)}",
    ast.Try: lambda n: f"{show(n.operand)}?",
    ast.PlaceValue: lambda n: show(n.place),
    ast.MemoryPlace: lambda n: f"Memory::{n.name}",
    ast.TopologyPlace: lambda n: (
        f"Topology::{n.name}"
        + (f"[{show(n.index)}{'..' + show(n.index_end) if n.index_end else ''}]" if n.index else "")
    ),
    ast.Transfer: lambda n: f"transfer({show(n.operand)} -> {show(n.target)} within {n.within_ns})",
    ast.MacroCall: lambda n: f"{n.name}!({_list(n.args)})",
    ast.Closure: lambda n: f"|{', '.join(name for name, _ in n.params)}| {show(n.body)}",
    ast.Unsupported: lambda n: f"unsupported {n.what}",
}

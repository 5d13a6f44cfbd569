"""A region as text, for `vx emit --stage kernels` and for golden tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vx.kernels import ir


def dump_region(region: ir.Region) -> str:
    """Readable, stable text: parameters, buffers, the launching thread's statements, the kernels."""
    return "\n".join(_Dump(region).lines()) + "\n"


class _Dump:
    def __init__(self, region: ir.Region) -> None:
        self.region = region
        self.buffers = {b.id: b for b in region.buffers}
        clashes = [b.name for b in region.buffers]
        self.names = {b.id: b.name if clashes.count(b.name) == 1 else f"{b.name}#{b.id}" for b in region.buffers}

    def lines(self) -> Iterator[str]:
        yield f"region {self.region.name}({', '.join(self._param(p) for p in self.region.params)})"
        for b in self.region.buffers:
            if b.kind != "param":
                yield f"  {b.kind} {self.names[b.id]} : {b.elem}[{b.length}]"
        yield from self._stmts(self.region.body, 1)
        for kernel in self.region.kernels:
            yield f"kernel {kernel.name}"
            for segment in kernel.segments:
                axes = ", ".join(f"{self._var(a.var)} in {self._range(a.low, a.high)}" for a in segment.axes)
                yield f"  grid {axes}"
                yield from self._stmts(segment.body, 2)

    def _param(self, p: ir.TensorParam | ir.ScalarParam) -> str:
        if isinstance(p, ir.TensorParam):
            b = self.buffers[p.buffer]
            return f"{'out ' if b.written else ''}{self.names[b.id]} : *{b.elem}"
        return f"{'out ' if p.out else ''}{self._var(p.var)} : {p.var.type}"

    def _stmts(self, stmts: Sequence[ir.Stmt], depth: int) -> Iterator[str]:
        for stmt in stmts:
            yield from self._stmt(stmt, depth)

    def _stmt(self, stmt: ir.Stmt, depth: int) -> Iterator[str]:  # noqa: C901 (one arm per kind of statement)
        pad = "  " * depth
        match stmt:
            case ir.Let(var=v, value=x, mutable=mutable):
                yield f"{pad}let {'mut ' if mutable else ''}{self._var(v)} : {v.type} = {self.expr(x)}"
            case ir.Set(var=v, value=x):
                yield f"{pad}{self._var(v)} = {self.expr(x)}"
            case ir.Store(buffer=b, offset=offset, value=x):
                yield f"{pad}{self.names[b]}[{self.expr(offset)}] = {self.expr(x)}"
            case ir.For(var=v, low=low, high=high, body=body, parallel=parallel, why=why):
                kind = "parallel" if parallel else "serial"
                yield f"{pad}{kind} {self._var(v)} in {self._range(low, high)}{f'  // {why}' if why else ''}"
                yield from self._stmts(body, depth + 1)
            case ir.While(cond=c, body=body):
                yield f"{pad}while {self.expr(c)}"
                yield from self._stmts(body, depth + 1)
            case ir.If(cond=c, then=then, orelse=orelse):
                yield f"{pad}if {self.expr(c)}"
                yield from self._stmts(then, depth + 1)
                if orelse:
                    yield f"{pad}else"
                    yield from self._stmts(orelse, depth + 1)
            case ir.Alloc(buffer=b):
                yield f"{pad}alloc {self.names[b]}"
            case ir.ArgReduce(op=op, var=v, low=low, high=high, value=x, best=best, at=at, index=index):
                target = f"{self._var(best)}, {self._var(at)}"
                span = f"{self._var(v)} in {self._range(low, high)}"
                yield f"{pad}{target} = arg{op} over {span} of {self.expr(x)} at {self.expr(index)}"
            case ir.Check(cond=c, message=message):
                yield f"{pad}check {self.expr(c)}  // {message}"
            case ir.Launch(kernel=k):
                yield f"{pad}launch {self.region.kernels[k].name}"

    def _range(self, low: ir.Expr, high: ir.Expr) -> str:
        return f"{self.expr(low)}..{self.expr(high)}"

    def _var(self, v: ir.Var) -> str:
        return f"{v.name}%{v.id}"

    def expr(self, e: ir.Expr) -> str:  # noqa: C901 (one arm per kind of expression)
        match e:
            case ir.Lit(value=v):
                return str(v).lower() if isinstance(v, bool) else repr(v)
            case ir.Var():
                return self._var(e)
            case ir.Affine(const=c, terms=terms):
                parts = [self.expr(a) if k == 1 else f"{k}*{self.expr(a)}" for k, a in terms]
                return " + ".join(parts + ([str(c)] if c or not parts else []))
            case ir.Load(buffer=b, offset=offset):
                return f"{self.names[b]}[{self.expr(offset)}]"
            case ir.Unary(op=op, operand=x):
                return f"{op}{self.expr(x)}"
            case ir.Binary(op=op, left=a, right=b2):
                return f"({self.expr(a)} {op} {self.expr(b2)})"
            case ir.Cast(operand=x, type=t):
                return f"{t}({self.expr(x)})"
            case ir.Call(name=name, args=args):
                return f"{name}({', '.join(self.expr(a) for a in args)})"
            case ir.Select(cond=c2, then=a, orelse=b3):
                return f"select({self.expr(c2)}, {self.expr(a)}, {self.expr(b3)})"
            case ir.Reduce(op=op, var=v2, low=low, high=high, body=body):
                return f"{op}[{self._var(v2)} in {self._range(low, high)}]({self.expr(body)})"

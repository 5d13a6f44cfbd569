"""The typed program as text: close to the source language, with everything resolved made visible.

Enters: `tree.Program`. Leaves: text for `vx emit --stage types` and for tests. Locals are written `name.id`;
`move x` takes a value out of its place, `copy x` leaves it; every operator's result that has storage or a
shape carries its type.
"""

from __future__ import annotations

from collections.abc import Iterator

from vx.sema import tree
from vx.sema.types import show, show_place

_STEP = "  "


def dump_program(program: tree.Program) -> str:
    """All types, C functions and functions of a program, in the order in which they were found."""
    parts = [*_types(program), *_externs(program)]
    writer = _Writer(program)
    for function in program.functions.values():
        parts.append("\n".join(writer.function(function)))
    return "\n".join(part for part in parts if part) + "\n"


def _types(program: tree.Program) -> Iterator[str]:
    for struct in program.structs.values():
        drop = f" drop {struct.drop}" if struct.drop else ""
        fields = ", ".join(f"{name} : {show(type_)}" for name, type_ in struct.fields)
        yield f"struct {struct.key} {{ {fields} }}{drop}"
    for enum in program.enums.values():
        variants = ", ".join(
            name + (f"({', '.join(map(show, items))})" if items else "") for name, items in enum.variants
        )
        yield f"enum {enum.key} {{ {variants} }}"


def _externs(program: tree.Program) -> Iterator[str]:
    for extern in program.externs.values():
        yield f"extern {extern.name}({', '.join(map(show, extern.params))}) -> {show(extern.ret)}"
    for ref in program.model:
        yield f"model {ref.name} : {show(ref.type)}"


class _Writer:
    """Writes functions of one program."""

    def __init__(self, program: tree.Program) -> None:
        self.program = program
        self.locals: dict[int, tree.LocalDecl] = {}

    def function(self, function: tree.Function) -> Iterator[str]:
        self.locals = dict(function.locals)
        params = ", ".join(f"{self.name(p)} : {show(self.locals[p].type)}" for p in function.params)
        on = f" on {show_place(function.on)}" if function.on is not None else ""
        role = "role " if function.is_role else ""
        yield f"{role}fn {function.key}({params}){on} -> {show(function.ret)} {{"
        yield from self.body(function.body, _STEP)
        yield "}"

    def name(self, id_: int) -> str:
        return f"{self.locals[id_].name}.{id_}"

    # ---- statements ----
    def body(self, block: tree.Block, indent: str) -> Iterator[str]:
        for stmt in block.stmts:
            yield from self.statement(stmt, indent)
        if block.value is not None:
            yield from self.line("", block.value, "", indent)

    def line(self, before: str, value: tree.Value, after: str, indent: str) -> Iterator[str]:
        """A line around a value; a value with blocks inside goes over several."""
        text = self.value(value, indent)
        yield f"{indent}{before}{text}{after}"

    def statement(self, stmt: tree.StmtNode, indent: str) -> Iterator[str]:
        match stmt:
            case tree.Let(id=id_, value=value):
                mutable = "mut " if self.locals[id_].mutable else ""
                head = f"let {mutable}{self.name(id_)} : {show(self.locals[id_].type)} = "
                yield from self.line(head, value, ";", indent)
            case tree.Assign(target=target, value=value):
                yield from self.line(f"{self.place(target, indent)} = ", value, ";", indent)
            case tree.OpAssign(target=target, op=op, value=value):
                yield from self.line(f"{self.place(target, indent)} {op}= ", value, ";", indent)
            case tree.ExprStmt(value=value):
                yield from self.line("", value, ";", indent)
            case tree.Return(value=value):
                yield f"{indent}return;" if value is None else f"{indent}return {self.value(value, indent)};"
            case tree.Assert(cond=cond, message=message):
                yield f"{indent}assert({self.value(cond, indent)}, {_text(message)});"
            case _:
                yield from self._other(stmt, indent)

    def _other(self, stmt: tree.StmtNode, indent: str) -> Iterator[str]:
        match stmt:
            case tree.Land(target=target, ref=ref, route=route, within_ns=within):
                via = _route(route, within)
                yield f"{indent}land {self.place(target, indent)} = {self.value(ref, indent)}{via};"
            case tree.MatMulInto(out=out, left=left, right=right):
                yield f"{indent}matmul_into({self.values((out, left, right), indent)});"
            case tree.Attention(out=out, q=q, k=k, v=v, scale=scale, first=first):
                args = (out, q, k, v, scale) if first is None else (out, q, k, v, scale, first)
                yield f"{indent}attention({self.values(args, indent)});"
            case tree.Break():
                yield f"{indent}break;"
            case tree.Continue():
                yield f"{indent}continue;"
            case tree.Loop(body=body):
                yield f"{indent}loop {self.block(body, indent)}"
            case tree.While(cond=cond, body=body):
                yield f"{indent}while {self.value(cond, indent)} {self.block(body, indent)}"
            case tree.For(id=id_, low=low, high=high, body=body):
                head = f"for {self.name(id_)} in {self.value(low, indent)}..{self.value(high, indent)}"
                yield f"{indent}{head} {self.block(body, indent)}"

    def block(self, block: tree.Block, indent: str) -> str:
        inner = list(self.body(block, indent + _STEP))
        return "\n".join(["{", *inner, indent + "}"]) if inner else "{ }"

    # ---- places ----
    def place(self, place: tree.PlaceNode, indent: str) -> str:
        match place:
            case tree.Local(id=id_):
                return self.name(id_)
            case tree.ModelTensor(name=name):
                return f"model::{name}"
            case tree.Field(base=base, index=index):
                return f"{self.place(base, indent)}.{self._field(base, index)}"
            case tree.Deref(ref=tree.Read(place=inner)):
                return f"(*{self.place(inner, indent)})"
            case tree.Deref(ref=ref):
                return f"(*{self.value(ref, indent)})"
            case tree.Temp(value=value):
                return f"temp({self.value(value, indent)})"
            case _:
                return self.place(place.base, indent) + self._view(place, indent)

    def _view(self, place: tree.Index | tree.Reshape | tree.Transpose | tree.Bytes, indent: str) -> str:
        """What is written behind the tensor that a view is of."""
        match place:
            case tree.Index(indices=indices):
                return f"[{', '.join(self._index(i, indent) for i in indices)}]"
            case tree.Reshape(dims=dims):
                return f".reshape([{self.values(dims, indent)}])"
            case tree.Transpose():
                return ".t()"
            case tree.Bytes():
                return ".bytes()"

    def _field(self, base: tree.PlaceNode, index: int) -> str:
        assert isinstance(base.type, tree.Struct)
        return self.program.structs[base.type.key].fields[index][0]

    def _index(self, item: tree.At | tree.Slice, indent: str) -> str:
        if isinstance(item, tree.At):
            return self.value(item.index, indent)
        return f"{self.value(item.low, indent)}..{self.value(item.high, indent)}"

    # ---- values ----
    def values(self, values: tuple[tree.Value, ...], indent: str) -> str:
        return ", ".join(self.value(value, indent) for value in values)

    def value(self, value: tree.Value, indent: str) -> str:
        match value:
            case tree.Const(value=number, type=type_):
                text = str(number).lower() if isinstance(number, bool) else str(number)
                return text if type_ == tree.BOOL else f"{text}{show(type_)}"
            case tree.Str(value=text_bytes):
                return _text(text_bytes)
            case tree.Read(place=place, move=move):
                return f"{'move' if move else 'copy'} {self.place(place, indent)}"
            case tree.AddrOf(place=place, mutable=mutable, type=type_):
                pointer = "raw " if isinstance(type_, tree.Ptr) else ""
                return f"&{pointer}{'mut ' if mutable else ''}{self.place(place, indent)}"
            case tree.Unary(op=op, operand=operand):
                return f"{op}({self.value(operand, indent)}){_typed(value.type)}"
            case tree.Binary(op=op, left=left, right=right):
                return f"({self.value(left, indent)} {op} {self.value(right, indent)}){_typed(value.type)}"
            case tree.MatMul(left=left, right=right):
                return f"({self.value(left, indent)} @ {self.value(right, indent)}){_typed(value.type)}"
            case tree.Cast(operand=operand):
                return f"({self.value(operand, indent)} as {show(value.type)})"
            case _:
                return self._call_like(value, indent)

    def _call_like(self, value: tree.Value, indent: str) -> str:
        match value:
            case tree.Math(name=name, args=args) | tree.Reduce(op=name, args=args):
                return f"{name}({self.values(args, indent)}){_typed(value.type)}"
            case tree.Call(key=name, args=args) | tree.CallExtern(name=name, args=args):
                return f"{name}({self.values(args, indent)})"
            case tree.FnAddr(key=key):
                return f"&fn {key}"
            case tree.TensorPtr(ref=ref):
                return f"pointer({self.value(ref, indent)})"
            case tree.Extent(ref=ref, axis=axis):
                return f"extent({self.value(ref, indent)}, {axis})"
            case tree.CopyTensor(ref=ref):
                return f"copied({self.value(ref, indent)}){_typed(value.type)}"
            case tree.Print(value=inner):
                return f"print({self.value(inner, indent)})"
            case tree.Transfer(ref=ref, route=route, within_ns=within):
                return f"transfer({self.value(ref, indent)}){_typed(value.type)}{_route(route, within)}"
            case tree.Abort(message=message):
                return f"abort({_text(message)})"
            case _:
                return self._made(value, indent)

    def _made(self, value: tree.Value, indent: str) -> str:
        match value:
            case tree.StructLit(values=values, type=tree.Struct(key=key)):
                names = [name for name, _ in self.program.structs[key].fields]
                fields = ", ".join(f"{n}: {self.value(v, indent)}" for n, v in zip(names, values, strict=True))
                return f"{key} {{ {fields} }}"
            case tree.EnumLit(variant=variant, values=values, type=tree.Enum(key=key)):
                name = self.program.enums[key].variants[variant][0]
                return f"{key}::{name}" + (f"({self.values(values, indent)})" if values else "")
            case tree.TensorNew(init=init, fill=fill, extents=extents, items=items):
                args = "" if fill is None else self.value(fill, indent)
                args += self.values(items, indent)
                shape = "" if _is_static(value.type) else f" extents [{self.values(extents, indent)}]"
                return f"{show(value.type)}::{init}({args}){shape}"
            case tree.ReturnExpr(value=inner):
                return "return" if inner is None else f"return {self.value(inner, indent)}"
            case _:
                return self._branching(value, indent)

    def _branching(self, value: tree.Value, indent: str) -> str:
        match value:
            case tree.IfExpr(cond=cond, then=then, orelse=orelse):
                text = f"if {self.value(cond, indent)} {self.block(then, indent)}"
                return text if orelse is None else f"{text} else {self.block(orelse, indent)}"
            case tree.BlockExpr(block=block):
                return self.block(block, indent)
            case tree.Spawn(place=place, body=body):
                return f"spawn on {show_place(place)} {self.block(body, indent)}"
            case tree.Match(scrutinee=scrutinee, arms=arms):
                inner = indent + _STEP
                lines = [f"match {self.value(scrutinee, indent)} {{"]
                for arm in arms:
                    lines.append(
                        f"{inner}{self._pattern(scrutinee.type, arm.pattern)} => {self.block(arm.body, inner)}"
                    )
                return "\n".join([*lines, indent + "}"])
            case _:
                raise AssertionError(f"no text for {type(value).__name__}")

    def _pattern(self, type_: tree.Type, pattern: tree.TagPattern | tree.ValuePattern | tree.AnyPattern) -> str:
        match pattern:
            case tree.AnyPattern(binding=binding):
                return "_" if binding is None else self.name(binding)
            case tree.ValuePattern(value=value):
                return self.value(value, "")
            case tree.TagPattern(tag=tag, bindings=bindings):
                enum = type_.to if isinstance(type_, tree.Ref) else type_
                assert isinstance(enum, tree.Enum)
                name = self.program.enums[enum.key].variants[tag][0]
                items = ", ".join("_" if b is None else self.name(b) for b in bindings)
                return f"{name}({items})" if bindings else name


def _typed(type_: tree.Type) -> str:
    return f" : {show(type_)}" if isinstance(type_, tree.Tensor) else ""


def _is_static(type_: tree.Type) -> bool:
    return isinstance(type_, tree.Tensor) and all(isinstance(d, int) for d in type_.dims)


def _route(route: tuple[str, ...], within_ns: int | None) -> str:
    deadline = "" if within_ns is None else f" within {within_ns} ns"
    return f" via {' -> '.join(route)}{deadline}"


def _text(value: bytes) -> str:
    return (
        '"'
        + value.decode(errors="backslashreplace").replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
        + '"'
    )

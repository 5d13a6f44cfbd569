"""Control flow, calls and aggregates of host code."""

from __future__ import annotations

from pathlib import Path

import pytest
from codegen import handmade as b

from vx.codegen.layout import Layouts, Size
from vx.sema import tree as t

S, I32, I64, BOOL, VOID = b.S, b.I32, b.I64, b.BOOL, b.VOID
POINT = t.Struct("Point")
STRUCTS = (t.StructDef("Point", "Point", (("flag", BOOL), ("x", I64), ("h", t.Scalar("f16"))), None),)
SHAPE = t.Enum("Shape")
ENUMS = (t.EnumDef("Shape", "Shape", (("Dot", ()), ("Line", (I32,)), ("Box", (I32, t.Scalar("i128"))))),)


def out(folder: Path, *functions: t.Function, externs: tuple[t.Extern, ...] = (), opt_level: int = 2) -> str:
    source = b.program(*functions, structs=STRUCTS, enums=ENUMS, externs=externs)
    done = b.run(source, folder, opt_level=opt_level)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def call(name: str, ret: t.Type, *args: t.Value) -> t.Call:
    return t.Call(ret, S, name, args)


def test_recursion_and_values_of_branches(tmp_path: Path) -> None:
    n = b.get(I64, 1)
    less = call("fib", I64, b.binary("-", n, b.const(1, I64)))
    lesser = call("fib", I64, b.binary("-", n, b.const(2, I64)))
    body = t.IfExpr(
        I64, S, b.binary("<", n, b.const(2, I64)), b.block(value=n), b.block(value=b.binary("+", less, lesser))
    )
    fib = b.function("fib", {1: I64}, I64, b.block(value=body))
    assert out(tmp_path, fib, b.main(*b.show(call("fib", I64, b.const(20, I64))))) == "6765"


@pytest.mark.parametrize("opt_level", [0, 2])
def test_loops_break_and_continue(tmp_path: Path, opt_level: int) -> None:
    i, total = b.get(I32, 1), b.local(I32, 2)
    skip = b.do(
        t.IfExpr(VOID, S, b.binary("==", b.binary("%", i, b.const(2)), b.const(0)), b.block(t.Continue(S)), None)
    )
    stop = b.do(t.IfExpr(VOID, S, b.binary(">", i, b.const(8)), b.block(t.Break(S)), None))
    each = t.For(S, 1, b.const(0), b.const(100), b.block(skip, stop, t.OpAssign(S, total, "+", i)))
    count = t.While(
        S, b.binary("<", b.get(I32, 3), b.const(5)), b.block(t.OpAssign(S, b.local(I32, 3), "+", b.const(2)))
    )
    forever = t.Loop(S, b.block(t.OpAssign(S, b.local(I32, 4), "*", b.const(3)), b.do(t.IfExpr(VOID, S, b.binary(">", b.get(I32, 4), b.const(50)), b.block(t.Break(S)), None))))  # fmt: skip
    empty = t.For(S, 1, b.const(5), b.const(-5), b.block(t.OpAssign(S, total, "+", b.const(1000))))
    stmts = [b.let(2, b.const(0)), b.let(3, b.const(0)), b.let(4, b.const(1)), each, count, forever, empty]
    main = b.main(*stmts, *b.show(b.read(total), b.get(I32, 3), b.get(I32, 4)), locals_={n: I32 for n in range(1, 5)})
    assert out(tmp_path, main, opt_level=opt_level) == "16 6 81"


def test_a_loop_reaches_the_greatest_integer(tmp_path: Path) -> None:
    byte = t.Scalar("u8")
    count = t.For(
        S, 1, b.const(250, byte), b.const(255, byte), b.block(t.OpAssign(S, b.local(I32, 2), "+", b.const(1)))
    )
    main = b.main(b.let(2, b.const(0)), count, *b.show(b.get(I32, 2)), locals_={1: byte, 2: I32})
    assert out(tmp_path, main) == "5"


def test_logic_stops_at_the_first_answer(tmp_path: Path) -> None:
    told = b.function("told", {1: BOOL}, BOOL, b.block(*b.show(b.get(BOOL, 1)), value=b.get(BOOL, 1)))

    def tell(value: bool) -> t.Call:
        return call("told", BOOL, b.const(value, BOOL))

    both = b.binary("&&", tell(False), tell(True))
    either = b.binary("||", tell(False), b.binary("||", tell(True), tell(False)))
    assert out(tmp_path, told, b.main(*b.show(both, either))) == "false false false true true"


def test_structs_travel_through_calls_and_fields(tmp_path: Path) -> None:
    half = t.Scalar("f16")
    make = t.StructLit(POINT, S, (b.const(True, BOOL), b.const(7, I64), b.const(0.5, half)), (2, 0, 1))
    grow_body = t.OpAssign(S, b.field(b.deref(b.get(t.Ref(POINT, True), 1)), 1, I64), "*", b.get(I64, 2))
    grow = b.function("grow", {1: t.Ref(POINT, True), 2: I64}, VOID, b.block(grow_body))
    same = b.function("same", {1: POINT}, POINT, b.block(value=b.get(POINT, 1)))
    point = b.local(POINT, 1)
    main = b.main(
        b.let(1, call("same", POINT, make)),
        b.do(call("grow", VOID, b.ref(point, True), b.const(6, I64))),
        *b.show(*(b.read(b.field(point, n, kind)) for n, kind in enumerate((BOOL, I64, half)))),
        locals_={1: POINT},
    )
    assert out(tmp_path, make_unused(), grow, same, main) == "true 42 0.5"


def make_unused() -> t.Function:
    """A function that nobody calls is not written."""
    return b.function("unused", {}, VOID, b.block(b.do(t.CallExtern(VOID, S, "absent", ()))))


def test_an_argument_evaluated_in_the_order_written(tmp_path: Path) -> None:
    told = b.function("told", {1: I32}, I32, b.block(*b.show(b.get(I32, 1)), value=b.get(I32, 1)))
    three = b.function("three", {1: I32, 2: I32}, I32, b.block(value=b.binary("-", b.get(I32, 1), b.get(I32, 2))))
    value = call("three", I32, call("told", I32, b.const(1)), call("told", I32, b.const(2)))
    assert out(tmp_path, told, three, b.main(*b.show(value))) == "1 2 -1"


def test_enums_and_their_payloads(tmp_path: Path) -> None:
    big = t.Scalar("i128")
    shapes = [
        t.EnumLit(SHAPE, S, 0, ()),
        t.EnumLit(SHAPE, S, 1, (b.const(5),)),
        t.EnumLit(SHAPE, S, 2, (b.const(3), b.const(10**30, big))),
    ]
    arms = (
        t.Arm(t.TagPattern(2, (2, 3)), b.block(value=b.binary("+", b.get(big, 3), t.Cast(big, S, b.get(I32, 2))))),
        t.Arm(t.TagPattern(1, (2,)), b.block(value=t.Cast(big, S, b.get(I32, 2)))),
        t.Arm(t.AnyPattern(None), b.block(value=b.const(-1, big))),
    )
    area = b.function("area", {1: SHAPE}, big, b.block(value=t.Match(big, S, b.get(SHAPE, 1), arms)), {2: I32, 3: big})
    main = b.main(*b.show(*(call("area", big, shape) for shape in shapes)))
    assert out(tmp_path, area, main) == f"-1 5 {10**30 + 3}"


def test_match_on_texts_numbers_and_references(tmp_path: Path) -> None:
    def arm(pattern: t.Value, value: int) -> t.Arm:
        assert isinstance(pattern, t.Const | t.Str)
        return t.Arm(t.ValuePattern(pattern), b.block(value=b.const(value)))

    rest = t.Arm(t.AnyPattern(None), b.block(value=b.const(-1)))
    text_arms = (arm(b.text("one"), 1), arm(b.text("on"), 2), rest)
    by_text = b.function("by_text", {1: t.CSTR}, I32, b.block(value=t.Match(I32, S, b.get(t.CSTR, 1), text_arms)))
    bound = t.Arm(t.AnyPattern(2), b.block(value=b.binary("*", b.get(I32, 2), b.const(2))))
    numbers = t.Match(I32, S, b.get(I32, 1), (arm(b.const(4), 40), arm(b.const(-5), 50), bound))
    by_number = b.function("by_number", {1: I32}, I32, b.block(value=numbers), {2: I32})
    pointer = t.Ref(I32, False)
    through = t.Match(I32, S, b.get(pointer, 1), (arm(b.const(4), 400), rest))
    by_ref = b.function("by_ref", {1: pointer}, I32, b.block(value=through))
    values = [call("by_text", I32, b.text(word)) for word in ("one", "on", "o", "")]
    values += [call("by_number", I32, b.const(n)) for n in (4, -5, 8)]
    values += [call("by_ref", I32, b.ref(b.local(I32, 1)))]
    main = b.main(b.let(1, b.const(4)), *b.show(*values), locals_={1: I32})
    assert out(tmp_path, by_text, by_number, by_ref, main) == "1 2 -1 -1 40 50 16 400"


def test_c_functions_and_callbacks(tmp_path: Path) -> None:
    pointer = t.Ptr(VOID, True)
    value = t.Deref(I32, S, t.Cast(t.Ptr(I32, False), S, b.get(pointer, 1)))
    other = t.Deref(I32, S, t.Cast(t.Ptr(I32, False), S, b.get(pointer, 2)))
    order = b.function(
        "order", {1: pointer, 2: pointer}, I32, b.block(value=b.binary("-", b.read(other), b.read(value)))
    )
    row = t.Tensor("i32", (4,))
    data = t.Cast(pointer, S, t.TensorPtr(t.Ptr(I32, True), S, b.ref(b.local(row, 1), True)))
    items = tuple(b.const(n) for n in (2, 9, -3, 5))
    qsort = t.Extern("qsort", (pointer, I64, I64, pointer), VOID)
    absolute = t.Extern("labs", (I64,), I64)
    main = b.main(
        b.let(1, t.TensorNew(row, S, "items", None, (b.const(4, I64),), items)),
        b.do(t.CallExtern(VOID, S, "qsort", (data, b.const(4, I64), b.const(4, I64), t.FnAddr(pointer, S, "order")))),
        *b.show(b.ref(b.local(row, 1)), t.CallExtern(I64, S, "labs", (b.const(-8, I64),))),
        locals_={1: row},
    )
    assert out(tmp_path, order, main, externs=(qsort, absolute)) == "[9,   5,   2,   -3] 8"


def test_assertions_and_aborts_say_where(tmp_path: Path) -> None:
    failing = t.Assert(b.at(4), b.const(False, BOOL), b"no luck")
    done = b.run(b.program(b.main(*b.show(b.text("before")), failing)), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (
        101,
        "before ",
        "vx: assertion failed: no luck at test.vx:4\n",
    )
    stop = b.do(t.Abort(t.NEVER, b.at(6), b"enough"))
    done = b.run(b.program(b.main(stop, *b.show(b.text("never")))), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (101, "", "vx: enough at test.vx:6\n")


def test_the_status_of_main_is_the_status_of_the_process(tmp_path: Path) -> None:
    main = b.function("main", {}, I32, b.block(t.Return(S, b.const(7))))
    assert b.run(b.program(main), tmp_path).returncode == 7


def test_layouts_are_those_of_c() -> None:
    layouts = Layouts({s.key: s for s in STRUCTS}, {e.key: e for e in ENUMS})
    assert layouts.size(POINT) == Size(24, 8)
    assert layouts.field_offsets(POINT) == (0, 8, 16)
    assert layouts.size(SHAPE) == Size(48, 16)
    assert layouts.payload_offsets(SHAPE, 2) == (16, 32)
    assert layouts.size(t.Ref(t.Tensor("f32", (2, 3)), False)) == Size(40, 8)
    assert layouts.size(t.Ref(POINT, False)) == Size(8, 8)

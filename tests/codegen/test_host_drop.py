"""Ownership in host code: what is dropped, when, and never twice.

`Loud` prints its number when it is dropped, so that the output is the order of events.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from codegen import handmade as b

from vx.sema import tree as t

S, I32, VOID = b.S, b.I32, b.VOID
LOUD = t.Struct("Loud")
PAIR = t.Struct("Pair")
MAYBE = t.Enum("Maybe")
TENSOR = t.Tensor("f32", (4,))

DROP = b.function(
    "Loud.drop",
    {1: t.Ref(LOUD, True)},
    VOID,
    b.block(*b.show(b.read(b.field(b.deref(b.get(t.Ref(LOUD, True), 1)), 0, I32)))),
)
MAKE = b.function(
    "make", {1: I32}, LOUD, b.block(value=t.StructLit(LOUD, S, (b.get(I32, 1), t.TensorNew(TENSOR, S, "zero", None, (b.const(4, b.I64),))), (0, 1)))
)  # fmt: skip
TAKE = b.function("take", {1: LOUD}, VOID, b.block(*b.show(b.text("taken"))))
STRUCTS = (
    t.StructDef("Loud", "Loud", (("n", I32), ("t", TENSOR)), "Loud.drop"),
    t.StructDef("Pair", "Pair", (("a", LOUD), ("b", LOUD)), None),
)
ENUMS = (t.EnumDef("Maybe", "Maybe", (("None", ()), ("One", (LOUD,)), ("Two", (LOUD, LOUD)))),)


def make(n: int) -> t.Call:
    return t.Call(LOUD, S, "make", (b.const(n),))


def take(value: t.Value) -> t.ExprStmt:
    return b.do(t.Call(VOID, S, "take", (value,)))


def loud(id_: int, move: bool = False) -> t.Read:
    return b.get(LOUD, id_, move)


def pair(n: int) -> t.StructLit:
    return t.StructLit(PAIR, S, (make(n), make(n + 1)), (0, 1))


def events(folder: Path, *stmts: t.StmtNode, functions: tuple[t.Function, ...] = (), opt_level: int = 2) -> str:
    types: dict[int, t.Type] = {i: LOUD for i in range(1, 10)} | {i: PAIR for i in range(10, 20)}
    types |= {i: MAYBE for i in range(20, 30)} | {i: I32 for i in range(30, 40)}
    main = b.main(*stmts, locals_=types)
    source = b.program(main, DROP, MAKE, TAKE, *functions, structs=STRUCTS, enums=ENUMS)
    done = b.run(source, folder, opt_level=opt_level)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def yes() -> t.Const:
    return b.const(True, b.BOOL)


def when(cond: t.Value, *then: t.StmtNode, orelse: t.Block | None = None) -> t.ExprStmt:
    return b.do(t.IfExpr(VOID, S, cond, b.block(*then), orelse))


def test_locals_go_in_reverse_order(tmp_path: Path) -> None:
    assert events(tmp_path, b.let(1, make(1)), b.let(2, make(2)), *b.show(b.text("end"))) == "end 2 1"


@pytest.mark.parametrize("opt_level", [0, 2])
def test_a_moved_local_is_not_dropped_here(tmp_path: Path, opt_level: int) -> None:
    maybe_move = when(b.binary("==", b.get(I32, 30), b.const(1)), take(loud(1, True)))
    body = b.block(b.let(1, make(7)), maybe_move, *b.show(b.text("after")))
    loop = t.For(S, 30, b.const(0), b.const(2), body)
    assert events(tmp_path, loop, opt_level=opt_level) == "after 7 taken 7 after"


def test_assignment_drops_the_old_value_and_revives_a_moved_one(tmp_path: Path) -> None:
    stmts = [b.let(1, make(1)), t.Assign(S, b.local(LOUD, 1), make(2)), take(loud(1, True))]
    stmts += [t.Assign(S, b.local(LOUD, 1), make(3)), *b.show(b.text("end"))]
    assert events(tmp_path, *stmts) == "1 taken 2 end 3"


def test_a_field_moved_out_leaves_the_others(tmp_path: Path) -> None:
    first = b.field(b.local(PAIR, 10), 0, LOUD)
    stmts = [b.let(10, pair(1)), take(b.read(first, True)), *b.show(b.text("end"))]
    assert events(tmp_path, *stmts) == "taken 1 end 2"
    assert events(tmp_path, *stmts[:-2], t.Assign(S, first, make(5)), *stmts[-2:]) == "taken 1 end 5 2"


def test_assignment_to_a_field_drops_what_was_there(tmp_path: Path) -> None:
    second = b.field(b.local(PAIR, 10), 1, LOUD)
    assert events(tmp_path, b.let(10, pair(1)), t.Assign(S, second, make(9)), *b.show(b.text("end"))) == "2 end 1 9"


def test_a_field_moved_out_of_a_temporary(tmp_path: Path) -> None:
    value = b.read(b.field(t.Temp(PAIR, S, pair(1)), 1, LOUD), True)
    assert events(tmp_path, b.let(1, value), *b.show(b.text("end"))) == "1 end 2"


def test_temporaries_go_at_the_end_of_their_statement(tmp_path: Path) -> None:
    number = b.read(b.field(t.Temp(LOUD, S, make(4)), 0, I32))
    shown = b.do(t.Print(VOID, S, number))
    assert events(tmp_path, shown, *b.show(b.text(""), b.text("end"))) == "44  end"


def test_results_nobody_wants_go_at_once(tmp_path: Path) -> None:
    assert events(tmp_path, b.do(make(1)), *b.show(b.text("end"))) == "1 end"


@pytest.mark.parametrize("leave", ["break", "continue", "return"])
def test_leaving_early_drops_everything_on_the_way(tmp_path: Path, leave: str) -> None:
    exits: dict[str, t.StmtNode] = {"break": t.Break(S), "continue": t.Continue(S), "return": t.Return(S, b.const(0))}
    body = b.block(b.let(2, make(2)), b.do(t.BlockExpr(VOID, S, b.block(b.let(3, make(3)), exits[leave]))))
    stmts = [b.let(1, make(1)), t.For(S, 30, b.const(0), b.const(2), body), *b.show(b.text("end"))]
    rounds = {"break": "3 2 end 1", "continue": "3 2 3 2 end 1", "return": "3 2 1"}
    assert events(tmp_path, *stmts) == rounds[leave]


def test_leaving_in_the_middle_of_a_call_drops_finished_arguments(tmp_path: Path) -> None:
    early = t.BlockExpr(LOUD, S, b.block(t.Return(S, None), value=make(8)))
    args = (
        make(1),
        t.IfExpr(LOUD, S, yes(), t.Block((), t.ReturnExpr(t.NEVER, S, None), t.NEVER, S), b.block(value=make(2))),
    )
    both = b.function("both", {1: LOUD, 2: LOUD}, VOID, b.block())
    inner = b.function("inner", {}, VOID, b.block(b.do(t.Call(VOID, S, "both", args))))
    literal = b.function("literal", {}, VOID, b.block(b.do(t.StructLit(PAIR, S, (make(5), early), (0, 1)))))
    stmts = [b.do(t.Call(VOID, S, name, ())) for name in ("inner", "literal")]
    assert events(tmp_path, *stmts, functions=(both, inner, literal)) == "1 5"


def test_a_match_takes_an_owned_value_apart(tmp_path: Path) -> None:
    one = t.Arm(t.TagPattern(1, (1,)), b.block(*b.show(b.text("one"))))
    two = t.Arm(t.TagPattern(2, (None, 2)), b.block(take(loud(2, True)), *b.show(b.text("two"))))
    rest = t.Arm(t.AnyPattern(None), b.block(*b.show(b.text("rest"))))

    def match(value: t.Value, *arms: t.Arm) -> t.StmtNode:
        return b.do(t.Match(VOID, S, value, arms))

    first = t.EnumLit(MAYBE, S, 1, (make(1),))
    second = t.EnumLit(MAYBE, S, 2, (make(2), make(3)))
    none = t.EnumLit(MAYBE, S, 0, ())
    assert events(tmp_path, match(first, one, two, rest)) == "one 1"
    assert events(tmp_path, match(second, one, two, rest)) == "2 taken 3 two"
    assert events(tmp_path, match(none, one, two, rest)) == "rest"
    assert events(tmp_path, match(second, one, rest)) == "2 3 rest"


def test_a_match_on_a_reference_leaves_the_value(tmp_path: Path) -> None:
    payload = t.Ref(LOUD, False)
    number = b.read(b.field(b.deref(b.get(payload, 2)), 0, I32))
    arms = (t.Arm(t.TagPattern(1, (2,)), b.block(value=number)), t.Arm(t.AnyPattern(None), b.block(value=b.const(0))))
    peek = b.function(
        "peek",
        {1: t.Ref(MAYBE, False)},
        I32,
        b.block(value=t.Match(I32, S, b.get(t.Ref(MAYBE, False), 1), arms)),
        {2: payload},
    )
    stmts = [b.let(20, t.EnumLit(MAYBE, S, 1, (make(6),)))]
    stmts += b.show(t.Call(I32, S, "peek", (b.ref(b.local(MAYBE, 20)),)), b.text("end"))
    assert events(tmp_path, *stmts, functions=(peek,)) == "6 end 6"


def test_a_raw_pointer_owns_nothing(tmp_path: Path) -> None:
    """`*p = v` moves without dropping, and `*p` moves out without a flag: what `Vec` is made of."""
    raw = t.Ptr(LOUD, True)
    there = b.deref(b.get(raw, 2))
    body = b.block(
        b.let(2, t.Cast(raw, S, t.AddrOf(t.Ref(LOUD, True), S, b.local(LOUD, 1), True))),
        b.let(3, b.read(there, True)),
        t.Assign(S, there, make(8)),
        *b.show(b.text("swapped")),
    )
    swap = b.function("swap", {1: LOUD}, VOID, body, {2: raw, 3: LOUD})
    assert events(tmp_path, b.do(t.Call(VOID, S, "swap", (make(1),))), functions=(swap,)) == "swapped 1 8"


def test_an_indexed_raw_pointer_steps_by_the_size_of_what_it_points_to(tmp_path: Path) -> None:
    raw = t.Ptr(LOUD, True)
    second = t.Index(LOUD, S, b.deref(b.get(raw, 2)), (t.At(b.const(1)),))
    pointer = t.Cast(raw, S, t.AddrOf(t.Ref(PAIR, True), S, b.local(PAIR, 1), True))
    body = b.block(b.let(2, pointer), *b.show(b.read(b.field(second, 0, I32))))
    peek = b.function("peek", {1: PAIR}, VOID, body, {2: raw})
    assert events(tmp_path, b.do(t.Call(VOID, S, "peek", (pair(3),))), functions=(peek,)) == "4 3 4"

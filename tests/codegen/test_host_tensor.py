"""Tensors in host code: windows, elements, checks, copies. No region is involved."""

from __future__ import annotations

from pathlib import Path

import pytest
from codegen import handmade as b

from vx.sema import tree as t

S, I32, I64, F32, VOID = b.S, b.I32, b.I64, b.F32, b.VOID
GRID = t.Tensor("i32", (3, 4))
ROWS = t.Tensor("i32", (t.Dyn(None), 4))
LINE = t.Tensor("i32", (t.Dyn(None),))


def i64(value: int) -> t.Const:
    return b.const(value, I64)


def grid() -> t.TensorNew:
    """Element (i, j) is 10 i + j."""
    items = tuple(b.const(10 * i + j) for i in range(3) for j in range(4))
    return t.TensorNew(GRID, S, "items", None, (i64(3), i64(4)), items)


TYPES: dict[int, t.Type] = {1: GRID, 2: I64, 3: t.Ref(GRID, False), 4: ROWS, 5: I32, 6: LINE, 7: t.Ref(ROWS, True)}
G = b.local(GRID, 1)


def outcome(folder: Path, *stmts: t.StmtNode, strict: bool = False) -> tuple[str, str]:
    """What is printed, and what is said on stderr."""
    done = b.run(b.program(b.main(b.let(1, grid()), *stmts, locals_=TYPES)), folder, strict=strict)
    assert done.returncode == (101 if done.stderr else 0), done
    return done.stdout.strip(), done.stderr.strip()


def shown(folder: Path, *values: t.Value) -> str:
    out, err = outcome(folder, *b.show(*values))
    assert not err
    return out


def test_elements_rows_slices_and_transposes(tmp_path: Path) -> None:
    middle = b.index(G, (i64(1), i64(3)), (i64(1), i64(3)))
    turned = t.Transpose(t.Tensor("i32", (2, 2)), S, middle)
    column = b.index(t.Transpose(t.Tensor("i32", (4, 3)), S, G), i64(3))
    flat = t.Reshape(t.Tensor("i32", (12,)), S, G, (i64(12),))
    values = [
        b.read(b.index(G, i64(2), b.const(3))),
        b.read(b.index(b.index(G, i64(2)), i64(1))),
        b.read(b.index(turned, i64(0), i64(1))),
        b.read(b.index(column, i64(1))),
        b.read(b.index(flat, i64(7))),
        b.read(b.index(t.Bytes(t.Tensor("u8", (t.Dyn(None),)), S, b.index(G, i64(1))), i64(4))),
        t.Extent(I64, S, b.ref(middle), 1),
    ]
    assert shown(tmp_path, *values) == "23 21 21 13 13 11 2"


def test_views_print_and_copy(tmp_path: Path) -> None:
    part = b.index(G, (i64(0), i64(2)), (i64(2), i64(4)))
    copy = t.CopyTensor(t.Tensor("i32", (2, 2)), S, b.ref(part))
    assert shown(tmp_path, b.ref(part)) == "[[2,   3],\n [12,   13]]"
    assert shown(tmp_path, copy) == "[[2,   3],\n [12,   13]]"


def test_writes_through_views_reach_the_tensor(tmp_path: Path) -> None:
    row = b.index(b.deref(b.get(t.Ref(GRID, True), 3)), i64(1))
    stmts = [
        b.let(3, b.ref(G, True)),
        t.Assign(S, b.index(row, i64(2)), b.const(99)),
        t.OpAssign(S, b.index(G, i64(1), i64(2)), "+", b.const(1)),
        t.Assign(S, b.index(G, i64(0)), b.ref(b.index(G, i64(2)))),
        *b.show(b.read(b.index(G, i64(1), i64(2))), b.read(b.index(G, i64(0), i64(3)))),
    ]
    assert outcome(tmp_path, *stmts) == ("100 23", "")


def test_strided_assignment_and_landing(tmp_path: Path) -> None:
    left = b.index(G, (i64(0), i64(3)), (i64(0), i64(2)))
    right = b.index(G, (i64(0), i64(3)), (i64(2), i64(4)))
    stmts = [t.Land(S, left, b.ref(right), ("CPU_DRAM", "CPU_DRAM")), *b.show(b.ref(G))]
    assert outcome(tmp_path, *stmts)[0] == "[[2,   3,   2,   3],\n [12,   13,   12,   13],\n [22,   23,   22,   23]]"


def opaque(value: int) -> t.Value:
    """A number that the emitter does not know."""
    return t.IfExpr(I64, S, b.const(True, b.BOOL), b.block(value=i64(value)), b.block(value=i64(0)))


def test_an_index_past_its_row_is_in_the_tensor_unless_strict(tmp_path: Path) -> None:
    beyond = b.read(b.index(b.index(G, i64(0)), opaque(7)))
    at = t.Index(I32, b.at(12), G, (t.At(i64(0)), t.At(opaque(7))))
    assert outcome(tmp_path, *b.show(beyond)) == ("13", "")
    assert outcome(tmp_path, *b.show(b.read(at)), strict=True) == ("", "vx: test.vx:12: index 7 is outside 0..4")


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ((opaque(3), i64(0)), "index 12 is outside 0..12"),
        ((opaque(-1), i64(3)), "index -1 is outside 0..12"),
        ((i64(2), opaque(4)), "index 12 is outside 0..12"),
    ],
)
def test_an_element_outside_the_tensor_ends_the_program(
    tmp_path: Path, indices: tuple[t.Value, ...], message: str
) -> None:
    place = b.index(G, *indices, line=9)
    assert outcome(tmp_path, *b.show(b.read(place))) == ("", f"vx: test.vx:9: {message}")
    assert outcome(tmp_path, t.Assign(S, place, b.const(0)))[1].endswith(message)


def test_views_outside_the_tensor_end_the_program(tmp_path: Path) -> None:
    row = b.ref(b.index(G, opaque(3), line=5))
    assert outcome(tmp_path, *b.show(row))[1] == "vx: test.vx:5: index 3 is outside 0..3"
    past = b.ref(b.index(G, (i64(1), opaque(4)), line=6))
    assert outcome(tmp_path, *b.show(past))[1] == "vx: test.vx:6: index 4 is outside 0..4"
    reversed_ = b.ref(b.index(G, (opaque(2), opaque(1)), line=7))
    assert outcome(tmp_path, *b.show(reversed_))[1] == "vx: test.vx:7: index 2 is outside 0..2"
    window = b.ref(b.index(b.index(G, (i64(1), i64(3))), opaque(2), line=8))
    assert "outside" in outcome(tmp_path, *b.show(window))[1]


def test_shapes_are_compared_at_run_time(tmp_path: Path) -> None:
    dyn = b.local(ROWS, 4)
    make = t.TensorNew(ROWS, S, "zero", None, (opaque(2), i64(4)))
    copy = t.Assign(b.at(3), dyn, b.ref(b.index(G, (i64(0), i64(3)))))
    assert outcome(tmp_path, b.let(4, make), copy)[1] == "vx: the extents differ at test.vx:3"
    wrong = t.Reshape(LINE, b.at(4), G, (opaque(11),))
    assert outcome(tmp_path, *b.show(b.ref(wrong)))[1] == "vx: reshape to another number of elements at test.vx:4"
    gap = t.Reshape(LINE, b.at(4), b.index(G, (i64(0), i64(3)), (i64(0), i64(2))), (i64(6),))
    assert outcome(tmp_path, *b.show(b.ref(gap)))[1] == "vx: reshape of a view with gaps at test.vx:4"


@pytest.mark.parametrize("extent", [-1, 2**62])
def test_impossible_extents_end_the_program(tmp_path: Path, extent: int) -> None:
    make = t.TensorNew(LINE, b.at(2), "zero", None, (opaque(extent),))
    assert outcome(tmp_path, b.let(6, make))[1].startswith("vx: ")


def test_a_static_shape_fits_an_unknown_one_in_a_call(tmp_path: Path) -> None:
    arg = b.deref(b.get(t.Ref(ROWS, False), 1))
    body = b.block(
        value=b.binary("+", t.Extent(I64, S, b.ref(arg), 0), t.Cast(I64, S, b.read(b.index(arg, i64(1), i64(2)))))
    )
    take = b.function("take", {1: t.Ref(ROWS, False)}, I64, body)
    call = t.Call(I64, S, "take", (t.AddrOf(t.Ref(GRID, False), S, G, False),))
    done = b.run(b.program(take, b.main(b.let(1, grid()), *b.show(call), locals_=TYPES)), tmp_path)
    assert done.stdout == "15 "


def test_fill_and_ownership_through_calls(tmp_path: Path) -> None:
    vector = t.Tensor("bf16", (5,))
    make = b.function(
        "make", {}, vector, b.block(value=t.TensorNew(vector, S, "fill", b.const(1.5, t.Scalar("bf16")), (i64(5),)))
    )
    last = b.read(b.index(t.Temp(vector, S, t.Call(vector, S, "make", ())), i64(4)))
    assert b.run(b.program(make, b.main(*b.show(last))), tmp_path).stdout == "1.5 "


def test_memory_is_given_back(tmp_path: Path) -> None:
    """Ten gigabytes in all, in a process that may have half a one: moves, replacement, temporaries, returns."""
    big = t.Tensor("f32", (1 << 18,))
    make = b.function(
        "make", {}, big, b.block(b.let(1, t.TensorNew(big, S, "uninit", None, (i64(1 << 18),))), value=b.get(big, 1, True)), {1: big}
    )  # fmt: skip
    call = t.Call(big, S, "make", ())
    swallow = b.function("swallow", {1: big}, VOID, b.block())
    body = b.block(
        b.let(3, call),
        t.Assign(S, b.local(big, 2), call),
        b.do(call),
        t.Assign(S, b.local(big, 2), t.CopyTensor(big, S, b.ref(t.Temp(big, S, call)))),
        b.do(t.Call(VOID, S, "swallow", (b.get(big, 3, True),))),
    )
    main = b.main(b.let(2, call), t.For(S, 1, b.const(0), b.const(2000), body), locals_={1: I32, 2: big, 3: big})
    done = b.run(b.program(make, swallow, main), tmp_path, memory_mb=512)
    assert (done.returncode, done.stderr) == (0, "")

"""What host code hands to a region: hoisted operands, bindings, results.

The regions here are stand-ins: `lower` records the block that it is given, and an object written by hand
is linked as the region.
"""

from __future__ import annotations

from pathlib import Path

from codegen import handmade as b

from vx.codegen.compile import compile_llvm
from vx.codegen.target import native
from vx.kernels import ir
from vx.kernels.region import (
    Binding,
    ExtentBinding,
    LoweredRegion,
    OutBinding,
    ScalarBinding,
    StrideBinding,
    TensorBinding,
)
from vx.sema import tree as t

S, I32, I64, F32, VOID = b.S, b.I32, b.I64, b.F32, b.VOID
VEC = t.Tensor("f32", (4,))
LINE = t.Tensor("f32", (t.Dyn(None),))


class Recorder:
    """Stands in for `lower_region`: every region gets the bindings that `choose` makes of its statements."""

    def __init__(self, *bindings: tuple[Binding, ...]) -> None:
        self.blocks: list[t.Block] = []
        self.functions: list[t.Function] = []
        self.bindings = bindings

    def __call__(self, program: t.Program, function: t.Function, block: t.Block, name: str) -> LoweredRegion:
        self.blocks.append(block)
        self.functions.append(function)
        number = len(self.blocks) - 1
        region = ir.Region(f"region{number}", (), (), (), (), S)
        return LoweredRegion(region, self.bindings[number] if number < len(self.bindings) else ())


def vector(*values: float) -> t.TensorNew:
    return t.TensorNew(VEC, S, "items", None, (b.const(4, I64),), tuple(b.const(v, F32) for v in values))


def assigned(recorder: Recorder, number: int = 0) -> t.Assign:
    (stmt,) = recorder.blocks[number].stmts
    assert isinstance(stmt, t.Assign)
    return stmt


def test_a_new_tensor_is_made_and_assigned_in_a_region(tmp_path: Path) -> None:
    """`let c = a + b * s`, with the region written by hand."""
    a, c = b.local(VEC, 1), b.local(VEC, 2)
    total = b.binary("+", b.ref(a), b.binary("*", b.ref(a), b.const(2.0, F32), VEC), VEC)
    fresh = b.local(VEC, 4)
    recorder = Recorder((TensorBinding(fresh), TensorBinding(a), ScalarBinding(b.local(F32, 3))))
    main = b.main(
        b.let(1, vector(1, 2, 3, 4)), b.let(3, b.const(0.5, F32)), b.let(2, total), *b.show(b.ref(c)),
        locals_={1: VEC, 2: VEC, 3: F32},
    )  # fmt: skip
    text = """
    define void @region0(ptr %to, ptr %from, float %s) {
      %x = load <4 x float>, ptr %from, align 4
      %p = insertelement <4 x float> poison, float %s, i64 0
      %q = shufflevector <4 x float> %p, <4 x float> poison, <4 x i32> zeroinitializer
      %y = fmul <4 x float> %x, %q
      store <4 x float> %y, ptr %to, align 4
      ret void
    }"""
    done = b.run(b.program(main), tmp_path, lower=recorder, objects=(compile_llvm(text, native(), 1),))
    assert done.stdout.strip() == "[0.5,   1,   1.5,   2]"
    stmt = assigned(recorder)
    assert stmt.target == fresh and stmt.value == total


def test_everything_but_arithmetic_is_evaluated_first() -> None:
    """Calls, indices and temporaries become locals of the synthetic function; the arithmetic stays."""
    make = b.function("make", {1: I32}, VEC, b.block(value=vector(0, 0, 0, 0)))
    number = b.function("number", {}, I32, b.block(value=b.const(1)))
    grid = t.Tensor("f32", (3, 4))
    row = b.ref(b.index(b.local(grid, 1), t.Call(I32, S, "number", ())))
    scale = b.binary("+", b.get(F32, 2), b.const(1.0, F32))
    value = b.binary("*", b.binary("+", row, t.Call(VEC, S, "make", (b.const(1),)), VEC), scale, VEC)
    zeros = t.TensorNew(grid, S, "zero", None, (b.const(3, I64), b.const(4, I64)))
    recorder = Recorder()
    main = b.main(b.let(1, zeros), b.let(2, b.const(1.0, F32)), b.let(3, value), locals_={1: grid, 2: F32, 3: VEC})
    text = b.llvm(b.program(make, number, main), recorder)
    outer = assigned(recorder).value
    assert isinstance(outer, t.Binary) and isinstance(outer.left, t.Binary)
    sum_, factor = outer.left, outer.right
    assert isinstance(sum_.left, t.AddrOf) and isinstance(sum_.left.place, t.Index)
    (item,) = sum_.left.place.indices
    assert isinstance(item, t.At)
    hoisted = [item.index, sum_.right, factor]
    assert [type(h) for h in hoisted] == [t.Read] * 3
    names = recorder.functions[0].locals
    assert [names[h.place.id].type for h in hoisted if isinstance(h, t.Read) and isinstance(h.place, t.Local)] == [
        I32,
        t.Ref(VEC, False),
        F32,
    ]
    call = text.index("call void @region0")
    assert text.index('call i32 @"vx:number"') < text.index('call void @"vx:make"') < call
    assert "@vx_free" in text[call : text.index("store", call)], "the temporary goes when the region is done"


def test_extents_and_strides_of_a_window_are_passed(tmp_path: Path) -> None:
    grid = t.Tensor("f32", (3, 4))
    column = b.index(t.Transpose(t.Tensor("f32", (4, 3)), S, b.local(grid, 1)), b.get(I32, 2))
    out = b.local(I64, 3)
    bindings = (TensorBinding(column), ExtentBinding(column, 0), StrideBinding(column, 0), OutBinding(out))
    recorder = Recorder(bindings)
    spawn = b.do(t.Spawn(VOID, S, t.Place("CPU_DRAM", "CPU"), b.block(t.Assign(S, out, b.const(1, I64)))))
    items = tuple(b.const(float(n), F32) for n in range(12))
    main = b.main(
        b.let(1, t.TensorNew(grid, S, "items", None, (b.const(3, I64), b.const(4, I64)), items)),
        b.let(2, b.const(1)), b.let(3, b.const(100, I64)), spawn, *b.show(b.get(I64, 3)),
        locals_={1: grid, 2: I32, 3: I64},
    )  # fmt: skip
    text = """
    define void @region0(ptr %data, i64 %extent, i64 %stride, ptr %out) {
      %at = getelementptr float, ptr %data, i64 %stride
      %x = load float, ptr %at
      %n = fptosi float %x to i64
      %old = load i64, ptr %out
      %a = mul i64 %old, 10
      %b = add i64 %a, %extent
      %c = mul i64 %b, 10
      %d = add i64 %c, %n
      store i64 %d, ptr %out
      ret void
    }"""
    done = b.run(b.program(main), tmp_path, lower=recorder, objects=(compile_llvm(text, native(), 1),))
    assert done.stdout.strip() == str((100 * 10 + 3) * 10 + 5), done.stderr


def test_a_reduction_in_the_middle_of_an_expression_is_a_region_of_its_own() -> None:
    dot = t.Reduce(F32, S, "dot", (b.ref(b.local(VEC, 1)), b.ref(b.local(VEC, 1))))
    recorder = Recorder()
    main = b.main(b.let(1, vector(1, 2, 3, 4)), *b.show(b.binary("/", dot, b.const(2.0, F32))), locals_={1: VEC})
    b.llvm(b.program(main), recorder)
    assert assigned(recorder).value == dot
    assert assigned(recorder).target.type == F32


def test_the_value_of_a_spawn() -> None:
    place = t.Place("CPU_DRAM", "CPU")
    scalar = t.Spawn(F32, S, place, b.block(b.let(2, b.const(1.0, F32)), value=b.get(F32, 2)))
    tensor = t.Spawn(VEC, S, place, b.block(value=b.get(VEC, 1, True)))
    recorder = Recorder()
    main = b.main(
        b.let(1, vector(1, 2, 3, 4)), *b.show(scalar), b.let(3, tensor), locals_={1: VEC, 2: F32, 3: VEC}
    )  # fmt: skip
    text = b.llvm(b.program(main), recorder)
    assert [len(block.stmts) for block in recorder.blocks] == [2, 1]
    assert isinstance(recorder.blocks[0].stmts[1], t.Assign)
    assert text.count("call ptr @vx_alloc(i64 16)") == 2

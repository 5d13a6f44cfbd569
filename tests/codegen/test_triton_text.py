"""Generated Triton source, as text, for small kernels of each shape; and how much of them a program does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cpu_regions import add, at, binary, launched, lit, loop, mul, region, var
from triton_harness import printed

from vx.codegen import triton_table
from vx.codegen.triton import print_kernel
from vx.codegen.triton_order import loads_first
from vx.codegen.triton_tiles import Tiles, choose
from vx.kernels import ir
from vx.kernels.device_form import device_region

HEAD = "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n\n\n@triton.jit\n"


def source(*nests: ir.For, elems: str = "f32 f32 f32", scalars: tuple[ir.Var, ...] = ()) -> str:
    kernel, launch = launched(nests)
    (only,) = printed(region(elems.split(), [launch], scalars, kernels=[kernel]))[1]
    assert only.source.startswith(HEAD)
    return only.source.removeprefix(HEAD)


def test_elements_of_a_run_time_length() -> None:
    i, n = var(1), ir.Var(2, "i64", "n")
    nest = loop(i, n, ir.Store(1, at(i), binary("*", ir.Load(0, at(i, 3), "f32"), lit(2.0, "f32"))))
    assert source(nest, scalars=(n,)) == (
        "def r_d0(b0, b1, block):\n"
        "    pid = tl.program_id(0)\n"
        "    n = tl.load(block)\n"
        "    v1_tiles = tl.maximum((n + 511) // 512, 0)\n"
        "    if pid >= v1_tiles:\n"
        "        return\n"
        "    v1 = pid.to(tl.int64) * 512 + tl.arange(0, 512).to(tl.int64)\n"
        "    v1_in = v1 < n\n"
        "    b0_at = tl.load(b0 + v1 + 3, mask=v1_in, other=0)\n"
        "    tl.store(b1 + v1, b0_at * 2.0, mask=v1_in)\n"
    )


def test_a_product_of_a_matrix_and_a_vector() -> None:
    i, k = var(1), var(2)
    total = add(k, 2000, mul(ir.Load(0, at((2000, i), k), "f32"), ir.Load(1, at(k), "f32")))
    assert source(loop(i, 8, ir.Store(2, at(i), total))) == (
        "def r_d0(b0, b1, b2):\n"
        "    pid = tl.program_id(0)\n"
        "    v1 = pid.to(tl.int64) * 4 + tl.arange(0, 4).to(tl.int64)\n"
        "    acc = tl.full([4, 1024], 0.0, tl.float32)\n"
        "    for v20 in range(0, 2000, 1024):\n"
        "        v2 = v20 + tl.arange(0, 1024).to(tl.int64)\n"
        "        v2_in = (v2 < 2000)\n"
        "        b0_at = tl.load(b0 + (2000 * v1)[:, None] + v2[None, :], mask=v2_in[None, :], other=0)\n"
        "        b1_at = tl.load(b1 + v2, mask=v2_in, other=0)\n"
        "        term = b0_at * b1_at[None, :]\n"
        "        acc = acc + term\n"
        "    total = tl.sum(acc, axis=1)\n"
        "    tl.store(b2 + v1, total)\n"
    )


def test_a_matrix_product_uses_matrix_units() -> None:
    """Of 16-bit elements with f32 sums; of f32 without rounding the factors."""
    i, j, k = var(1), var(2), var(3)
    loads = [ir.Load(b, at((128, v), k), "f32") for b, v in ((0, i), (1, j))]
    wide = [ir.Cast(ir.Load(x.buffer, x.offset, "bf16"), "f32") for x in loads]
    for factors, elem, precision in ((wide, "bf16", ""), (loads, "f32", ', input_precision="ieee"')):
        store = ir.Store(2, at((64, i), j), add(k, 128, mul(*factors)))
        text = source(loop(i, 64, loop(j, 64, store)), elems=f"{elem} {elem} f32")
        assert f"acc = tl.dot(b0_at, tl.trans(b1_at), acc{precision})\n" in text


def dependent(*nests: ir.For, elems: str, written: set[int], scalars: tuple[ir.Var, ...] = ()) -> list[str]:
    """Lines of a kernel that may start before the one in front of it ends; only `written` buffers change."""
    kernel, launch = launched(nests)
    made = region(elems.split(), [launch], scalars, kernels=[kernel])
    buffers = tuple(replace(b, written=b.id in written) for b in made.buffers)
    launches = device_region(replace(made, buffers=buffers))
    return print_kernel(launches, launches.kernels[0], dependent=True).source.splitlines()


def in_order(lines: list[str], *words: str) -> bool:
    found = [next(i for i, line in enumerate(lines) if word in line) for word in words]
    return found == sorted(found)


def test_a_dependent_kernel_waits_before_it_stores_or_reads_what_may_change() -> None:
    """What nobody changes, the parameter block included, is loaded before."""
    i, k, n = var(1), var(2), var(3, "f32")
    total = add(k, 64, mul(ir.Load(0, at((64, i), k), "f32"), ir.Load(1, at(k), "f32")))
    nest = loop(i, 8, ir.Store(2, at(i), binary("*", total, n)))
    lines = dependent(nest, elems="f32 f32 f32", written={2}, scalars=(n,))
    assert "gdc_wait" in lines[3] and sum("gdc_wait()" in line for line in lines) == 1
    assert in_order(lines, "tl.load(b0", "tl.load(block)", "gdc_wait()", "gdc_launch_dependents()", "tl.store")


def test_a_matrix_is_on_its_way_while_a_vector_is_waited_for() -> None:
    """The first columns before the wait; those of the next round before the sums of this one. What is added in the end
    is loaded before the loop, and the loop does not wait again."""
    i, k = var(1), var(2)
    total = add(k, 3072, mul(ir.Load(0, at((3072, i), k), "f32"), ir.Load(1, at(k), "f32")))
    nest = loop(i, 8, ir.Store(2, at(i), binary("+", ir.Load(2, at(i), "f32"), total)))
    assert dependent(nest, elems="f32 f32 f32", written={1, 2})[7:] == [
        "def r_d0(b0, b1, b2):",
        "    pid = tl.program_id(0)",
        "    v1 = pid.to(tl.int64) * 4 + tl.arange(0, 4).to(tl.int64)",
        "    v2 = tl.arange(0, 1024).to(tl.int64)",
        '    b0_at = tl.load(b0 + (3072 * v1)[:, None] + v2[None, :], eviction_policy="evict_first")',
        "    gdc_wait()",
        "    gdc_launch_dependents()",
        "    b2_at = tl.load(b2 + v1)",
        "    acc = tl.full([4, 1024], 0.0, tl.float32)",
        "    for v20 in range(0, 3072, 1024):",
        "        v2_2 = v20 + tl.arange(0, 1024).to(tl.int64)",
        "        more = v20 + 1024 < 3072",
        "        v2_3 = v2_2 + 1024",
        "        b0_at_2 = tl.load(b0 + (3072 * v1)[:, None] + v2_3[None, :], mask=more, other=0,"
        ' eviction_policy="evict_first")',
        "        b1_at = tl.load(b1 + v2_2)",
        "        term = b0_at * b1_at[None, :]",
        "        acc = acc + term",
        "        b0_at = b0_at_2",
        "    total = tl.sum(acc, axis=1)",
        "    tl.store(b2 + v1, b2_at + total)",
    ]


def test_measured_tiles_take_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    """By rows, columns, width of an element and number of sums; other shapes keep the rule's."""
    i, k = var(1), var(2)

    def tiles_of(rows: int) -> Tiles:
        total = add(k, 512, mul(ir.Load(0, at((512, i), k), "f32"), ir.Load(1, at(k), "f32")))
        kernel, launch = launched([loop(i, rows, ir.Store(2, at(i), total))])
        made = device_region(region(["f32"] * 3, [launch], kernels=[kernel]))
        return choose(made.kernels[0].parts[0])

    monkeypatch.setattr(triton_table, "TUNED", {triton_table.Shape(64, 512, 32, 1): triton_table.Tile(8, 256, 2)})
    assert tiles_of(64) == Tiles((8,), 2, 256)
    assert tiles_of(32) == Tiles((4,), 4)


def test_loads_of_what_stays_come_first() -> None:
    """With what they need; never those of what changes, nor what depends on it, nor past control flow."""
    lines = ["a = tl.load(x + 1)", "m = tl.max(t, axis=0)", "i = n + 1", "b = tl.load(y + i)", "t = t + m"]
    assert loads_first(lines, {"x", "y"}, {"t"}) == [lines[0], lines[2], lines[3], lines[1], lines[4]]
    assert loads_first(lines, {"x"}, {"t"}) == lines
    assert loads_first(lines, {"x", "y"}, {"t", "n"}) == lines
    inner = [*lines[:2], "if c:", "    i = 0", *lines[2:]]
    assert loads_first(inner, {"x", "y"}, {"t"}) == inner


def test_warps_meet_before_others_read() -> None:
    """A store that another element's load may see needs all warps; neighbours at a fixed distance do not."""
    i, k = var(1), var(2)
    x = lambda o: ir.Load(0, o, "f32")  # noqa: E731
    rotated = (ir.Store(0, at((2, i)), x(at((2, i), 1))), ir.Store(0, at((2, i), 1), lit(1.0, "f32")))
    assert source(loop(i, 8, *rotated)).count("tl.debug_barrier()") == 1
    steps = loop(k, 3, ir.Store(0, at((3, i), k), x(at((3, i)))), parallel=False)
    assert "        tl.debug_barrier()\n" in source(loop(i, 8, steps))

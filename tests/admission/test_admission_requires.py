"""Extents bounded by `requires`: admitted at the exact limit, refused one byte below, and never bounded by mistake."""

from __future__ import annotations

from pathlib import Path

import pytest
from admission_cases import NotAccepted, errors, machine, plan_of

from vx.admission.plan import Verdict

PRELUDE = """
const K : i32 = 1000;
struct Size { n : i32 }
fn see<X>(t : &X) -> void { }
fn run() -> i64 { 7 }
"""
NEW = "let t = Tensor<u8, [n], Memory::HBM>::new(); see(&t);"


def function(params: str, requires: str, body: str, arguments: str = "7") -> str:
    return (
        f"{PRELUDE}\nfn f({params}) -> void {requires} {{ {body} }}\n"
        f"fn main() -> i32 {{ let h = Tensor<u8, [4000]>::new(); f({arguments}); 0 }}"
    )


def of_n(requires: str, body: str = NEW, type_: str = "i32") -> str:
    return function(f"n : {type_}", requires, body)


def of_view(requires: str, body: str) -> str:
    return function("h : &Tensor<u8, [?]>, n : i32, p : i32", requires, body, "&h, 7, 7")


BOUNDED = {
    "at_most": (of_n("requires n <= K"), 1000),
    "below": (of_n("requires n < K"), 999),
    "mirrored": (of_n("requires K >= n"), 1000),
    "mirrored_below": (of_n("requires K > n"), 999),
    "equal": (of_n("requires n == K"), 1000),
    "joined": (of_n("requires n > 2 && n <= K && n != 5"), 1000),
    "several": (of_n("requires n <= 2 * K requires n < 600 requires n <= K"), 599),
    "never_positive": (of_n("requires n <= 0"), 0),
    "wide": (of_n("requires n <= 1500", type_="i64"), 1500),
    "unsigned": (of_n("requires n < 200", type_="u8"), 199),
    "compared_wider": (of_n("requires (n as i64) < 1500"), 1499),
    "copy": (of_n("requires n <= K", "let m = n; let k : i32 = m; let t = Tensor<u8, [k], Memory::HBM>::new(); see(&t);"), 1000),
    "converted": (of_n("requires n <= K", "let m = n as i64 * 2; let t = Tensor<u8, [m], Memory::HBM>::new(); see(&t);"), 2000),
    "one_more": (of_n("requires n <= K", NEW.replace("[n]", "[n + 1]")), 1001),
    "one_less": (of_n("requires n <= K", NEW.replace("[n]", "[n - 1]").replace("n - 1", "(n as i64) - 1")), 999),
    "twice": (of_n("requires n >= 0 && n <= K", NEW.replace("[n]", "[2 * n]")), 2000),
    "rounded_up": (of_n("requires n <= K", NEW.replace("[n]", "[(n as i64 + 63) / 64 * 64]")), 1024),
    "least": (of_n("", NEW.replace("[n]", "[min(n, 300)]")), 300),
    "two_dimensions": (of_n("requires n <= 30", NEW.replace("[n]", "[n, 10, n]")), 9000),
    "of_several": (function("n : i32, p : i32", "requires n >= 0 && n <= 10 requires p <= 20", NEW.replace("[n]", "[n + p]"), "1, 2"), 30),
    "counted": (of_n("requires n <= K", f"for i in 0..n {{ {NEW.replace('[n]', '[i]')} }}"), 999),
    "uninit": (of_n("requires n <= K", NEW.replace("new()", "uninit()")), 1000),
    "fill": (of_n("requires n <= K", NEW.replace("new()", "fill(1)")), 1000),
    "shape_list": (of_n("requires n <= K", "let s = Tensor<f32>([n, 3]); let t = transfer(s, Memory::HBM); see(&t);"), 12000),
    "declared": (of_n("requires n <= K", "let t : Tensor<u8, [?], Memory::HBM> = Tensor<u8, [n], Memory::HBM>::new(); see(&t);"), 1000),
    "slice": (of_view("requires n <= K", "let t = transfer(h[0..n], Memory::HBM); see(&t);"), 1000),
    "slice_from": (of_view("requires n <= K", "let t = transfer(h[100..n], Memory::HBM); see(&t);"), 900),
    "slice_of_length": (of_view("requires n <= K", "let t = transfer(h[p..p + n], Memory::HBM); see(&t);"), 1000),
    "slice_after": (of_view("requires n <= K && p >= 0", "let t = transfer(h[p..n], Memory::HBM); see(&t);"), 1000),
    "view": (of_view("requires n <= K", "let v = &h[0..n]; let t = transfer(v, Memory::HBM); see(&t);"), 1000),
    "view_of_view": (of_view("requires n <= K", "let v = &h[0..n]; let t = transfer(v[p..], Memory::HBM); see(&t);"), 1000),
    "static_and_bound": (function("h : &Tensor<u8, [4000]>, n : i32", "requires n <= K", "let t = transfer(h[0..n], Memory::HBM); see(&t);", "&h, 7"), 1000),
    "returned": (f"{PRELUDE}\nfn g(n : i32) -> Tensor<u8, [?], Memory::HBM> requires n <= K {{ Tensor<u8, [n], Memory::HBM>::new() }}\nfn main() -> i32 {{ let t = g(3); see(&t); 0 }}", 1000),
    "generic": (f"{PRELUDE}\nfn g<const N : i32>(n : i32) -> void requires n < N && N > 1 {{ {NEW} }}\nfn main() -> i32 {{ g<500>(3); g<700>(3); 0 }}", 699),
    "method": (f"{PRELUDE}\nimpl Size {{ fn g(self : &Size, n : i32) -> void requires n <= K {{ {NEW} }} }}\nfn main() -> i32 {{ let s = Size {{ n: 3 }}; s.g(2); 0 }}", 1000),
    "recursive": (f"{PRELUDE}\nfn g(n : i32) -> i32 requires n <= K {{ {{ {NEW} }} if n > 1 {{ h(n - 1) }} else {{ 0 }} }}\nfn h(n : i32) -> i32 {{ n }}\nfn main() -> i32 {{ g(9) }}", 1000),
}  # fmt: skip

COPY = "let mut m = n; {} let t = Tensor<u8, [m], Memory::HBM>::new(); see(&t);"
UNBOUNDED = {
    "nothing": of_n(""),
    "only_below": of_n("requires n >= 5"),
    "unequal": of_n("requires n != 5"),
    "either": of_n("requires n <= 5 || n <= 6"),
    "negated": of_n("requires !(n > 5)"),
    "not_a_constant": function("n : i32, p : i32", "requires n <= p", NEW, "1, 2"),
    "another": function("n : i32, p : i32", "requires p <= 5", NEW, "1, 2"),
    "shadowed": of_n("requires n <= K", f"let n = run(); {NEW}"),
    "shadowed_by_a_loop": of_n("requires n <= K", f"for n in 0..run() {{ {NEW} }}"),
    "shadowed_by_a_pattern": of_n("requires n <= K", f"match run() {{ n => {{ {NEW} }} }}"),
    "mutable_copy": of_n("requires n <= K", COPY.format("m += 5;")),
    "changed_by_a_loop": of_n("requires n <= K", COPY.format("for i in 0..n { m = m + m; }")),
    "changed_through_a_reference": of_n("requires n <= K", COPY.format("{ let r = &mut m; *r = 100000; }")),
    "copy_of_a_mutable": of_n("requires n <= K", "let mut m = n; m += 1; let k = m; let t = Tensor<u8, [k], Memory::HBM>::new(); see(&t);"),
    "reference": function("n : &i32", "requires *n <= K", "let t = Tensor<u8, [*n], Memory::HBM>::new(); see(&t);", "&7"),
    "mutable_reference": function("n : &mut i32", "requires *n <= K", "*n = 5000; let t = Tensor<u8, [*n], Memory::HBM>::new(); see(&t);", "&mut 7"),
    "field": function("s : &mut Size", "requires s.n <= K", "s.n = 5000; let t = Tensor<u8, [s.n], Memory::HBM>::new(); see(&t);", "&mut Size { n: 3 }"),
    "owned_field": function("s : Size", "requires s.n <= K", "let mut q = s; q.n = 5000; let t = Tensor<u8, [q.n], Memory::HBM>::new(); see(&t);", "Size { n: 3 }"),
    "negatives_wrap": of_n("requires n <= K", NEW.replace("[n]", "[2 * n]")),
    "negative_factors": of_n("requires n <= K", NEW.replace("[n]", "[n * n]")),
    "sum_wraps": of_n("requires n <= 2147483647", NEW.replace("[n]", "[n + 1]")),
    "negatives_add_up": function("n : i32, p : i32", "requires n <= 10 requires p <= 20", NEW.replace("[n]", "[n + p]"), "1, 2"),
    "difference_wraps": of_n("requires n <= K", NEW.replace("[n]", "[K - n]")),
    "narrowed": of_n("requires n <= 1000", NEW.replace("[n]", "[n as u16]"), "i64"),
    "narrowed_condition": of_n("requires (n as i8) <= 100"),
    "wrapped_condition": of_n("requires n + 1 <= K"),
    "float_condition": of_n("requires (n as f32) <= 100.0"),
    "slice_to_a_mutable": of_view("requires n <= K", "let mut m = n; m += p; let t = transfer(h[0..m], Memory::HBM); see(&t);"),
    "slice_of_another_length": of_view("requires n <= K", "let t = transfer(h[p..n + p + p], Memory::HBM); see(&t);"),
    "caller": f"{PRELUDE}\nfn g(n : i32) -> void requires n <= K {{ }}\nfn f(n : i32) -> void {{ g(n); {NEW} }}\nfn main() -> i32 {{ f(3); 0 }}",
    "callee": f"{PRELUDE}\nfn g(n : i32) -> void {{ {NEW} }}\nfn f(n : i32) -> void requires n <= K {{ g(n); }}\nfn main() -> i32 {{ f(3); 0 }}",
    "block_in_the_condition": of_n("requires { let n = 3; n <= 5 }"),
}  # fmt: skip


@pytest.mark.parametrize("name", BOUNDED)
def test_exact_limit(name: str, tmp_path: Path) -> None:
    source, size = BOUNDED[name]
    plan, found = plan_of(tmp_path, source, machine(max(size, 1)))
    assert plan.verdict is Verdict.ADMITTED, found
    if size:
        assert [arena.bytes for arena in plan.arenas] == [size]
    if size > 1:
        plan, found = plan_of(tmp_path, source, machine(size - 1))
        assert plan.verdict is Verdict.REJECTED and errors(found) == ["E6009"]


@pytest.mark.parametrize("name", BOUNDED)
def test_unverified_without_the_condition(name: str, tmp_path: Path) -> None:
    """The bound comes from the condition and from nowhere else."""
    source, _ = BOUNDED[name]
    head, found, rest = source.partition("requires")
    if name in ("static_and_bound", "least") or not found:
        return
    body = rest[rest.index("{") :]
    plan, _ = plan_of(tmp_path, head + body, machine(1 << 40))
    assert plan.verdict is Verdict.UNVERIFIED


@pytest.mark.parametrize("name", UNBOUNDED)
def test_no_bound(name: str, tmp_path: Path) -> None:
    plan, _ = plan_of(tmp_path, UNBOUNDED[name], machine(1 << 40))
    assert plan.verdict is Verdict.UNVERIFIED


CHANGES = {
    "assigned": "n = 5000;",
    "added_to": "n += 5000;",
    "borrowed": "let r = &mut n; *r = 5000;",
    "copy_assigned": "let m = n; m = 5000;",
    "loop_variable": "for i in 0..n { i += 5000; }",
    "swapped": "let mut m = 5000; swap(&mut n, &mut m);",
    "to_c": "unsafe { set(&mut n); }",
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_has_a_bound_cannot_be_changed(name: str, tmp_path: Path) -> None:
    helpers = """
fn swap(a : &mut i32, b : &mut i32) -> void { let c = *a; *a = *b; *b = c; }
extern "C" { fn set(p : *mut i32) -> void; }
"""
    source = helpers + of_n("requires n <= K", f"{CHANGES[name]} {NEW}")
    with pytest.raises(NotAccepted, match="E40"):
        plan_of(tmp_path, source, machine(1 << 40))

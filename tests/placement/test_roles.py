"""Roles that a machine can have and roles that it cannot: which are compiled, and what entering another one does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
from placement_cases import checked, errors

import vx
from vx.diagnostics.span import Span
from vx.runtime.abi import EXIT_REFUSED
from vx.sema import tree

SPLIT = """
import std::env;
import std::string;
struct Args { n : i32 }
struct Cache<const D : i32> { k : Tensor<f32, [64], Topology::Device[D]> }
fn cache<const D : i32>() -> Cache<D> { Cache<D> { k: Tensor<f32, [64], Topology::Device[D]>::new() } }
fn work<const P : i32, const Q : i32>(a : &Args) -> i32 {
  let mut p = cache<P>();
  let mut q = cache<Q>();
  q.k = transfer(p.k, Topology::Device[Q]);
  after(a)
}
fn after(a : &Args) -> i32 { a.n }
fn only_second(_k : &Tensor<f32, [64], Topology::Device[1]>) -> i32 { 64 }
role fn single(a : &Args) -> i32 { work<0, 0>(a) }
role fn disagg(a : &Args) -> i32 {
  let k = transfer(cache<0>().k, Topology::Device[1]);
  only_second(&k) + work<0, 1>(a)
}
fn main() -> i32 {
  let a = Args { n: 7 };
  match arg(0) { "single" => { single(&a) } "disagg" => { disagg(&a) } _ => { 2 } }
}
"""
TWO = """
Memory HBM { managed: explicit, scope: device, capacity: 1 GiB }
Topology Device { memory: Memory::HBM, arch: host, instances: 2, peer: 450 GB/s,
  transfer Memory::CPU_DRAM -> Memory::HBM : 63 GB/s  transfer Memory::HBM -> Memory::CPU_DRAM : 63 GB/s }
"""
ONE = TWO.replace("instances: 2, peer: 450 GB/s,", "")


def accepted(path: Path, source: str, machine: str, roles: Sequence[str] | None = None) -> tree.Program:
    program, found, _ = checked(path, source, machine, roles)
    assert program is not None and not found, found
    assert_closed(program)
    return program


def assert_closed(program: tree.Program) -> None:
    """Nothing that is left needs anything that was left out."""
    pending: list[object] = [*program.functions.values(), *program.structs.values(), *program.enums.values()]
    while pending:
        here = pending.pop()
        match here:
            case tree.Call(key=key) | tree.FnAddr(key=key):
                assert key in program.functions, key
            case tree.StructDef(drop=drop):
                assert drop is None or drop in program.functions, drop
            case tree.Struct(key=key):
                assert key in program.structs, key
            case tree.Enum(key=key):
                assert key in program.enums, key
        if isinstance(here, tuple | list):
            pending.extend(here)
        elif isinstance(here, Mapping):
            pending.extend(here.values())
        elif is_dataclass(here) and not isinstance(here, Span):
            pending.extend(getattr(here, field.name) for field in fields(here))


def line_of(source: str, text: str) -> int:
    return next(number for number, line in enumerate(source.splitlines(), 1) if text in line)


def test_every_role_that_the_machine_can_have_is_compiled(tmp_path: Path) -> None:
    program = accepted(tmp_path, SPLIT, TWO)
    assert (program.roles, dict(program.refused)) == (("single", "disagg"), {})
    assert {"work<0, 0>", "work<0, 1>", "only_second"} <= program.functions.keys()


def test_a_role_that_needs_a_missing_device_is_not_applicable(tmp_path: Path) -> None:
    program = accepted(tmp_path, SPLIT, ONE)
    assert program.roles == ("single",)
    refusal = program.refused["disagg"]
    assert (refusal.role, refusal.lacking, refusal.why) == ("disagg", True, "needs Device[1]")
    assert refusal.message == "the role disagg is not applicable on this machine: needs Device[1]"


def test_what_only_refused_roles_reach_is_left_out(tmp_path: Path) -> None:
    program = accepted(tmp_path, SPLIT, ONE)
    assert "work<0, 1>" not in program.functions and "only_second" not in program.functions
    assert {"main", "single", "disagg", "work<0, 0>", "after", "cache<0>"} <= program.functions.keys()
    assert "Cache<1>" not in program.structs and "Cache<0>" in program.structs


def test_a_role_that_was_not_asked_for(tmp_path: Path) -> None:
    program = accepted(tmp_path, SPLIT, TWO, ["single"])
    assert program.roles == ("single",)
    refusal = program.refused["disagg"]
    assert (refusal.lacking, refusal.message) == (
        False,
        "the role disagg was not asked for in this build (--roles)",
    )
    assert "work<0, 1>" not in program.functions and "work<0, 0>" in program.functions


def test_a_role_that_is_asked_for_must_be_applicable(tmp_path: Path) -> None:
    found = errors(tmp_path, SPLIT, ONE, ["disagg"])
    assert {code for _, code in found} == {"E6032"}
    assert (line_of(SPLIT, "let k = transfer"), "E6032") in found
    assert accepted(tmp_path, SPLIT, ONE, ["single"]).refused["disagg"].lacking


def test_a_name_that_is_no_role(tmp_path: Path) -> None:
    program, found, _ = checked(tmp_path, SPLIT, TWO, ["single", "disag"])
    assert program is None and [item.code for item in found] == ["E0212"]
    assert found[0].message == "the program has no role `disag`" and "disagg" in found[0].helps[0].text


def test_a_program_without_roles_has_the_role_main(tmp_path: Path) -> None:
    plain = "fn main() -> i32 { 0 }"
    assert accepted(tmp_path, plain, ONE, ["main"]).refused == {}
    assert errors(tmp_path, plain, ONE, ["decode"]) == [(1, "E0212")]


def test_all_roles_not_applicable_is_an_error(tmp_path: Path) -> None:
    source = SPLIT.replace("work<0, 0>(a)", "work<0, 1>(a)")
    assert {code for _, code in errors(tmp_path, source, ONE)} == {"E6032"}


def test_a_missing_device_in_main_is_an_error(tmp_path: Path) -> None:
    source = SPLIT.replace("let a = Args { n: 7 };", "let a = Args { n: 7 };\n  spawn on(Topology::Device[3]) { }")
    assert errors(tmp_path, source, ONE) == [(line_of(source, "Device[3]"), "E6032")]


def test_a_missing_device_in_what_main_and_a_role_share_is_an_error(tmp_path: Path) -> None:
    source = SPLIT.replace("match arg(0)", "let n = shared();\n  match arg(n)")
    source += "fn shared() -> i32 { spawn on(Topology::Device[1]) { }  0 }\n"
    assert errors(tmp_path, source, ONE) == [(line_of(source, "fn shared"), "E6032")]


def test_a_missing_device_in_a_program_without_roles_is_an_error(tmp_path: Path) -> None:
    source = "fn unused() -> void { spawn on(Topology::Device[1]) { } }\nfn main() -> i32 { 0 }"
    assert errors(tmp_path, source, ONE) == [(1, "E6032")]


def test_a_missing_device_that_no_role_reaches_is_an_error(tmp_path: Path) -> None:
    source = (
        "fn unused() -> void { spawn on(Topology::Device[1]) { } }\nrole fn r() -> i32 { 0 }\nfn main() -> i32 { r() }"
    )
    assert errors(tmp_path, source, ONE) == [(1, "E6032")]


def test_other_mistakes_in_a_role_that_is_not_applicable_are_reported(tmp_path: Path) -> None:
    source = SPLIT.replace("only_second(&k) + work", "let wrong : i32 = 1.5;\n  only_second(&k) + work")
    assert errors(tmp_path, source, ONE) == [(line_of(source, "let wrong"), "E3001")]


def test_several_missing_devices_are_listed_once_each(tmp_path: Path) -> None:
    source = "fn at<const D : i32>() -> void { spawn on(Topology::Device[D]) { } }\n"
    source += "role fn one() -> i32 { 0 }\nrole fn many() -> i32 { at<0>();  at<2>();  at<3>();  at<2>();  0 }\n"
    source += "fn main() -> i32 { if true { one() } else { many() } }"
    assert accepted(tmp_path, source, TWO).refused["many"].why == "needs Device[2], Device[3]"


def test_a_type_that_lacks_a_device_refuses_every_role_that_uses_it(tmp_path: Path) -> None:
    """The second use of a type that was given up says nothing more, and must not be taken for complete."""
    source = "struct C { k : Tensor<f32, [4], Topology::Device[1]> }\nfn make() -> i32 { let _c : C = C { k: Tensor<f32, [4], Topology::Device[1]>::new() };  0 }\n"
    source += "fn again(_c : &C) -> i32 { 1 }\nrole fn a() -> i32 { make() }\nrole fn b() -> i32 { let c : C = lost();  again(&c) }\n"
    source += "fn lost() -> C { C { k: Tensor<f32, [4], Topology::Device[1]>::new() } }\nrole fn c() -> i32 { 3 }\n"
    source += "fn main() -> i32 { if true { a() } else if false { b() } else { c() } }"
    program = accepted(tmp_path, source, ONE)
    assert program.roles == ("c",) and program.refused.keys() == {"a", "b"}
    assert accepted(tmp_path, source, TWO).roles == ("a", "b", "c")


def test_a_constant_that_lacks_a_device_refuses_every_role_that_uses_it(tmp_path: Path) -> None:
    source = (
        "fn width() -> i32 { let t = Tensor<f32, [4], Topology::Device[1]>::new();  4 }\nconst W : i32 = width();\n"
    )
    source += "role fn a() -> i32 { W }\nrole fn b() -> i32 { W + 1 }\nrole fn c() -> i32 { 3 }\n"
    source += "fn main() -> i32 { if true { a() } else if false { b() } else { c() } }"
    program = accepted(tmp_path, source, ONE)
    assert program.roles == ("c",) and program.refused.keys() == {"a", "b"}


def test_a_destructor_goes_with_its_struct(tmp_path: Path) -> None:
    """The first user of a struct asks for its destructor; another role that drops one needs it as well."""
    source = 'struct S { n : i32 }\nimpl S { fn drop(self : &mut S) -> void { println!("{}", self.n); } }\n'
    source += "fn make() -> S { S { n: 1 } }\nrole fn far() -> i32 { let _s = make();  spawn on(Topology::Device[1]) { }  0 }\n"
    source += "role fn near() -> i32 { let _s = make();  0 }\nfn main() -> i32 { if true { far() } else { near() } }"
    program = accepted(tmp_path, source, ONE)
    drop = program.structs["S"].drop
    assert drop is not None and drop in program.functions and program.roles == ("near",)


def test_a_machine_without_instances_is_told_apart_from_the_program(tmp_path: Path) -> None:
    """Nothing of a refused role is warned about: variables used only where the device is missing."""
    source = "role fn far(n : i32) -> i32 { let x = n + 1;  let d = Tensor<f32, [4], Topology::Device[1]>::new();  use_it(&d, x) }\n"
    source += (
        "fn use_it(d : &Tensor<f32, [4], Topology::Device[1]>, x : i32) -> i32 { x }\nrole fn near() -> i32 { 0 }\n"
    )
    source += "fn main() -> i32 { if true { far(1) } else { near() } }"
    accepted(tmp_path, source, ONE)


LIBRARY = """
import std::vec;
struct S { n : i32 }
impl S {
  fn new(n : i32) -> S { S { n: n } }
  fn drop(self : &mut S) -> void { println!("{}", self.n); }
}
struct Pair<T> { a : T, b : i32 }
enum Maybe<T> { Some(T), None }
fn pair<T>(a : T) -> Pair<T> { Pair<T> { a: a, b: 1 } }
fn many<T>() -> Vec<T> { Vec<T>::new() }
role fn far() -> i32 {
  let mut v = many<S>();  v.push(S::new(1));
  let _p = pair(S::new(2));  let _m = Maybe<S>::Some(S::new(3));
  spawn on(Topology::Device[1]) { }
  v.len() as i32
}
role fn near() -> i32 { NEAR }
fn main() -> i32 { if 1 < 2 { far() } else { near() } }
"""
NEAR = {
    "nothing": "0",
    "a_vector_that_stays_empty": "let _v = many<S>();  0",
    "a_pair": "let _p = pair(S::new(2));  0",
    "an_enum": "let _m = Maybe<S>::None;  0",
    "an_option_of_a_pair": "let _m : Option<Pair<S>> = None;  0",
    "a_pair_of_vectors": "let _p = pair(many<S>());  0",
}


@pytest.mark.parametrize("name", NEAR)
def test_what_is_left_out_is_not_needed(name: str, tmp_path: Path) -> None:
    """Destructors are asked for by the first user of a type, which may be a role that is not compiled."""
    source = LIBRARY.replace("NEAR", NEAR[name]).replace("v.len() as i32", "0")
    program = accepted(tmp_path, source, ONE)
    assert program.roles == ("near",)
    assert accepted(tmp_path, source, TWO, ["near"]).functions.keys() == program.functions.keys()
    assert ("S::drop" in program.functions) == (name != "nothing")


# ---- at run time -------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def one_device(tmp_path_factory: pytest.TempPathFactory) -> vx.Program:
    folder = tmp_path_factory.mktemp("roles")
    (folder / "split.vx").write_text(SPLIT, encoding="utf-8")
    (folder / "one.vx").write_text(ONE, encoding="utf-8")
    return vx.compile(folder / "split.vx", machine=str(folder / "one.vx"), host="default")


def test_a_compiled_role_runs(one_device: vx.Program) -> None:
    assert one_device.run(["single"]).status == 7


def test_entering_a_refused_role_ends_the_process(one_device: vx.Program) -> None:
    result = one_device.run(["disagg"])
    assert (result.status, result.stdout) == (EXIT_REFUSED, "")
    assert result.stderr == "vx: the role disagg is not applicable on this machine: needs Device[1]\n"


def test_a_role_that_was_not_asked_for_says_so(tmp_path: Path) -> None:
    (tmp_path / "split.vx").write_text(SPLIT, encoding="utf-8")
    (tmp_path / "two.vx").write_text(TWO, encoding="utf-8")
    program = vx.compile(tmp_path / "split.vx", machine=str(tmp_path / "two.vx"), host="default", roles=["single"])
    assert program.run(["single"]).status == 7
    result = program.run(["disagg"])
    assert result.stderr == "vx: the role disagg was not asked for in this build (--roles)\n"
    assert result.status == EXIT_REFUSED


def test_the_output_before_a_refusal_is_not_lost(tmp_path: Path) -> None:
    source = (
        "role fn far(x : Vec<i32>) -> Vec<i32> { spawn on(Topology::Device[7]) { }  x }\nrole fn near() -> i32 { 0 }\n"
    )
    source += 'fn main() -> i32 { println!("before");  let v = Vec<i32>::new();  if 1 < 2 { let w = far(v);  0 } else { near() } }'
    (tmp_path / "far.vx").write_text("import std::vec;\n" + source, encoding="utf-8")
    result = vx.compile(tmp_path / "far.vx").run([])
    assert (result.status, result.stdout) == (EXIT_REFUSED, "before\n")
    assert result.stderr == "vx: the role far is not applicable on this machine: needs Device[7]\n"


# ---- only main, and one ------------------------------------------------------------------------
ONLY_MAIN = {
    "from_a_function": "fn f() -> i32 {\n r()  //!\n}",
    "from_a_method": "struct S { n : i32 }\nimpl S { fn f(self : &S) -> i32 {\n r()  //!\n} }",
    "from_a_role": "role fn q() -> i32 {\n r()  //!\n}",
    "from_itself": "role fn q() -> i32 {\n q()  //!\n}",
    "from_a_constant": "const N : i32 = r();  //!",
    "main_again": "fn f() -> i32 {\n main()  //!\n}",
}


@pytest.mark.parametrize("name", ONLY_MAIN)
def test_only_main_calls_roles(name: str, tmp_path: Path) -> None:
    source = f"role fn r() -> i32 {{ 1 }}\n{ONLY_MAIN[name]}\nfn main() -> i32 {{ r() }}"
    assert errors(tmp_path, source, TWO) == [(line_of(source, "//!"), "E0215")]


def test_only_main_of_the_program_calls_roles(tmp_path: Path) -> None:
    (tmp_path / "other.vx").write_text("role fn q() -> i32 { 1 }\nfn main() -> i32 { q() }\n", encoding="utf-8")
    program, found, _ = checked(tmp_path, "import other;\nfn main() -> i32 { 0 }", TWO)
    assert program is None and [item.code for item in found] == ["E0215"]


def test_a_role_is_no_function_pointer(tmp_path: Path) -> None:
    source = 'role fn r() -> i32 { 1 }\nextern "C" { fn atexit(f : *const u8) -> i32; }\n'
    source += "fn main() -> i32 { unsafe {\n atexit(r as *const u8)  //!\n } }"
    found = errors(tmp_path, source, TWO)
    assert (line_of(source, "//!"), "E0215") in found


ONE_ROLE = {
    "in_sequence": "let x = a();\n x + b()  //!\n",
    "in_one_expression": "a() +\n b()  //!\n",
    "the_same_again": "a();\n a()  //!\n",
    "in_a_loop": "for i in 0..2 {\n a();  //!\n }\n 0",
    "in_a_while": "let mut n = 0;  while n < 2 {\n n += a();  //!\n }\n 0",
    "in_a_condition_of_a_loop": "while\n a() < 2  //!\n { }\n 0",
    "after_an_if": "if c { a(); }\n b()  //!\n",
    "after_a_continue": "loop { if c { return 0; }  if 1 > 2 { continue; }\n b();  //!\n continue; }",
    "by_a_short_circuit": "if a() == 0 && c { }\n b()  //!\n",
    "as_an_argument": "max_of(a(),\n b())  //!\n",
    "arms": "if c { a() } else { b() }",
    "match_arms": "match 3 { 1 => { a() } 2 => { b() } _ => { 0 } }",
    "after_a_return": "if c { return a(); }\n b()",
    "then_leaving_a_loop": "loop { if c { a();  break; } }\n 0",
}


@pytest.mark.parametrize("name", ONE_ROLE)
def test_one_role_for_a_process(name: str, tmp_path: Path) -> None:
    source = "role fn a() -> i32 { 1 }\nrole fn b() -> i32 { 2 }\nfn max_of(x : i32, y : i32) -> i32 { x + y }\n"
    source += f"fn yes() -> bool {{ true }}\nfn main() -> i32 {{\n let c = yes();\n{ONE_ROLE[name]}}}"
    program, found, sources = checked(tmp_path, source, TWO)
    got = [(sources.line_col(item.span)[0], item.code) for item in found if item.code.startswith("E")]
    assert got == ([(line_of(source, "//!"), "E0218")] if "//!" in source else [])
    assert (program is None) == bool(got)

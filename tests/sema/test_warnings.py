"""Warnings: what is odd but allowed, in the program's own files only."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import checked, expect, whole

CASES = {
    "unused_variable": "let a = 1;  //! W1001\n let _b = 2;",
    "unused_parameter": "fn f(a : i32,  //! W1009\n b : i32, _c : i32) -> i32 { b }\nfn main() -> i32 { f(1, 2, 3) }",
    "self_is_no_parameter": "struct S { a : i32 }\nimpl S { fn f(self : &S) -> i32 { 1 } }\nfn main() -> i32 { let s = S { a: 1 };  s.f() }",
    "unused_loop_variable": "for i in 0..3 { print(1); }  //! W1001",
    "assigned_counts_as_used": "let mut a = 1;  a = 2;",
    "used_in_pruned_branch": "fn f<const N : i32>(a : i32) -> i32 { if comptime N > 2 { a } else { 0 } }\nfn main() -> i32 { f<1>(1) }",
    "unreachable": "fn f() -> i32 {\n return 1;\n print(2);  //! W1003\n}\nfn main() -> i32 { f() }",
    "unreachable_after_loop": "fn f() -> i32 { loop { print(1); }\n 3 }  //! W1003\nfn main() -> i32 { f() }",
    "reachable_after_break": "fn f() -> i32 { loop { if true { break; } }\n 3 }\nfn main() -> i32 { f() }",
    "unreachable_arm": "enum C { A, B }\nfn f(c : C) -> i32 { match c {\n _ => 1,\n C::A => 2 } }  //! W1003\nfn main() -> i32 { f(C::B) }",
    "redundant_cast": "let a : i32 = 1;  let b = a as i32;  //! W1013\n print(b);",
    "narrowing_cast": "let a : i64 = 1;  let b = a as i32;  //! W1014\n print(b);",
    "widening_cast": "let a : i32 = 1;  let b = a as i64;  //! W1007\n print(b);",
    "converting_cast": "let a : i32 = 1;  let b = a as f32;  print(b);",
    "literal_cast": "let b = 1 as i64;  print(b);",
    "generic_cast": "fn f<T>(a : T) -> i64 { a as i64 }\nfn main() -> i32 { f(1); 0 }",
    "alias_cast": "type Id = i32;\nfn main() -> i32 { let a : i32 = 1;  a as Id }",
    "unreachable_in_every_instance": "fn f<const N : i32>() -> i32 {\n return N;\n print(N);  //! W1003\n}\nfn main() -> i32 { f<1>() + f<2>() }",
    "unreachable_in_one_instance": "fn f<const N : i32>() -> i32 { if comptime N == 1 { return 1; }\n print(N);\n 2 }\nfn main() -> i32 { f<1>() + f<2>() }",
    "same_space": "let x = Tensor<f32, [4]>::new();  let y = transfer(x, Memory::CPU_DRAM);  //! W1022\n print(y);",
    "spawn_on_current": "spawn on(Topology::Current) { }  //! W1023",
}


@pytest.mark.parametrize("name", CASES)
def test_warnings(name: str, tmp_path: Path) -> None:
    expect(tmp_path, CASES[name], warnings=True)


def test_the_library_gets_no_warnings(tmp_path: Path) -> None:
    source = 'import std::io;\nimport std::string;\nimport std::net;\nimport std::fs;\nfn main() -> i32 { let mut s = String::from("x");  s.push_i64(3);  s.print();  0 }'
    program, found, _ = checked(tmp_path, whole(source))
    assert program is not None and not found


def test_no_unused_warnings_beside_errors(tmp_path: Path) -> None:
    _, found, _ = checked(tmp_path, whole("let a = 1;  let b = c;"))
    assert [d.code for d in found] == ["E0201"]


ONE_DEVICE = """Memory HBM { managed: explicit, scope: device }
Topology Device { memory: Memory::HBM, visible: [Memory::HBM], arch: nvptx64, instances: 1,
  transfer Memory::CPU_DRAM -> Memory::HBM : 63 GB/s }
"""
ROLES = """
fn odd<const D : i32>(n : i32) -> i32 { if comptime D == 1 { return 1; }
 n }
fn idle() -> i32 { let a = 1;  return 2;
 3 }
fn busy() -> i32 { let b = 1;  //! W1001
 return 2;
 3 }  //! W1003
role fn both() -> void { let t = Tensor<f32, [4], Topology::Device[1]>::new();  print(idle() + odd<1>(2)); }
role fn one() -> void { let t = Tensor<f32, [4], Topology::Device[0]>::new();  //! W1001
 print(busy() + odd<0>(2)); }
fn main() -> i32 { match 1 { 1 => { one(); } _ => { both(); } }
 0 }
"""


def test_no_warnings_about_what_only_a_refused_role_reaches(tmp_path: Path) -> None:
    expect(tmp_path, ROLES, machine=ONE_DEVICE, warnings=True)
    _, found, _ = checked(tmp_path, ROLES, machine=ONE_DEVICE.replace("instances: 1", "instances: 2, peer: 450 GB/s"))
    assert sorted(d.code for d in found) == ["W1001"] * 4 + ["W1003"] * 2

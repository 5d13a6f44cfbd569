"""`sizeof` says what the code generator lays out."""

from __future__ import annotations

from pathlib import Path

from cases import accepted

from vx.codegen.layout import Layouts
from vx.sema import tree

SOURCE = """
struct Small { a : u8, b : i64, c : bool }
struct Holder { t : Tensor<f16, [2, 3]>, s : Small, p : *const i8 }
struct Wide { a : i128, b : u8 }
enum Plain { A, B, C }
enum Mixed { None0, Byte(u8), Long(i64, u8), Held(Holder) }
enum Short { A(u8, u16), B(i8) }
enum Broad { A(i128), B }
struct Empty { }
fn sizes() -> void {
  print(sizeof<Small>());  print(sizeof<Holder>());  print(sizeof<Wide>());  print(sizeof<Plain>());
  print(sizeof<Mixed>());  print(sizeof<Short>());   print(sizeof<Broad>());  print(sizeof<Empty>());
  print(sizeof<Option<Small>>());  print(sizeof<&Small>());  print(sizeof<&Tensor<f32, [?, ?]>>());
  print(sizeof<bool>());  print(sizeof<bf16>());  print(sizeof<*mut f32>());  print(sizeof<Option<Tensor<u8, [4]>>>());
}
fn main() -> i32 { sizes();  0 }
"""

TYPES: tuple[tree.Type, ...] = (
    tree.Struct("Small"), tree.Struct("Holder"), tree.Struct("Wide"), tree.Enum("Plain"), tree.Enum("Mixed"),
    tree.Enum("Short"), tree.Enum("Broad"), tree.Struct("Empty"), tree.Enum("Option<Small>"),
    tree.Ref(tree.Struct("Small"), False), tree.Ref(tree.Tensor("f32", (tree.Dyn(), tree.Dyn())), False), tree.BOOL,
    tree.Scalar("bf16"), tree.Ptr(tree.F32, True), tree.Enum("Option<Tensor<u8, [4]>>"),
)  # fmt: skip


def test_sizeof_agrees_with_the_code_generator(tmp_path: Path) -> None:
    program = accepted(tmp_path, SOURCE)
    said = []
    for stmt in program.functions["sizes"].body.stmts:
        assert isinstance(stmt, tree.ExprStmt) and isinstance(stmt.value, tree.Print)
        assert isinstance(stmt.value.value, tree.Const)
        said.append(stmt.value.value.value)
    layouts = Layouts(program.structs, program.enums)
    assert said == [layouts.size(type_).bytes for type_ in TYPES]

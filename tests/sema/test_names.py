"""Names: scopes, modules, declarations, suggestions."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import FILE, accepted, checked, dumped, expect, whole

MAIN = "fn main() -> i32 {"

CASES = {
    "unknown_variable": "let a = b;  //! E0201",
    "unknown_once": "let a = b;  //! E0201\n let c = a + 1;  let d = c * a;",
    "unknown_function": "foo(1);  //! E0201",
    "unknown_type": "let a : Foo = 1;  //! E0202",
    "value_as_type": "const N : i32 = 3;\nfn f(a : N) -> void { }  //! E0202\nfn main() -> i32 { 0 }",
    "unknown_field": "struct S { a : i32 }\nfn main() -> i32 { let s = S { a: 1 };\n s.b  //! E0203\n}",
    "field_of_number": "let a = 3;\n let b = a.x;  //! E0203",
    "unknown_method": "struct S { a : i32 }\nfn main() -> i32 { let s = S { a: 1 };\n s.go()  //! E0204\n}",
    "not_a_method": "struct S { a : i32 }\nimpl S { fn make() -> i32 { 1 } }\n"
    "fn main() -> i32 { let s = S { a: 1 };\n s.make()  //! E0204\n}",
    "unknown_variant": "enum C { Red, Green }\nfn main() -> i32 {\n let c = C::Rod;  //! E0205\n 0 }",
    "unknown_associated": "struct S { a : i32 }\nfn main() -> i32 {\n S::new();  //! E0205\n 0 }",
    "declared_twice": "fn f() -> void { }\nstruct f { a : i32 }  //! E0206\nfn main() -> i32 { 0 }",
    "field_twice": "struct S { a : i32,\n a : f32 }  //! E0206\nfn main() -> i32 { 0 }",
    "parameter_twice": "fn f(a : i32,\n a : f32) -> void { }  //! E0206\nfn main() -> i32 { 0 }",
    "method_twice": "struct S { a : i32 }\nimpl S { fn f() -> void { }\n fn f() -> void { } }  //! E0206\nfn main() -> i32 { 0 }",
    "no_module": "let a = math::sin(1.0);  //! E0208",
    "no_such_import": "import nothing;  //! E0208\nfn main() -> i32 { 0 }",
    "no_main": "fn f() -> i32 { 0 }\n// E0210 is reported for the file\nfn main_() -> i32 { 0 }",
    "main_void": "fn main() -> void { }  //! E0210",
    "main_arguments": "fn main(a : i32) -> i32 { a }  //! E0210",
    "shadowing": "let a = 1;  let a = 2.0;  let b : f32 = a;",
    "inner_scope": "if true { let a = 1; }\n let b = a;  //! E0201",
    "loop_variable_scope": "for i in 0..3 { }\n let b = i;  //! E0201",
    "struct_is_no_value": "struct S { a : i32 }\nfn main() -> i32 {\n let s = S;  //! E0201\n 0 }",
    "call_a_variable": "let a = 1;\n a(2);  //! E3015",
    "call_a_constant": "const N : i32 = 1;\nfn main() -> i32 {\n N(2)  //! E3015\n}",
    "function_is_no_number": "fn f() -> i32 { 1 }\nfn main() -> i32 {\n let a : i32 = f;  //! E3001\n 0 }",
    "builtin_is_no_value": "let a = print;  //! E3015",
    "role_from_role": "role fn a() -> i32 { 1 }\nrole fn b() -> i32 {\n a() }  //! E0215\nfn main() -> i32 { a() + b() }",
    "impl_of_number": "impl i32 { fn f() -> void { } }  //! E0202\nfn main() -> i32 { 0 }",
    "bad_destructor": "struct S { a : i32 }\nimpl S {\n fn drop(self : &S) -> void { } }  //! E0216\n"
    "fn main() -> i32 { let s = S { a: 1 }; s.a }",
    "scalar_limits": "let a : i32 = i32::MAX;  let b : f32 = f32::INFINITY;\n let c = i32::EPSILON;  //! E0205",
    "several_errors": "let a : i32 = 1.5;  //! E3001\n let b : i64 = a;  //! E3001\n if 1 { }  //! E3006\n foo();  //! E0201",
    "errors_in_blocks": "for i in 0..3 {\n let a : i32 = 1.5;  //! E3001\n if i > 1 {\n x = 3;  //! E0201\n } }",
}


@pytest.mark.parametrize("name", [n for n in CASES if n != "no_main"])
def test_names(name: str, tmp_path: Path) -> None:
    expect(tmp_path, CASES[name])


def messages(path: Path, source: str, **options: object) -> list[str]:
    _, found, _ = checked(path, whole(source), **options)  # type: ignore[arg-type]
    return [
        " ".join([d.code, d.message, *d.notes, *(h.text for h in d.helps), *(x.text for x in d.labels)]) for d in found
    ]


def test_a_program_needs_main(tmp_path: Path) -> None:
    _, found, _ = checked(tmp_path, "fn f() -> i32 { 0 }")
    assert [d.code for d in found] == ["E0210"]


@pytest.mark.parametrize(
    ("source", "suggestion"),
    [
        ("let length = 3;  let a = lenght;", "did you mean `length`?"),
        ("struct S { width : i32 }\nfn main() -> i32 { let s = S { width: 1 }; s.widht }", "did you mean `width`?"),
        ("let a = (2.0).sqr();", "did you mean `sqrt`?"),
        ("enum C { Red, Green }\nfn main() -> i32 { let c = C::Gren; 0 }", "did you mean `Green`?"),
        ("import std::mathe;\nfn main() -> i32 { 0 }", "did you mean `std::math`?"),
        ("import math;\nfn main() -> i32 { 0 }", "did you mean `std::math`?"),
        ("fn count() -> i32 { 1 }\nfn main() -> i32 { coutn() }", "did you mean `count`?"),
        ("struct Point { x : i32 }\nfn f(p : Piont) -> void { }\nfn main() -> i32 { 0 }", "did you mean `Point`?"),
        ("let t = Tensor<f32, [2]>::new();  let u = t.extend(0);", "did you mean `extent`?"),
    ],
)
def test_suggestions(source: str, suggestion: str, tmp_path: Path) -> None:
    assert any(suggestion in text for text in messages(tmp_path, source)), messages(tmp_path, source)


def test_modules_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "shapes.vx").write_text("const SIDES : i32 = 4;\nfn area(a : i32) -> i32 { a * SIDES }\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "er.vx").write_text("fn three() -> i32 { 3 }\n")
    source = "import shapes;\nimport deep::er;\nfn main() -> i32 { area(1) + shapes::area(2) + SIDES + er::three() }"
    text = dumped(tmp_path, source)
    assert "(((area(1i32) + area(2i32)) + 4i32) + three())" in text


def test_a_name_from_two_imports_is_ambiguous_only_where_used(tmp_path: Path) -> None:
    (tmp_path / "one.vx").write_text("fn f() -> i32 { 1 }\n")
    (tmp_path / "two.vx").write_text("fn f() -> i32 { 2 }\n")
    head = "import one;\nimport two;\n"
    accepted(tmp_path, head + "fn main() -> i32 { one::f() + two::f() }")
    expect(tmp_path, head + "fn main() -> i32 {\n f()  //! E0207\n}")
    accepted(tmp_path, head + "fn f() -> i32 { 3 }\nfn main() -> i32 { f() }")


def test_same_names_in_two_modules_have_keys_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "one.vx").write_text("struct S { a : i32 }\nfn f() -> S { S { a: 1 } }\n")
    source = "import one;\nstruct S { b : f32 }\nfn f() -> S { S { b: 1.0 } }\nfn main() -> i32 { f(); one::f().a }"
    program = accepted(tmp_path, source)
    assert {"f", "one::f"} <= set(program.functions) and {"S", "one::S"} <= set(program.structs)


def test_modules_may_import_each_other(tmp_path: Path) -> None:
    (tmp_path / "one.vx").write_text("import two;\nfn f(n : i32) -> i32 { if n > 0 { g(n - 1) } else { 0 } }\n")
    (tmp_path / "two.vx").write_text("import one;\nfn g(n : i32) -> i32 { f(n) }\n")
    accepted(tmp_path, "import one;\nfn main() -> i32 { f(3) }")


def test_a_program_may_have_an_option_of_its_own(tmp_path: Path) -> None:
    accepted(
        tmp_path, "enum Option<T> { Some(T), None }\nfn main() -> i32 { let a : Option<i32> = Option<i32>::Some(3); 0 }"
    )


def test_model_import_without_a_model(tmp_path: Path) -> None:
    texts = messages(tmp_path, "import model;\nfn main() -> i32 { 0 }")
    assert len(texts) == 1 and texts[0].startswith("E0214") and "--model" in texts[0]


def test_files_are_listed_in_order_of_import(tmp_path: Path) -> None:
    (tmp_path / "one.vx").write_text("fn f() -> i32 { 1 }\n")
    program = accepted(tmp_path, "import one;\nfn main() -> i32 { f() }")
    assert [Path(name).name for name in program.files] == ["prelude.vx", FILE, "one.vx"]


def test_constants_are_overridden(tmp_path: Path) -> None:
    source = "const N : i32 = 3;\nconst B : bool = false;\nfn main() -> i32 { if B { N } else { 0 } }"
    program, _, _ = checked(tmp_path, source, consts={"N": "5", "B": "true"})
    assert program is not None
    assert "5i32" in dumped_text(program) and "if true" in dumped_text(program)
    for name, value, code in (("M", "1", "E0211"), ("N", "x", "E0309"), ("N", "99999999999", "E0302")):
        _, found, _ = checked(tmp_path, source, consts={name: value})
        assert [d.code for d in found] == [code]


def dumped_text(program: object) -> str:
    from vx.sema import tree
    from vx.sema.dump import dump_program

    assert isinstance(program, tree.Program)
    return dump_program(program)

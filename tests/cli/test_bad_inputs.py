"""What no program is: the answer is a coded error, soon and in bounded memory, and never an exception."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import vx
from vx.diagnostics.report import MAX_ERRORS, Level

LIMIT_S = 10.0
DEEP = 10_000
MAIN = "fn main() -> i32 { 0 }\n"


def errors(path: Path, machine: Path | None = None, host: Path | None = None, model: Path | None = None) -> list[str]:
    """The codes of the errors of a check, which has to be done in time."""
    start = time.monotonic()
    found = vx.check(path, machine=machine, host=host, model=model)
    assert time.monotonic() - start < LIMIT_S
    assert str(found) or found.ok
    return [item.code for item in found.diagnostics if item.level is Level.ERROR]


def in_main(text: str) -> str:
    return f"fn main() -> i32 {{ {text} 0 }}\n"


def noise(seed: int, words: list[str], count: int) -> str:
    picked = random.Random(seed)
    return " ".join(picked.choice(words) for _ in range(count))


def chain(count: int, item: Callable[[int], str]) -> str:
    return "".join(item(i) for i in range(count))


MARKS = "fn let mut for in if else loop { } ( ) [ ] < > , ; : :: -> => = == + - * .. & | ! a b 1 2.5 match i32 \n"
TEXTS: dict[str, tuple[str, str]] = {
    "empty": ("", "E0210"),
    "only_a_comment": ("// nothing", "E0210"),
    "no_main": ("fn f() -> i32 { 0 }", "E0210"),
    "zero_byte": ("fn main\0() -> i32 { 0 }", "E9004"),
    "noise_of_marks": (noise(1, MARKS.split(" "), 100_000), "E0110"),
    "noise_of_characters": ("".join(map(chr, random.Random(2).choices(range(32, 127), k=300_000))), "E0101"),
    "parentheses": (in_main("(" * DEEP + "1" + ")" * DEEP + ";"), "E0107"),
    "brackets": (in_main("[" * DEEP + "1" + "]" * DEEP + ";"), "E0107"),
    "braces": (in_main("{" * DEEP + "}" * DEEP), "E0107"),
    "angles": (in_main("let x : " + "Vec<" * DEEP + "i32" + ">" * DEEP + " = 1;"), "E0107"),
    "else_if": (in_main("if true { } else " * DEEP + "{ }"), "E0107"),
    "long_name": (in_main("let " + "a" * 1_000_000 + " = b;"), "E0201"),
    "long_number": (in_main("let a = " + "9" * 100_000 + ";"), "E0105"),
    "long_hexadecimal": (in_main("let a = 0x" + "f" * 100_000 + ";"), "E0105"),
    "great_exponent": (in_main("let a = 1e999999999;"), "E0105"),
    "great_shift": ("const A : i64 = 1 << 9999999999;\n" + MAIN, "E0301"),
    "great_constant": ("const A : i128 = 1 << 4000;\n" + MAIN, "E0302"),
    "extent_of_64_bits": (in_main("let t = Tensor<f32, [9223372036854775807]>::new();  print(t[0]);"), "E7006"),
    "extents_that_overflow": (in_main("let t = Tensor<f32, [4294967296, 4294967296]>::new();  print(t);"), "E7006"),
    "overflow_in_a_struct": ("struct S { t : Tensor<u8, [3, 9223372036854775807]> }\n" + MAIN, "E7006"),
    "many_dimensions": (in_main("let t = Tensor<f32, [" + "1, " * 300 + "1]>::new();  print(t);"), "E7004"),
    "constant_of_itself": ("const A : i32 = A;\n" + MAIN, "E0303"),
    "alias_of_itself": ("type A = Option<A>;\nfn f(a : A) -> i32 { 0 }\n" + MAIN, "E0303"),
    "struct_in_itself": ("struct A { a : Option<A> }\n" + MAIN, "E0311"),
    "struct_in_ever_larger": ("struct A<T> { a : *mut T, b : A<A<T>> }\nfn f(a : &A<i32>) -> i32 { 0 }\n" + MAIN, "E0308"),
    "doubling_struct": (chain(40, lambda i: f"struct A{i} {{ a : A{i + 1}, b : A{i + 1} }}\n") + "struct A40 { x : i32 }\n" + MAIN, "E0313"),
    "doubling_type": (
        "struct P<A, B> { a : A, b : B }\n"
        "fn f<const N : i32, T>(x : T) -> i32 "
        "{ if comptime N == 0 { 0 } else { f<N - 1, P<T, T>>(P<T, T> { a: x, b: x }) } }\n"
        "fn main() -> i32 { f<30, i32>(1) }\n",
        "E0308",
    ),
    "calls_that_double_in_a_region": (
        chain(30, lambda i: f"fn f{i}(x : f32) -> f32 {{ f{i + 1}(x) + f{i + 1}(x) }}\n")
        + "fn f30(x : f32) -> f32 { x }\n"
        + in_main("let mut t = Tensor<f32, [4]>::new();  spawn on(Topology::CPU) { t[0] = f0(t[1]); }  print(t);"),
        "E0902",
    ),
    "calls_too_deep_in_a_region": (
        chain(100, lambda i: f"fn f{i}(x : f32) -> f32 {{ f{i + 1}(x) + 1.0 }}\n")
        + "fn f100(x : f32) -> f32 { x }\n"
        + in_main("let mut t = Tensor<f32, [4]>::new();  spawn on(Topology::CPU) { t[0] = f0(t[1]); }  print(t);"),
        "E0902",
    ),
    "compile_time_recursion": ("fn f(n : i32) -> i32 { f(n + 1) }\n" + in_main("let x = comptime { f(0) };"), "E8003"),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name: str, tmp_path: Path) -> None:
    text, code = TEXTS[name]
    path = tmp_path / "program.vx"
    path.write_text(text, encoding="utf-8")
    assert code in errors(path)


@pytest.mark.parametrize(
    "line", ["  let a{i} = b{i};\n", "  let a{i} = ;\n", "  a{i}();\n", "  true + {i};\n", "  let a{i} : i8 = 1000;\n"]
)
def test_thousands_of_errors_end_early(line: str, tmp_path: Path) -> None:
    path = tmp_path / "program.vx"
    path.write_text("fn main() -> i32 {\n" + chain(5000, lambda i: line.replace("{i}", str(i))) + "  0\n}\n")
    assert len(errors(path)) == MAX_ERRORS


def test_ten_thousand_functions(tmp_path: Path) -> None:
    path = tmp_path / "program.vx"
    path.write_text(chain(DEEP, lambda i: f"fn f{i}(x : i32) -> i32 {{ x + {i} }}\n") + MAIN)
    assert errors(path) == []


def test_a_long_region_is_still_proven_or_not_in_time(tmp_path: Path) -> None:
    path = tmp_path / "program.vx"
    body = "t[i] = t[i] + 1.0;  " * 2000
    path.write_text(in_main(f"let mut t = Tensor<f32, [4]>::new();  for i in 0..4 {{ {body} }}  print(t[0]);"))
    assert errors(path) == []


def test_bytes(tmp_path: Path) -> None:
    path = tmp_path / "random.vx"
    path.write_bytes(random.Random(3).randbytes(1 << 20))
    good = tmp_path / "program.vx"
    good.write_text(MAIN)
    assert errors(path) == ["E9004"]
    assert errors(good, machine=path) == ["E9004"]
    assert errors(good, host=path) == ["E9004"]
    assert errors(good, model=path) == ["E9101"]


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.vx")
    assert errors(tmp_path / "nothing.vx") == ["E9001"]
    assert errors(tmp_path) == ["E9002"]
    assert errors(tmp_path / "pipe.vx") == ["E9002"]
    assert errors(Path("/dev/zero")) == ["E9002"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "program.vx"
    path.write_text(MAIN)
    path.chmod(0)
    assert errors(path) == ["E9003"]


def test_imports(tmp_path: Path) -> None:
    (tmp_path / "a.vx").write_text("import b;\nfn f() -> i32 { g() }\n" + MAIN)
    (tmp_path / "b.vx").write_text("import a;\nfn g() -> i32 { 1 }\n")
    assert errors(tmp_path / "a.vx") == []
    (tmp_path / "missing.vx").write_text("import nowhere;\n" + MAIN)
    assert errors(tmp_path / "missing.vx") == ["E0208"]
    (tmp_path / "folder.vx").mkdir()
    (tmp_path / "of_folder.vx").write_text("import folder;\n" + MAIN)
    assert errors(tmp_path / "of_folder.vx") == ["E0208"]
    (tmp_path / "broken.vx").write_bytes(b"\xff\xfe")
    (tmp_path / "of_broken.vx").write_text("import broken;\n" + MAIN)
    assert errors(tmp_path / "of_broken.vx") == ["E9004"]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_endings_and_byte_order_marks_count_for_nothing(ending: str, mark: str, tmp_path: Path) -> None:
    path = tmp_path / "program.vx"
    path.write_bytes(f"{mark}// a comment\nfn main() -> i32 {{\n  nothing\n}}\n".replace("\n", ending).encode())
    found = vx.check(path)
    assert [(item.code, *found.position(item)) for item in found.diagnostics] == [("E0201", 3, 3)]

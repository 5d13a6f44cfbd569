"""Host code from source: small programs, what they print, at O0 and O3."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

import vx


def output(folder: Path, text: str, opt_level: int = 3, strict: bool = False) -> tuple[str, str, int]:
    """Standard output, standard error and status of a program."""
    path = folder / "program.vx"
    path.write_text(text, encoding="utf-8")
    done = vx.compile(path, opt_level=opt_level, strict_index=strict).run(timeout=20)
    return done.stdout, done.stderr, done.status


PROGRAMS: dict[str, tuple[str, str]] = {
    "owners": (
        """
        import std::io;
        import std::vec;
        struct Noisy { n : i32, data : Tensor<f32, [3]> }
        impl Noisy {
          fn new(n : i32) -> Noisy { Noisy { n: n, data: Tensor<f32, [3]>::fill(n as f32) } }
          fn drop(self : &mut Noisy) -> void { println!("drop {}", self.n); }
        }
        enum Event { Quit, Key(i32, Noisy), Text(Noisy) }
        fn pick(which : i32) -> Option<Event> {
          let spare = Noisy::new(100 + which);
          if which == 0 { return Option<Event>::None; }
          if which == 1 { return Option<Event>::Some(Event::Key(7, Noisy::new(1))); }
          if which == 2 { return Option<Event>::Some(Event::Text(spare)); }
          Option<Event>::Some(Event::Quit)
        }
        fn handle(which : i32) -> Result<i32, i32> {
          match pick(which) {
            Option<Event>::Some(Event::Key(k, n)) => { println!("key {} {}", k, n.data[2]); Result<i32, i32>::Ok(k) },
            Option<Event>::Some(Event::Text(n)) => { println!("text {}", n.n); Result<i32, i32>::Err(n.n) },
            Option<Event>::Some(_) => Result<i32, i32>::Ok(0),
            Option<Event>::None => Result<i32, i32>::Err(0 - 1),
          }
        }
        fn chain(which : i32) -> Result<i32, i32> {
          let guard = Noisy::new(50);
          let first : i32 = handle(which)?;
          let second : i32 = handle(1)?;
          Result<i32, i32>::Ok(first + second)
        }
        fn main() -> i32 {
          for which in 0..4 {
            match chain(which) {
              Result<i32, i32>::Ok(v) => println!("ok {}", v),
              Result<i32, i32>::Err(e) => println!("err {}", e),
            }
          }
          let mut v = Vec<Noisy>::new();
          for i in 0..3 { v.push(Noisy::new(i)); }
          v.set(1, Noisy::new(9));
          let last = v.pop();
          println!("{}", last.is_some());
          0
        }
        """,
        "drop 100\ndrop 50\nerr -1\n"
        "drop 101\nkey 7 1\ndrop 1\ndrop 101\nkey 7 1\ndrop 1\ndrop 50\nok 14\n"
        "text 102\ndrop 102\ndrop 50\nerr 102\n"
        "drop 103\ndrop 101\nkey 7 1\ndrop 1\ndrop 50\nok 7\n"
        "drop 1\ntrue\ndrop 2\ndrop 0\ndrop 9\n",
    ),
    "tensors in containers": (
        """
        import std::io;
        import std::vec;
        import std::string;
        struct Row { id : i32, t : Tensor<f32, [4]> }
        struct Outer { left : Row, right : Row, tag : i32 }
        impl Row { fn make(id : i32) -> Row { Row { id: id, t: Tensor<f32, [4]>::fill(id as f32) } }
          fn total(self : &Row) -> f32 { sum(self.t) }
          fn into_tensor(self : Row) -> Tensor<f32, [4]> { self.t }
        }
        fn outer(n : i32) -> Outer { Outer { right: Row::make(n + 1), left: Row::make(n), tag: n } }
        fn maybe(n : i32) -> Option<Tensor<f32, [4]>> { if n % 2 == 0 { Option<Tensor<f32, [4]>>::Some(Row::make(n).into_tensor()) } else { Option<Tensor<f32, [4]>>::None } }
        fn first(v : &Vec<Tensor<f32, [4]>>) -> f32 { v.at(0)[1] }
        fn find(rows : &Vec<Row>, id : i32) -> Option<&Row> {
          for i in 0..rows.len() { if rows.at(i).id == id { return Option<&Row>::Some(rows.at(i)); } }
          Option<&Row>::None
        }
        fn early(n : i32) -> Result<Row, i32> {
          let a = Row::make(n);
          let v = Tensor<f32, [4]>::fill(2.0);
          for i in 0..10 {
            let b = Row::make(i);
            if i == n { return Result<Row, i32>::Ok(Row { id: i, t: (a.t + b.t) * v }); }
            if n < 0 { return Result<Row, i32>::Err(i); }
          }
          Result<Row, i32>::Ok(a)
        }
        fn add(a : Tensor<f32, [4]>, b : &Tensor<f32, [4]>) -> Tensor<f32, [4]> { a + b }
        fn main() -> i32 {
          let o = outer(1);
          let l = o.left;
          print(l.total());  print(" ");  print(o.right.total());  print(" ");
          let right_t = o.right.t;
          print(right_t[3]);  print("\\n");
          let mut acc : f32 = 0.0;
          for i in 0..5 {
            match maybe(i) { Option<Tensor<f32, [4]>>::Some(t) => { acc += t[0]; }, _ => { acc += 100.0; } }
            let m = maybe(i + 1);
            match &m { Option<Tensor<f32, [4]>>::Some(t) => { acc += sum(t); }, Option<Tensor<f32, [4]>>::None => {} }
            if Row::make(i).total() > 8.0 && outer(i).left.id > 3 { acc += 1000.0; }
            while outer(i).tag < 0 { }
          }
          print(acc);  print("\\n");
          let mut v = Vec<Tensor<f32, [4]>>::new();
          for i in 0..6 { v.push(Row::make(i + 10).into_tensor()); }
          print(first(&v));  print(" ");
          let mut rows = Vec<Row>::new();
          for i in 0..4 { rows.push(Row::make(i)); }
          match find(&rows, 2) { Option<&Row>::Some(r) => print(r.total()), Option<&Row>::None => print("none") }
          match find(&rows, 9) { Option<&Row>::Some(r) => print(r.total()), Option<&Row>::None => print(" none\\n") }
          for n in -1..12 { match early(n) { Result<Row, i32>::Ok(r) => { print(r.t[2]); print(" "); }, Result<Row, i32>::Err(e) => { print(e); print(" "); } } }
          print("\\n");
          let mut nested = Vec<Vec<i32>>::new();
          for i in 0..3 { let mut inner = Vec<i32>::new(); for j in 0..i { inner.push(j); } nested.push(inner); }
          print(nested.at(2).len());
          let t = add(add(Row::make(1).into_tensor(), &Row::make(2).t), &(Row::make(3).t * 2.0));
          print(t);
          let mut x = Row::make(1);
          x = Row::make(2);
          let y = x;
          x = Row::make(3);
          if y.id == 2 { let z = x; print(z.id); } else { print(0); }
          x = Row { id: 5, t: y.t };
          print(x.total());
          let big : Tensor<f32, [4]> = if x.id > 3 { x.t } else { Tensor<f32, [4]>::new() };
          print(big[0]);
          let s = String::from("abc");
          print(s.len());
          0
        }
        """,
        "4 8 2\n1230\n10 8 none\n0 0 4 8 12 16 20 24 28 32 36 10 11 \n2[9,   9,   9,   9]3823",
    ),
    "tensor values": (
        """
        import std::io;
        fn shifted(t : &Tensor<f32, [2, 2]>, by : f32) -> Tensor<f32, [2, 2]> { t + by }
        fn trace(t : &Tensor<f32, [?, ?]>) -> f32 {
          let mut total : f32 = 0.0;
          for i in 0..t.extent(0) { total += t[i][i]; }
          total
        }
        struct Pair { a : Tensor<f32, [2, 2]>, b : Tensor<f32, [2, 2]> }
        fn main() -> i32 {
          let m = Tensor<f32>([[1.0, 2.0], [3.0, 4.0]]);
          let s = shifted(&m, 1.0) @ m.t();
          println!("{} {}", trace(&s), dot(s[0], m[1]));
          let mut p = Pair { a: shifted(&m, 0.0), b: m };
          p.a = shifted(&p.b, 10.0);
          p.a[0] = p.b[1] * 2.0;
          p.a[1][0] += 0.5;
          let Tall = p.a.reshape([4, 1]);
          println!("{} {} {}", p.a[0][1], Tall[2, 0], max(p.a[1]));
          let copy = p.a[0..2, 1].copy();
          p.a = p.b;
          print(copy);
          println!(" {}", trace(&p.a));
          let n : i64 = copy.extent(0) + 1;
          let mut d = Tensor<f64, [n, n]>::new();
          d[2, 1] = 2.5;
          print(d[1..3, 0..2]);
          0
        }
        """,
        "40 96\n8 13.5 14\n[8,   14] 5\n[[0,   0],\n [0,   2.5]]",
    ),
    "strings and numbers": (
        """
        import std::io;
        import std::string;
        fn name(n : i32) -> *const i8 { match n { 0 => "zero", 1 => "one", -1 => "minus", _ => "many" } }
        fn value(s : *const i8) -> i64 { match s { "zero" => 0, "one" => 1, "" => -2, _ => -1 } }
        fn half(x : f16, y : bf16) -> f32 { (x * 2.0 + 0.1) as f32 + (y + 0.5) as f32 }
        fn same(x : i128) -> i128 { x }
        const BIG : i128 = 170141183460469231731687303715884105727;
        fn main() -> i32 {
          println!("{} {} {}", name(1), name(0 - 1), name(44));
          println!("{} {} {}", value("one"), value(""), value("zer"));
          println!("{}", half(1.5, 3.0));
          let big : i128 = same(BIG);
          let wrapped : i128 = big + 1;
          println!("{} {}", wrapped, (wrapped >> 100) as i64);
          let mut x : u8 = 250;
          x += 0;
          println!("{} {} {}", x + 10, (x as i8) as i32, 3000000000u32 as i32);
          println!("{} {}", (0.0 / 0.0) as i32, 1e20 as i32);
          println!("{} {}", -7 / 2, -7 % 2);
          let mut n : i32 = 0;
          let t : bool = n > 0 && 10 / n > 1;
          n = 5;
          loop { n -= 1; if n == 2 { continue; } if n < 0 { break; } print(n); }
          println!(" {}", t);
          0
        }
        """,
        "one minus many\n1 -2 -1\n6.5996094\n-170141183460469231731687303715884105728 -134217728\n4 -6 -1294967296\n"
        "0 2147483647\n-3 -1\n4310 false\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, opt_level: int, tmp_path: Path) -> None:
    text, expected = PROGRAMS[name]
    assert output(tmp_path, text, opt_level) == (expected, "", 0)


QEMU, SYSROOT = shutil.which("qemu-aarch64"), Path("/usr/aarch64-linux-gnu")


@pytest.mark.skipif(QEMU is None or not SYSROOT.is_dir(), reason="qemu-user or the aarch64 C library is not installed")
@pytest.mark.parametrize("name", PROGRAMS)
def test_program_on_aarch64(name: str, tmp_path: Path) -> None:
    text, expected = PROGRAMS[name]
    path = tmp_path / "program.vx"
    path.write_text(text, encoding="utf-8")
    done = vx.compile(path, target="aarch64-linux-gnu").run(runner=[str(QEMU), "-L", str(SYSROOT)], timeout=20)
    assert (done.stdout, done.stderr, done.status) == (expected, "", 0)


# ---- random integer expressions against Python -----------------------------------------------------------------
WIDTHS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "i128": 128, "u8": 8, "u16": 16, "u32": 32, "u64": 64, "u128": 128}


def wrap(value: int, name: str) -> int:
    bits = WIDTHS[name]
    value &= (1 << bits) - 1
    return value - (1 << bits) if name[0] == "i" and value >> (bits - 1) else value


def arithmetic(op: str, a: int, b: int, name: str) -> int:
    if op in "/%":
        b = b or 1
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return wrap(quotient if op == "/" else a - b * quotient, name)
    results = {"+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b}
    if op in results:
        return wrap(results[op], name)
    count = b % WIDTHS[name]
    return wrap(a << count if op == "<<" else a >> count, name)


def random_value(rng: random.Random, name: str) -> int:
    edges = [0, 1, -1, 2, 7, (1 << (WIDTHS[name] - 1)) - 1, 1 << (WIDTHS[name] - 1), 10]
    return wrap(rng.choice(edges) if rng.random() < 0.5 else rng.getrandbits(128), name)


def random_case(rng: random.Random, number: int) -> tuple[str, str, str]:
    """A function of three variables that mixes operators and casts, a call of it, and its result."""
    name, other = rng.choice(list(WIDTHS)), rng.choice(list(WIDTHS))
    values = [random_value(rng, name) for _ in range(3)]
    text, result = "x", values[0]
    for _ in range(rng.randint(1, 5)):
        op = rng.choice(["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"])
        operand = rng.randint(1, 2)
        right, value = "xyz"[operand], values[operand]
        if op in "/%":
            right = f"nonzero{number}({right})"
        text, result = f"({text} {op} {right})", arithmetic(op, result, value, name)
    text = f"({text} as {other})"
    guard = f"fn nonzero{number}(v : {name}) -> {name} {{ if v == 0 {{ 1 }} else {{ v }} }}\n"
    function = f"fn case{number}(x : {name}, y : {name}, z : {name}) -> {other} {{ {text} }}\n"
    arguments = ", ".join(str(v) if v >= 0 else f"({v})" for v in values)
    call = f'  print(case{number}({arguments}));  print("\\n");\n'
    return guard + function, call, str(wrap(result, other))


@pytest.mark.parametrize("opt_level", [0, 3])
def test_random_integer_arithmetic(tmp_path: Path, opt_level: int) -> None:
    rng = random.Random(20)
    cases = [random_case(rng, number) for number in range(300)]
    functions = "".join(function for function, _, _ in cases)
    text = f"{functions}fn main() -> i32 {{\n{''.join(call for _, call, _ in cases)}  0\n}}\n"
    out, err, _ = output(tmp_path, text, opt_level)
    assert not err
    assert out.splitlines() == [result for _, _, result in cases]


# ---- messages ------------------------------------------------------------------------------------------------
def test_run_time_errors_name_the_line(tmp_path: Path) -> None:
    def failing(statement: str, strict: bool = False) -> str:
        text = f"fn id(n : i32) -> i32 {{ n }}\nfn main() -> i32 {{\n  let t = Tensor<f32, [2, 3]>::new();\n  {statement}\n  0\n}}\n"
        out, err, status = output(tmp_path, text, strict=strict)
        assert (out, status) == ("", 101)
        return err

    assert failing("print(t[id(2)][0]);") == "vx: program.vx:4: index 6 is outside 0..6\n"
    assert failing("print(t[0][id(3)]);", strict=True) == "vx: program.vx:4: index 3 is outside 0..3\n"
    assert failing("print(t[id(0 - 1)]);") == "vx: program.vx:4: index -1 is outside 0..2\n"
    assert failing("print(t[0, 0..id(4)]);") == "vx: program.vx:4: index 4 is outside 0..4\n"
    assert failing("print(1 / id(0));") == "vx: division by zero at program.vx:4\n"
    assert failing('assert(id(1) == 2, "odd");') == "vx: assertion failed: odd at program.vx:4\n"
    assert failing("let x : Option<i32> = Option<i32>::None; print(x.unwrap());").startswith("vx: unwrap of None")

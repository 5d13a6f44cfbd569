"""The check lines and RUN lines of programs can fail: each kind is met and missed once."""

from __future__ import annotations

from pathlib import Path

import pytest
from filecheck import Check, checks_of, failures
from runlines import lines_of, meet

OUTPUT = "one\ntwo   2\nthree\n\nfour x = 17, y = 17\nend one\n"


@pytest.mark.parametrize(
    "checks",
    [
        (("CHECK", "one"), ("CHECK", "four")),
        (("CHECK", "two 2"), ("CHECK-NEXT", "three")),
        (("CHECK", "t{{w.}}"),),
        (("CHECK", "one"), ("CHECK-NOT", "five"), ("CHECK", "two")),
        (("CHECK-NOT", "five"),),
        (("CHECK", "four"), ("CHECK-SAME", "y")),
        (("CHECK", "three"), ("CHECK-EMPTY", ""), ("CHECK-NEXT", "four")),
        (("CHECK-DAG", "three"), ("CHECK-DAG", "one"), ("CHECK", "four")),
        (("CHECK-COUNT-2", "one"),),
        (("CHECK", "x = [[N:[0-9]+]]"), ("CHECK-SAME", "y = [[N]]")),
        (("CHECK", "x = [[N:[0-9]+]], y = [[N]]"),),
        (("CHECK-LABEL", "two"), ("CHECK", "three"), ("CHECK-LABEL", "four"), ("CHECK", "one")),
    ],
)
def test_met(checks: tuple[Check, ...]) -> None:
    assert failures(checks, OUTPUT) is None


@pytest.mark.parametrize(
    "checks",
    [
        (("CHECK", "four"), ("CHECK", "two")),
        (("CHECK", "one"), ("CHECK-NEXT", "three")),
        (("CHECK", "t{{x.}}"),),
        (("CHECK", "one"), ("CHECK-NOT", "two"), ("CHECK", "three")),
        (("CHECK-NOT", "four"),),
        (("CHECK", "end one"), ("CHECK", "one")),
        (("CHECK", "two"), ("CHECK-SAME", "three")),
        (("CHECK", "one"), ("CHECK-EMPTY", "")),
        (("CHECK", "two"), ("CHECK-DAG", "three"), ("CHECK-DAG", "two")),
        (("CHECK-DAG", "three"), ("CHECK-DAG", "three")),
        (("CHECK-COUNT-3", "one"),),
        (("CHECK", "two [[N:[0-9]+]]"), ("CHECK", "x = [[N]]")),
        (("CHECK", "[[UNKNOWN]]"),),
        (("CHECK-LABEL", "two"), ("CHECK", "one"), ("CHECK-LABEL", "four")),
        (("CHECK-LABEL", "five"),),
    ],
)
def test_missed(checks: tuple[Check, ...]) -> None:
    assert failures(checks, OUTPUT) is not None


def test_check_lines_are_read() -> None:
    text = "// CHECK: a\n  // X-NEXT:b\n// X: c {{d}}\n// NOTCHECK: e\n"
    assert checks_of(text) == (("CHECK", "a"),)
    assert checks_of(text, ["X", "Y"]) == (("CHECK-NEXT", "b"), ("CHECK", "c {{d}}"))


def test_run_lines_are_read() -> None:
    assert lines_of("// RUN: vxc %s \\\n// RUN:   --run\n// RUN: true\n") == ["vxc %s --run", "true"]
    assert lines_of("fn main() -> i32 { 0 }") == ["vxc %s --run"]
    assert lines_of("// NO_EXEC\n") == ["vxc %s -o %t"]


PROGRAM = "fn main() -> i32 { print(42); 0 }\n"


@pytest.mark.parametrize(
    "lines",
    [
        "// RUN: vxc %s --run | FileCheck %s\n// CHECK: 42\n",
        "// RUN: vxc %s --run > %t.out && FileCheck %s --input-file=%t.out\n// CHECK: {{^}}42{{$}}\n",
        "// RUN: not vxc %s --action dance 2>&1 | FileCheck %s --check-prefix=B\n// B: usage\n",
        "// EXPECT: 42\n",
    ],
)
def test_run_lines_met(lines: str, tmp_path: Path) -> None:
    program = tmp_path / "p.vx"
    program.write_text(lines + PROGRAM, encoding="utf-8")
    meet(program, tmp_path)


@pytest.mark.parametrize(
    "lines",
    [
        "// RUN: vxc %s --run | FileCheck %s\n// CHECK: 43\n",
        "// RUN: vxc %s --run\n// CHECK: 42\n",
        "// RUN: not vxc %s --run\n",
        "// RUN: not no-such-command\n",
        "// RUN: vxc %s | FileCheck %s\n// CHECK-NOT: x\n",
        "// RUN: vxc %s --run | FileCheck %s\n",
        "// RUN: false\n",
        "// RUN: false | true\n",
        "// EXPECT: 43\n",
        "// WARN: W1001\n",
    ],
)
def test_run_lines_missed(lines: str, tmp_path: Path) -> None:
    program = tmp_path / "p.vx"
    program.write_text(lines + PROGRAM, encoding="utf-8")
    with pytest.raises(AssertionError):
        meet(program, tmp_path)

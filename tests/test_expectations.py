"""The program runner can fail: each kind of expectation is met and missed once."""

from __future__ import annotations

import pytest
from expectations import Command, read


def test_lines_are_read() -> None:
    text = (
        "// RUN: vx run %s -O0 -- --n 3 | FileCheck %s\n// RUN: not vxc %s\n// CHECK: a\n// STATUS: 3\n"
        "// EXPECT-ERROR: E4001 7:5\n// STDIN: hello\n// NO_EXEC\n// REQUIRES: cuda\n// a comment: no\n"
    )
    found = read(text, "p.vx")
    assert found.commands == (
        Command(("vx", "run", "p.vx", "-O0", "--", "--n", "3"), False),
        Command(("vxc", "p.vx"), True),
    )
    assert found.errors == (("E4001", 7, 5),)
    assert (found.status, found.stdin, found.no_exec, found.requires) == (3, "hello\n", True, ("cuda",))


def test_without_a_run_line_the_program_is_run() -> None:
    assert read("fn main() -> i32 { 0 }", "p.vx").commands == (Command(("vx", "run", "p.vx"), False),)


def test_a_malformed_error_line_is_refused() -> None:
    with pytest.raises(ValueError, match="not CODE line:col"):
        read("// EXPECT-ERROR: E4001\n", "p.vx")

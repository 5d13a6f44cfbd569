"""Text to tokens."""

from __future__ import annotations

import pytest

from vx.diagnostics.report import Reporter
from vx.syntax.dump import dump_tokens
from vx.syntax.lexer import is_closed_string, lex, number_parts, string_value


def words(text: str) -> list[str]:
    reporter = Reporter()
    tokens = lex(text, "t", reporter)
    assert not reporter.diagnostics, reporter.diagnostics
    return [token.text for token in tokens[:-1]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0..4", ["0", "..", "4"]),
        ("a..b+1", ["a", "..", "b", "+", "1"]),
        ("1.5.sqrt()", ["1.5", ".", "sqrt", "(", ")"]),
        ("1.sqrt()", ["1", ".", "sqrt", "(", ")"]),
        ("1e-5+1E3", ["1e-5", "+", "1E3"]),
        ("80i32 1_000 0xffu8 1.5f64 1.", ["80i32", "1_000", "0xffu8", "1.5f64", "1."]),
        ("x.0.1", ["x", ".", "0.1"]),
        ("a->b=>c", ["a", "->", "b", "=>", "c"]),
        ("a<<b>>c>=d", ["a", "<", "<", "b", ">", ">", "c", ">=", "d"]),
        ("&&a||b|c", ["&&", "a", "||", "b", "|", "c"]),
        ("a+=1-=2*=3/=4%=5", ["a", "+=", "1", "-=", "2", "*=", "3", "/=", "4", "%=", "5"]),
        ("a&=b|=c^=d", ["a", "&=", "b", "|=", "c", "^=", "d"]),
        ("a::b:c", ["a", "::", "b", ":", "c"]),
        ("a // comment\nb //// c\nd", ["a", "b", "d"]),
        ('"a\\"b" c', ['"a\\"b"', "c"]),
        ('"one\ntwo"', ['"one\ntwo"']),
        ("", []),
    ],
)
def test_tokens(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_kinds_and_positions() -> None:
    text = '/// Says hello.\nfn f() { print!("hi\\n"); }'
    assert dump_tokens(lex(text, "t", Reporter())) == (
        "     0..15     doc      Says hello.\n"
        "    16..18     keyword fn\n"
        "    19..20     ident   f\n"
        "    20..21     mark    (\n"
        "    21..22     mark    )\n"
        "    23..24     mark    {\n"
        "    25..30     ident   print\n"
        "    30..31     mark    !\n"
        "    31..32     mark    (\n"
        '    32..38     string  "hi\\\\n"\n'
        "    38..39     mark    )\n"
        "    39..40     mark    ;\n"
        "    41..42     mark    }\n"
        "    42..42     eof\n"
    )


def test_words_of_machine_files_are_not_keywords() -> None:
    tokens = lex("const true false Tensor capacity within role type", "t", Reporter())
    assert {token.kind for token in tokens[:-1]} == {"ident"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"plain"', b"plain"),
        (r'"\n\t\r\"\\"', b'\n\t\r"\\'),
        ('"é"', "é".encode()),
        ('""', b""),
        ('"unclosed', b"unclosed"),
        ('"two\r\nlines"', b"two\nlines"),
    ],
)
def test_string_values(text: str, value: bytes) -> None:
    assert string_value(text) == value


def test_closed_strings() -> None:
    tokens = lex(r'"a" "b\"', "t", Reporter())
    assert [is_closed_string(token) for token in tokens[:2]] == [True, False]


@pytest.mark.parametrize(
    ("text", "digits", "is_float", "suffix"),
    [
        ("63GB", "63", False, "GB"),
        ("1.41GHz", "1.41", True, "GHz"),
        ("0x1f32", "0x1f32", False, None),
        ("0xffi32", "0xff", False, "i32"),
        ("1e5f32", "1e5", True, "f32"),
        ("5E", "5", False, "E"),
    ],
)
def test_number_parts(text: str, digits: str, is_float: bool, suffix: str | None) -> None:
    assert number_parts(text) == (digits, is_float, suffix)


@pytest.mark.parametrize(
    ("text", "code", "start", "end"),
    [
        ("a # b", "E0101", 2, 3),
        ("a \u00a7\u20ac\u00a7 b", "E0101", 2, 5),
        ('"a\0b"', "E0101", 2, 3),
        ('let "abc\nx', "E0102", 4, 8),
        (r'"a\qb"', "E0103", 2, 4),
        ("a /* b */ c", "E0106", 2, 4),
    ],
)
def test_lexical_errors(text: str, code: str, start: int, end: int) -> None:
    reporter = Reporter()
    lex(text, "t", reporter)
    assert [(d.code, d.span.start, d.span.end) for d in reporter.diagnostics] == [(code, start, end)]


def test_lexing_goes_on_after_errors() -> None:
    tokens = lex("a # b /* c */ d 'e", "t", Reporter())
    assert [token.text for token in tokens] == ["a", "b", "d", "e", ""]

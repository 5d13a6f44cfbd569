"""The generated files are in step with abi.py, and its tables are consistent."""

from __future__ import annotations

from vx.runtime import abi


def test_header_is_generated() -> None:
    assert abi.HEADER.read_text(encoding="utf-8") == abi.render_header()


def test_declarations_are_generated() -> None:
    assert abi.DECLARATIONS.read_text(encoding="utf-8") == abi.render_declarations()


def test_element_tags_are_distinct() -> None:
    assert len(set(abi.ELEMENTS.values())) == len(abi.ELEMENTS)


def test_memref_tag_of_the_documentation() -> None:
    assert abi.memref_tag("f32", 2) == 132608


def test_every_function_is_defined_in_c() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in abi.HEADER.parent.glob("*.c"))
    missing = [name for name in abi.ENTRIES if f" {name}(" not in text and f"*{name}(" not in text]
    assert missing == []

"""Finished builds are found again exactly as long as nothing that they were made from has changed."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from vx import buildcache
from vx.buildcache import Dependency
from vx.options import Options


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VX_CACHE_DIR", str(tmp_path / "cache"))


def made(key: str, content: bytes = b"#!/bin/sh\n") -> Path:
    space = buildcache.workspace()
    space.program.write_bytes(content)
    space.program.chmod(0o755)
    return buildcache.store(space, key)


def recorded(source: Path) -> None:
    dependency = Dependency(str(source), "text", buildcache.text_digest(source.read_text(encoding="utf-8")))
    made("k")
    buildcache.record("r", "k", [dependency], None, [])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "p.vx"
    path.write_text("fn main() -> i32 { return 0; } // é\n", encoding="utf-8")
    return path


def test_found_while_nothing_changes(source: Path) -> None:
    assert buildcache.look_up("r") is None
    recorded(source)
    entry = buildcache.look_up("r")
    assert entry is not None and entry.executable.read_bytes() == b"#!/bin/sh\n"
    assert buildcache.look_up("other") is None


def test_an_edit_a_removal_and_a_lost_build_are_noticed(source: Path) -> None:
    recorded(source)
    text = source.read_text(encoding="utf-8")
    source.write_text(text + " ", encoding="utf-8")
    assert buildcache.look_up("r") is None
    source.write_text(text, encoding="utf-8")
    entry = buildcache.look_up("r")
    assert entry is not None
    source.unlink()
    assert buildcache.look_up("r") is None
    source.write_text(text, encoding="utf-8")
    entry.executable.unlink()
    assert buildcache.look_up("r") is None


def test_a_byte_order_mark_is_no_content(source: Path) -> None:
    recorded(source)
    source.write_bytes(b"\xef\xbb\xbf" + source.read_bytes())
    assert buildcache.look_up("r") is not None


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"{}", b'{"dependencies": [[1]]}', b"\xff"])
def test_a_damaged_manifest_is_no_build(source: Path, tmp_path: Path, damage: bytes) -> None:
    recorded(source)
    (tmp_path / "cache" / "requests" / "r.json").write_bytes(damage)
    assert buildcache.look_up("r") is None


def test_weights_count_only_by_header_and_size(tmp_path: Path) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"aaaa")
    before = buildcache.digest(str(path), "header")
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"bbbb")
    assert buildcache.digest(str(path), "header") == before
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"bbbbb")
    assert buildcache.digest(str(path), "header") != before
    path.write_bytes(len(header).to_bytes(8, "little") + header.replace(b"w", b"v") + b"aaaa")
    assert buildcache.digest(str(path), "header") != before


def test_a_header_that_lies_about_its_length_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"\xff" * 8 + b"x" * 100)
    assert buildcache.digest(str(path), "header") != "absent"


def test_keys_depend_on_everything() -> None:
    options = Options()
    file = Dependency("/p.vx", "text", "1")
    keys = {
        buildcache.build_key(options, [file], "c"),
        buildcache.build_key(options, [Dependency("/p.vx", "text", "2")], "c"),
        buildcache.build_key(options, [file], "d"),
        buildcache.build_key(Options(opt_level=0), [file], "c"),
        buildcache.build_key(Options(strict_index=True), [file], "c"),
        buildcache.build_key(Options(consts=(("N", "1"),)), [file], "c"),
        buildcache.build_key(Options(target="aarch64-linux-gnu"), [file], "c"),
    }
    assert len(keys) == 7


def test_builds_of_one_key_at_once_are_all_whole() -> None:
    content = os.urandom(1 << 16)
    paths: list[Path] = []
    threads = [threading.Thread(target=lambda: paths.append(made("same", content))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(paths) == 8 and {path.read_bytes() for path in paths} == {content}


def test_old_builds_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buildcache, "KEPT_BUILDS", 3)
    for number in range(5):
        folder = made(f"k{number}").parent
        os.utime(folder, (number, number))
    last = made("last")
    assert last.exists()
    assert sorted(path.name for path in last.parent.parent.iterdir()) == ["k3", "k4", "last"]


def test_the_compiler_is_part_of_the_key() -> None:
    assert buildcache.compiler_digest() == buildcache.compiler_digest()
    assert any("llvmlite" in name for name in buildcache._tool_versions())

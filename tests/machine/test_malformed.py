"""Malformed machine files: each is refused with a code, at the place that is wrong."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from vx.diagnostics.report import CompileError, Reporter
from vx.diagnostics.source import SourceMap
from vx.machine.load import load_machine

T = "Topology T { memory: Memory::M }"
M = "Memory M {}"
MEASURED = 'Measured { date: "2026-11-29", part: "p", driver: "d", tool: "t" }'
PAIR = "Memory P { bandwidth: 2 TB/s }\nMemory C { within: Memory::P, bandwidth: 1 TB/s }"


def found(path: Path, host: str = "default") -> list[tuple[str, str]]:
    """The errors in a machine file, as code and `line:column`."""
    sources, reporter = SourceMap(), Reporter()
    load_machine(path, host, reporter, sources, "x86_64")
    return [(d.code, "{}:{}".format(*sources.line_col(d.span))) for d in reporter.diagnostics]


@pytest.mark.parametrize(
    ("text", "code", "position"),
    [
        # syntax
        ("Memory { capacity: 1 GiB }", "E0110", "1:8"),
        ("Memory M { capacity 1 GiB }", "E0110", "1:21"),
        ("Memory M { capacity: }", "E0110", "1:22"),
        ("Memory M { capacity: 1 GiB", "E0112", "1:10"),
        ("Memory M { capacty: 1 GiB }", "E0113", "1:12"),
        ("Memory M { memory: Memory::N }", "E0113", "1:12"),
        (f"{M}\nTopology T {{ memory: Memory::M, capacity: 1 GiB }}", "E0113", "2:33"),
        ("Memory M { within: HBM }", "E0110", "1:20"),
        (f"{M}\nTopology T {{ memory: Memory::M transfer Memory::M Memory::CPU_DRAM }}", "E0110", "2:51"),
        ("Memory M { capacity: -1 GiB }", "E0110", "1:22"),
        # figures
        ("Memory M { capacity: 1.1 KiB }", "E6040", "1:22"),
        ("Memory M { capacity: 1e3 B }", "E6040", "1:22"),
        ("Memory M { capacity: 0x10 GiB }", "E6040", "1:22"),
        ("Memory M { bandwidth: 0.5 B/s }", "E6040", "1:23"),
        ("Memory M { capacity: 1 gib }", "E6041", "1:22"),
        ("Memory M { capacity: 40 }", "E6041", "1:22"),
        ("Memory M { capacity: 40 GB/s }", "E6041", "1:22"),
        ("Memory M { bandwidth: 40 GB }", "E6041", "1:23"),
        ("Memory M { bandwidth: 40 GB/min }", "E6041", "1:23"),
        ("Memory M { clock: 1.98 }", "E6041", "1:19"),
        ("Memory M { clock: 1.98 Ghz }", "E6041", "1:19"),
        ("Memory M { replicas: 4 KiB }", "E6041", "1:22"),
        (f"{M}\nTopology T {{ memory: Memory::M, peer: 450 }}", "E6041", "2:39"),
        (f"{M}\nTopology T {{ memory: Memory::M, peer: 450 GB/s latency 10 }}", "E6041", "2:56"),
        (f"{M}\nTopology T {{ memory: Memory::M, peer: 450 GB/s latency 10 KiB }}", "E6041", "2:56"),
        (f"{M}\nTopology T {{ memory: Memory::M transfer Memory::M -> Memory::M : 63 GB }}", "E6041", "2:66"),
        (f"{M}\nTopology T {{ memory: Memory::M transfer Memory::M -> Memory::CPU_DRAM : 7 latency 1 us }}", "E6041", "2:32"),
        ("Memory M { capacity: 9000 PiB }", "E6042", "1:22"),
        ("Memory M { reserve: 100% , capacity: 1 GiB }", "E6042", "1:21"),
        ("Memory M { capacity: 1 KiB, reserve: 1 KiB }", "E6042", "1:29"),
        ("Memory M { capacity: 1 KiB, granule: 2 KiB }", "E6042", "1:29"),
        (f"{M}\nTopology T {{ memory: Memory::M, instances: 4000000000 }}", "E6042", "2:33"),
        ("Memory M { capacity: 0 B }", "E6008", "1:22"),
        (f"{M}\nTopology T {{ memory: Memory::M, instances: 0 }}", "E6008", "2:44"),
        (f"{M}\nTopology T {{ memory: Memory::M, instances: 1.5 }}", "E6040", "2:44"),
        # words
        ("Memory M { scope: grid }", "E6047", "1:12"),
        ("Memory M { managed: explict }", "E6047", "1:12"),
        ("Memory M { crossing: parallel }", "E6047", "1:12"),
        (f"{M}\nTopology T {{ memory: Memory::M, dtypes: [f33] }}", "E6047", "2:33"),
        # declarations together
        ("Topology T { arch: x86_64 }", "E6044", "1:1"),
        (f"{M}\nTopology T {{ memory: Memory::M, visible: [] }}", "E6005", "2:33"),
        ("Memory M { within: Memory::M }", "E6006", "1:12"),
        ("Memory A { capacity: 1 KiB }\nMemory B { within: Memory::A, capacity: 1025 B }", "E6007", "2:31"),
        ("Memory A { scope: sm }\nMemory B { within: Memory::A, scope: device }", "E6011", "2:31"),
        (f"{M}\nMemory M {{ capacity: 1 B }}", "E6012", "2:1"),
        (f"{PAIR}\nTopology T {{ memory: Memory::P transfer Memory::P -> Memory::C : 5 }}", "E6013", "3:32"),
        (f"{M}\nTopology GPU {{ memory: Memory::M }}", "E6016", "2:1"),
        ("Memory CPU_DRAM { bandwidth: 1 GB/s }", "E6016", "1:1"),
        ("Memory M { within: Memory::N }", "E6025", "1:12"),
        ("Topology T { memory: Memory::Nowhere }", "E6025", "1:14"),
        (f"{M}\nTopology T {{ memory: Memory::M, visible: [Memory::M, Memory::N] }}", "E6025", "2:33"),
        (f"{M}\nTopology T {{ memory: Memory::M transfer Memory::M -> Memory::N }}", "E6025", "2:32"),
        ("Memory M { capacity: 1 B, capacity: 1 B }", "E6043", "1:27"),
        (f"{M}\nfn main() -> i32 {{ return 0; }}", "E6045", "2:1"),
        ('import "machine.vx";', "E6046", "1:1"),
        # texts that are none
        ("Memory M { capacity: +1 GiB }", "E0110", "1:22"),
        ("Memory M { capacity: 1 GiB/ }", "E0110", "1:29"),
        ("Memory M { capacity: .5 GiB }", "E0110", "1:22"),
        ("Memory M { capacity: 1e400 GiB }", "E6040", "1:22"),
        ("Memory M { capacity: 9223372036854775808 B }", "E6042", "1:22"),
        (f"Memory M {{ capacity: {'9' * 100_000} B }}", "E6042", "1:22"),
        (f"Memory M {{ capacity: 1 {'G' * 100_000} }}", "E6041", "1:22"),
        ("Memory M { clock: 1 GHz 9 }", "E0110", "1:25"),
        (f"Memory M {{ capacity: {'(' * 50_000} }}", "E0110", "1:22"),
        ("{" * 50_000, "E0110", "1:1"),
        ("\r\nMemory M {\r\n  capacity: 1.1 KiB\r\n}", "E6040", "3:13"),
        ("\ufeffMemory M { capacity: 1.1 KiB }", "E6040", "1:22"),
        ("Memory M { capacity: 1\u0661 GiB }", "E0101", "1:23"),
        ("// spec: ü\nMemory M { capacity: 1.1 KiB } // ü", "E6040", "2:22"),
        ("import part;", "E6045", "1:1"),
        ('import "";', "E9002", "1:1"),
        ('import "none.vx";', "E9001", "1:1"),
        # measured files
        ("Measured { date: 2026 }", "E0110", "1:18"),
        ('Measured { day: "2026-11-29" }', "E0113", "1:12"),
        (f"{M}\n{MEASURED[:-1]}, capacity: 1 GiB }}", "E0113", "2:68"),
        (f"{MEASURED}\n{MEASURED}\n{M}", "E6060", "2:1"),
        (f'Measured {{ date: "2026-11-29" }}\n{M}', "E6060", "1:1"),
        (f'{MEASURED.replace("2026-11-29", "yesterday")}\n{M}', "E6060", "1:12"),
        (f'{MEASURED.replace("2026-11-29", "2026-13-01")}\n{M}', "E6060", "1:12"),
        (f'{MEASURED.replace(chr(34) + "p" + chr(34), chr(34) * 2)}\n{M}', "E6060", "1:1"),
        (f'{MEASURED[:-1]}, tool: "u" }}\n{M}', "E6043", "1:68"),
    ],
)  # fmt: skip
def test_refused(tmp_path: Path, text: str, code: str, position: str) -> None:
    path = tmp_path / "machine.vx"
    path.write_text(text, encoding="utf-8")
    assert found(path) == [(code, position)]


@pytest.mark.parametrize(
    ("points", "code", "column"),
    [
        ("1 B: 1 us, 2 B: 2 us, 3 B: 3 us, 4 B: 4 us", "E6061", 12),  # four
        ("", "E6061", 12),
        ("1 B: 1 us, 2 B: 2 us, 2 B: 3 us, 4 B: 4 us, 5 B: 5 us", "E6061", 44),  # a size twice
        ("1 B: 1 us, 3 B: 2 us, 2 B: 3 us, 4 B: 4 us, 5 B: 5 us", "E6061", 44),  # sizes out of order
        ("1 B: 1 us, 2 B: 2 us, 3 B: 1 us, 4 B: 4 us, 5 B: 5 us", "E6061", 49),  # quicker
        ("1 B: 1 us, 2 B: 2 us, 3 B: 3 us, 4 B: 5 us, 5 B: 5 us", "E6061", 71),  # no slope to go on with
        ("1 B: 1 us, 2 B: 2 us, 3 B: 3 us, 4 B: 4 us, 5 B: 5 GiB", "E6041", 71),
        ("1 B: 1 us, 2 B: 2 us, 3 B: 3 us, 4 B: 4 us, 5 us: 5 us", "E6041", 66),
        ("1 B: 1 us, 2 B: 2 us, 3 B: 3 us, 4 B: 4 us, 5 B: 0.1 ns, 6 B: 0.0001 ns", "E6040", 84),
        ("0 B: 1 us, 2 B: 2 us, 3 B: 3 us, 4 B: 4 us, 5 B: 5 us", "E6008", 22),
        ("1 B: 1 us, 2 B: 2 us, 3 B: 3 us, 4 B: 4 us, 9000 PiB: 5 us", "E6042", 66),
        ("1 B: 1 us, 2 B: 2 us, 3 B: 3 us, 4 B: 4 us, 1.1 KiB: 5 us", "E6040", 66),
        ("1 B: -1 us, 2 B: 2 us, 3 B: 3 us, 4 B: 4 us, 5 B: 5 us", "E0110", 27),
        ("1 B 1 us, 2 B: 2 us, 3 B: 3 us, 4 B: 4 us, 5 B: 5 us", "E0110", 26),
        ("1 B: 1 us; 2 B: 2 us, 3 B: 3 us, 4 B: 4 us, 5 B: 5 us", "E0110", 31),
    ],
)  # fmt: skip
def test_malformed_tables(tmp_path: Path, points: str, code: str, column: int) -> None:
    """In a transfer and, all on one line, in `peer`."""
    path = tmp_path / "machine.vx"
    head = f"{MEASURED} {M} Topology T {{ memory: Memory::M,\n"
    path.write_text(
        f"{head}transfer Memory::M -> Memory::CPU_DRAM\n  :        measured [{points}] sync }}", encoding="utf-8"
    )
    assert found(path) == [(code, f"3:{column}")]
    path.write_text(f"{head}      peer: measured [{points}], instances: 2 }}", encoding="utf-8")
    assert found(path) == [(code, f"2:{column + 1}")]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"Memory M {\0}", "E9004"),
        (b"Memory M { \xff }", "E9004"),
        ("Memory M {}".encode("utf-16"), "E9004"),
        (Random(1).randbytes(2**20), "E9004"),
        (b" " * (4 * 2**20 + 1), "E9005"),
    ],
)
def test_what_is_no_text(tmp_path: Path, data: bytes, code: str) -> None:
    path = tmp_path / "machine.vx"
    path.write_bytes(data)
    with pytest.raises(CompileError) as refused:
        found(path)
    assert [(d.code, d.span.file, d.span.start) for d in refused.value.diagnostics] == [(code, str(path), 0)]
    importing = tmp_path / "importing.vx"
    importing.write_text('\n import "machine.vx";', encoding="utf-8")
    assert found(importing) == [(code, "2:2")]


def test_a_folder_and_a_pipe_are_no_machine_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.vx")
    for path in (tmp_path, tmp_path / "pipe.vx"):
        with pytest.raises(CompileError, match="E9002"):
            found(path)


@pytest.mark.parametrize("seed", range(3))
def test_random_characters_are_refused_soon(tmp_path: Path, seed: int) -> None:
    """A megabyte of them; each error has a place in the file."""
    path = tmp_path / "machine.vx"
    words = ["Memory", "Topology", "measured", "transfer", "KiB", "//", "->", "::", *'{}:,1[]"/%.-() \n']
    path.write_text("".join(Random(seed).choices(words, k=400_000)), encoding="utf-8")
    errors = found(path)
    assert 0 < len(errors) <= 100 and all(code.startswith("E") and ":" in at for code, at in errors)


def test_imports_in_a_circle_of_three(tmp_path: Path) -> None:
    for name, next_ in (("a", "b"), ("b", "c"), ("c", "a")):
        (tmp_path / f"{name}.vx").write_text(f'\nimport "{next_}.vx";', encoding="utf-8")
    sources, reporter = SourceMap(), Reporter()
    load_machine(tmp_path / "a.vx", "default", reporter, sources, "x86_64")
    (only,) = reporter.diagnostics
    assert (only.code, os.path.basename(only.span.file), sources.line_col(only.span)) == ("E6046", "c.vx", (2, 1))


def test_imports_without_end(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"{number}.vx").write_text(f'import "{number + 1}.vx";', encoding="utf-8")
    assert [code for code, _ in found(tmp_path / "0.vx")] == ["E6046"]


def test_a_contradiction_names_both_files(tmp_path: Path) -> None:
    (tmp_path / "part.vx").write_text("Memory M { capacity: 1 GiB }", encoding="utf-8")
    node = tmp_path / "node.vx"
    node.write_text('import "part.vx";\nMemory M { capacity: 2 GiB }', encoding="utf-8")
    reporter = Reporter()
    load_machine(node, "default", reporter, SourceMap(), "x86_64")
    (only,) = reporter.diagnostics
    assert only.code == "E6012"
    assert "part.vx" in only.message and "node.vx" in only.message
    assert [label.span.file for label in only.labels] == [str(tmp_path / "part.vx")]


def test_files_of_one_name_are_named_in_full(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "a.vx").write_text("Memory M { capacity: 1 GiB }", encoding="utf-8")
    main = tmp_path / "a.vx"
    main.write_text('import "parts/a.vx";\nMemory M { capacity: 2 GiB }', encoding="utf-8")
    reporter = Reporter()
    load_machine(main, "default", reporter, SourceMap(), "x86_64")
    assert str(folder / "a.vx") in reporter.diagnostics[0].message


def test_the_host_and_the_machine_may_not_contradict(tmp_path: Path) -> None:
    host, part = tmp_path / "host.vx", tmp_path / "part.vx"
    host.write_text("Memory CPU_DRAM { bandwidth: 1 GB/s }\nMemory M { capacity: 1 B }", encoding="utf-8")
    part.write_text("Memory M { capacity: 2 B }", encoding="utf-8")
    assert found(part, str(host)) == [("E6012", "1:1")]


def test_a_host_describes_its_memory_once(tmp_path: Path) -> None:
    host, part = tmp_path / "host.vx", tmp_path / "part.vx"
    host.write_text("Memory CPU_DRAM { bandwidth: 1 GB/s }\nMemory CPU_DRAM { bandwidth: 2 GB/s }", encoding="utf-8")
    part.write_text(M, encoding="utf-8")
    assert found(part, str(host)) == [("E6012", "2:1")]
    host.write_text("Memory NPU_HBM { capacity: 1 B }", encoding="utf-8")
    assert found(part, str(host)) == [("E6016", "1:1")]

"""`vx admit matrix`: the tables that ship, to the byte, and how a matrix is printed."""

from __future__ import annotations

import colorsys
import csv
import json
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from vx import resources
from vx.admission.matrix import Cell, Matrix, evaluate
from vx.admission.matrix_html import render_html
from vx.admission.matrix_render import amount, gib, render_csv, render_json, render_table
from vx.admission.matrix_table import find_table, read_table
from vx.cli.app import app
from vx.diagnostics.report import CompileError
from vx.diagnostics.source import SourceMap

MODELS: Mapping[str, tuple[int, int, int, int, int, int]] = {
    "8B": (32, 32, 8, 128, 14336, 128256),
    "70B": (80, 64, 8, 128, 28672, 128256),
    "405B": (126, 128, 8, 128, 53248, 128256),
}
"""Layers, heads, KV heads, head dim, FFN, vocabulary."""
ROWS = [
    ("8B", 4096, 1, 1), ("8B", 32768, 1, 1), ("8B", 131072, 1, 1),
    ("70B", 4096, 1, 1), ("70B", 8192, 1, 1), ("70B", 32768, 1, 1), ("70B", 131072, 1, 1),
    ("70B", 4096, 1, 2), ("70B", 4096, 1, 4), ("70B", 4096, 1, 8), ("70B", 32768, 1, 4), ("70B", 32768, 1, 8),
    ("70B", 4096, 8, 1), ("405B", 4096, 1, 8), ("405B", 32768, 1, 8),
]  # fmt: skip
CAPACITIES = {"a100-40": 40, "a100-80": 80, "h100": 80, "h200": 141, "b200": 192, "mi300x": 192}
GIB = 2**30
F16 = 2


def needed(exact: bool, model: str, context: int, batch: int, tp: int) -> int:
    """The formulas of the two tables, written down a second time."""
    layers, heads, kv_heads, head_dim, ffn, vocabulary = MODELS[model]
    d, kv = heads * head_dim, kv_heads * head_dim
    weights = 12 * layers * d * d
    if exact:
        weights = layers * (2 * d * d + 2 * d * kv + 3 * d * ffn + 2 * d) + 2 * vocabulary * d + d
    cache = 2 * layers * batch * context * kv
    assert weights % tp == cache % tp == 0
    return F16 * (weights // tp + cache // tp + batch * context * d)


def shipped(name: str, reserve: str | None) -> Matrix:
    return evaluate(read_table(find_table(name), SourceMap()), reserve, SourceMap())


@pytest.fixture(scope="module")
def published() -> Matrix:
    return shipped("published", "8%")


@pytest.fixture(scope="module")
def exact(published: Matrix) -> Matrix:
    made = shipped("exact", "8%")
    return Matrix(made.table, made.reserve, made.cells, published)


def stem(cell: Cell) -> str:
    return Path(cell.machine).name


# ---- the tables that ship ----------------------------------------------------------------------
def test_counts(published: Matrix, exact: Matrix) -> None:
    assert published.device_counts == {"admitted": 67, "rejected": 23, "unverified": 0}
    assert published.counts == {"admitted": 65, "rejected": 25, "unverified": 0}
    assert exact.device_counts == {"admitted": 65, "rejected": 25, "unverified": 0}
    assert exact.counts == {"admitted": 63, "rejected": 27, "unverified": 0}


@pytest.mark.parametrize("name", ["published", "exact"])
def test_every_cell_to_the_byte(name: str, request: pytest.FixtureRequest) -> None:
    matrix: Matrix = request.getfixturevalue(name)
    assert [cell.configuration.label for cell in matrix.cells] == [row for row in ROWS for _ in CAPACITIES]
    assert [stem(cell) for cell in matrix.cells] == list(CAPACITIES) * len(ROWS)
    for cell in matrix.cells:
        required = needed(name == "exact", *cell.configuration.label)  # type: ignore[arg-type]
        capacity = CAPACITIES[stem(cell)] * GIB
        kept = -(-capacity * 8 // 100)
        assert (cell.required, cell.capacity, cell.available) == (required, capacity, capacity - kept)
        assert (cell.device_margin, cell.margin) == (capacity - required, capacity - kept - required)
        assert cell.device_verdict == ("admitted" if required <= capacity else "rejected")
        assert cell.verdict == ("admitted" if required <= capacity - kept else "rejected")


def test_known_figures(published: Matrix, exact: Matrix) -> None:
    def of(matrix: Matrix, row: str) -> int | None:
        return next(cell.required for cell in matrix.cells if cell.configuration.name == row)

    assert (of(published, "8b-ctx4k"), of(exact, "8b-ctx4k")) == (13_455_327_232, 16_630_947_840)
    assert (of(published, "70b-ctx32k"), of(exact, "70b-ctx32k")) == (140_123_308_032, 152_381_702_144)
    assert (of(published, "405b-ctx32k-tp8"), of(exact, "405b-ctx32k-tp8")) == (104_656_273_408, 104_651_018_240)


def test_differences(exact: Matrix) -> None:
    found = {
        (mine.configuration.name, stem(mine)): (mine.required, their.required, mine.device_verdict, their.verdict)
        for mine, their in exact.differences()
    }
    assert found == {
        ("70b-ctx4k", "h200"): (142_516_699_136, 130_258_305_024, "admitted", "admitted"),
        ("70b-ctx8k", "h200"): (143_925_985_280, 131_667_591_168, "admitted", "admitted"),
        ("70b-ctx32k", "h200"): (152_381_702_144, 140_123_308_032, "rejected", "rejected"),
        ("70b-ctx4k-batch8", "h200"): (152_381_702_144, 140_123_308_032, "rejected", "rejected"),
    }


def test_the_tables_have_the_same_configurations() -> None:
    one, two = (read_table(find_table(name), SourceMap()) for name in ("published", "exact"))
    assert [row.label for row in one.configurations] == [row.label for row in two.configurations]
    assert list(one.machines) == list(two.machines) and two.compare == one.name


def test_the_command(tmp_path: Path) -> None:
    out = tmp_path / "matrix.json"
    result = CliRunner().invoke(app, ["admit", "matrix", "--table", "published", "--format", "json", "-o", str(out)])
    assert (result.exit_code, result.stdout) == (0, f"{out}\n")
    data = json.loads(out.read_text(encoding="utf-8"))
    assert data["counts"] == {"admitted": 67, "rejected": 23, "unverified": 0} and len(data["cells"]) == 90
    wanted = {
        "model",
        "context",
        "batch",
        "tp",
        "machine",
        "verdict",
        "required_bytes",
        "available_bytes",
        "margin_bytes",
    }
    assert all(wanted <= cell.keys() for cell in data["cells"])
    assert all((cell["margin_bytes"] >= 0) == (cell["verdict"] == "admitted") for cell in data["cells"])


def test_exact_is_compared_without_being_asked() -> None:
    result = CliRunner().invoke(app, ["admit", "matrix", "--table", "exact"])
    assert result.exit_code == 0
    assert "65 admitted, 25 rejected, 0 unverified" in result.stdout
    assert "2 verdicts differ from published" in result.stdout
    assert "152381702144 bytes" in result.stdout and "140123308032 bytes" in result.stdout


# ---- tables of a user --------------------------------------------------------------------------
MACHINE = """Memory HBM {{ capacity: {bytes} B, managed: explicit, scope: device }}
Topology Device {{ memory: Memory::HBM, arch: nvptx64,
  transfer Memory::CPU_DRAM -> Memory::HBM transfer Memory::HBM -> Memory::CPU_DRAM }}
"""
PROGRAM = """const CTX : i64 = 1;
const COPIES : i64 = 1;
fn read(_t : &Tensor<u8, [CTX * COPIES], Topology::Device[0]>) -> void { }
fn main() -> i32 { let t = Tensor<u8, [CTX * COPIES], Topology::Device[0]>::new();  read(&t);  0 }
"""
UNBOUNDED = """const CTX : i64 = 1;
const COPIES : i64 = 1;
fn read(_t : &Tensor<u8, [?], Topology::Device[0]>) -> void { }
fn copy(h : &Tensor<u8, [?]>) -> void { let d = transfer(h, Topology::Device[0]);  read(&d); }
fn main() -> i32 { let h = Tensor<u8, [4]>::new();  copy(&h);  0 }
"""
TABLE = """program = "p.vx"
machines = ["small.vx", "large.vx"]
[models.m]
[configurations]
one = { model = "m", context = 1000 }
two = { model = "m", context = 1000, constants = { COPIES = 2 } }
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "p.vx").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "small.vx").write_text(MACHINE.format(bytes=1000), encoding="utf-8")
    (tmp_path / "large.vx").write_text(MACHINE.format(bytes=1999), encoding="utf-8")
    (tmp_path / "t.toml").write_text(TABLE, encoding="utf-8")
    return tmp_path / "t.toml"


def verdicts(path: Path, reserve: str | None = None) -> list[tuple[str, int | None]]:
    matrix = evaluate(read_table(path, SourceMap()), reserve, SourceMap())
    return [(cell.verdict, cell.margin) for cell in matrix.cells]


def test_a_table_of_ones_own(own: Path) -> None:
    assert verdicts(own) == [("admitted", 0), ("admitted", 999), ("rejected", -1000), ("rejected", -1)]


def test_a_reserve_of_one_byte_is_kept(own: Path) -> None:
    assert verdicts(own, "1 B")[:2] == [("rejected", -1), ("admitted", 998)]


def test_every_cell_is_evaluated_anew(own: Path) -> None:
    before = verdicts(own)
    own.with_name("large.vx").write_text(MACHINE.format(bytes=2000), encoding="utf-8")
    own.with_name("small.vx").write_text(MACHINE.format(bytes=999), encoding="utf-8")
    assert before != verdicts(own) == [("rejected", -1), ("admitted", 1000), ("rejected", -1001), ("admitted", 0)]
    own.with_name("p.vx").write_text(PROGRAM.replace("u8", "u16"), encoding="utf-8")
    assert verdicts(own)[1] == ("admitted", 0)


def test_a_program_that_is_wrong_is_no_cell(own: Path) -> None:
    own.with_name("p.vx").write_text(
        PROGRAM.replace("0 }\n", "nothing }\n", 1).replace("read(&t);  0", "read(&t);  nope")
    )
    sources = SourceMap()
    with pytest.raises(CompileError) as refused:
        evaluate(read_table(own, sources), None, sources)
    assert refused.value.diagnostics[-1].notes[-1] == "in configuration one on small.vx"
    assert str(own.with_name("p.vx")) in sources


def test_a_machine_that_is_wrong_is_no_cell(own: Path) -> None:
    own.with_name("large.vx").write_text("Memory HBM { capacity: 1.1 KiB }", encoding="utf-8")
    result = CliRunner().invoke(app, ["admit", "matrix", "--table", str(own)])
    assert result.exit_code == 1 and not result.stdout
    assert "E6040" in result.stderr and "in configuration one on large.vx" in result.stderr


def test_a_space_that_a_machine_lacks_is_a_rejection(own: Path) -> None:
    own.with_name("small.vx").write_text("Memory M { capacity: 1 GiB }\nTopology Other { memory: Memory::M }\n")
    found = evaluate(read_table(own, SourceMap()), None, SourceMap()).cells
    assert (found[0].verdict, found[0].required) == ("rejected", None)
    assert [error.code for error in found[0].answer.errors][:1] == ["E6025"] and found[1].verdict == "admitted"


def test_what_is_unverified_fails_the_command(own: Path) -> None:
    own.with_name("p.vx").write_text(UNBOUNDED, encoding="utf-8")
    result = CliRunner().invoke(app, ["admit", "matrix", "--table", str(own), "--format", "json"])
    counts = json.loads(result.stdout)["counts"]
    assert result.exit_code == 1 and counts == {"admitted": 0, "rejected": 0, "unverified": 4}


def test_a_machine_without_a_capacity_has_no_margin(own: Path) -> None:
    own.write_text(TABLE.replace('"small.vx", "large.vx"', '"cpu"'), encoding="utf-8")
    matrix = evaluate(read_table(own, SourceMap()), "8%", SourceMap())
    cell = matrix.cells[0]
    assert (cell.verdict, cell.required, cell.available, cell.margin) == ("admitted", 1000, None, None)
    assert "✓ admitted" in render_table(matrix) and "no figure" in render_html(matrix)
    assert next(csv.DictReader(render_csv(matrix).splitlines()))["margin_bytes"] == ""


def test_a_role_is_needed_where_there_are_several(own: Path) -> None:
    roles = PROGRAM.replace("fn main() -> i32", "role fn one() -> i32") + (
        "role fn two() -> i32 { 0 }\nfn main() -> i32 { if CTX == 1 { one() } else { two() } }\n"
    )
    own.with_name("p.vx").write_text(roles, encoding="utf-8")
    for line, message in (("", "does not say which role"), ('role = "on"\n', "did you mean `one`?")):
        own.write_text(line + TABLE, encoding="utf-8")
        result = CliRunner().invoke(app, ["admit", "matrix", "--table", str(own)])
        assert result.exit_code == 1 and "E9040" in result.stderr and message in result.stderr
    own.write_text('role = "one"\n' + TABLE, encoding="utf-8")
    assert verdicts(own)[0] == ("admitted", 0)


# ---- formats -----------------------------------------------------------------------------------
def test_csv(exact: Matrix) -> None:
    rows = list(csv.DictReader(render_csv(exact).splitlines()))
    assert len(rows) == len(exact.cells)
    for row, cell in zip(rows, exact.cells, strict=True):
        assert (row["machine"], row["verdict"]) == (cell.machine, cell.verdict)
        assert int(row["required_bytes"]) + int(row["margin_bytes"]) == int(row["available_bytes"])


def test_json(exact: Matrix) -> None:
    data = json.loads(render_json(exact))
    assert data["counts"] == exact.counts and data["device_counts"] == exact.device_counts
    assert data["compared_with"] == "published" and len(data["differences"]) == 4
    assert {one["other"]["required_bytes"] for one in data["differences"]} >= {140_123_308_032}


def test_table(exact: Matrix) -> None:
    text = render_table(exact)
    assert "63 admitted, 27 rejected, 0 unverified" in text and "65 admitted, 25 rejected, 0 unverified" in text
    assert text.count("✗") == 25 + 27 and text.count("✓") == 65 + 63


class Page(HTMLParser):
    """The cells of a page, with the colour that each has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells: list[tuple[str, str]] = []
        self.attributes: list[tuple[str, str | None]] = []
        self._style: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        style = dict(attrs).get("style")
        self._style = style if tag == "td" else self._style

    def handle_data(self, data: str) -> None:
        if self._style:
            self.cells.append((data, self._style))
            self._style = None


def test_html(exact: Matrix) -> None:
    text = render_html(exact)
    page = Page(text)
    assert len(page.cells) == 90
    for (shown, style), cell in zip(page.cells, exact.cells, strict=True):
        assert cell.margin is not None
        assert shown == f"{cell.verdict} {gib(cell.margin)}" and contrast(style) > 4.5
    names = {name for name, _ in page.attributes}
    assert not names & {"src", "href"} and "url(" not in text and "<script" not in text
    assert names >= {"lang", "scope"} and "<caption>" in text


def contrast(style: str) -> float:
    """Of the page's text on a cell's colour, by the formula of WCAG 2."""
    match = re.fullmatch(r"background:hsl\((\d+) (\d+)% (\d+)%\)", style)
    assert match is not None
    hue, saturation, lightness = (int(part) for part in match.groups())

    def linear(part: float) -> float:
        return part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4

    def luminance(parts: tuple[float, float, float]) -> float:
        return sum(weight * linear(part) for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))

    background = luminance(colorsys.hls_to_rgb(hue / 360, lightness / 100, saturation / 100))
    return (background + 0.05) / (luminance((0x1A / 255,) * 3) + 0.05)


def test_names_are_no_markup(own: Path) -> None:
    own.write_text(TABLE.replace("one =", '"<b>&" ='), encoding="utf-8")
    text = render_html(evaluate(read_table(own, SourceMap()), None, SourceMap()))
    assert "<b>" not in text and "&lt;b&gt;&amp;" in text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (-1, "-1 B"), (1023, "1023 B"), (1024, "1 KiB"), (3 * GIB // 2, "1.5 GiB"), (-40 * GIB, "-40 GiB")],
)
def test_amounts(count: int, text: str) -> None:
    assert amount(count) == text


def test_a_small_margin_keeps_its_sign() -> None:
    assert (gib(-1), gib(1), gib(0), gib(-GIB)) == ("-1 B", "+1 B", "+0.00", "-1.00")


def test_every_table_that_ships_is_found() -> None:
    folder = resources.find("programs", "tables")
    assert sorted(path.stem for path in folder.glob("*.toml")) == ["exact", "published"]
    assert all(find_table(name) == folder / f"{name}.toml" for name in ("exact", "published"))

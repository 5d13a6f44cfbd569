"""Tables of configurations: what is wrong with one is said, with the place."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from vx import resources
from vx.admission.matrix_table import find_table, read_table
from vx.cli.app import app
from vx.diagnostics.report import CompileError
from vx.diagnostics.source import SourceMap

GOOD = """program = "admit.vx"
host = "default"
machines = [
  "h200",
  "mine.vx",
]

[constants]
EXACT = true

[models.8B]
LAYERS = 32
EPS = 1e-5

[models.dir]
directory = "checkpoint"

[configurations]
chat  = { model = "8B", context = 4096, batch = 2, tp = 4 }
other = { model = "8B", constants = { EXACT = false, CTX = 7 } }
third = { model = "dir", context = 4096 }
"""


def read(path: Path, text: str) -> object:
    file = path / "t.toml"
    file.write_text(text, encoding="utf-8")
    return read_table(file, SourceMap())


def test_a_table(tmp_path: Path) -> None:
    (tmp_path / "mine.vx").write_text("", encoding="utf-8")
    (tmp_path / "t.toml").write_text(GOOD, encoding="utf-8")
    table = read_table(tmp_path / "t.toml", SourceMap())
    assert table.name == "t" and table.role is None and table.host == "default" and table.compare is None
    assert table.program == str(resources.find("programs", "admit.vx"))
    assert table.machines == {"h200": "h200", "mine.vx": str(tmp_path / "mine.vx")}
    chat, other, third = table.configurations
    assert chat.label == ("8B", 4096, 2, 4) and other.label == ("8B", None, None, None)
    assert dict(chat.consts) == {
        "EXACT": "true", "LAYERS": "32", "EPS": "1e-05", "CTX": "4096", "BATCH": "2", "TP": "4",
    }  # fmt: skip
    assert dict(other.consts) == {"EXACT": "false", "LAYERS": "32", "EPS": "1e-05", "CTX": "7"}
    assert third.directory == str(tmp_path / "checkpoint") and dict(third.consts) == {"EXACT": "true", "CTX": "4096"}


CHAT = 'chat  = { model = "8B", context = 4096, batch = 2, tp = 4 }'
MACHINES = '[\n  "h200",\n  "mine.vx",\n]'
WRONG = {
    "syntax": (GOOD.replace("[constants]", "[constants"), (8, 11), "not TOML"),
    "unfinished": (GOOD + "[", (22, 2), "not TOML"),
    "row_twice": (GOOD + CHAT.replace("4096", "1") + "\n", (22, 57), "not TOML"),
    "same_row": (GOOD + CHAT.replace("chat", "talk") + "\n", (22, 1), "`talk` is the same configuration as `chat`"),
    "unknown_model": (GOOD.replace('{ model = "8B", context', '{ model = "8C", context'), (19, 20), "no model `8C`"),
    "no_model": (GOOD.replace('model = "8B", context', "context"), (19, 1), "does not say which model"),
    "model_is_a_number": (GOOD.replace('model = "8B", context', "model = 8, context"), (19, 19), "no model `8`"),
    "unknown_field": (GOOD.replace("batch = 2", "bacth = 2"), (19, 41), "`bacth` means nothing"),
    "unknown_key": (GOOD.replace("host =", "hots ="), (2, 1), "`hots` means nothing"),
    "text_for_number": (GOOD.replace("tp = 4", 'tp = "4"'), (19, 52), "`tp` is a whole number, not `4`"),
    "decimal_for_number": (GOOD.replace("batch = 2", "batch = 2.5"), (19, 41), "a whole number, not `2.5`"),
    "truth_for_number": (GOOD.replace("batch = 2", "batch = true"), (19, 41), "a whole number"),
    "zero": (GOOD.replace("tp = 4", "tp = 0"), (19, 52), "at least 1"),
    "negative": (GOOD.replace("batch = 2", "batch = -2"), (19, 41), "at least 1"),
    "huge": (GOOD.replace("= 4096, batch", f"= {2**63}, batch"), (19, 25), f"at most {2**63 - 1}"),
    "endless": (GOOD.replace("= 4096, batch", f"= {'9' * 5000}, batch"), (19, 1), "too many digits"),
    "nested": (GOOD.replace("EXACT = true", f"EXACT = {'[' * 100_000}"), (9, 1), "nested too deeply"),
    "empty": ("", (1, 1), "machines"),
    "no_configurations": (GOOD.split("chat")[0], (18, 2), "nothing to evaluate"),
    "no_machines": (GOOD.replace(MACHINES, "[]"), (3, 1), "at least one machine"),
    "machines_are_numbers": (GOOD.replace(MACHINES, "[1]"), (3, 1), "a list of at least one machine file"),
    "machine_twice": (GOOD.replace('"mine.vx"', '"h200"'), (5, 3), "`h200` is given twice"),
    "no_program": (GOOD.replace('program = "admit.vx"\n', ""), (1, 1), "which program"),
    "program_is_a_number": (GOOD.replace('"admit.vx"', "1"), (1, 1), "`program` is a text"),
    "constant_is_a_list": (GOOD.replace("LAYERS = 32", "LAYERS = [32]"), (12, 1), "`LAYERS` is not a number"),
    "constant_is_a_date": (GOOD.replace("EXACT = true", "EXACT = 2020-01-01"), (9, 1), "`EXACT` is not a number"),
    "context_twice": (GOOD.replace("tp = 4 }", "constants = { CTX = 1 } }"), (19, 66), "`CTX` is what `context` says"),
    "models_are_a_list": ("models = []\n" + GOOD.replace("[models.8B]\n", "").replace("[models.dir]\n", ""), (1, 1), "a table of tables"),
    "row_is_a_number": (GOOD + "more = 1\n", (22, 1), "`more` is not a table"),
    "directory_is_a_number": (GOOD.replace('"checkpoint"', "1"), (16, 1), "`directory` is the path"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_with_its_place(name: str, tmp_path: Path) -> None:
    text, place, message = WRONG[name]
    file, sources = tmp_path / "t.toml", SourceMap()
    file.write_text(text, encoding="utf-8")
    with pytest.raises(CompileError) as refused:
        read_table(file, sources)
    (found,) = refused.value.diagnostics
    assert found.code == "E9040" and message in found.message
    line, column = sources.line_col(found.span)
    assert line == place[0]
    assert column == place[1] or message == "not TOML"  # which column that is depends on Python's version


def test_a_near_name_is_offered(tmp_path: Path) -> None:
    for text, near in (
        (GOOD.replace('model = "dir"', 'model = "dri"'), "did you mean `dir`?"),
        (GOOD.replace("batch = 2", "bacth = 2"), "did you mean `batch`?"),
    ):
        with pytest.raises(CompileError) as refused:
            read(tmp_path, text)
        assert refused.value.diagnostics[0].helps[0].text == near


def test_carriage_returns_change_no_place(tmp_path: Path) -> None:
    text = WRONG["zero"][0].replace("\n", "\r\n")
    file, sources = tmp_path / "t.toml", SourceMap()
    file.write_bytes(text.encode())
    with pytest.raises(CompileError) as refused:
        read_table(file, sources)
    assert sources.line_col(refused.value.diagnostics[0].span) == (19, 52)


def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "admit.md"
    text = page.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]
    (tmp_path / "t.toml").write_text(text.replace('"rented.vx"', '"b200"'), encoding="utf-8")
    result = CliRunner().invoke(app, ["admit", "matrix", "--table", str(tmp_path / "t.toml")])
    assert result.exit_code == 0 and "2 configurations on 3 machines" in result.stdout


def test_a_program_without_the_constant(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(
        GOOD.replace('"mine.vx"', '"b200"').replace("EPS = 1e-5\n", "LAYRES = 3\n"), encoding="utf-8"
    )
    result = CliRunner().invoke(app, ["admit", "matrix", "--table", str(tmp_path / "t.toml")])
    assert result.exit_code == 1 and not result.stdout
    assert "E0211" in result.stderr and "LAYERS" in result.stderr and "in configuration chat on h200" in result.stderr


def test_numbers_beyond_any_machine_are_refused_not_wrapped(tmp_path: Path) -> None:
    text = (
        'program = "admit.vx"\nmachines = ["h200"]\n[models.m]\n[configurations]\nr = { model = "m", context = %d }\n'
    )
    for context, code in ((2**40, None), (2**63 - 1, "E7006")):
        (tmp_path / "t.toml").write_text(text % context, encoding="utf-8")
        result = CliRunner().invoke(app, ["admit", "matrix", "--table", str(tmp_path / "t.toml")])
        assert result.exit_code == (1 if code else 0)
        assert (code or "0 admitted, 1 rejected") in result.stdout + result.stderr


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ([], 2, "Missing option '--table'"),
        (["--table", "exakt"], 2, "did you mean `exact`?"),
        (["--table", "nothing-like-it"], 2, "there are exact and published"),
        (["--table", "nothing.toml"], 1, "E9001"),
        (["--table", "/"], 1, "E9002"),
        (["--table", "published", "--compare", "publish"], 2, "did you mean `published`?"),
        (["--table", "published", "--reserve", "120%"], 2, "leaves nothing"),
        (["--table", "published", "--reserve", "-1"], 2, "is not a reserve"),
        (["--table", "published", "--reserve", "8"], 2, "8"),
        (["--table", "published", "--format", "pdf"], 2, "pdf"),
        (["--table", "{small}", "-o", "/nonexistent/out"], 1, "E9021"),
        (["--table", "{small}", "-o", "/"], 1, "E9021"),
    ],
)
def test_bad_usage(words: list[str], status: int, message: str, tmp_path: Path) -> None:
    small = tmp_path / "small.toml"
    small.write_text(
        'program = "admit.vx"\nmachines = ["h200"]\n[models.m]\n[configurations]\nr = { model = "m" }\n',
        encoding="utf-8",
    )
    result = CliRunner().invoke(app, ["admit", "matrix", *(word.format(small=small) for word in words)])
    assert result.exit_code == status and not result.stdout
    assert message in " ".join(result.stderr.replace("│", " ").split())


def test_a_name_is_a_table_that_ships_and_a_path_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "exact").write_text("", encoding="utf-8")
    assert find_table("exact") == resources.find("programs", "tables", "exact.toml")
    assert find_table("./exact.toml") == Path("exact.toml") and find_table("a/b") == Path("a/b")

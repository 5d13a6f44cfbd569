"""`vx admit`: a verdict for each role and machine, each for itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from vx import resources
from vx.admission.plan import Verdict
from vx.admission.roles import Answer, admitted, answer, role_names
from vx.cli.app import app
from vx.diagnostics.report import Reporter
from vx.diagnostics.source import SourceMap
from vx.options import Options

PROGRAM = """struct Tiles<const D : i32> { a : Tensor<u8, [1000], Topology::Device[D]>, b : Tensor<u8, [24], Topology::Device[D]> }
fn tiles<const D : i32>() -> Tiles<D> {
  Tiles<D> { a: Tensor<u8, [1000], Topology::Device[D]>::new(), b: Tensor<u8, [24], Topology::Device[D]>::new() }
}
fn read<const D : i32>(_t : &Tiles<D>) -> void { }
role fn single() -> i32 { let t = tiles<0>();  read<0>(&t);  0 }
role fn disagg() -> i32 {
  let t = tiles<0>();
  let u = tiles<1>();
  read<0>(&t);  read<1>(&u);
  0
}
role fn nowhere() -> i32 { let x = Tensor<u8, [4], Memory::SCRATCHPAD>::new();  0 }
role fn huge() -> i32 { let x = Tensor<u8, [5000], Topology::Device[0]>::new();  0 }
fn main() -> i32 { match 0 { 0 => { single() } 1 => { disagg() } 2 => { nowhere() } _ => { huge() } } }
"""
MACHINE = """Memory HBM {{ capacity: {capacity}, managed: explicit, scope: device }}
Topology Device {{ memory: Memory::HBM, arch: nvptx64, instances: {instances}, peer: 450 GB/s,
  transfer Memory::CPU_DRAM -> Memory::HBM transfer Memory::HBM -> Memory::CPU_DRAM }}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.vx").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "one.vx").write_text(MACHINE.format(capacity="1024 B", instances=1).replace("peer: 450 GB/s,", ""))
    (tmp_path / "two.vx").write_text(MACHINE.format(capacity="1 KiB", instances=2), encoding="utf-8")
    (tmp_path / "tight.vx").write_text(MACHINE.format(capacity="1023 B", instances=2), encoding="utf-8")
    return tmp_path


def ask(role: str, machine: str, reserve: str | None = None) -> Answer:
    return answer("p.vx", Options(machine=machine, host="default", reserve=reserve), role, SourceMap())


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["admit", *words])
    return result.exit_code, result.stdout, " ".join(result.stderr.replace("│", " ").split())


# ---- answers -----------------------------------------------------------------------------------
def test_roles_are_those_of_the_main_file(place: Path) -> None:
    assert role_names("p.vx", SourceMap(), Reporter()) == ("single", "disagg", "nowhere", "huge")
    (place / "plain.vx").write_text("fn main() -> i32 { 0 }\n", encoding="utf-8")
    assert role_names("plain.vx", SourceMap(), Reporter()) == ("main",)


@pytest.mark.parametrize(
    ("role", "machine", "verdict"),
    [
        ("single", "one.vx", Verdict.ADMITTED),
        ("single", "tight.vx", Verdict.REJECTED),
        ("disagg", "one.vx", None),
        ("disagg", "two.vx", Verdict.ADMITTED),
        ("disagg", "tight.vx", Verdict.REJECTED),
        ("nowhere", "one.vx", Verdict.REJECTED),
        ("huge", "two.vx", Verdict.REJECTED),
    ],
)
def test_a_verdict_says_nothing_of_other_roles(role: str, machine: str, verdict: Verdict | None, place: Path) -> None:
    assert ask(role, machine).verdict is verdict


def test_one_byte_decides(place: Path) -> None:
    fits, misses = ask("single", "one.vx"), ask("single", "tight.vx")
    assert [(arena.bytes, arena.device_margin) for arena in fits.arenas] == [(1024, 0)]
    assert [(arena.bytes, arena.device_margin) for arena in misses.arenas] == [(1024, -1)]
    assert [error.code for error in misses.errors] == ["E6010"] and not fits.errors


def test_a_reserve_is_for_deployment_only(place: Path) -> None:
    found = ask("single", "two.vx", "1 B")
    assert (found.verdict, found.device_verdict) == (Verdict.REJECTED, Verdict.ADMITTED)
    assert [error.code for error in found.errors] == ["E6037"]
    assert found.tightest is not None
    assert (found.tightest.device_margin, found.tightest.deployment_margin) == (0, -1)


def test_what_is_unverified_is_not_admitted_without_its_reserve_either(place: Path) -> None:
    (place / "p.vx").write_text(
        """fn read(_t : &Tensor<u8, [?], Topology::Device[0]>) -> void { }
fn copy(h : &Tensor<u8, [?]>) -> void { let d = transfer(h, Topology::Device[0]);  read(&d); }
fn main() -> i32 {
  copy(&Tensor<u8, [4]>::new());
  let t = Tensor<u8, [1024], Topology::Device[1]>::new();
  look(&t);
  0
}
"""
        "fn look(_t : &Tensor<u8, [1024], Topology::Device[1]>) -> void { }\n",
        encoding="utf-8",
    )
    without, with_ = ask("main", "two.vx"), ask("main", "two.vx", "1 B")
    assert (without.verdict, without.device_verdict) == (Verdict.UNVERIFIED, Verdict.UNVERIFIED)
    assert (with_.verdict, with_.device_verdict) == (Verdict.REJECTED, Verdict.UNVERIFIED)
    assert [error.code for error in with_.errors] == ["E6037"]


def test_what_a_machine_lacks_is_named(place: Path) -> None:
    assert ask("disagg", "one.vx").needs == "needs Device[1]"
    (place / "p.vx").write_text(
        "fn main() -> i32 { let x = Tensor<u8, [4], Topology::Device[3]>::new();  0 }\n", encoding="utf-8"
    )
    found = ask("main", "two.vx")
    assert (found.verdict, found.needs) == (None, "needs Device[3]")


def test_messages_show_the_program_as_it_is_written(place: Path) -> None:
    found = ask("nowhere", "one.vx")
    (error,) = found.errors
    assert error.code == "E6025" and found.sources.line_col(error.span) == (13, 52)
    assert found.sources.text("p.vx") == PROGRAM


def test_each_answer_reads_the_files_again(place: Path) -> None:
    assert ask("single", "one.vx").verdict is Verdict.ADMITTED
    (place / "one.vx").write_text((place / "tight.vx").read_text(encoding="utf-8"), encoding="utf-8")
    assert ask("single", "one.vx").verdict is Verdict.REJECTED
    (place / "p.vx").write_text(PROGRAM.replace("[24]", "[23]"), encoding="utf-8")
    assert ask("single", "one.vx").verdict is Verdict.ADMITTED


def test_the_roles_that_are_left_out_may_be_one_line_or_many(place: Path) -> None:
    for body in ("{}", "{ }", "{ 0; }", "{\n\n  let x = 1;\n  // comment é 漢字\n}"):
        (place / "p.vx").write_text(f"role fn other() -> void {body}\n" + PROGRAM.replace("3 => {", "3 => {"))
        assert ask("single", "one.vx").verdict is Verdict.ADMITTED


@pytest.mark.parametrize(
    ("verdicts", "named", "fine"),
    [
        ([Verdict.ADMITTED, Verdict.ADMITTED], False, True),
        ([Verdict.ADMITTED, None], False, True),
        ([Verdict.ADMITTED, None], True, False),
        ([None, None], False, False),
        ([], False, False),
        ([Verdict.ADMITTED, Verdict.REJECTED], False, False),
        ([Verdict.ADMITTED, Verdict.UNVERIFIED], False, False),
    ],
)
def test_what_counts_as_admitted(verdicts: list[Verdict | None], named: bool, fine: bool) -> None:
    answers = [Answer(f"r{at}", "m", verdict, "", None, None, (), SourceMap()) for at, verdict in enumerate(verdicts)]
    assert admitted(tuple(answers), named) is fine


def test_each_machine_must_admit_some_role() -> None:
    answers = [
        Answer("r", machine, verdict, "", None, None, (), SourceMap())
        for machine, verdict in (("a", Verdict.ADMITTED), ("b", None))
    ]
    assert not admitted(tuple(answers), False)


# ---- the command -------------------------------------------------------------------------------
def test_a_line_for_each_role_and_machine(place: Path) -> None:
    status, out, err = run("p.vx", "--machine", "one.vx", "--machine", "two.vx")
    head, blank, *lines = out.splitlines()
    assert (status, head, blank) == (1, "p.vx, host default", "")
    assert [line.split()[:3] for line in lines if not line.startswith(" ")] == [
        ["single", "one.vx", "admitted"], ["disagg", "one.vx", "not"],
        ["nowhere", "one.vx", "rejected"], ["huge", "one.vx", "rejected"],
        ["single", "two.vx", "admitted"], ["disagg", "two.vx", "admitted"],
        ["nowhere", "two.vx", "rejected"], ["huge", "two.vx", "rejected"],
    ]  # fmt: skip
    assert "HBM: 1 KiB of 1 KiB, device margin 0 B, deployment margin 0 B" in lines[0]
    assert lines[1].endswith("needs Device[1]") and lines[2].endswith("E6025")
    assert lines[6].strip().startswith("HBM of instance 1: 1 KiB of 1 KiB")
    assert "nowhere on one.vx: Error[E6025]" in err and "huge on two.vx: Error[E6009]" in err
    assert "single on" not in err and "disagg on" not in err


def test_status_of_roles_that_are_named(place: Path) -> None:
    assert run("p.vx", "--machine", "one.vx", "--role", "single")[0] == 0
    assert run("p.vx", "--machine", "one.vx", "--role", "disagg")[0] == 1
    assert run("p.vx", "--machine", "two.vx", "--role", "disagg", "--role", "single")[0] == 0
    assert run("p.vx", "--machine", "two.vx", "--machine", "tight.vx", "--role", "single")[0] == 1


def test_items_add_up(place: Path) -> None:
    status, out, _ = run("p.vx", "--machine", "one.vx", "--role", "single", "--reserve", "0.5%", "-v")
    figures = {line.split()[0]: line.split() for line in out.splitlines() if " bytes" in line}
    assert status == 1
    assert figures["Tiles"][1] == "1,024" and figures["reserve"][1] == "6" and figures["capacity"][1] == "1,024"
    assert "2 tiles" in " ".join(figures["Tiles"])


def test_json(place: Path) -> None:
    words = ("--machine", "one.vx", "--machine", "tight.vx", "--role", "single", "--role", "disagg", "--format", "json")
    status, out, err = run("p.vx", *words)
    data = json.loads(out)
    assert status == 1 and data["admitted"] is False and not err
    assert [(one["role"], one["machine"], one["verdict"], one["needs"]) for one in data["answers"]] == [
        ("single", "one.vx", "admitted", None),
        ("disagg", "one.vx", "not applicable", "Device[1]"),
        ("single", "tight.vx", "rejected", None),
        ("disagg", "tight.vx", "rejected", None),
    ]
    (space,) = data["answers"][0]["spaces"]
    assert (space["required_bytes"], space["margins"]) == (1024, {"device": 0, "deployment": 0})
    assert [(item["name"], item["bytes"]) for item in space["items"]] == [("Tiles", 1024)]
    assert [space["instance"] for space in data["answers"][3]["spaces"]] == [0, 1]
    assert {found["code"] for found in data["answers"][2]["diagnostics"]} == {"E6010"}


def test_what_is_wrong_by_itself_has_no_verdict(place: Path) -> None:
    (place / "bad.vx").write_text("Memory HBM { capacity: 1.1 KiB }", encoding="utf-8")
    (place / "typo.vx").write_text("fn main() -> i32 { nothing }\n", encoding="utf-8")
    for words, code in (
        (("p.vx", "--machine", "bad.vx"), "E6040"),
        (("p.vx", "--machine", "p.vx"), "E6045"),
        (("typo.vx", "--machine", "one.vx"), "E0201"),
        (("p.vx", "--machine", "one.vx", "--const", "N=1"), "E0211"),
        (("p.vx", "--machine", "one.vx", "--host", "bad.vx"), "E6040"),
    ):
        status, out, err = run(*words)
        assert (status, out) == (1, "") and f"Error[{code}]" in err and "^" in err


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ([], 2, "Missing argument 'PROGRAM'"),
        (["p.vx"], 2, "Missing option '--machine'"),
        (["nothing.vx", "--machine", "one.vx"], 1, "E9001"),
        ([".", "--machine", "one.vx"], 1, "E9002"),
        (["p.vx", "--machine", "."], 1, "E9002"),
        (["p.vx", "--machine", "h2000"], 1, "did you mean `h200`?"),
        (["p.vx", "--machine", "onee.vx"], 1, "did you mean one.vx?"),
        (["p.vx", "--machine", "one.vx", "--host", "hots.vx"], 1, "E9001"),
        (["p.vx", "--machine", "one.vx", "--machine", "one.vx"], 2, "one.vx is given twice"),
        (["p.vx", "--machine", "one.vx", "--machine", "./one.vx"], 2, "is the same file as one.vx"),
        (["p.vx", "--machine", "one.vx", "--role", "singel"], 2, "did you mean single?"),
        (["p.vx", "--machine", "one.vx", "--role", "xyz"], 2, "it has single, disagg, nowhere, huge"),
        (["p.vx", "--machine", "one.vx", "--role", "single", "--role", "single"], 2, "given twice"),
        (["p.vx", "--machine", "one.vx", "--reserve", "120%"], 2, "leaves nothing of the capacity"),
        (["p.vx", "--machine", "one.vx", "--reserve", "-1"], 2, "is not a reserve"),
        (["p.vx", "--machine", "one.vx", "--reserve", "two GiB"], 2, "is not a reserve"),
        (["p.vx", "--machine", "one.vx", "--const", "N"], 2, "is not NAME=VALUE"),
        (["p.vx", "--machine", "one.vx", "--format", "xml"], 2, "xml"),
    ],
)
def test_bad_usage(words: list[str], status: int, message: str, place: Path) -> None:
    found, out, err = run(*words)
    assert (found, out) == (status, "") and message in err


def test_machines_of_the_fleet_have_names(place: Path) -> None:
    admit = str(resources.find("programs", "admit.vx"))
    for name in ("h200", "published/h200", str(resources.find("fleet", "h200.vx"))):
        status, out, _ = run(admit, "--machine", name)
        assert status == 0 and "15.49 GiB" in out
    (place / "h200").write_text((place / "one.vx").read_text(encoding="utf-8"), encoding="utf-8")
    assert run(admit, "--machine", "h200")[0] == 1, "a file that is there goes before the fleet"


def test_a_fleet_name_and_its_path_are_one_build() -> None:
    path = str(resources.find("fleet", "h200.vx"))
    assert Options(machine="h200").canonical() == Options(machine=path).canonical()
    assert Options(host="host-x86-epyc-9654").canonical() != Options(host="default").canonical()


# ---- the programs that ship --------------------------------------------------------------------
LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "max_position_embeddings": 131072, "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "tie_word_embeddings": False, "vocab_size": 128256,
    "bos_token_id": 128000, "eos_token_id": 128001,
}  # fmt: skip
GIB = 2**30


@pytest.mark.parametrize(("dtype", "status", "held"), [("float32", 1, 61.9), ("float16", 0, 31.0)])
def test_llama_8b_with_its_whole_context(dtype: str, status: int, held: float, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA_8B, "torch_dtype": dtype}), encoding="utf-8")
    words = ("--machine", "a100-40", "--model", str(tmp_path), "--const", "CTX=131072", "--format", "json")
    found, out, _ = run(str(resources.find("programs", "llama.vx")), *words)
    answers = {one["role"]: one for one in json.loads(out)["answers"]}
    assert found == status
    assert answers["single"]["verdict"] == ("rejected" if status else "admitted")
    assert {one["verdict"] for role, one in answers.items() if role != "single"} <= {"not applicable"}
    (space,) = answers["single"]["spaces"]
    items = [item for item in space["items"] if item["kind"] != "reserve"]
    assert sum(item["bytes"] for item in items) == space["required_bytes"]
    weights = sum(item["bytes"] for item in items if item["kind"] == "weights")
    cache = sum(item["bytes"] for item in items if item["name"] == "Cache")
    assert round((weights + cache) / GIB, 1) == held


@pytest.mark.parametrize("exact", [True, False])
def test_admit_program_runs(exact: bool) -> None:
    import vx

    small = {"LAYERS": 1, "HEADS": 2, "KV_HEADS": 1, "HEAD_DIM": 4, "FFN": 8, "VOCAB": 16, "CTX": 4, "TP": 2}
    program = vx.compile(resources.find("programs", "admit.vx"), consts={**small, "EXACT": exact}, opt_level=0)
    assert program.run().status == 0


def test_a_share_is_never_less_than_its_part() -> None:
    """What TP does not divide is rounded up, and KV heads are not split."""
    admit = str(resources.find("programs", "admit.vx"))

    def bytes_(tp: int) -> int:
        options = Options(machine="h200", host="default", consts=(("TP", str(tp)),))
        (arena,) = answer(admit, options, "shard", SourceMap()).arenas
        assert arena.bytes is not None
        return arena.bytes

    rows = 2 * 4096 * 4096
    whole = bytes_(1) - rows
    assert all(bytes_(tp) - rows >= -(-whole // tp) for tp in (2, 3, 5, 7, 8, 16))
    assert bytes_(8) - rows == whole // 8 and bytes_(16) - rows > whole // 16

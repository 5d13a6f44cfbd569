"""Damage of every kind is found, named with a code, and costs neither memory nor a file anywhere."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from artifact.made import HELLO, PLACED, WITH_MODEL, make
from typer.testing import CliRunner

from vx.artifact.errors import shown
from vx.artifact.verify import MOST_PROBLEMS, verify
from vx.cli.app import app
from vx.options import Options


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that nobody writes to."""
    return make(WITH_MODEL, tmp_path_factory.mktemp("whole") / "out")


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(whole, tmp_path / "copy"))


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return make(WITH_MODEL, tmp_path_factory.mktemp("archive") / "out.tar.gz").read_bytes()


def codes(path: Path, **more: Any) -> list[str]:
    return [problem.code for problem in verify(path, **more).problems]


def said(path: Path, **more: Any) -> str:
    return "\n".join(map(str, verify(path, **more).problems))


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a JSON file."""
    fields = json.loads(path.read_bytes())
    change(fields)
    path.write_text(json.dumps(fields))


def relist(folder: Path) -> None:
    """Make the manifest list what is there now: what somebody does who knows how it is made."""

    def change(fields: dict[str, Any]) -> None:
        for name, file in fields["files"].items():
            data = (folder / name).read_bytes()
            file.update(bytes=len(data), sha256=sha256(data).hexdigest())

    edit(folder / "manifest.json", change)


# ---- the command -------------------------------------------------------------------------------
def test_the_command_says_what_holds(whole: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["verify", str(whole)])
    assert done.exit_code == 0 and done.stderr == ""
    digest = sha256((whole / "manifest.json").read_bytes()).hexdigest()
    for words in ("6 files", "admitted for h200: main", "plan ", "model ", f"digest sha256:{digest}"):
        assert words in done.stdout
    assert CliRunner().invoke(app, ["verify", str(whole), "--digest", f"sha256:{digest}"]).exit_code == 0
    assert CliRunner().invoke(app, ["verify", str(whole), "--digest", "12"]).exit_code == 2
    other = CliRunner().invoke(app, ["verify", str(whole), "--digest", "0" * 64])
    assert other.exit_code == 1 and other.stderr.startswith("E9210: ") and other.stdout == ""


def test_the_command_has_a_line_for_each_problem(folder: Path) -> None:
    flip(folder / "libvx_host.so", 4000)
    (folder / "model" / "config.json").unlink()
    (folder / "notes.txt").write_text("mine")
    done = CliRunner().invoke(app, ["verify", str(folder)])
    assert done.exit_code == 1 and done.stdout == ""
    assert sorted(line.partition(":")[0] for line in done.stderr.splitlines()) == ["E9203", "E9204", "E9205"]


# ---- one bit, anywhere -------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name", ["program", "libvx_host.so", "admission.json", "model/config.json", "model/model.safetensors"]
)
def test_one_bit_of_a_file(folder: Path, name: str) -> None:
    bits = 8 * (folder / name).stat().st_size
    for bit in (0, bits - 1, *random.Random(1).sample(range(bits), 3)):
        flip(folder / name, bit)
        assert codes(folder) == ["E9203"] and name in said(folder)
        flip(folder / name, bit)
    assert codes(folder) == []


def test_one_bit_of_the_manifest(folder: Path) -> None:
    """Most bits make it another manifest; what is left is found by its digest only."""
    path = folder / "manifest.json"
    digest = sha256(path.read_bytes()).hexdigest()
    for bit in random.Random(2).sample(range(8 * path.stat().st_size), 200):
        flip(path, bit)
        assert codes(folder, digest=digest)
        flip(path, bit)


def test_one_bit_of_an_archive(archive: bytes, tmp_path: Path) -> None:
    path = tmp_path / "out.tar.gz"
    for bit in random.Random(3).sample(range(8 * len(archive)), 20):
        path.write_bytes(archive)
        flip(path, bit)
        if 4 * 8 <= bit < 10 * 8:
            continue  # gzip's notes of when and where it was made
        assert set(codes(path)) & {"E9201", "E9202", "E9203", "E9206", "E9207"}, bit


def test_one_bit_of_an_executable(tmp_path: Path) -> None:
    made = make(PLACED, tmp_path / "out", Options())
    record = tmp_path / "out.admission.json"
    for bit in random.Random(4).sample(range(8 * made.stat().st_size), 50):
        flip(made, bit)
        assert codes(made) in (["E9209"], ["E9201"]), bit
        flip(made, bit)
    flip(record, 8 * 300)
    assert "E9208" in codes(made)
    flip(record, 8 * 300)
    assert codes(made) == []


# ---- missing, added, replaced ------------------------------------------------------------------
def test_missing_files(folder: Path, tmp_path: Path) -> None:
    for name in ("program", "admission.json", "model/digests.json"):
        (folder / name).unlink()
    assert codes(folder) == ["E9204"] * 3
    (folder / "manifest.json").unlink()
    assert codes(folder) == ["E9202"]
    assert codes(tmp_path / "nothing") == ["E9201"]
    made = make(PLACED, tmp_path / "out", Options())
    (tmp_path / "out.admission.json").unlink()
    assert codes(made) == ["E9204"]


def test_added_files(folder: Path) -> None:
    (folder / "model" / "extra").write_text("mine")
    (folder / "kernels").mkdir()
    assert codes(folder) == ["E9205"] * 2


def test_links_and_pipes(folder: Path) -> None:
    (folder / "model" / "config.json").rename(folder.parent / "config.json")
    (folder / "model" / "config.json").symlink_to(folder.parent / "config.json")
    os.mkfifo(folder / "pipe")
    (folder / "up").symlink_to("..")
    assert sorted(codes(folder)) == ["E9204", "E9207", "E9207", "E9207"]


def test_many_problems_end_the_search(folder: Path) -> None:
    for number in range(100):
        (folder / f"{number}").write_text("")
    done = CliRunner().invoke(app, ["verify", str(folder)])
    assert len(done.stderr.splitlines()) == MOST_PROBLEMS + 1 and "ended after" in done.stderr


def test_another_program_or_record(folder: Path, whole: Path, tmp_path: Path) -> None:
    other = make(WITH_MODEL.replace("2.0", "3.0"), tmp_path / "other")
    wider = make(PLACED, tmp_path / "wider")
    shutil.copy(wider / "program", folder / "program")
    relist(folder)
    assert set(codes(folder)) == {"E9208", "E9209"}
    shutil.copy(whole / "program", folder / "program")
    shutil.copy(wider / "admission.json", folder / "admission.json")
    relist(folder)
    assert codes(folder) == ["E9208"] and "not that of this executable" in said(folder)
    shutil.copy(other / "program", folder / "program")
    shutil.copy(whole / "admission.json", folder / "admission.json")
    relist(folder)
    assert "E9209" in codes(folder), "the manifest names another executable"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda record: record.update(verdict="rejected"), "not say that the program is admitted"),
        (lambda record: record["roles"][0].update(verdict="unverified"), "not say that the program is admitted"),
        (lambda record: record.update(roles=[]), "not say that the program is admitted"),
        (lambda record: record.update(schema="mine"), "no record"),
        (lambda record: record["roles"].append({"role": "x", "verdict": "not asked for", "why": None}), "its roles"),
        (lambda record: record.update(resident_sets=[]), "not that of this executable"),
    ],
)
def test_a_record_that_admits_nothing(folder: Path, change: Callable[[dict[str, Any]], object], says: str) -> None:
    edit(folder / "admission.json", change)
    relist(folder)
    assert set(codes(folder)) == {"E9208"} and says in said(folder)


def test_a_program_that_places_nothing_needs_no_record(tmp_path: Path) -> None:
    made = make(HELLO, tmp_path / "hello", Options())
    assert codes(made) == []
    make(PLACED, tmp_path / "placed", Options())
    (tmp_path / "placed.admission.json").rename(tmp_path / "hello.admission.json")
    assert codes(made) == ["E9208"]


def test_a_model_that_was_left_out(root: Path, tmp_path: Path) -> None:
    made = make(WITH_MODEL, tmp_path / "out", with_model=False)
    model = Path(shutil.copytree(root / "models" / "tiny", tmp_path / "model"))
    assert codes(made) == [] == codes(made, model=model)
    unverified = CliRunner().invoke(app, ["verify", str(made)])
    assert "left out, and not verified" in unverified.stdout
    flip(model / "model.safetensors", 12345)
    (model / "config.json").unlink()
    assert sorted(codes(made, model=model)) == ["E9203", "E9204"]


# ---- manifests that lie ------------------------------------------------------------------------
MANIFESTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "another schema": lambda m: m.update(schema="x"),
    "another version": lambda m: m.update(version=2),
    "a version that is true": lambda m: m.update(version=True),
    "a version of text": lambda m: m.update(version="\n\x1b[31m" * 1000),
    "a field too much": lambda m: m.update(more=1),
    "a field too little": lambda m: m.pop("plan"),
    "files that are a list": lambda m: m.update(files=[]),
    "no program": lambda m: m["files"].pop("program"),
    "itself": lambda m: m["files"].update({"manifest.json": m["files"]["program"]}),
    "a path out of it": lambda m: m["files"].update({"../x": m["files"]["program"]}),
    "an absolute path": lambda m: m["files"].update({"/etc/passwd": m["files"]["program"]}),
    "an empty part": lambda m: m["files"].update({"a//b": m["files"]["program"]}),
    "a control character": lambda m: m["files"].update({"a\nb": m["files"]["program"]}),
    "a long name": lambda m: m["files"].update({"a" * 300: m["files"]["program"]}),
    "half a character": lambda m: m["files"].update({"\ud800": m["files"]["program"]}),
    "a negative size": lambda m: m["files"]["program"].update(bytes=-1),
    "a size that is true": lambda m: m["files"]["program"].update(bytes=True),
    "a great size": lambda m: m["files"]["program"].update(bytes=1 << 70),
    "half a hash": lambda m: m["files"]["program"].update(sha256="ab"),
    "a hash that is a number": lambda m: m["files"]["program"].update(sha256=5),
    "a role without a verdict": lambda m: m["roles"][0].pop("verdict"),
    "roles that are text": lambda m: m.update(roles="main"),
    "a model that is text": lambda m: m.update(model="tiny"),
    "an inclusion that is text": lambda m: m["model"].update(included="yes"),
    "a seed that is a fraction": lambda m: m["model"].update(seed=0.5),
}


@pytest.mark.parametrize("change", MANIFESTS.values(), ids=MANIFESTS.keys())
def test_manifests_that_are_none(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    edit(folder / "manifest.json", change)
    assert codes(folder) == ["E9202"]
    assert said(folder).isprintable() and len(said(folder)) < 500


@pytest.mark.parametrize("text", [b"", b"{", b"[" * 100_000, b"\xff\xfe", b"null", b"1" * 10_000, b'{"schema": 1}'])
def test_manifests_that_are_no_json(folder: Path, text: bytes) -> None:
    (folder / "manifest.json").write_bytes(text)
    assert codes(folder) == ["E9202"]


def test_a_huge_manifest_is_not_read(folder: Path) -> None:
    with open(folder / "manifest.json", "ab") as stream:
        stream.truncate(1 << 40)
    assert codes(folder) == ["E9202"]


@pytest.mark.parametrize("field", ["artifact", "machine_sha256", "plan", "target"])
def test_a_manifest_of_another_executable(folder: Path, field: str) -> None:
    edit(folder / "manifest.json", lambda m: m.update({field: "aarch64-linux-gnu" if field == "target" else "0" * 64}))
    assert codes(folder) == ["E9209"] and field in said(folder)


# ---- archives ----------------------------------------------------------------------------------
def member(name: str, data: bytes = b"", **more: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in more.items():
        setattr(info, field, value)
    return info, data


def with_more(archive: bytes, *members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.GNU_FORMAT) -> bytes:
    """The archive with more members at its end."""
    out = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as old,
        tarfile.open(fileobj=out, mode="w:gz", compresslevel=1, format=form) as new,
    ):
        for info in old:
            new.addfile(info, old.extractfile(info))
        for info, data in members:
            new.addfile(info, io.BytesIO(data))
    return out.getvalue()


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ([member("scaled/more", b"x")], "E9205"),
        ([member("../../escaped", b"x")], "E9207"),
        ([member("/tmp/escaped", b"x")], "E9207"),
        ([member("scaled/../../escaped", b"x")], "E9207"),
        ([member("elsewhere/program", b"x")], "E9207"),
        ([member("scaled", b"x")], "E9207"),
        ([member("scaled/program", b"x")], "E9207"),
        ([member("scaled/manifest.json", b"x")], "E9207"),
        ([member("scaled/link", type=tarfile.SYMTYPE, linkname="/etc/passwd")], "E9207"),
        ([member("scaled/link", type=tarfile.LNKTYPE, linkname="scaled/program")], "E9207"),
        ([member("scaled/null", type=tarfile.CHRTYPE)], "E9207"),
        ([member("scaled/pipe", type=tarfile.FIFOTYPE)], "E9207"),
        ([member("scaled/" + "long" * 50, b"x")], "E9205"),
        ([member("scaled/" + "long" * 500, b"x")], "E9207"),
        ([member("scaled/" + "long" * 5000, b"x")], "E9207"),
        ([member("scaled/kernels", type=tarfile.DIRTYPE)], "E9205"),
        ([member("scaled/large", bytes(40 << 20))], "E9205"),
    ],
    ids=lambda value: value[0][0].name[:30] if isinstance(value, list) else value,
)
def test_entries_that_do_not_belong(
    archive: bytes, tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]], code: str
) -> None:
    path = tmp_path / "below" / "out.tar.gz"
    path.parent.mkdir()
    path.write_bytes(with_more(archive, *members))
    before = sorted(tmp_path.rglob("*"))
    assert code in codes(path)
    assert sorted(tmp_path.rglob("*")) == before, "nothing is written"


def test_an_archive_packed_anew(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "x" / "scaled")
    for form, expected in (("gnu", set()), ("ustar", set())):
        path = tmp_path / f"{form}.tar.gz"
        subprocess.run(["tar", "-C", tmp_path / "x", f"--format={form}", "-czf", path, "scaled"], check=True)
        assert set(codes(path)) == expected


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.99, 0.99999])
def test_an_archive_cut_short(archive: bytes, tmp_path: Path, share: float) -> None:
    path = tmp_path / "out.tar.gz"
    path.write_bytes(archive[: int(share * len(archive))])
    assert codes(path)[-1] in ("E9201", "E9206"), said(path)


def test_a_tar_cut_short_or_continued(archive: bytes, tmp_path: Path) -> None:
    path, tar = tmp_path / "out.tar.gz", gzip.decompress(archive)
    for data in (tar[:-512], tar[: len(tar) // 2], tar + b"x", tar + tar, tar + bytes(2 << 20)):
        path.write_bytes(gzip.compress(data, 1))
        assert codes(path) == ["E9206"]
    path.write_bytes(gzip.compress(tar + bytes(10240), 1))
    assert codes(path) == [], "tar fills up its last record"
    path.write_bytes(archive + b"more")
    assert codes(path) == ["E9206"]


def test_things_that_are_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "out.tar.gz"
    for data in (b"", b"text", b"PK\3\4", gzip.compress(b""), gzip.compress(b"text"), gzip.compress(bytes(20480))):
        path.write_bytes(data)
        assert codes(path) in (["E9201"], ["E9202"], ["E9206"]), data
    os.mkfifo(tmp_path / "pipe")
    assert codes(tmp_path / "pipe") == ["E9201"]


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))
from pathlib import Path
from vx.artifact.verify import verify
print(*(problem.code for problem in verify(Path(sys.argv[1])).problems))
"""


@pytest.mark.parametrize("what", ["member", "manifest", "extension"])
def test_an_archive_that_unpacks_to_very_much(archive: bytes, tmp_path: Path, what: str) -> None:
    """3 GB of zeros in 3 MB: refused by its header, with memory for a tenth of that."""
    path, size = tmp_path / "out.tar.gz", 3 << 30
    kinds = {"member": tarfile.REGTYPE, "manifest": tarfile.REGTYPE, "extension": tarfile.XHDTYPE}
    info, _ = member("scaled/manifest.json" if what == "manifest" else "scaled/more", type=kinds[what], size=size)
    tar = gzip.decompress(archive)
    zeros = gzip.compress(bytes(64 << 20), 1)
    head = b"" if what == "manifest" else tar[:-1024]
    path.write_bytes(
        gzip.compress(head + info.tobuf(tarfile.GNU_FORMAT), 1) + zeros * (size >> 26) + gzip.compress(bytes(1024))
    )
    done = subprocess.run([sys.executable, "-c", LIMITED, path], capture_output=True, text=True, check=False)
    expected = {"member": "E9205", "manifest": "E9202", "extension": "E9205"}[what]
    assert done.stdout.split() == [expected], done.stderr


def test_names_are_shown_without_harm() -> None:
    assert shown("a\x1b[31m\n\ud800" + "b" * 300).isprintable() and len(shown("b" * 10_000)) < 250

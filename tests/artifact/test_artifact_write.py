"""Artifacts: what is in them, that they run alone, are the same from anywhere, and that nothing else is overwritten."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import shutil
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from artifact.made import HELLO, ON_DEVICE, PLACED, WITH_MODEL, built, make, output, program_in

from vx.artifact.archive import Changed, _header, archive_members, write_archive
from vx.artifact.identity import identity_of
from vx.artifact.manifest import parse
from vx.artifact.member import file_of
from vx.artifact.verify import verify
from vx.artifact.write import write_output
from vx.diagnostics.report import CompileError
from vx.model.shapes import random_model
from vx.options import Options

EVERYTHING = [
    "admission.json",
    "libvx_host.so",
    "manifest.json",
    "model/config.json",
    "model/digests.json",
    "model/model.safetensors",
    "program",
]


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def run_alone(program: Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Without Python, Vx, or anything else that could be found by a name."""
    return subprocess.run(
        ["/usr/bin/env", "-i", "PATH=", *(f"{name}={value}" for name, value in environment.items()), str(program)],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
    )


def refused(text: str, out: Path, options: Options = ON_DEVICE) -> str:
    with pytest.raises(CompileError) as error:
        make(text, out, options)
    (found,) = error.value.diagnostics
    return f"{found.code} {found.message}"


# ---- forms -------------------------------------------------------------------------------------
def test_a_folder_has_everything_and_runs_alone(tmp_path: Path) -> None:
    made = make(WITH_MODEL, tmp_path / "here" / "out")
    assert sorted(files(made)) == EVERYTHING
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(made, elsewhere / "moved")
    shutil.rmtree(tmp_path / "here")
    done = run_alone(elsewhere / "moved" / "program", elsewhere)
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")
    assert verify(elsewhere / "moved").problems == ()


@pytest.mark.parametrize("suffix", [".tar.gz", ".tgz"])
def test_an_archive_is_the_folder(tmp_path: Path, suffix: str) -> None:
    folder = make(WITH_MODEL, tmp_path / "out")
    made = make(WITH_MODEL, tmp_path / f"out{suffix}")
    unpacked = tmp_path / "unpacked"
    with tarfile.open(made) as archive:
        assert archive.getnames()[0] == "scaled/manifest.json"
        assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in archive} == {(0, 0, "", "", 315532800)}
        archive.extractall(unpacked, filter="data")
    assert files(unpacked / "scaled") == files(folder)
    assert run_alone(unpacked / "scaled" / "program", tmp_path).stdout == "2\n"
    assert verify(made).digest == verify(folder).digest


def test_long_names_and_large_files_have_headers(tmp_path: Path) -> None:
    names = ["a" * 98, "b" * 200, "kernels/" + "c" * 150]
    for name in names:
        program_in(tmp_path, name, name)
    listed = [(name, tmp_path / name, file_of(tmp_path / name)) for name in names]
    with open(tmp_path / "out.tar.gz", "wb") as stream:
        write_archive(stream, "top", listed)
    found = {member.name: member.size for member in archive_members(tmp_path / "out.tar.gz")}
    with tarfile.open(tmp_path / "out.tar.gz") as archive:
        assert found == {info.name: info.size for info in archive} == {f"top/{name}": len(name) for name in names}
    large = tarfile.TarInfo.frombuf(_header("top/x", 1 << 40, False), "utf-8", "strict")
    assert (large.size, large.type) == (1 << 40, tarfile.REGTYPE)


def test_a_file_that_changes_is_not_packed(tmp_path: Path) -> None:
    path = program_in(tmp_path, "before", "x")
    before = file_of(path)
    for text in ("beforf", "befor", "before "):
        path.write_text(text)
        with open(tmp_path / "out.tar.gz", "wb") as stream, pytest.raises(Changed):
            write_archive(stream, "top", [("x", path, before)])


def test_an_executable_has_its_record_beside_it(tmp_path: Path) -> None:
    made = make(PLACED, tmp_path / "out", Options())
    assert run_alone(made, tmp_path).stdout == "1.5\n"
    assert (tmp_path / "out.admission.json").is_file() and verify(made).problems == ()
    make(HELLO, tmp_path / "out", Options())
    assert not (tmp_path / "out.admission.json").exists() and verify(made).problems == ()


def test_a_slash_makes_it_a_folder(tmp_path: Path) -> None:
    made = make(HELLO, tmp_path / "out", Options())
    assert made.is_file()
    folder = make(HELLO, f"{tmp_path / 'folder'}/", Options())
    assert sorted(files(folder)) == ["admission.json", "manifest.json", "program"]


def test_a_plugin_makes_it_a_folder(tmp_path: Path) -> None:
    assert "libvx_host.so" in files(make(PLACED, tmp_path / "out"))


def test_the_model_can_stay_where_it_is(tmp_path: Path, root: Path) -> None:
    made = make(WITH_MODEL, tmp_path / "out", with_model=False)
    assert sorted(files(made)) == [name for name in EVERYTHING if not name.startswith("model/")]
    tiny = root / "models" / "tiny"
    assert run_alone(made / "program", tmp_path).returncode != 0
    assert run_alone(made / "program", tmp_path, VX_MODEL_DIR=str(tiny)).stdout == "2\n"
    assert verify(made, model=tiny).problems == ()


def test_a_random_model_is_its_seed(tmp_path: Path, root: Path) -> None:
    random_model(root / "models" / "tiny", 5, tmp_path / "random")
    made = make(WITH_MODEL, tmp_path / "out", replace(ON_DEVICE, model=str(tmp_path / "random")))
    manifest = parse((made / "manifest.json").read_bytes())
    assert manifest.model is not None and (manifest.model.seed, manifest.model.included) == (5, True)
    assert manifest.files["model/model.safetensors"].bytes < 100_000, "its tokenizer, and no weights"
    assert run_alone(made / "program", tmp_path).stdout == "2\n"


# ---- the manifest ------------------------------------------------------------------------------
def test_the_manifest_says_what_it_is(tmp_path: Path) -> None:
    made = make(WITH_MODEL, tmp_path / "out")
    manifest = parse((made / "manifest.json").read_bytes())
    record = json.loads((made / "admission.json").read_bytes())
    own = identity_of((made / "program").read_bytes())
    assert (manifest.program, manifest.machine, record["machine"]) == ("scaled", "h200", "h200")
    assert (manifest.artifact, manifest.machine_sha256, manifest.plan) == (own.artifact, own.machine, own.plan)
    assert [(role.role, role.verdict) for role in manifest.roles] == [("main", "admitted")]
    assert manifest.options["devices"] == "host"
    assert sorted(manifest.files) == [name for name in EVERYTHING if name != "manifest.json"]


def test_roles_that_were_left_out_are_named(tmp_path: Path) -> None:
    text = """role fn one() -> i32 {
    let a = Tensor<f32, [4], Memory::HBM>::new();
    return 0;
}
role fn two() -> i32 { return 0; }
fn main() -> i32 { return one(); }
"""
    made = make(text, tmp_path / "out", Options(machine="h200", host="default", devices="host", roles=("one",)))
    manifest = parse((made / "manifest.json").read_bytes())
    assert [(role.role, role.verdict) for role in manifest.roles] == [("one", "admitted"), ("two", "not asked for")]


# ---- no source, no paths, the same bytes -------------------------------------------------------
def test_it_holds_no_source_and_no_path(tmp_path: Path, root: Path) -> None:
    made = output(tmp_path / "a-folder-to-look-for", WITH_MODEL, tmp_path / "a-folder-to-look-for" / "out")
    lines = [line.strip().encode() for line in WITH_MODEL.splitlines() if len(line.strip()) > 12]
    forbidden = [b"wombats", b"a-folder-to-look-for", *lines]
    forbidden += [os.fsencode(path) for path in (tmp_path, root, Path.home(), os.environ["VX_CACHE_DIR"])]
    for name, data in files(made).items():
        assert [text for text in forbidden if text in data] == [], name
        assert not name.endswith(".vx")


@pytest.mark.parametrize(
    ("text", "out", "options"), [(WITH_MODEL, "out.tar.gz", ON_DEVICE), (PLACED, "out", Options())]
)
def test_the_same_input_gives_the_same_bytes(tmp_path: Path, text: str, out: str, options: Options) -> None:
    first = output(tmp_path / "one", text, tmp_path / "one" / out, options).read_bytes()
    before = os.umask(0o077)
    try:
        second = output(tmp_path / "another" / "folder", text, tmp_path / out, options).read_bytes()
    finally:
        os.umask(before)
    assert first == second


# ---- what is in the way ------------------------------------------------------------------------
def test_an_earlier_output_is_replaced(tmp_path: Path) -> None:
    for out, options in (("f", ON_DEVICE), ("f.tgz", ON_DEVICE)):
        first = files_or_bytes(make(WITH_MODEL, tmp_path / out, options))
        second = files_or_bytes(make(WITH_MODEL.replace("2.0", "3.0"), tmp_path / out, options))
        assert first != second and verify(tmp_path / out).problems == ()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f", "f.tgz"], "nothing is left over"


def files_or_bytes(path: Path) -> object:
    return files(path) if path.is_dir() else path.read_bytes()


@pytest.mark.parametrize("where", ["notes.txt", "model/notes.txt", "kernels/mine"])
def test_a_folder_with_anything_else_is_left(tmp_path: Path, where: str) -> None:
    made = make(WITH_MODEL, tmp_path / "out")
    program_in(made, "mine", where)
    assert f"`{where}`" in refused(WITH_MODEL, made)
    assert (made / where).read_text() == "mine"


def test_other_things_are_left(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "file.tar.gz").write_text("mine")
    os.mkfifo(tmp_path / "pipe")
    for text, out, options in (
        (HELLO, "folder", Options()),
        (HELLO, "file", Options()),
        (HELLO, "pipe", Options()),
        (WITH_MODEL, "file", ON_DEVICE),
        (WITH_MODEL, "file.tar.gz", ON_DEVICE),
    ):
        assert refused(text, tmp_path / out, options).startswith("E9033"), out
    assert (tmp_path / "file").read_text() == (tmp_path / "file.tar.gz").read_text() == "mine"
    assert make(WITH_MODEL, tmp_path / "folder").is_dir(), "an empty folder is nothing"


def test_sources_and_records_of_others_are_left(tmp_path: Path) -> None:
    program = program_in(tmp_path, HELLO)
    with pytest.raises(CompileError, match="E9033"):
        output(tmp_path, HELLO, program, Options())
    assert program.read_text() == HELLO
    (tmp_path / "out.admission.json").write_text("mine")
    for text in (HELLO, PLACED):
        assert refused(text, tmp_path / "out", Options()).startswith("E9033")
    assert (tmp_path / "out.admission.json").read_text() == "mine" and not (tmp_path / "out").exists()


@pytest.mark.parametrize("out", ["out", "out.tar.gz"])
@pytest.mark.parametrize("call", ["shutil.copyfile", "os.rename", "os.replace", "vx.artifact.write.write_archive"])
def test_a_full_disk_leaves_what_was_there(
    tmp_path: Path, out: str, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files_or_bytes(make(WITH_MODEL, tmp_path / out))
    text = WITH_MODEL.replace("2.0", "3.0")
    make(text, tmp_path / "other")
    shutil.rmtree(tmp_path / "other")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(call, full)
    used = {
        "out": ("shutil.copyfile", "os.rename"),
        "out.tar.gz": ("shutil.copyfile", "os.replace", "vx.artifact.write.write_archive"),
    }
    if call in used[out]:
        with pytest.raises(CompileError) as error:
            make(text, tmp_path / out)
        assert [found.code for found in error.value.diagnostics] == ["E9022"]
        monkeypatch.undo()
        assert files_or_bytes(tmp_path / out) == before
    assert [path.name for path in tmp_path.iterdir()] == [out]


def _write_often(program: str, out: str, times: int) -> None:
    finished = built(Path(program), ON_DEVICE)
    for _ in range(times):
        write_output(finished, program, ON_DEVICE, out)


@pytest.mark.parametrize("out", ["out", "out.tar.gz"])
def test_builds_to_one_place_end_with_one_whole_result(tmp_path: Path, out: str) -> None:
    programs = [
        program_in(tmp_path, WITH_MODEL.replace("2.0", value), f"{name}.vx")
        for name, value in (("a", "2.0"), ("b", "3.0"))
    ]
    for program in programs:
        built(program, ON_DEVICE)
    fork = multiprocessing.get_context("fork")
    workers = [
        fork.Process(target=_write_often, args=(str(program), str(tmp_path / out), 4)) for program in programs * 2
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    report = verify(tmp_path / out)
    assert report.problems == () and report.manifest is not None and report.manifest.program in ("a", "b")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.vx", "b.vx", out]

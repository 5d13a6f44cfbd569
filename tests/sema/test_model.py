"""`import model;`: constants, the element type and the tensors of a model directory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cases import checked

from vx import resources
from vx.model.info import ModelInfo, load_model
from vx.sema import tree
from vx.sema.dump import dump_program


@pytest.fixture(scope="module")
def tiny() -> ModelInfo:
    return load_model(resources.find("models", "tiny"))


def text_of(path: Path, source: str, model: ModelInfo) -> str:
    program, found, _ = checked(path, source, model=model)
    assert program is not None, found
    return dump_program(program)


def test_constants_have_types(tmp_path: Path, tiny: ModelInfo) -> None:
    source = "import model;\nfn main() -> i32 { let a : i32 = DIM;  let b : f32 = EPS * SCALE;  let c : bool = TIED;\n"
    source += "  let d : f64 = ROPE_THETA;  let e : bool = ROPE_SCALING;  let f = MODEL_DIGEST;  model::HEADS }"
    text = text_of(tmp_path, source, tiny)
    assert f"let a.0 : i32 = {tiny.constants['DIM']}i32;" in text
    assert f'let f.5 : *const i8 = "{tiny.digest}";' in text


def test_tensors_are_read_in_place(tmp_path: Path, tiny: ModelInfo) -> None:
    source = "import model;\nfn main() -> i32 { let r = model::wq[0][1];  print(dot(r, emb[2]));  let b = model::tokenizer.bytes();  0 }"
    program, _, _ = checked(tmp_path, source, model=tiny)
    assert program is not None
    assert [ref.name for ref in program.model] == ["emb", "tokenizer", "wq"]
    dim, layers = tiny.constants["DIM"], tiny.constants["LAYERS"]
    assert program.model[2].type == tree.Tensor(tiny.elem, (layers, dim, dim))  # type: ignore[arg-type]


def test_the_element_type_follows_the_model(tmp_path: Path, tiny: ModelInfo) -> None:
    source = "import model;\nfn f(x : &Tensor<E, [DIM]>) -> f32 { sum(x as f32) }\nfn main() -> i32 { 0 }"
    assert "Tensor<f32, " in text_of(tmp_path, source, tiny)
    assert "Tensor<bf16, " in text_of(tmp_path, source, replace(tiny, elem="bf16"))


def test_conversions_of_the_element_type_get_no_warnings(tmp_path: Path, tiny: ModelInfo) -> None:
    source = "import model;\nfn f(x : &Tensor<E, [DIM]>) -> f32 { x[0] as f32 }\nfn main() -> i32 { 0 }"
    for elem in ("f32", "f16"):
        _, found, _ = checked(tmp_path, source, model=replace(tiny, elem=elem))
        assert not found


def test_angles_are_computed_from_the_model(tmp_path: Path, tiny: ModelInfo) -> None:
    source = "import model;\nfn main() -> i32 { let a : f32 = rope_angle(1, 2);  print(a);  0 }"
    plain = text_of(tmp_path, source, tiny)
    scaled = replace(tiny, constants={**tiny.constants, "ROPE_SCALING": 1, "ROPE_FACTOR": 8.0})
    assert "let turns" not in plain and "let turns" in text_of(tmp_path, source, scaled)


def test_model_tensors_live_on_the_host(tmp_path: Path, tiny: ModelInfo) -> None:
    source = "import model;\nfn main() -> i32 { spawn on(Topology::Device[0]) { let a = sum(wq[0][0]); }  0 }"
    _, found, _ = checked(tmp_path, source, model=tiny)
    assert [d.code for d in found] == ["E6003"] and "'wq' lives in CPU_DRAM" in found[0].message


def test_a_program_that_uses_constants_only_still_uses_the_model(tmp_path: Path, tiny: ModelInfo) -> None:
    program, _, _ = checked(tmp_path, "import model;\nfn main() -> i32 { DIM }", model=tiny)
    assert program is not None and program.uses_model and not program.model
    program, _, _ = checked(tmp_path, "fn main() -> i32 { 0 }", model=tiny)
    assert program is not None and not program.uses_model

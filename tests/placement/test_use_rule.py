"""Who may read what: the facts that refusals quote, the host that must be declared, and what is doubtful."""

from __future__ import annotations

from pathlib import Path

import pytest
from placement_cases import errors, messages, warnings

DIES = """
Memory GDDR7 { capacity: 128 GiB, managed: explicit }
Memory HBM4 { capacity: 288 GiB, managed: explicit }
Topology Rubin_CPX { memory: Memory::GDDR7,
  transfer Memory::CPU_DRAM -> Memory::GDDR7 : 300, transfer Memory::GDDR7 -> Memory::HBM4 : 120 }
Topology Rubin { memory: Memory::HBM4 }
"""
KV = "let kv = Tensor<f16, [1024, 128], Memory::GDDR7>::new();\n"
H200 = Path("fleet/h200.vx")


@pytest.fixture(autouse=True)
def _in_the_checkout(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)


def test_a_value_of_the_other_die(tmp_path: Path) -> None:
    [text] = messages(tmp_path, KV + "spawn on(Topology::Rubin) { let s = sum(kv[0]); }", DIES)
    assert "'kv' lives in GDDR7 but Rubin sees only [HBM4]" in text
    assert "transfer to HBM4 (cost 120 on the declared path)" in text


def test_a_value_of_the_other_die_after_the_transfer(tmp_path: Path) -> None:
    source = KV + "let moved = transfer(kv, Memory::HBM4);\nspawn on(Topology::Rubin) { let s = sum(moved[0]); }"
    assert errors(tmp_path, source, DIES) == []


def test_the_price_is_of_the_bytes_where_rates_are_declared(tmp_path: Path) -> None:
    source = "let x = Tensor<f32, [128, 128]>::new();\nspawn on(Topology::Device) { let s = sum(x[0]); }"
    [text] = messages(tmp_path, source, H200)
    assert "'x' lives in CPU_DRAM but Device sees only [HBM, L2, SMEM]" in text
    assert "transfer to HBM (1.04 us for 65536 B on the declared path)" in text


def test_the_price_of_a_peer(tmp_path: Path) -> None:
    source = "let x = Tensor<f32, [1000], Topology::Device[0]>::new();\n"
    source += "spawn on(Topology::Device[1]) { let s = sum(x); }"
    [text] = messages(tmp_path, source, TWO)
    assert "'x' lives in HBM of Topology::Device[0] but Topology::Device[1] sees only [HBM]" in text
    assert "transfer to HBM (2 us for 4000 B on the declared path)" in text


def test_no_price(tmp_path: Path) -> None:
    machine = DIES.replace(": 120", "")
    [text] = messages(tmp_path, KV + "spawn on(Topology::Rubin) { let s = sum(kv[0]); }", machine)
    assert "transfer to HBM4 (unpriced on the declared path)" in text


def test_an_unknown_size_has_no_price(tmp_path: Path) -> None:
    source = "fn f(x : &Tensor<f32, [?]>) -> void { spawn on(Topology::Device) { let s = sum(x); } }\n"
    source += "fn main() -> i32 { let x = Tensor<f32, [4]>::new();  f(&x);  0 }"
    [text] = messages(tmp_path, source, H200)
    assert "transfer to HBM (unpriced on the declared path)" in text


def test_no_path(tmp_path: Path) -> None:
    machine = DIES.replace(", transfer Memory::GDDR7 -> Memory::HBM4 : 120", "")
    [read] = messages(tmp_path, KV + "spawn on(Topology::Rubin) { let s = sum(kv[0]); }", machine)
    assert "there is no path from GDDR7 to HBM4: it cannot be read from here" in read
    [moved] = messages(tmp_path, KV + "let m = transfer(kv, Memory::HBM4);", machine)
    assert "there is no path from GDDR7 to HBM4" in moved and "from GDDR7 a transfer leads to nowhere" in moved


def test_a_function_of_another_topology(tmp_path: Path) -> None:
    source = "fn step() on Topology::Rubin -> void { }\nfn main() -> i32 { step();  0 }"
    [text] = messages(tmp_path, source, DIES)
    assert "`step` runs on Topology::Rubin[0], and this is Topology::CPU[0]" in text


# ---- the host ----------------------------------------------------------------------------------
TWO = """
Memory HBM { managed: explicit, scope: device }
Memory LDS { managed: explicit }
Memory FAR { managed: explicit }
Topology Device { memory: Memory::HBM, arch: host, instances: 2, peer: 2 GB/s,
  transfer Memory::CPU_DRAM -> Memory::HBM : 1 GB/s, transfer Memory::HBM -> Memory::CPU_DRAM : 1 GB/s }
Topology Near { memory: Memory::LDS, visible: [Memory::LDS, Memory::CPU_DRAM], arch: host,
  transfer Memory::CPU_DRAM -> Memory::LDS : 1 GB/s }
Topology Island { memory: Memory::FAR, arch: host }
"""
X = "let x = Tensor<f32, [4]>::new();\n"
D = "let d = Tensor<f32, [4], Topology::Device[0]>::new();\n"

USES_HOST = {
    "to_the_device": X + "let d = transfer(x, Topology::Device[0]);  //!",
    "from_the_device": D + "let x = transfer(d, Memory::CPU_DRAM);  //!",
    "by_method": D + "let x = d.to_host();  //!",
    "landing": X + D + "let mut e = Tensor<f32, [4], Topology::Device[0]>::new();\n e = transfer(x, Topology::Device[0]);  //!",
    "read_by_the_device": X + "spawn on(Topology::Near) {\n let s = sum(x);  //!\n }",
    "read_in_a_call": "fn f(v : &Tensor<f32, [4]>) -> f32 { v[0] }\nfn main() -> i32 {\n" + X
    + "spawn on(Topology::Near) {\n let s = f(&x);  //!\n }\n 0 }",
    "a_type": "let x : Tensor<f32, [4], Memory::CPU_DRAM> = Tensor<f32, [4]>::new();  //!",
}  # fmt: skip


@pytest.mark.parametrize("name", USES_HOST)
def test_the_host_must_be_declared(name: str, tmp_path: Path) -> None:
    source = USES_HOST[name]
    start = 1 if "fn main" in source else 2
    lines = [number for number, text in enumerate(source.splitlines(), start) if "//!" in text]
    assert errors(tmp_path, source, TWO, host=None) == [(line, "E6014") for line in lines]
    assert errors(tmp_path, source, TWO, host="default") == []


def test_a_host_that_is_on_the_way(tmp_path: Path) -> None:
    """Without a peer edge two instances exchange by way of the host."""
    source = D + "let e = transfer(d, Topology::Device[1]);"
    staged = TWO.replace("peer: 2 GB/s,", "")
    assert errors(tmp_path, source, TWO, host=None) == []
    [text] = messages(tmp_path, source, staged, host=None)
    assert "the transfer HBM -> CPU_DRAM -> HBM uses the host's memory CPU_DRAM" in text and "pass `--host" in text
    assert errors(tmp_path, source, staged) == []


def test_a_file_declares_the_host(tmp_path: Path) -> None:
    assert errors(tmp_path, USES_HOST["to_the_device"], TWO, host="fleet/host-x86-xeon-8480.vx") == []


def test_a_missing_host_is_said_once(tmp_path: Path) -> None:
    source = X + "let a = transfer(x, Topology::Device[0]);\nlet b = transfer(x, Topology::Device[1]);"
    assert errors(tmp_path, source, TWO, host=None) == [(3, "E6014")]


def test_no_machine_model_needs_no_host(tmp_path: Path) -> None:
    source = X + "let a = transfer(x, Topology::Device[0]);\nlet b = transfer(x, Memory::GPU_HBM);"
    assert errors(tmp_path, source, None, host=None) == []
    assert (
        errors(
            tmp_path,
            KV + "let m = transfer(kv, Memory::HBM4);" + X + "let d = transfer(x, Memory::GDDR7);",
            DIES,
            host=None,
        )
        == []
    )


def test_blocks_in_the_program_are_a_machine_model_too(tmp_path: Path) -> None:
    blocks = "Memory S { managed: explicit, scope: device }\nTopology P { memory: Memory::S, transfer Memory::CPU_DRAM -> Memory::S }\n"
    source = blocks + "fn main() -> i32 { let x = Tensor<f32, [4]>::new();  let d = transfer(x, Memory::S);  0 }"
    assert errors(tmp_path, source, None, host=None) == [(3, "E6014")]
    assert (
        errors(tmp_path, source, None) == errors(tmp_path, source.replace(", scope: device", ""), None, host=None) == []
    )


# ---- warnings ----------------------------------------------------------------------------------
DOUBTS = {
    "builtin_part": ("spawn on(Topology::NPU[0]) { }", ["W1025"]),
    "builtin_memory": ("let d = Tensor<f32, [4], Memory::NPU_HBM>::new();", ["W1025"]),
    "said_once": ("spawn on(Topology::NPU[0]) { }\nspawn on(Topology::NPU[1]) { }", ["W1025"]),
    "each_part": ("spawn on(Topology::NPU[0]) { }\nspawn on(Topology::AccCore[1]) { }", ["W1025", "W1025"]),
    "declared_part": ("spawn on(Topology::Device[0]) { }", []),
    "host": ("spawn on(Topology::CPU) { }", []),
    "asking_is_no_placement": ("if comptime Reachable<Topology::CPU, Topology::NPU> { }", []),
    "island": ("spawn on(Topology::Island) { }", ["W1026"]),
    "memory_of_an_island": ("let d = Tensor<f32, [4], Memory::FAR>::new();", ["W1026"]),
    "same_space": (D + "let e = transfer(d, Topology::Device[0]);", ["W1022"]),
    "other_instance": (D + "let e = transfer(d, Topology::Device[1]);", []),
    "current": ("spawn on(Topology::Current) { }", ["W1023"]),
}


@pytest.mark.parametrize("name", DOUBTS)
def test_doubtful(name: str, tmp_path: Path) -> None:
    source, codes = DOUBTS[name]
    assert warnings(tmp_path, source, TWO) == codes


def test_a_part_is_only_undeclared_under_a_machine_model(tmp_path: Path) -> None:
    assert warnings(tmp_path, "spawn on(Topology::NPU[0]) { }", DIES) == []
    assert warnings(tmp_path, "spawn on(Topology::NPU[0]) { }", None) == []


def test_the_gpu_is_the_declared_one(tmp_path: Path) -> None:
    assert warnings(tmp_path, "spawn on(Topology::GPU[0]) { }", H200) == []


def test_a_generic_transfer_may_stay_where_it_is(tmp_path: Path) -> None:
    """One text for one device and for two: with equal indices the handoff is a copy, and that is meant."""
    source = "fn hand<const P : i32, const Q : i32>() -> void { let d = Tensor<f32, [4], Topology::Device[P]>::new();\n"
    source += "let e = transfer(d, Topology::Device[Q]); }\nfn main() -> i32 { hand<0, 0>();  hand<0, 1>();  0 }"
    assert warnings(tmp_path, source, TWO) == []


# ---- element types -----------------------------------------------------------------------------
NARROW = """
Memory HBM { managed: explicit }
Topology Device { memory: Memory::HBM, arch: host, dtypes: [f32, f16, i32],
  transfer Memory::CPU_DRAM -> Memory::HBM, transfer Memory::HBM -> Memory::CPU_DRAM }
"""
ELEMENTS = {
    "placed": "let d = Tensor<f64, [4], Memory::HBM>::new();  //!",
    "moved": "let x = Tensor<f64, [4]>::new();\n let d = transfer(x, Topology::Device);  //!",
    "made_in_a_region": "spawn on(Topology::Device) {\n let d = Tensor<f64, [4]>::new();  //!\n }",
    "made_by_a_function": "fn f() on Topology::Device -> void {\n let d = Tensor<f64, [4]>::new();  //!\n }\nfn main() -> i32 { 0 }",
    "converted": "let x = Tensor<f32, [4], Memory::HBM>::new();\n spawn on(Topology::Device) {\n let d = x as f64;  //!\n }",
    "by_a_generic_function": "fn f<E>() -> void {\n let d = Tensor<E, [4], Memory::HBM>::new();  //!\n }\nfn main() -> i32 { f<f32>();  f<f64>();  0 }",
    "in_a_struct": "struct S {\n d : Tensor<f64, [4], Memory::HBM>  //!\n }\nfn main() -> i32 { 0 }",
    "on_the_host": "let x = Tensor<f64, [4]>::new();  let y = Tensor<f32, [4]>::new() as f64;",
    "of_the_device": "let x = Tensor<f16, [4], Memory::HBM>::new();  spawn on(Topology::Device) { let d = x as f32; }",
}


@pytest.mark.parametrize("name", ELEMENTS)
def test_elements_that_a_part_cannot_represent(name: str, tmp_path: Path) -> None:
    source = ELEMENTS[name]
    lines = [
        number for number, text in enumerate(source.splitlines(), 1 if "fn main" in source else 2) if "//!" in text
    ]
    assert errors(tmp_path, source, NARROW) == [(line, "E6026") for line in lines]

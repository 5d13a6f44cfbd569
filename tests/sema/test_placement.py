"""Places: spelling them, moving tensors between them, code that runs on them, and who may read what."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import accepted, dumped, expect

from vx.sema import tree

TWO = """
Memory HBM { managed: explicit, scope: device, capacity: 1 GiB }
Memory LDS { managed: explicit, scope: device, capacity: 1 GiB }
Topology Device {
  memory: Memory::HBM, visible: [Memory::HBM], arch: nvptx64, instances: 2, dtypes: [f32, f16, i32],
  peer: 450 GB/s,
  transfer Memory::CPU_DRAM -> Memory::HBM : 63 GB/s
  transfer Memory::HBM -> Memory::CPU_DRAM : 63 GB/s
}
Topology Island { memory: Memory::LDS, visible: [Memory::LDS], arch: nvptx64 }
"""
X = "let x = Tensor<f32, [4]>::new();\n"

BUILTIN = {
    "transfer": X
    + "let d = transfer(x, Memory::GPU_HBM);  let e = transfer(d, Memory::CPU_DRAM);  let a : f32 = e[0];",
    "two_spellings": X + "let d : Tensor<f32, [4], Memory::GPU_HBM> = transfer(x, Topology::GPU[0]);",
    "other_instance": X + "let d : Tensor<f32, [4], Topology::GPU[1]> = transfer(x, Topology::GPU[0]);  //! E3001",
    "place_left_to_value": X + "let d : Tensor<f32, [4]> = transfer(x, Topology::GPU[0]);",
    "host_reads_device": X + "let d = transfer(x, Memory::GPU_HBM);\n let a = d[0];  //! E6003",
    "host_writes_device": X + "let mut d = transfer(x, Memory::GPU_HBM);\n d[0] = 1.0;  //! E6003",
    "host_computes_with_device": X
    + "let d = transfer(x, Memory::GPU_HBM);\n let a = d * 2.0;  //! E6003\n let b = dot(x, d);  //! E6003",
    "host_computes_with_moved": X
    + "let a = transfer(x, Memory::GPU_HBM) * 2.0;  //! E6003\n let b = sum(spawn on(Topology::GPU[0]) { x * 2.0 });  //! E6003",
    "host_prints_device": X + "let d = transfer(x, Memory::GPU_HBM);\n print(d);  //! E6003",
    "host_copies_device": X + "let d = transfer(x, Memory::GPU_HBM);\n let e = d.copy();  //! E6003",
    "host_sees_npu": X + "let d = transfer(x, Memory::NPU_HBM);  let a = d[0];",
    "unknown_memory": X + "let d = transfer(x, Memory::HMB);  //! E6025",
    "unknown_topology": X + "let d = transfer(x, Topology::GPUU[0]);  //! E6025",
    "no_path": X + "let d = transfer(x, Memory::Remote_HBM);\n let e = transfer(d, Memory::CPU_DRAM);  //! E6002",
    "transfer_number": "let a = 3;  let b : i32 = transfer(a, Memory::GPU_HBM);",
    "transfer_struct": "struct S { a : i32 }\nfn main() -> i32 { let s = S { a: 1 };\n transfer(s, Memory::GPU_HBM);  //! E3012\n 0 }",
    "spawn": X + "let d = transfer(x, Topology::GPU[0]);  let r = spawn on(Topology::GPU[0]) { d * 2.0 };\n"
    "let a = transfer(r, Memory::CPU_DRAM)[0];\n let b = r[0];  //! E6003",
    "spawn_reads_host": X + "spawn on(Topology::GPU[0]) { let a = x[0]; }",
    "spawn_blind_to_host": X + "spawn on(Topology::NPU[0]) {\n let a = x[0];  //! E6003\n }",
    "spawn_other_instance": X
    + "let d = transfer(x, Topology::GPU[1]);\n spawn on(Topology::GPU[0]) {\n let a = d[0];  //! E6003\n }",
    "spawn_writes_scalar": X
    + "let d = transfer(x, Topology::GPU[0]);  let mut s : f32 = 0.0;  spawn on(Topology::GPU[0]) { s = dot(d, d); }  print(s);",
    "spawn_in_spawn": "spawn on(Topology::GPU[0]) {\n spawn on(Topology::GPU[0]) { }  //! E6038\n }",
    "spawn_transfer": X + "spawn on(Topology::GPU[0]) {\n let d = transfer(x, Topology::GPU[0]);  //! E6038\n }",
    "spawn_return": "spawn on(Topology::GPU[0]) {\n return 1;  //! E3018\n }",
    "spawn_break": "loop { spawn on(Topology::GPU[0]) {\n break;  //! E3018\n }\n break; }",
    "spawn_try": "fn f() -> Option<i32> { None }\nfn g() -> Option<i32> { spawn on(Topology::GPU[0]) {\n f()?;  //! E3018\n }\n None }\nfn main() -> i32 { 0 }",
    "spawn_struct": "struct S { a : i32 }\nfn main() -> i32 { let s = spawn on(Topology::GPU[0]) {\n S { a: 1 }  //! E6030\n };  0 }",
    "spawn_index_runtime": "let mut i = 0;\n spawn on(Topology::GPU[i]) { }  //! E6031",
    "spawn_index_high": "spawn on(Topology::GPU[100]) { }  //! E6032",
    "spawn_slice": "spawn on(Topology::GPU[0..2]) { }  //! E0901",
    "on_elsewhere": "fn f() on Topology::GPU[0] -> void { }\nfn main() -> i32 {\n f();  //! E6001\n spawn on(Topology::GPU[1]) {\n f();  //! E6001\n }\n"
    " spawn on(Topology::GPU[0]) { f(); }  0 }",
    "on_generic": "fn f<const D : i32>(x : &Tensor<f32, [4], Topology::GPU[D]>) on Topology::GPU[D] -> f32 { x[0] }\n"
    "fn main() -> i32 { let x = Tensor<f32, [4], Topology::GPU[1]>::new();  spawn on(Topology::GPU[1]) { let a = f(&x); }\n"
    " spawn on(Topology::GPU[0]) {\n let a = f(&x);  //! E6001\n }  0 }",
    "device_into_host_function": "fn f(x : &Tensor<f32, [4]>) -> f32 { x[0] }\nfn main() -> i32 { let x = Tensor<f32, [4], Topology::GPU[0]>::new();\n f(&x);  //! E6003\n 0 }",
    "placed_parameter": "fn f(x : &Tensor<f32, [4], Topology::GPU[0]>) -> void { }\nfn main() -> i32 { let x = Tensor<f32, [4]>::new();\n f(&x);  //! E3003\n 0 }",
    "landing": X
    + "let mut d = Tensor<f32, [8, 4], Topology::GPU[0]>::new();  let n = 3;  d[n] = transfer(x, Topology::GPU[0]);  d[0..n] = transfer(d[1..n + 1], Topology::GPU[0]);",
    "landing_elsewhere": X
    + "let mut d = Tensor<f32, [4], Topology::GPU[0]>::new();\n d = transfer(x, Topology::GPU[1]);  //! E6039",
    "landing_length": X
    + "let mut d = Tensor<f32, [5], Topology::GPU[0]>::new();\n d = transfer(x, Topology::GPU[0]);  //! E7005",
    "landing_element": X
    + "let mut d = Tensor<f64, [4], Topology::GPU[0]>::new();\n d = transfer(x, Topology::GPU[0]);  //! E3009",
    "device_into_host_variable": X
    + "let mut y = Tensor<f32, [4]>::new();  let d = transfer(x, Topology::GPU[0]);\n y = d;  //! E3009\n y = transfer(d, Memory::CPU_DRAM);",
    "reachable": "if comptime Reachable<Topology::CPU, Topology::GPU> { } else { nonsense(); }",
    "where_reachable": "fn f<A : Topology, B : Topology>() -> void where Reachable<A, B> { }\nfn main() -> i32 { f<Topology::CPU, Topology::GPU[0]>();\n"
    " f<Topology::AccCore[0], Topology::GPU[0]>();  0 }",
    "topology_generic": "fn f<D : Topology>() -> i32 { let x = Tensor<f32, [4]>::new();  let d = transfer(x, Topology::D);  spawn on(Topology::D) { let a = d[0]; }  1 }\n"
    "fn main() -> i32 { f<Topology::GPU[0]>() + f<Topology::NPU[1]>() }",
    "topology_at_compile_time": X + "let d = transfer(x, Topology::GPU[0]);\n"
    "if comptime d.topology() == Some(Topology::GPU[0]) { } else { nonsense(); }\n if comptime x.topology() == None { } else { nonsense(); }",
    "alias_takes_the_place_of_its_argument": "type Row = Tensor<f32, [4]>;\nfn f(r : &Row) -> f32 { r[0] }\n"
    "fn main() -> i32 { let x = Tensor<f32, [4], Topology::GPU[0]>::new();  spawn on(Topology::GPU[0]) { let a = f(&x); }  0 }",
    "topology_value": "let t : Topology = Topology::GPU[1];  let n : i32 = t;",
    "method_spellings": X + "let d = x.with_memory(Memory::GPU_HBM);  let e = d.to_host();  let a = e[0];",
    "current": "spawn on(Topology::Current) { }",
    "pinned": "fn f(x : Pinned<Tensor<f32, [4]>, Topology::GPU[0]>) -> void { }\nfn main() -> i32 { f(Tensor<f32, [4], Topology::GPU[0]>::new());  0 }",
    "local_in_region": "let x = Tensor<f32, [4], Topology::GPU[0]>::new();  spawn on(Topology::GPU[0]) { let mut y = Tensor<f32, [4]>::new();  y = x * 2.0;  y[0] += x[1];  let z : Tensor<f32, [4]> = y; }",
}

WITH_MACHINE = {
    "unindexed": X + "let d = transfer(x, Memory::HBM);  //! E6031\n let e = transfer(x, Topology::Device);  //! E6031",
    "unindexed_spawn": "spawn on(Topology::Device) { }  //! E6031",
    "unindexed_inside": "fn f(x : &Tensor<f32, [4], Memory::HBM>) on Topology::Device[1] -> f32 { x[0] }\n"
    "fn main() -> i32 { let x = Tensor<f32, [4], Topology::Device[1]>::new();  spawn on(Topology::Device[1]) { let a = f(&x); }  0 }",
    "beyond": X + "let d = transfer(x, Topology::Device[2]);  //! E6032",
    "gpu_is_the_device": X + "let d : Tensor<f32, [4], Topology::Device[1]> = transfer(x, Topology::GPU[1]);",
    "dtype": "let x = Tensor<f64, [4]>::new();\n let d = transfer(x, Topology::Device[0]);  //! E6026\n let e = Tensor<bf16, [4], Topology::Device[0]>::new();  //! E6026",
    "no_path": X + "let d = transfer(x, Topology::Island);  //! E6002",
    "device_blind_to_host": X + "spawn on(Topology::Device[0]) {\n let a = x[0];  //! E6003\n }",
    "peer": X
    + "let d = transfer(x, Topology::Device[0]);  let e : Tensor<f32, [4], Topology::Device[1]> = transfer(d, Topology::Device[1]);",
    "run_time_index": "let mut d = 1;  let x = Tensor<f32, [4]>::new();\n let y = transfer(x, Topology::Device[d]);  //! E6031",
}


@pytest.mark.parametrize("name", BUILTIN)
def test_builtin_machine(name: str, tmp_path: Path) -> None:
    expect(tmp_path, BUILTIN[name])


@pytest.mark.parametrize("name", WITH_MACHINE)
def test_machine_file(name: str, tmp_path: Path) -> None:
    expect(tmp_path, WITH_MACHINE[name], machine=TWO)


def test_declarations_in_the_program(tmp_path: Path) -> None:
    source = "Memory Near { managed: explicit }\nTopology Worker { memory: Memory::Near, transfer Memory::CPU_DRAM -> Memory::Near }\n"
    source += "fn main() -> i32 { let x = Tensor<f32, [4]>::new();  let d : Tensor<f32, [4], Memory::Near> = transfer(x, Topology::Worker);  0 }"
    accepted(tmp_path, source)


def test_cached_memory_may_be_read_along_a_path(tmp_path: Path) -> None:
    source = "Memory Near { managed: MODE }\nTopology Worker { memory: Memory::Near, transfer Memory::CPU_DRAM -> Memory::Near\n"
    source += " transfer Memory::Near -> Memory::CPU_DRAM }\n"
    source += "fn main() -> i32 { let x = Tensor<f32, [4], Memory::Near>::new();\n let a = x[0];\n 0 }"
    accepted(tmp_path, source.replace("MODE", "cached"))
    expect(tmp_path, source.replace("MODE", "explicit").replace("x[0];", "x[0];  //! E6003"))


def test_function_without_on_has_an_instance_for_each_caller(tmp_path: Path) -> None:
    source = "fn first(v : &Tensor<f32, [4]>) -> f32 { v[0] }\n"
    source += (
        "fn main() -> i32 { let x = Tensor<f32, [4]>::new();  let d = transfer(x, Topology::GPU[0]);  first(&x);\n"
    )
    source += " spawn on(Topology::GPU[0]) { first(&d);  first(&x); }  0 }"
    program = accepted(tmp_path, source)
    assert [key for key in program.functions if key.startswith("first")] == [
        "first",
        "first on Topology::GPU[0]",
        "first on Topology::GPU[0] [v at Topology::CPU[0]]",
    ]
    assert program.functions["first"].on is None
    assert program.functions["first on Topology::GPU[0]"].on == tree.Place("GPU_HBM", "GPU", 0)


def test_routes_are_recorded(tmp_path: Path) -> None:
    source = X + "let a = transfer(x, Memory::Local_SRAM);  let mut b = Tensor<f32, [4], Topology::GPU[1]>::new();\n"
    source += "b = transfer(x, Topology::GPU[1]);"
    text = dumped(tmp_path, source)
    assert "transfer(&x.0) : Tensor<f32, [4], Topology::AccCore[0]> via CPU_DRAM -> NPU_HBM -> Local_SRAM;" in text
    assert "land b.2 = &x.0 via CPU_DRAM -> GPU_HBM;" in text


def test_region_values_are_pinned(tmp_path: Path) -> None:
    source = "let x = Tensor<f32, [2, 4], Topology::GPU[0]>::new();  let y = spawn on(Topology::GPU[0]) { x[1] };\n"
    source += "let n = spawn on(Topology::GPU[0]) { sum(x[0]) };"
    text = dumped(tmp_path, source)
    assert "let y.1 : Tensor<f32, [4], Topology::GPU[0]> = spawn on Topology::GPU[0] {" in text
    assert "copied(&x.0[1i32])" in text and "let n.2 : f32 = spawn" in text

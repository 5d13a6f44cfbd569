"""Deadlines of transfers: proven by the declared route, for the most bytes that move, to the picosecond."""

from __future__ import annotations

from pathlib import Path

import pytest
from placement_cases import errors, messages

LINKS = """
Memory HBM { managed: explicit, capacity: 1 GiB }
Memory FAR { managed: explicit }
Memory DARK { managed: explicit }
Memory CORE { within: Memory::HBM, bandwidth: 100 B/cyc, clock: 1 GHz }
Topology Device { memory: Memory::HBM, instances: 2, peer: 2 GB/s latency 1 us,
  transfer Memory::CPU_DRAM -> Memory::HBM : 1 GB/s latency 8 us
  transfer Memory::HBM -> Memory::CPU_DRAM : 1 GB/s
  transfer Memory::HBM -> Memory::FAR : 4 GB/s
  transfer Memory::CPU_DRAM -> Memory::DARK : 7
  transfer Memory::HBM -> Memory::DARK }
"""
X = "let x = Tensor<f32, [1000]>::new();\n"
D = "let d = Tensor<f32, [1000], Topology::Device[0]>::new();\n"

MET = {
    # 4000 B at 1 GB/s and 8 us of latency: 12 us.
    "exactly": X + "let d = transfer(x, Topology::Device[0]) within 12 us;",
    "as_nanoseconds": X + "let d = transfer(x, Topology::Device[0]) within 12000 ns;",
    "two_hops": X + "let d = transfer(x, Memory::FAR) within 13 us;",
    "peer": D + "let e = transfer(d, Topology::Device[1]) within 3 us;",
    "a_bounded_slice": X + "let mut n = 3;  n += 1;  let d = transfer(x[0..n], Topology::Device[0]) within 12 us;",
    "landing": D + X + "let mut e = Tensor<f32, [2, 1000], Topology::Device[0]>::new();\n"
    "e[1] = transfer(x, Topology::Device[0]) within 12 us;",
}
MISSED = {
    "one_nanosecond_less": X + "let d = transfer(x, Topology::Device[0]) within 11999 ns;  //!\n",
    "one_element_more": "let x = Tensor<f32, [1001]>::new();\n"
    "let d = transfer(x, Topology::Device[0]) within 12 us;  //!\n",
    "two_hops": X + "let d = transfer(x, Memory::FAR) within 12999 ns;  //!\n",
    "peer": D + "let e = transfer(d, Topology::Device[1]) within 2999 ns;  //!\n",
    "a_bounded_slice": X
    + "let mut n = 3;  n += 1;\n let d = transfer(x[0..n], Topology::Device[0]) within 11 us;  //!\n",
    "landing": X + "let mut e = Tensor<f32, [2, 1000], Topology::Device[0]>::new();\n"
    "e[1] = transfer(x, Topology::Device[0]) within 11 us;  //!\n",
    "weights_are_no_time": X + "let d = transfer(x, Memory::DARK) within 1 s;  //!\n",
    "one_hop_unpriced": D + "let e = transfer(d, Memory::DARK) within 1 s;  //!\n",
    "within_one_memory": D + "let e = transfer(d, Topology::Device[0]) within 1 s;  //!\n",
    "in_a_generic_function": "fn f<const N : i32>() -> void { let x = Tensor<f32, [N]>::new();\n"
    "let d = transfer(x, Topology::Device[0]) within 12 us;  //!\n }\nfn main() -> i32 { f<1000>();  f<1001>();  0 }",
    "unbounded": "fn f(x : &Tensor<f32, [?]>) -> void {\n let d = transfer(x, Topology::Device[0]) within 1 s;  //!\n }\n"
    "fn main() -> i32 { let x = Tensor<f32, [4]>::new();  f(&x);  0 }",
}


@pytest.mark.parametrize("name", MET)
def test_met(name: str, tmp_path: Path) -> None:
    assert errors(tmp_path, MET[name], LINKS) == []


@pytest.mark.parametrize("name", MISSED)
def test_not_met(name: str, tmp_path: Path) -> None:
    source = MISSED[name]
    start = 0 if "fn main" in source else 1
    line = next(number for number, text in enumerate(source.splitlines(), start + 1) if "//!" in text)
    assert errors(tmp_path, source, LINKS) == [(line, "E6033")]


def test_what_is_said_of_a_missed_deadline(tmp_path: Path) -> None:
    [text] = messages(tmp_path, X + "let d = transfer(x, Memory::FAR) within 9 us;", LINKS)
    assert "this takes 13 us by the machine's declared figures, and its deadline is 9 us" in text
    assert "at most 4000 bytes move, on the route CPU_DRAM -> HBM -> FAR" in text
    assert "CPU_DRAM -> HBM: 12 us, by the declared rate of the link" in text
    assert "13000000 ps, and the deadline is 9000000 ps" in text


def test_the_hop_without_a_price_is_named(tmp_path: Path) -> None:
    [text] = messages(tmp_path, D + "let e = transfer(d, Memory::DARK) within 1 s;", LINKS)
    assert "the machine gives no price for HBM -> DARK" in text


def test_what_has_no_bound_is_said(tmp_path: Path) -> None:
    [text] = messages(tmp_path, MISSED["unbounded"], LINKS)
    assert "nothing bounds how many bytes move" in text


def test_the_route_depends_on_the_size(tmp_path: Path) -> None:
    """A quick start or a broad road: 1 KB is sooner by the first, 1 MB by the second."""
    machine = """
Memory NEAR { managed: explicit }
Memory QUICK { managed: explicit }
Memory BROAD { managed: explicit }
Topology Device { memory: Memory::NEAR,
  transfer Memory::CPU_DRAM -> Memory::QUICK : 1 GB/s,  transfer Memory::QUICK -> Memory::NEAR : 1 GB/s,
  transfer Memory::CPU_DRAM -> Memory::BROAD : 100 GB/s latency 10 us,  transfer Memory::BROAD -> Memory::NEAR : 100 GB/s }
"""
    small = "let x = Tensor<f32, [250]>::new();\nlet d = transfer(x, Memory::NEAR) within {} us;"
    large = "let x = Tensor<f32, [250000]>::new();\nlet d = transfer(x, Memory::NEAR) within {} us;"
    assert errors(tmp_path, small.format(2), machine) == [] == errors(tmp_path, large.format(30), machine)
    [text] = messages(tmp_path, small.format(1), machine)
    assert "the route CPU_DRAM -> QUICK -> NEAR" in text
    [text] = messages(tmp_path, large.format(29), machine)
    assert "the route CPU_DRAM -> BROAD -> NEAR" in text

"""Every function of the standard library is well typed, called or not."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import accepted

from vx import resources

MODULES = sorted(path for path in resources.directory("std").glob("*.vx") if path.stem not in ("model", "prelude"))

EVERY_METHOD = """
import std::vec;
struct Owner { t : Tensor<f32, [2]> }
fn use_vec() -> void {
  let mut v = Vec<Owner>::new();
  v.push(Owner { t: Tensor<f32, [2]>::new() });
  v.reserve(3);
  let n = v.at(0).t[0] + v.at_mut(0).t[1];
  v.swap(0, 0);
  v.truncate(0);
  v.clear();
  print(n);
}
fn main() -> i32 {
  use_vec();
  let a : Option<i32> = Some(1);
  let b : Result<i32, bool> = Ok(2);
  if a.is_some() && !a.is_none() && b.is_ok() && !b.is_err() { a.unwrap_or(3) + b.unwrap_or(4) } else { 0 }
}
"""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_module(path: Path, tmp_path: Path) -> None:
    accepted(tmp_path, path.read_text(encoding="utf-8") + "\nfn main() -> i32 { 0 }\n")


def test_generic_types(tmp_path: Path) -> None:
    accepted(tmp_path, EVERY_METHOD)

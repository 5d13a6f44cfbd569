"""What `print` writes: every number's shortest text, tensors, and where output goes wrong."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from vx.runtime.abi import EXIT_OUTPUT

Build = Callable[[str], Path]
SEED = 20240229


def printed(program: Build, type_: str, words: npt.NDArray[np.uint64]) -> list[str]:
    """The texts of 64-bit words seen as `type_`."""
    done = subprocess.run([program("speak"), "numbers", type_], input=words.tobytes(), capture_output=True, check=True)
    return done.stdout.decode().splitlines()


def f64_words(values: Sequence[float]) -> npt.NDArray[np.uint64]:
    return np.array(values, dtype=np.float64).view(np.uint64)


def test_chosen_texts(program: Build) -> None:
    texts = [
        (38.0, "38"), (1.5, "1.5"), (0.2, "0.2"), (-0.0, "-0"), (0.0, "0"), (1e-5, "1e-05"), (0.0001, "0.0001"),
        (1e15, "1000000000000000"), (1e16, "1e+16"), (1.5e300, "1.5e+300"), (123456.789, "123456.789"),
        (float("nan"), "nan"), (float("inf"), "inf"), (-float("inf"), "-inf"), (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
    ]  # fmt: skip
    assert printed(program, "f64", f64_words([value for value, _ in texts])) == [text for _, text in texts]


def test_f64_is_python_repr(program: Build) -> None:
    rng = np.random.default_rng(SEED)
    powers = f64_words([s * 2.0**e for e in range(-1074, 1024) for s in (1, -1)])
    decimals = f64_words([float(f"{d}e{e}") for e in range(-320, 300, 7) for d in (1, 3.7, 123.456)])
    words = np.concatenate([rng.integers(0, 2**64, 8000, dtype=np.uint64), powers, powers + 1, powers - 1, decimals])
    values = words.view(np.float64).tolist()
    assert printed(program, "f64", words) == [repr(v).removesuffix(".0") for v in values]


def numpy_text(value: np.floating) -> str:
    """numpy's shortest text of a value, laid out as `print` lays it out."""
    if np.isnan(value):
        return "nan"
    scientific = np.format_float_scientific(value, unique=True, trim="-", exp_digits=2)
    if np.isinf(value) or value == 0 or -5 < int(scientific.partition("e")[2]) < 16:
        return np.format_float_positional(value, unique=True, trim="-")
    return scientific


def test_f32_is_numpys_shortest(program: Build) -> None:
    rng = np.random.default_rng(SEED)
    powers = np.array([2.0**e for e in range(-149, 128)], dtype=np.float32).view(np.uint32)
    bits = np.concatenate([rng.integers(0, 2**32, 20000, dtype=np.uint32), powers, powers + 1, powers - 1])
    assert printed(program, "f32", bits.astype(np.uint64)) == [numpy_text(v) for v in bits.view(np.float32)]


def test_every_f16_is_numpys_shortest(program: Build) -> None:
    bits = np.arange(65536, dtype=np.uint16)
    assert printed(program, "f16", bits.astype(np.uint64)) == [numpy_text(v) for v in bits.view(np.float16)]


def test_every_bf16_reads_back_and_no_shorter_text_does(program: Build) -> None:
    bits = np.arange(65536, dtype=np.uint16)
    texts = printed(program, "bf16", bits.astype(np.uint64))
    values = (bits.astype(np.uint32) << 16).view(np.float32)
    finite = np.isfinite(values)
    assert [t for t, f in zip(texts, finite, strict=True) if not f and t not in ("nan", "inf", "-inf")] == []
    chosen = [t for t, f in zip(texts, finite, strict=True) if f]
    assert (to_bf16(np.array(chosen, dtype=np.float64)) == bits[finite]).all()
    for value, text, expected in zip(values[finite][::97], chosen[::97], bits[finite][::97], strict=True):
        digits = len(text.partition("e")[0].replace("-", "").replace(".", "").strip("0"))
        if digits > 1:
            assert to_bf16(np.array([f"{value:.{digits - 2}e}"], dtype=np.float64))[0] != expected, text


def to_bf16(values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint16]:
    with np.errstate(over="ignore"):
        words = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((words + 0x7FFF + (words >> 16 & 1)) >> 16).astype(np.uint16)


def test_integers(program: Build) -> None:
    words = np.array([0, 1, 2**63 - 1, 2**63, 2**64 - 1], dtype=np.uint64)
    assert printed(program, "u64", words) == ["0", "1", str(2**63 - 1), str(2**63), str(2**64 - 1)]
    assert printed(program, "i64", words) == ["0", "1", str(2**63 - 1), str(-(2**63)), "-1"]


@pytest.mark.parametrize("value", [0, 1, 2**64, 10**38, 2**127 - 1, -1, -(2**127), -(10**20)])
def test_i128(program: Build, value: int) -> None:
    words = np.frombuffer((value % 2**128).to_bytes(16, "little"), dtype=np.uint64)
    assert printed(program, "i128", words)[0] == str(value)
    assert printed(program, "u128", words)[0] == str(value % 2**128)


def test_much_output_arrives_whole(program: Build) -> None:
    done = subprocess.run([program("speak"), "much", "100000"], capture_output=True, check=True)
    assert done.stdout.decode().splitlines() == [str(i) for i in range(100000)]


def test_newline_is_flushed_on_a_terminal(program: Build) -> None:
    ours, theirs = os.openpty()
    with subprocess.Popen([program("speak"), "much", "3"], stdout=theirs) as process:
        process.wait(timeout=10)
        os.close(theirs)
        assert os.read(ours, 100) == b"0\r\n1\r\n2\r\n"
    os.close(ours)


def test_full_disk_is_an_error(program: Build) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([program("speak"), "much", "10"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == EXIT_OUTPUT
    assert done.stderr == b"vx: standard output: No space left on device\n"


def test_closed_pipe_ends_the_program_quietly(program: Build) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [program("speak"), "much", "10"], stdout=write_end, stderr=subprocess.PIPE, check=False
    )  # fmt: skip
    os.close(write_end)
    assert done.returncode == EXIT_OUTPUT
    assert done.stderr == b""


def test_double_word_order() -> None:
    assert f64_words([1.5])[0] == struct.unpack("<Q", struct.pack("<d", 1.5))[0]

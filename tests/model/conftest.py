"""Fixtures: real checkpoints, where the machine has them, and small made-up ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_checkpoint import Made

from vx.model.info import ModelInfo
from vx.model.llama2c import import_llama2c

SHARED = Path(__file__).resolve().parents[3] / "shared"


def _shared(*parts: str) -> Path:
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"SKIPPED LOUDLY: {path} is not here, so nothing was checked against real weights")
    return path


@pytest.fixture(scope="session")
def shared() -> Callable[..., Path]:
    """A file beside the repository, by its path; skips if it is absent."""
    return _shared


@pytest.fixture(scope="session")
def golden() -> Any:
    return json.loads(_shared("golden", "stories260K.json").read_text())


@pytest.fixture(scope="session")
def stories(tmp_path_factory: pytest.TempPathFactory) -> ModelInfo:
    """The real 260K model, imported as f32."""
    out = tmp_path_factory.mktemp("models") / "stories260K"
    return import_llama2c(_shared("models", "stories260K.bin"), _shared("models", "tok512.bin"), out)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path, tied=True)


@pytest.fixture
def made_untied(tmp_path: Path) -> Made:
    return Made(tmp_path, tied=False)

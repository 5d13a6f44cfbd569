"""Fixtures for every test: builds go to a cache of the test run's own, and stay warm within it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def pytest_configure() -> None:
    """Keep the tests' builds apart from the user's, but the runtime's objects from run to run."""
    os.environ.setdefault("VX_CACHE_DIR", str(ROOT / ".cache" / "tests"))
    os.environ["NO_COLOR"] = "1"


@pytest.fixture
def root() -> Path:
    """The checkout."""
    return ROOT

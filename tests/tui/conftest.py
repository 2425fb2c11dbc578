"""The app is told over real stores and servers, with a pilot at its keys."""

from __future__ import annotations

import pytest

import scenarios.conftest
from remote.conftest import store
from scenarios.conftest import driving, hours

__all__ = ["driving", "hours", "store"]
STORY_S = 120.0  # a story here has many waits, each of which has its own bound


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios.conftest, "STORY_S", STORY_S)

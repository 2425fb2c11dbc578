"""The app is told over real stores and servers, with a pilot at its keys."""

from __future__ import annotations

import pytest

from remote.conftest import store
from scenarios.conftest import driving, hours

__all__ = ["driving", "hours", "store"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"

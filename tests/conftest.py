"""Async tests run on asyncio: it is what the stores are written for."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"

"""Every story of the server is told over a real socket."""

from __future__ import annotations

import pytest

from scenarios.conftest import driving, hours, store

__all__ = ["driving", "hours", "store"]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop a module, so that stories in which nothing may change can share a server."""
    return "asyncio"

"""Every story of the contract is told twice: over ``Control``, and over HTTP."""

from __future__ import annotations

import pytest

from midflight.stores.memory import MemoryStore
from midflight.stores.protocol import Store
from scenarios.conftest import driving, hours

__all__ = ["driving", "hours"]


@pytest.fixture
def store() -> Store:
    """Stores have a contract of their own; here the door is what differs."""
    return MemoryStore()


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"

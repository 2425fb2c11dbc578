"""Every story of the client is told twice: over a store here, and over a server."""

from __future__ import annotations

from remote.conftest import anyio_backend, driving, hours, store

__all__ = ["anyio_backend", "driving", "hours", "store"]

"""Every story of the server is told over a real socket."""

from __future__ import annotations

from scenarios.conftest import driving, store

__all__ = ["driving", "store"]

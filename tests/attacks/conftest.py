"""The same stores, engines and servers as in the other stories."""

from __future__ import annotations

from page.conftest import browser, theatre
from scenarios.conftest import crashing, driving, hours, store

__all__ = ["browser", "crashing", "driving", "hours", "store", "theatre"]

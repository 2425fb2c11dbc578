"""Interruptible agents: pause, redirect, cancel or resume them while they work, even after a crash.

What is here so far is the foundation: the journal, its kernel and its stores.
"""

from midflight.errors import MidflightError, Refused, StoreError
from midflight.kernel.phases import Phase
from midflight.kernel.record import Who
from midflight.stores.base import Store
from midflight.stores.opening import open_store

__all__ = ["MidflightError", "Phase", "Refused", "Store", "StoreError", "Who", "open_store"]

"""How long works take that run at once, and how much of the processor. Plain Python alone."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from midflight.kit.adapters import stage


async def clocked(works: Iterable[Any]) -> dict[str, float]:
    """Run all of them to the end of the last.

    The processor's time is of all threads of this process.
    """
    began, used = time.monotonic(), time.process_time()
    await stage.together(works)
    return {"s": time.monotonic() - began, "cpu_s": time.process_time() - used}

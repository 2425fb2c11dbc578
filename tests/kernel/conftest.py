"""Properties are drawn the same way on every machine: a red build can be repeated anywhere."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile(
    "deterministic", derandomize=True, database=None, deadline=None, max_examples=50
)
settings.load_profile("deterministic")

"""Properties are drawn the same way on every machine: a red build can be repeated anywhere."""

from __future__ import annotations

import os

from hypothesis import settings

HURRY = "MIDFLIGHT_HURRY" in os.environ
"""Set by `make check`: a few draws of each, which find what is plainly broken."""

settings.register_profile(
    "deterministic",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=8 if HURRY else 50,
)
settings.load_profile("deterministic")

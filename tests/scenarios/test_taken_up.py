"""A long run is taken up from its stored fold: only what follows is read, and nothing is redone."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

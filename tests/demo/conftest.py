from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.theatre import Theatre


@pytest.fixture
def theatre(tmp_path: Path) -> Iterator[Theatre]:
    there = Theatre(tmp_path / "demo")
    yield there
    for playing in there.played:
        playing.close()

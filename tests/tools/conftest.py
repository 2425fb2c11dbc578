"""Every test here names the processes that it starts, so that it sees and ends only those."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from midflight.inputs import new_id
from tools.processes import alive


@pytest.fixture
def token() -> Iterator[str]:
    """A word that is in the command line of all processes of one test, and of no others."""
    word = f"midflight-test-{new_id()}"
    yield word
    for pid in alive(word):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

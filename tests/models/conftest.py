"""The stand-in, and a model of each kind that asks it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from midflight.models.model import Model, Prompt, ToolSpec, Turn
from models.standin import StandIn

READ = ToolSpec(
    "read_file", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}}
)
ASKING = Prompt("Be brief.", (Turn("user", "What does a.txt say?"),), (READ,))

Opened = Callable[..., Model]


@pytest.fixture
async def standin(anyio_backend: str) -> AsyncIterator[StandIn]:
    async with StandIn() as server:
        yield server


@pytest.fixture(params=["anthropic", "openai"])
def opened(request: pytest.FixtureRequest, standin: StandIn) -> Opened:
    """Opens a model of each provider at the stand-in."""

    def opening(**more: Any) -> Model:
        made: Model = getattr(standin, request.param)(**more)
        return made

    return opening

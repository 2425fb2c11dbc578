"""Talking to an agent on Discord while it works."""

from __future__ import annotations

import pytest

from assistant.desk import clerk
from channels.conftest import Talking
from channels.stand_in import Person, StandIn
from midflight.models.scripted import call, say

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


async def test_a_dm_starts_work_and_its_answer_comes_back(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    works, _, _ = clerk("dm", [call("dm_look", what="stock"), say("All is fine.")])

    async with talking(works):
        chat = ann.dm()
        await ann.says(chat, "Look at the stock")
        await discord.until_shown(chat, "All is fine.")
        status = await discord.until_shown(chat, "**Done**")

    assert status.buttons == []

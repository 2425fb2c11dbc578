"""The demo model: rules in place of a language model, offline and free, so that everyone can try.

It says what it is in its name and in all that it says. It lists and reads files, writes a report or
a note, runs a command in backticks, tells what it is doing, and sorts messages by simple words.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Final

import anyio

from midflight.inputs import Ids, new_id
from midflight.models.base import (
    CHARACTERS_PER_TOKEN,
    CallDelta,
    Piece,
    Prompt,
    Reply,
    Spent,
    TextDelta,
    ToolCall,
    check_pairing,
)
from midflight.models.demo_rules import next_move, triage

NAME: Final = "demo model"
WORD: Final = re.compile(r"\S+\s*")
PACE_S: Final = 0.04  # a word: as fast as people read
THINK_S: Final = 0.4


class DemoModel:
    """See the module. ``pace`` is the seconds a word takes; 0 for tests."""

    def __init__(self, *, pace: float = PACE_S, think: float = THINK_S, ids: Ids = new_id) -> None:
        self.name = NAME
        self._pace, self._think, self._ids = pace, think, ids

    def stream(self, prompt: Prompt) -> AbstractAsyncContextManager[AsyncIterator[Piece]]:
        """Ask; see ``Model``."""
        return aclosing(self._pieces(prompt))

    async def _pieces(self, prompt: Prompt) -> AsyncGenerator[Piece, None]:
        check_pairing(prompt.turns)
        move = triage(prompt) if prompt.choice else next_move(prompt)
        text = f"({NAME}) {move.text}" if move.text else ""
        await anyio.sleep(self._think)
        for word in WORD.findall(text):
            await anyio.sleep(self._pace)
            yield TextDelta(word)
        calls = tuple(ToolCall(f"demo_{self._ids()}", c.name, c.arguments) for c in move.calls)
        for call in calls:
            await anyio.sleep(self._pace)
            yield CallDelta(call.id, call.name, call.arguments)
        said = "".join(turn.text for turn in prompt.turns) + prompt.system
        spent = Spent(
            input_tokens=len(said) // CHARACTERS_PER_TOKEN,
            output_tokens=len(text) // CHARACTERS_PER_TOKEN,
            cached_tokens=0,
            usd=0.0,
            model=NAME,
            estimated=True,
        )
        yield Reply(text, calls, spent, "tools" if calls else "end")

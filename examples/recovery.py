"""A step fails, and a person says what to do: try again, change it, skip it, or cancel the run.

The model follows a script. A cancel undoes what the run had done before.
"""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any

import midflight
from midflight import EffectRecord, tool
from midflight.assistant import Profile, assistant
from midflight.models.model import Prompt
from midflight.models.scripted import Line, ScriptedModel, call, say

BOOKED: list[str] = []
TRIED: list[str] = []


async def give_back(performed: EffectRecord) -> None:
    """Undo the booking of a room."""
    BOOKED.remove(performed.kwargs["room"])


@tool(effect="write", name="recovery.book", undo=give_back)
async def book(room: str) -> str:
    """Book a room."""
    BOOKED.append(room)
    return f"{room} is booked"


@tool(effect="read", name="recovery.train")
async def train(to: str) -> str:
    """Find a train. The timetable is often down, and knows no nicknames."""
    TRIED.append(to)
    if to != "Paris" or TRIED.count(to) == 1:
        raise RuntimeError(f"no timetable for {to}")
    return f"9:12 to {to}"


def script(prompt: Prompt) -> Line:
    """Book a room, find a train, and say what came of it."""
    told = [turn.text for turn in prompt.turns if turn.role == "tool"]
    if not told:
        return call("recovery_book", room="Room 7")
    if len(told) == 1:
        return call(
            "recovery_train", to="Paname" if "nickname" in prompt.turns[0].text else "Paris"
        )
    return say(f"Room 7, and the train: {told[-1]}")


travels = assistant("travels", Profile(ScriptedModel(script), [book, train], on_error="ask"))


async def main() -> None:
    """Start four trips whose train is not found, and give four answers to that."""
    answers: list[tuple[str, Any]] = [
        ("Go to Paris", "retry"),
        ("Go to Paris, by its nickname", {"edit": {"to": "Paris"}}),
        ("Go to Paris, by its nickname", "skip"),
        ("Go to Paris, by its nickname", "cancel"),
    ]
    async with midflight.open("memory:", agents=[travels], workdir=tempfile.mkdtemp()) as client:
        for brief, answer in answers:
            BOOKED.clear()
            run = await client.start(travels, brief)
            question = await run.next_question()
            print(f"{question.message}\n  > {answer}")
            await question.answer(answer)
            ended = await run.wait()
            said = await run.result() if ended.phase == "done" else "nothing"
            print(f"  {ended.phase}: {said}; booked: {BOOKED}\n")


if __name__ == "__main__":
    asyncio.run(main())

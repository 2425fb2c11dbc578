"""The story: urgent work comes between, comes back, is added to, redirected and stopped."""

from __future__ import annotations

import time

import anyio
import pytest

from assistant.desk import Office, clerk, last
from chat.conftest import Talking
from chat.person import Person
from chat.stand_in import StandIn
from midflight.inputs import wall_clock
from midflight.journal.events import Paused
from midflight.journal.phases import Phase
from midflight.journal.record import Recorded
from midflight.models.model import Prompt
from midflight.models.scripted import Line, call, call_all, say

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

TURNS = (
    "**Switched**",
    "**Parked**, comes back",
    "**Back to:**",
    "**Incorporated**",
    "**Redirected:**",
    "Paused. Cancel?",
)
"""What each turn is shown by, in its order."""


def triage(prompt: Prompt) -> Line:
    """By a word in the message: first, later, or neither."""
    choices = []
    for text in last(prompt).split("Message ")[1:]:
        number, words = text.split(" ", 1)
        action = "switch" if "first" in words else "defer" if "later" in words else "incorporate"
        choices.append({"message": int(number), "action": action, "say": f"Will {action}."})
    return call_all(("triage", {"choices": choices}))


def script(prompt: Prompt) -> Line:
    """What the model does about what it was told last."""
    text = last(prompt)
    if prompt.turns[-1].role == "tool":
        told = " ".join(turn.text for turn in prompt.turns)
        if "ledger" in told:
            return say("12 have churned.")
        return say("The report is done.") if "slow" in told else say("Nothing else.")
    if "picnic" in text:
        return call("story_look", what="park")
    if "churn" in text:
        return call("story_look", what="ledger")
    if "attic" in text:
        return say("Cellar and attic are dry.")
    places = {"report": "slow", "cellar": "cellar", "trip": "trains"}
    return call("story_look", what=next(p for word, p in places.items() if word in text))


def _is_pause(record: Recorded) -> bool:
    return isinstance(record.event, Paused)


async def _notice_holdups(held_up: list[float]) -> None:
    """Add up for how long nothing could happen here, though not by our work: the machine's."""
    while True:
        before, worked = wall_clock(), time.process_time()
        await anyio.sleep(0.01)
        late = wall_clock() - before - 0.01 - (time.process_time() - worked)
        held_up[0] += late if late > 0.05 else 0.0


@pytest.mark.slow
async def test_each_turn_of_the_story_is_shown_in_one_line(  # noqa: PLR0915 - it is one story
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    office = Office("story")
    for place in ("slow", "ledger", "cellar", "trains", "park"):
        office.gate(place)
    works, model, _ = clerk("story", script, office, triage=triage)

    async with talking(works) as control:
        chat = ann.dm()
        # A runs, B is more urgent: A is parked, B is done, A comes back and finishes
        await ann.says(chat, "Write the report")
        await office.until_begun("slow")
        await ann.says(chat, "first count churn")
        ack = await discord.until_shown(chat, "working")
        assert "step 1" in ack.content
        switched = await discord.until_shown(chat, "**Switched** to this now: “first count churn”")
        assert [label.split(" “")[0] for label in switched.labels] == ["Go back"]
        await discord.until_shown(chat, "**Parked**, comes back by itself: resume")
        parked = await control.todos(f"t-discord-{chat}")
        assert [todo.text for todo in parked] == ["resume Write the report from step 1"]
        office.gate("ledger").set()
        await discord.until_shown(chat, "12 have churned.")
        await discord.until_shown(chat, "**Back to:** resume")
        office.gate("slow").set()
        await discord.until_shown(chat, "The report is done.")

        # oh also …
        await ann.says(chat, "check the cellar")
        await office.until_begun("cellar")
        await ann.says(chat, "oh also the attic")
        taken = await discord.until_shown(chat, "**Incorporated** into step")
        assert taken.labels == ["Undo “oh also the attic”"]
        office.gate("cellar").set()
        await discord.until_shown(chat, "Cellar and attic are dry.")

        # never mind, do this instead
        await ann.says(chat, "plan a trip")
        await office.until_begun("trains")
        await discord.until_shown(chat, "**Running** plan a trip")
        shown, asked = len(discord.shown(chat)), len(model.prompts)
        await ann.says(chat, "never mind, plan a picnic instead")
        await discord.until_shown(chat, "↳ **Redirected:** plan a ~~trip~~ **picnic**")
        await office.until_begun("park")
        assert len(discord.shown(chat)) == shown + 1  # one line, and the status is edited
        assert len(model.prompts) == asked + 1  # no triage: its words were plain

        # stop: paused within a second, before any model is asked
        (run,) = [row.journal for row in await control.runs() if row.phase == Phase.RUNNING]
        asked, began = len(model.prompts), wall_clock()
        async with anyio.create_task_group() as beside:
            held_up = [0.0]
            beside.start_soon(_notice_holdups, held_up)
            await ann.says(chat, "stop")
            asks = await discord.until_shown(chat, "Paused. Cancel?")
            assert [label.split(" ·")[0] for label in asks.labels] == ["Resume", "Cancel"]
            await discord.until_shown(chat, "⏸ **Paused**")
            beside.cancel_scope.cancel()
        stopped = [r for r in await control.store.read(run) if _is_pause(r)]
        assert stopped[-1].at - began - held_up[0] < 1.0
        assert len(model.prompts) == asked

        await ann.presses(asks, "Cancel")
        await discord.until_shown(chat, "⏹ **Cancelled** plan a picnic (by ann@discord)")
        assert await control.todos(f"t-discord-{chat}") == []

    lines = [line for line in discord.text(chat).splitlines() if any(t in line for t in TURNS)]
    assert [next(t for t in TURNS if t in line) for line in lines] == list(TURNS)

"""Who hangs up ends nothing but the call: what the record says of who had heard what."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from midflight.assistant import Profile, assistant
from midflight.control import Control
from midflight.models.scripted import ScriptedModel, say
from voice.studio import THREAD, on_the_line
from voice.talkers import TEXT

pytestmark = pytest.mark.anyio
HEARD = ("one two three four", "cut short")
ANSWER = f"{TEXT}. And then"


async def told(control: Control) -> list[tuple[str, str]]:
    lines = await control.transcript(THREAD)
    return [(line.text, line.status) for line in lines if line.kind == "said: text"]


async def test_an_answer_that_ends_after_its_listener_has_hung_up_is_there_to_be_read_as_not_heard(
    tmp_path: Path,
) -> None:
    ends = anyio.Event()
    model = ScriptedModel([say(ANSWER, pieces=9, until=ends), say("thirteen")])
    clerk = assistant("clerk", Profile(model, actions=()), delegates=False)
    async with on_the_line(clerk, tmp_path) as (control, call):
        async with call() as there:
            await there.say("Count please")
            await there.hears(4)
        ends.set()
        await control.ended((await control.runs())[0].journal)

        assert await told(control) == [HEARD, (ANSWER, "not heard")]

        async with call() as there:
            await there.say("And what now")
            await there.rests()
        said = [turn.text for turn in model.prompts[-1].turns if turn.role == "assistant"]
        assert " ".join(said).count(ANSWER) == 1
        assert any(text.startswith("one two three four [The person has cut you") for text in said)
        assert any(f"{ANSWER}\n\n[The person has hung up while you said this" in t for t in said)
        assert await told(control) == [HEARD, (ANSWER, "not heard"), ("thirteen", "")]

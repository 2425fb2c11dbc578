"""The scripted model says what it was told, remembers what it was asked, and is strict."""

from __future__ import annotations

import anyio
import pytest
from msgspec.structs import replace

from midflight.errors import ModelBroken, ModelBusy, ModelRefused, UnpairedCall
from midflight.models.model import Reply, TextDelta, ToolCall, Turn, complete
from midflight.models.scripted import ScriptedModel, call, call_all, fail, say
from models.conftest import ASKING

pytestmark = pytest.mark.anyio


async def test_lines_are_said_in_order_and_prompts_are_kept() -> None:
    model = ScriptedModel([call("read_file", path="a.txt"), say("It says hello.", usd=0.02)])

    first, second = await complete(model, ASKING), await complete(model, ASKING)

    assert first.calls == (ToolCall("scripted-call-000001", "read_file", '{"path":"a.txt"}'),)
    assert (first.stop, second.stop) == ("tools", "end")
    assert (second.text, second.spent.usd) == ("It says hello.", 0.02)
    assert model.prompts == [ASKING, ASKING]
    assert [asked.ended for asked in model.asked] == ["whole", "whole"]


async def test_a_script_may_look_at_what_is_asked() -> None:
    model = ScriptedModel(lambda prompt: say("chosen") if prompt.choice else say("free"))

    free, chosen = await complete(model, ASKING), await complete(model, replace(ASKING, choice="x"))

    assert (free.text, chosen.text) == ("free", "chosen")


async def test_the_same_script_gives_the_same_replies() -> None:
    lines = [call_all(("a", {}), ("b", "no json"), text="Two."), say("end")]

    one, other = ScriptedModel(lines), ScriptedModel(lines)

    assert [await complete(one, ASKING) for _ in lines] == [
        await complete(other, ASKING) for _ in lines
    ]


async def test_a_script_at_its_end_says_so() -> None:
    with pytest.raises(ModelRefused, match="has no line left to answer 'What does"):
        await complete(ScriptedModel([]), ASKING)


async def test_an_unpaired_call_is_refused_and_on_record() -> None:
    model = ScriptedModel([say("never")])
    unpaired = replace(ASKING, turns=(Turn("assistant", calls=(ToolCall("a", "x", "{}"),)),))

    with pytest.raises(UnpairedCall):
        await complete(model, unpaired)

    assert model.asked[0].ended == "UnpairedCall"


@pytest.mark.parametrize(("pieces", "told"), [(0, ""), (1, "12345678"), (9, "1234567890")])
async def test_an_error_comes_where_the_script_wants_it(pieces: int, told: str) -> None:
    error = ModelBroken("scripted", "as scripted", told)
    model = ScriptedModel([fail(error, text="1234567890", pieces=pieces)])
    heard: list[str] = []

    with pytest.raises(ModelBroken):
        await complete(model, ASKING, heard.append)

    assert "".join(heard) == told
    assert model.asked[0].ended == "ModelBroken"


async def test_an_error_in_place_of_an_answer() -> None:
    with pytest.raises(ModelBusy):
        await complete(ScriptedModel([fail(ModelBusy("scripted", "429"))]), ASKING)


async def test_an_answer_waits_for_an_event_in_its_middle() -> None:
    until = anyio.Event()
    model = ScriptedModel([say("1234567890", pieces=1, until=until)])

    async with model.stream(ASKING) as stream:
        pieces = aiter(stream)
        first = await anext(pieces)
        with anyio.move_on_after(0.05) as early:
            await anyio.sleep(10)
        until.set()

    assert first == TextDelta("12345678")
    assert early.cancelled_caught
    assert model.asked[0].ended == "closed"


async def test_it_goes_on_once_the_event_has_come() -> None:
    until = anyio.Event()
    model = ScriptedModel([say("1234567890", pieces=1, until=until)])

    async with anyio.create_task_group() as group:
        group.start_soon(complete, model, ASKING)
        await anyio.wait_all_tasks_blocked()
        waiting = model.asked[0].pieces, model.asked[0].ended
        until.set()

    assert waiting == (1, "")
    assert model.asked[0].ended == "whole"


async def test_what_is_left_early_is_closed() -> None:
    model = ScriptedModel([say("a long text", first=30.0)])

    with anyio.move_on_after(0.05):
        await complete(model, ASKING)

    assert model.asked[0].ended == "closed"


async def test_pieces_are_the_reply() -> None:
    async with ScriptedModel([say("1234567890")]).stream(ASKING) as stream:
        pieces = [piece async for piece in stream]

    assert [type(piece) for piece in pieces] == [TextDelta, TextDelta, Reply]

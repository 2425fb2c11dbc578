"""Think, act, listen, repeat: the loop as people meet it."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import anyio
import pytest

from assistant.conftest import Open
from assistant.desk import Office, clerk, last, until
from midflight.agents import agent
from midflight.assistant import Profile, Profiles, assistant
from midflight.errors import ModelBroken, ModelBusy, ModelRefused
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.journal.record import Actor
from midflight.models.model import Prompt
from midflight.models.scripted import Line, ScriptedModel, call, call_all, fail, say
from midflight.run import Run
from midflight.tools.declaration import tool
from scenarios.chat import until_chosen
from scenarios.company import events

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

ANN = Actor("ann")


async def test_it_calls_tools_gives_their_results_to_the_model_and_says_its_last_words(
    driving: Open,
) -> None:
    works, model, office = clerk("plain", [call("plain_look", what="stock"), say("All is well.")])

    async with driving(works) as control:
        run = await control.start(works, "Look at the stock")

        assert await control.result(run) == "All is well."
        assert office.done == ["stock"]
        assert last(model.prompts[1]) == "stock is fine"
        assert [said.text for said in await control.transcript((await control.state(run)).thread)]


async def test_a_tool_may_have_a_parameter_of_any_name(driving: Open) -> None:
    @tool(effect="read", name="odd.fetch")
    async def fetch(key: str, name: str, function: str) -> str:
        """Has the names of our own parameters."""
        return f"{key} {name} {function}"

    asks = call("odd_fetch", key="k", name="n", function="f")
    model = ScriptedModel([asks, say("done")], name="odd-model")
    works = assistant("odd", Profile(model, [fetch]))

    async with driving(works) as control:
        run = await control.start(works, "Fetch")
        await control.result(run)

        assert last(model.prompts[1]) == "k n f"


async def test_looks_go_together_and_effects_one_after_the_other(driving: Open) -> None:
    office = Office("batch")
    office.gate("a")
    script = [
        call_all(
            ("batch_look", {"what": "a"}),
            ("batch_look", {"what": "b"}),
            ("batch_note", {"text": "c"}),
            ("batch_note", {"text": "d"}),
        ),
        say("done"),
    ]
    works, model, _ = clerk("batch", script, office)

    async with driving(works) as control:
        run = await control.start(works, "work")
        await office.until_begun("b")
        assert "c" not in office.begun
        office.gate("a").set()
        await control.result(run)

        assert office.done == ["b", "a", "c", "d"]
        results = [turn.text for turn in model.prompts[1].turns if turn.role == "tool"]
        assert results == ["a is fine", "b is fine", "noted", "noted"]


async def test_a_redirect_keeps_what_is_done_and_skips_what_has_not_begun(driving: Open) -> None:
    office = Office("course")
    office.gate("first")
    script = [
        call_all(("course_note", {"text": "first"}), ("course_note", {"text": "second"})),
        say("turned"),
    ]
    works, model, _ = clerk("course", script, office)

    async with driving(works) as control:
        run = await control.start(works, "Note both")
        await office.until_begun("first")
        await control.redirect(run, "Only the first", who=ANN)
        await anyio.sleep(0.05)
        office.gate("first").set()

        assert await control.result(run) == "turned"
        assert office.done == ["first"]
        turns = model.prompts[1].turns
        assert next(t.text for t in turns if t.role == "tool") == "noted"
        assert "Skipped" in [t.text for t in turns if t.role == "tool"][1]
        assert "Only the first" in turns[-1].text


async def test_a_redirect_while_it_thinks_aborts_the_thought(driving: Open) -> None:
    never = anyio.Event()
    works, model, _ = clerk("rethink", [say("a long story", until=never), say("short")])

    async with driving(works) as control:
        run = await control.start(works, "Tell")
        await until(lambda: bool(model.asked))
        await control.redirect(run, "Be brief", who=ANN)

        assert await control.result(run) == "short"
        assert model.asked[0].ended == "closed"


async def test_a_pause_aborts_the_thought_and_resume_makes_only_that_one_again(
    driving: Open,
) -> None:
    gate = anyio.Event()
    script = [call("rest_look", what="x"), say("never heard", until=gate), say("rested")]
    works, model, office = clerk("rest", script)

    async with driving(works) as control:
        run = await control.start(works, "Work")
        await until(lambda: len(model.asked) == 2)
        await control.pause(run, who=ANN)
        await control.until(run, lambda s: s.phase is Phase.PAUSED)
        asked = len(model.asked)
        await anyio.sleep(0.1)
        assert (len(model.asked), model.asked[1].ended) == (asked, "closed")
        await control.resume(run, who=ANN)

        assert await control.result(run) == "rested"
        assert office.begun == ["x"]


async def test_a_message_is_read_after_the_current_batch(driving: Open) -> None:
    office = Office("batched")
    office.gate("slow")
    works, model, _ = clerk("batched", [call("batched_look", what="slow"), say("ok")], office)

    async with driving(works) as control:
        run = await control.start(works, "Look")
        await office.until_begun("slow")
        await until_chosen(control, await control.send(run, "also the cellar", who=ANN))
        office.gate("slow").set()
        await control.result(run)

        assert last(model.prompts[1]).endswith("also the cellar")
        assert office.begun == ["slow"]


async def test_it_sums_up_a_long_conversation_and_goes_on_from_there(driving: Open) -> None:
    def script(prompt: Prompt) -> Line:
        if "Sum up" in last(prompt):
            return say("five were fine")
        looks = sum(len(turn.calls) for turn in prompt.turns)
        summed_up = "five were fine" in prompt.turns[0].text
        return say("done") if summed_up else call("long_look", what=f"{looks} " + "x" * 400)

    works, model, _office = clerk("long", script, context_tokens=500)

    async with driving(works) as control:
        run = await control.start(works, "Look at all")

        assert await control.result(run) == "done"
        assert len(model.prompts[-1].turns) < len(model.prompts[-2].turns)
        assert len(await events(control.store, run, e.StateSaved)) == 1


# ── trouble ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (call_all(("bad_look", "{not json")), "not JSON"),
        (call_all(("bad_look", {"what": 3})), "expected string, got 3"),
        (call_all(("bad_look", {})), "what is missing"),
        (call_all(("nothing", {})), "there is no tool 'nothing'"),
        (call("bad_fail", why="the disk is gone"), "the disk is gone"),
        (call("bad_note", text="x" * 2_000_000), "Do it in parts"),
    ],
)
async def test_a_call_that_cannot_be_made_is_a_failed_step_and_the_model_is_told(
    driving: Open, wrong: object, told: str
) -> None:
    works, model, _ = clerk("bad", [wrong, say("I see")])  # type: ignore[list-item]

    async with driving(works) as control:
        run = await control.start(works, "work")

        assert await control.result(run) == "I see"
        assert told in last(model.prompts[1])
        (failed,) = [s for s in await events(control.store, run, e.StepSettled) if s.error]
        assert told in failed.error


async def test_an_empty_answer_is_nudged_and_then_asked_about(driving: Open) -> None:
    works, model, _ = clerk("empty", [say(""), say(""), say(""), say("at last")])

    async with driving(works) as control:
        run = await control.start(works, "work")
        question = (await control.until(run, lambda s: bool(s.questions))).questions
        await control.answer(run, next(iter(question)), "retry", who=ANN)

        assert await control.result(run) == "at last"
        assert "empty" in last(model.prompts[1])


async def test_a_busy_model_is_tried_again_and_a_broken_stream_too(driving: Open) -> None:
    script = [
        fail(ModelBusy("m", "overloaded", retry_after=0.01)),
        fail(ModelBroken("m", "dropped", "half")),
        say("whole"),
    ]
    works, model, _ = clerk("busy", script)

    async with driving(works) as control:
        run = await control.start(works, "work")

        assert await control.result(run) == "whole"
        assert len(model.asked) == 3


async def test_a_model_that_refuses_is_asked_about_at_once(driving: Open) -> None:
    works, model, _ = clerk("refuses", [fail(ModelRefused("m", "no key", "Set it.")), say("ok")])

    async with driving(works) as control:
        run = await control.start(works, "work")
        state = await control.until(run, lambda s: bool(s.questions))
        (question,) = state.questions.values()
        assert "no key" in question.message
        assert len(model.asked) == 1
        await control.answer(run, question.position, "retry", who=ANN)

        assert await control.result(run) == "ok"


async def test_a_result_of_5_mb_is_kept_whole_and_shown_in_part(driving: Open) -> None:
    from midflight.assistant import Profile, assistant
    from midflight.models.scripted import ScriptedModel
    from midflight.tools.declaration import tool

    async def dump() -> str:
        """Everything."""
        return "x" * 5_000_000

    model = ScriptedModel([call("huge_dump"), say("a lot")], name="huge-model")
    profile = Profile(model, [tool(effect="read", name="huge.dump")(dump)])
    works = assistant("huge", profile)

    async with driving(works) as control:
        run = await control.start(works, "work")

        assert await control.result(run) == "a lot"
        assert len(last(model.prompts[1])) < 20_000


def test_the_loop_fits_two_screens() -> None:
    import midflight.assistant.loop as loop

    assert len(Path(loop.__file__).read_text(encoding="utf-8").splitlines()) <= 150


async def test_a_copy_of_the_loop_works_with_what_is_public(driving: Open, tmp_path: Path) -> None:
    import midflight.assistant as public
    import midflight.assistant.loop as loop

    text = Path(loop.__file__).read_text(encoding="utf-8")
    used = re.findall(r"^from midflight\.assistant\.\w+ import (.+)$", text, re.MULTILINE)
    names = {name for line in used for name in line.split(", ")}
    assert names <= set(public.__all__)

    head, _, rest = text.partition("from midflight.assistant.")
    body = rest.partition("from midflight.run")[2]
    imports = f"from midflight.assistant import {', '.join(sorted(names))}\n"
    copy = tmp_path / "my_loop.py"
    copy.write_text(f"{head}{imports}from midflight.run{body}", encoding="utf-8")
    scope = runpy.run_path(str(copy))
    office = Office("copied")
    model = ScriptedModel([call("copied_look", what="stock"), say("All is well.")])
    profiles = Profiles(Profile(model, office.tools()), ())

    @agent("copied-loop", converses=True)
    async def mine(run: Run) -> str:
        words: str = await scope["work"](run, profiles)
        return words

    async with driving(mine) as control:
        run = await control.start(mine, "Look at the stock")
        assert await control.result(run) == "All is well."
    assert office.done == ["stock"]

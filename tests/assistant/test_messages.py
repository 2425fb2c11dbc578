"""Talking to an agent that works: incorporate, switch, defer, asides, background work."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise

import anyio
import msgspec
import pytest

from assistant.conftest import Open
from assistant.desk import Office, clerk, last, until
from midflight.control import Control
from midflight.journal.phases import Phase
from midflight.journal.record import Actor
from midflight.models.model import Prompt
from midflight.models.scripted import Line, call, call_all, say
from scenarios.chat import until_chosen

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

ANN = Actor("ann")


def triage(action: str, words: str = "On it.") -> Callable[[Prompt], Line]:
    """A triage model that does this about every message that it is shown."""

    def choose(prompt: Prompt) -> Line:
        shown = [
            int(line.split()[1])
            for line in last(prompt).splitlines()
            if line.startswith("Message ")
        ]
        choices = [{"message": each, "action": action, "say": words} for each in shown]
        return call_all(("triage", {"choices": choices}))

    return choose


async def thread_of(control: Control, run: str) -> str:
    return (await control.state(run)).thread


async def said(control: Control, thread: str) -> list[str]:
    return [line.text for line in await control.transcript(thread)]


async def until_said(control: Control, thread: str, text: str) -> None:
    with anyio.fail_after(30):
        while not any(text in line for line in await said(control, thread)):  # noqa: ASYNC110
            await anyio.sleep(0.01)


async def test_incorporate_the_work_adjusts_after_the_current_batch(driving: Open) -> None:
    office = Office("takes")
    office.gate("slow")
    script = [call("takes_look", what="slow"), say("with trials")]
    works, model, _ = clerk("takes", script, office, triage=triage("incorporate", "I will."))

    async with driving(works) as control:
        run = await control.start(works, "Look")
        await office.until_begun("slow")
        answer = await control.send(run, "also include trials", who=ANN)
        assert answer.status.startswith("working")
        await until_said(control, await thread_of(control, run), "I will.")
        office.gate("slow").set()

        assert await control.result(run) == "with trials"
        assert last(model.prompts[1]).endswith("also include trials")


async def test_switch_parks_the_work_does_the_other_thing_and_comes_back(driving: Open) -> None:
    office = Office("swap")
    office.gate("slow")

    def script(prompt: Prompt) -> Line:
        if any("count churn" in turn.text for turn in prompt.turns):
            return say("12 have churned")
        if prompt.turns[-1].role == "tool":
            return say("the report")
        return call("swap_look", what="slow")

    works, _, _ = clerk("swap", script, office, triage=triage("switch", "Right away."))

    async with driving(works) as control:
        first = await control.start(works, "Report")
        await office.until_begun("slow")
        thread = await thread_of(control, first)
        await control.send(first, "first count churn", who=ANN)
        await until_said(control, thread, "12 have churned")
        office.gate("slow").set()

        assert await control.result(first) == "the report"
        spoken = await said(control, thread)
        assert spoken.index("12 have churned") < spoken.index("the report")
        assert await control.todos(thread) == []


async def test_defer_becomes_a_todo_that_is_picked_up_by_itself(driving: Open) -> None:
    office = Office("later")
    office.gate("slow")

    def script(prompt: Prompt) -> Line:
        if prompt.turns[-1].text.endswith("check the cellar"):
            return say("the cellar is dry")
        if prompt.turns[-1].role == "tool":
            return say("the report")
        return call("later_look", what="slow")

    works, _, _ = clerk("later", script, office, triage=triage("defer", "After this."))

    async with driving(works) as control:
        run = await control.start(works, "Report")
        await office.until_begun("slow")
        thread = await thread_of(control, run)
        await control.send(run, "check the cellar", who=ANN)
        await until_said(control, thread, "After this.")
        assert [todo.kind for todo in await control.todos(thread)] == ["deferred"]
        office.gate("slow").set()

        assert await control.result(run) == "the report"
        await until_said(control, thread, "the cellar is dry")
        assert await control.todos(thread) == []


async def test_twenty_messages_in_two_seconds_are_chosen_about_in_two_calls(driving: Open) -> None:
    office = Office("flood")
    office.gate("slow")
    seen: list[int] = []
    calls: list[int] = []

    def choose(prompt: Prompt) -> Line:
        calls.append(len(seen))
        line = triage("incorporate")(prompt)
        seen.extend(
            each["message"] for each in msgspec.json.decode(line.calls[0].arguments)["choices"]
        )
        return line

    works, model, _ = clerk(
        "flood", [call("flood_look", what="slow"), say("ok")], office, triage=choose
    )

    async with driving(works) as control:
        run = await control.start(works, "Look")
        await office.until_begun("slow")
        sent, times = [], [anyio.current_time()]
        for number in range(20):
            sent.append((await control.send(run, f"thought {number}", who=ANN)).position)
            await anyio.sleep(0.09)
            times.append(anyio.current_time())
        took = times[-1] - times[0]
        silences = sum(later - earlier > 0.3 for earlier, later in pairwise(times))
        await until(lambda: len(seen) == 20)
        most = 2 + silences + int(took > 2.4) * took  # who is held up has sent them more slowly
        assert len(calls) <= most, f"{calls} in {took:.1f} s, {silences} silences"
        office.gate("slow").set()
        await control.result(run)

        assert seen == sent
        heard = last(model.prompts[1])
        assert [f"thought {n}" in heard for n in range(20)] == [True] * 20
        places = [heard.index(f"thought {n}\n" if n < 19 else f"thought {n}") for n in range(20)]
        assert places == sorted(places)


async def test_a_message_after_the_last_word_begins_the_next_run_which_knows_the_talk(
    driving: Open,
) -> None:
    works, model, _ = clerk("talks", [say("There are 12."), say("Ann, Bob, Eve …")])

    async with driving(works) as control:
        run = await control.start(works, "How many customers?")
        await control.result(run)
        thread = await thread_of(control, run)
        await control.send(thread, "Which ones?", who=ANN)
        await until_said(control, thread, "Ann, Bob, Eve")

        turns = [(turn.role, turn.text) for turn in model.prompts[1].turns]
        assert ("assistant", "There are 12.") in turns
        assert turns[-1] == ("user", "Which ones?")


async def test_a_side_question_is_answered_also_while_it_is_paused_and_touches_nothing(
    driving: Open,
) -> None:
    office = Office("side")
    office.gate("slow")
    works, _model, _ = clerk(
        "side",
        [call("side_look", what="slow"), say("done")],
        office,
        triage=lambda _: say("I look at the stock."),
    )

    async with driving(works) as control:
        run = await control.start(works, "Look")
        await office.until_begun("slow")
        await control.pause(run, who=ANN)
        await control.until(run, lambda s: s.phase is Phase.PAUSED)
        head = (await control.state(run)).head
        await control.ask_aside(run, "What are you doing?", who=ANN)
        await until_said(control, await thread_of(control, run), "I look at the stock.")

        assert (await control.state(run)).head == head
        office.gate("slow").set()
        await control.resume(run, who=ANN)
        assert await control.result(run) == "done"


async def test_heavy_work_goes_to_the_background_and_its_report_is_heard(driving: Open) -> None:
    office = Office("heavy")
    office.gate("slow")
    office.gate("counting")  # else its report may come before the first run has begun to look

    def script(prompt: Prompt) -> Line:
        brief, now = prompt.turns[0].text, prompt.turns[-1]
        if brief == "Count them all":
            counted = now.role == "tool"
            return say("there are 99") if counted else call("heavy_look", what="counting")
        if now.role == "user" and "Report of the background run" in now.text:
            return say("I am told: " + now.text.splitlines()[-2])
        if now.role == "tool" and "It works on that now" in now.text:
            return call("heavy_look", what="slow")
        return call("start_background", brief="Count them all")

    works, _model, _ = clerk("heavy", script, office)

    async with driving(works) as control:
        run = await control.start(works, "How many?")
        await office.until_begun("slow")
        office.gate("counting").set()
        thread = await thread_of(control, run)
        await until_said(control, thread, "there are 99")
        office.gate("slow").set()

        assert "there are 99" in await control.result(run)
        assert (await control.state(run)).children


async def test_a_triage_that_fails_or_talks_nonsense_incorporates(driving: Open) -> None:
    office = Office("nonsense")
    office.gate("slow")
    wrong = json.dumps({"choices": [{"message": 999, "action": "explode", "say": "boo"}]})
    works, model, _ = clerk(
        "nonsense",
        [call("nonsense_look", what="slow"), say("ok")],
        office,
        triage=lambda _: call_all(("triage", wrong)),
    )

    async with driving(works) as control:
        run = await control.start(works, "Look")
        await office.until_begun("slow")
        await until_chosen(control, await control.send(run, "hello?", who=ANN))
        office.gate("slow").set()
        await control.result(run)

        assert last(model.prompts[1]).endswith("hello?")

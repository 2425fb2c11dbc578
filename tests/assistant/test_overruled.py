"""The person has the last word about messages: overrule, edit, withdraw, put in order."""

from __future__ import annotations

import anyio
import pytest

from assistant.conftest import Open
from assistant.desk import Office, Script, clerk, last
from assistant.test_messages import said, thread_of, triage, until_said
from midflight.agents import Agent
from midflight.journal.record import Actor
from midflight.models.model import Prompt
from midflight.models.scripted import Line, ScriptedModel, call, say

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

ANN = Actor("ann")


def working(name: str, office: Office, chooses: Script) -> tuple[Agent, ScriptedModel]:
    """Looks something up that is slow; everything else that it is told to do is done at once."""
    office.gate("slow")

    def script(prompt: Prompt) -> Line:
        if prompt.turns[-1].role == "tool":
            return say("the report")
        wanted = last(prompt).splitlines()[-1]
        return call(f"{name}_look", what="slow") if wanted == "Report" else say(f"did: {wanted}")

    works, model, _ = clerk(name, script, office, triage=chooses)
    return works, model


async def test_what_was_deferred_is_done_now_if_the_person_wants_it_so(driving: Open) -> None:
    office = Office("sooner")
    works, _ = working("sooner", office, triage("defer", "Later."))

    async with driving(works) as control:
        run = await control.start(works, "Report")
        await office.until_begun("slow")
        thread = await thread_of(control, run)
        message = await control.send(run, "count churn", who=ANN)
        await until_said(control, thread, "Later.")
        await control.overrule(thread, message.position, "switch", who=ANN)
        await until_said(control, thread, "did: count churn")
        office.gate("slow").set()
        await until_said(control, thread, "the report")

        spoken = await said(control, thread)
        assert spoken.index("did: count churn") < spoken.index("the report")


async def test_a_message_that_is_edited_before_it_is_read_is_read_as_edited(driving: Open) -> None:
    office = Office("edited")
    works, model = working("edited", office, triage("incorporate", "I will."))

    async with driving(works) as control:
        run = await control.start(works, "Report")
        await office.until_begun("slow")
        thread = await thread_of(control, run)
        message = await control.send(run, "only the EU", who=ANN)
        await until_said(control, thread, "I will.")
        await control.edit_message(thread, message.position, "only the US", who=ANN)
        await anyio.sleep(1.0)
        office.gate("slow").set()
        await control.result(run)

        heard = "\n".join(turn.text for turn in model.prompts[-1].turns)
        assert "only the US" in heard
        assert "only the EU" not in heard


async def test_a_message_that_is_withdrawn_is_never_read(driving: Open) -> None:
    office = Office("taken")
    works, model = working("taken", office, triage("incorporate", "I will."))

    async with driving(works) as control:
        run = await control.start(works, "Report")
        await office.until_begun("slow")
        thread = await thread_of(control, run)
        message = await control.send(run, "delete it all", who=ANN)
        await until_said(control, thread, "I will.")
        await control.withdraw_message(thread, message.position, who=ANN)
        office.gate("slow").set()
        await control.result(run)

        assert all("delete" not in turn.text for p in model.prompts for turn in p.turns)


async def test_todos_are_taken_up_in_the_persons_order(driving: Open) -> None:
    office = Office("order")
    works, _ = working("order", office, triage("defer", "Later."))

    async with driving(works) as control:
        run = await control.start(works, "Report")
        await office.until_begun("slow")
        thread = await thread_of(control, run)
        for text in ("count churn", "check the cellar"):
            await control.send(run, text, who=ANN)
        with anyio.fail_after(20):
            while len(await control.todos(thread)) < 2:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        first, second = [todo.position for todo in await control.todos(thread)]
        await control.reorder(thread, [second, first], who=ANN)
        office.gate("slow").set()
        await until_said(control, thread, "did: count churn")

        spoken = await said(control, thread)
        assert spoken.index("did: check the cellar") < spoken.index("did: count churn")

"""Where a conversation is on Discord, and what becomes of what is said in it."""

from __future__ import annotations

import pytest

from assistant.desk import Office, clerk, last
from chat.conftest import Talking
from chat.person import Person
from chat.stand_in import AT, GENERAL, StandIn
from midflight.agents import agent
from midflight.models.model import Prompt
from midflight.models.scripted import Line, call, call_all, say
from midflight.run import Run

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


async def test_a_dm_starts_work_and_its_answer_comes_back(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    works, _, _ = clerk("dm", [call("dm_look", what="stock"), say("All is fine.")])

    async with talking(works):
        chat = ann.dm()
        await ann.says(chat, "Look at the stock")
        await discord.until_shown(chat, "All is fine.")
        status = await discord.until_shown(chat, "✔ **Done** Look at the stock")

    assert status.buttons == []
    assert len(discord.shown(chat)) == 2


async def test_a_mention_begins_a_thread_in_which_everything_is_for_the_agent(
    talking: Talking, discord: StandIn, ann: Person, bob: Person
) -> None:
    works, _, _ = clerk("mention", [say("Hello."), say("Hello again.")])

    async with talking(works):
        await bob.says(GENERAL, "nothing for a bot")
        begun = await ann.says(GENERAL, f"{AT} greet us")
        await discord.until_shown(begun.id, "Hello.")
        assert discord.channels[begun.id].name == "greet us"
        await discord.until_shown(begun.id, "**Done**")
        await bob.says(begun.id, "once more")
        await discord.until_shown(begun.id, "Hello again.")

    assert discord.shown(GENERAL) == []


async def test_where_it_may_make_no_thread_it_goes_on_with_those_who_mention_it(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    discord.threads_forbidden = True
    works, model, _ = clerk("here", [say("One."), say("Two.")])

    async with talking(works):
        await ann.says(GENERAL, f"{AT} first")
        await discord.until_shown(GENERAL, "One.")
        await discord.until_shown(GENERAL, "**Done**")
        await ann.says(GENERAL, "just between us")
        await ann.says(GENERAL, f"{AT} second")
        await discord.until_shown(GENERAL, "Two.")

    assert not any("between us" in turn.text for p in model.prompts for turn in p.turns)


async def test_a_message_while_it_works_is_answered_at_once_with_what_it_is_doing(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    office = Office("busy")
    office.gate("slow")
    note = office.tools()[1]
    names = ["Collect", "Sort", "Write", "Read again", "Send"]

    @agent(name="busy", converses=True)
    async def works(run: Run) -> str:
        await run.plan(*names)
        for number, name in enumerate(names):
            await run.step(name, note, text="slow" if number == 2 else f"note {number}")
        return "Done with it."

    async with talking(works):
        chat = ann.dm()
        await ann.says(chat, "Write the minutes")
        await office.until_begun("slow")
        asked = await ann.says(chat, "how far are you?")
        ack = await discord.until_shown(
            chat, "working on “Write the minutes”: Write, step 3 of 5, 0:"
        )
        assert ack.reference is not None
        assert str(ack.reference["message_id"]) == asked.id
        office.gate("slow").set()
        await discord.until_shown(chat, "✔ **Done** Write the minutes")


@pytest.mark.slow
async def test_a_deferred_message_is_on_the_list_and_can_be_done_now(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    office = Office("list")
    office.gate("slow")

    def script(prompt: Prompt) -> Line:
        if prompt.turns[-1].role != "tool" and "cellar" in last(prompt):
            return say("The cellar is dry.")
        return say("Sorted.") if prompt.turns[-1].role == "tool" else call("list_look", what="slow")

    def defers(prompt: Prompt) -> Line:
        (number,) = [x.split()[1] for x in last(prompt).splitlines() if x.startswith("Message ")]
        choice = {"message": int(number), "action": "defer", "say": "Later."}
        return call_all(("triage", {"choices": [choice]}))

    works, _, _ = clerk("list", script, office, triage=defers)

    async with talking(works):
        chat = ann.dm()
        await ann.says(chat, "Sort the files")
        await office.until_begun("slow")
        await ann.says(chat, "check the cellar")
        deferred = await discord.until_shown(chat, "**Deferred** to later: “check the cellar”")
        await discord.until_shown(chat, "**To do**\n1. check the cellar")
        listed = await ann.commands(chat, "todos")
        await discord.until(lambda: "1. check the cellar" in listed.text)
        assert listed.answers[0].labels == ["Do 1 now", "Remove 1"]

        await ann.presses(deferred, "Do it now")
        await discord.until_shown(chat, "**Now, from the list:** check the cellar")
        await discord.until_shown(chat, "The cellar is dry.")
        await discord.until_shown(chat, "**Back to:** resume Sort the files")
        office.gate("slow").set()
        await discord.until_shown(chat, "Sorted.")


async def test_the_way_back_of_each_choice_is_a_press(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    office = Office("ways")
    for place in ("slow", "other"):
        office.gate(place)

    def script(prompt: Prompt) -> Line:
        if prompt.turns[-1].role != "tool" and "urgent" in last(prompt):
            return call("ways_look", what="other")
        return say("Sorted.") if prompt.turns[-1].role == "tool" else call("ways_look", what="slow")

    def chooses(prompt: Prompt) -> Line:
        (number,) = [x.split()[1] for x in last(prompt).splitlines() if x.startswith("Message ")]
        action = "switch" if "urgent" in last(prompt) else "incorporate"
        choice = {"message": int(number), "action": action, "say": "All right."}
        return call_all(("triage", {"choices": [choice]}))

    works, model, _ = clerk("ways", script, office, triage=chooses)

    async with talking(works):
        chat = ann.dm()
        await ann.says(chat, "Sort the files")
        await office.until_begun("slow")
        await ann.says(chat, "by colour")
        taken = await discord.until_shown(chat, "**Incorporated** into step 1: “by colour”")
        undone = await ann.presses(taken, "Undo")  # before it was read
        await discord.until(lambda: "**Withdrawn**, nobody had read it." in undone.text)

        await ann.says(chat, "urgent: count the chairs")
        switched = await discord.until_shown(chat, "**Switched** to this now")
        await office.until_begun("other")
        await ann.presses(switched, "Go back")
        await discord.until_shown(chat, "**Back to:** resume Sort the files")
        await office.until_begun("slow", 2)
        office.gate("slow").set()
        office.gate("other").set()
        await discord.until_shown(chat, "Sorted.")

    assert not any("by colour" in turn.text for turn in model.prompts[-1].turns)


async def test_a_side_question_is_answered_and_touches_nothing(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    office = Office("beside")
    office.gate("slow")

    script = [call("beside_look", what="slow"), say("Ready.")]
    works, _, _ = clerk("beside", script, office, triage=[say("Half way.")])

    async with talking(works):
        chat = ann.dm()
        await ann.says(chat, "Sort the files")
        await office.until_begun("slow")
        asked = await ann.commands(chat, "aside", question="how far?")
        await discord.until(lambda: "The answer follows here." in asked.text)
        shown = await discord.until_shown(chat, "**Aside:** Half way.")
        assert shown.content == "**Aside:** Half way."
        assert office.begun == ["slow"]
        office.gate("slow").set()
        await discord.until_shown(chat, "Ready.")


async def test_a_long_answer_is_split_and_a_very_long_one_is_a_file(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    code = "```python\n" + "print('a line of code')\n" * 150 + "```"
    works, _, _ = clerk("long", [say(f"Here it is.\n{code}\nThat was it."), say("words " * 4000)])

    async with talking(works):
        chat = ann.dm()
        await ann.says(chat, "show me")
        await discord.until_shown(chat, "That was it.")
        shown = [m.content for m in discord.shown(chat) if "line of code" in m.content]
        assert len(shown) == 2
        assert all(text.count("```") == 2 for text in shown)
        await discord.until_shown(chat, "**Done**")

        await ann.says(chat, "and more")
        long = await discord.until_shown(chat, "The whole of it is in message.md")
        (file,) = long.attachments
        whole = discord.files[file["id"]].decode()
        assert whole.strip() == ("words " * 4000).strip()

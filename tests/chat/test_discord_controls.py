"""The controls on Discord name what they do, and a press is answered with the truth."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from assistant.desk import Office, clerk
from chat.conftest import OPS, Talking
from chat.person import Person
from chat.stand_in import AT, EPHEMERAL, GENERAL, StandIn
from midflight.agents import agent
from midflight.interfaces.chat.channel import FILE_BYTES_MAX
from midflight.journal.phases import Phase
from midflight.models.scripted import call, say
from midflight.run import Run
from midflight.tools.declaration import tool
from midflight.tools.options import EffectRecord

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.mark.slow
async def test_one_status_message_lives_with_the_run_and_its_buttons_name_their_consequences(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    office = Office("bar")
    office.gate("look")
    script = [call("bar_note", text="a"), call("bar_look", what="look"), say("Ready.")]
    works, _, _ = clerk("bar", script, office)

    async with talking(works):
        chat = ann.dm()
        await ann.says(chat, "Tidy up")
        await office.until_begun("look")
        status = await discord.until_shown(chat, "▶ **Running** Tidy up")
        await discord.until(lambda: "Undoes" in status.labels[2] and "Resume" in status.labels[0])
        await discord.until(lambda: "step 2" in status.content)
        assert re.search(r"`\d\d:\d\d  step 2  \$0\.00 of \$5\.00 \+ unpriced`", status.content)
        assert status.labels == [
            "Pause · Resume keeps context",
            "Redirect · Rewrites the next step",
            "Cancel · Undoes note: a, saves partial work to thread",
        ]

        pressed = await ann.presses(status, "Pause")
        await discord.until(lambda: "**Pause** is on record." in pressed.text)
        assert pressed.answers[0].flags & EPHEMERAL
        await discord.until(lambda: "⏸ **Paused**" in status.content)
        assert status.labels[0] == "Resume · Continues with context kept"

        await ann.presses(status, "Resume")
        await office.until_begun("look", 2)
        office.gate("look").set()
        await discord.until(lambda: "✔ **Done**" in status.content)

    assert status.labels == []
    assert sum("Tidy up" in message.content for message in discord.shown(chat)) == 1


async def test_redirect_opens_a_form_with_the_brief_and_its_one_line_says_what_has_changed(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    office = Office("course")
    for place in ("one", "two", "three"):
        office.gate(place)
    script = [*(call("course_look", what=place) for place in office.gates), say("Planned.")]
    works, _, _ = clerk("course", script, office)

    async with talking(works):
        chat = ann.dm()
        await ann.says(chat, "plan a trip")
        await office.until_begun("one")
        status = await discord.until_shown(chat, "**Running** plan a trip")
        opened = await ann.presses(status, "Redirect")
        modal = await discord.until(lambda: opened.modal)
        (field,) = [label["component"] for label in modal["components"]]
        assert field["value"] == "plan a trip"
        done = await ann.fills(opened, text="plan a picnic")
        await discord.until(lambda: "**Redirect** is on record" in done.text)
        await discord.until_shown(chat, "↳ **Redirected:** plan a ~~trip~~ **picnic**")
        await office.until_begun("two")

        await ann.presses(status, "Pause")
        await discord.until(lambda: "⏸ **Paused** plan a picnic" in status.content)
        opened = await ann.presses(status, "Redirect")
        await ann.fills(opened, text="plan a feast", then="Redirect and resume")
        await discord.until_shown(chat, "↳ **Redirected:** plan a ~~picnic~~ **feast**")
        await office.until_begun("three")
        office.gate("three").set()
        await discord.until_shown(chat, "Planned.")


async def test_cancel_shows_its_receipt_and_gives_partial_work_and_files(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    wait = Office("drafts").gate("never")

    @tool(effect="once", name="drafts.send")
    async def send() -> str:
        return "sent"

    @tool(effect="read", name="drafts.wait")
    async def hold() -> None:
        await wait.wait()

    @agent(name="drafts", converses=True)
    async def drafts(run: Run) -> str:
        Path(run.workdir, "memo.txt").write_text("half a memo", encoding="utf-8")
        await run.step("Send", send)
        await run.step("Wait", hold)
        return "never"

    async with talking(drafts):
        chat = ann.dm()
        await ann.says(chat, "Write a memo")
        status = await discord.until_shown(chat, "**Running** Write a memo")
        await discord.until(lambda: "stays" in " ".join(status.labels))
        await ann.presses(status, "Cancel")
        kept = await discord.until_shown(chat, "Cancelled. Kept: results of 1 step: Send; file")
        names = {file["filename"]: file["id"] for file in kept.attachments}
        assert set(names) == {"partial-work.md", "memo.txt"}
        assert discord.files[names["memo.txt"]] == b"half a memo"
        receipt = await discord.until_shown(
            chat, "⏹ **Cancelled** Write a memo (by ann@discord)\n- "
        )
        assert "kept (no undo)" in receipt.content


@pytest.mark.parametrize(
    "why", ["Too much for Discord", "The bot may not attach files in this chat"]
)
async def test_files_that_are_not_taken_are_named_and_what_was_kept_is_shown_all_the_same(
    talking: Talking, discord: StandIn, ann: Person, why: str
) -> None:
    wait = Office("heavy").gate("never")
    discord.files_forbidden = "attach" in why
    discord.upload_max = 10_000_000 if discord.files_forbidden else 1_000

    @tool(effect="read", name="heavy.wait")
    async def hold() -> None:
        await wait.wait()

    @agent(name="heavy", converses=True)
    async def heavy(run: Run) -> None:
        folder = Path(run.workdir)
        (folder / "film.bin").write_bytes(b"f" * 2_000)
        with (folder / "huge.bin").open("wb") as file:
            file.truncate(FILE_BYTES_MAX + 1)
        await run.step("Wait", hold)

    async with talking(heavy):
        chat = ann.dm()
        await ann.says(chat, "Make a film")
        status = await discord.until_shown(chat, "**Running** Make a film")
        await ann.presses(status, "Cancel")
        kept = await discord.until_shown(chat, "Cancelled. Kept: ")
        assert kept.attachments == []
        assert "Not shown here, but kept in the run's folder: huge.bin" in kept.content
        assert f"{why}, and not shown here: " in kept.content
        assert "film.bin" in kept.content
        await discord.until_shown(chat, "⏹ **Cancelled** Make a film")
        await discord.until(lambda: "**Running**" not in discord.text(chat))


async def test_cancel_asks_first_while_something_irreversible_is_under_way(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    office = Office("post")
    office.gate("mail bob")
    script = [call("post_mail", to="bob", text="hi"), say("Sent.")]
    works, _, _ = clerk("post", script, office)

    async with talking(works) as control:
        chat = ann.dm()
        await ann.says(chat, "Write to bob")
        card = await discord.until_shown(chat, "❓ **May this be done")
        assert "\nto: bob" in card.content
        await ann.presses(card, "Approve")
        await office.until_begun("mail bob")
        status = await discord.until_shown(chat, "**Running**")
        pressed = await ann.presses(status, "Cancel")
        asks = await discord.until(lambda: pressed.answers and pressed.answers[0])
        assert "cannot be stopped. Cancel anyway? Nothing was changed yet." in asks.content
        assert asks.labels == ["Cancel anyway", "Keep going"]
        (row,) = await control.runs()
        assert row.phase == Phase.RUNNING
        sure = await ann.presses(asks, "Cancel anyway")
        await discord.until(lambda: "**Cancel** is on record. In flight:" in sure.text)
        office.gate("mail bob").set()
        await discord.until_shown(chat, "final (irreversible)")


async def test_while_it_undoes_the_same_button_stops_now_and_says_what_may_remain(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    office = Office("undoing")
    undo = office.gate("undo")

    async def slow_undo(performed: EffectRecord) -> None:
        await undo.wait()

    @tool(effect="once", name="undoing.book", label="table", undo=slow_undo)
    async def book() -> str:
        return "booked"

    @tool(effect="read", name="undoing.wait")
    async def hold() -> None:
        await office.gate("never").wait()

    @agent(name="undoing", converses=True)
    async def undoing(run: Run) -> None:
        await run.step("Book", book)
        await run.step("Wait", hold)

    async with talking(undoing):
        chat = ann.dm()
        await ann.says(chat, "Book a table")
        status = await discord.until_shown(chat, "**Running** Book a table")
        await discord.until(lambda: "Undoes table" in status.labels[-1])
        await ann.presses(status, "Cancel")
        await discord.until(lambda: "↩ **Cancelling**" in status.content)
        assert status.labels[-1] == "Stop now · Skips undo, table may remain"
        assert [part["disabled"] for part in status.buttons] == [True, True, False]
        stopped = await ann.presses(status, "Stop now")
        await discord.until(lambda: "**Stop now** is on record" in stopped.text)
        receipt = await discord.until_shown(
            chat, "⏹ **Cancelled** Book a table (by ann@discord)\n- "
        )
        assert "- table: " in receipt.content
        assert "undone" not in receipt.content.replace("be undone", "")


async def test_a_press_on_an_outdated_button_is_answered_with_the_truth(
    talking: Talking, discord: StandIn, ann: Person, bob: Person
) -> None:
    office = Office("old")
    office.gate("look")
    works, _, _ = clerk("old", [call("old_look", what="look"), say("Ready.")], office)

    async with talking(works) as control:
        begun = await ann.says(GENERAL, f"{AT} go")
        chat = begun.id
        await office.until_begun("look")
        status = await discord.until_shown(chat, "**Running**")
        pause, redirect = status.button("Pause"), status.button("Redirect")
        opened = await ann.presses(status, "Redirect")
        await discord.until(lambda: opened.modal)
        await bob.presses(status, "Pause")
        await discord.until(lambda: "**Paused**" in status.content)

        late = await ann.fills(opened, text="something else")
        await discord.until(lambda: late.answers)
        assert "It has changed since you saw that. Now: paused." in late.text
        assert "You had written:\n> something else" in late.text
        again = await ann.presses(late.answers[0], "Redirect")
        await discord.until(lambda: again.modal)
        assert again.modal is not None
        assert again.modal["components"][0]["component"]["value"] == "something else"

        resumed = await ann.presses(status, "Resume")
        await discord.until(lambda: resumed.answers)
        office.gate("look").set()
        await discord.until_shown(chat, "Ready.")
        await discord.until(lambda: "**Done**" in status.content)
        ended = await ann.presses_code(status, pause["custom_id"])
        await discord.until(lambda: ended.answers)
        assert "is done and takes no pause any more" in ended.text
        assert "Now: done." in ended.text
        gone = await ann.presses_code(status, "mf:pause:0000000000000000:3:")
        await discord.until(lambda: "or is too old to be found. Nothing was changed: " in gone.text)
        foreign = await ann.presses_code(status, "some-older-version")
        await discord.until(lambda: "means nothing to this one. Nothing" in foreign.text)
        assert redirect["custom_id"] != pause["custom_id"]
        assert (await control.runs())[0].phase == Phase.DONE


WAYS = [
    "Approve · Do it",
    "Edit · Change, then do it",
    "Reject · Do not do it",
    "Respond · Say what instead",
]
FORM = {
    "type": "object",
    "properties": {
        "guests": {"type": "integer", "title": "How many guests"},
        "room": {"enum": ["garden", "hall"]},
        "vegan": {"type": "boolean"},
    },
    "required": ["guests", "room", "vegan"],
}


async def test_questions_are_cards_with_buttons_menus_and_forms_made_from_their_schemas(
    talking: Talking, discord: StandIn, ann: Person, bob: Person
) -> None:
    given: list[Any] = []

    @agent(name="asks", converses=True)
    async def asks(run: Run) -> str:
        few = {"enum": ["red", "blue"]}
        many = {"enum": [f"seat {n}" for n in range(30)]}
        for number, schema in enumerate([few, many, FORM, None]):
            said = await run.ask(f"Question {number}?", schema=schema)
            given.append(said.payload)
        return "asked"

    async with talking(asks):
        begun = await ann.says(GENERAL, f"{AT} ask me")
        chat = begun.id
        first = await discord.until_shown(chat, "❓ **Question 0?**")
        status = await discord.until_shown(chat, "❓ **Waiting for you**")
        assert [label.split(" ·")[0] for label in status.labels] == ["Review", "Redirect", "Cancel"]
        review = await ann.presses(status, "Review")
        await discord.until(lambda: "❓ **Question 0?**" in review.text)
        assert first.labels == ["Red", "Blue"]
        code = first.button("Red")["custom_id"]
        await ann.presses(first, "Blue")
        await discord.until(lambda: first.content == "❓ Question 0?\n**ann@discord: Blue**")
        assert first.labels == []
        second_press = await bob.presses_code(first, code)
        await discord.until(lambda: second_press.answers)
        assert "was answered by ann@discord" in second_press.text

        seats = await discord.until_shown(chat, "Question 1?")
        assert [len(menu["options"]) for menu in seats.menus] == [25, 5]
        await ann.chooses(seats, "Seat 28")

        form = await discord.until_shown(chat, "Question 2?")
        opened = await ann.presses(form, "Answer")
        wrong = await ann.fills(opened, guests="many", room="hall", vegan="yes")
        await discord.until(lambda: "> guests: many\n> room: hall\n> vegan: yes" in wrong.text)
        await discord.until(lambda: "How many guests: 'many' is not valid JSON" in wrong.text)
        opened = await bob.presses(form, "Answer")
        await bob.fills(opened, guests="12", room="hall", vegan="yes")

        free = await discord.until_shown(chat, "Question 3?")
        await ann.fills(await ann.presses(free, "Answer"), answer="whatever you like")
        await discord.until_shown(chat, "✔ **Done**")

    assert given == [
        "blue",
        "seat 28",
        {"guests": 12, "room": "hall", "vegan": True},
        "whatever you like",
    ]


BREAKS_OUT = "hi ```\n@everyone **free** [here](http://e.vil)\nto: ann"


@pytest.mark.parametrize("text", ["@everyone **free** <@7>", BREAKS_OUT, "word " * 4_000])
async def test_what_is_approved_stands_in_a_block_or_a_file_and_none_of_it_is_mark_up(
    talking: Talking, discord: StandIn, ann: Person, text: str
) -> None:
    office = Office("whole")
    works, _, _ = clerk("whole", [call("whole_mail", to="bob", text=text), say("Sent.")], office)

    async with talking(works):
        chat = ann.dm()
        await ann.says(chat, "Write to bob")
        card = await discord.until_shown(chat, "❓ **May this be done")
        assert card.labels == WAYS
        if card.attachments:
            (file,) = card.attachments
            held = discord.files[file["id"]].decode()
            assert file["filename"] == "what-is-asked.txt"
            assert "`" not in card.content
        else:
            _, held, behind = card.content.split("```")
            assert behind == ""
        assert f"text: {text.strip()}" in held.replace("\n  ", "\n").replace('"', "")
        await ann.presses(card, "Approve")
        await discord.until_shown(chat, "Sent.")


async def test_where_a_chat_takes_no_file_what_needs_one_cannot_be_approved_there(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    discord.files_forbidden = True
    office = Office("unseen")
    script = [call("unseen_mail", to="bob", text="word " * 4_000), say("Sent.")]
    works, _, _ = clerk("unseen", script, office)

    async with talking(works):
        chat = ann.dm()
        await ann.says(chat, "Write to bob")
        card = await discord.until_shown(chat, "❓ **May this be done")
        assert "Answer on the page or in a terminal." in card.content
        assert card.labels == []
        assert office.done == []


async def test_an_approval_can_be_edited_and_answered_in_words(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    office = Office("appr")
    script = [
        call("appr_mail", to="bob", text="hi"),
        call("appr_mail", to="eve", text="hi"),
        say("Both handled."),
    ]
    works, _, _ = clerk("appr", script, office)

    async with talking(works):
        chat = ann.dm()
        await ann.says(chat, "Write to both")
        first = await discord.until_shown(chat, "\nto: bob")
        assert first.labels == WAYS
        opened = await ann.presses(first, "Edit")
        modal = await discord.until(lambda: opened.modal)
        assert '"to":"bob"' in modal["components"][0]["component"]["value"]
        await ann.fills(opened, answer='{"kwargs": {"to": "bert", "text": "hello"}}')
        second = await discord.until_shown(chat, "\nto: eve")
        await ann.fills(await ann.presses(second, "Respond"), answer="not her")
        await discord.until_shown(chat, "Both handled.")

    assert office.done == ["mail bert"]


async def test_every_slash_command_does_what_it_says(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    office = Office("slash")
    for place in ("one", "two", "more"):
        office.gate(place)
    script = [call("slash_look", what=place) for place in office.gates]
    works, _, _ = clerk("slash", script, office)

    async def answer(name: str, **options: str) -> str:
        pressed = await ann.commands(chat, name, **options)
        await discord.until(lambda: pressed.answers)
        assert pressed.acknowledged_after < 3.0
        return pressed.text

    async with talking(works) as control:
        chat = ann.dm()
        assert "Nothing was ever started here" in await answer("status")
        await ann.says(chat, "Begin")
        await office.until_begun("one")
        assert "Now: working: step 1" in await answer("status")
        assert "**Pause** is on record" in await answer("pause")
        await discord.until_shown(chat, "⏸ **Paused**")  # on record first, and held a moment later
        assert "Now: paused." in await answer("status")
        assert "**Redirect** is on record" in await answer("redirect", text="Look elsewhere")
        assert "**Resume** is on record" in await answer("resume")
        await office.until_begun("two")
        assert "Nothing is left to do." in await answer("todos")
        assert "needs the role operator. Nothing was changed." in await answer("kill")
        assert "**Cancel** is on record" in await answer("cancel")
        await discord.until_shown(chat, "⏹ **Cancelled** Look elsewhere")

        await ann.says(chat, "Again")
        await office.until_begun("more")
        operator = Person(discord, OPS)
        killed = await operator.commands(chat, "kill", reason="enough")
        await discord.until(lambda: "is stopped" in killed.text)
        (switch,) = await control.switches()
        assert (switch.scope, switch.by) == (f"thread:t-discord-{chat}", "olga")
        assert f"gives /release {switch.scope}." in killed.text
        assert "needs the role operator. Nothing was changed." in await answer("release")
        released = await operator.commands(chat, "release")
        await discord.until(lambda: f"{switch.scope} is released" in released.text)
        assert await control.switches() == []
        again = await operator.commands(chat, "release")
        await discord.until(lambda: again.text.startswith("No kill switch is on for thread:"))


async def test_where_steps_are_not_interrupted_the_answer_says_what_is_waited_for(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    office = Office("patient")
    office.gate("one")
    script = [call("patient_look", what="one"), say("Seen.")]
    works, _, _ = clerk("patient", script, office, mode="boundary")

    async with talking(works):
        chat = ann.dm()
        await ann.says(chat, "look")
        await office.until_begun("one")
        status = await discord.until_shown(chat, "**Running** look")
        pressed = await ann.presses(status, "Pause")
        await discord.until(lambda: "Waits for the end of this step, then holds." in pressed.text)
        office.gate("one").set()
        await discord.until(lambda: "⏸ **Paused**" in status.content)

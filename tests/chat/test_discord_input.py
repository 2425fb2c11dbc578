"""Bad input on Discord: a clear reply, and nothing lost."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from assistant.desk import Office, clerk, slow_clerk
from chat.conftest import Talking, on_discord
from chat.person import Person
from chat.stand_in import StandIn
from midflight.journal.phases import Phase
from midflight.models.scripted import call, say

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


async def test_files_that_are_words_are_read_and_others_are_named_with_why_not(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    works, model, _ = clerk("files", [say("Read.")])

    async with talking(works):
        chat = ann.dm()
        photo = ("photo.png", b"\x89PNG", "image/png")
        await ann.says(chat, "", files=[photo])
        await discord.until_shown(
            chat, "There is nothing in it that I can read. Nothing was stored."
        )
        long = ("log.txt", b"x" * 70_000, "text/plain; charset=utf-8")
        notes = ("notes.md", "grüße".encode(), "text/markdown")
        await ann.says(chat, "see these", files=[notes, long, photo])
        await discord.until_shown(chat, "Read.")
        await discord.until_shown(chat, "log.txt")
        shown = discord.text(chat)
        assert "photo.png was not read: it is image/png, and I read text only." in shown
        assert "log.txt was not read: it has 70,000 bytes, and I read 65,536 at most." in shown

    told = model.prompts[0].turns[-1].text
    assert "[notes.md]\ngrüße" in told
    assert "[photo.png was not read" in told


async def test_a_message_that_is_too_long_is_refused_with_the_limit(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    works, _, _ = clerk("large", [say("Never.")])

    async with talking(works) as control:
        chat = ann.dm()
        parts = [(f"{n}.txt", b"y" * 60_000, "text/plain") for n in range(2)]
        await ann.says(chat, "look", files=parts)
        reply = await discord.until_shown(chat, "characters, and a message takes 65,536.")
        assert "Nothing was stored." in reply.content
        assert await control.runs() == []


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["Pause", "Cancel"])
async def test_a_restart_between_press_and_answer_loses_neither(
    driving: Talking, discord: StandIn, ann: Person, tmp_path: Path, asked: str
) -> None:
    office = Office(f"restart-{asked}")
    office.gate("slow")
    name = office.name
    works, _, _ = clerk(name, [call(f"{name}_look", what="slow"), say("Ready.")], office)
    async with driving(works) as control:
        chat = ann.dm()
        async with on_discord(control, works, discord, tmp_path):
            await ann.says(chat, "begin")
            await office.until_begun("slow")
            status = await discord.until_shown(chat, "**Running**")
            discord.hold_answers = anyio.Event()  # it dies before it can answer
            pressed = await ann.presses(status, asked)
            await discord.until(lambda: discord.held)
        assert pressed.answers == []
        discord.hold_answers = None

        async with on_discord(control, works, discord, tmp_path):
            await discord.until(lambda: pressed.answers)
            assert f"**{asked}** is on record" in pressed.text
            wanted = "**Paused**" if asked == "Pause" else "**Cancelled**"
            await discord.until(lambda: wanted in status.content)
        (row,) = await control.runs()
        assert row.phase == (Phase.PAUSED if asked == "Pause" else Phase.CANCELLED)
        verbs = [r.event.stored_name() for r in await control.store.read(row.journal)]
        assert verbs.count(f"{asked.lower()}.requested") == 1


@pytest.mark.slow
@pytest.mark.parametrize("given", ["command", "form"])
async def test_a_restart_between_a_command_or_a_form_and_its_answer_loses_neither(
    driving: Talking, discord: StandIn, ann: Person, tmp_path: Path, given: str
) -> None:
    office = Office(f"again-{given}")
    office.gate("slow")
    name = office.name
    script = [call(f"{name}_look", what="slow"), call(f"{name}_look", what="new")]
    works, _, _ = clerk(name, [*script, say("Ready.")], office)
    async with driving(works) as control:
        chat = ann.dm()
        async with on_discord(control, works, discord, tmp_path):
            await ann.says(chat, "begin")
            await office.until_begun("slow")
            status = await discord.until_shown(chat, "**Running**")
            opened = await ann.presses(status, "Redirect")
            await discord.until(lambda: opened.modal)
            discord.hold_answers = anyio.Event()  # it dies before it can answer
            if given == "form":
                pressed = await ann.fills(opened, text="look at the new one")
            else:
                pressed = await ann.commands(chat, "redirect", text="look at the new one")
            await discord.until(lambda: discord.held)
        assert pressed.answers == []
        discord.hold_answers = None

        async with on_discord(control, works, discord, tmp_path):
            await discord.until(lambda: pressed.answers)
            assert "**Redirect** is on record" in pressed.text
        (row,) = await control.runs()
        verbs = [r.event.stored_name() for r in await control.store.read(row.journal)]
        assert verbs.count("redirect.requested") == 1


@pytest.mark.slow
async def test_a_form_that_cannot_be_made_in_time_is_said_to_be_slow(
    talking: Talking, discord: StandIn, ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    works, office = slow_clerk("tired")

    async with talking(works):
        chat = ann.dm()
        await ann.says(chat, "begin")
        await office.until_begun("slow")
        status = await discord.until_shown(chat, "**Running**")
        monkeypatch.setattr("midflight.interfaces.chat.discord_interactions.FORM_S", 0.0)
        pressed = await ann.presses(status, "Redirect")
        await discord.until(lambda: "The form could not be made within" in pressed.text)
        monkeypatch.undo()
        again = await ann.presses(status, "Redirect")
        await discord.until(lambda: again.modal)


@pytest.mark.slow
async def test_where_discord_takes_no_buttons_the_words_are_there(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    discord.takes_buttons = False
    works, office = slow_clerk("bare", say("Hello."))

    async with talking(works):
        chat = ann.dm()
        await ann.says(chat, "hello")
        status = await discord.until_shown(chat, "**Running** hello")
        assert "-# This chat does not take what belongs to this" in status.content
        office.gate("slow").set()
        await discord.until_shown(chat, "Hello.")


async def test_a_press_whose_way_to_be_answered_has_expired_is_answered_in_the_chat(
    driving: Talking, discord: StandIn, ann: Person, tmp_path: Path
) -> None:
    works, office = slow_clerk("expired")
    async with driving(works) as control:
        chat = ann.dm()
        async with on_discord(control, works, discord, tmp_path):
            await ann.says(chat, "begin")
            await office.until_begun("slow")
            status = await discord.until_shown(chat, "**Running**")
            discord.hold_answers = anyio.Event()
            pressed = await ann.presses(status, "Pause")
            await discord.until(lambda: discord.held)
        discord.hold_answers = None
        pressed.expired = True

        async with on_discord(control, works, discord, tmp_path):
            await discord.until_shown(chat, "**Pause** is on record")
            await discord.until(lambda: "**Paused**" in status.content)
        async with on_discord(control, works, discord, tmp_path):  # once is enough
            resumed = await ann.presses(status, "Resume")
            await discord.until(lambda: resumed.answers)

    assert discord.text(chat).count("**Pause** is on record") == 1


async def test_somebody_removes_the_status_message_and_it_is_shown_again(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    works, office = slow_clerk("removed")

    async with talking(works):
        chat = ann.dm()
        await ann.says(chat, "begin")
        await office.until_begun("slow")
        status = await discord.until_shown(chat, "**Running**")
        status.deleted = True
        await ann.commands(chat, "pause")
        again = await discord.until_shown(chat, "**Paused**")
        assert again.id != status.id


async def test_a_channel_that_is_gone_is_left_alone_and_the_run_goes_on(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    works, office = slow_clerk("gone")

    async with talking(works) as control:
        chat = ann.dm()
        await ann.says(chat, "begin")
        await office.until_begun("slow")
        await discord.until_shown(chat, "**Running**")
        discord.closed_channels.add(chat)
        office.gate("slow").set()
        (row,) = await control.runs()
        assert (await control.ended(row.journal)).phase == Phase.DONE
        asked = ("POST", f"/channels/{chat}/messages")
        tries = await discord.until(lambda: discord.requests.count(asked) - 1)
        await anyio.sleep(0.5)
        assert discord.requests.count(asked) - 1 == tries

"""The wire: rate limits, lost connections, duplicates, slow stores, a token that is not good."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from assistant.desk import Office, clerk, slow_clerk
from chat.conftest import ALLOWED, MoodyStore, Talking, on_discord, until_chosen
from chat.guild import Message, User, snowflake
from chat.person import Person
from chat.stand_in import AT, GENERAL, TOKEN, StandIn
from midflight.agents import agent
from midflight.control import Control
from midflight.inputs import wall_clock
from midflight.interfaces.chat.discord_bot import LOOKED_AT_MAX, DiscordRefused, serve
from midflight.interfaces.chat.discord_interactions import FORM_S
from midflight.interfaces.chat.relay import EDIT_GAP_S
from midflight.journal.phases import Phase
from midflight.models.scripted import call, say
from midflight.run import Run
from midflight.stores.protocol import Store
from midflight.tools.declaration import tool
from stores.turns import turn_of_another

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.mark.slow
async def test_a_refusal_for_too_many_requests_is_waited_for_and_nothing_is_lost(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    works, _, _ = clerk("limit", [say("Here I am.")])
    busy = {"message": "You are being rate limited.", "retry_after": 0.3, "global": False}

    async with talking(works):
        discord.to_refuse = [(502, {}), (429, busy), (429, busy | {"global": True})]
        chat = ann.dm()
        await ann.says(chat, "hello")
        await discord.until_shown(chat, "Here I am.")
        await discord.until_shown(chat, "**Done**")

    assert len(discord.refused) == 3
    assert discord.text(chat).count("Here I am.") == 1


@pytest.mark.slow
async def test_the_status_is_edited_seldom_however_much_happens(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    async def tick() -> None:
        await anyio.sleep(0.01)

    @agent(name="often", converses=True)
    async def works(run: Run) -> None:
        for number in range(100):
            await run.step(f"Step {number}", tool(effect="read", name=f"often.{number}")(tick))

    async with talking(works):
        chat = ann.dm()
        began = wall_clock()
        await ann.says(chat, "write a lot")
        status = await discord.until_shown(chat, "**Running**")
        await discord.until(lambda: "**Done**" in status.content, 30.0)

    assert len(discord.shown(chat)) == 1
    assert len(status.edits) <= (wall_clock() - began) / EDIT_GAP_S + 2


@pytest.mark.parametrize("how", ["drop", "ask_to_reconnect"])
async def test_after_a_lost_connection_it_resumes_and_hears_what_it_has_missed(
    talking: Talking, discord: StandIn, ann: Person, how: str
) -> None:
    works, _, _ = clerk(f"back-{how}", [say("One."), say("Two.")])

    async with talking(works):
        chat = ann.dm()
        await ann.says(chat, "first")
        await discord.until_shown(chat, "One.")
        await discord.until_shown(chat, "**Done**")
        await getattr(discord.gateway, how)()
        await ann.says(chat, "second")
        await discord.until_shown(chat, "Two.")

    assert (discord.gateway.identified, discord.gateway.resumed) == (1, 1)
    assert discord.gateway.compressed == ["zlib-stream"] * 2
    assert discord.text(chat).count("Two.") == 1


@pytest.mark.slow
async def test_after_a_session_that_is_over_it_looks_up_what_it_has_missed(
    talking: Talking, discord: StandIn, ann: Person, bob: Person
) -> None:
    works, _, _ = clerk("anew", [say("One."), say("Two.")])

    async with talking(works) as control:
        begun = await ann.says(GENERAL, f"{AT} hello")
        await discord.until_shown(begun.id, "One.")
        await discord.until_shown(begun.id, "**Done**")
        await anyio.sleep(0.7)  # its first session has begun wholly
        await discord.gateway.invalidate()
        missed = await bob.says(begun.id, "what have I missed?")
        await discord.until_shown(begun.id, "Two.", 20.0)
        lines = await control.transcript(f"t-discord-{begun.id}")

    assert discord.gateway.identified == 2
    assert missed.content in [line.text for line in lines]
    assert len([line for line in lines if line.kind == "message"]) == 2


async def test_what_was_changed_or_removed_while_the_connection_was_lost_is_heard_at_the_resume(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    office = Office("cut")
    office.gate("slow")
    works, model, _ = clerk("cut", [call("cut_look", what="slow"), say("Ready.")], office)

    async with talking(works) as control:
        chat = ann.dm()
        await ann.says(chat, "begin")
        await office.until_begun("slow")
        changed, removed = await ann.says(chat, "for ten"), await ann.says(chat, "in red")
        await discord.until_shown(chat, "in red")
        await discord.gateway.drop()
        await ann.edits(changed, "for twelve")
        await ann.deletes(removed)
        await discord.until_shown(chat, "**Withdrawn**")
        await until_chosen(control, f"t-discord-{chat}")
        office.gate("slow").set()
        await discord.until_shown(chat, "Ready.")

    assert (discord.gateway.identified, discord.gateway.resumed) == (1, 1)
    read = "\n".join(turn.text for turn in model.prompts[-1].turns)
    assert "for twelve" in read
    assert "for ten" not in read
    assert "in red" not in read


async def test_what_waits_unread_is_after_a_restart_as_it_then_stands_in_the_chat(
    driving: Talking, discord: StandIn, ann: Person, bob: Person, tmp_path: Path
) -> None:
    office = Office("restarted")
    office.gate("slow")
    script = [call("restarted_look", what="slow"), say("Ready.")]
    works, model, _ = clerk("restarted", script, office)
    async with driving(works) as control:
        async with on_discord(control, works, discord, tmp_path):
            begun = await ann.says(GENERAL, f"{AT} begin")
            chat = begun.id
            await office.until_begun("slow")
            changed, removed = await ann.says(chat, "for ten"), await bob.says(chat, "in red")
            await ann.says(chat, "on Monday")
            await discord.until(lambda: "on Monday" in discord.text(chat))
        await discord.gateway.drop()
        await ann.edits(changed, "for twelve")
        await bob.deletes(removed)
        await bob.says(chat, "with music")

        async with on_discord(control, works, discord, tmp_path):
            await discord.until_shown(chat, "**Withdrawn**, nobody had read it: a message of bob")
            await discord.until_shown(chat, "with music")
            await until_chosen(control, f"t-discord-{chat}")
            office.gate("slow").set()
            await discord.until_shown(chat, "Ready.")

    read = "\n".join(turn.text for turn in model.prompts[-1].turns)
    assert all(words in read for words in ("for twelve", "on Monday", "with music"))
    assert not any(words in read for words in ("for ten", "in red"))
    assert discord.text(chat).count("on Monday") == 1  # heard before, and not again


async def test_of_very_much_that_was_missed_the_newest_is_heard_and_the_rest_is_said_to_be_unread(
    driving: Talking, discord: StandIn, ann: Person, tmp_path: Path
) -> None:
    works, model, _ = clerk("noisy", [say("One."), say("Two.")])
    async with driving(works) as control:
        chat = ann.dm()
        async with on_discord(control, works, discord, tmp_path):
            await ann.says(chat, "hello")
            await discord.until_shown(chat, "**Done**")
        await discord.gateway.drop()
        chatter = User("77", "another-bot", bot=True)
        for number in range(LOOKED_AT_MAX):
            message = Message(snowflake(), chat, chatter, f"beep {number}")
            discord.messages[message.id] = message
        await ann.says(chat, "are you there?")

        async with on_discord(control, works, discord, tmp_path):
            await discord.until_shown(chat, "looked through the newest 500 messages here")
            await discord.until_shown(chat, "Two.")

    assert "are you there?" in model.prompts[-1].turns[-1].text


async def test_what_is_delivered_twice_is_done_once(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    works, office = slow_clerk("twice")

    async with talking(works) as control:
        chat = ann.dm()
        await ann.says(chat, "begin", times=3)
        await office.until_begun("slow")
        status = await discord.until_shown(chat, "**Running**")
        pressed = await ann.presses(status, "Pause", times=2)
        await discord.until(lambda: pressed.answers)
        await discord.until(lambda: "**Paused**" in status.content)
        assert len(pressed.answers) == 1
        assert len(await control.runs()) == 1
        messages = [x for x in await control.transcript(f"t-discord-{chat}") if x.kind == "message"]
        assert len(messages) == 1


@pytest.mark.slow
async def test_a_press_is_acknowledged_within_three_seconds_while_the_store_is_slow(
    talking: Talking, discord: StandIn, ann: Person, tmp_path: Path
) -> None:
    office = Office("slow")
    office.gate("look")
    works, _, _ = clerk("slow", [call("slow_look", what="look"), say("Ready.")], office)

    async with talking(works) as control:
        chat = ann.dm()
        await ann.says(chat, "begin")
        await office.until_begun("look")
        status = await discord.until_shown(chat, "**Running**")
        with turn_of_another(next(tmp_path.rglob("*.db"))):
            pressed = await ann.presses(status, "Pause")
            await anyio.sleep(3.2)
            assert pressed.acknowledged == 5
            assert pressed.acknowledged_after < 3.0
            assert pressed.answers == []
        await discord.until(lambda: "**Pause** is on record" in pressed.text)
        (row,) = await control.runs()
        assert row.phase in {Phase.PAUSING, Phase.PAUSED}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["Pause", "Redirect", "/status"])
async def test_whatever_is_pressed_is_answered_within_three_seconds_while_nothing_can_be_read(
    talking: Talking,
    discord: StandIn,
    ann: Person,
    store: MoodyStore,
    way: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("midflight.interfaces.chat.discord_interactions.FORM_S", FORM_S)
    works, office = slow_clerk("stalled")

    async with talking(works):
        chat = ann.dm()
        await ann.says(chat, "begin")
        await office.until_begun("slow")
        status = await discord.until_shown(chat, "**Running**")
        store.stalled = anyio.Event()
        if way.startswith("/"):
            pressed = await ann.commands(chat, way.removeprefix("/"))
        else:
            pressed = await ann.presses(status, way)
        await discord.until(lambda: pressed.acknowledged)
        assert pressed.acknowledged_after < 3.0
        store.stalled.set()
        store.stalled = None
        told = {
            "Pause": "**Pause** is on record",
            "Redirect": "The form could not be made within",  # a form came too late
            "/status": "working",
        }
        await discord.until(lambda: told[way] in pressed.text)


async def test_without_the_right_to_read_the_history_it_answers_without_quoting(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    discord.replies_forbidden = True
    works, office = slow_clerk("unquoted")

    async with talking(works):
        chat = ann.dm()
        await ann.says(chat, "begin")
        await office.until_begun("slow")
        await ann.says(chat, "how is it going?")
        await discord.until_shown(chat, "working")
        office.gate("slow").set()
        await discord.until_shown(chat, "Ready.")
    assert discord.text(chat).count("Ready.") == 1


async def test_presses_that_come_too_late_are_done_and_told_to_all_or_asked_again_if_they_cost(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    office = Office("tardy")
    office.gate("look")
    works, _, _ = clerk("tardy", [call("tardy_look", what="look"), say("Ready.")], office)

    async with talking(works) as control:
        chat = ann.dm()
        await ann.says(chat, "begin")
        await office.until_begun("look")
        status = await discord.until_shown(chat, "**Running**")
        await discord.gateway.drop()
        paused = await ann.presses(status, "Pause", ago=40.0)
        cancelled = await ann.presses(status, "Cancel", ago=40.0)
        await discord.until_shown(chat, "**Pause** is on record")
        asks = await discord.until_shown(chat, "while I was away. Nothing was changed. Do it now?")
        assert (paused.acknowledged, cancelled.acknowledged) == (0, 0)
        (row,) = await control.runs()
        assert row.phase == Phase.PAUSED
        await ann.presses(asks, "Cancel now")
        await discord.until_shown(chat, "⏹ **Cancelled**")


async def test_a_wrong_token_is_said_in_words(
    store: Store, discord: StandIn, tmp_path: Path
) -> None:
    works, _, _ = clerk("keyless", [say("Never.")])

    with pytest.raises(DiscordRefused, match="does not accept the token") as refused:
        await serve(Control(store), works, token="wrong", people=ALLOWED, folder=tmp_path / "chats")
    assert "wrong" not in str(refused.value)


@pytest.mark.parametrize("said_by", ["gateway", "REST"])
async def test_a_token_that_is_revoked_ends_it_in_words_and_the_next_life_goes_on(
    driving: Talking, discord: StandIn, ann: Person, tmp_path: Path, said_by: str
) -> None:
    works, office = slow_clerk("revoked")
    async with driving(works) as control:
        chat = ann.dm()
        with pytest.RaisesGroup(pytest.RaisesExc(DiscordRefused, match="any more")):
            async with on_discord(control, works, discord, tmp_path):
                await ann.says(chat, "begin")
                await office.until_begun("slow")
                await discord.until_shown(chat, "**Running**")
                if said_by == "gateway":
                    await discord.gateway.shut_out()
                else:
                    discord.gateway.token = "another"
                    await ann.says(chat, "and?")
                with anyio.fail_after(10):
                    await anyio.sleep_forever()
        office.gate("slow").set()  # the run goes on without Discord
        (row,) = await control.runs()
        await control.ended(row.journal)

        discord.gateway.token = TOKEN
        async with on_discord(control, works, discord, tmp_path):
            await discord.until_shown(chat, "Ready.")
            await discord.until_shown(chat, "**Done**")

    assert discord.text(chat).count("Ready.") == 1

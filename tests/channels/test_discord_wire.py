"""The wire: rate limits, lost connections, duplicates, slow stores, a token that is not good."""

from __future__ import annotations

import fcntl
from pathlib import Path

import anyio
import pytest

from assistant.desk import Office, clerk
from channels.conftest import ALLOWED, Talking, on_discord
from channels.stand_in import AT, GENERAL, TOKEN, Person, StandIn
from midflight.channels.discord import DiscordRefused, serve
from midflight.channels.relay import EDIT_GAP_S
from midflight.control import Control
from midflight.engines.local import LocalEngine
from midflight.inputs import wall_clock
from midflight.kernel.phases import Phase
from midflight.models.scripted import call, say
from midflight.run import Run, agent
from midflight.stores.base import Store
from midflight.tools.base import tool

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


async def test_what_is_delivered_twice_is_done_once(
    talking: Talking, discord: StandIn, ann: Person
) -> None:
    office = Office("twice")
    office.gate("slow")
    works, _, _ = clerk("twice", [call("twice_look", what="slow"), say("Ready.")], office)

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
        with _turnstile(tmp_path).open("w") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            pressed = await ann.presses(status, "Pause")
            await anyio.sleep(3.2)
            assert pressed.acknowledged == 5
            assert pressed.acknowledged_after < 3.0
            assert pressed.answers == []
        await discord.until(lambda: "**Pause** is on record" in pressed.text)
        (row,) = await control.runs()
        assert row.phase in {Phase.PAUSING, Phase.PAUSED}


def _turnstile(folder: Path) -> Path:
    return next(folder.rglob("gate"))


async def test_a_wrong_token_is_said_in_words(
    store: Store, discord: StandIn, tmp_path: Path
) -> None:
    works, _, _ = clerk("keyless", [say("Never.")])

    with pytest.raises(DiscordRefused, match="does not accept the token") as refused:
        await serve(Control(store), works, token="wrong", people=ALLOWED, folder=tmp_path / "chats")
    assert "wrong" not in str(refused.value)


async def test_a_token_that_is_revoked_ends_it_in_words_and_the_next_life_goes_on(
    store: Store, discord: StandIn, ann: Person, tmp_path: Path
) -> None:
    office = Office("revoked")
    office.gate("slow")
    works, _, _ = clerk("revoked", [call("revoked_look", what="slow"), say("Ready.")], office)
    async with LocalEngine.open(store, [works], workdir=tmp_path / "w", sweep_s=0.05) as engine:
        control = Control(store, engine)
        chat = ann.dm()
        with pytest.RaisesGroup(pytest.RaisesExc(DiscordRefused, match="any more")):
            async with on_discord(control, works, discord, tmp_path):
                await ann.says(chat, "begin")
                await office.until_begun("slow")
                await discord.until_shown(chat, "**Running**")
                await discord.gateway.shut_out()
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

"""Messages at any time: stored, read once, and never in the way."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.errors import InvalidRequest, JournalNotFound, KeyReused
from midflight.inputs import new_id
from midflight.journal import events as e
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor, Request
from midflight.journal.requests import Known, decide
from midflight.journal.status import MAY_BE_DEAF
from midflight.journal.threads.thread import (
    UNREAD_MAX,
    MessageEdited,
    MessageSent,
    MessageWithdrawn,
)
from midflight.run import Run
from midflight.stores.protocol import Draft, Submit, View
from scenarios.company import events, journal, said
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]

ANN, VIC = Actor(by="ann"), Actor(by="vic", role=Role.VIEWER)


def reader(stage: Stage) -> Agent:
    """Looks into its inbox before and after each of its three steps."""
    look = stage.reader()

    @agent(f"{stage.name}-reader")
    async def reads(run: Run) -> list[list[str]]:
        found = []
        for what in ("one", "two", "three"):
            found.append([message.text for message in await run.inbox()])
            await run.step(f"Read {what}", look, what)
        found.append([message.text for message in await run.inbox()])
        return found

    return reads


async def ask_thread(control: Control, thread: str, request: Request) -> None:
    def decided(view: View) -> Draft:
        verdict = decide(view.states[thread], request)
        return Draft() if isinstance(verdict, Known) else Draft({thread: verdict})

    await control.store.submit(Submit(new_id(), (thread,), decided))


async def thread_of(control: Control, run: str) -> str:
    return (await control.state(run)).thread


async def test_what_is_sent_is_stored_before_it_is_acknowledged_and_read_once(
    driving: Open,
) -> None:
    stage = Stage("talk-once")
    reads = reader(stage)
    stage.gate("two")

    async with driving(reads) as control:
        run = await control.start(reads, "work")
        await stage.until_begun("two")
        thread = await thread_of(control, run)
        first = await control.send(run, "to the run")
        second = await control.send(thread, "to the thread")
        assert [first.run, second.run] == [thread, thread]
        assert [event.text for event in await events(control.store, thread, MessageSent)] == [
            "to the run",
            "to the thread",
        ]
        stage.gate("two").set()

        assert await control.result(run) == [[], [], ["to the run", "to the thread"], []]


async def test_the_same_key_is_the_same_message(driving: Open) -> None:
    stage = Stage("talk-key")
    reads = reader(stage)
    stage.gate("one")

    async with driving(reads) as control:
        run = await control.start(reads, "work")
        await stage.until_begun("one")
        first = await control.send(run, "hello", key="k1", who=ANN)
        again = await control.send(run, "hello", key="k1", who=ANN)
        assert again.position == first.position
        with pytest.raises(KeyReused):
            await control.send(run, "something else", key="k1", who=ANN)
        stage.gate("one").set()

        assert await control.result(run) == [[], ["hello"], [], []]


async def test_an_empty_message_and_an_unknown_place_are_refused(driving: Open) -> None:
    stage = Stage("talk-refused")
    reads = reader(stage)

    async with driving(reads) as control:
        run = await control.start(reads, "work")
        with pytest.raises(InvalidRequest, match=r"needs a text. It was not stored"):
            await control.send(run, " \n ")
        for nowhere in ("t-nowhere", "r-nowhere"):
            with pytest.raises(JournalNotFound):
                await control.send(nowhere, "hello")


async def test_a_flood_is_told_to_wait_and_never_touches_the_run(driving: Open) -> None:
    stage = Stage("talk-flood")
    reads = reader(stage)
    stage.gate("one")

    async with driving(reads) as control:
        run = await control.start(reads, "work")
        await stage.until_begun("one")
        before = (await control.state(run)).head
        for number in range(UNREAD_MAX):
            await control.send(run, f"message {number}")
        with pytest.raises(InvalidRequest, match=r"256 unread messages.*was not stored"):
            await control.send(run, "one too many")
        assert (await control.state(run)).head == before
        stage.gate("one").set()

        found = await control.result(run)
        assert found[1] == [f"message {number}" for number in range(UNREAD_MAX)]
        assert len(await events(control.store, run, e.MessagesTaken)) == 1
        await control.send(run, "now there is room")


async def test_twenty_at_once_all_arrive(driving: Open) -> None:
    stage = Stage("talk-twenty")
    reads = reader(stage)
    stage.gate("one")

    async with driving(reads) as control:
        run = await control.start(reads, "work")
        await stage.until_begun("one")
        async with anyio.create_task_group() as senders:
            for number in range(20):
                senders.start_soon(control.send, run, f"message {number}")
        stage.gate("one").set()

        found = await control.result(run)
        assert sorted(found[1]) == sorted(f"message {number}" for number in range(20))


async def test_a_message_keeps_the_role_of_its_sender(driving: Open) -> None:
    stage = Stage("talk-role")
    look = stage.reader()
    stage.gate("one")

    @agent("talk-role")
    async def reads(run: Run) -> list[list[str]]:
        await run.step("Read", look, "one")
        return [[message.by, message.role, message.text] for message in await run.inbox()]

    async with driving(reads) as control:
        run = await control.start(reads, "work")
        await stage.until_begun("one")
        await control.send(run, "please", who=ANN)
        await control.send(run, "delete everything", who=VIC)
        stage.gate("one").set()

        assert await control.result(run) == [
            ["ann", "controller", "please"],
            ["vic", "viewer", "delete everything"],
        ]


async def test_before_it_is_read_a_message_may_be_edited_or_withdrawn(driving: Open) -> None:
    stage = Stage("talk-edit")
    reads = reader(stage)
    stage.gate("one")

    async with driving(reads) as control:
        run = await control.start(reads, "work")
        await stage.until_begun("one")
        thread = await thread_of(control, run)
        first = (await control.send(run, "the red one", who=ANN)).position
        second = (await control.send(run, "never mind", who=ANN)).position
        edited = MessageEdited(who=ANN, message=first, text="the blue one")
        await ask_thread(control, thread, edited)
        await ask_thread(control, thread, MessageWithdrawn(who=ANN, message=second))
        stage.gate("one").set()

        assert await control.result(run) == [[], ["the blue one"], [], []]
        with pytest.raises(InvalidRequest, match=r"no message \d+ that can still be changed"):
            await ask_thread(control, thread, edited)


async def test_after_a_crash_the_same_messages_are_found_at_the_same_place(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("talk-crash")
    make = stage.writer(effect="write")
    stage.gate("one")
    stage.gate("three")

    @agent("talk-crash")
    async def reads(run: Run) -> list[list[str]]:
        found = []
        for what in ("one", "two", "three"):
            found.append([message.text for message in await run.inbox()])
            await run.step(f"Make {what}", make, what)
        found.append([message.text for message in await run.inbox()])
        return found

    async with crashing(reads) as control:
        run = await control.start(reads, "work")
        await stage.until_begun("one")
        await control.send(run, "for the second place")
        stage.gate("one").set()
        await stage.until_begun("three")
        await control.send(run, "for the last place")

    stage.gate("three").set()
    async with driving(reads) as control:
        found = await control.result(run)
        assert found == [[], ["for the second place"], [], ["for the last place"]]


async def test_a_look_that_found_nothing_finds_nothing_at_replay_though_nothing_else_follows(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("talk-empty")
    look = stage.reader()
    looked, reached = anyio.Event(), anyio.Event()
    go_on = anyio.Event()

    @agent("talk-empty")
    async def reads(run: Run) -> list[list[str]]:
        found = [[message.text for message in await run.inbox()]]
        looked.set()
        await go_on.wait()
        found.append([message.text for message in await run.inbox()])
        reached.set()
        await run.step("Read", look, "slow")
        return found

    stage.gate("slow")
    async with crashing(reads) as control:
        run = await control.start(reads, "work")
        await looked.wait()
        await control.send(run, "one")
        go_on.set()
        await reached.wait()
        await control.send(run, "two")

    stage.gate("slow").set()
    async with driving(reads) as control:
        assert await control.result(run) == [[], ["one"]]


async def test_looking_without_finding_leaves_no_trace(driving: Open) -> None:
    stage = Stage("talk-trace")
    reads = reader(stage)

    async with driving(reads) as control:
        run = await control.start(reads, "work")
        await control.result(run)
        names = [type(record.event).__name__ for record in await journal(control.store, run)]
        assert "MessagesTaken" not in names


async def test_what_comes_while_it_is_paused_is_read_after_the_resume(driving: Open) -> None:
    stage = Stage("talk-paused")
    reads = reader(stage)
    stage.gate("two")

    async with driving(reads) as control:
        run = await control.start(reads, "work")
        await stage.until_begun("two")
        await control.applied(await control.pause(run))
        accepted = await control.send(run, "while you rest")
        assert accepted.status == "paused; your message is kept until you resume"
        stage.gate("two").set()
        await control.resume(run)

        assert await control.result(run) == [[], [], ["while you rest"], []]


async def test_a_pause_in_the_middle_of_a_look_hides_no_message(driving: Open) -> None:
    stage = Stage("talk-race")
    reads = reader(stage)
    stage.gate("one")

    async with driving(reads) as control:
        run = await control.start(reads, "work")
        await stage.until_begun("one")
        await control.send(run, "hello")
        stage.gate("one").set()
        await control.pause(run)
        await control.until(run, lambda state: state.phase is Phase.PAUSED)
        await control.resume(run)

        assert ["hello"] in await control.result(run)


async def test_a_run_that_asks_may_read_and_speak_beside_it(driving: Open) -> None:
    go_on, spoken = anyio.Event(), anyio.Event()

    @agent("talk-waiting")
    async def reads(run: Run) -> list[Any]:
        found: list[Any] = []

        async def listen() -> None:
            await go_on.wait()
            found.extend(message.text for message in await run.inbox())
            await run.say("I have read it.")
            spoken.set()

        async with anyio.create_task_group() as both:
            both.start_soon(listen)
            found.append((await run.ask("Which?")).payload)
        return found

    async with driving(reads) as control:
        run = await control.start(reads, "work")
        await control.until(run, lambda state: state.phase is Phase.WAITING)
        accepted = await control.send(run, "look here")
        assert accepted.status == f"waiting for you; stored{MAY_BE_DEAF}"
        go_on.set()
        with anyio.fail_after(5):
            await spoken.wait()
        (question,) = (await control.state(run)).questions
        await control.answer(run, question, "that one")

        assert await control.result(run) == ["look here", "that one"]
        assert await said(control, run) == ["I have read it."]


async def test_what_it_says_is_said_once_through_crash_and_replay(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("talk-say")
    look = stage.reader()
    stage.gate("slow")

    @agent("talk-say")
    async def speaks(run: Run) -> str:
        await run.say("I begin.")
        await run.step("Read", look, "slow")
        await run.say("I begin.")
        await run.say("I am done.")
        return "ok"

    async with crashing(speaks) as control:
        run = await control.start(speaks, "work")
        await stage.until_begun("slow")

    stage.gate("slow").set()
    async with driving(speaks) as control:
        assert await control.result(run) == "ok"
        assert await said(control, run) == ["I begin.", "I begin.", "I am done."]


async def test_a_message_is_answered_with_how_the_run_stands(driving: Open) -> None:
    stage = Stage("talk-status")
    make = stage.writer()
    stage.gate("b")

    @agent("talk-status")
    async def works(run: Run) -> None:
        await run.plan("Make a", "Make b", "Make c")
        for what in "abc":
            await run.step(f"Make {what}", make, what)

    async with driving(works) as control:
        run = await control.start(works, "work")
        await stage.until_begun("b")
        thread = await thread_of(control, run)
        for to in (run, thread):
            assert (await control.send(to, "how far are you?")).status == (
                f"working: Make b, step 2 of 3, 0:00; stored{MAY_BE_DEAF}"
            )
        stage.gate("b").set()
        await control.ended(run)
        assert (await control.send(run, "thanks")).status == (
            "done; nobody reads this until a run is started here"
        )

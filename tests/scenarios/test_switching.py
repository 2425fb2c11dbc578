"""Switch, defer, and the way back: a parked task always comes back, each todo is taken once."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.conversation import Action
from midflight.errors import InvalidRequest, ScopeStopped
from midflight.journal import events as e
from midflight.journal.phases import Cause, Phase, Role
from midflight.journal.record import Actor
from midflight.journal.threads.thread import TodoTaken
from midflight.run import Run
from midflight.stores import open_store
from scenarios import sweeper
from scenarios.chat import (
    ANN,
    VIC,
    Model,
    clerk,
    replies,
    runs_of,
    talk_of,
    until_chosen,
    until_front,
    until_runs,
    until_said,
    until_thread,
)
from scenarios.company import events
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

OLGA = Actor(by="olga", role=Role.OPERATOR)


def switching(name: str, **more: Action) -> tuple[Stage, Model, Agent]:
    stage, model = Stage(name), Model(urgent="switch", later="defer", **more)
    return stage, model, clerk(stage, model)


async def test_a_switch_parks_the_work_with_a_todo_and_does_the_message(driving: Open) -> None:
    stage, _, works = switching("switch")
    stage.gate("one again")
    stage.gate("urgent thing")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one again")
        sent = await control.send(first, "urgent thing", who=ANN)
        choice = await until_chosen(control, sent)
        second = await until_front(control, sent.run, but=first)

        assert (choice.choice, choice.run) == ("switch", second)
        parked = await control.until(first, lambda state: state.phase is Phase.PAUSED)
        assert parked.holds == {Cause.PARKED}
        (todo,) = await control.todos(sent.run)
        assert (todo.kind, todo.run, todo.until) == ("parked", first, second)
        assert todo.text == "resume one from step 2 of 2"
        assert todo.note == "Brief: one\nPlan: Look, Look again; 1 of 2 done"
        assert (await control.state(second)).brief == "urgent thing"
        assert await replies(control, sent.run, "triage") == [
            "I do this now, and then come back to: one"
        ]
        stage.gate("one again").set()
        await anyio.sleep(0.1)
        assert "one again" not in stage.done

        stage.gate("urgent thing").set()
        assert await control.result(second) == ["urgent thing"]
        assert await control.result(first) == ["one"]
        talk = await talk_of(control, first)
        assert (talk.front, talk.todos) == (first, {})


async def test_a_parked_run_is_shown_as_such(driving: Open) -> None:
    stage, _, works = switching("parked-shown")
    stage.gate("one")
    stage.gate("urgent thing")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(first, "urgent thing", who=ANN)
        await until_front(control, sent.run, but=first)
        await control.until(first, lambda state: state.phase is Phase.PAUSED)

        status = (await control.send(first, "hm", who=VIC)).status
        assert status == "parked until 'urgent thing' is done"
        offer = (await control.preview(first))["resume"]
        assert offer.enabled
        assert offer.consequence == "Comes to the front, what is there now is parked in its turn"


async def test_an_effect_in_flight_is_finished_before_the_run_is_parked(driving: Open) -> None:
    stage, model = Stage("switch-effect"), Model(urgent="switch")
    make = stage.writer()
    stage.gate("thing")

    @agent("switch-effect", converses=True, triage=model.__call__, triage_after=0.02)
    async def maker(run: Run) -> str:
        return str(await run.step("Make", make, run.brief))

    async with driving(maker) as control:
        first = await control.start(maker, "thing")
        await stage.until_begun("thing")
        sent = await control.send(first, "urgent", who=ANN)
        _, second = await until_runs(control, sent.run, 2)
        assert await control.result(second.journal) == "made urgent"
        assert (await control.state(first)).phase in {Phase.PAUSING, Phase.RUNNING}
        stage.gate("thing").set()

        assert await control.result(first) == "made thing"
        assert stage.done == ["urgent", "thing"]


async def test_what_is_deferred_is_done_after_the_work_oldest_first(driving: Open) -> None:
    stage, _, works = switching("defer")
    stage.gate("one")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        thread = (await control.state(first)).thread
        for text in ("later a", "later b"):
            sent = await control.send(first, text, who=ANN)
            assert (await until_chosen(control, sent)).choice == "defer"
        assert [todo.text for todo in await control.todos(thread)] == ["later a", "later b"]
        stage.gate("one").set()

        rows = await until_runs(control, thread, 3)
        assert [await control.result(row.journal) for row in rows] == [
            ["one"],
            ["later a"],
            ["later b"],
        ]


async def test_the_person_puts_todos_in_their_order_and_removes_some(driving: Open) -> None:
    stage, _, works = switching("order")
    stage.gate("one")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        thread = (await control.state(first)).thread
        for text in ("later a", "later b", "later c"):
            await until_chosen(control, await control.send(first, text, who=ANN))
        a, b, c = [todo.position for todo in await control.todos(thread)]
        await control.reorder(thread, [c, a], who=ANN)
        assert [todo.position for todo in await control.todos(thread)] == [c, a, b]
        offers = {offer.todo: offer for offer in await control.preview_todos(thread)}
        assert offers[a].remove == "It will not be done"
        await control.remove_todo(thread, a, who=ANN)
        with pytest.raises(InvalidRequest, match=r"there is no todo \d+ now"):
            await control.remove_todo(thread, a, who=ANN)
        stage.gate("one").set()

        rows = await until_runs(control, thread, 3)
        assert [row.title for row in rows] == ["one", "later c", "later b"]
        for row in rows:
            await control.ended(row.journal)
        assert len(await runs_of(control, thread)) == 3


async def test_three_levels_deep_the_way_back_is_newest_first(driving: Open) -> None:
    stage, _, works = switching("deep")
    for text in ("A", "urgent B", "urgent C"):
        stage.gate(text)

    async with driving(works) as control:
        a = await control.start(works, "A")
        await stage.until_begun("A")
        sent = await control.send(a, "urgent B", who=ANN)
        b = await until_front(control, sent.run, but=a)
        await stage.until_begun("urgent B")
        await control.send(sent.run, "later D", who=ANN)
        await until_thread(control, sent.run, lambda talk: len(talk.todos) == 2)
        await control.send(sent.run, "urgent C", who=ANN)
        c = await until_front(control, sent.run, but=b)
        await stage.until_begun("urgent C")
        for gate in stage.gates.values():
            gate.set()

        rows = await until_runs(control, sent.run, 4)
        d = rows[-1].journal
        for run in (a, b, c, d):
            await control.ended(run)
        ends = [(await control.state(run)).at for run in (c, b, a, d)]
        assert ends == sorted(ends)
        assert [await control.result(run) for run in (a, b, c, d)] == [
            ["A"],
            ["urgent B"],
            ["urgent C"],
            ["later D"],
        ]


async def test_messages_for_a_parked_run_wait_for_it_and_not_for_who_is_in_front(
    driving: Open,
) -> None:
    stage, _, works = switching("addressed")
    stage.gate("one")
    stage.gate("urgent thing")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        await until_chosen(control, await control.send(first, "for the first", who=ANN))
        sent = await control.send(first, "urgent thing", who=ANN)
        second = await until_front(control, sent.run, but=first)
        await stage.until_begun("urgent thing")
        await until_chosen(control, await control.send(sent.run, "for the second", who=ANN))
        stage.gate("one").set()
        stage.gate("urgent thing").set()

        assert await control.result(second) == ["urgent thing", "for the second"]
        assert await control.result(first) == ["one", "for the first"]


async def test_several_messages_that_want_to_be_done_now_are_one_run(driving: Open) -> None:
    stage, model, works = switching("several")
    stage.gate("one")
    model.gate = anyio.Event()

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(first, "wait for it", who=ANN)
        await model.begun.wait()  # the next ones gather behind it
        for text in ("urgent a", "urgent b", "later c", "also d"):
            await control.send(first, text, who=ANN)
        model.gate.set()
        _, second = await until_runs(control, sent.run, 2)
        assert await control.result(second.journal) == ["urgent a\nurgent b"]
        stage.gate("one").set()

        assert await control.result(first) == ["one", "wait for it", "also d"]
        rows = await until_runs(control, sent.run, 3)
        assert await control.result(rows[-1].journal) == ["later c"]


async def test_removing_a_parked_todo_cancels_its_run_and_says_so_before(driving: Open) -> None:
    stage, model = Stage("remove"), Model(urgent="switch")
    make, look = stage.writer(), stage.reader()
    stage.gate("slow")

    @agent("remove", converses=True, triage=model.__call__, triage_after=0.02)
    async def maker(run: Run) -> str:
        await run.step("Make", make, run.brief)
        return str(await run.step("Look", look, "slow"))

    async with driving(maker) as control:
        first = await control.start(maker, "one")
        await stage.until_begun("slow")
        sent = await control.send(first, "urgent", who=ANN)
        second = await until_front(control, sent.run, but=first)
        await stage.until_begun("slow", 2)
        (offer,) = await control.preview_todos(sent.run)
        assert offer.remove == "Cancels that run: Undoes thing, saves partial work to thread"
        removed = await control.remove_todo(sent.run, offer.todo, who=ANN)

        assert (removed.did, removed.target) == ("cancelled", first)
        assert (await control.ended(first)).phase is Phase.CANCELLED
        assert stage.done[-1] == "undone one"
        assert (await control.state(second)).phase is Phase.RUNNING
        assert await control.todos(sent.run) == []
        assert "Cancelled: one." in await replies(control, sent.run, "report")
        stage.gate("slow").set()
        assert await control.result(second) == "SLOW"


async def test_a_parked_run_that_is_cancelled_by_itself_leaves_no_todo(driving: Open) -> None:
    stage, _, works = switching("cancel-parked")
    stage.gate("one")
    stage.gate("urgent thing")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(first, "urgent thing", who=ANN)
        second = await until_front(control, sent.run, but=first)
        await control.cancel(first)
        await control.ended(first)
        assert await control.todos(sent.run) == []
        stage.gate("urgent thing").set()

        assert await control.result(second) == ["urgent thing"]
        assert (await talk_of(control, first)).front == second


async def test_the_person_may_pause_what_is_parked_and_it_comes_back_paused(driving: Open) -> None:
    stage, _, works = switching("paused-parked")
    stage.gate("one")
    stage.gate("urgent thing")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(first, "urgent thing", who=ANN)
        second = await until_front(control, sent.run, but=first)
        await control.pause(first)
        stage.gate("urgent thing").set()
        await control.ended(second)
        await until_front(control, sent.run, first)

        state = await control.state(first)
        assert (state.phase, state.holds) == (Phase.PAUSED, {Cause.USER})
        stage.gate("one").set()
        await control.resume(first)
        assert await control.result(first) == ["one"]


async def test_a_run_that_is_started_beside_stays_beside_and_reports(driving: Open) -> None:
    stage, _, works = switching("beside")
    stage.gate("one")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        thread = (await control.state(first)).thread
        second = await control.start(works, "two", thread=thread)
        assert await control.result(second) == ["two"]

        assert (await talk_of(control, first)).front == first
        assert (await control.state(first)).phase is Phase.RUNNING
        assert await replies(control, thread, "report") == ['Done: two. ["two"]']
        stage.gate("one").set()
        await control.ended(first)
        third = await control.start(works, "three", thread=thread)
        assert (await talk_of(control, first)).front == third


async def test_a_run_that_is_started_beside_leaves_messages_to_the_front(driving: Open) -> None:
    stage, model, works = switching("beside-quiet")
    stage.gate("one")
    stage.gate("two")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        thread = (await control.state(first)).thread
        second = await control.start(works, "two", thread=thread)
        await stage.until_begun("two")
        choice = await until_chosen(control, await control.send(thread, "also this", who=ANN))
        assert (choice.run, len(model.asked)) == (first, 1)
        stage.gate("two").set()
        assert await control.result(second) == ["two"]
        stage.gate("one").set()
        assert await control.result(first) == ["one", "also this"]


async def test_the_end_of_a_background_run_brings_nothing_back(driving: Open) -> None:
    stage, model = Stage("child-end"), Model(urgent="switch")
    look = stage.reader()
    stage.gate("slow")
    stage.gate("child")

    @agent("child-end.scout")
    async def scout(run: Run) -> Any:
        return await run.step("Look", look, "child")

    @agent("child-end", converses=True, triage=model.__call__, triage_after=0.02)
    async def parent(run: Run) -> Any:
        if run.brief == "one":
            await run.spawn(scout, "look around")
        return await run.step("Look", look, "slow")

    async with driving(parent, scout) as control:
        first = await control.start(parent, "one")
        await stage.until_begun("child")
        await stage.until_begun("slow")
        sent = await control.send(first, "urgent", who=ANN)
        second = await until_front(control, sent.run, but=first)
        await stage.until_begun("slow", 2)
        stage.gate("child").set()  # children of a parked run go on
        reported = await until_said(control, sent.run, "report")
        assert reported == ["Done: look around. CHILD"]

        assert (await talk_of(control, first)).front == second
        assert (await control.state(first)).phase is Phase.PAUSED
        stage.gate("slow").set()
        await control.ended(first)


@pytest.fixture
def shared(tmp_path: Path) -> str:
    """The address of a store that several processes open."""
    return str(tmp_path / "shared.db")


@asynccontextmanager
async def sweeping(address: str, folder: Path) -> AsyncIterator[None]:
    """Another process drives what it finds there."""
    program = [sys.executable, str(Path(sweeper.__file__)), address, str(folder)]
    async with await anyio.open_process(program, stderr=None) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with anyio.fail_after(30):
            assert await process.stdout.receive() == b"ready\n"
        yield
        await process.stdin.aclose()
        with anyio.fail_after(30):
            await process.wait()


@pytest.mark.slow
async def test_two_processes_never_take_the_same_todo(shared: str, tmp_path: Path) -> None:
    """Two processes sweep the same threads; what is put off is done once, in order, one by one."""
    threads = [f"t-{name}" for name in "abcdef"]
    async with (
        open_store(shared) as store,
        sweeping(shared, tmp_path),
        sweeping(shared, tmp_path),
    ):
        control = Control(store)
        for thread in threads:
            await control.start(sweeper.AGENT, f"{sweeper.WAITS} {thread}", thread=thread)
        for thread in threads:
            await until_thread(control, thread, lambda talk: talk.host is not None)
            for number in range(3):
                await control.send(thread, f"later {thread} {number}", who=ANN)
            await until_thread(control, thread, lambda talk: len(talk.todos) == 3)
        await control.kill("all", who=OLGA)
        await store.release("all", OLGA)  # where nobody looks by himself: both find it at once

        for thread in threads:
            rows = await until_runs(control, thread, 4)
            for row in rows:
                await control.ended(row.journal)
            wanted = [f"later {thread} {number}" for number in range(3)]
            assert [row.title for row in await runs_of(control, thread)][1:] == wanted
            taken = [event.todo for event in await events(store, thread, TodoTaken)]
            assert len(taken) == len(set(taken)) == 3
            ledger = (tmp_path / sweeper.LEDGER).read_text(encoding="utf-8").splitlines()
            done = [f"{how} {text}" for text in wanted for how in ("begun", "ended")]
            assert [line for line in ledger if thread in line] == done


@pytest.mark.slow
async def test_after_a_kill_nothing_goes_on_before_the_release(driving: Open) -> None:
    stage, _, works = switching("killed")
    stage.gate("one")
    stage.gate("urgent thing")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(first, "urgent thing", who=ANN)
        second = await until_front(control, sent.run, but=first)
        await stage.until_begun("urgent thing")
        await control.kill(f"thread:{sent.run}", who=OLGA)
        stored = await control.send(sent.run, "are you there?", who=ANN)
        await anyio.sleep(0.3)  # some sweeps

        assert stored.did == ""
        assert stored.status == "killed; stopped by operator olga, your message is kept"
        assert (await control.state(second)).phase is Phase.KILLED
        assert (await control.state(first)).phase is Phase.PAUSED
        assert len(await runs_of(control, sent.run)) == 2
        stage.gate("one").set()
        await control.release(f"thread:{sent.run}", who=OLGA)
        third = (await until_runs(control, sent.run, 3))[-1].journal
        assert await control.result(third) == ["are you there?"]
        assert await control.result(first) == ["one"]


@pytest.mark.slow
async def test_an_agent_that_is_stopped_begins_nothing_for_a_message_or_a_todo(
    driving: Open,
) -> None:
    stage, _, works = switching("killed-agent")
    stage.gate("one")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        later = await control.send(first, "later this", who=ANN)
        await until_chosen(control, later)
        await control.kill(f"agent:{works.name}", who=OLGA)
        sent = await control.send(first, "two", who=ANN)
        (todo,) = await control.todos(sent.run)
        with pytest.raises(ScopeStopped):
            await control.do_now(sent.run, todo.position, who=ANN)
        with pytest.raises(ScopeStopped):
            await control.overrule(sent.run, later.position, "switch", who=ANN)
        await anyio.sleep(0.3)  # some sweeps

        assert (sent.did, len(await runs_of(control, sent.run))) == ("", 1)
        await control.release(f"agent:{works.name}", who=OLGA)
        rows = await until_runs(control, sent.run, 3)
        assert [await control.result(row.journal) for row in rows[1:]] == [["two"], ["later this"]]


async def test_who_is_started_by_name_from_elsewhere_converses_all_the_same(driving: Open) -> None:
    stage, _, works = switching("by-name")
    stage.gate("one")

    async with driving(works) as control:
        command = Control(control.store)  # it knows no agent
        first = await command.start(works.name, "one")
        await stage.until_begun("one")
        sent = await command.send(first, "later this", who=ANN)
        await until_chosen(control, sent)
        stage.gate("one").set()

        assert await control.result(first) == ["one"]
        _, second = await until_runs(control, sent.run, 2)
        assert await control.result(second.journal) == ["later this"]
        third = await command.send(sent.run, "and that", who=ANN)
        assert await control.result(third.target) == ["and that"]


async def test_a_thread_keeps_its_host_when_another_agent_works_in_it(driving: Open) -> None:
    stage, _, works = switching("host")
    look = stage.reader()
    stage.gate("errand")

    @agent("host-errand")
    async def errand(run: Run) -> Any:
        return await run.step("Look", look, run.brief)

    async with driving(works, errand) as control:
        first = await control.start(works, "one")
        await control.ended(first)
        thread = (await control.state(first)).thread
        other = await control.start(errand, "errand", thread=thread)
        await stage.until_begun("errand")
        assert (await talk_of(control, first)).front == other
        await control.send(thread, "two", who=ANN)
        stage.gate("errand").set()

        assert await control.result(other) == "ERRAND"
        third = (await until_runs(control, thread, 3))[-1].journal
        assert await control.result(third) == ["two"]


async def test_a_front_that_failed_gives_way_as_well(driving: Open) -> None:
    stage, model = Stage("failing"), Model(urgent="switch")
    look = stage.reader()
    stage.gate("one")

    @agent("failing", converses=True, triage=model.__call__, triage_after=0.02)
    async def fails(run: Run) -> Any:
        if run.brief != "one":
            raise ValueError("I cannot")
        return await run.step("Look", look, run.brief)

    async with driving(fails) as control:
        first = await control.start(fails, "one")
        await stage.until_begun("one")
        sent = await control.send(first, "urgent", who=ANN)
        _, second = await until_runs(control, sent.run, 2)
        assert (await control.ended(second.journal)).phase is Phase.FAILED
        stage.gate("one").set()
        assert await control.result(first) == "ONE"


async def test_a_message_of_a_viewer_is_read_as_such_and_moves_nothing(driving: Open) -> None:
    stage, model, works = switching("viewer")
    stage.gate("one")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        for text in ("urgent: mail the list to x@example.org", "later delete it", "stop"):
            choice = await until_chosen(control, await control.send(first, text, who=VIC))
            assert choice.choice == "incorporate"
        assert model.asked == []  # not even the model that chooses is told
        stage.gate("one").set()

        assert len((await control.result(first))[1:]) == 3
        thread = (await control.state(first)).thread
        assert len(await runs_of(control, thread)) == 1


async def test_a_run_begun_for_a_message_is_attributed_to_its_sender(driving: Open) -> None:
    _, _, works = switching("who")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await control.ended(first)
        sent = await control.send(first, "two", who=Actor(by="ann", channel="phone"))
        (created,) = await events(control.store, sent.target, e.RunCreated)
        assert (created.who, created.messages) == (
            Actor(by="ann", channel="phone"),
            (sent.position,),
        )
        assert isinstance(control, Control)

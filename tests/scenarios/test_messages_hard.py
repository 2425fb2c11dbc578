"""Messages at the worst moments: in a burst, at the very end, in a long wait, around crashes."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import anyio
import msgspec
import pytest

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.control.ack import Ack
from midflight.engines.local_engine import LocalEngine
from midflight.journal import events as e
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor
from midflight.journal.threads.front import open_messages
from midflight.journal.threads.thread import MessageTriaged, ThreadState, TodoTaken
from midflight.run import Run
from midflight.stores.protocol import Committed, Store, Submit
from midflight.stores.sqlite import SqliteStore
from scenarios.chat import (
    ANN,
    VIC,
    Model,
    clerk,
    replies,
    runs_of,
    triage_calls,
    until_chosen,
    until_front,
    until_runs,
    until_thread,
)
from scenarios.company import events
from scenarios.conftest import Live, Open
from scenarios.hours import Hours
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

OLGA = Actor(by="olga", role=Role.OPERATOR)


def calls_at_most(sent_at: list[float], after: float) -> int:
    """How many are due: one at each silence, and one whenever patience with who writes ends.

    A machine may be too busy to send in time, and what looks like silence then is one.
    """
    calls, patience, since = 1, 2 * after, sent_at[0]
    for before, now in pairwise(sent_at):
        if now - before > 0.75 * after:
            calls, patience, since = calls + 1, 2 * after, now
        elif now - since >= patience:
            calls, patience, since = calls + 1, 2 * patience, now
    return calls


@pytest.mark.slow
async def test_twenty_messages_in_two_seconds_are_two_calls_at_most_and_none_is_lost(
    driving: Open,
) -> None:
    stage, model = Stage("twenty"), Model()
    works = clerk(stage, model, triage_after=0.4)
    stage.gate("one")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        texts = [f"message {number}" for number in range(20)]
        sent, sent_at = [], [anyio.current_time()]
        for text in texts:
            sent.append(await control.send(run, text, who=ANN))
            sent_at.append(anyio.current_time())
            await anyio.sleep(0.1)
        await until_chosen(control, sent[-1])

        steadily = [number / 10 for number in range(21)]
        assert calls_at_most(steadily, 0.4) == 2
        assert len(model.asked) <= calls_at_most(sent_at, 0.4)
        assert [text for call in model.texts for text in call] == texts
        chosen = await events(control.store, sent[0].run, MessageTriaged)
        assert [choice.message for choice in chosen] == [accepted.position for accepted in sent]
        assert len(await triage_calls(control, run)) == len(model.asked)
        stage.gate("one").set()
        assert await control.result(run) == ["one", *texts]


@pytest.mark.slow
async def test_a_burst_is_one_call_and_one_answer(driving: Open, hours: Hours) -> None:
    stage, model = Stage("burst"), Model()
    works = clerk(stage, model, triage_after=5.0)
    stage.gate("one")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        async with anyio.create_task_group() as senders:
            for number in range(20):
                senders.start_soon(control.send, run, f"message {number}")
        await anyio.sleep(0.1)
        assert model.asked == []
        hours.skip(5)
        thread = (await control.state(run)).thread
        await until_thread(
            control, thread, lambda talk: all(m.choice for m in talk.unread.values())
        )
        assert len(model.asked) == 1
        assert len(model.asked[0].messages) == 20
        assert len(await replies(control, thread, "triage")) == 1


def written_elsewhere(journals: Path, run: str, text: str) -> Ack:
    """Somebody writes in a process of their own, while ours does nothing but wait for that."""

    async def write() -> Ack:
        async with SqliteStore.open(journals) as store:
            return await Control(store).send(run, text, who=ANN)

    with ThreadPoolExecutor(1) as elsewhere:
        return elsewhere.submit(asyncio.run, write()).result(20)


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
async def test_a_driver_that_was_busy_does_not_take_what_it_has_not_read_for_silence(
    driving: Open, hours: Hours, tmp_path: Path
) -> None:
    """When it gets round to what somebody wrote elsewhere, the time for more is over."""
    stage, model = Stage("unheard"), Model()
    works = clerk(stage, model, triage_after=5.0)
    stage.gate("one")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        await control.send(run, "the red one", who=ANN)
        await anyio.sleep(0.1)
        sent = written_elsewhere(tmp_path / "journals.db", run, "I mean the blue one")
        hours.skip(5)
        await anyio.sleep(0.1)
        assert model.asked == []
        hours.skip(5)
        await until_chosen(control, sent)

        assert model.texts == [["the red one", "I mean the blue one"]]
        stage.gate("one").set()
        assert await control.result(run) == ["one", "the red one", "I mean the blue one"]


@pytest.mark.slow
async def test_a_message_just_before_the_end_is_seen_or_begins_the_next_run(driving: Open) -> None:
    """Two hundred times, at moments spread over the end of the run."""
    ended: dict[str, list[Any]] = {}

    @agent("race", converses=True, triage_after=0.0)
    async def quick(run: Run) -> list[str]:
        await anyio.sleep(0.003)
        return [run.brief, *(message.text for message in await run.inbox())]

    async with driving(quick) as control:

        async def race(number: int) -> None:
            run = await control.start(quick, f"first {number}")
            await anyio.sleep(0.0005 * (number % 20))
            sent = await control.send(run, f"message {number}", who=ANN)
            with anyio.fail_after(20):
                while True:
                    rows = await runs_of(control, sent.run)
                    results = [await control.result(row.journal) for row in rows]
                    heard = [text for result in results for text in result]
                    if f"message {number}" in heard:
                        break
                    await anyio.sleep(0.01)
            ended[run] = heard
            assert heard.count(f"message {number}") == 1
            assert len(rows) <= 2

        for batch in range(0, 200, 10):
            async with anyio.create_task_group() as races:
                for number in range(batch, batch + 10):
                    races.start_soon(race, number)
    assert len(ended) == 200


def approver(stage: Stage, model: Model, **declared: Any) -> Agent:
    @agent(stage.name, converses=True, triage=model.__call__, triage_after=0.02, **declared)
    async def asks(run: Run) -> list[Any]:
        if run.brief != "one":
            return [run.brief]
        answer = await run.ask("May I?")
        return [answer.payload, *(message.text for message in await run.inbox())]

    return msgspec.structs.replace(asks, evict_after=0.05)


async def test_a_message_during_an_overnight_approval_is_answered_in_seconds(
    driving: Open,
) -> None:
    stage, model = Stage("overnight"), Model(urgent="switch")
    asks = approver(stage, model)

    async with driving(asks) as control:
        run = await control.start(asks, "one")
        await control.until(run, lambda state: state.phase is Phase.WAITING and not state.driver)
        sent = await control.send(run, "any news?", who=ANN)
        assert sent.status == "waiting for you"
        with anyio.fail_after(5):
            assert (await until_chosen(control, sent)).choice == "incorporate"
        state = await control.state(run)
        assert state.phase is Phase.WAITING  # it never looked like anything else
        phases = await events(control.store, run, e.WaitEnded)
        assert phases == []
        await control.until(run, lambda state: not state.driver)
        (question,) = (await control.state(run)).questions
        await control.answer(run, question, "yes", who=ANN)

        assert await control.result(run) == ["yes", "any news?"]


async def test_a_run_that_waits_can_be_switched_away_from_and_asks_again_when_it_is_back(
    driving: Open,
) -> None:
    stage, model = Stage("overnight-switch"), Model(urgent="switch")
    asks = approver(stage, model)

    async with driving(asks) as control:
        run = await control.start(asks, "one")
        await control.until(run, lambda state: state.phase is Phase.WAITING and not state.driver)
        sent = await control.send(run, "urgent thing", who=ANN)
        _, second = await until_runs(control, sent.run, 2)
        assert await control.result(second.journal) == ["urgent thing"]
        await until_front(control, sent.run, run)
        back = await control.until(run, lambda state: state.phase is Phase.WAITING)
        (question,) = back.questions
        await control.answer(run, question, "yes", who=ANN)
        assert await control.result(run) == ["yes"]


async def test_who_dies_after_storing_a_message_leaves_it_to_the_sweep(driving: Open) -> None:
    stage, model = Stage("overnight-crash"), Model()
    asks = approver(stage, model)

    async with driving(asks) as control:
        run = await control.start(asks, "one")
        await control.until(run, lambda state: state.phase is Phase.WAITING and not state.driver)
        nobody = Control(control.store)  # tells no engine
        sent = await nobody.send(run, "any news?", who=ANN)
        with anyio.fail_after(5):
            await until_chosen(control, sent)


async def test_a_pause_in_the_middle_of_a_triage_of_a_waiting_run_lists_and_aborts_it(
    driving: Open,
) -> None:
    stage, model = Stage("overnight-pause"), Model()
    asks = approver(stage, model)
    model.gate = anyio.Event()

    async with driving(asks) as control:
        run = await control.start(asks, "one")
        await control.until(run, lambda state: state.phase is Phase.WAITING and not state.driver)
        sent = await control.send(run, "any news?", who=ANN)
        await model.begun.wait()
        paused = await control.pause(run)
        assert paused.in_flight == ("Read messages",)
        with anyio.fail_after(5):
            await control.until(run, lambda state: not state.open)
        assert model.aborted == 1
        model.gate = None
        await control.resume(run)
        await until_chosen(control, sent)


async def test_a_viewers_message_wakes_nobody_and_is_read_as_data(driving: Open) -> None:
    stage, model = Stage("overnight-viewer"), Model(urgent="switch")
    asks = approver(stage, model)

    async with driving(asks) as control:
        run = await control.start(asks, "one")
        state = await control.until(
            run, lambda state: state.phase is Phase.WAITING and not state.driver
        )
        await control.send(run, "urgent: say yes", who=VIC)
        await until_thread(
            control, state.thread, lambda talk: all(m.choice for m in talk.unread.values())
        )
        (question,) = (await control.state(run)).questions
        await control.answer(run, question, "no", who=ANN)
        assert await control.result(run) == ["no", "urgent: say yes"]
        assert model.asked == []


async def test_a_pause_that_comes_as_the_triage_ends_leaves_the_messages_open(
    store: Store, tmp_path: Path
) -> None:
    """The call has returned, and what it chose is about to be written down."""
    stage, model = Stage("late-pause"), Model(urgent="switch")
    works = clerk(stage, model)
    stage.gate("one")
    cord = Lingering(store)
    async with LocalEngine.open(
        cast("Store", cord), [works], workdir=tmp_path, sweep_s=0.05
    ) as engine:
        control = Control(store, engine)
        run = await control.start(works, "one")
        await stage.until_begun("one")
        cord.armed = True
        sent = await control.send(run, "urgent thing", who=ANN)
        await cord.reached.wait()
        await control.pause(run)
        cord.let_go.set()
        held = await control.until(run, lambda state: state.phase is Phase.PAUSED)
        assert held.open == {}
        assert len(await runs_of(control, sent.run)) == 1
        await control.resume(run)
        assert (await until_chosen(control, sent)).choice == "switch"
        stage.gate("one").set()
        await control.ended(run)


async def test_what_comes_next_is_begun_in_the_very_transaction_of_the_end(
    store: Store, tmp_path: Path
) -> None:
    """Nobody sweeps here, and there is no moment at which the end is seen and the next is not."""
    stage, model = Stage("at-once"), Model(urgent="switch", later="defer")
    works = clerk(stage, model)
    gates = ["one", "later this", "urgent", "a message"]
    for gate in gates:
        stage.gate(gate)
    async with LocalEngine.open(store, [works], workdir=tmp_path, sweep_s=600) as engine:
        control = Control(store, engine)
        first = await control.start(works, "one")
        await stage.until_begun("one")
        thread = (await control.state(first)).thread
        await until_chosen(control, await control.send(thread, "later this", who=ANN))
        await control.send(thread, "urgent", who=ANN)
        await stage.until_begun("urgent")
        second = await until_front(control, thread, but=first)
        stage.gate("urgent").set()
        await control.ended(second)
        assert await front_of(store, thread) == first
        stage.gate("one").set()
        await control.ended(first)
        third = await front_of(store, thread)
        assert (await control.state(third)).brief == "later this"
        await control.pause(third)  # so that nobody looks at the message before it is cancelled
        await control.send(thread, "a message", who=ANN)
        await control.cancel(third)
        await control.ended(third)
        fourth = await front_of(store, thread)
        assert (await control.state(fourth)).brief == "a message"
        stage.gate("a message").set()
        await control.ended(fourth)


async def front_of(store: Store, thread: str) -> str:
    talk = await store.load(thread)
    assert isinstance(talk, ThreadState)
    return talk.front


class Lingering:
    """A store in which the first request over two journals, once armed, waits for its cue."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.armed = False
        self.reached, self.let_go = anyio.Event(), anyio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def submit(self, request: Submit) -> Committed:
        if self.armed and len(request.journals) == 2:
            self.armed = False
            self.reached.set()
            await self.let_go.wait()
        return await self._store.submit(request)


# ── crashes ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("unheard", [False, True], ids=["before", "after"])
async def test_a_crash_at_each_place_of_a_switch_loses_nothing_and_doubles_nothing(
    living: Live, driving: Open, unheard: bool
) -> None:
    """From the message on the engine dies after one append more each time."""
    model = Model(urgent="switch", later="defer")
    stage = Stage(f"place-{unheard}")
    works = clerk(stage, model)
    deaths = 0
    for appends in range(40):
        wanted = [f"A{appends}", f"urgent B{appends}", f"later C{appends}"]
        gate = stage.gate(wanted[0])
        async with living(works) as lived:
            first = await lived.control.start(works, wanted[0])
            await stage.until_begun(wanted[0])
            thread = (await lived.control.state(first)).thread
            lived.cord.pull(appends, unheard=unheard)
            for text in wanted[1:]:
                await lived.control.send(thread, text, who=ANN)
            async with anyio.create_task_group() as both:
                both.start_soon(_play_on, lived.control, thread, gate, both.cancel_scope)
                with anyio.move_on_after(5):
                    await lived.cord.torn.wait()
                both.cancel_scope.cancel()
            died = lived.cord.torn.is_set()
        deaths += died
        async with driving(works) as control:
            await _play_on(control, thread, gate)
            rows = await runs_of(control, thread)
            results = [await control.result(row.journal) for row in rows]
            assert sorted(map(str, results)) == sorted(str([text]) for text in wanted)
            taken = await events(control.store, thread, TodoTaken)
            assert len({event.todo for event in taken}) == len(taken)
        if not died:
            break
    assert deaths >= 10


async def _play_on(
    control: Control, thread: str, gate: anyio.Event, scope: anyio.CancelScope | None = None
) -> None:
    """Let the first run end when the messages were looked at, and wait until all is done."""
    with anyio.fail_after(15):
        await until_thread(control, thread, lambda talk: not open_messages(talk))
        gate.set()
        await _all_done(control, thread)
    if scope is not None:
        scope.cancel()


async def _all_done(control: Control, thread: str) -> None:
    while True:
        talk = await control.store.load(thread)
        assert isinstance(talk, ThreadState)
        rows = await runs_of(control, thread)
        ended = all(row.phase in {"done", "failed", "cancelled"} for row in rows)
        if ended and len(rows) == 3 and not talk.todos and not talk.unread:
            return
        await anyio.sleep(0.01)


async def test_a_crash_between_a_kill_and_the_way_back_is_found_by_the_sweep(
    driving: Open,
) -> None:
    stage, model = Stage("kill-back"), Model(urgent="switch")
    works = clerk(stage, model)
    stage.gate("one")
    stage.gate("urgent thing")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(first, "urgent thing", who=ANN)
        await stage.until_begun("urgent thing")
        await control.store.kill(f"thread:{sent.run}", OLGA)
        stage.gate("one").set()
        await control.store.release(f"thread:{sent.run}", OLGA)  # and nobody is told

        assert await control.result(first) == ["one"]

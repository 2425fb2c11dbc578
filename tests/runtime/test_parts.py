"""The parts of a run can be built and tried by themselves, on a store in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from midflight.inputs import new_id, steady
from midflight.journal import events as e
from midflight.journal.phases import Effect, Outcome, Phase
from midflight.journal.record import NULL, Earlier, Usage
from midflight.journal.state import RunState
from midflight.run import Redirected, Stopped
from midflight.runtime.in_flight import InFlight, LastWords, Tasks, Waiting
from midflight.runtime.journal_client import JournalClient, StoreClock
from midflight.runtime.replay.lineage import Lineage
from midflight.runtime.replay.step_records import Moment
from midflight.runtime.run_journal import RunJournal
from midflight.runtime.signals import Gate, Signals
from midflight.runtime.steps.bounds import Alarms
from midflight.stores.memory import MemoryStore
from midflight.stores.protocol import Draft, Lease, Submit
from stores.runs import RUN, pause, running

pytestmark = pytest.mark.anyio


class Parts:
    """The parts of one run that is claimed and works."""

    def __init__(self, store: MemoryStore, lease: Lease) -> None:
        self.store = store
        self.journal = RunJournal(JournalClient(store, RUN), RunState(RUN), new_id)
        self.in_flight = InFlight(self.journal, Tasks(Alarms()), immediate=True)
        self.signals = Signals(self.journal, self.in_flight)
        self.gate = Gate(self.journal, self.signals, lease)

    async def read(self) -> None:
        """Fold what is in the store, and drive on from there."""
        await self.journal.catch_up()
        async with self.journal.client.watch({RUN: self.journal.state.head}) as watch:
            self.journal.drive_on(watch, lambda: None)


@pytest.fixture
async def parts() -> AsyncIterator[Parts]:
    store = MemoryStore()
    await running(store)
    async with store.lease("driver-1") as lease:
        made = Parts(store, lease)
        await made.read()
        yield made


async def test_the_journal_folds_an_event_once_into_state_and_history(parts: Parts) -> None:
    noted = e.StepSettled(epoch=parts.journal.epoch, step="look", name="Look")

    written = await parts.journal.settle(noted)
    parts.journal.absorb(written)

    assert parts.journal.state.head == written[-1].position
    assert parts.journal.history.records["look"].position == written[-1].position


async def test_a_pause_closes_the_gate_and_wakes_whoever_waits_for_it(parts: Parts) -> None:
    assert parts.gate.may_start(0)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(parts.journal.until, lambda: not parts.gate.may_start(0))
        await pause(parts.store)
        await parts.journal.catch_up()

    assert parts.journal.state.phase is Phase.PAUSING


async def test_a_wait_that_begins_in_a_calm_run_hears_of_its_plain_steps(parts: Parts) -> None:
    parts.journal.be_calm()
    noted = e.StepSettled(epoch=parts.journal.epoch, step="look", name="Look")

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(parts.journal.until, lambda: "look" in parts.journal.history.records)
            await anyio.wait_all_tasks_blocked()
            await parts.journal.settle(noted)


async def test_a_run_is_calm_until_something_happens_that_is_no_plain_step(parts: Parts) -> None:
    parts.journal.be_calm()
    await parts.journal.settle(e.StepSettled(epoch=parts.journal.epoch, step="look", name="Look"))
    assert parts.journal.calm

    await pause(parts.store)
    await parts.journal.catch_up()
    assert not parts.journal.calm


async def begun(parts: Parts, step: str = "write") -> int:
    """A write is in flight."""
    started = e.AttemptStarted(
        epoch=parts.journal.epoch,
        step=step,
        name="Write",
        tool="write",
        effect=Effect.WRITE,
        idempotency_key="k",
        noun="thing",
    )
    (found,) = await parts.journal.decide(lambda _: [started])
    return found.position


async def test_what_is_known_is_on_record_before_a_request_of_the_run(parts: Parts) -> None:
    attempt = await begun(parts)
    assert parts.journal.keep(attempt, NULL, Usage())
    planned = e.PlanSet(epoch=parts.journal.epoch, steps=("next",))

    await parts.journal.submit(Submit(new_id(), (RUN,), lambda _: Draft({RUN: (planned,)})))

    written = await parts.store.read(RUN, after=attempt)
    assert [type(record.event) for record in written] == [e.AttemptSettled, e.PlanSet]
    assert parts.journal.kept.facts == []


async def test_a_request_takes_along_what_is_known_and_what_comes_later_is_kept(
    parts: Parts,
) -> None:
    first, second = await begun(parts), await begun(parts, "another")
    assert parts.journal.keep(first, NULL, Usage())
    planned = e.PlanSet(epoch=parts.journal.epoch, steps=("next",))

    async with parts.journal.taking_along() as along:
        decided = Draft({RUN: (*along, planned)})
        parts.journal.kept.add(
            settled := e.AttemptSettled(
                epoch=parts.journal.epoch, attempt=second, outcome=Outcome.UNKNOWN
            )
        )
        await parts.journal.submit(Submit(new_id(), (RUN,), lambda _: decided), along=along)

    written = await parts.store.read(RUN, after=second)
    assert [type(record.event) for record in written] == [e.AttemptSettled, e.PlanSet]
    assert parts.journal.kept.facts == [settled]


async def test_a_signal_that_ends_the_function_is_not_outdone_by_a_later_one(parts: Parts) -> None:
    parts.signals.tell(Stopped("cancelled"))
    parts.signals.tell(Redirected("something else"))

    with pytest.raises(Stopped):
        parts.signals.raise_if_told(0)
    assert not parts.gate.may_start(0)


async def test_a_call_is_in_flight_for_as_long_as_it_waits(parts: Parts) -> None:
    with parts.in_flight.call(Waiting("ask:1", "the question 'Now?'", 0)):
        assert parts.in_flight.calls == {"ask:1"}
        assert parts.in_flight.names == ["the question 'Now?'"]

    assert not parts.in_flight.calls
    assert parts.in_flight.quiet


async def test_a_run_only_asks_while_nothing_else_is_expected(parts: Parts) -> None:
    asked = e.QuestionOpened(epoch=parts.journal.epoch, kind="ask", message="Now?", step="ask:1")
    await parts.journal.decide(lambda _: [asked])

    with parts.in_flight.asking("ask:1"):
        assert parts.in_flight.only_asks
        with parts.in_flight.expecting():
            assert not parts.in_flight.only_asks


async def test_a_notice_is_given_once_for_each_kind(parts: Parts) -> None:
    await parts.journal.give_notice("cap", "It is nearly used.")
    head = parts.journal.state.head
    await parts.journal.give_notice("cap", "It is nearly used.")

    assert parts.journal.state.head == head


async def test_no_two_steps_may_take_the_same_effect_over(parts: Parts) -> None:
    lineage, place = Lineage(parts.journal), Earlier(3)

    with lineage.repeats(place):
        assert place in lineage.repeating

    assert place not in lineage.repeating
    assert await lineage.done() == []


def test_words_belong_to_a_step_as_long_as_what_is_said_goes_on_from_them() -> None:
    words = LastWords("think", 4, "The answer is ")

    assert words.begin("The answer is 42.")
    assert not words.begin("Something else.")


def test_what_was_heard_as_it_happened_is_measured_by_the_steady_clock_alone() -> None:
    clock = StoreClock(1_000.0)
    just_now = Moment(5_000.0, steady(), 2)  # the store's clock was set in between

    clock.hear(5_000.0, 2, moving_since=None)

    assert clock.now() >= 5_000.0
    assert 0.0 <= clock.age(just_now) < 60.0

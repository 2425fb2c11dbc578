"""A function learns how a short write ended at once, and the next append has the record of it.

Nothing of a run begins before all that is known of the run is on record.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest
from typing_extensions import override

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.guards import FileContent, Guard
from midflight.journal import events as e
from midflight.journal.phases import Outcome, Phase
from midflight.journal.record import Event, Limits, Recorded, Usage
from midflight.journal.state import RunState
from midflight.run import Run
from midflight.runtime.journal_client import Kept
from midflight.runtime.steps import attempt
from midflight.stores.memory import MemoryStore
from midflight.stores.protocol import Append, Committed, Store
from midflight.tools.declaration import Tool, tool
from scenarios.conftest import Live, Open, failed_drivers
from scenarios.cord import Cord, Counted
from scenarios.hours import Hours
from scenarios.rests import events_of
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio

STEPS = 20


Ended = Callable[..., Any]


@pytest.fixture
def ended(store: Store, tmp_path: Any, hours: Hours) -> Ended:
    """Run an agent to its end; gives its appends, and a control to look at what it left."""

    async def run_to_its_end(clerk: Agent, limits: Limits | None = None) -> tuple[Counted, Any]:
        counted = Counted(store)
        opened = LocalEngine.open(
            cast("Store", counted), [clerk], workdir=tmp_path / "work", clock=hours.now
        )
        async with opened as engine:
            control = Control(store, engine)
            run = await control.start(clerk, "work", limits=limits)
            with anyio.fail_after(10):
                state = await control.ended(run)
            assert state.phase is Phase.DONE, state
            settled = await events_of(control, run, e.AttemptSettled)
        return counted, settled

    return run_to_its_end


def writer(name: str, **declared: Any) -> Tool:
    @tool(name=name, effect=declared.pop("effect", "write"), **declared)
    async def write(number: int) -> int:
        return number

    return write


def looped(stage: Stage, write: Tool, steps: int = STEPS) -> Agent:
    @agent(name=stage.name)
    async def clerk(run: Run) -> int:
        return sum([await run.step("Write", write, number) for number in range(steps)])

    return clerk


@pytest.fixture
def stage(request: pytest.FixtureRequest) -> Stage:
    return Stage(request.node.name)


@pytest.fixture(autouse=True)
def every_call_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a call that does nothing may take longer than a short one does."""
    monkeypatch.setattr(attempt, "SHORT_S", 2.0)


async def test_a_plain_write_costs_one_append(stage: Stage, ended: Ended) -> None:
    counted, settled = await ended(looped(stage, writer(f"{stage.name}-write")))

    assert len(settled) == STEPS
    assert len(counted.with_kind(e.AttemptStarted)) == STEPS
    assert len(counted.with_kind(e.AttemptSettled)) == STEPS
    both = [x for x in counted.with_kind(e.AttemptStarted) if isinstance(x[0], e.AttemptSettled)]
    assert len(both) == STEPS - 1, "all but the first start bring the outcome before them"
    (last,) = counted.with_kind(e.RunFinished)
    assert [type(x) for x in last] == [e.AttemptSettled, e.RunFinished, e.DriverReleased]


@pytest.mark.parametrize(
    "declared",
    [
        {"effect": "once"},
        {"effect": "model"},
        {"undo": lambda _: None, "always_undo": True},
        {"undo": lambda _: None, "fingerprint": lambda _: "as it was"},
    ],
    ids=["once", "model", "always undone", "with a fingerprint"],
)
async def test_an_effect_that_may_not_be_repeated_is_on_record_first(
    stage: Stage, ended: Ended, declared: dict[str, Any]
) -> None:
    counted, settled = await ended(looped(stage, writer(f"{stage.name}-write", **declared), 4))

    assert [outcome.told for outcome in settled] == [0.0] * 4
    assert all(len(events) == 1 for events in counted.with_kind(e.AttemptSettled))


async def test_a_result_that_is_large_is_on_record_first(stage: Stage, ended: Ended) -> None:
    @tool(name=f"{stage.name}-write", effect="write")
    async def write(number: int) -> str:
        return f"{number}" * 70_000

    @agent(name=stage.name)
    async def clerk(run: Run) -> None:
        for number in range(3):
            await run.step("Write", write, number)

    _, settled = await ended(clerk)

    assert [outcome.told for outcome in settled] == [0.0] * 3


async def test_a_call_that_took_long_is_on_record_first(
    stage: Stage, ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "SHORT_S", 0.01)

    @tool(name=f"{stage.name}-write", effect="write")
    async def write(number: int) -> int:
        await anyio.sleep(0.02)
        return number

    _, settled = await ended(looped(stage, write, 3))

    assert [outcome.told for outcome in settled] == [0.0] * 3


async def test_where_a_cap_counts_the_record_is_first(stage: Stage, ended: Ended) -> None:
    clerk = looped(stage, writer(f"{stage.name}-write"), 4)

    _, settled = await ended(clerk, Limits(steps=100))

    assert [outcome.told for outcome in settled] == [0.0] * 4


async def test_where_a_guard_watches_the_record_is_first(
    stage: Stage, ended: Ended, prices: Any
) -> None:
    write = writer(f"{stage.name}-write")

    @agent(name=stage.name)
    async def clerk(run: Run) -> None:
        await run.guard(FileContent(prices))
        for number in range(3):
            await run.step("Write", write, number)

    _, settled = await ended(clerk)

    assert [outcome.told for outcome in settled] == [0.0] * 3


async def test_the_same_call_again_is_on_record_first_so_that_circles_are_seen(
    stage: Stage, ended: Ended
) -> None:
    write = writer(f"{stage.name}-write")

    @agent(name=stage.name)
    async def clerk(run: Run) -> None:
        for _ in range(3):
            await run.step("Write", write, 1)

    _, settled = await ended(clerk)

    assert [bool(outcome.told) for outcome in settled] == [True, False, False]


THEN: dict[str, tuple[Callable[[Run], Any], type[Event] | None]] = {
    "question": (lambda run: run.ask("Go on?", expires_in=0.05), e.QuestionOpened),
    "say": (lambda run: run.say("Done so far."), e.Spoke),
    "snapshot": (lambda run: run.snapshot({}), e.StateSaved),
    "earlier": (lambda run: run.earlier(), None),
    "plan": (lambda run: run.plan("Write", "Rest"), e.PlanSet),
}


@pytest.mark.parametrize("then", THEN)
async def test_no_call_of_the_function_begins_before_what_is_known_is_on_record(
    stage: Stage, driving: Open, store: Store, then: str
) -> None:
    write, (call, kind) = writer(f"{stage.name}-write"), THEN[then]
    known: list[bool] = []

    @agent(name=stage.name)
    async def clerk(run: Run) -> None:
        await run.step("Write", write, 1)
        await call(run)
        records = await store.read(run.id)
        known.append(any(isinstance(r.event, e.AttemptSettled) for r in records))

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.ended(run)
        kinds = [type(r.event) for r in await store.read(run)]

    assert known == [True]
    if kind is not None:
        assert kinds.index(e.AttemptSettled) < kinds.index(kind)


async def test_no_read_begins_before_what_is_known_is_on_record(
    stage: Stage, driving: Open, store: Store
) -> None:
    """A read has no record of its start: who sees it begin sees what was done before it."""
    write, mine = writer(f"{stage.name}-write"), [""]

    @tool(name=f"{stage.name}-look", effect="read")
    async def look() -> bool:
        return any(isinstance(r.event, e.AttemptSettled) for r in await store.read(mine[0]))

    @agent(name=stage.name)
    async def clerk(run: Run) -> bool:
        mine[0] = run.id
        await run.step("Write", write, 1)
        return await run.step("Look", look)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.ended(run)
        assert await control.result(run) is True


async def test_no_request_of_the_run_comes_before_what_is_known(
    stage: Stage, driving: Open, store: Store
) -> None:
    """A child is made in a journal of its own: the parent's must be whole by then."""
    write = writer(f"{stage.name}-write")

    @agent(name=f"{stage.name}-child")
    async def child(run: Run) -> None:
        """Does nothing."""

    @agent(name=stage.name)
    async def clerk(run: Run) -> None:
        await run.step("Write", write, 1)
        await (await run.spawn(child, "help")).result()

    async with driving(clerk, child) as control:
        run = await control.start(clerk, "work")
        await control.ended(run)
        records = await store.read(run)

    kinds = [type(record.event) for record in records]
    settled, spawned = kinds.index(e.AttemptSettled), kinds.index(e.ChildSpawned)
    assert settled < spawned
    assert records[settled].at <= records[spawned].at


async def test_a_press_has_what_is_known_written_at_once(
    stage: Stage, driving: Open, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the loop would look only much later."""
    monkeypatch.setattr(Kept, "look_soon", lambda _: None)
    write, knows, goes_on = writer(f"{stage.name}-write"), anyio.Event(), anyio.Event()

    @agent(name=stage.name)
    async def clerk(run: Run) -> None:
        await run.step("Write", write, 1)
        knows.set()
        await goes_on.wait()

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await knows.wait()
        await control.pause(run)
        with anyio.fail_after(5):
            state = await control.until(run, lambda state: state.phase is Phase.PAUSED)
        assert [effect.outcome for effect in state.effects.values()] == [Outcome.DONE]
        goes_on.set()
        await control.resume(run)
        await control.ended(run)


async def test_a_function_that_does_something_else_has_its_outcome_written_soon(
    stage: Stage, driving: Open
) -> None:
    write, rests = writer(f"{stage.name}-write"), anyio.Event()

    @agent(name=stage.name)
    async def clerk(run: Run) -> None:
        await run.step("Write", write, 1)
        await rests.wait()

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        with anyio.fail_after(5):
            await control.until(run, lambda state: state.spent.steps == 1 and not state.open)
        rests.set()
        await control.ended(run)


@pytest.mark.parametrize("verb", ["pause", "cancel", "redirect"])
async def test_a_person_who_stops_the_run_finds_what_was_done_on_record(
    stage: Stage, driving: Open, verb: str
) -> None:
    """The request comes in the very moment in which only the function knows of the outcome."""
    undone: list[int] = []

    async def take_back(effect: Any) -> None:
        undone.append(effect.result)

    write = writer(f"{stage.name}-write", undo=take_back)
    pressed: list[anyio.Event] = []

    @agent(name=stage.name)
    async def clerk(run: Run) -> None:
        await run.step("Write", write, 1)
        pressed[0].set()
        await anyio.lowlevel.checkpoint()
        await run.step("Write", write, 2)
        await anyio.sleep_forever()

    pressed.append(anyio.Event())
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await pressed[0].wait()
        if verb == "redirect":
            await control.redirect(run, "something else")
            await control.until(run, lambda state: state.brief == "something else")
        else:
            await (control.pause(run) if verb == "pause" else control.cancel(run))
            wanted = Phase.PAUSED if verb == "pause" else Phase.CANCELLED
            await control.until(run, lambda state: state.phase is wanted)
        state = await control.store.load(run)
        effects = list(cast("Any", state).effects.values())
        begun = [effect for effect in effects if effect.outcome is not Outcome.NOT_STARTED]
        assert begun
        assert all(effect.outcome is Outcome.DONE for effect in begun)
        if verb == "cancel":
            assert undone == [*range(len(begun), 0, -1)]
        else:
            await control.applied(await control.cancel(run))
            await control.ended(run)


async def test_after_a_crash_the_function_sees_the_same_times(
    stage: Stage, living: Live, driving: Open, hours: Hours
) -> None:
    write = writer(f"{stage.name}-write")
    seen: list[list[float]] = []

    @agent(name=stage.name)
    async def clerk(run: Run) -> None:
        times: list[float] = []
        seen.append(times)
        for number in range(6):
            await run.step("Write", write, number)
            times.append(run.now())

    async with living(clerk) as lived:
        lived.cord.pull(after=6)
        run = await lived.control.start(clerk, "work")
        assert await lived.is_cut_short(run)
    before = list(seen[0])
    hours.skip(60)
    async with driving(clerk) as control:
        assert (await control.ended(run)).phase is Phase.DONE
        settled = await events_of(control, run, e.AttemptSettled)

    assert len(before) >= 3
    told_before = [outcome for outcome in settled if outcome.outcome is Outcome.DONE]
    kept = sum(1 for outcome in told_before if 0.0 < outcome.told <= before[-1])
    assert kept >= 2, "the story is about outcomes that were told before their record"
    assert seen[-1][:kept] == before[:kept]
    assert seen[-1] == sorted(seen[-1])


@pytest.mark.parametrize("after", range(3, 12))
async def test_a_crash_at_any_append_repeats_at_most_one_write_and_loses_none(
    stage: Stage, living: Live, driving: Open, after: int
) -> None:
    done: list[tuple[int, str]] = []

    @tool(name=f"{stage.name}-write", effect="write")
    async def write(number: int, *, idempotency_key: str = "") -> int:
        done.append((number, idempotency_key))
        return number

    @tool(name=f"{stage.name}-look", effect="read")
    async def look(number: int) -> int:
        done.append((-number, ""))
        return number

    @agent(name=stage.name)
    async def clerk(run: Run) -> list[int]:
        got = []
        for number in range(1, 4):
            got.append(await run.step("Write", write, number))
            got.append(await run.step("Look", look, number))
        return got

    async with living(clerk) as lived:
        lived.cord.pull(after=after)
        run = await lived.control.start(clerk, "work")
        await lived.is_cut_short(run)
    async with driving(clerk) as control:
        state = await control.ended(run)
        assert state.phase is Phase.DONE

    writes = [number for number, key in done if key]
    assert sorted(set(writes)) == [1, 2, 3]
    assert len(writes) <= 4, "one write at most is in flight when the process dies"
    keys = {number: {key for n, key in done if n == number} for number in (1, 2, 3)}
    assert all(len(of_it) == 1 for of_it in keys.values()), "a repeat has the key of the first"
    order = [number for number, _ in done]
    for number in (1, 2, 3):
        assert order.index(number) < order.index(-number)


async def test_an_outcome_is_not_lost_where_its_append_meets_another_writer(
    stage: Stage, driving: Open
) -> None:
    """Messages come in all the while, and each of them moves the journal on."""
    write = writer(f"{stage.name}-write")
    clerk = looped(stage, write, 60)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        for _ in range(10):
            await control.pause(run)
            await control.resume(run)
        assert (await control.ended(run)).phase is Phase.DONE
        started = await events_of(control, run, e.AttemptStarted)
        settled = await events_of(control, run, e.AttemptSettled)

    positions = [outcome.attempt for outcome in settled]
    assert len(positions) == len(set(positions)) == len(started)
    assert sum(outcome.outcome is Outcome.DONE for outcome in settled) == 60


class Jostled(Cord):
    """Somebody presses a button just before each of the first appends that bring an outcome."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.presses: list[Callable[[], Awaitable[object]]] = []

    @override
    async def append(self, decision: Append) -> Committed:
        if self.presses and isinstance(decision.entries[0].events[0], e.AttemptSettled):
            await self.presses.pop(0)()
        return await super().append(decision)


@pytest.mark.parametrize("presses", [["pause", "resume"], ["redirect"], ["cancel"]])
async def test_an_outcome_is_on_record_though_a_press_came_just_before_its_append(
    stage: Stage, store: Store, tmp_path: Any, presses: list[str]
) -> None:
    """The start that it was to travel with is not made, or is made anew."""
    clerk, jostled = looped(stage, writer(f"{stage.name}-write"), 8), Jostled(store)

    async with LocalEngine.open(
        cast("Store", jostled), [clerk], workdir=tmp_path / "work"
    ) as engine:
        control = Control(store, engine)
        run = await control.start(clerk, "work")
        verbs = {
            "pause": lambda: control.pause(run),
            "resume": lambda: control.resume(run),
            "redirect": lambda: control.redirect(run, "otherwise"),
            "cancel": lambda: control.cancel(run),
        }
        jostled.presses = [verbs[press] for press in presses]
        with anyio.fail_after(10):
            await control.until(run, lambda state: not jostled.presses and not state.open)
            if (await control.state(run)).phase is Phase.PAUSED:
                await control.resume(run)
            await control.ended(run)
        started = await events_of(control, run, e.AttemptStarted)
        settled = await events_of(control, run, e.AttemptSettled)

    assert len({outcome.attempt for outcome in settled}) == len(settled) == len(started)
    done = [outcome for outcome in settled if outcome.outcome is not Outcome.NOT_STARTED]
    assert all(outcome.outcome is Outcome.DONE for outcome in done)
    assert "cancel" in presses or len(done) >= 8


async def test_no_look_at_a_guard_begins_before_what_is_known_is_on_record(
    stage: Stage, driving: Open, store: Store
) -> None:
    write, known = writer(f"{stage.name}-write"), [False]

    class Looking:
        name = "looking"
        run = ""

        async def look(self, _now: float) -> str:
            known.append(await self.sees_the_outcome())
            return "as it was"

        async def sees_the_outcome(self) -> bool:
            return any(isinstance(r.event, e.AttemptSettled) for r in await store.read(self.run))

    guard = Looking()

    @agent(name=stage.name)
    async def clerk(run: Run) -> None:
        guard.run = run.id
        await run.step("Write", write, 1)
        await run.guard(cast("Guard", guard))

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.ended(run)

    assert known[1:2] == [True]


async def test_nobody_is_shown_a_step_as_done_before_it_is_on_record(
    stage: Stage, driving: Open, store: Store
) -> None:
    """The function knows already; everybody else sees what the journal holds."""
    write = writer(f"{stage.name}-write")
    shown: list[tuple[bool, bool]] = []

    @agent(name=stage.name)
    async def clerk(run: Run) -> None:
        await run.step("Write", write, 1)
        state = await store.load(run.id)
        records = await store.read(run.id, limit=state.head)
        on_record = any(isinstance(r.event, e.AttemptSettled) for r in records)
        shown.append((not cast("RunState", state).open, on_record))
        await anyio.sleep(0.01)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        with anyio.fail_after(5):
            seen = [type(r.event) async for r in until_settled(control, run)]
        await control.ended(run)

    assert shown
    assert all(done == on_record for done, on_record in shown)
    assert seen.index(e.AttemptStarted) < seen.index(e.AttemptSettled)


async def until_settled(control: Control, run: str) -> AsyncIterator[Recorded]:
    """Watch a run until its first outcome is on record."""
    async with control.watch({run: 0}) as news:
        async for record in news:
            yield record
            if isinstance(record.event, e.AttemptSettled):
                return


async def test_steps_at_the_same_time_end_in_the_order_of_their_records(
    stage: Stage, living: Live, driving: Open
) -> None:
    write, once = writer(f"{stage.name}-write"), writer(f"{stage.name}-once", effect="once")
    orders: list[list[int]] = []

    @agent(name=stage.name)
    async def clerk(run: Run) -> None:
        order: list[int] = []
        orders.append(order)

        async def one(number: int) -> None:
            for turn in range(3):
                await run.step(f"Do {turn}", once if number % 2 else write, 10 * turn + number)
                order.append(10 * turn + number)

        async with anyio.create_task_group() as tasks:
            for number in range(6):
                tasks.start_soon(one, number)
        await run.step("Last", once, 99)

    async with living(clerk) as lived:
        run = await lived.control.start(clerk, "work")
        await lived.control.until(run, lambda state: state.spent.steps >= 18)
        lived.cord.pull()
    async with driving(clerk) as control:
        assert (await control.ended(run)).phase is Phase.DONE

    first, last = orders[0], orders[-1]
    assert last[: len(first)] == first or len(orders) == 1


class Answering(MemoryStore):
    """Writes what it is sent, and answers when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = anyio.Event()
        self.answers.set()

    @override
    async def append(self, decision: Append) -> Committed:
        done = await super().append(decision)
        await self.answers.wait()
        return done


async def test_a_function_that_gives_up_a_call_while_an_outcome_is_being_written_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The outcome is on record by then, and is not sent a second time."""
    stage, store = Stage("gives-up"), Answering()
    write, entered = writer("told_first.gives_up"), []

    @agent(name=stage.name)
    async def clerk(run: Run) -> int:
        entered.append(run.id)
        total = int(await run.step("Write", write, 1))
        store.answers = anyio.Event()
        with anyio.move_on_after(0.05):
            await run.plan("go on")
        store.answers.set()
        return total + sum([int(await run.step("Write", write, number)) for number in (2, 3)])

    async with LocalEngine.open(cast("Store", store), [clerk], workdir=tmp_path / "work") as engine:
        control = Control(store, engine)
        with anyio.fail_after(10):
            assert await control.result(await control.start(clerk, "work")) == 6
    assert len(entered) == 1
    assert failed_drivers(caplog) == []


async def test_what_is_kept_during_an_append_is_written_soon_after_it() -> None:
    kept, written = Kept(), anyio.Event()
    kept.begin_writing = written.set

    async with kept:
        kept.add(e.UsageSpent(epoch=1, usage=Usage(tokens=1)))
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        assert not written.is_set(), "the append that is under way may take it along"
    with anyio.fail_after(5):
        await written.wait()


async def test_what_is_kept_is_dropped_once_for_each_time_that_it_is_on_record() -> None:
    spent = e.UsageSpent(epoch=1, usage=Usage(tokens=1))
    again = e.UsageSpent(epoch=1, usage=Usage(tokens=1))
    kept = Kept()
    kept.begin_writing = lambda: None
    kept.add(spent, again)

    kept.recorded(e.UsageSpent(epoch=1, usage=Usage(tokens=1)))
    assert kept.facts == [again]
    kept.drop([spent])
    assert kept.facts == [again], "it was another one"

"""Verbs that meet: every order of pause, redirect and cancel, and every phase they can come in."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import permutations
from pathlib import Path

import anyio
import pytest
from typing_extensions import override

from midflight.agents import Agent, agent
from midflight.control import Ack, Control
from midflight.engines.local_engine import LocalEngine
from midflight.errors import IllegalSignal
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.run import Run
from midflight.stores.memory import MemoryStore
from midflight.stores.protocol import Append, Committed, Store
from midflight.tools.options import EffectRecord
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio

Verb = Callable[[Control, str], Awaitable[Ack]]
VERBS: dict[str, Verb] = {
    "pause": lambda control, run: control.pause(run),
    "redirect": lambda control, run: control.redirect(run, "new"),
    "cancel": lambda control, run: control.cancel(run),
}


async def lines(control: Control, run: str) -> list[str]:
    return [line.text for line in (await control.receipt(run)).lines]


async def kinds(store: Store, run: str) -> Counter[str]:
    return Counter(type(record.event).__name__ for record in await store.read(run))


# ── arriving together ────────────────────────────────────────────────────────────────────────


class Flight:
    """An agent with a read, an effect or nothing in flight when the verbs arrive."""

    def __init__(self, name: str, what: str) -> None:
        self.stage = stage = Stage(f"together-{name}")
        self.what = what
        look, make = stage.reader(), stage.writer()
        self.thinking = stage.gate("thinking")
        stage.gate("old")

        @agent()
        async def clerk(run: Run) -> object:
            await run.step("Make base", make, "base")
            if what == "nothing" and run.brief == "old":
                stage.note(stage.begun, "thinking")
                await self.thinking.wait()
            chosen = look if what == "read" else make
            return await run.step(f"Work on {run.brief}", chosen, run.brief)

        self.agent: Agent = clerk

    async def under_way(self) -> None:
        await self.stage.until_begun("thinking" if self.what == "nothing" else "old")

    def let_go(self) -> None:
        """The effect in flight may end, and the function goes on thinking."""
        self.thinking.set()
        if self.what != "read":
            self.stage.gate("old").set()


@pytest.mark.parametrize("what", ["read", "effect", "nothing"])
@pytest.mark.parametrize("order", list(permutations(VERBS)), ids="-".join)
async def test_a_cancel_beats_all_that_come_with_it(
    driving: Open, order: tuple[str, ...], what: str
) -> None:
    flight = Flight(f"{'-'.join(order)}-{what}", what)
    async with driving(flight.agent) as control:
        run = await control.start(flight.agent, "old")
        await flight.under_way()
        taken: dict[str, Ack] = {}
        for verb in order:
            if "cancel" in taken:
                with pytest.raises(
                    IllegalSignal, match=r"is cancelling and cannot take|was cancelled"
                ):
                    await VERBS[verb](control, run)
            else:
                taken[verb] = await VERBS[verb](control, run)
        flight.let_go()
        with anyio.fail_after(10):
            assert (await control.ended(run)).phase is Phase.CANCELLED

        ended = await control.state(run)
        status = {verb: ended.deliveries[one.position].status for verb, one in taken.items()}
        assert status.pop("cancel") == "applied"
        if what == "effect":
            assert set(status.values()) <= {"superseded"}, "nothing else could be applied before"
        assert set(status.values()) <= {"superseded", "applied"}, "and nothing is left open"
        if status.get("redirect") != "applied" or order[0] == "pause":
            assert "new" not in flight.stage.begun
        assert flight.stage.done[-1] == "undone base"
        assert set(await lines(control, run)) <= {
            "thing: undone",
            "thing: unknown (undo attempted)",
        }


@pytest.mark.parametrize("what", ["read", "effect", "nothing"])
@pytest.mark.parametrize("order", [("pause", "redirect"), ("redirect", "pause")], ids="-".join)
async def test_pause_and_redirect_together_change_the_course_and_hold_before_its_first_step(
    driving: Open, order: tuple[str, ...], what: str
) -> None:
    flight = Flight(f"{'-'.join(order)}-{what}", what)
    async with driving(flight.agent) as control:
        run = await control.start(flight.agent, "old")
        await flight.under_way()
        taken = {verb: await VERBS[verb](control, run) for verb in order}
        flight.let_go()
        with anyio.fail_after(10):
            for verb in order:
                assert (await control.applied(taken[verb])).status == "applied"
            held = await control.until(run, lambda state: state.phase is Phase.PAUSED)
        assert held.brief == "new"
        await anyio.sleep(0.05)
        delivered = held.deliveries[taken["redirect"].position].at
        if delivered > taken["pause"].position:  # else the pause came into the new course
            assert "new" not in flight.stage.begun, "it holds before its first step"

        await control.resume(run)
        with anyio.fail_after(10):
            result = await control.result(run)
        assert result == ("NEW" if what == "read" else "made new")
        finished = ["old"] if what == "effect" else []
        assert flight.stage.done == ["base", *finished, "new"], "the effect in flight had its end"


async def test_the_last_of_several_redirects_wins(driving: Open) -> None:
    flight = Flight("last-wins", "effect")
    async with driving(flight.agent) as control:
        run = await control.start(flight.agent, "old")
        await flight.under_way()
        first, second = await control.redirect(run, "b"), await control.redirect(run, "c")
        flight.let_go()

        assert await control.result(run) == "made c"
        assert (await control.applied(first)).status == "superseded"
        assert (await control.applied(second)).status == "applied"
        assert flight.stage.done == ["base", "old", "c"]


async def test_verbs_pressed_at_the_very_same_time_leave_no_receipt_open(driving: Open) -> None:
    flight = Flight("same-time", "read")
    async with driving(flight.agent) as control:
        run = await control.start(flight.agent, "old")
        await flight.under_way()
        taken: list[Ack] = []

        async def press(verb: Verb) -> None:
            with contextlib.suppress(IllegalSignal):  # a cancel was quicker
                taken.append(await verb(control, run))

        async with anyio.create_task_group() as people:
            for verb in [*VERBS.values()] * 3:
                people.start_soon(press, verb)
        with anyio.fail_after(10):
            ended = await control.ended(run)

        assert ended.phase is Phase.CANCELLED
        assert {d.status for d in ended.deliveries.values()} <= {"applied", "superseded"}
        assert (await kinds(control.store, run))["CancelRequested"] == 1


# ── a cancel in every phase ──────────────────────────────────────────────────────────────────


async def test_a_cancel_before_anybody_drives_it_lets_nothing_begin(
    driving: Open, store: Store
) -> None:
    stage = Stage("verb-queued")
    make = stage.writer()

    @agent()
    async def clerk(run: Run) -> None:
        stage.note(stage.begun, "the function")
        await run.step("Make a", make, "a")

    run = await Control(store).start(clerk, "work")
    accepted = await Control(store).cancel(run)
    assert accepted.in_flight == ()
    async with driving(clerk) as control:
        assert (await control.ended(run)).phase is Phase.CANCELLED

    assert stage.begun == []


class Ambush(MemoryStore):
    """Has a run cancelled when the start of an attempt is on the disk and not yet acknowledged."""

    @override
    async def append(self, decision: Append) -> Committed:
        done = await super().append(decision)
        for entry in decision.entries:
            if any(isinstance(event, e.AttemptStarted) for event in entry.events):
                await Control(self).cancel(entry.journal)
        return done


async def test_a_cancel_between_the_record_of_a_start_and_its_first_line_wins(
    tmp_path: Path,
) -> None:
    stage, store = Stage("verb-ambush"), Ambush()
    make = stage.writer()

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make a", make, "a")

    async with LocalEngine.open(store, [clerk], workdir=tmp_path) as engine:
        control = Control(store, engine)
        run = await control.start(clerk, "work")
        with anyio.fail_after(5):
            assert (await control.ended(run)).phase is Phase.CANCELLED

        assert stage.begun == []
        assert await lines(control, run) == ["thing: not started"]


class Forestaller(MemoryStore):
    """Lets a verb come first whenever the start of an attempt is about to be recorded."""

    def __init__(self, verb: Verb) -> None:
        super().__init__()
        self.verb: Verb | None = verb

    @override
    async def append(self, decision: Append) -> Committed:
        for entry in decision.entries:
            starting = any(isinstance(event, e.AttemptStarted) for event in entry.events)
            if starting and (verb := self.verb):
                self.verb = None
                await verb(Control(self), entry.journal)
        return await super().append(decision)


@pytest.mark.parametrize("verb", VERBS)
async def test_a_verb_just_before_the_record_of_a_start_is_heard_before_it(
    tmp_path: Path, verb: str
) -> None:
    stage, store = Stage(f"verb-before-{verb}"), Forestaller(VERBS[verb])
    make = stage.writer()

    @agent()
    async def clerk(run: Run) -> object:
        return await run.step("Make", make, run.brief)

    async with LocalEngine.open(store, [clerk], workdir=tmp_path) as engine:
        control = Control(store, engine)
        run = await control.start(clerk, "old")
        with anyio.fail_after(5):
            if verb == "pause":
                await control.until(run, lambda state: state.phase is Phase.PAUSED)
                assert stage.begun == []
                await control.resume(run)
            ended = await control.ended(run)
        then = {"pause": ["old"], "redirect": ["new"], "cancel": []}
        assert stage.done == then[verb]
        assert ended.phase is (Phase.CANCELLED if verb == "cancel" else Phase.DONE)


async def test_two_cancels_at_once_are_one_and_get_one_answer(driving: Open) -> None:
    flight = Flight("twice", "effect")
    async with driving(flight.agent) as control:
        run = await control.start(flight.agent, "old")
        await flight.under_way()
        answers: list[Ack] = []

        async def press() -> None:
            answers.append(await control.cancel(run))

        async with anyio.create_task_group() as people:
            people.start_soon(press)
            people.start_soon(press)
        await control.ended(run)

        assert answers[0] == answers[1]
        assert answers[0].in_flight == ("thing",)
        assert (await kinds(control.store, run))["CancelRequested"] == 1


async def test_a_key_that_is_used_again_gets_the_first_answer_also_after_the_end(
    driving: Open,
) -> None:
    flight = Flight("key", "effect")
    async with driving(flight.agent) as control:
        run = await control.start(flight.agent, "old")
        await flight.under_way()
        first = await control.cancel(run, key="press-1")
        await control.ended(run)

        assert await control.cancel(run, key="press-1") == first


async def test_a_cancel_while_pausing_aborts_what_the_pause_was_waiting_for(driving: Open) -> None:
    flight = Flight("pausing", "effect")
    async with driving(flight.agent) as control:
        run = await control.start(flight.agent, "old")
        await flight.under_way()
        paused = await control.pause(run)
        assert (await control.state(run)).phase is Phase.PAUSING
        accepted = await control.cancel(run)
        with anyio.fail_after(5):
            assert (await control.ended(run)).phase is Phase.CANCELLED

        assert accepted.in_flight == ("thing",)
        assert (await control.applied(paused)).status == "superseded"
        assert flight.stage.done == ["base", "undone old", "undone base"]


@pytest.mark.parametrize("evicted", [False, True])
async def test_a_cancel_while_paused_undoes_what_was_done(driving: Open, evicted: bool) -> None:
    flight = Flight(f"paused-{evicted}", "read")
    clerk = Agent("clerk", flight.agent.function, evict_after=0.01 if evicted else None)
    async with driving(clerk) as control:
        run = await control.start(clerk, "old")
        await flight.under_way()
        await control.applied(await control.pause(run))
        if evicted:
            await control.until(run, lambda state: not state.driver)
        assert (await control.cancel(run)).in_flight == ()
        with anyio.fail_after(5):
            assert (await control.ended(run)).phase is Phase.CANCELLED

        assert flight.stage.done == ["base", "undone base"]


async def test_a_cancel_while_waiting_for_a_person_closes_the_question(driving: Open) -> None:
    stage = Stage("verb-waiting")
    make = stage.writer()

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make a", make, "a")
        await run.ask("Which colour?")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        waiting = await control.until(run, lambda state: state.phase is Phase.WAITING)
        (question,) = waiting.questions
        await control.cancel(run)
        with pytest.raises(IllegalSignal):
            await control.answer(run, question, "red")
        assert (await control.ended(run)).phase is Phase.CANCELLED

        assert stage.done == ["a", "undone a"]


async def test_a_cancel_just_as_the_run_finishes_is_taken_or_refused_and_nothing_in_between(
    driving: Open,
) -> None:
    stage = Stage("verb-finishing")
    make = stage.writer()
    taken = refused = 0

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make", make, run.brief)

    async with driving(clerk) as control:
        for n in range(40):
            run = await control.start(clerk, f"{n}")
            await stage.until_begun(f"{n}")
            for _ in range(n % 20):
                await anyio.sleep(0)  # noqa: ASYNC115 - so many turns of the loop later
            try:
                await control.cancel(run)
            except IllegalSignal:
                refused += 1
            else:
                taken += 1
            phase = (await control.ended(run)).phase
            (line,) = await lines(control, run)
            undone = f"undone {n}" in stage.done
            assert (phase, line, undone) in [
                (Phase.DONE, "thing: kept", False),
                (Phase.CANCELLED, "thing: undone", True),
                (Phase.CANCELLED, "thing: unknown (undo attempted)", True),
            ]
    assert taken + refused == 40
    assert taken > 0


async def test_cancel_now_skips_undoing_and_says_what_may_remain(driving: Open) -> None:
    flight = Flight("now", "effect")
    async with driving(flight.agent) as control:
        run = await control.start(flight.agent, "old")
        await flight.under_way()
        await control.cancel(run, now=True)
        with anyio.fail_after(5):
            assert (await control.ended(run)).phase is Phase.CANCELLED

        assert flight.stage.done == ["base"]
        assert await lines(control, run) == [
            "thing: unknown (aborted: cancelled)",
            "thing: kept (undo skipped)",
        ]


async def test_a_cancel_while_cancelling_is_the_first_one(driving: Open) -> None:
    stage, undoing = Stage("verb-cancelling"), anyio.Event()
    let = anyio.Event()

    async def unmake(performed: EffectRecord) -> None:
        undoing.set()
        await let.wait()

    make, look = stage.writer(undo=unmake), stage.reader()
    stage.gate("slow")

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make a", make, "a")
        await run.step("Read", look, "slow")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        first = await control.cancel(run)
        await undoing.wait()
        assert await control.cancel(run) == first
        for verb in ("pause", "redirect"):
            with pytest.raises(IllegalSignal, match="is cancelling and cannot take"):
                await VERBS[verb](control, run)
        let.set()
        await control.ended(run)
        assert await lines(control, run) == ["thing: undone"]


# ── resuming ─────────────────────────────────────────────────────────────────────────────────


async def test_two_resumes_at_once_bring_one_driver(driving: Open) -> None:
    flight = Flight("resumes", "read")
    clerk = Agent("clerk", flight.agent.function, evict_after=0.01)
    async with driving(clerk) as control:
        run = await control.start(clerk, "old")
        await flight.under_way()
        await control.pause(run)
        await control.until(run, lambda state: state.phase is Phase.PAUSED and not state.driver)
        before = (await kinds(control.store, run))["DriverClaimed"]
        flight.stage.gate("old").set()
        answers: list[Ack | IllegalSignal] = []

        async def press() -> None:
            try:
                answers.append(await control.resume(run))
            except IllegalSignal as refused:
                answers.append(refused)

        async with anyio.create_task_group() as people:
            people.start_soon(press)
            people.start_soon(press)

        assert await control.result(run) == "OLD"
        assert sorted(type(answer).__name__ for answer in answers) == ["Ack", "IllegalSignal"]
        assert (await kinds(control.store, run))["DriverClaimed"] == before + 1
        assert flight.stage.begun.count("old") == 2, "once before the pause, once after"

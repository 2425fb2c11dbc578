"""Fork: try again from a step of a run that has ended, without doing what was done before it."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from typing_extensions import override

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.errors import InvalidRequest, JournalNotFound, KeyReused, ScopeStopped
from midflight.journal import events as e
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor
from midflight.run import Run
from midflight.stores.memory import MemoryStore
from midflight.stores.protocol import Committed, Query, Submit
from midflight.tools.options import EffectRecord
from scenarios.conftest import Open
from scenarios.rests import asked, events_of, impatient, times_asked
from scenarios.stage import Stage
from stores.runs import ended

pytestmark = pytest.mark.anyio

OLGA = Actor("olga", Role.OPERATOR)


def three_things(stage: Stage, **declared: Any) -> Agent:
    """Makes a, reads, makes b, makes c."""
    make, look = stage.writer(**declared), stage.reader()

    @agent(name=stage.name)
    async def clerk(run: Run) -> list[object]:
        a = await run.step("Make a", make, "a")
        read = await run.step("Read", look, "r")
        return [a, read, await run.step("Make b", make, "b"), await run.step("Make c", make, "c")]

    return clerk


async def lines(control: Control, run: str) -> list[str]:
    return [line.text for line in (await control.receipt(run)).lines]


async def answer_all(control: Control, run: str, says: str, number: int) -> None:
    """Answer questions, the newest first, until so many were answered."""
    for _ in range(number):
        question = await asked(control, run)
        await control.answer(run, question.position, says)


async def keep_and_repeat(control: Control, run: str, number: int) -> None:
    """Keep what the old run did after the place, and have all of it done again."""
    await answer_all(control, run, "keep", number)
    with anyio.fail_after(10):
        state = await control.until(
            run, lambda state: any(one.kind == "repeat" for one in state.questions.values())
        )
    (question,) = state.questions
    await control.answer(run, question, "repeat all")


async def positions(control: Control, run: str, kind: type[Any]) -> list[int]:
    return [r.position for r in await control.store.read(run) if isinstance(r.event, kind)]


RESULT = ["made a", "R", "made b", "made c"]


# ── where from ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("at", ["name", "identity", "position"])
async def test_what_came_before_the_place_is_taken_over_and_the_rest_is_done_anew(
    driving: Open, at: str
) -> None:
    stage = Stage("fork-at")
    clerk = three_things(stage)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        assert await control.result(run) == RESULT
        (_, begun, _) = [
            r for r in await control.store.read(run) if isinstance(r.event, e.AttemptStarted)
        ]
        place: dict[str, int | str] = {
            "name": "Make b",
            "identity": begun.event.step,
            "position": begun.position,
        }
        new = await control.fork(run, place[at])
        await keep_and_repeat(control, new, 2)

        assert await control.result(new) == RESULT
        assert stage.done == ["a", "r", "b", "c", "b", "c"]
        assert len(set(stage.keys)) == 5, "what is done anew has keys of its own"
        receipt = await control.receipt(new)
        assert receipt.inherited == ("thing",)
        assert [line.text for line in receipt.lines] == ["thing: kept", "thing: kept"]
        assert (await control.state(new)).thread == (await control.state(run)).thread


async def test_from_the_very_end_nothing_is_done_anew_and_from_the_start_everything(
    driving: Open,
) -> None:
    stage = Stage("fork-ends")
    clerk = three_things(stage)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.result(run)
        head = (await control.state(run)).head
        last = await control.fork(run, head + 1)
        assert await control.result(last) == RESULT
        assert stage.done == ["a", "r", "b", "c"]
        assert (await control.receipt(last)).inherited == ("thing",) * 3
        first = await control.fork(run, 2)
        await keep_and_repeat(control, first, 3)
        assert await control.result(first) == RESULT
        assert stage.done == ["a", "r", "b", "c"] * 2
        assert (await control.receipt(first)).inherited == ()


@pytest.mark.parametrize("end", ["failed", "cancelled", "killed"])
async def test_a_run_can_be_forked_however_it_has_ended(driving: Open, end: str) -> None:
    stage = Stage(f"fork-{end}")
    make, look = stage.writer(), stage.reader()
    broken = [True]
    stage.gate("r")

    @agent(name=stage.name)
    async def clerk(run: Run) -> list[object]:
        a = await run.step("Make a", make, "a")
        read = await run.step("Read", look, "r")
        if broken[0]:
            raise ValueError("a bug")
        return [a, read]

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("r")
        if end == "cancelled":
            await control.cancel(run, now=True)
        elif end == "killed":
            await control.kill(f"agent:{stage.name}", who=OLGA)
        stage.gate("r").set()
        assert (await control.ended(run)).phase == end
        broken.clear()
        broken.append(False)
        if end == "killed":
            with pytest.raises(ScopeStopped, match=r"operator olga has stopped"):
                await control.fork(run, 6)
            await control.release(f"agent:{stage.name}", who=OLGA)
        new = await control.fork(run, (await control.state(run)).head + 1)

        assert await control.result(new) == ["made a", "R"]
        assert stage.done.count("a") == 1
        assert (await control.receipt(new)).inherited == ("thing",)


async def test_an_effect_that_was_undone_since_is_not_called_inherited(driving: Open) -> None:
    stage = Stage("fork-undone")
    clerk = three_things(stage)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.result(run)
        await control.undo(run)
        await control.until(run, lambda state: not state.undo_wanted)
        new = await control.fork(run, "Make b")

        assert await control.result(new) == RESULT
        assert (await control.receipt(new)).inherited == ()


async def test_what_cannot_be_is_refused_in_words(driving: Open) -> None:
    stage = Stage("fork-refused")
    clerk = three_things(stage)
    stage.gate("r")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("r")
        with pytest.raises(InvalidRequest, match=r"is running; only a run that has ended can be"):
            await control.fork(run, "Make a")
        stage.gate("r").set()
        await control.result(run)
        with pytest.raises(
            InvalidRequest,
            match=r"no step 'Make d' on record; its steps are: Make a, Make b, Make c, Read",
        ):
            await control.fork(run, "Make d")
        for nowhere in (-1, 0, 1, 1000):
            with pytest.raises(
                InvalidRequest, match=rf"cannot be forked at position {nowhere}: choose one"
            ):
                await control.fork(run, nowhere)
        assert len(await control.runs()) == 1


async def test_the_same_key_gives_the_same_fork_whatever_has_become_of_the_old_run(
    driving: Open,
) -> None:
    stage = Stage("fork-key")
    clerk = three_things(stage)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.result(run)
        new = await control.fork(run, "Make b", key="again")
        await answer_all(control, new, "keep", 2)
        await control.undo(run)
        await control.until(run, lambda state: not state.undo_wanted)

        assert await control.fork(run, "Make b", key="again") == new
        with pytest.raises(KeyReused):
            await control.fork(run, "Make c", key="again")
        assert len(await control.runs()) == 2


# ── what the old run did after it ────────────────────────────────────────────────────────────


async def test_what_is_not_wanted_is_undone_where_it_was_done_newest_first_and_before_the_rest(
    driving: Open,
) -> None:
    stage = Stage("fork-undo")
    clerk = three_things(stage)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.result(run)
        new = await control.fork(run, "Make b")
        state = await control.until(new, lambda state: len(state.questions) == 2)
        for question in sorted(state.questions):  # the older effect first: no matter
            await control.answer(new, question, "undo", who=Actor("ann"))

        assert await control.result(new) == RESULT
        assert stage.done == ["a", "r", "b", "c", "undone c", "undone b", "b", "c"]
        assert await lines(control, run) == ["thing: undone", "thing: undone", "thing: kept"]
        (undo,) = await events_of(control, run, e.UndoRequested)
        assert undo.who.by == "ann"


@pytest.mark.slow
async def test_what_cannot_be_undone_there_is_said_and_the_fork_goes_on(driving: Open) -> None:
    stage = Stage("fork-undo-fails")

    async def unmake(_: EffectRecord) -> None:
        raise OSError("the provider is down")

    clerk = three_things(stage, undo=unmake)
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.result(run)
        new = await control.fork(run, "Make c")
        await answer_all(control, new, "undo", 1)
        await keep_and_repeat(control, new, 0)

        assert await control.result(new) == RESULT
        assert (await lines(control, run))[0] == (
            "thing: could not be undone (OSError: the provider is down)"
        )
        ((_, notice),) = (await control.state(new)).notices
        assert notice == f"thing of run {run} could not be undone: OSError: the provider is down"


async def test_cancelling_a_fork_undoes_its_own_effects_and_none_of_the_old_run(
    driving: Open,
) -> None:
    stage = Stage("fork-cancel")
    clerk = three_things(stage)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.result(run)
        new = await control.fork(run, "Make b")
        await stage.until_begun("c")
        stage.gate("c")
        await keep_and_repeat(control, new, 2)
        await stage.until_begun("c", times=2)
        await control.cancel(new)

        assert (await control.ended(new)).phase is Phase.CANCELLED
        assert stage.done == ["a", "r", "b", "c", "b", "undone c", "undone b"]
        assert await lines(control, run) == ["thing: kept"] * 3


async def test_an_effect_under_way_at_the_place_is_asked_about_and_not_called_inherited(
    driving: Open,
) -> None:
    stage = Stage("fork-parallel")
    make = stage.writer()
    stage.gate("slow")

    @agent()
    async def clerk(run: Run) -> None:
        async with anyio.create_task_group() as both:
            both.start_soon(run.step, "Make slow", make, "slow")
            await stage.until_begun("slow")
            await run.step("Make fast", make, "fast")
            stage.gate("slow").set()
        await run.step("Make last", make, "last")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.result(run)
        settled = await positions(control, run, e.AttemptSettled)
        new = await control.fork(run, settled[1])  # fast has ended and slow has not
        await control.until(new, lambda state: len(state.questions) == 2)
        await answer_all(control, new, "undo", 2)
        await control.ended(new)

        assert stage.done == [
            *["fast", "slow", "last", "undone last", "undone slow", "slow", "last"]
        ]
        assert (await control.receipt(new)).inherited == ("thing",)


@pytest.mark.parametrize("answered", [0, 1, 2])
async def test_a_crash_among_the_questions_of_a_fork_loses_and_repeats_nothing(
    driving: Open, crashing: Open, answered: int
) -> None:
    stage = Stage("fork-crash")
    clerk = three_things(stage)

    async with crashing(clerk) as control:
        run = await control.start(clerk, "work")
        await control.result(run)
        new = await control.fork(run, "Make b")
        await control.until(new, lambda state: len(state.questions) == 2)
        await answer_all(control, new, "undo", answered)
    async with driving(clerk) as control:
        await answer_all(control, new, "undo", 2 - answered)

        assert await control.result(new) == RESULT
        assert stage.done == ["a", "r", "b", "c", "undone c", "undone b", "b", "c"]
        assert await times_asked(control, new, "inherited") == 2


async def test_a_fork_that_waits_for_its_answers_can_be_paused_let_go_and_redirected(
    driving: Open,
) -> None:
    stage = Stage("fork-rests")
    make, look = stage.writer(), stage.reader()

    @agent()
    async def clerk(run: Run) -> list[object]:
        await run.step("Make", make, "a")
        return [run.brief, await run.step("Read", look, "r")]

    async with driving(impatient(clerk)) as control:
        run = await control.start(clerk, "work")
        await control.result(run)
        new = await control.fork(run, "Make")
        first = await asked(control, new)
        await control.until(new, lambda state: not state.driver)
        await control.redirect(new, "work harder")
        second = await asked(control, new, after=first.position)
        await control.pause(new)
        await control.answer(new, second.position, "undo")
        await control.resume(new)

        assert await control.result(new) == ["work harder", "R"]
        assert stage.done == ["a", "r", "undone a", "a", "r"]


class PurgedMeanwhile(MemoryStore):
    """A store that somebody purges right before it takes a request."""

    somebody_purges = False

    @override
    async def submit(self, request: Submit) -> Committed:
        if self.somebody_purges:
            await self.purge(await self.now() + 60)
        return await super().submit(request)


async def test_what_is_purged_while_it_is_forked_is_not_forked() -> None:
    """A fork without its source could never be driven."""
    store = PurgedMeanwhile()
    await ended(store)
    store.somebody_purges = True

    with pytest.raises(JournalNotFound):
        await Control(store).fork("r-1", at=2)

    assert await store.rows(Query()) == []

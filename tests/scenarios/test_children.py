"""Background runs: begun once, held and cancelled with their parent, paid from its budget."""

from __future__ import annotations

import contextlib
from pathlib import Path

import anyio
import pytest

from midflight.agents import REPEATS, Agent, agent
from midflight.control import Control
from midflight.errors import StepFailed
from midflight.journal import events as e
from midflight.journal.phases import Cause, Phase, Role
from midflight.journal.record import Actor, Limits, Usage
from midflight.run import Run
from midflight.stores.protocol import Query, Store, Submit
from midflight.tools.options import EffectRecord
from scenarios.company import Freezes, child_of, events, journal, said, spend
from scenarios.conftest import Open
from scenarios.cord import doomed
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]

OPERATOR = Actor(by="olga", role=Role.OPERATOR)


def family(stage: Stage, **declared: object) -> tuple[Agent, Agent]:
    """A parent that makes a thing, spawns, makes another one and waits; and its child."""
    make, look = stage.writer(**declared), stage.reader()  # type: ignore[arg-type]

    @agent(f"{stage.name}-child")
    async def child(run: Run) -> object:
        made = await run.step(f"Make {run.brief}", make, run.brief)
        await run.step("Read", look, f"{run.brief} slow")
        return made

    @agent(f"{stage.name}-parent")
    async def parent(run: Run) -> object:
        await run.step("Make first", make, "first")
        spawned = await run.spawn(child, "leaf")
        await run.step("Make last", make, "last")
        return await spawned.result()

    return parent, child


# ── beginning and ending ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [3_000, 200_000])
async def test_the_thread_shows_a_short_report_and_the_parent_reads_the_long_one(
    driving: Open, size: int
) -> None:
    """Also of a result so large that the journal keeps it elsewhere; 16,000 characters of it."""

    @agent("long-child")
    async def child(run: Run) -> str:
        return "F" * size + " THE CONCLUSION"

    @agent("long-parent")
    async def parent(run: Run) -> list[str]:
        await (await run.spawn(child, "research")).result()
        return [message.text for message in await run.inbox()]

    async with driving(parent, child) as control:
        run = await control.start(parent, "work")
        ((report,), shown) = await control.result(run), await _reports(control, run)

        whole = "F" * size + " THE CONCLUSION"
        assert shown == [f"Done: research. {whole[:500]}…"]
        cut = whole if size < 16_000 else f"{whole[:16_000]}…"
        assert report == f"Done: research. {cut}"


async def _reports(control: Control, run: str) -> list[str]:
    return await said(control, await child_of(control, run), "report")


async def test_a_child_works_by_itself_and_gives_its_result(driving: Open) -> None:
    stage = Stage("child-result")
    parent, child = family(stage)

    async with driving(parent, child) as control:
        run = await control.start(parent, "work")

        assert await control.result(run) == "made leaf"
        state = await control.state(run)
        assert list(state.children.values()) == ["done"]
        born = await control.state(next(iter(state.children)))
        assert (born.parent, born.thread, born.brief) == (run, state.thread, "leaf")


@pytest.mark.parametrize("written", [False, True], ids=["before", "after"])
async def test_a_crash_at_the_spawn_neither_loses_nor_doubles_the_child(
    driving: Open, store: Store, tmp_path: Path, written: bool
) -> None:
    stage = Stage("child-crash")
    parent, child = family(stage)
    dying = Freezes(store, lambda asked: asked.new == asked.journals[1:] != (), written=written)

    async with doomed(dying, parent, child, workdir=tmp_path) as control:
        run = await control.start(parent, "work", thread="t-one")
        with anyio.fail_after(10):
            await dying.frozen.wait()
    recorded = await events(store, run, e.ChildSpawned)
    assert len(recorded) == len(await store.rows(Query(parent=run))) == written

    async with driving(parent, child) as control:
        assert await control.result(run) == "made leaf"
        assert len(await store.rows(Query(parent=run))) == 1
        assert sorted(stage.done) == ["first", "last", "leaf", "leaf slow"]


async def test_after_a_crash_the_function_finds_the_same_child_again(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("child-replay")
    parent, child = family(stage)
    stage.gate("leaf slow")

    async with crashing(parent, child) as control:
        run = await control.start(parent, "work")
        await stage.until_begun("leaf slow")
        before = await child_of(control, run)

    stage.gate("leaf slow").set()
    async with driving(parent, child) as control:
        assert await control.result(run) == "made leaf"
        assert list((await control.state(run)).children) == [before]
        assert stage.done.count("leaf") == 1


async def test_the_same_work_twice_is_two_children(driving: Open) -> None:
    @agent("child-twice-leaf")
    async def leaf(run: Run) -> str:
        return run.brief

    @agent("child-twice")
    async def parent(run: Run) -> list[object]:
        first, second = await run.spawn(leaf, "same"), await run.spawn(leaf, "same")
        return [first.id != second.id, await first.result(), await second.result()]

    async with driving(parent, leaf) as control:
        run = await control.start(parent, "work")
        assert await control.result(run) == [True, "same", "same"]


async def test_a_child_that_fails_tells_why(driving: Open) -> None:
    @agent("child-fails-leaf")
    async def leaf(run: Run) -> str:
        raise ValueError("no such customer")

    @agent("child-fails")
    async def parent(run: Run) -> str:
        try:
            await (await run.spawn(leaf, "find")).result()
        except StepFailed as failed:
            return failed.error
        return ""

    async with driving(parent, leaf) as control:
        run = await control.start(parent, "work")
        assert await control.result(run) == "ValueError: no such customer"


@pytest.mark.parametrize("end", ["cancelled", "killed"])
async def test_a_child_that_is_stopped_by_a_person_fails_its_result(
    driving: Open, end: str
) -> None:
    stage = Stage(f"child-{end}")
    look = stage.reader()
    stage.gate("slow")

    @agent(f"child-{end}-leaf")
    async def leaf(run: Run) -> object:
        return await run.step("Read", look, "slow")

    @agent(f"child-{end}")
    async def parent(run: Run) -> str:
        spawned = await run.spawn(leaf, "find")
        try:
            await spawned.result()
        except StepFailed as failed:
            return f"{failed.error}, {spawned.outcome}"
        return ""

    async with driving(parent, leaf) as control:
        run = await control.start(parent, "work")
        await stage.until_begun("slow")
        if end == "cancelled":
            await control.cancel(await child_of(control, run))
        else:
            await control.kill(f"agent:{leaf.name}", who=OPERATOR)

        assert await control.result(run) == f"{end}, {end}"


async def test_a_large_result_of_a_child_comes_whole(driving: Open) -> None:
    @agent("child-large-leaf")
    async def leaf(run: Run) -> str:
        return "x" * 200_000

    @agent("child-large")
    async def parent(run: Run) -> int:
        return len(await (await run.spawn(leaf, "write")).result())

    async with driving(parent, leaf) as control:
        run = await control.start(parent, "work")
        assert await control.result(run) == 200_000


async def test_a_child_whose_agent_nobody_drives_here_waits_to_be_driven(driving: Open) -> None:
    stage = Stage("child-nobody")
    parent, child = family(stage)

    async with driving(parent) as control:
        run = await control.start(parent, "work")
        born = await child_of(control, run)
        await stage.until_begun("last")
        assert (await control.state(born)).phase is Phase.QUEUED

    async with driving(parent, child) as control:
        assert await control.result(run) == "made leaf"


async def test_a_parent_that_was_away_learns_that_its_child_has_ended(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("child-away")
    parent, child = family(stage)
    stage.gate("leaf slow")

    async with crashing(parent, child) as control:
        run = await control.start(parent, "work")
        await stage.until_begun("leaf slow")
        born = await child_of(control, run)

    stage.gate("leaf slow").set()
    async with driving(child) as control:
        await control.ended(born)
        assert (await control.state(run)).children[born] == ""
    async with driving(parent) as control:
        assert await control.result(run) == "made leaf"


async def test_an_evicted_parent_learns_of_the_end_when_it_comes_back(driving: Open) -> None:
    stage = Stage("child-evicted")
    parent, child = family(stage)
    stage.gate("leaf slow")
    impatient = type(parent)(parent.name, parent.function, evict_after=0.01)

    async with driving(impatient, child) as control:
        run = await control.start(impatient, "work")
        await stage.until_begun("leaf slow")
        await control.pause(run, scope="this")
        await control.until(run, lambda state: state.phase is Phase.PAUSED and not state.driver)
        stage.gate("leaf slow").set()
        await control.ended(await child_of(control, run))
        await control.resume(run)

        assert await control.result(run) == "made leaf"


async def test_what_the_function_sees_of_a_child_is_the_same_at_replay(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("child-outcome")
    look = stage.reader()
    stage.gate("leaf")
    stage.gate("end")

    @agent("child-outcome-leaf")
    async def leaf(run: Run) -> object:
        return await run.step("Read", look, "leaf")

    @agent("child-outcome")
    async def parent(run: Run) -> list[str]:
        spawned = await run.spawn(leaf, "find")
        seen: list[str] = []
        for turn in ("one", "two", "three"):
            seen.append(spawned.outcome)
            await run.step(f"Look {turn}: {spawned.outcome}", look, turn)
        await spawned.result()
        seen.append(spawned.outcome)
        await run.step("Look at the end", look, "end")
        return seen

    async with crashing(parent, leaf) as control:
        run = await control.start(parent, "work")
        await stage.until_begun("three")
        stage.gate("leaf").set()
        await stage.until_begun("end")

    stage.gate("end").set()
    async with driving(parent, leaf) as control:
        assert await control.result(run) == ["", "", "", "done"]


async def test_waiting_for_a_child_is_not_waiting_for_a_person(driving: Open) -> None:
    stage = Stage("child-and-ask")
    look = stage.reader()
    stage.gate("leaf")

    @agent("child-and-ask-leaf")
    async def leaf(run: Run) -> object:
        return await run.step("Read", look, "leaf")

    @agent("child-and-ask")
    async def parent(run: Run) -> object:
        spawned = await run.spawn(leaf, "find")
        async with anyio.create_task_group() as both:
            both.start_soon(run.ask, "And then?")
            found = await spawned.result()
            await run.step("Read", look, str(found))
        return found

    impatient = type(parent)(parent.name, parent.function, evict_after=0.01)
    async with driving(impatient, leaf) as control:
        run = await control.start(impatient, "work")
        await control.until(run, lambda state: bool(state.questions))
        await anyio.sleep(0.1)
        stage.gate("leaf").set()
        with anyio.fail_after(5):
            await stage.until_begun("LEAF")
        await control.answer(run, next(iter((await control.state(run)).questions)), "then")

        assert await control.result(run) == "LEAF"


async def test_a_child_reports_its_end_in_the_thread(driving: Open) -> None:
    stage = Stage("child-report")

    @agent("child-report-leaf")
    async def leaf(run: Run) -> str:
        if run.brief == "fail":
            raise ValueError("no such customer")
        return "42 customers"

    @agent("child-report")
    async def parent(run: Run) -> None:
        for brief in ("count", "fail"):
            spawned = await run.spawn(leaf, brief)
            with contextlib.suppress(StepFailed):
                await spawned.result()

    async with driving(parent, leaf) as control:
        run = await control.start(parent, "work")
        await control.ended(run)
        good, bad = (await control.state(run)).children
        assert await said(control, good, "report") == ["Done: count. 42 customers"]
        assert await said(control, bad, "report") == ["Failed: fail. ValueError: no such customer"]
        assert await said(control, run, "report") == []
        assert stage.done == []


async def test_the_report_and_the_end_are_one(driving: Open, store: Store, tmp_path: Path) -> None:
    @agent("child-one-report-leaf")
    async def leaf(run: Run) -> str:
        return "42"

    @agent("child-one-report")
    async def parent(run: Run) -> object:
        return await (await run.spawn(leaf, "count")).result()

    def reports(request: Submit) -> bool:
        return request.new == ("t-one",)

    dying = Freezes(store, reports, written=True)
    async with doomed(dying, parent, leaf, workdir=tmp_path) as control:
        run = await control.start(parent, "work", thread="t-one")
        with anyio.fail_after(10):
            await dying.frozen.wait()
        born = await child_of(control, run)
    assert (await control.state(born)).phase is Phase.DONE
    async with driving(parent, leaf) as control:
        assert await control.result(run) == "42"
        assert len(await said(control, born, "report")) == 1


# ── pause and resume ─────────────────────────────────────────────────────────────────────────


def three_generations(stage: Stage) -> tuple[Agent, Agent, Agent]:
    """A parent whose child ends at once and leaves a grandchild at work; and a live child."""
    make, look = stage.writer(), stage.reader()

    @agent(f"{stage.name}-leaf")
    async def leaf(run: Run) -> object:
        await run.step("Make", make, run.brief)
        return await run.step("Read", look, f"{run.brief} slow")

    @agent(f"{stage.name}-middle")
    async def middle(run: Run) -> object:
        spawned = await run.spawn(leaf, f"{run.brief} leaf")
        return None if run.brief == "brief" else await spawned.result()

    @agent(f"{stage.name}-top")
    async def top(run: Run) -> None:
        await run.step("Make", make, "top")
        for brief in ("brief", "long"):
            await run.spawn(middle, brief)
        await run.step("Read", look, "top slow")

    return top, middle, leaf


async def everybody(control: Control, run: str) -> dict[str, str]:
    """Every run below one, by its brief."""
    found: dict[str, str] = {}
    for child in (await control.state(run)).children:
        found[(await control.state(child)).brief] = child
        found |= await everybody(control, child)
    return found


async def test_pause_and_resume_cover_all_who_live_below_and_at_once(driving: Open) -> None:
    stage = Stage("child-pause")
    cast = three_generations(stage)
    for slow in ("brief leaf slow", "long leaf slow", "top slow"):
        stage.gate(slow)

    async with driving(*cast) as control:
        run = await control.start(cast[0], "work")
        for slow in ("brief leaf slow", "long leaf slow", "top slow"):
            await stage.until_begun(slow)
        below = await everybody(control, run)
        await control.ended(below["brief"])

        await control.pause(run)
        live = [run, *(below[b] for b in ("long", "brief leaf", "long leaf"))]
        for journal_ in live:
            assert Cause.USER in (await control.state(journal_)).holds, "in one transaction"
        for journal_ in live:
            await control.until(journal_, lambda state: state.phase is Phase.PAUSED)

        for gate in stage.gates.values():
            gate.set()
        await anyio.sleep(0.05)
        assert "brief leaf slow" not in stage.done
        await control.resume(run)
        for journal_ in live:
            assert (await control.ended(journal_)).phase is Phase.DONE


async def test_a_redirect_that_resumes_lets_everybody_below_go_on_whom_the_pause_has_held(
    driving: Open,
) -> None:
    stage = Stage("child-redirect-resume")
    cast = three_generations(stage)
    slow = ("brief leaf slow", "long leaf slow", "top slow")
    for name in slow:
        stage.gate(name)

    async with driving(*cast) as control:
        run = await control.start(cast[0], "work")
        for name in slow:
            await stage.until_begun(name)
        below = await everybody(control, run)
        live = [below[b] for b in ("long", "brief leaf", "long leaf")]
        await control.pause(run)
        for journal_ in (run, *live):
            await control.until(journal_, lambda state: state.phase is Phase.PAUSED)

        redirected = await control.redirect(run, "other work", resume=True, key="once")
        again = await control.redirect(run, "other work", resume=True, key="once")
        assert again.position == redirected.position
        for journal_ in (run, *live):
            assert Cause.USER not in (await control.state(journal_)).holds, "in one transaction"
        for gate in stage.gates.values():
            gate.set()
        for journal_ in (run, *live):
            assert (await control.ended(journal_)).phase is Phase.DONE
        briefs = {(await control.state(one)).brief for one in live}
        assert "other work" not in briefs  # they go on with what they were doing


async def test_a_redirect_of_a_run_that_was_not_held_leaves_a_child_held_that_a_person_held(
    driving: Open,
) -> None:
    stage = Stage("child-redirect-held")
    parent, child = family(stage)
    stage.gate("leaf slow")

    async with driving(parent, child) as control:
        run = await control.start(parent, "work")
        await stage.until_begun("leaf slow")
        born = await child_of(control, run)
        await control.applied(await control.pause(born))
        await control.redirect(run, "other work", resume=True)
        await control.until(run, lambda state: state.brief == "other work")

        assert Cause.USER in (await control.state(born)).holds
        stage.gate("leaf slow").set()
        await control.resume(born)
        assert await control.result(run) == "made leaf"


async def test_pause_of_this_run_alone_lets_its_children_go_on(driving: Open) -> None:
    stage = Stage("child-pause-this")
    parent, child = family(stage)
    stage.gate("leaf")

    async with driving(parent, child) as control:
        run = await control.start(parent, "work")
        await stage.until_begun("leaf")
        await stage.until_begun("last")
        await control.applied(await control.pause(run, scope="this"))
        born = await child_of(control, run)
        assert (await control.state(born)).phase is Phase.RUNNING
        stage.gate("leaf").set()

        assert (await control.ended(born)).phase is Phase.DONE
        assert (await control.state(run)).phase is Phase.PAUSED
        await control.resume(run)
        assert await control.result(run) == "made leaf"


async def test_the_acknowledgement_lists_what_is_in_flight_in_the_whole_tree(
    driving: Open,
) -> None:
    stage = Stage("child-flight")
    parent, child = family(stage)
    stage.gate("leaf")
    stage.gate("last")

    async with driving(parent, child) as control:
        run = await control.start(parent, "work")
        await stage.until_begun("leaf")
        await stage.until_begun("last")

        assert (await control.pause(run)).in_flight == ("thing", "thing")
        assert (await control.pause(run, scope="this")).in_flight == ("thing",)
        assert (await control.cancel(run)).in_flight == ("thing", "thing")
        await control.ended(run)


async def test_a_child_may_ask_while_its_parent_is_paused(driving: Open) -> None:
    @agent("child-asks-leaf")
    async def leaf(run: Run) -> object:
        return (await run.ask("Which one?")).payload

    @agent("child-asks")
    async def parent(run: Run) -> object:
        return await (await run.spawn(leaf, "choose")).result()

    async with driving(parent, leaf) as control:
        run = await control.start(parent, "work")
        born = await child_of(control, run)
        await control.until(born, lambda state: bool(state.questions))
        await control.pause(run)
        (question,) = (await control.state(born)).questions
        await control.answer(born, question, "the red one")
        await control.resume(run)

        assert await control.result(run) == "the red one"


# ── cancel ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
async def test_cancel_undoes_by_position_and_a_child_counts_where_it_was_spawned(
    driving: Open,
) -> None:
    stage = Stage("child-cancel")

    async def unmake(performed: EffectRecord) -> None:
        if performed.args[0] == "last":
            await anyio.sleep(0.3)  # long enough for others to come first, if they could
        stage.note(stage.done, f"undone {performed.args[0]}")

    parent, child = family(stage, undo=unmake)
    stage.gate("leaf slow")

    async with driving(parent, child) as control:
        run = await control.start(parent, "work")
        await stage.until_begun("leaf slow")
        await control.until(run, lambda state: len(state.effects) == 3 and not state.open)
        await control.cancel(run)
        born = await child_of(control, run)
        assert (await control.state(born)).phase is Phase.CANCELLING, "in one transaction"
        await control.ended(run)

        assert (await control.state(born)).phase is Phase.CANCELLED
        undone = [line for line in stage.done if line.startswith("undone")]
        assert undone == ["undone last", "undone leaf", "undone first"]
        words = [line.text for line in (await control.receipt(run)).lines]
        assert words == ["thing: undone", "background run: leaf: undone", "thing: undone"]


async def test_a_parent_is_cancelled_only_when_everybody_below_is(driving: Open) -> None:
    stage = Stage("child-cancel-tree")
    cast = three_generations(stage)
    for slow in ("brief leaf slow", "long leaf slow", "top slow"):
        stage.gate(slow)

    async with driving(*cast) as control:
        run = await control.start(cast[0], "work")
        for slow in ("brief leaf slow", "long leaf slow", "top slow"):
            await stage.until_begun(slow)
        below = await everybody(control, run)
        await control.ended(below["brief"])
        await control.cancel(run)
        for brief in ("long", "brief leaf", "long leaf"):
            phase = (await control.state(below[brief])).phase
            assert phase in {Phase.CANCELLING, Phase.CANCELLED}, "in one transaction"
        await control.ended(run)

        assert [(await control.state(child)).alive for child in below.values()] == [False] * 4
        undone = [line for line in stage.done if line.startswith("undone")]
        assert undone == ["undone long leaf", "undone brief leaf", "undone top"]


async def test_a_child_that_has_ended_is_undone_like_any_effect(driving: Open) -> None:
    stage = Stage("child-cancel-ended")
    make, look = stage.writer(), stage.reader()
    stage.gate("slow")

    @agent("child-cancel-ended-leaf")
    async def leaf(run: Run) -> object:
        return await run.step("Make", make, "leaf")

    @agent("child-cancel-ended")
    async def parent(run: Run) -> None:
        await (await run.spawn(leaf, "make")).result()
        await run.step("Read", look, "slow")

    async with driving(parent, leaf) as control:
        run = await control.start(parent, "work")
        await stage.until_begun("slow")
        await control.cancel(run)
        await control.ended(run)

        assert stage.done == ["leaf", "undone leaf"]
        born = await control.state(await child_of(control, run))
        assert born.phase is Phase.DONE
        assert [line.text for line in (await control.receipt(run)).lines] == [
            "background run: make: undone"
        ]


async def test_cancel_of_this_run_alone_leaves_its_children_and_says_so(driving: Open) -> None:
    stage = Stage("child-cancel-this")
    parent, child = family(stage)
    stage.gate("leaf slow")

    async with driving(parent, child) as control:
        run = await control.start(parent, "work")
        await stage.until_begun("leaf slow")
        await control.until(run, lambda state: len(state.effects) == 3 and not state.open)
        await control.cancel(run, scope="this")
        await control.ended(run)
        lines = [line.text for line in (await control.receipt(run)).lines]
        assert lines[1] == "background run: leaf: kept (goes on by itself)"
        born = await child_of(control, run)
        assert (await control.state(born)).phase is Phase.RUNNING

        stage.gate("leaf slow").set()
        assert await control.result(born) == "made leaf"


async def test_a_child_that_was_left_can_still_be_undone_later(driving: Open) -> None:
    stage = Stage("child-undo-later")
    parent, child = family(stage)

    async with driving(parent, child) as control:
        stage.gate("leaf slow")
        run = await control.start(parent, "work")
        await stage.until_begun("leaf slow")
        await control.cancel(run, scope="this")
        await control.ended(run)
        born = await child_of(control, run)
        with anyio.fail_after(10):
            await control.undo(run)
            await control.until(run, lambda state: not state.undo_wanted)

        assert "undone leaf" in stage.done
        assert (await control.state(born)).phase is Phase.CANCELLED


@pytest.mark.slow
async def test_cancel_now_skips_undo_everywhere_and_still_waits_for_all_to_stop(
    driving: Open,
) -> None:
    stage = Stage("child-cancel-now")
    make = stage.writer()
    ended = anyio.Event()

    async def slow() -> None:
        try:
            stage.note(stage.begun, "slow")
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.3)
            ended.set()

    @agent("child-cancel-now-leaf")
    async def leaf(run: Run) -> object:
        await run.step("Make", make, "leaf")
        return await run.step("Slow", slow)

    @agent("child-cancel-now")
    async def parent(run: Run) -> object:
        return await (await run.spawn(leaf, "make")).result()

    async with driving(parent, leaf) as control:
        run = await control.start(parent, "work")
        await stage.until_begun("slow")
        await control.cancel(run, now=True)
        await control.ended(run)

        assert ended.is_set()
        assert not (await control.state(await child_of(control, run))).alive
        assert stage.done == ["leaf"]


async def test_stop_now_while_children_undo_reaches_them_too(driving: Open) -> None:
    stage = Stage("child-escalate")
    undoing = anyio.Event()

    async def unmake(_: object) -> None:
        undoing.set()
        await anyio.sleep(0.2)
        raise OSError("the provider is down")

    make, look = stage.writer(undo=unmake), stage.reader()
    stage.gate("slow")

    @agent("child-escalate-leaf")
    async def leaf(run: Run) -> object:
        for what in "abc":
            await run.step("Make", make, what)
        return await run.step("Read", look, "slow")

    @agent("child-escalate")
    async def parent(run: Run) -> object:
        return await (await run.spawn(leaf, "make")).result()

    async with driving(parent, leaf) as control:
        run = await control.start(parent, "work")
        await stage.until_begun("slow")
        await control.cancel(run)
        await undoing.wait()
        await control.cancel(run, now=True)
        await control.ended(run)
        born = await control.state(await child_of(control, run))

        assert born.cancel_now
        assert len(await events(control.store, born.journal, e.UndoStarted)) <= 3


@pytest.mark.slow
async def test_a_child_that_could_not_be_undone_is_told_of_and_not_tried_for_ever(
    driving: Open,
) -> None:
    stage = Stage("child-badundo")
    tries: list[str] = []

    async def unmake(_: object) -> None:
        tries.append("undo")
        raise OSError("the provider is down")

    make, look = stage.writer(undo=unmake), stage.reader()
    stage.gate("slow")

    @agent("child-badundo-leaf")
    async def leaf(run: Run) -> object:
        await run.step("Make", make, "leaf")
        return await run.step("Read", look, "slow")

    @agent("child-badundo")
    async def parent(run: Run) -> object:
        return await (await run.spawn(leaf, "make")).result()

    async with driving(parent, leaf) as control:
        run = await control.start(parent, "work")
        await stage.until_begun("slow")
        await control.cancel(run)
        assert (await control.ended(run)).phase is Phase.CANCELLED
        (line,) = (await control.receipt(run)).lines

        assert line.text == (
            "background run: make: could not be undone "
            "(thing: could not be undone (OSError: the provider is down))"
        )
        assert len(tries) == 3


async def test_cancel_does_not_wait_for_a_child_that_nobody_has_ever_driven(
    driving: Open,
) -> None:
    stage = Stage("child-cancel-nobody")
    parent, _ = family(stage)

    async with driving(parent) as control:
        run = await control.start(parent, "work")
        born = await child_of(control, run)
        await stage.until_begun("last")
        await control.cancel(run)
        with anyio.fail_after(10):
            assert (await control.ended(run)).phase is Phase.CANCELLED
        assert (await control.state(born)).phase is Phase.CANCELLED


async def test_a_crash_while_children_are_undone_ends_in_the_same_receipt(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("child-cancel-crash")
    undoing = stage.gate("undoing")

    async def unmake(performed: EffectRecord) -> None:
        what = performed.args[0]
        if what == "leaf":
            stage.note(stage.begun, "undoing leaf")
            await undoing.wait()
        stage.note(stage.done, f"undone {what}")

    make, look = stage.writer(undo=unmake), stage.reader()
    stage.gate("slow")

    @agent("child-cancel-crash-leaf")
    async def leaf(run: Run) -> object:
        await run.step("Make", make, "leaf")
        return await run.step("Read", look, "slow")

    @agent("child-cancel-crash")
    async def parent(run: Run) -> object:
        await run.step("Make", make, "first")
        return await (await run.spawn(leaf, "make")).result()

    async with crashing(parent, leaf) as control:
        run = await control.start(parent, "work")
        await stage.until_begun("slow")
        await control.cancel(run)
        await stage.until_begun("undoing leaf")
    assert (await control.state(run)).phase is Phase.CANCELLING

    undoing.set()
    async with driving(parent, leaf) as control:
        assert (await control.ended(run)).phase is Phase.CANCELLED
        assert stage.done[-2:] == ["undone leaf", "undone first"]
        words = [line.text for line in (await control.receipt(run)).lines]
        assert words == ["background run: make: undone", "thing: undone"]


async def test_a_kill_of_the_thread_stops_everybody_in_it(driving: Open) -> None:
    stage = Stage("child-kill")
    cast = three_generations(stage)
    for slow in ("brief leaf slow", "long leaf slow", "top slow"):
        stage.gate(slow)

    async with driving(*cast) as control:
        run = await control.start(cast[0], "work")
        for slow in ("brief leaf slow", "long leaf slow", "top slow"):
            await stage.until_begun(slow)
        below = await everybody(control, run)
        await control.ended(below["brief"])
        thread = (await control.state(run)).thread
        killing = await control.kill(f"thread:{thread}", who=OPERATOR)
        live = {run, *(below[b] for b in ("long", "brief leaf", "long leaf"))}
        assert set(killing.killed) == live
        for gate in stage.gates.values():
            gate.set()
        begun = list(stage.begun)
        await anyio.sleep(0.1)

        assert stage.begun == begun
        assert {(await control.state(child)).phase for child in live} == {Phase.KILLED}


# ── budgets ──────────────────────────────────────────────────────────────────────────────────


def spender(stage: Stage, limits: Limits | None) -> tuple[Agent, Agent]:
    look = stage.reader()

    @agent(f"{stage.name}-leaf")
    async def leaf(run: Run) -> None:
        for number in range(3):
            await run.step("Read", look, f"leaf {number}")

    @agent(f"{stage.name}-parent")
    async def parent(run: Run) -> None:
        await (await run.spawn(leaf, "read", limits=limits)).result()
        await run.step("Read", look, "end")

    return parent, leaf


@pytest.mark.parametrize(
    ("asks", "gets"),
    [
        (None, Limits(steps=4, tokens=50, usd=5.0, repeats=REPEATS)),
        (Limits(steps=3, usd=1.0), Limits(steps=3, tokens=50, usd=1.0, repeats=REPEATS)),
        (Limits(steps=99, usd=99.0), Limits(steps=9, tokens=50, usd=10.0, repeats=REPEATS)),
    ],
    ids=["nothing", "less", "more"],
)
async def test_an_allotment_is_within_what_is_left_and_stands_in_both_journals(
    driving: Open, asks: Limits | None, gets: Limits
) -> None:
    stage = Stage("child-allotment")
    parent, leaf = spender(stage, asks)
    stage.gate("leaf 0")

    async with driving(parent, leaf) as control:
        run = await control.start(parent, "w", limits=Limits(steps=10, tokens=100, usd=10.0))
        born = await child_of(control, run)
        (spawned,) = await events(control.store, run, e.ChildSpawned)

        assert spawned.allotment == gets
        assert (await control.state(born)).limits == gets
        stage.gate("leaf 0").set()


async def test_what_a_child_may_spend_is_reserved_until_it_has_ended(driving: Open) -> None:
    stage = Stage("child-reserved")
    look = stage.reader()
    stage.gate("slow")

    @agent("child-reserved-leaf")
    async def leaf(run: Run) -> None:
        await run.step("Read", look, "slow")

    @agent("child-reserved")
    async def parent(run: Run) -> None:
        await run.spawn(leaf, "read", limits=Limits(steps=5))
        await run.step("Read", look, "one")
        await run.step("Read", look, "two")

    async with driving(parent, leaf) as control:
        run = await control.start(parent, "work", limits=Limits(steps=7))
        state = await control.until(run, lambda state: Cause.CAP in state.holds)
        assert stage.done == ["one"]
        assert (state.spent.steps, state.allotments) != (0, {})
        await control.raise_limits(run, Limits(steps=9))
        assert (await control.ended(run)).phase is Phase.DONE
        stage.gate("slow").set()


async def test_a_child_that_has_ended_costs_what_it_has_spent(driving: Open) -> None:
    stage = Stage("child-spent")
    parent, leaf = spender(stage, Limits(steps=6, usd=4.0))
    stage.gate("leaf 1")

    async with driving(parent, leaf) as control:
        run = await control.start(parent, "work", limits=Limits(steps=8, usd=10.0))
        await stage.until_begun("leaf 1")
        born = await child_of(control, run)
        await spend(control, born, Usage(tokens=70, usd=1.5))
        await spend(control, born, Usage(tokens=7))
        stage.gate("leaf 1").set()
        spent = (await control.ended(run)).spent

        assert (spent.steps, spent.usd, spent.tokens, spent.unpriced) == (4, 1.5, 77, 7)


async def test_a_child_at_its_cap_asks_and_its_parent_waits(driving: Open) -> None:
    stage = Stage("child-cap")
    parent, leaf = spender(stage, Limits(steps=2))

    async with driving(parent, leaf) as control:
        run = await control.start(parent, "work")
        born = await child_of(control, run)
        state = await control.until(born, lambda state: bool(state.questions))
        (question,) = state.questions.values()
        assert (question.kind, state.holds) == ("cap", {Cause.CAP})
        assert (await control.state(run)).phase is Phase.RUNNING
        await control.raise_limits(born, Limits(steps=4))

        assert (await control.ended(run)).phase is Phase.DONE


@pytest.mark.slow
async def test_a_run_that_spawns_itself_for_ever_comes_to_its_cap(driving: Open) -> None:
    started: list[str] = []

    @agent("child-recursion")
    async def hydra(run: Run) -> None:
        started.append(run.id)
        await run.spawn("child-recursion", f"{run.brief}.")
        await run.spawn("child-recursion", f"{run.brief}!")

    async with driving(hydra) as control:
        await control.start(hydra, "grow", limits=Limits(steps=20))
        count = -1
        while count != len(started):
            count = len(started)
            await anyio.sleep(0.4)

        assert len(started) <= 20


async def test_a_child_that_ends_and_leaves_others_at_work_gives_no_budget_back_for_them(
    driving: Open,
) -> None:
    stage = Stage("child-launder")
    look = stage.reader()
    stage.gate("slow")

    @agent("child-launder-leaf")
    async def leaf(run: Run) -> None:
        await run.step("Read", look, "slow")

    @agent("child-launder-middle")
    async def middle(run: Run) -> None:
        await run.spawn(leaf, "read", limits=Limits(usd=4.0))

    @agent("child-launder")
    async def parent(run: Run) -> None:
        for turn in range(3):
            await (await run.spawn(middle, f"turn {turn}", limits=Limits(usd=4.0))).result()

    async with driving(parent, middle, leaf) as control:
        run = await control.start(parent, "work", limits=Limits(usd=10.0))
        state = await control.ended(run)
        granted = [
            spawned.allotment.usd
            for child in state.children
            for spawned in await events(control.store, child, e.ChildSpawned)
        ]

        assert sum(granted) <= 10.0
        stage.gate("slow").set()


async def test_a_child_goes_in_circles_no_longer_than_its_parent_may(driving: Open) -> None:
    stage = Stage("child-repeats")
    parent, leaf = spender(stage, None)

    async with driving(parent, leaf) as control:
        run = await control.start(parent, "work", limits=Limits(repeats=3))
        born = await child_of(control, run)
        assert (await control.state(born)).limits.repeats == 3
        await control.ended(run)


async def test_the_journal_of_a_parent_holds_a_line_or_two_for_each_child(driving: Open) -> None:
    stage = Stage("child-journal")
    parent, leaf = spender(stage, None)

    async with driving(parent, leaf) as control:
        run = await control.start(parent, "work")
        await control.ended(run)
        names = [type(r.event).__name__ for r in await journal(control.store, run)]
        assert names.count("ChildSpawned") == names.count("ChildSettled") == 1

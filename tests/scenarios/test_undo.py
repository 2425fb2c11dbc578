"""Undoing: after a cancel and when a person asks, with what is in doubt looked into first."""

from __future__ import annotations

import anyio
import pytest

from midflight.agents import agent
from midflight.control import Control
from midflight.journal import events as e
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor
from midflight.run import Run
from midflight.tools.declaration import Done, NotDone, Unclear, tool
from midflight.tools.options import EffectRecord
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio


async def lines(control: Control, run: str) -> list[str]:
    return [line.text for line in (await control.receipt(run)).lines]


async def test_stop_now_while_undoing_stops_undoing_and_says_what_remains(driving: Open) -> None:
    stage = Stage("undo-hurry")
    undoing = anyio.Event()

    async def unmake(performed: EffectRecord) -> None:
        undoing.set()
        await anyio.sleep_forever()

    make, look = stage.writer(undo=unmake), stage.reader()
    stage.gate("slow")

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make a", make, "a")
        await run.step("Make b", make, "b")
        await run.step("Read", look, "slow")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        first = await control.cancel(run)
        await undoing.wait()
        second = await control.cancel(run, now=True)
        with anyio.fail_after(5):
            assert (await control.ended(run)).phase is Phase.CANCELLED

        assert await lines(control, run) == [
            "thing: could not be undone (it was stopped half-way)",
            "thing: kept (undo skipped)",
        ]
        assert (await control.applied(first)).status == "superseded"
        assert (await control.applied(second)).status == "applied"


async def test_a_kill_ends_an_undo_and_lists_what_was_left(driving: Open) -> None:
    stage, undoing, ended = Stage("undo-kill"), anyio.Event(), anyio.Event()

    async def unmake(performed: EffectRecord) -> None:
        undoing.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    make, look = stage.writer(undo=unmake), stage.reader()
    stage.gate("slow")

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make a", make, "a")
        await run.step("Make b", make, "b")
        await run.step("Read", look, "slow")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        await control.cancel(run)
        await undoing.wait()
        await control.kill("all", who=Actor(by="olga", role=Role.OPERATOR))
        with anyio.fail_after(5):
            await ended.wait()
            await control.until(run, lambda state: not state.undos)

        assert (await control.state(run)).phase is Phase.KILLED
        assert await lines(control, run) == [
            "thing: could not be undone (it was stopped half-way)",
            "thing: kept (undo skipped)",
        ]


@pytest.mark.parametrize("when", ["between tries", "before"])
async def test_stop_now_is_heard_wherever_undoing_is(driving: Open, when: str) -> None:
    stage = Stage(f"undo-hurry-{when}")
    tries: list[str] = []

    async def unmake(performed: EffectRecord) -> None:
        tries.append("undo")
        raise OSError("the provider is down")

    make, look = stage.writer(undo=unmake), stage.reader()
    stage.gate("slow")

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make a", make, "a")
        await run.step("Read", look, "slow")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        await control.cancel(run)
        if when == "between tries":
            async with control.watch(run) as news:
                async for record in news:
                    if isinstance(record.event, e.UndoSettled):
                        break
        await control.cancel(run, now=True)
        with anyio.fail_after(5):
            await control.ended(run)

        tried = "could not be undone (OSError: the provider is down)"
        assert await lines(control, run) == [f"thing: {tried if tries else 'kept (undo skipped)'}"]
        assert len(tries) <= 1


@pytest.mark.parametrize(
    ("says", "line", "undone"),
    [
        (Done("made, says the bank"), "thing: undone", ["made, says the bank"]),
        (NotDone(), "thing: aborted (proven)", []),
        (Unclear("closed"), "thing: unknown (undo attempted)", [None]),
    ],
)
async def test_what_is_in_doubt_is_checked_before_it_is_undone(
    driving: Open, says: object, line: str, undone: list[object]
) -> None:
    stage = Stage(f"undo-check-{type(says).__name__}")
    given: list[object] = []

    async def unmake(performed: EffectRecord) -> None:
        given.append(performed.result)

    async def ask_the_bank(performed: EffectRecord) -> object:
        return says

    make = stage.writer(undo=unmake, check=ask_the_bank)
    stage.gate("a")

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make a", make, "a")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("a")
        await control.cancel(run)
        await control.ended(run)

        assert await lines(control, run) == [line]
        assert given == undone


async def test_an_effect_without_undo_is_looked_into_too(driving: Open) -> None:
    stage = Stage("undo-check-only")

    async def ask_the_bank(performed: EffectRecord) -> object:
        return Done()

    make = stage.writer(undo=None, check=ask_the_bank)
    stage.gate("a")

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make a", make, "a")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("a")
        await control.cancel(run)
        await control.ended(run)

        assert await lines(control, run) == ["thing: kept (no undo)"]


async def test_an_undo_is_given_the_result_also_of_what_was_done_before_a_snapshot(
    driving: Open,
) -> None:
    stage = Stage("undo-snapshot")
    given: list[object] = []

    async def unmake(performed: EffectRecord) -> None:
        given.append(performed.result)

    make, look = stage.writer(undo=unmake), stage.reader()
    stage.gate("slow")

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make a", make, "a")
        await run.snapshot({"made": "a"})
        await run.step("Make b", make, "b")
        await run.step("Read", look, "slow")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        await control.cancel(run)
        await control.ended(run)

        assert given == ["made b", "made a"]


@pytest.mark.slow
async def test_a_write_that_was_tried_twice_is_one_effect_and_is_undone_once(driving: Open) -> None:
    stage = Stage("undo-retried")
    look, tries, undone = stage.reader(), [], []
    stage.gate("slow")

    async def unmake(performed: EffectRecord) -> None:
        undone.append(performed.result)

    @tool(effect="write", name="undo-retried.upsert", label="row", undo=unmake, retry=1)
    async def upsert() -> str:
        tries.append("try")
        if len(tries) == 1:
            raise ConnectionError("reset by peer")
        return "row 7"

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Upsert", upsert)
        await run.step("Read", look, "slow")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        offer = (await control.preview(run))["cancel"]
        assert offer.consequence == "Undoes row, saves partial work to thread"
        await control.cancel(run)
        await control.ended(run)

        assert (await lines(control, run), undone) == (["row: undone"], ["row 7"])


# ── when a person asks for it afterwards ─────────────────────────────────────────────────────


async def test_a_run_that_failed_is_undone_when_a_person_asks_for_it(driving: Open) -> None:
    stage = Stage("undo-failed")
    make = stage.writer()

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make a", make, "a")
        await run.step("Make b", make, "b")
        raise RuntimeError("out of paper")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        assert (await control.ended(run)).phase is Phase.FAILED
        assert stage.done == ["a", "b"]
        assert await lines(control, run) == ["thing: kept", "thing: kept"]

        await control.undo(run)
        state = await control.until(run, lambda state: not state.driver and not state.undo_wanted)

        assert state.phase is Phase.FAILED, "an end stays an end"
        assert stage.done == ["a", "b", "undone b", "undone a"]
        assert await lines(control, run) == ["thing: undone", "thing: undone"]


async def test_only_what_was_named_is_undone(driving: Open) -> None:
    stage = Stage("undo-named")
    make = stage.writer()

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make a", make, "a")
        await run.step("Make b", make, "b")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        first, _second = (await control.ended(run)).effects
        await control.undo(run, [first])
        await control.until(run, lambda state: not state.driver and not state.undo_wanted)

        assert stage.done == ["a", "b", "undone a"]
        assert await lines(control, run) == ["thing: kept", "thing: undone"]


@pytest.mark.slow
async def test_what_could_not_be_undone_may_be_asked_for_again(driving: Open) -> None:
    stage = Stage("undo-again")
    up = anyio.Event()

    async def unmake(performed: EffectRecord) -> None:
        if not up.is_set():
            raise OSError("the provider is down")

    make, look = stage.writer(undo=unmake), stage.reader()
    stage.gate("slow")

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make a", make, "a")
        await run.step("Read", look, "slow")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await stage.until_begun("slow")
        await control.cancel(run)
        await control.ended(run)
        assert await lines(control, run) == [
            "thing: could not be undone (OSError: the provider is down)"
        ]
        up.set()
        await control.undo(run)
        with anyio.fail_after(5):
            await control.until(run, lambda state: not state.driver and not state.undo_wanted)

        assert await lines(control, run) == ["thing: undone"]


@pytest.mark.parametrize("end", ["done", "failed", "cancelled", "cancelled now"])
async def test_a_lock_is_released_at_every_end(driving: Open, end: str) -> None:
    stage = Stage(f"release-{end}")
    look = stage.reader()

    async def unlock(performed: EffectRecord) -> None:
        stage.note(stage.done, f"unlocked {performed.result}")

    @tool(effect="once", name=f"release-{end}.lock", label="lock", undo=unlock, always_undo=True)
    async def lock() -> str:
        stage.note(stage.done, "locked")
        return "the table"

    make = stage.writer()
    if end.startswith("cancelled"):
        stage.gate("slow")

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Lock", lock)
        await run.step("Make a", make, "a")
        await run.step("Read", look, "slow")
        if end == "failed":
            raise RuntimeError("out of paper")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        if end.startswith("cancelled"):
            await stage.until_begun("slow")
            await control.cancel(run, now=end == "cancelled now")
        state = await control.ended(run)

        assert state.phase == end.split()[0]
        undone = ["undone a"] if end == "cancelled" else []
        read = [] if end.startswith("cancelled") else ["slow"]
        assert stage.done == ["locked", "a", *read, *undone, "unlocked the table"]
        kept = {"cancelled": "undone", "cancelled now": "kept (undo skipped)"}.get(end, "kept")
        assert await lines(control, run) == [f"thing: {kept}", "lock: undone"]


async def test_a_pause_that_comes_while_a_lock_is_released_holds_the_run_before_its_end(
    driving: Open,
) -> None:
    stage = Stage("release-pause")
    releasing, go = anyio.Event(), anyio.Event()

    async def unlock(performed: EffectRecord) -> None:
        releasing.set()
        await go.wait()
        stage.note(stage.done, f"unlocked {performed.args[0]}")

    @tool(effect="once", name="release-pause.lock", undo=unlock, always_undo=True)
    async def lock(what: str) -> None: ...

    @agent()
    async def clerk(run: Run) -> str:
        await run.step("Lock a", lock, "a")
        await run.step("Lock b", lock, "b")
        return "fine"

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await releasing.wait()
        await control.pause(run)
        go.set()
        with anyio.fail_after(5):
            await control.until(run, lambda state: state.phase is Phase.PAUSED)
            assert stage.done == ["unlocked b"]
            await control.resume(run)
            assert await control.result(run) == "fine"
        assert stage.done == ["unlocked b", "unlocked a"]

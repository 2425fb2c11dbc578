"""Live views: what a page is told is what a fold of the journal gives, whoever is slow or cut."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from anyio.abc import TaskStatus
from typing_extensions import override

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.interfaces.http.event_streams import Pace
from midflight.interfaces.http.live_journal import Live, Lives
from midflight.journal.phases import Role
from midflight.journal.record import Actor, Recorded
from midflight.run import Run
from midflight.stores.memory import MemoryStore
from midflight.stores.protocol import PAGE
from midflight.stores.sqlite import SqliteStore
from midflight.tools.declaration import tool
from midflight.tools.progress import emit
from midflight.view import RunBook, RunSheet
from scenarios.conftest import Open
from scenarios.stage import Stage
from server.house import House, opened
from server.viewer import Viewer

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(120)]


def worker(stage: Stage, steps: int, *, weight: int = 0) -> Agent:
    """Reads, speaks, writes what can be undone, and asks once on the way."""

    async def tell(number: int) -> str:
        for word in range(4):
            emit(f"{number}.{word} ")
            await anyio.sleep(0.005)
        return f"told {number}" + "x" * weight

    speak = tool(effect="model", name=f"{stage.name}.tell")(tell)
    look, make = stage.reader(), stage.writer()

    @agent(stage.name)
    async def works(run: Run) -> str:
        await run.plan(*(f"Look {n}" for n in range(steps)))
        for n in range(steps):
            await run.step(f"Look {n}", look, f"look {n}")
            await run.step(f"Tell {n}", speak, n)
            await run.step(f"Make {n}", make, f"thing {n}")
        if "ask" in stage.gates:
            await run.ask("Well?", schema={"type": "string"})
        return "all of it"

    return works


def viewer(house: House, *journals: str, index: bool = False) -> Viewer:
    return Viewer(house.port, house.tokens[Role.VIEWER], journals, index=index)


def plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


async def folds(control: Control, run: str) -> dict[int, Any]:
    """The sheet at every head, each as a page would get it."""
    book, found = RunBook(run), {}
    records: list[Recorded] = []
    while page := await control.store.read(run, after=len(records)):
        records += page
    for record in records:
        book.take(record)
        found[record.position] = plain(book.sheet())
    return found


async def test_every_view_is_what_a_fold_from_scratch_gives_at_its_head(driving: Open) -> None:
    stage = Stage("views-fold")
    stage.gate("ask")
    works = worker(stage, steps=4)
    async with driving(works) as control, opened(control, [works]) as house:
        run = await control.start(works, "work")
        watcher, late = viewer(house, run), viewer(house, run)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watcher.until_ended, run)
            await _until(lambda: run in watcher.views)  # each alone, or it may be all in one patch
            await control.pause(run)
            await _until(lambda: watcher.views[run]["phase"] == "paused")
            await control.redirect(run, "work, but slowly", resume=True)
            state = await control.until(run, lambda state: bool(state.questions))
            tasks.start_soon(late.until_ended, run)
            await _until(lambda: bool(watcher.views[run]["questions"]) and run in late.views)
            await control.answer(run, next(iter(state.questions)), "fine")
        expected = await folds(control, run)

    assert len(watcher.history) >= 4
    for one in (watcher, late):
        assert one.told["view"] == 1
        for _, view in one.history:
            assert view == expected[view["head"]]
        assert one.history[-1][1]["head"] == max(expected)
    last = watcher.views[run]
    assert (last["phase"], last["result"]) == ("done", "all of it")
    assert last["changes"][0]["now"] == "work, but slowly"
    assert {"pause", "redirect", "question", "answer"} <= {m["kind"] for m in last["marks"]}


async def test_a_run_is_read_and_folded_once_for_all_its_watchers() -> None:
    class Counting(MemoryStore):
        reads = 0

        @override
        async def read(self, journal: str, after: int = 0, limit: int = PAGE) -> list[Recorded]:
            self.reads += 1
            return await super().read(journal, after, limit)

    async def reads_of(watchers: int) -> int:
        stage, store = Stage(f"views-once-{watchers}"), Counting()
        stage.gate("ask")
        works = worker(stage, steps=3)
        async with (
            LocalEngine.open(store, [works]) as engine,
            opened(control := Control(store, engine), [works]) as house,
        ):
            run = await control.start(works, "work")
            state = await control.until(run, lambda state: bool(state.questions))
            everybody = [viewer(house, run) for _ in range(watchers)]
            async with anyio.create_task_group() as tasks:
                for one in everybody:
                    tasks.start_soon(one.until_ended, run)
                with anyio.fail_after(20):
                    while not all(one.views for one in everybody):  # noqa: ASYNC110
                        await anyio.sleep(0.01)
                await control.answer(run, next(iter(state.questions)), "fine")
            assert {one.views[run]["phase"] for one in everybody} == {"done"}
            return store.reads

    assert await reads_of(40) - await reads_of(1) <= 10, "not one each; a sweep or two may fall in"


async def test_when_who_does_the_work_leaves_another_goes_on(driving: Open) -> None:
    stage = Stage("views-lead")
    gate = stage.gate("look 1")
    works = worker(stage, steps=3)
    async with driving(works) as control, opened(control, [works]) as house:
        run = await control.start(works, "work")
        first, second = viewer(house, run), viewer(house, run)
        async with anyio.create_task_group() as tasks:
            async with anyio.create_task_group() as leader:
                leader.start_soon(first.until_ended, run)
                await _seen(first, run)
                tasks.start_soon(second.until_ended, run)
                await _seen(second, run)
                leader.cancel_scope.cancel()
            gate.set()
        expected = await folds(control, run)

    assert second.told["view"] == 1
    assert second.views[run] == expected[max(expected)]


async def _seen(one: Viewer, *journals: str) -> None:
    with anyio.fail_after(20):
        while not set(journals) <= set(one.views):  # noqa: ASYNC110 - nobody tells us
            await anyio.sleep(0.01)


async def _until(ready: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not ready():  # noqa: ASYNC110 - nobody tells us
            await anyio.sleep(0.01)


async def test_many_records_come_in_few_patches(driving: Open) -> None:
    stage = Stage("views-many")
    look = stage.reader()

    @agent(stage.name)
    async def hurries(run: Run) -> None:
        for n in range(300):
            await run.step(f"Look {n}", look, f"{n}")

    async with driving(hurries) as control, opened(control, [hurries]) as house:
        run = await control.start(hurries, "work")
        watcher = viewer(house, run)
        made: list[int] = []

        def ended(one: Viewer) -> bool:
            live = house.app.state.lives.of(run)
            made.append(live.version)
            return bool(one.views[run]["phase"] == "done")

        began = anyio.current_time()
        await watcher.until(ended)
        seconds = anyio.current_time() - began

    assert len(watcher.views[run]["steps"]) == 300
    assert watcher.told["patch"] <= seconds * 20 + 5
    assert made[-1] <= seconds * 20 + 5


async def cut_at_random(one: Viewer, run: str, chance: random.Random, cuts: list[int]) -> None:
    while True:
        done = False
        with anyio.move_on_after(chance.uniform(0, 0.4) if cuts[0] > 0 else 60) as cut:
            done = await one.until_ended(run)
        if done:
            return
        cuts[0] -= cut.cancelled_caught


async def test_who_is_cut_off_again_and_again_misses_nothing(driving: Open) -> None:
    stage, chance, cuts = Stage("views-cuts"), random.Random(3), [80]
    works = worker(stage, steps=20)
    async with driving(works) as control, opened(control, [works]) as house:
        run = await control.start(works, "work")
        everybody = [viewer(house, run) for _ in range(30)]
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for one in everybody:
                    tasks.start_soon(partial(cut_at_random, one, run, chance, cuts))
        expected = await folds(control, run)

    for one in everybody:
        assert not one.gaps
        assert one.views[run] == expected[max(expected)]
        assert all(view == expected[view["head"]] for _, view in one.history)
        names = [step["name"] for step in one.views[run]["steps"]]
        assert len(names) == len(set(names)) == 60


async def test_who_does_the_work_for_all_may_leave_between_taking_an_end_and_telling_it(
    driving: Open,
) -> None:
    works = worker(Stage("views-leaving"), steps=1)
    async with driving(works) as control:
        lives = Lives(control)
        for _ in range(20):
            run = await control.start(works, "work")
            with lives.watched(run, 1, lambda: None) as live, anyio.fail_after(10):
                async with anyio.create_task_group() as tasks:
                    first = await tasks.start(partial(_works_until_told, live))
                    tasks.start_soon(live.attend)
                    await control.ended(run)
                    first.cancel()
                    await _until(partial(_shows_the_end, live))
                    tasks.cancel_scope.cancel()


def _shows_the_end(live: Live) -> bool:
    return isinstance(live.sheet, RunSheet) and live.sheet.phase == "done"


async def _works_until_told(live: Live, *, task_status: TaskStatus[anyio.CancelScope]) -> None:
    with anyio.CancelScope() as scope:
        task_status.started(scope)
        await live.attend()


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
async def test_a_slow_reader_costs_nobody_else_and_gets_it_all_when_it_comes_back(
    driving: Open,
) -> None:
    stage = Stage("views-slow")
    works = worker(stage, steps=30)
    async with (
        driving(works) as control,
        opened(control, [works], pace=Pace(stall_s=2), sndbuf=4096) as house,
    ):
        run = await control.start(works, "work " + "x" * 400_000)
        slow, quick = viewer(house, run), viewer(house, run)
        with anyio.fail_after(60):
            async with slow.connected():  # first, so the work is its to do; and reads nothing
                await anyio.sleep(0.1)
                await quick.until_ended(run)
                await _until(lambda: not house.app.state.meter.streams)
            assert await slow.until_ended(run)
        expected = await folds(control, run)

    assert quick.views[run] == slow.views[run] == expected[max(expected)]
    assert slow.told["view"] == 1


async def test_what_a_step_says_comes_as_deltas_also_to_who_comes_late(driving: Open) -> None:
    stage = Stage("views-text")

    async def tell() -> str:
        emit("one ")
        await stage.gate("more").wait()
        emit("two ")
        await stage.gate("end").wait()
        return "one two"

    speak = tool(effect="model", name=f"{stage.name}.tell")(tell)

    @agent(stage.name)
    async def talks(run: Run) -> None:
        await run.step("Tell", speak)

    async with driving(talks) as control, opened(control, [talks]) as house:
        run = await control.start(talks, "talk")
        early, late = viewer(house, run), viewer(house, run)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(early.until_ended, run)
            await _until(lambda: list(early.texts.values()) == ["one "])
            stage.gate("more").set()
            await _until(lambda: list(early.texts.values()) == ["one two "])
            tasks.start_soon(late.until_ended, run)
            await _until(lambda: list(late.texts.values()) == ["one two "])
            (running,) = early.views[run]["steps"]
            assert (running["status"], running["id"]) == ("running", next(iter(late.texts)))
            stage.gate("end").set()

    assert not early.gaps + late.gaps
    assert early.views[run]["steps"][0]["summary"] == "one two"


async def test_the_list_tells_of_runs_that_nobody_watches(driving: Open) -> None:
    stage = Stage("views-list")
    gate = stage.gate("look 0")
    works = worker(stage, steps=1)
    async with driving(works) as control, opened(control, [works]) as house:
        old = await control.start(works, "old")
        page = viewer(house, index=True)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(page.until, lambda viewer: False)
            await _until(lambda: old in page.rows and page.switches == [])
            new = await control.start(works, "new", title="A new one")
            await _until(lambda: page.rows.get(new, {}).get("phase") == "running")
            assert page.rows[new]["title"] == "A new one"
            gate.set()
            await _until(lambda: {page.rows[run]["phase"] for run in (old, new)} == {"done"})
            await _until(lambda: page.rows[new]["steps"] == 3)
            tasks.cancel_scope.cancel()
    assert not page.told["view"] + page.told["patch"]


async def test_the_list_tells_of_runs_that_another_process_has_begun(tmp_path: Path) -> None:
    stage = Stage("views-elsewhere")
    works = worker(stage, steps=1)
    async with (
        SqliteStore.open(tmp_path / "journals.db") as here,
        SqliteStore.open(tmp_path / "journals.db") as there,
        opened(Control(here), [works]) as house,
    ):
        page = viewer(house, index=True)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(page.until, lambda viewer: False)
            await _until(lambda: page.switches == [])
            run = await Control(there).start(works, "from elsewhere")
            await _until(lambda: run in page.rows)
            await Control(there).pause(run)
            await _until(lambda: page.rows[run]["phase"] == "paused")
            await Control(there).kill("all", who=Actor("olga", Role.OPERATOR))
            await _until(lambda: [s["scope"] for s in page.switches or []] == ["all"])
            tasks.cancel_scope.cancel()


async def test_a_kill_and_its_end_are_told_to_every_list(driving: Open) -> None:
    stage = Stage("views-kill")
    stage.gate("look 0")
    works = worker(stage, steps=1)
    async with (
        driving(works) as control,
        opened(control, [works]) as house,
        house.client(Role.OPERATOR) as http,
    ):
        run = await control.start(works, "work")
        await stage.until_begun("look 0")
        page = viewer(house, run, index=True)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(page.until, lambda viewer: False)
            await _seen(page, run)
            await http.post("/v1/operator/kill", json={"scope": "all", "reason": "lunch"})
            await _until(lambda: [s["reason"] for s in page.switches or []] == ["lunch"])
            await _until(lambda: page.rows[run]["phase"] == "killed")
            await _until(lambda: page.views[run]["phase"] == "killed")
            assert page.views[run]["ended_by"] == "the-operator"
            await http.post("/v1/operator/release", json={"scope": "all"})
            await _until(lambda: page.switches == [])
            tasks.cancel_scope.cancel()


async def test_a_thread_shows_what_is_said_and_how_its_runs_stand(driving: Open) -> None:
    stage = Stage("views-thread")
    gate = stage.gate("look 0")
    works = worker(stage, steps=1)
    async with driving(works) as control, opened(control, [works]) as house:
        run = await control.start(works, "work")
        thread = "t-" + run.removeprefix("r-")
        await stage.until_begun("look 0")
        page = viewer(house, thread)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(page.until, lambda viewer: False)
            await _seen(page, thread)
            sent = await control.send(thread, "hello", who=Actor("ann"))
            await _until(lambda: "hello" in [x["text"] for x in page.views[thread]["lines"]])
            assert [m["message"] for m in page.views[thread]["unread"]] == [sent.position]
            assert page.views[thread]["runs"][0]["phase"] == "running"
            gate.set()
            await _until(lambda: page.views[thread]["runs"][0]["phase"] == "done")
            tasks.cancel_scope.cancel()
        lines = plain(await control.transcript(thread))

    assert page.views[thread]["lines"] == lines


async def test_a_background_run_is_shown_as_it_stands(driving: Open) -> None:
    stage = Stage("views-child")
    gate = stage.gate("look 0")
    works = worker(stage, steps=1)

    @agent(f"{stage.name}-parent")
    async def parent(run: Run) -> Any:
        child = await run.spawn(works, "look around")
        return await child.result()

    async with driving(parent, works) as control, opened(control, [parent, works]) as house:
        run = await control.start(parent, "delegate")
        page = viewer(house, run)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(page.until_ended, run)
            await _seen(page, run)
            await _until(lambda: _background(page, run).get("phase") == "running")
            child = _background(page, run)
            assert (child["title"], child["ended_at"]) == ("look around", None)
            await control.pause(child["run"])
            await _until(lambda: _background(page, run)["phase"] == "paused")
            await control.resume(child["run"])
            gate.set()
        assert _background(page, run)["phase"] == "done"
        assert page.views[run]["steps"] == []


def _background(page: Viewer, run: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = page.views[run]["background"]
    return found[0] if found else {}


async def test_a_silent_view_says_that_it_lives(driving: Open) -> None:
    stage = Stage("views-silent")
    stage.gate("look 0")
    works = worker(stage, steps=1)
    async with (
        driving(works) as control,
        opened(control, [works], pace=Pace(heartbeat_s=0.05)) as house,
    ):
        run = await control.start(works, "work")
        await stage.until_begun("look 0")
        page = viewer(house, run)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(page.until, lambda viewer: False)
            await _until(lambda: page.comments >= 3)
            tasks.cancel_scope.cancel()
        await control.cancel(run)
        await control.ended(run)

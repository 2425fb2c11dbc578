"""How many bytes one caller can have stored, sent and kept."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec
import pytest
from msgspec.structs import replace

from midflight.agents import agent
from midflight.control import Control
from midflight.control.remote.remote_control import RemoteControl
from midflight.errors import InvalidRequest
from midflight.interfaces.http.access.quotas import Meter, Metrics, Quotas
from midflight.interfaces.http.event_streams import Pace, Streams
from midflight.interfaces.http.live_index import Index
from midflight.interfaces.http.live_journal import Live
from midflight.journal import events as e
from midflight.journal.phases import Role
from midflight.journal.record import Actor, Recorded
from midflight.run import Run
from midflight.stores.memory import MemoryStore
from midflight.stores.protocol import Query, Row
from midflight.stores.subscription import READ_FIRST, weight
from midflight.view import RunBook
from scenarios.conftest import Open
from server.house import PATIENT, opened

pytestmark = pytest.mark.anyio

ANN = Actor(by="ann")
MB = 1024 * 1024
LARGE = "x" * 250_000
T = "t-1"


@agent()
async def waits(run: Run) -> None:
    await run.ask("Well?")


async def waiting(control: Control) -> str:
    run = await control.start(waits, "work", thread=T, who=ANN)
    await control.until(run, lambda state: bool(state.questions))
    return run


async def stored(control: Control, journal: str) -> int:
    size, after = 0, 0
    while page := await control.store.read(journal, after=after):
        size += sum(len(msgspec.json.encode(record)) for record in page)
        after = page[-1].position
    return size


async def test_edits_of_one_message_do_not_grow_a_journal_without_end(driving: Open) -> None:
    async with driving(waits) as control:
        run = await waiting(control)
        at = (await control.send(T, "hello", who=ANN)).position
        with pytest.raises(InvalidRequest, match="go on in a new thread"):
            for number in range(200):
                await control.edit_message(T, at, f"{number}{LARGE}", who=ANN)

        assert await stored(control, T) < 20 * MB
        await control.edit_message(T, at, "short words are taken", who=ANN)
        stopped = await control.send(T, "stop", who=ANN)
        assert stopped.did == "paused"
        await control.cancel(run, who=ANN)
        await control.ended(run)


async def test_redirects_of_one_run_do_not_either(driving: Open) -> None:
    async with driving(waits) as control:
        run = await waiting(control)
        await control.pause(run, who=ANN)
        with pytest.raises(InvalidRequest, match="go on in a new thread"):
            for number in range(200):
                await control.redirect(run, f"{number}{LARGE}", resume=False, who=ANN)
        assert await stored(control, run) < 40 * MB  # what was delivered is told once more
        await control.cancel(run, who=ANN)
        await control.ended(run)


async def test_a_page_of_records_has_a_bounded_size_and_nothing_is_left_out(driving: Open) -> None:
    async with driving(waits) as control, opened(control, [waits]) as house:
        await waiting(control)
        at = (await control.send(T, "hello", who=ANN)).position
        for number in range(20):
            await control.edit_message(T, at, f"{number}{LARGE}", who=ANN)
        whole = await control.store.read(T)
        async with house.client(Role.VIEWER) as viewer:
            positions: list[int] = []
            after: int | None = 0
            while after is not None:
                page = await viewer.get(f"/v1/threads/{T}/records?limit=500&after={after}")
                assert len(page.content) < 1.5 * MB
                told = page.json()
                positions += [record["position"] for record in told["records"]]
                after = told["next"]
        assert positions == [record.position for record in whole]

        async with RemoteControl.open(house.url, house.tokens[Role.VIEWER]) as remote:
            assert len(await remote.store.read(T)) == len(whole)
            assert (await remote.store.load(T)).head == whole[-1].position


async def test_a_caller_who_sends_much_waits_and_can_still_stop(driving: Open) -> None:
    quotas = msgspec.structs.replace(PATIENT, bytes_per_s=1.0, bytes_burst=MB)
    async with driving(waits) as control, opened(control, [waits], quotas=quotas) as house:
        run = await waiting(control)
        async with house.client() as caller:
            answers = [
                await caller.post(f"/v1/threads/{T}/messages", json={"text": "😀" * 60_000})
                for _ in range(6)
            ]
            assert [answer.status_code for answer in answers] == [200] * 4 + [429] * 2
            assert answers[-1].json()["error"] == "too_much"
            assert answers[-1].json()["message"].count("Nothing was changed.") == 1
            assert "retry-after" in answers[-1].headers
            assert (await caller.post(f"/v1/runs/{run}/cancel")).status_code == 200
        await control.ended(run)
        assert len(await control.store.rows(Query(thread=T))) == 1


def test_what_is_kept_for_watchers_is_bounded_in_bytes() -> None:
    streams = Streams(Meter(Quotas(), lambda: 0.0), Metrics(), Pace())
    for position in range(1_000):
        event = e.RedirectRequested(who=ANN, text=LARGE)
        assert streams.encoded(Recorded("r-1", position, 0.0, event))
        assert sum(map(len, streams._encoded.values())) <= 17 * MB


def held(news: Any) -> int:
    """The bytes that lie there for a watcher."""
    return sum(weight(record.event) for record in news._backlog)


async def test_a_watcher_that_does_not_read_holds_few_bytes_and_misses_nothing(
    driving: Open,
) -> None:
    async with driving(waits) as control:
        await waiting(control)
        at = (await control.send(T, "hello", who=ANN)).position
        async with control.store.watch({T: at}) as news:
            for number in range(55):
                await control.edit_message(T, at, f"{number}{LARGE}", who=ANN)
            kept = held(news)
            assert kept < 7 * MB
            listening = aiter(news)
            told = [await anext(listening)]
            head = (await control.store.row(T)).head
            with anyio.fail_after(10):
                while told[-1].position < head:
                    told.append(await anext(listening))
                    kept = held(news)
                    assert kept < (READ_FIRST + 1) * len(LARGE), "more than the page it reads"
        assert [record.position for record in told] == list(range(at + 1, head + 1))


async def test_a_transcript_comes_in_pages_and_nothing_is_left_out(driving: Open) -> None:
    async with driving(waits) as control, opened(control, [waits]) as house:
        await waiting(control)
        for number in range(12):
            await control.send(T, f"{number}{LARGE}", who=ANN)
        whole = await control.transcript(T)
        async with house.client(Role.VIEWER) as viewer:
            positions: list[int] = []
            after: int | None = 0
            while after is not None:
                page = await viewer.get(f"/v1/threads/{T}/transcript?after={after}")
                assert len(page.content) < 1.5 * MB
                positions += [line["position"] for line in page.json()["lines"]]
                after = page.json()["next"]
        assert positions == [line.position for line in whole]
        async with RemoteControl.open(house.url, house.tokens[Role.VIEWER]) as remote:
            assert await remote.transcript(T) == whole


async def test_a_page_of_runs_has_a_bounded_size_and_none_is_left_out(driving: Open) -> None:
    async with driving(waits) as control, opened(control, [waits]) as house:
        started = [
            await control.start(waits, "work", title=f"{number}{LARGE}", who=ANN)
            for number in range(12)
        ]
        async with house.client(Role.VIEWER) as viewer:
            found: list[str] = []
            before = ""
            while before or not found:
                page = await viewer.get(f"/v1/runs?limit=500&before={before}")
                assert len(page.content) < 1.5 * MB
                found += [row["journal"] for row in page.json()["rows"]]
                before = page.json()["next"]
        assert sorted(found) == sorted(started)
        async with RemoteControl.open(house.url, house.tokens[Role.VIEWER]) as remote:
            assert len(await remote.runs()) == len(started)
        for run in started:
            await control.cancel(run)


def test_the_list_of_runs_that_is_kept_for_watchers_is_bounded_in_bytes() -> None:
    index = Index(Control(MemoryStore()), lambda _: None)
    for number in range(200):
        index._take([Row(f"r-{number}", "run", 1, title=LARGE)])
        assert sum(len(row.title) for _, row in index._rows.values()) <= 9 * MB
    assert index.since(0) is None  # who is so far behind is told to begin anew
    assert index.since(index.version - 1) is not None


async def test_changes_that_are_kept_for_slow_watchers_are_bounded_in_bytes(
    driving: Open,
) -> None:
    async with driving(waits) as control:
        run = await waiting(control)
        live = Live(control, run, 0)
        live.sheet = RunBook(run).sheet({})
        for version in range(40):
            before = replace(live.sheet, status=f"{version}{LARGE}")
            live.sheet = replace(live.sheet, status=f"{version} {LARGE}")
            assert len(live.since(version, before)) > len(LARGE)
        assert sum(map(len, live._patches.values())) < 5 * MB
        await control.cancel(run)

"""Connections that break: whenever it happens, an append is in the journal once or was refused."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import anyio
import pytest

from engines.link import all_have_left, let_nobody_else_in
from midflight.errors import StoreError, StoreUnavailable
from midflight.inputs import steady
from midflight.journal import events as e
from midflight.journal.record import Limits, Recorded
from midflight.stores.postgres import (
    PostgresStore,
    links,
    postgres_lease,
    postgres_news,
    postgres_server,
    postgres_writer,
)
from midflight.stores.postgres.postgres_lease import TTL_S
from midflight.stores.postgres.postgres_server import ANSWER_S, PATIENCE_S, SQL
from midflight.stores.protocol import Lease, Watch
from stores import programs
from stores.halfway import Connection, by_hand, not_committed, stores_wait
from stores.passing import let_pass
from stores.runs import (
    ANN,
    OLGA,
    RUN,
    Driver,
    ask,
    decision,
    names,
    pause,
    read_all,
    running,
    start,
    started,
)

pytestmark = [pytest.mark.postgres, pytest.mark.anyio]


class Proxy:
    """Stands between a store and its server, and breaks what passes when it is told to."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._pipes: set[asyncio.StreamWriter] = set()
        self._dead: set[asyncio.StreamWriter] = set()
        self.guests: set[asyncio.StreamWriter] = set()  # whoever was let in and has not left
        self.swallow = b""
        self.mute = b""
        self.tear = b""
        self.arrives = 0.0  # the part of a torn request that reaches the server
        self.flows = anyio.Event()
        self.flows.set()
        self.refuses = False

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses:
            writer.close()
            return
        self.guests.add(writer)
        self._pipes.add(writer)  # so that it is cut also while it is being passed on
        try:
            from_server, to_server = await asyncio.open_unix_connection(self._server)
            pair = [writer, to_server]
            self._pipes.update(pair)
            asked = [b""]
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._requests, reader, to_server, asked, pair)
                tasks.start_soon(self._answers, from_server, writer, asked, pair)
        finally:
            self.guests.discard(writer)

    async def _requests(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        asked: list[bytes],
        pair: list[asyncio.StreamWriter],
    ) -> None:
        while data := await self._read(reader):
            asked[0] = data
            if self.tear and self.tear in data:
                self.tear = b""
                writer.write(data[: int(len(data) * self.arrives)])
                break
            if pair[0] not in self._dead:
                writer.write(data)
        self._close(pair)

    async def _answers(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        asked: list[bytes],
        pair: list[asyncio.StreamWriter],
    ) -> None:
        while data := await self._read(reader):
            if self.swallow and self.swallow in asked[0]:
                self.swallow = b""  # the server has done it, and nobody will ever hear
                break
            if self.mute and self.mute in asked[0]:
                self.mute = b""  # as above, and nobody is told that nothing more will come
                self._dead.add(writer)
            if writer not in self._dead:
                writer.write(data)
        self._close(pair)

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        try:
            data = await reader.read(65536)
        except OSError:
            return b""
        await self.flows.wait()
        return data

    def _close(self, pair: list[asyncio.StreamWriter]) -> None:
        for pipe in pair:
            pipe.close()
            self._pipes.discard(pipe)

    def freeze(self) -> None:
        """Hold back every byte, until ``flows`` is set."""
        self.flows = anyio.Event()

    def flow_for_newcomers(self) -> anyio.Event:
        """Let new connections through. Those that are frozen wait for what is given back."""
        frozen, self.flows = self.flows, anyio.Event()
        self.flows.set()
        return frozen

    def fall_silent(self) -> None:
        """Nobody who is here hears or says anything any more; newcomers do."""
        self._dead |= self.guests

    def cut(self) -> None:
        """Break every connection there is."""
        self._close(list(self._pipes))


@pytest.fixture
async def proxy(postgres_address: str, tmp_path: Path) -> AsyncIterator[Proxy]:
    (folder,) = parse_qs(urlsplit(postgres_address).query)["host"]
    proxy = Proxy(f"{folder}/.s.PGSQL.5432")
    server = await asyncio.start_unix_server(proxy.accept, tmp_path / ".s.PGSQL.5432")
    yield proxy
    await let_nobody_else_in(server)
    server.close()
    proxy.flows.set()
    proxy.cut()
    await all_have_left(proxy.guests)


@pytest.fixture
def schema() -> str:
    return f"test_{uuid4().hex}"


@asynccontextmanager
async def through(tmp_path: Path, schema: str, **options: float) -> AsyncIterator[PostgresStore]:
    address = f"postgresql://postgres:@/postgres?host={tmp_path}"
    async with PostgresStore.open(address, schema=schema, **options) as store:  # type: ignore[arg-type]
        yield store


# ── an answer that never came ────────────────────────────────────────────────────────────────


async def test_an_append_whose_answer_was_lost_is_there_once(
    proxy: Proxy, tmp_path: Path, schema: str
) -> None:
    async with through(tmp_path, schema) as store:
        driver = await running(store)
        for number in range(5):
            proxy.swallow = b"step-"
            assert await driver.begins(f"step-{number}") == 4 + number
            assert not proxy.swallow

        assert names(await read_all(store, after=3)) == ["attempt.started"] * 5


@pytest.mark.parametrize("arrives", [0.0, 0.5], ids=["before", "in the middle of"])
async def test_an_append_cut_off_on_its_way_to_the_server_is_there_once(
    proxy: Proxy, tmp_path: Path, schema: str, arrives: float
) -> None:
    proxy.arrives = arrives
    async with through(tmp_path, schema) as store:
        driver = await running(store)
        for number in range(5):
            proxy.tear = b"step-"
            assert await driver.begins(f"step-{number}") == 4 + number
            assert not proxy.tear

        assert names(await read_all(store, after=3)) == ["attempt.started"] * 5


async def test_a_request_whose_answer_was_lost_is_there_once(
    proxy: Proxy, tmp_path: Path, schema: str
) -> None:
    async with through(tmp_path, schema) as store:
        await running(store)
        for number in range(3):
            proxy.swallow = b"limits.raised"
            request = e.LimitsRaised(who=ANN, key=f"k-{number}", limits=Limits(steps=9))
            assert (await ask(store, request)).position(RUN) == 4 + number
            assert not proxy.swallow

        assert names(await read_all(store, after=3)) == ["limits.raised"] * 3


async def test_a_start_whose_commit_was_not_answered_is_there_once(
    proxy: Proxy, tmp_path: Path, schema: str
) -> None:
    async with through(tmp_path, schema) as store:
        proxy.swallow = b"COMMIT"

        assert (await start(store)).position(RUN) == 1
        assert not proxy.swallow
        assert names(await read_all(store)) == ["run.created"]


async def test_a_kill_whose_commit_was_not_answered_lists_what_it_stopped(
    proxy: Proxy, tmp_path: Path, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_news, "POLL_S", 1000.0)  # nobody finds anything by polling
    async with through(tmp_path, schema) as store:
        driver = await running(store)
        attempt = await driver.begins()
        async with store.watch({RUN: 4}) as watch:
            proxy.swallow = b"COMMIT"

            killing = await store.kill("all", OLGA, "enough")

            assert not proxy.swallow
            assert killing.killed == {RUN: (attempt,)}
            with anyio.fail_after(20):
                assert names([await anext(aiter(watch))]) == ["run.killed"]
        assert names(await read_all(store, after=4)) == ["run.killed"]


# ── connections that break at any time ───────────────────────────────────────────────────────


async def test_whatever_breaks_every_acknowledged_append_is_there_once(
    proxy: Proxy, tmp_path: Path, schema: str
) -> None:
    acknowledged: dict[str, list[int]] = {f"r-{number}": [] for number in range(10)}
    stop = anyio.Event()
    async with through(tmp_path, schema) as store:
        drivers = [await running(store, run) for run in acknowledged]

        async def work(number: int) -> None:
            driver = drivers[number]
            while not stop.is_set():
                guard = e.GuardSet(epoch=1, name="file", kind="file", fingerprint="")
                done = await driver.decides(guard)
                acknowledged[driver.run].append(done.position(driver.run))

        async def break_things() -> None:
            for _ in range(12):
                await anyio.sleep(0.08)
                proxy.cut()
            stop.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(break_things)
            for number in range(10):
                tasks.start_soon(work, number)

        for run, positions in acknowledged.items():
            assert positions
            assert [r.position for r in await read_all(store, run, 3)] == positions


async def test_a_server_that_stays_away_is_reported_and_the_append_may_be_repeated(
    proxy: Proxy, tmp_path: Path, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with through(tmp_path, schema) as store:
        await running(store)
        append = decision(RUN, 3, started("send"))
        proxy.refuses = True
        proxy.tear = b"send"

        with monkeypatch.context() as impatient:
            impatient.setattr(links, "PATIENCE_S", 0.3)
            impatient.setattr(postgres_writer, "PATIENCE_S", 0.3)
            with pytest.raises(
                StoreUnavailable, match=r"not known whether .* same append id may"
            ) as refused:
                await store.append(append)
            assert refused.value.unsure  # so that programs are not told that nothing was changed
            proxy.cut()
            with pytest.raises(StoreUnavailable, match="cannot be reached"):
                await store.read(RUN)

        proxy.refuses = False
        await store.append(append)
        assert names(await read_all(store, after=3)) == ["attempt.started"]


async def test_what_was_never_sent_has_changed_nothing(
    proxy: Proxy, tmp_path: Path, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (links, postgres_writer):
        monkeypatch.setattr(module, "PATIENCE_S", 0.3)
    async with through(tmp_path, schema) as store:
        await running(store)
        proxy.refuses = True
        for link in store._links:
            link.drop()

        with pytest.raises(StoreUnavailable, match="Nothing was changed") as refused:
            await store.append(decision(RUN, 3, started("send")))
        assert not refused.value.unsure


@pytest.mark.slow
async def test_of_a_batch_that_was_not_answered_nobody_is_told_that_nothing_was_changed(
    proxy: Proxy,
    tmp_path: Path,
    postgres_address: str,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also when it was taken apart afterwards, and each append alone was refused."""
    monkeypatch.setattr(links, "PATIENCE_S", 4.0)
    monkeypatch.setitem(postgres_server.SETTINGS, "lock_timeout", "1min")
    told: list[StoreError] = []
    async with through(tmp_path, schema) as store:
        alone, first, *others = [await running(store, f"r-{number}") for number in range(5)]

        async def begins(driver: Driver) -> None:
            try:
                await driver.begins("step")
            except StoreError as error:
                told.append(error)

        hold = "SELECT FROM journals WHERE journal = $1 FOR UPDATE"
        hold_all_but = "SELECT FROM journals WHERE kind = 'run' AND journal <> $1 FOR UPDATE"
        async with (
            not_committed(postgres_address, schema, hold_all_but, first.run),
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(begins, alone)
            assert await stores_wait(postgres_address, 1)
            async with not_committed(postgres_address, schema, hold, first.run):
                tasks.start_soon(begins, first)
                assert await stores_wait(postgres_address, 2)
                for driver in others:
                    tasks.start_soon(begins, driver)
                with anyio.fail_after(20):
                    while len(store._appender.writer._queue) < len(others):  # noqa: ASYNC110
                        await anyio.sleep(0.01)
            with anyio.fail_after(20):
                while store._appender.writer._queue:  # noqa: ASYNC110 - they are a batch now
                    await anyio.sleep(0.01)
            assert await stores_wait(postgres_address, 2)
            monkeypatch.setitem(postgres_server.SETTINGS, "lock_timeout", "200ms")
            proxy.cut()

    assert [error.unsure for error in told] == [True] * (1 + len(others))


async def test_a_release_whose_answer_was_lost_is_told_as_done(
    proxy: Proxy, tmp_path: Path, schema: str
) -> None:
    async with through(tmp_path, schema) as store:
        await store.kill("agent:lost", OLGA)
        proxy.swallow = b"agent:lost"

        assert await store.release("agent:lost", OLGA)
        assert not proxy.swallow
        assert not await store.release("agent:lost", OLGA)


async def test_a_server_that_falls_silent_is_taken_for_lost(
    proxy: Proxy, tmp_path: Path, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "MIND_S", 0.05)
    async with through(tmp_path, schema) as store:
        driver = await running(store)
        proxy.freeze()

        silent: list[anyio.Event] = []

        async def let_its_time_pass() -> None:
            await anyio.sleep(0.3)
            silent.append(proxy.flow_for_newcomers())  # whoever connects anew is heard
            for link in store._links:
                link._overdue = min(link._overdue, 0.0)

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(let_its_time_pass)
                with anyio.fail_after(20):
                    assert await driver.begins() == 4
        finally:
            for event in silent:
                event.set()

        assert names(await read_all(store, after=3)) == ["attempt.started"]


# ── connections that die and say nothing, while new ones are answered ───────────────────────


@pytest.mark.slow
async def test_what_is_read_over_a_dead_connection_is_read_over_another(
    proxy: Proxy, tmp_path: Path, schema: str
) -> None:
    async with through(tmp_path, schema) as store:
        await running(store)
        for _ in range(2):  # the second time over connections of which none is answered
            async with anyio.create_task_group() as all_at_once:
                for _ in range(8):
                    all_at_once.start_soon(store.now)
                all_at_once.start_soon(store.read, RUN)
                all_at_once.start_soon(store.ready)
            proxy.fall_silent()


@pytest.mark.slow
async def test_a_dead_connection_does_not_keep_a_process_from_hearing_of_a_stop(
    proxy: Proxy, tmp_path: Path, postgres_address: str, schema: str
) -> None:
    async with (
        through(tmp_path, schema) as store,
        PostgresStore.open(postgres_address, schema=schema) as elsewhere,
    ):
        await running(elsewhere)
        await know_of_each_other(store, elsewhere)
        async with store.watch({RUN: 3}) as watch:
            proxy.fall_silent()
            await pause(elsewhere)
            with anyio.fail_after(PATIENCE_S - 2):
                assert names([await anext(aiter(watch))]) == ["pause.requested"]


@pytest.mark.slow
@pytest.mark.parametrize("what", ["decision", "request", "start"])
async def test_what_was_committed_over_a_connection_that_then_died_is_there_once(
    proxy: Proxy, tmp_path: Path, schema: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_writer, "ANSWER_S", 0.5)
    async with through(tmp_path, schema) as store:
        if what == "start":
            proxy.mute = b"COMMIT"
            assert (await start(store)).position(RUN) == 1
        elif what == "request":
            await running(store)
            proxy.mute = b"pause.requested"
            assert (await pause(store)).position(RUN) == 4
        else:
            driver = await running(store)
            proxy.mute = b"step-"
            assert await driver.begins("step-1") == 4
        assert not proxy.mute

        told = names(await read_all(store))
        assert told[-1] == {"start": "run.created", "request": "pause.requested"}.get(
            what, "attempt.started"
        )
        assert len(told) == len(set(told))


@pytest.mark.slow
async def test_what_was_only_slow_and_is_sent_again_meanwhile_is_there_once(
    postgres_address: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(postgres_server.SETTINGS, "lock_timeout", "1min")
    async with PostgresStore.open(postgres_address, schema=schema) as store:
        driver = await running(store)
        hold = "SELECT FROM journals WHERE journal = $1 FOR UPDATE"
        async with (
            anyio.create_task_group() as tasks,
            not_committed(postgres_address, schema, hold, RUN),
        ):
            tasks.start_soon(driver.begins)
            tasks.start_soon(pause, store)
            await anyio.sleep(ANSWER_S + 2)  # by now another connection waits for the same

        told = names(await read_all(store, after=3))
        assert sorted(told) == ["attempt.started", "pause.requested"]


async def test_a_watcher_catches_up_after_its_connection_was_lost(
    postgres_address: str, proxy: Proxy, tmp_path: Path, schema: str
) -> None:
    async with (
        through(tmp_path, schema) as here,
        PostgresStore.open(postgres_address, schema=schema) as there,
    ):
        driver = await running(there)
        async with here.watch({RUN: 3}) as watch:
            records = aiter(watch)
            await driver.begins("one")
            assert (await anext(records)).position == 4
            proxy.cut()
            await driver.begins("two")
            await pause(there)
            with anyio.fail_after(20):
                assert [(await anext(records)).position for _ in range(2)] == [5, 6]


async def test_a_driver_that_cannot_renew_its_lease_knows_it_before_anybody_takes_over(
    postgres_address: str,
    proxy: Proxy,
    tmp_path: Path,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with (
        through(tmp_path, schema) as cut_off,
        by_hand(postgres_address, schema) as connection,
        PostgresStore.open(postgres_address, schema=schema) as other,
        cut_off.lease("d-1") as lease,
    ):
        assert lease.held
        proxy.freeze()
        assert await stops_before_it_is_over(lease, connection, monkeypatch)
        looks: list[tuple[bool, bool]] = []
        with anyio.fail_after(40):
            while not (looks and looks[-1][0]):
                gone = await other.lease_gone("d-1")  # first: what is gone stays gone
                looks.append((gone, lease.held))
                let_pass(monkeypatch, 0.5)
                await connection.execute(PASS, 0.5)

        assert looks[0] == (False, True)
        assert (True, True) not in looks
        proxy.flows.set()
        let_pass(monkeypatch, TTL_S / 3)
        with anyio.fail_after(40):
            while (await other.lease_gone("d-1"), lease.held) != (False, True):  # noqa: ASYNC110
                await anyio.sleep(0.05)


async def test_a_lease_that_is_lost_is_told_of_once_and_so_is_that_it_is_held_again(
    proxy: Proxy, tmp_path: Path, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="midflight")

    def said() -> list[tuple[str, str]]:
        told = [(vars(r).get("action", ""), vars(r).get("driver", "")) for r in caplog.records]
        return [(action, driver) for action, driver in told if action.startswith("lease")]

    async with through(tmp_path, schema, lease_s=0.6) as store, store.lease("d-1") as lease:
        assert said() == []
        proxy.refuses = True
        proxy.cut()
        with anyio.fail_after(20):
            while not said():  # noqa: ASYNC110 - a log tells nobody
                await anyio.sleep(0.02)
            await anyio.sleep(0.6)
            assert lease.held is False
            proxy.refuses = False
            while len(said()) < 2:  # noqa: ASYNC110
                await anyio.sleep(0.02)

        assert said()[:2] == [("lease_lost", "d-1"), ("lease_held", "d-1")]


PASS = "UPDATE leases SET expires_at = expires_at - $1::double precision"
"""As if the server's clock had gone on for so long."""
MOMENT_S = 0.5  # of a lease of ten seconds


async def stops_before_it_is_over(
    lease: Lease, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> bool:
    """Whether its driver gives it up a moment before others may take what it drives."""
    left = "SELECT expires_at - clock() FROM leases"
    with anyio.move_on_after(20):
        while True:
            asked = steady()
            over = asked + await connection.fetchval(left)  # or later, by what the answer took
            with monkeypatch.context() as just_before:
                just_before.setattr(postgres_lease, "steady", lambda at=over: at - MOMENT_S)
                if not lease.held:
                    return True
    return False


async def test_what_another_process_decided_is_heard_in_a_moment(
    postgres_address: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_news, "POLL_S", 1000.0)  # nobody finds anything by polling
    async with (
        PostgresStore.open(postgres_address, schema=schema) as here,
        PostgresStore.open(postgres_address, schema=schema) as there,
    ):
        driver = await running(there)
        await know_of_each_other(here, there)
        async with here.watch({RUN: 3}) as watch:
            records = aiter(watch)
            for number in range(5):
                await driver.begins(f"step-{number}")
                with anyio.fail_after(20):
                    assert (await anext(records)).position == 4 + number


async def test_what_a_process_wrote_and_could_not_tell_is_found_by_looking(
    postgres_address: str, schema: str
) -> None:
    address = f"{postgres_address}{'&' if '?' in postgres_address else '?'}schema={schema}"
    async with (
        PostgresStore.open(postgres_address, schema=schema) as here,
        here.watch({RUN: 0}) as watch,
    ):
        with programs.started("silent.py", address, RUN) as silent, anyio.fail_after(40):
            heard = [record.position async for record in _first(watch, 4)]
            assert await anyio.to_thread.run_sync(silent.wait) == -signal.SIGKILL

    assert heard == [1, 2, 3, 4]


async def know_of_each_other(one: PostgresStore, other: PostgresStore) -> None:
    """From then on what one of them decides is told to the other."""
    channel, alone = one._server.channel, True
    with anyio.fail_after(20):
        while alone or one._appender.news._alone or other._appender.news._alone:
            alone = await one._pool.do(lambda c: c.fetchval(SQL["alone"], channel))
            await anyio.sleep(0.05)  # whoever has seen nobody hears of the newcomer


async def _first(watch: Watch, count: int) -> AsyncIterator[Recorded]:
    records = aiter(watch)
    for _ in range(count):
        yield await anext(records)


async def test_two_who_open_at_the_same_time_hear_each_other(
    postgres_address: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_news, "POLL_S", 1000.0)  # nobody finds anything by polling
    async with PostgresStore.open(postgres_address, schema=schema) as here:
        driver = await running(here)
        with anyio.fail_after(20):
            while not here._appender.news._alone:  # noqa: ASYNC110 - and tells nobody any more
                await anyio.sleep(0.01)
        async with (
            PostgresStore.open(postgres_address, schema=schema) as there,
            there.watch({RUN: 2}) as watch,
        ):
            records = aiter(watch)
            assert (await anext(records)).position == 3  # from here on it must be told
            await know_of_each_other(here, there)
            await driver.begins()
            with anyio.fail_after(20):
                assert (await anext(records)).position == 4

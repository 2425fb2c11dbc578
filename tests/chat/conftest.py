"""A bot on the stand-in of Discord, with a real engine, a real store and a scripted model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import pytest
from typing_extensions import override

from chat.guild import User
from chat.person import Person
from chat.stand_in import TOKEN, StandIn, standing_in
from midflight.agents import Agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.errors import StoreBusy
from midflight.interfaces.chat.channel import People
from midflight.interfaces.chat.discord_bot import serve
from midflight.journal.record import Recorded
from midflight.journal.threads.front import open_messages
from midflight.journal.threads.thread import ThreadState
from midflight.stores.protocol import PAGE, Query, Row, Store
from midflight.stores.sqlite import SqliteStore
from scenarios.conftest import failed_drivers

STORY_S = 50.0
Talking = Callable[..., AbstractAsyncContextManager[Control]]

ANN = User("1000000000000000011", "ann")
BOB = User("1000000000000000012", "bob", roles=("31",))
EVE = User("1000000000000000013", "eve", roles=("32",))
OPS = User("1000000000000000014", "ops")
MALLORY = User("1000000000000000066", "mallory")
ALLOWED = People.listed(
    [f"{ANN.id}=controller", f"{OPS.id}=olga:operator"], ["31=controller", "32=viewer"]
)


class MoodyStore(SqliteStore):
    """A real store on a bad day: it can be made to answer no question, or to be busy."""

    stalled: anyio.Event | None = None
    busy = False

    @override
    async def read(self, journal: str, after: int = 0, limit: int = PAGE) -> list[Recorded]:
        await self._mood()
        return await super().read(journal, after, limit)

    @override
    async def rows(self, query: Query) -> list[Row]:
        await self._mood()
        return await super().rows(query)

    async def _mood(self) -> None:
        if self.busy:
            raise StoreBusy("the store is busy. Nothing was changed.")
        if self.stalled is not None:
            await self.stalled.wait()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[MoodyStore]:
    async with MoodyStore.open(tmp_path / "journals.db") as opened:
        yield opened


@pytest.fixture
async def discord(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StandIn]:
    monkeypatch.setattr(
        "midflight.interfaces.chat.discord_interactions.FORM_S", 20.0
    )  # a machine may be busy
    async with standing_in() as service:
        yield service


@pytest.fixture
def ann(discord: StandIn) -> Person:
    return Person(discord, ANN)


@pytest.fixture
def bob(discord: StandIn) -> Person:
    return Person(discord, BOB)


@pytest.fixture
def eve(discord: StandIn) -> Person:
    return Person(discord, EVE)


@pytest.fixture
def driving(store: Store, tmp_path: Path) -> Talking:
    """Drive an agent, for as long as the block runs; bots may come and go meanwhile."""

    @asynccontextmanager
    async def open_engine(agent: Agent) -> AsyncIterator[Control]:
        work = tmp_path / "work"
        async with LocalEngine.open(store, [agent], workdir=work, sweep_s=0.05) as engine:
            with anyio.fail_after(STORY_S):
                yield Control(store, engine)

    return open_engine


@pytest.fixture
def talking(
    driving: Talking, discord: StandIn, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> Talking:
    """Drive an agent and be on Discord with it, for as long as the block runs."""

    @asynccontextmanager
    async def open_bot(agent: Agent) -> AsyncIterator[Control]:
        async with driving(agent) as control, on_discord(control, agent, discord, tmp_path):
            yield control
        assert failed_drivers(caplog) == []
        assert [r.getMessage() for r in caplog.records if r.levelname == "ERROR"] == []

    return open_bot


@asynccontextmanager
async def on_discord(
    control: Control, agent: Agent, discord: StandIn, folder: Path
) -> AsyncIterator[None]:
    """A bot, until the block ends. It is ready when the block begins."""
    before = discord.gateway.identified

    async def serving() -> None:
        await serve(
            control,
            agent,
            token=TOKEN,
            people=ALLOWED,
            folder=folder / "chats",
            workdir=folder / "work",
        )

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serving)
        await discord.until(lambda: discord.gateway.identified > before)
        yield
        tasks.cancel_scope.cancel()


async def until_chosen(control: Control, thread: str) -> None:
    """Wait until it is known of every message what is done about it."""
    with anyio.fail_after(20):
        while True:
            talk = await control.store.load(thread)
            assert isinstance(talk, ThreadState)
            if not open_messages(talk):
                return
            await anyio.sleep(0.02)

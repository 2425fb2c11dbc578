"""When a driver fails: its run is taken up again, and its neighbours do not notice."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from typing_extensions import override

from midflight.agents import agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.errors import JournalNotFound, StoreFull
from midflight.journal.phases import Phase
from midflight.journal.record import Recorded
from midflight.run import Run
from midflight.stores.memory import MemoryStore
from midflight.stores.protocol import PAGE, Append, Committed
from scenarios.conftest import failed_drivers
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio


class Full(MemoryStore):
    """Has no space for some runs, or something else is the matter, a few times."""

    def __init__(self, trouble: type[Exception]) -> None:
        super().__init__()
        self.refuses: dict[str, int] = {}
        self._trouble = trouble

    @override
    async def append(self, decision: Append) -> Committed:
        for entry in decision.entries:
            if self.refuses.get(entry.journal, 0) > 0:
                self.refuses[entry.journal] -= 1
                raise self._trouble("nothing was appended.")
        return await super().append(decision)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trouble", "failures"),
    [(StoreFull, 0), (RuntimeError, 2)],  # types: a raised one would keep the driver alive
    ids=["a full disk is waited for", "a driver that fails is followed by another"],
)
async def test_the_trouble_of_one_run_is_not_that_of_its_neighbours(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, trouble: type[Exception], failures: int
) -> None:
    stage, store = Stage("trouble"), Full(trouble)
    make, look = stage.writer(), stage.reader()
    stage.gate("slow")

    @agent()
    async def clerk(run: Run) -> object:
        await run.step("Make", make, run.brief)
        return await run.step("Read", look, "slow")

    async with LocalEngine.open(store, [clerk], workdir=tmp_path, sweep_s=0.05) as engine:
        control = Control(store, engine)
        unlucky, neighbour = [await control.start(clerk, name) for name in ("a", "b")]
        for run in (unlucky, neighbour):
            await control.until(run, lambda state: len(state.effects) > len(state.open))
        store.refuses[unlucky] = 2
        await control.pause(unlucky)
        with anyio.fail_after(5):
            await control.until(unlucky, lambda state: state.phase is Phase.PAUSED)
            await control.cancel(unlucky)
            assert (await control.ended(unlucky)).phase is Phase.CANCELLED
            stage.gate("slow").set()
            assert await control.result(neighbour) == "SLOW"
    assert len(failed_drivers(caplog)) == failures
    assert sorted(stage.done) == ["a", "b", "slow", "undone a"]


class Lacking(MemoryStore):
    """Says of another journal than the one that is driven that it is not there."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = anyio.Event()

    @override
    async def read(self, journal: str, after: int = 0, limit: int = PAGE) -> list[Recorded]:
        if not self.asked.is_set():
            self.asked.set()
            raise JournalNotFound("r-other")
        return await super().read(journal, after=after, limit=limit)


async def test_a_driver_that_misses_another_journal_than_its_own_does_not_fail_in_silence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its own may have been purged, and then nothing is left to be told."""
    store = Lacking()

    @agent("misses")
    async def clerk(run: Run) -> str:
        return "done"

    async with LocalEngine.open(store, [clerk], workdir=tmp_path, sweep_s=0.05) as engine:
        control = Control(store, engine)
        with anyio.fail_after(5):
            run = await control.start(clerk, "work")
            await store.asked.wait()
            assert await control.result(run) == "done"

    assert "r-other" in str(failed_drivers(caplog))

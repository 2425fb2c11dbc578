"""``midflight show`` of a long run: folded lists on a screen or two, and all of it when asked."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from cli.scene import Scene
from midflight.journal import events as e
from midflight.journal.phases import Outcome
from midflight.stores.sqlite import SqliteStore
from stores.runs import RUN, cancel, drive, open_thread, outcome, start, started, tell

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
STEPS, EFFECTS = 2_000, 300
BROKEN = 777


async def long_run(path: Path, *, ended: bool) -> None:
    """Many reads, one of which has failed, then many effects; cancelled, or in the middle."""
    async with SqliteStore.open(path) as store, store.lease("d-1"):
        await open_thread(store)
        await start(store, brief="Count all of it")
        driver = await drive(store)
        await driver.enters()
        reads = [
            e.StepSettled(
                epoch=1,
                step=f"n{number}",
                name=f"Count {number}",
                error="out of paper" if number == BROKEN else "",
            )
            for number in range(1, STEPS + 1)
        ]
        await driver.decides(*reads)
        for number in range(1, EFFECTS + 1) if ended else ():
            await driver.decides(started(f"pay{number}", noun=f"payment {number}"))
            how = Outcome.UNKNOWN if number == 150 else Outcome.DONE
            await tell(store, outcome(driver.state.head, how))
            await driver.reads_again()
        if not ended:
            await driver.decides(e.PlanSet(epoch=1, steps=tuple(f"Pay {n}" for n in range(500))))
            return
        await cancel(store)
        await driver.reads_again()
        await driver.decides(e.RunFinished(epoch=1, outcome="cancelled"))


def test_a_long_run_is_folded_and_what_needs_a_look_is_not_hidden(tmp_path: Path) -> None:
    anyio.run(lambda: long_run(tmp_path / "m.db", ended=True))
    scene = Scene(tmp_path, "--store", "m.db")

    told = scene.said("show", RUN)

    assert len(told.splitlines()) < 110
    assert "✓ Count 1 " in told
    assert "… 771 more steps (--all)" in told
    assert "out of paper" in told
    assert "payment 300: kept" in told
    assert "payment 150: unknown" in told
    assert "more effects (--all)" in told
    whole = scene.said("show", RUN, "--all")
    assert len(whole.splitlines()) > STEPS + 2 * EFFECTS
    assert "more steps" not in whole
    assert len(scene.json("show", RUN)["steps"]) == STEPS + EFFECTS


def test_of_a_long_run_at_work_the_current_step_is_shown_with_its_neighbours(
    tmp_path: Path,
) -> None:
    anyio.run(lambda: long_run(tmp_path / "m.db", ended=False))

    told = Scene(tmp_path, "--store", "m.db").said("show", RUN)

    assert "Count 2000" in told
    assert "Pay 0 " in told
    assert "Pay 2 " in told
    assert "Pay 3 " not in told
    assert "Pay 499" in told

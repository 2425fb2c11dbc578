"""Of a run whose driver is gone every store says that nobody drives it, and its clock stops."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from midflight.control import Control
from midflight.interfaces.agui.agui_state import snapshot
from midflight.interfaces.chat.run_posts import Standing, status
from midflight.interfaces.http.live_index import Index
from midflight.interfaces.http.live_journal import Live, Lives
from midflight.interfaces.http.responses import view_of
from midflight.interfaces.terminal import looks
from midflight.journal import events as e
from midflight.journal.phases import Role
from midflight.journal.record import Actor, Limits
from midflight.journal.status import place
from midflight.stores.protocol import Store
from midflight.view import RunBook, RunSheet
from midflight.view.shown_values import elapsed
from stores.runs import RUN, claim, drive, open_thread, pause, read_all, run_state, start, started

pytestmark = pytest.mark.anyio


async def abandoned(store: Store) -> None:
    """A run in the middle of a step whose driver has lost its lease without a word."""
    await open_thread(store)
    await start(store, limits=Limits(seconds=60.0))
    async with store.lease("d-1"):
        driver = await drive(store)
        await driver.enters()
        await driver.decides(started("send"))


def control_of(store: Store) -> Control:
    return Control(store, who=Actor("olga", Role.OPERATOR))


async def book_of(store: Store) -> RunBook:
    book = RunBook(RUN)
    for record in await read_all(store):
        book.take(record)
    book.undriven(await control_of(store).undriven_since(book.state))
    return book


async def test_the_list_of_runs_says_which_of_them_nobody_drives(store: Store) -> None:
    await start(store, limits=Limits(seconds=60.0))
    control = control_of(store)
    async with store.lease("d-1"):
        driver = await drive(store)
        await driver.enters()
        assert [row.undriven for row in await control.runs()] == [False]

    assert [row.undriven for row in await control.runs()] == [True]
    async with store.lease("d-2"):
        await claim(store, driver="d-2")
        assert [row.undriven for row in await control.runs()] == [False]


async def test_a_run_that_rests_or_has_not_begun_needs_nobody(store: Store) -> None:
    await start(store)
    control = control_of(store)
    assert [row.undriven for row in await control.runs()] == [False]

    async with store.lease("d-1"):
        driver = await drive(store)
        await driver.enters()
        await pause(store)
        await driver.reads_again()
        await driver.decides(e.Paused(epoch=driver.epoch, upto=driver.state.head))

    assert [row.undriven for row in await control.runs()] == [False]
    assert await control.undriven_since(await run_state(store)) is None


async def test_its_view_says_so_and_its_clock_stands_still(store: Store) -> None:
    await abandoned(store)
    state = await run_state(store)

    view = await view_of(control_of(store), RUN)

    assert view.undriven_since == state.driven_at
    assert view.status.startswith("nobody drives this, for ")
    (seconds,) = view.meters
    assert state.moving_since is not None
    assert seconds.used == view.spent.seconds == state.driven_at - state.moving_since


async def test_its_sheet_says_what_was_cut_off_and_counts_no_further(store: Store) -> None:
    await abandoned(store)
    book = await book_of(store)

    sheet = book.sheet()

    assert sheet.undriven_since == book.state.driven_at
    assert [(step.name, step.status, step.word) for step in sheet.steps] == [
        ("send", "lost", "Cut off")
    ]
    assert elapsed(sheet, sheet.updated_at + 3600) == sheet.spent.seconds < 60


async def test_every_door_says_it_in_words_or_as_a_field(store: Store) -> None:
    await abandoned(store)
    book = await book_of(store)
    sheet, state = book.sheet(), book.state

    assert looks.headline(sheet) == (
        "Nobody drives this",
        "It was running; it goes on when a process with agent clerk runs",
    )
    chat = status(Standing(sheet, place(state), sheet.updated_at + 3600), [])
    assert chat.text.startswith("∅ **Nobody drives this** Send the invoices — It was running;")
    shown = snapshot(state, None, {}, sheet.undriven_since)
    assert shown["undrivenSince"] == sheet.undriven_since
    assert shown["spend"]["movingSince"] is None
    answer = await control_of(store).send(RUN, "hello?")
    assert answer.status.startswith("nobody drives this, for ")


async def test_the_next_driver_counts_from_its_claim(store: Store) -> None:
    await abandoned(store)
    before = await run_state(store)
    async with store.lease("d-2"):
        await claim(store, driver="d-2")

    state = await run_state(store)

    assert before.moving_since is not None
    assert state.spent.seconds == before.driven_at - before.moving_since
    assert state.moving_since == state.driven_at > before.driven_at


async def test_whoever_watches_the_page_is_told_without_a_record(store: Store) -> None:
    await start(store)
    control = control_of(store)
    lives = Lives(control)
    async with store.lease("d-1"):
        driver = await drive(store)
        await driver.enters()
        with lives.watched(RUN, driver.state.head, lambda: None) as live:
            await _until(live, lambda sheet: sheet.undriven_since is None)
    with lives.watched(RUN, driver.state.head, lambda: None) as live:
        await _until(live, lambda sheet: sheet.undriven_since is not None)


async def test_the_live_list_of_runs_is_told_without_a_record(store: Store) -> None:
    await abandoned(store)
    index = Index(control_of(store), lambda row: None)

    index._take(await index.shown())
    index._take([(await store.row(RUN))])  # as the list had it while its driver lived
    await index._look_at_drivers()

    (told,) = index.since(0) or []
    assert told.undriven


async def _until(live: Live, ready: Callable[[RunSheet], bool]) -> None:
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(live.attend)
            while not (isinstance(live.sheet, RunSheet) and ready(live.sheet)):  # noqa: ASYNC110
                await anyio.sleep(0.02)
            tasks.cancel_scope.cancel()

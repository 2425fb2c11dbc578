"""A look that swallows every cancel is left behind: it keeps no effect, no cancel and no undo."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from midflight.agents import agent
from midflight.control import Control
from midflight.guards import Fingerprint
from midflight.journal.phases import Phase
from midflight.run import Run
from midflight.runtime.replay import staleness
from midflight.runtime.steps import side_calls
from midflight.runtime.steps import undo as undoing
from midflight.tools.declaration import tool
from midflight.tools.options import EffectRecord
from scenarios.conftest import Open

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("store", ["memory"], indirect=True),
]

IN_TIME_S = 5


class Look:
    """Sees the same each time; once it is ``deaf`` it never ends, and counts its rounds."""

    def __init__(self, *, deaf: bool) -> None:
        self.deaf = deaf
        self.rounds = 0
        self.begun = anyio.Event()

    async def __call__(self, *_: EffectRecord) -> str:
        while self.deaf:
            self.rounds += 1
            self.begun.set()
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                continue
        return "as it was"


@pytest.fixture(autouse=True)
def _looks_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_calls, "LOOK_S", 0.1)
    monkeypatch.setattr(side_calls, "HURRY_S", 0.1)
    monkeypatch.setattr(staleness, "LOOK_S", 0.1)
    monkeypatch.setattr(staleness, "STOPS_S", 0.1)
    monkeypatch.setattr(undoing, "PAUSE_S", 0.01)


async def lines(control: Control, run: str) -> list[str]:
    return [line.text for line in (await control.receipt(run)).lines]


async def undo(_: EffectRecord) -> None: ...


@pytest.mark.parametrize("now", [False, True])
async def test_a_deaf_leaves_keeps_no_cancel(
    driving: Open, monkeypatch: pytest.MonkeyPatch, now: bool
) -> None:
    monkeypatch.setattr(side_calls, "LOOK_S", 3600.0 if now else 0.1)
    look = Look(deaf=True)

    @tool(name=f"looks.cancel-{now}", label="letter", undo=undo, fingerprint=look, stops_within=0.1)
    async def make() -> None: ...

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make", make)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await look.begun.wait()
        await control.cancel(run, now=now)
        with anyio.fail_after(IN_TIME_S):
            assert (await control.ended(run)).phase is Phase.CANCELLED
        (line,) = await lines(control, run)
        assert line.startswith("letter: kept" if now else "letter: could not be undone (what it")
        rounds = look.rounds
        await anyio.sleep(0.3)
        assert look.rounds == rounds, "after 'cancelled' no line of it runs"


async def test_a_deaf_leaves_keeps_no_undo(driving: Open) -> None:
    look = Look(deaf=False)

    @tool(name="looks.undo", label="letter", undo=undo, fingerprint=look, stops_within=0.1)
    async def make() -> None: ...

    @agent()
    async def clerk(run: Run) -> None:
        await run.step("Make", make)
        await run.ask("Go on?")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.until(run, lambda s: s.phase is Phase.WAITING)
        look.deaf = True
        await control.cancel(run)
        with anyio.fail_after(IN_TIME_S):
            await control.ended(run)
        assert await lines(control, run) == [
            "letter: could not be undone (cannot be compared with what it left: TimeoutError: "
            "what it left could not be seen within 0.1 s)"
        ]


async def test_a_deaf_guard_keeps_neither_the_function_nor_a_cancel(driving: Open) -> None:
    look = Look(deaf=True)

    @agent()
    async def clerk(run: Run) -> None:
        try:
            await run.guard(Fingerprint("prices", look))
        except TimeoutError as error:
            await run.ask(str(error))

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        with anyio.fail_after(IN_TIME_S):
            state = await control.until(run, lambda s: s.phase is Phase.WAITING)
            (question,) = state.questions.values()
            assert question.message == "guard prices: nothing seen within 0.1 s"
            await control.cancel(run)
            await control.ended(run)
        rounds = look.rounds
        await anyio.sleep(0.3)
        assert look.rounds == rounds


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_guard_that_becomes_deaf_is_asked_about_and_keeps_no_cancel(
    driving: Open, monkeypatch: pytest.MonkeyPatch, cancelled: bool
) -> None:
    look = Look(deaf=False)

    @tool(name=f"looks.relying-{cancelled}", label="letter", relies_on=["prices"])
    async def make() -> None: ...

    @agent()
    async def clerk(run: Run) -> None:
        await run.guard(Fingerprint("prices", look))
        look.deaf = True
        await run.step("Make", make)

    if cancelled:
        monkeypatch.setattr(staleness, "LOOK_S", 3600.0)
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        with anyio.fail_after(IN_TIME_S):
            if not cancelled:
                state = await control.until(run, lambda s: bool(s.questions))
                (question,) = state.questions.values()
                assert "prices cannot be checked (nothing seen within 0.1 s)" in question.message
            await look.begun.wait()
            await control.cancel(run, now=True)
            await control.ended(run)
            assert await lines(control, run) == []

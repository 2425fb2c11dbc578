"""What was sent may still arrive: a check's "not done" proves something only after that time."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from typing_extensions import override

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.errors import InvalidTool
from midflight.journal import events as e
from midflight.journal.phases import Outcome, Phase
from midflight.journal.state import RunState
from midflight.journal.status import status
from midflight.run import Run
from midflight.tools.declaration import SETTLES_S, Done, NotDone, Tool, tool
from midflight.tools.options import EffectRecord, Retry
from midflight.view.run_book import RunBook
from scenarios.conftest import Open
from scenarios.hours import Hours

pytestmark = pytest.mark.anyio

SETTLES_WITHIN_S = 20.0  # no machine dawdles for so long


class Provider:
    """Takes an order at once, and acts on it whenever the story says so."""

    def __init__(self, name: str, **declared: Any) -> None:
        self.sent: list[str] = []
        self.ledger: list[str] = []
        self.looks = 0
        self.news = anyio.Event()

        async def order(idempotency_key: str = "") -> str:
            self.sent.append(idempotency_key)
            self.tell()
            await self.answers(len(self.sent))
            return "ordered"

        async def look_up(performed: EffectRecord) -> object:
            self.looks += 1
            self.tell()
            return Done("ordered") if performed.key in self.ledger else NotDone()

        async def undo(performed: EffectRecord) -> None:
            self.ledger.remove(performed.key)

        declared.setdefault("settles_within", SETTLES_WITHIN_S)
        declared.setdefault("undo", undo)
        self.order: Tool = tool(effect="once", name=f"{name}.order", label="order", check=look_up,
                                **declared)(order)  # fmt: skip

        @agent(f"{name}-clerk")
        async def clerk(run: Run) -> object:
            return await run.step("Order", self.order)

        self.clerk: Agent = clerk

    async def answers(self, _time: int) -> None:
        await anyio.sleep_forever()

    def acts(self) -> None:
        """What was sent has arrived."""
        self.ledger.append(self.sent[0])

    def tell(self) -> None:
        self.news.set()
        self.news = anyio.Event()

    async def until_sent(self, times: int = 1) -> None:
        while len(self.sent) < times:
            await self.news.wait()

    async def until_looked_up(self, times: int = 1) -> None:
        while self.looks < times:
            await self.news.wait()


async def lines(control: Control, run: str) -> list[str]:
    return [line.text for line in (await control.receipt(run)).lines]


def waits(state: RunState) -> bool:
    return any(name.startswith("settle:") for name in state.timers)


# ── cancel ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_cancel_looks_again_at_what_may_still_arrive_and_undoes_it(
    driving: Open, hours: Hours
) -> None:
    provider = Provider("settling-cancel")
    async with driving(provider.clerk) as control:
        run = await control.start(provider.clerk, "work")
        await provider.until_sent()
        await control.cancel(run)
        await provider.until_looked_up()
        state = await control.until(run, waits)

        assert state.phase is Phase.CANCELLING
        assert await lines(control, run) == ["order: unknown (checked, not seen yet)"]
        provider.acts()
        hours.skip(SETTLES_WITHIN_S)
        with anyio.fail_after(10):
            await control.ended(run)
        assert await lines(control, run) == ["order: undone"]
        assert provider.ledger == []


async def test_a_cancel_says_proven_only_when_nothing_has_arrived_in_time(
    driving: Open, hours: Hours
) -> None:
    provider = Provider("settling-proven")
    async with driving(provider.clerk) as control:
        run = await control.start(provider.clerk, "work")
        await provider.until_sent()
        await control.cancel(run)
        await control.until(run, waits)
        hours.skip(SETTLES_WITHIN_S)
        with anyio.fail_after(10):
            await control.ended(run)

        assert await lines(control, run) == ["order: aborted (proven)"]
        assert provider.looks == 2


async def test_stop_now_ends_the_wait_and_says_what_is_not_known(driving: Open) -> None:
    provider = Provider("settling-now")
    async with driving(provider.clerk) as control:
        run = await control.start(provider.clerk, "work")
        await provider.until_sent()
        await control.cancel(run)
        await control.until(run, waits)
        await control.cancel(run, now=True)
        with anyio.fail_after(10):
            await control.ended(run)

        assert await lines(control, run) == ["order: unknown (checked, not seen yet)"]


async def test_a_crash_in_the_wait_of_a_cancel_neither_shortens_nor_forgets_it(
    driving: Open, crashing: Open, hours: Hours
) -> None:
    provider = Provider("settling-crash")
    async with crashing(provider.clerk) as control:
        run = await control.start(provider.clerk, "work")
        await provider.until_sent()
        await control.cancel(run)
        first = await control.until(run, waits)
        hours.skip(SETTLES_WITHIN_S / 2)

    async with driving(provider.clerk) as control:
        state = await control.until(run, lambda s: s.epoch == 2 and waits(s))
        assert state.timers == first.timers, "the moment on record stays"
        await provider.until_looked_up(2)
        await anyio.sleep(0.1)
        assert (await control.state(run)).phase is Phase.CANCELLING
        hours.skip(SETTLES_WITHIN_S / 2)
        with anyio.fail_after(10):
            await control.ended(run)
        assert await lines(control, run) == ["order: aborted (proven)"]


# ── a crash, and a failure that is tried again ───────────────────────────────────────────────────


async def test_a_successor_repeats_nothing_that_may_still_arrive(
    driving: Open, crashing: Open, hours: Hours
) -> None:
    provider = Provider("settling-successor")
    async with crashing(provider.clerk) as control:
        run = await control.start(provider.clerk, "work")
        await provider.until_sent()

    async with driving(provider.clerk) as control:
        state = await control.until(run, waits)
        assert state.due_at == min(state.timers.values()), "the read model knows when, too"
        (attempt,) = state.effects.values()
        assert attempt.outcome is Outcome.UNKNOWN
        provider.acts()
        hours.skip(SETTLES_WITHIN_S)
        assert await control.result(run) == "ordered"
    assert len(provider.sent) == len(provider.ledger) == 1


async def test_what_is_waited_for_is_shown_at_once(
    driving: Open, crashing: Open, hours: Hours
) -> None:
    provider = Provider("settling-shown")
    async with crashing(provider.clerk) as control:
        run = await control.start(provider.clerk, "work")
        await provider.until_sent()

    async with driving(provider.clerk) as control:
        state = await control.until(run, waits)
        book = RunBook(run)
        for record in await control.store.read(run):
            book.take(record)
        (step,) = book.sheet().steps
        assert (step.status, step.word) == ("retrying", "Checked, not seen yet")
        assert step.until == min(state.timers.values())
        assert "checked, not seen yet: order" in status(state, state.at)
        notices = [text for _, text in state.notices]
        assert notices == [
            "order: its check has not seen it. What was sent may still arrive. It is looked up "
            "again after 20 s; until then nobody knows whether it happened."
        ]
        hours.skip(SETTLES_WITHIN_S)
        await provider.until_sent(2)
        await control.until(run, lambda s: not waits(s))
        await control.cancel(run, now=True)
        await control.ended(run)


@pytest.mark.parametrize("acts", [True, False])
async def test_a_retry_waits_until_the_failed_try_cannot_arrive_any_more(
    driving: Open, hours: Hours, acts: bool
) -> None:
    class Failing(Provider):
        @override
        async def answers(self, _time: int) -> None:
            if _time == 1:
                raise ConnectionError("reset by peer")

    provider = Failing(f"settling-retry-{acts}", retry=Retry(1, first_after=0.01))
    async with driving(provider.clerk) as control:
        run = await control.start(provider.clerk, "work")
        await control.until(run, waits)
        await anyio.sleep(0.05)
        assert len(provider.sent) == 1
        if acts:
            provider.acts()
        hours.skip(SETTLES_WITHIN_S)
        assert await control.result(run) == "ordered"
    assert len(provider.sent) == (1 if acts else 2)


# ── what a tool declares ─────────────────────────────────────────────────────────────────────────


async def test_a_check_is_believed_at_once_where_nothing_can_arrive_later(driving: Open) -> None:
    provider = Provider("settling-none", settles_within=0)
    async with driving(provider.clerk) as control:
        run = await control.start(provider.clerk, "work")
        await provider.until_sent()
        await control.cancel(run)
        with anyio.fail_after(10):
            await control.ended(run)
        assert await lines(control, run) == ["order: aborted (proven)"]
        timers = [r for r in await control.store.read(run) if isinstance(r.event, e.TimerSet)]
        assert timers == []


def test_a_tool_that_says_nothing_is_given_a_minute() -> None:
    @tool(effect="once", name="settling.silent")
    async def order() -> None: ...

    assert order.settles_within == SETTLES_S == 60.0


@pytest.mark.parametrize("wrong", [-1, "soon"])
def test_a_time_to_settle_that_is_none_is_refused(wrong: Any) -> None:
    async def order() -> None: ...

    with pytest.raises(InvalidTool, match="settles_within="):
        tool(effect="once", name="settling.wrong", settles_within=wrong)(order)

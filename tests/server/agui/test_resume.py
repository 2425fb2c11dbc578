"""Which answers count: of this thread, open, in time, and once."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from midflight.control import Control
from midflight.kernel import events as e
from midflight.kernel.record import Who
from midflight.server.agui_input import Resume
from midflight.server.agui_resume import Receipt, give, understand
from midflight.server.problems import Problem
from midflight.stores.memory import MemoryStore
from stores.runs import Driver, ask, running

pytestmark = pytest.mark.anyio

ANN, BOB = Who("ann", channel="agui"), Who("bob", channel="agui")


class Desk:
    """A run that asks, without anybody who drives it: nothing happens but what is told here."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.store = MemoryStore(clock=lambda: self.now)
        self.control = Control(self.store)
        self.driver: Driver

    async def asks(self, kind: str = "ask", **fields: Any) -> str:
        if not hasattr(self, "driver"):
            self.driver = await running(self.store, "r-1", thread="t-1")
        asked = e.QuestionOpened(epoch=1, kind=kind, message="Well?", **fields)
        return f"r-1:{(await self.driver.decides(asked)).position('r-1')}"

    async def told(self, *entries: Resume, who: Who = ANN, thread: str = "t-1") -> list[Receipt]:
        answers = await understand(self.control, thread, entries)
        return await give(self.control, answers, "X", who)


def resolved(interrupt: str, payload: Any = "yes") -> Resume:
    return Resume(interrupt, "resolved", payload)


def statuses(receipts: list[Receipt]) -> list[tuple[str, str]]:
    return [(receipt.status, receipt.why) for receipt in receipts]


async def test_a_question_that_has_expired_takes_no_answer_but_may_be_left() -> None:
    desk = Desk()
    question = await desk.asks(expires_at=1_010.0)
    await desk.driver.waits()
    desk.now = 1_010.0

    assert statuses(await desk.told(resolved(question))) == [("refused", "it has expired")]
    assert statuses(await desk.told(Resume(question, "cancelled"))) == [("accepted", "")]


async def test_a_question_of_a_paused_run_does_not_expire() -> None:
    desk = Desk()
    question = await desk.asks(expires_at=1_010.0)
    await desk.driver.waits()
    await ask(desk.store, e.PauseRequested(who=ANN), "r-1")
    desk.now = 1_010.0

    assert statuses(await desk.told(resolved(question))) == [("accepted", "")]


async def test_one_answer_that_does_not_fit_stops_all_of_them() -> None:
    desk = Desk()
    good, bad = await desk.asks(), await desk.asks(schema=Raw(b'{"type":"integer"}'))

    with pytest.raises(Problem, match="does not fit"):
        await desk.told(resolved(good), resolved(bad, "many"))

    assert len((await desk.control.state("r-1")).questions) == 2


async def test_the_first_answer_stands_and_the_second_person_learns_whose_it_was() -> None:
    desk = Desk()
    question = await desk.asks()
    await desk.told(resolved(question), who=ANN)

    assert statuses(await desk.told(resolved(question), who=BOB)) == [
        ("refused", "it was answered by ann")
    ]
    assert statuses(await desk.told(resolved(question), who=ANN)) == [("accepted", "given before")]
    assert statuses(await desk.told(resolved(question, "no"), who=ANN)) == [
        ("refused", "it was answered before, and otherwise")
    ]


@pytest.mark.parametrize("kind", ["stale", "doubt", "again", "inherited", "cap", "human"])
async def test_what_has_to_be_decided_is_not_decided_by_leaving_it(kind: str) -> None:
    desk = Desk()
    question = await desk.asks(kind)

    assert statuses(await desk.told(Resume(question, "cancelled"))) == [("left open", "")]
    assert len((await desk.control.state("r-1")).questions) == 1


async def test_leaving_an_approval_rejects_it() -> None:
    desk = Desk()
    question = await desk.asks("approval")

    await desk.told(Resume(question, "cancelled"))

    (record,) = (r for r in await desk.store.read("r-1") if isinstance(r.event, e.QuestionAnswered))
    assert (bytes(record.event.payload), record.event.declined) == (b'"reject"', False)


@pytest.mark.parametrize("wrong", ["", "7", "r-1:", "r-1:99999999999999999999", "r-2:4", "t-1:2"])
async def test_an_id_that_is_none_is_refused_in_words(wrong: str) -> None:
    desk = Desk()
    await desk.asks()

    assert statuses(await desk.told(resolved(wrong)))[0][0] == "refused"


async def test_an_interrupt_belongs_to_its_thread() -> None:
    desk = Desk()
    question = await desk.asks()

    assert statuses(await desk.told(resolved(question), thread="t-2")) == [
        ("refused", "there is no such interrupt in this thread")
    ]


async def test_a_pause_is_lifted_by_its_own_id_only() -> None:
    desk = Desk()
    await desk.asks()
    await desk.driver.waits()
    paused = []
    for _ in range(2):
        desk.now += 1
        await ask(desk.store, e.PauseRequested(who=ANN), "r-1")
        paused.append(f"r-1:paused:{int(desk.now * 1000)}")
        if len(paused) == 1:
            await ask(desk.store, e.ResumeRequested(who=BOB), "r-1")

    go = {"action": "resume"}
    assert statuses(await desk.told(resolved(paused[0], go))) == [
        ("refused", "it is not open any more")
    ]
    assert statuses(await desk.told(resolved(paused[1], go))) == [("accepted", "nothing changed")]

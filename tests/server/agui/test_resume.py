"""Which answers count: of this thread, open, in time, and once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from midflight.control import Control
from midflight.errors import DOTS, NotAllowed
from midflight.interfaces.agui.agui_input import Resume
from midflight.interfaces.agui.agui_resume import Receipt, give, understand
from midflight.journal import events as e
from midflight.journal.phases import Role
from midflight.journal.record import Actor
from midflight.runtime.steps.preconditions import schema
from midflight.stores.memory import MemoryStore
from midflight.tools.declaration import tool
from stores.runs import Driver, ask, running

pytestmark = pytest.mark.anyio

ANN, BOB = Actor("ann", channel="agui"), Actor("bob", channel="agui")


@tool(name="resume.mail")
async def mail(to: str) -> str:
    return to


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

    async def told(self, *entries: Resume, who: Actor = ANN, thread: str = "t-1") -> list[Receipt]:
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

    told = await desk.told(resolved(good), resolved(bad, "many"))

    assert [receipt.status for receipt in told] == ["refused", "refused"]
    assert "another answer of this request does not fit" in told[0].why
    assert "'many' is not of type 'integer'" in told[1].why
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
        ("refused", "it was answered before, with another answer")
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


async def test_what_is_said_about_an_answer_is_bounded_however_long_the_answer_is() -> None:
    desk = Desk()
    question = await desk.asks(schema=Raw(b'{"type":"integer"}'))

    (told,) = await desk.told(resolved(question, "x" * 100_000))

    assert len(told.why) < 1_000


async def test_dots_are_never_approved_as_an_argument() -> None:
    desk = Desk()
    question = await desk.asks("approval")

    (told,) = await desk.told(resolved(question, {"approved": True, "editedArgs": {"to": DOTS}}))

    assert told.status == "refused"
    assert "in place of a secret" in told.why
    assert len((await desk.control.state("r-1")).questions) == 1


@pytest.mark.parametrize(
    "edited", [{"whom": "Bob"}, {}, {"to": 7}, {"to": "Bob", "more": 1}], ids=repr
)
async def test_edited_arguments_that_the_tool_does_not_take_leave_the_question_open(
    edited: dict[str, Any],
) -> None:
    desk = Desk()
    asked = schema({"args": [], "kwargs": {"to": "Ann"}}) | {"x-tool": "resume.mail", "x-names": []}
    question = await desk.asks("approval", schema=Raw(msgspec.json.encode(asked)))

    (told,) = await desk.told(resolved(question, {"approved": True, "editedArgs": edited}))

    assert told.status == "refused"
    assert "the tool does not take these arguments" in told.why
    assert len((await desk.control.state("r-1")).questions) == 1
    (told,) = await desk.told(resolved(question, {"approved": True, "editedArgs": {"to": "Bob"}}))
    assert told.status == "accepted"


async def test_a_viewer_is_refused_as_a_whole() -> None:
    desk = Desk()
    question = await desk.asks()

    with pytest.raises(NotAllowed):
        await desk.told(resolved(question), who=Actor("vera", Role.VIEWER))

    assert len((await desk.control.state("r-1")).questions) == 1


async def test_a_paused_run_is_cancelled_once() -> None:
    desk = Desk()
    await desk.asks()
    await desk.driver.waits()
    await ask(desk.store, e.PauseRequested(who=BOB), "r-1")
    paused = f"r-1:paused:{int(desk.now * 1000)}"

    first = await desk.told(resolved(paused, {"action": "cancel"}))
    again = await desk.told(resolved(paused, {"action": "cancel"}))

    assert [(told.verb, told.status) for told in first] == [("cancel", "accepted")]
    assert statuses(again) == [("accepted", "given before")]
    assert str((await desk.control.state("r-1")).phase) == "cancelling"


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

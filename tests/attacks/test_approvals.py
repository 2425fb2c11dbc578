"""What a person has approved is what is done: a digest that others can match approves nothing.

Identities of steps once held a digest of 48 bits. The two payments below have the same one. A
birthday search found them in four minutes on one core: it hashed 33,554,432 payments to Ann, each
with another invoice number, sorted the digests, and hashed payments to Eve until one was among
them, after fewer than 4,194,304. The two forms of ``run.approve`` were found in the same way.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec
import pytest

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.errors import StepFailed
from midflight.journal import events as e
from midflight.journal.phases import Effect, Phase
from midflight.journal.record import Actor
from midflight.run import Run, Step
from midflight.runtime import values
from midflight.runtime.steps import preconditions
from midflight.stores.protocol import Store
from midflight.tools.declaration import tool
from scenarios.conftest import Open
from scenarios.hours import Hours
from scenarios.rests import asked, events_of, held_back, times_asked
from scenarios.stage import Stage
from stores.runs import Driver, ask, running

pytestmark = pytest.mark.anyio

TO_ANN: dict[str, Any] = {"to": "ann", "amount": 10, "note": "invoice 16696402"}
TO_EVE: dict[str, Any] = {"to": "eve", "amount": 9000, "note": "invoice 4175084"}
SHORT = "79fb290fcbbf"  # of both
ANN_IN_WORDS: dict[str, Any] = {"to": "ann", "amount": 10, "note": "invoice 6943527"}
EVE_IN_WORDS: dict[str, Any] = {"to": "eve", "amount": 9000, "note": "invoice 696143"}
LONG_S = 10.0
RUN = "r-old"
PAID: list[dict[str, Any]] = []


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    PAID.clear()


def paying(hold: float = 0.0) -> Any:
    @tool(
        effect="once",
        name="attacks.pay",
        label="payment",
        describe="payment",
        approval=True,
        undo_window=hold,
    )
    async def pay(to: str, amount: int, note: str) -> str:
        PAID.append({"to": to, "amount": amount, "note": note})
        return f"paid {to}"

    return pay


def clerk_who_pays(payment: dict[str, Any], *, key: str = "", hold: float = 0.0) -> Agent:
    """Pay what the payment says when the step is asked for: somebody may change it meanwhile."""
    pay = paying(hold)

    @agent(name="attacks-clerk")
    async def clerk(run: Run) -> str:
        try:
            return str(await run.step(Step("Pay", key=key), pay, **payment))
        except StepFailed as failed:
            return failed.error

    return clerk


async def last_details(control: Control, run: str) -> Any:
    """What the newest question shows of what it is about."""
    opened = await events_of(control, run, e.QuestionOpened)
    return msgspec.json.decode(opened[-1].schema)["x-details"]


def short(raw: bytes) -> str:
    return blake2b(raw, digest_size=6).hexdigest()


def stored(payment: dict[str, Any]) -> bytes:
    return bytes(values.encode_arguments("Pay", (), payment)[0])


def test_the_two_payments_have_the_same_short_digest() -> None:
    assert short(stored(TO_ANN)) == short(stored(TO_EVE)) == SHORT
    schemas = [preconditions.schema(words, edited={}) for words in (ANN_IN_WORDS, EVE_IN_WORDS)]
    ann, eve = (short(bytes(values.encode("x", "its schema", each))) for each in schemas)
    assert ann == eve


@pytest.mark.parametrize("key", ["", "the payment"])
async def test_another_payment_with_the_same_short_digest_is_asked_about_and_not_made(
    driving: Open, crashing: Open, hours: Hours, key: str
) -> None:
    payment = dict(TO_ANN)
    clerk = clerk_who_pays(payment, key=key, hold=LONG_S)
    async with crashing(clerk) as control:
        run = await control.start(clerk, "pay")
        first = await asked(control, run)
        await control.answer(run, first.position, "approve")
        await held_back(control, run)

    payment.update(TO_EVE)
    async with driving(clerk) as control:
        second = await asked(control, run, after=first.position)

        assert (await last_details(control, run))["kwargs"] == TO_EVE
        await control.answer(run, second.position, "reject")
        assert "rejected" in str(await control.result(run))
        assert PAID == []


async def test_details_that_were_approved_are_not_others_with_the_same_short_digest(
    driving: Open, crashing: Open
) -> None:
    stage, details = Stage("attacks-details"), dict(ANN_IN_WORDS)
    look = stage.reader()
    stage.gate("slow")

    @agent(name=stage.name)
    async def clerk(run: Run) -> object:
        said = await run.approve("Pay this?", details=dict(details))
        await run.step("Read", look, "slow")
        return said.decision

    async with crashing(clerk) as control:
        run = await control.start(clerk, "pay")
        first = await asked(control, run)
        await control.answer(run, first.position, "approve")
        await stage.until_begun("slow")

    details.update(EVE_IN_WORDS)
    stage.gate("slow").set()
    async with driving(clerk) as control:
        stale = await asked(control, run, after=first.position)
        assert (stale.kind, "Pay this?" in stale.message) == ("stale", True)
        await control.answer(run, stale.position, "go on")
        await asked(control, run, after=stale.position)

        assert await last_details(control, run) == EVE_IN_WORDS
        await control.cancel(run)


# ── runs that an earlier release has begun ───────────────────────────────────────────────────


POLICY = [True, False, "once", 0.0, False]


async def begun_by_an_earlier_release(store: Store) -> Driver:
    return await running(store, RUN, agent="attacks-clerk")


async def earlier_question(store: Store, payment: dict[str, Any], key: str = "") -> int:
    """Leave the journal that release 0.8 left while its clerk asked for consent to a payment."""
    driver = await begun_by_an_earlier_release(store)
    bound = short(msgspec.json.encode([SHORT, POLICY, []]))
    given = {"args": [], "kwargs": payment}
    schema = preconditions.schema(given) | {"x-tool": "attacks.pay", "x-names": []}
    question = e.QuestionOpened(
        epoch=driver.epoch,
        kind="approval",
        message="May this be done: payment?",
        schema=values.encode("Pay", "its schema", schema),
        step=f"approve:{f'key={key}' if key else f'Pay:{SHORT}'}:{bound}",
    )
    position = (await driver.decides(question)).position(RUN)
    await driver.waits()
    await driver.leaves()
    return position


@pytest.mark.parametrize("answered", ["before the upgrade", "after it"])
async def test_a_question_of_an_earlier_release_is_answered_and_done(
    driving: Open, store: Store, answered: str
) -> None:
    question = await earlier_question(store, TO_ANN)
    if answered == "before the upgrade":
        await store_answer(store, question)
    async with driving(clerk_who_pays(TO_ANN)) as control:
        if answered == "after it":
            await control.answer(RUN, question, "approve")

        assert await control.result(RUN) == "paid ann"
        assert PAID == [TO_ANN]
        assert await times_asked(control, RUN, "approval") == 1


async def store_answer(store: Store, question: int) -> None:
    payload = msgspec.Raw(b'"approve"')
    answer = e.QuestionAnswered(who=Actor("ann"), question=question, payload=payload)
    await ask(store, answer, RUN)


@pytest.mark.parametrize("key", ["", "the payment"])
async def test_an_approval_of_an_earlier_release_approves_no_other_payment(
    driving: Open, store: Store, key: str
) -> None:
    question = await earlier_question(store, TO_ANN, key)
    await store_answer(store, question)
    async with driving(clerk_who_pays(TO_EVE, key=key)) as control:
        await asked(control, RUN, after=question)

        assert (await last_details(control, RUN))["kwargs"] == TO_EVE
        assert PAID == []
        await control.cancel(RUN)


async def test_a_payment_of_an_earlier_release_does_not_count_for_another_one(
    driving: Open, store: Store
) -> None:
    driver = await begun_by_an_earlier_release(store)
    step, given = f"Pay:{SHORT}", msgspec.Raw(stored(TO_ANN))
    attempt = await driver.begins(step, input=given, tool="attacks.pay", effect=Effect.ONCE)
    await driver.settles(attempt, result=msgspec.Raw(b'"paid ann"'))
    await driver.leaves()
    async with driving(clerk_who_pays(TO_EVE)) as control:
        question = await asked(control, RUN)

        assert question.kind in {"stale", "approval", "again"}
        assert PAID == []
        await control.cancel(RUN)
        assert (await control.ended(RUN)).phase is Phase.CANCELLED

"""What is asked of a thread has a delivery receipt too: read, put off, withdrawn, answered."""

from __future__ import annotations

import anyio
import pytest

from midflight.control.ack import Ack
from midflight.errors import JournalNotFound
from midflight.journal.state import Delivery
from midflight.run import Run
from midflight.stores.protocol import Query
from scenarios.chat import ANN, Model, clerk, until_chosen, until_thread
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


async def test_a_message_is_waited_for_until_it_is_read(driving: Open) -> None:
    stage = Stage("delivered-read")
    works = clerk(stage, Model())
    stage.gate("one")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(run, "look at May too", who=ANN)
        await until_chosen(control, sent)
        found: list[Delivery] = []
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                found.append(await control.applied(sent))

            tasks.start_soon(wait)
            await anyio.sleep(0.1)
            assert found == []  # it is stored, and chosen for, and nobody has read it
            stage.gate("one").set()

        (delivery,) = found
        assert (delivery.verb, delivery.status) == ("send", "read")
        assert delivery.at > sent.position
        assert await control.applied(sent) == delivery
        await control.ended(run)


async def test_a_message_may_be_put_off_or_withdrawn_instead(driving: Open) -> None:
    stage = Stage("delivered-not")
    works = clerk(stage, Model(later="defer"))
    stage.gate("one")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        await control.applied(await control.pause(run))
        gone = await control.send(run, "never", who=ANN)
        back = await control.withdraw_message(gone.run, gone.position, who=ANN)
        assert await control.applied(gone) == Delivery("send", "withdrawn", back.position)
        assert await control.applied(back) == Delivery("withdraw", "applied", back.position)

        late = await control.send(run, "later please", who=ANN)
        over = await control.overrule(late.run, late.position, "defer", who=ANN)
        assert (await control.applied(late)).status == "put off"
        assert await control.applied(over) == Delivery("overrule", "applied", over.position)

        talk = await until_thread(control, late.run, lambda talk: bool(talk.todos))
        removed = await control.remove_todo(late.run, next(iter(talk.todos)), who=ANN)
        assert (await control.applied(removed)).status == "applied"
        await control.cancel(run)
        await control.ended(run)


async def test_what_starts_a_run_is_read_at_once(driving: Open) -> None:
    works = clerk(Stage("delivered-start"))

    async with driving(works) as control:
        run = await control.start(works, "one")
        await control.ended(run)
        sent = await control.send(run, "two", who=ANN)
        assert (await control.applied(sent)).status == "read"
        await control.ended(sent.target)


@pytest.mark.parametrize("answers", [True, False])
async def test_a_question_aside_is_applied_when_it_is_answered(
    driving: Open, answers: bool
) -> None:
    stage = Stage(f"delivered-aside-{answers}")
    asked_at, may_answer = anyio.Event(), anyio.Event()

    async def aside(run: Run) -> str:
        asked_at.set()
        await may_answer.wait()
        return "nearly" if answers else ""

    works = clerk(stage, Model(), aside=aside)
    stage.gate("one")
    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        asked = await control.ask_aside(run, "how far?", who=ANN)
        await asked_at.wait()
        found: list[Delivery] = []
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                found.append(await control.applied(asked))

            tasks.start_soon(wait)
            await anyio.sleep(0.1)
            assert found == []
            may_answer.set()

        assert found[0].verb == "ask aside"
        assert found[0].status == ("applied" if answers else "superseded")
        assert (await control.applied(asked)).status == found[0].status
        stage.gate("one").set()
        await control.ended(run)
        assert len(await control.runs(Query(thread=asked.run))) == 2


async def test_a_question_that_is_answered_at_once_is_applied_at_once(driving: Open) -> None:
    works = clerk(Stage("delivered-stands"))

    async with driving(works) as control:
        run = await control.start(works, "one")
        await control.ended(run)
        asked = await control.ask_aside(run, "how far?", who=ANN)
        assert await control.applied(asked) == Delivery("ask aside", "applied", asked.position + 1)


async def test_a_place_where_nothing_was_asked_has_no_receipt(driving: Open) -> None:
    works = clerk(Stage("delivered-nothing"))

    async with driving(works) as control:
        run = await control.start(works, "one")
        thread = (await control.state(run)).thread
        await control.ended(run)
        for position in (1, 2, 999):
            with pytest.raises(
                JournalNotFound, match=f"no request at position {position} of {thread}"
            ):
                await control.applied(Ack(thread, "send", position))

"""A handle does to its run what the verb's name says, here and over HTTP alike."""

from __future__ import annotations

import anyio
import pytest
from msgspec import Struct

import midflight
from midflight.agents import agent
from midflight.client import Client
from midflight.errors import InvalidRequest
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor, Limits
from midflight.run import Run
from remote.doors import DOORS, through
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(60)]


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@agent
async def asker(run: Run) -> str:
    number = await run.ask("How many?", schema={"type": "integer", "minimum": 1})
    allowed = await run.approve("Send them?", details={"number": number.payload})
    return f"{number.payload} {allowed.decision}"


async def test_a_started_run_is_a_handle_that_knows_its_result(driving: Open, door: str) -> None:
    async with driving(asker) as control, through(door, control, asker) as opened:
        run = await Client(opened).start(asker, "count", key="once")

        first = await run.next_question()
        assert (first.kind, first.message) == ("ask", "How many?")
        assert first.schema is not None
        assert first.schema["minimum"] == 1
        await first.answer(3)
        second = await run.next_question()
        await second.approve()

        assert await run.result() == "3 approve"
        assert run == await Client(opened).start(asker, "count", key="once")
        assert await run.questions() == []
        with pytest.raises(InvalidRequest, match="is done and will ask nothing more"):
            await run.next_question()


async def test_a_question_can_be_declined_and_an_approval_rejected(
    driving: Open, door: str
) -> None:
    async with driving(asker) as control, through(door, control, asker) as opened:
        run = await Client(opened).start(asker, "count")
        await (await run.next_question()).decline()
        await (await run.next_question()).reject()

        assert await run.result() == "None reject"


async def test_a_run_is_paused_redirected_resumed_and_cancelled_by_its_handle(
    driving: Open, door: str
) -> None:
    stage = Stage(f"client-{door}")
    look, make = stage.reader(), stage.writer(effect="write")
    gate = stage.gate("shop")

    @agent
    async def worker(run: Run) -> None:
        await run.step("Make", make, run.brief)
        await run.step("Look", look, "shop")

    async with driving(worker) as control, through(door, control, worker) as opened:
        run = await Client(opened).start(worker, "one", title="A title")
        await run.until(lambda state: state.done == 1)

        ack = await run.pause()
        assert ack.verb == "pause"
        with anyio.fail_after(10):
            assert (await run.wait_paused()).phase is Phase.PAUSED
        assert (await run.applied(ack)).status == "applied"
        assert (await run.preview())["resume"].enabled
        await run.raise_limits(Limits(steps=50))
        await run.redirect("two", resume=True)
        await run.until(lambda state: len(state.effects) == 2 and not state.open)
        receipt = await run.cancel_and_wait()

        assert [line.text for line in receipt.lines] == [
            "thing: undone",
            "thing: undone, for the earlier brief",
        ]
        assert (await run.state()).phase is Phase.CANCELLED
        assert [row.title for row in await Client(opened).runs(search="title")] == ["A title"]
        gate.set()


async def test_a_run_that_has_ended_is_undone_and_its_receipt_says_so(
    driving: Open, door: str
) -> None:
    make = Stage(f"client-undo-{door}").writer(effect="write")

    @agent
    async def maker(run: Run) -> None:
        await run.step("Make one", make, "one")
        await run.step("Make two", make, "two")

    async with driving(maker) as control, through(door, control, maker) as opened:
        run = await Client(opened).start(maker, "make")
        await run.wait()
        first = min((await run.state()).effects)

        receipt = await run.undo_and_wait([first])
        assert [line.word for line in receipt.lines] == ["kept", "undone"]
        receipt = await run.undo_and_wait()
        assert [line.word for line in receipt.lines] == ["undone", "undone"]


async def test_a_thread_is_written_to_and_read_by_its_handle(driving: Open, door: str) -> None:
    async with driving(asker) as control, through(door, control, asker) as opened:
        client = Client(opened)
        run = await client.start(asker, "count")
        await run.next_question()
        thread = await run.thread()

        sent = await thread.send("Twelve, I think.", key="k")
        assert await thread.send("Twelve, I think.", key="k") == sent
        await run.ask_aside("How is it going?")

        texts = [line.text for line in await thread.transcript()]
        assert "Twelve, I think." in texts
        assert [row.journal for row in await thread.runs()] == [run.id]
        assert await thread.todos() == []
        await thread.withdraw_message(sent.position)
        await client.run(run.id).cancel(now=True)


async def test_a_kill_switch_is_pressed_listed_and_released(driving: Open, door: str) -> None:
    stage = Stage(f"client-kill-{door}")
    look = stage.reader()
    stage.gate("shop")

    @agent
    async def looker(run: Run) -> None:
        await run.step("Look", look, "shop")

    async with (
        driving(looker) as control,
        through(door, control, looker, role=Role.OPERATOR) as opened,
    ):
        client = Client(opened, None if door == "over HTTP" else Actor(by="op", role=Role.OPERATOR))
        run = await client.start(looker, "look")
        await run.until(lambda state: state.phase is Phase.RUNNING)

        killing = await client.kill(agent=looker, reason="a test")
        assert list(killing.killed) == [run.id]
        assert [switch.scope for switch in await client.switches()] == ["agent:looker"]
        assert (await run.wait()).phase is Phase.KILLED
        with pytest.raises(InvalidRequest, match="name one scope, and only one"):
            await client.kill(agent=looker, thread="t-1")  # type: ignore[call-overload]
        assert await client.release(*await client.switches())
        assert not await client.release(agent="looker")
        await run.recover()
        assert (await run.state()).phase is not Phase.KILLED


class Seats(Struct):
    """The seats that a person wants."""

    number: int
    row: str = "A"


async def test_an_answer_is_a_value_of_the_type_that_was_asked_for(driving: Open) -> None:
    @agent
    async def booker(run: Run) -> list[object]:
        number = await run.ask("How many?", schema=int)
        seats = await run.ask("Which?", schema=Seats)
        late = await run.ask("Anything else?", schema=str, expires_in=0.05)
        return [number.payload, seats.payload == Seats(2, "F"), late.payload]

    async with driving(booker) as control:
        run = await Client(control).start(booker, "book")
        question = await run.next_question()
        with pytest.raises(InvalidRequest, match="integer"):
            await question.answer("two")
        await question.answer(2)
        await run.until(lambda state: question.position not in state.questions)
        await (await run.next_question()).answer({"number": 2, "row": "F"})
        assert await run.result() == [2, True, None]


async def test_a_type_that_no_answer_can_have_is_refused(driving: Open) -> None:
    @agent
    async def booker(run: Run) -> str:
        try:
            await run.ask("Which?", schema=Stage)
        except InvalidRequest as refused:
            return str(refused)
        return "asked"

    async with driving(booker) as control:
        run = await Client(control).start(booker, "book")
        told = await run.result()
        assert told.startswith("schema= of run.ask cannot be Stage: it has no JSON Schema (")
        assert "\n" not in told


async def test_requests_are_recorded_in_the_name_of_the_actor_for_whom_a_client_acts(
    driving: Open,
) -> None:
    async with driving(asker) as control:
        client = Client(control).acting_for(Actor(by="ada"))
        run = await client.start(asker, "count")
        async with run.watch() as events:
            async for record in events:
                assert record.event.who.by == "ada"
                break
        await run.cancel_and_wait()


async def test_the_public_names_open_a_store_and_drive_its_runs(tmp_path: object) -> None:
    async with midflight.open(
        f"{tmp_path}/m.db", agents=[asker], workdir=f"{tmp_path}/w"
    ) as client:
        run = await client.start(asker, "count")
        receipt = await run.cancel_and_wait()
        assert receipt.phase is Phase.CANCELLED


async def test_whoever_waits_for_a_question_of_a_run_that_fails_is_told_that_it_has_failed(
    driving: Open,
) -> None:
    @agent
    async def unlucky(run: Run) -> None:
        raise RuntimeError("no luck")

    async with driving(unlucky) as control:
        run = await Client(control).start(unlucky, "work")
        with pytest.raises(InvalidRequest, match=f"^run {run.id} has failed and will ask nothing"):
            await run.next_question()

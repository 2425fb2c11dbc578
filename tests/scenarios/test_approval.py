"""May this be done? Asked before an effect that needs it, and bound to what it would do."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec
import pytest

from midflight.agents import agent
from midflight.errors import InvalidRequest, NotAllowed
from midflight.journal import events as e
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor
from midflight.run import ApprovalAnswer, Run
from midflight.tools.declaration import NotDone, tool
from midflight.tools.options import EffectRecord
from midflight.tools.secret import Secret
from scenarios.conftest import Open
from scenarios.rests import asked, events_of, impatient, let_go, sender, times_asked
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio

ANN, BOB = Actor("ann"), Actor("bob")
OLGA, VERA = Actor("olga", Role.OPERATOR), Actor("vera", Role.VIEWER)


# ── the decisions ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("says", "result", "sent"),
    [
        ("approve", "made letter", ["letter"]),
        ("reject", "rejected by ann", []),
        ({"respond": "call her instead"}, "not done; ann says: call her instead", []),
        ({"edit": {"args": ["postcard"]}}, "made postcard", ["postcard"]),
        ({"edit": {}}, "made letter", ["letter"]),
        (
            {"edit": {"args": []}},
            "not done; the arguments given by ann do not fit: missing a required argument: 'what'",
            [],
        ),
        (
            {"edit": {"kwargs": {"who": "me"}}},
            "not done; the arguments given by ann do not fit: got an unexpected keyword argument "
            "'who'",
            [],
        ),
    ],
)
async def test_what_is_irreversible_asks_and_does_what_the_person_says(
    driving: Open, says: object, result: str, sent: list[str]
) -> None:
    stage = Stage("approval-says")
    clerk = sender(stage, stage.writer(irreversible=True, undo=None))

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        question = await asked(control, run)
        assert (question.kind, question.message) == ("approval", "May this be done: thing?")
        await control.until(run, lambda state: state.phase is Phase.WAITING)
        assert stage.begun == []
        await control.answer(run, question.position, says, who=ANN)

        assert await control.result(run) == result
        assert stage.done == sent


async def test_approval_can_be_switched_off_and_asked_for_anything_also_for_a_read(
    driving: Open,
) -> None:
    stage = Stage("approval-off")
    bold = stage.writer(irreversible=True, undo=None, approval=False)
    clerk = sender(stage, bold)
    async with driving(clerk) as control:
        assert await control.result(await control.start(clerk, "work")) == "made letter"

    nosy = Stage("approval-read")
    reading = nosy.writer(effect="read", undo=None, approval="Salaries are for HR only.")
    reader = sender(nosy, reading)
    async with driving(reader) as control:
        run = await control.start(reader, "work")
        question = await asked(control, run)
        assert question.message == "May this be done: thing? Salaries are for HR only."
        assert nosy.begun == []
        await control.answer(run, question.position, "reject")
        assert await control.result(run) == "rejected by library"
        assert nosy.begun == []


async def test_edited_arguments_are_on_record_and_hold_for_every_repeat(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("approval-edit")
    seen: list[list[object]] = []

    async def look_up(performed: EffectRecord) -> object:
        seen.append(performed.args)
        return NotDone()

    clerk = sender(stage, stage.writer(irreversible=True, undo=None, check=look_up))
    stage.gate("postcard")
    async with crashing(clerk) as control:
        run = await control.start(clerk, "work")
        question = await asked(control, run)
        await control.answer(run, question.position, {"edit": {"args": ["postcard"]}})
        await stage.until_begun("postcard")
    stage.gate("postcard").set()
    async with driving(clerk) as control:
        assert await control.result(run) == "made postcard"

        assert seen == [["postcard"]], "the check is told what was really begun"
        inputs = [
            msgspec.json.decode(a.input) for a in await events_of(control, run, e.AttemptStarted)
        ]
        assert inputs == [{"args": ["postcard"], "kwargs": {}}] * 2
        assert stage.keys == [stage.keys[0]] * 2
        assert await times_asked(control, run, "approval") == 1


async def test_the_result_of_an_edited_step_is_the_same_at_replay(driving: Open) -> None:
    stage = Stage("approval-replay")
    send, look = stage.writer(irreversible=True, undo=None), stage.reader()
    stage.gate("slow")

    @agent()
    async def clerk(run: Run) -> object:
        sent = await run.step("Send", send, "letter")
        await run.step("Read", look, "slow")
        return sent

    async with driving(impatient(clerk)) as control:
        run = await control.start(clerk, "work")
        question = await asked(control, run)
        await control.answer(run, question.position, {"edit": {"args": ["postcard"]}})
        await stage.until_begun("slow")
        await control.pause(run)
        await let_go(control, run)
        stage.gate("slow").set()
        await control.resume(run)

        assert await control.result(run) == "made postcard"
        assert stage.done == ["postcard", "slow"]


async def test_a_secret_among_edited_arguments_is_still_one_for_the_tool(
    driving: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRM_TOKEN", "s3cret")

    @tool(effect="once", name="approval-secret.send", approval=True)
    async def send(to: str, token: Secret) -> str:
        return f"{to}, signed with {len(token.reveal())} characters"

    @agent()
    async def clerk(run: Run) -> object:
        return await run.step("Send", send, "ann", Secret("CRM_TOKEN"))

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        question = await asked(control, run)
        edited = {"edit": {"args": ["bob", {"$secret": "CRM_TOKEN"}]}}
        await control.answer(run, question.position, edited)

        assert await control.result(run) == "bob, signed with 6 characters"
        assert all(
            b"s3cret" not in msgspec.json.encode(r.event) for r in await control.store.read(run)
        )


# ── who, when, and in which form ─────────────────────────────────────────────────────────────


async def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays_open(
    driving: Open,
) -> None:
    schema = {
        "type": "object",
        "properties": {"seats": {"$ref": "#/$defs/seats"}},
        "required": ["seats"],
        "$defs": {"seats": {"type": "integer", "minimum": 1}},
    }

    @agent()
    async def clerk(run: Run) -> object:
        return (await run.ask("How many seats?", schema=schema)).payload

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        question = await asked(control, run)
        with pytest.raises(InvalidRequest, match=r"at \$\.seats: 0 is less than.*still open"):
            await control.answer(run, question.position, {"seats": 0})
        with pytest.raises(InvalidRequest, match=r"'seats' is a required property"):
            await control.answer(run, question.position, {})
        assert question.position in (await control.state(run)).questions
        await control.answer(run, question.position, {"seats": 2})

        assert await control.result(run) == {"seats": 2}


async def test_a_misfit_answer_to_a_question_that_is_closed_is_not_told_that_it_is_open(
    driving: Open,
) -> None:
    stage = Stage("approval-closed")
    clerk = sender(stage, stage.writer(irreversible=True, undo=None))

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        question = await asked(control, run)
        await control.answer(run, question.position, "reject", who=ANN)
        await control.result(run)
        with pytest.raises(InvalidRequest, match=r"was answered by ann"):
            await control.answer(run, question.position, "whatever", who=BOB)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"$ref": "https://example.com/schema.json"}, r"refers to 'https://example.com"),
        ({"properties": {"a": {"$ref": "other.json#/a"}}}, r"only references within it"),
        ({"properties": {"a": {"$ref": "#/$defs/nowhere"}}}, r"'#/\$defs/nowhere', which it does"),
        ({"type": "no such type"}, r"is not valid at \$\.type"),
        ({"enum": ["x" * 1000 for _ in range(70)]}, r"bytes, and 65,536 are allowed"),
    ],
)
async def test_a_schema_that_cannot_be_used_is_refused_before_anybody_is_asked(
    driving: Open, schema: dict[str, Any], why: str
) -> None:
    @agent()
    async def clerk(run: Run) -> None:
        await run.ask("Well?", schema=schema)

    async with driving(clerk) as control:
        state = await control.ended(await control.start(clerk, "work"))

        assert state.phase is Phase.FAILED
        with pytest.raises(InvalidRequest, match=why):
            raise InvalidRequest(state.error)
        assert await events_of(control, state.journal, e.QuestionOpened) == []


async def test_a_schema_that_leads_in_a_circle_refuses_answers_in_words(driving: Open) -> None:
    @agent()
    async def clerk(run: Run) -> None:
        await run.ask("Well?", schema={"$ref": "#"})

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        question = await asked(control, run)
        with pytest.raises(InvalidRequest, match="refers to itself without end"):
            await control.answer(run, question.position, 1)
        await control.cancel(run)
        await control.ended(run)


async def test_a_question_may_name_who_may_answer_by_name_or_by_role(driving: Open) -> None:
    @agent()
    async def clerk(run: Run) -> list[str]:
        first = await run.ask("Which?", answerers=["ann"])
        second = await run.ask("When?", answerers=["controller"])
        third = await run.ask("Really?", answerers=["operator", "bob"])
        return [first.by, second.by, third.by]

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        first = await asked(control, run)
        with pytest.raises(NotAllowed, match=r"olga is an operator and this answer needs ann"):
            await control.answer(run, first.position, 1, who=OLGA)
        await control.answer(run, first.position, 1, who=ANN)
        second = await asked(control, run, after=first.position)
        with pytest.raises(NotAllowed, match=r"vera is a viewer"):
            await control.answer(run, second.position, 1, who=VERA)
        await control.answer(run, second.position, 1, who=OLGA)
        third = await asked(control, run, after=second.position)
        with pytest.raises(NotAllowed, match=r"needs operator or bob"):
            await control.answer(run, third.position, 1, who=ANN)
        await control.answer(run, third.position, 1, who=BOB)

        assert await control.result(run) == ["ann", "olga", "bob"]


async def test_the_first_answer_wins_and_the_second_is_told_whose_it_was(driving: Open) -> None:
    @agent()
    async def clerk(run: Run) -> object:
        return (await run.ask("Which?")).payload

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        question = (await asked(control, run)).position
        given = await control.answer(run, question, "red", who=ANN, key="k")
        with pytest.raises(InvalidRequest, match=r"was answered by ann"):
            await control.answer(run, question, "blue", who=BOB)
        again = await control.answer(run, question, "red", who=ANN, key="k")

        assert (await control.result(run), again.position) == ("red", given.position)


async def test_many_answers_at_once_are_one(driving: Open) -> None:
    @agent()
    async def clerk(run: Run) -> list[object]:
        answer = await run.ask("Which?")
        return [answer.payload, answer.by]

    refused: list[str] = []
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        question = (await asked(control, run)).position

        async def answer(who: str) -> None:
            try:
                await control.answer(run, question, who, who=Actor(who))
            except InvalidRequest as error:
                refused.append(str(error))

        async with anyio.create_task_group() as people:
            for number in range(5):
                people.start_soon(answer, f"p{number}")
        payload, by = await control.result(run)

        assert payload == by
        assert len(refused) == 4
        assert all(f"was answered by {by}" in why or "is done" in why for why in refused)


@pytest.mark.parametrize("let_it_go", [False, True])
@pytest.mark.slow
async def test_a_question_expires_also_while_nobody_drives_the_run(
    driving: Open, let_it_go: bool
) -> None:
    @agent()
    async def clerk(run: Run) -> list[object]:
        answer = await run.ask("Which?", expires_in=0.2)
        approval = await run.approve("This?", expires_in=0.2)
        return [answer.payload, answer.given, approval.decision, approval.approved]

    waiting = impatient(clerk) if let_it_go else clerk
    async with driving(waiting) as control:
        run = await control.start(waiting, "work")
        question = await asked(control, run)
        assert question.expires_at is not None

        assert await control.result(run) == [None, False, "", False]
        closed = await events_of(control, run, e.QuestionClosed)
        assert [event.why for event in closed] == ["expired", "expired"]


@pytest.mark.parametrize(
    ("says", "heard"),
    [
        ("approve", ApprovalAnswer("approve", "ann")),
        ("reject", ApprovalAnswer("reject", "ann")),
        ({"edit": {"to": "bob"}}, ApprovalAnswer("edit", "ann", edit={"to": "bob"})),
        ({"respond": "why?"}, ApprovalAnswer("respond", "ann", respond="why?")),
    ],
)
async def test_a_function_may_ask_for_approval_itself_and_show_what_it_is_about(
    driving: Open, says: object, heard: ApprovalAnswer
) -> None:
    found: list[ApprovalAnswer] = []

    @agent()
    async def clerk(run: Run) -> bool:
        found.append(await run.approve("Send it?", details={"to": "ann"}))
        return found[-1].approved

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        question = await asked(control, run)
        (opened,) = await events_of(control, run, e.QuestionOpened)
        assert msgspec.json.decode(opened.schema)["x-details"] == {"to": "ann"}
        with pytest.raises(InvalidRequest, match="still open"):
            await control.answer(run, question.position, "perhaps")
        await control.answer(run, question.position, says, who=ANN)

        assert await control.result(run) is heard.approved
        assert found == [heard]

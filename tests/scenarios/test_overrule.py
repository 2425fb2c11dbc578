"""The person overrules a choice, corrects a message, stops by a word, and asks aside."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from midflight.agents import Agent, agent
from midflight.errors import InvalidRequest, JournalNotFound, NotAllowed
from midflight.journal import events as e
from midflight.journal.phases import Cause, Phase
from midflight.journal.threads.thread import UNREAD_MAX, VIEWERS_MAX
from midflight.run import Run
from scenarios.chat import (
    ANN,
    BOB,
    VIC,
    Model,
    clerk,
    replies,
    runs_of,
    talk_of,
    until_chosen,
    until_front,
    until_runs,
    until_said,
)
from scenarios.company import events
from scenarios.conftest import Open
from scenarios.hours import Hours
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


def switching(name: str, **declared: Any) -> tuple[Stage, Model, Agent]:
    stage, model = Stage(name), Model(urgent="switch", later="defer")
    return stage, model, clerk(stage, model, **declared)


# ── another choice ───────────────────────────────────────────────────────────────────────────


async def test_do_it_now_parks_the_work_for_a_message_that_was_to_be_incorporated(
    driving: Open,
) -> None:
    stage, _, works = switching("over-now")
    stage.gate("one")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(first, "also this", who=ANN)
        await until_chosen(control, sent)
        done = await control.overrule(sent.run, sent.position, "switch", who=ANN)

        assert done.status == "parked 'one'; now: also this"
        _, second = await until_runs(control, sent.run, 2)
        assert await control.result(second.journal) == ["also this"]
        stage.gate("one").set()
        assert await control.result(first) == ["one"]


async def test_do_it_now_takes_a_todo_up_at_once(driving: Open) -> None:
    stage, _, works = switching("over-todo")
    stage.gate("one")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(first, "later this", who=ANN)
        await until_chosen(control, sent)
        await control.overrule(sent.run, sent.position, "switch", who=BOB)

        _, second = await until_runs(control, sent.run, 2)
        assert await control.result(second.journal) == ["later this"]
        stage.gate("one").set()
        assert await control.result(first) == ["one"]
        assert len(await runs_of(control, sent.run)) == 2


async def test_a_deferred_message_can_be_incorporated_after_all(driving: Open) -> None:
    stage, _, works = switching("over-inc")
    stage.gate("one")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(first, "later this", who=ANN)
        await until_chosen(control, sent)
        await control.overrule(sent.run, sent.position, "incorporate", who=ANN)
        assert await control.todos(sent.run) == []
        stage.gate("one").set()

        assert await control.result(first) == ["one", "later this"]


async def test_an_incorporated_message_can_be_put_off_while_it_is_unread(driving: Open) -> None:
    stage, _, works = switching("over-defer")
    stage.gate("one")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(first, "also this", who=ANN)
        await until_chosen(control, sent)
        await control.overrule(sent.run, sent.position, "defer", who=ANN)
        assert [todo.text for todo in await control.todos(sent.run)] == ["also this"]
        stage.gate("one").set()

        assert await control.result(first) == ["one"]
        _, second = await until_runs(control, sent.run, 2)
        assert await control.result(second.journal) == ["also this"]


async def test_a_viewers_message_is_neither_done_now_nor_put_off_for_anybody(
    driving: Open,
) -> None:
    stage, _, works = switching("over-viewer")
    stage.gate("one")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(first, "mail the list to x@example.org", who=VIC)
        for choice in ("switch", "defer"):
            with pytest.raises(InvalidRequest, match="role viewer, which may not begin work"):
                await control.overrule(sent.run, sent.position, choice, who=ANN)
        assert await control.todos(sent.run) == []
        await until_chosen(control, sent)
        stage.gate("one").set()

        assert await control.result(first) == ["one", "mail the list to x@example.org"]
        assert len(await runs_of(control, sent.run)) == 1


async def test_whoever_wants_a_todo_now_it_is_done_in_its_senders_name(driving: Open) -> None:
    stage, _, works = switching("over-author")
    stage.gate("one")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(first, "later this", who=ANN)
        await until_chosen(control, sent)
        (todo,) = await control.todos(sent.run)
        done = await control.do_now(sent.run, todo.position, who=BOB)

        (created,) = await events(control.store, done.target, e.RunCreated)
        assert (created.who, created.brief) == (ANN, "later this")
        stage.gate("one").set()
        await control.ended(first)


async def test_go_back_brings_the_parked_run_and_parks_what_is_in_front(driving: Open) -> None:
    stage, _, works = switching("over-back")
    stage.gate("one")
    stage.gate("urgent thing")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(first, "urgent thing", who=ANN)
        second = await until_front(control, sent.run, but=first)
        await stage.until_begun("urgent thing")
        await control.overrule(sent.run, sent.position, "back", who=ANN)

        assert (await talk_of(control, first)).front == first
        held = await control.until(second, lambda state: state.phase is Phase.PAUSED)
        assert held.holds == {Cause.PARKED}
        stage.gate("one").set()
        assert await control.result(first) == ["one"]
        stage.gate("urgent thing").set()
        assert await control.result(second) == ["urgent thing"]


async def test_resume_of_a_parked_run_is_going_back(driving: Open) -> None:
    stage, _, works = switching("over-resume")
    stage.gate("one")
    stage.gate("urgent thing")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(first, "urgent thing", who=ANN)
        second = await until_front(control, sent.run, but=first)
        await control.until(first, lambda state: state.phase is Phase.PAUSED)
        await control.resume(first, who=ANN)

        assert (await talk_of(control, first)).front == first
        stage.gate("one").set()
        stage.gate("urgent thing").set()
        assert await control.result(first) == ["one"]
        assert await control.result(second) == ["urgent thing"]


@pytest.mark.parametrize("choice", ["incorporate", "defer"])
async def test_a_switch_taken_back_cancels_what_was_begun_for_it(
    driving: Open, choice: str
) -> None:
    stage, _, works = switching(f"over-un{choice}")
    stage.gate("one")
    stage.gate("urgent thing")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(first, "urgent thing", who=ANN)
        second = await until_front(control, sent.run, but=first)
        await stage.until_begun("urgent thing")
        await control.overrule(sent.run, sent.position, choice, who=ANN)

        assert (await control.ended(second)).phase is Phase.CANCELLED
        assert (await talk_of(control, first)).front == first
        stage.gate("urgent thing").set()
        stage.gate("one").set()
        if choice == "incorporate":
            assert await control.result(first) == ["one", "urgent thing"]
        else:
            assert await control.result(first) == ["one"]
            third = (await until_runs(control, sent.run, 3))[-1]
            assert await control.result(third.journal) == ["urgent thing"]


async def test_undo_of_what_was_read_goes_back_to_the_brief_without_it(driving: Open) -> None:
    stage, _, works = switching("over-undo")
    stage.gate("one")
    stage.gate("one again")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(first, "also this", who=ANN)
        await until_chosen(control, sent)
        with pytest.raises(
            InvalidRequest, match="cannot be undone, because no run has read it yet"
        ):
            await control.overrule(sent.run, sent.position, "undo", who=ANN)
        stage.gate("one").set()
        await stage.until_begun("one again")
        await control.overrule(sent.run, sent.position, "undo", who=ANN)
        stage.gate("one again").set()

        assert await control.result(first) == ["one"]
        (redirected,) = await events(control.store, first, e.RedirectRequested)
        assert (redirected.text, redirected.who) == ("one", ANN)


async def test_what_makes_no_sense_any_more_is_refused_with_what_to_do(driving: Open) -> None:
    stage, _, works = switching("over-no")
    stage.gate("one again")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one again")
        also = await control.send(first, "also this", who=ANN)
        later = await control.send(first, "later that", who=ANN)
        hers = await control.send(first, "urgent: delete all", who=VIC)
        for sent in (also, later, hers):
            await until_chosen(control, sent)
        thread = also.run
        head = (await talk_of(control, first)).head
        for message, choice, why in [
            (also, "incorporate", f"run {first} takes it into account already"),
            (
                also,
                "back",
                "cannot bring a parked run back, because no run is parked until that message",
            ),
            (later, "defer", "because it is a todo already. Nothing more has to be done. Nothing"),
            (hers, "switch", "role viewer, which may not begin work. Write its words yourself"),
            (also, "dance", "is not a choice; use one of incorporate, switch, defer, back, undo"),
        ]:
            with pytest.raises(InvalidRequest, match=why):
                await control.overrule(thread, message.position, choice, who=ANN)
        with pytest.raises(InvalidRequest, match="message 1 of"):
            await control.overrule(thread, 1, "switch", who=ANN)
        with pytest.raises(NotAllowed):
            await control.overrule(thread, also.position, "switch", who=VIC)
        with pytest.raises(JournalNotFound):
            await control.overrule("t-nowhere", 3, "switch", who=ANN)
        assert (await talk_of(control, first)).head == head
        stage.gate("one again").set()
        await control.ended(first)
        with pytest.raises(
            InvalidRequest, match="not incorporated by a run that is still under way"
        ):
            await control.overrule(thread, also.position, "undo", who=ANN)


async def test_the_same_key_overrules_once(driving: Open) -> None:
    stage, _, works = switching("over-key")
    stage.gate("one")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(first, "also this", who=ANN)
        await until_chosen(control, sent)
        once = await control.overrule(sent.run, sent.position, "defer", key="k", who=ANN)
        again = await control.overrule(sent.run, sent.position, "defer", key="k", who=ANN)
        assert once.position == again.position
        assert len(await control.todos(sent.run)) == 1


# ── before it is read ────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
async def test_a_message_is_edited_and_withdrawn_by_its_sender_before_it_is_read(
    driving: Open, hours: Hours
) -> None:
    stage, model, works = switching("edit", triage_after=5.0)
    stage.gate("one")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        red = await control.send(first, "urgent: the red one", who=ANN)
        gone = await control.send(first, "never mind", who=ANN)
        await control.edit_message(red.run, red.position, "the blue one", who=ANN)
        await control.withdraw_message(red.run, gone.position, who=ANN)
        with pytest.raises(NotAllowed):
            await control.edit_message(red.run, red.position, "pay everything", who=BOB)
        await anyio.sleep(0.1)
        assert model.texts == []
        hours.skip(5)
        assert (await until_chosen(control, red)).choice == "incorporate"
        assert model.texts == [["the blue one"]]
        stage.gate("one").set()

        assert await control.result(first) == ["one", "the blue one"]
        with pytest.raises(InvalidRequest, match=r"no message \d+ that can still be changed"):
            await control.withdraw_message(red.run, red.position, who=ANN)


async def test_a_message_that_is_edited_while_it_is_looked_at_is_looked_at_again(
    driving: Open,
) -> None:
    stage, model, works = switching("edit-late")
    stage.gate("one")
    model.gate = anyio.Event()

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(first, "urgent thing", who=ANN)
        await model.begun.wait()
        await control.edit_message(sent.run, sent.position, "no hurry", who=ANN)
        model.gate.set()

        assert (await until_chosen(control, sent)).choice == "incorporate"
        assert model.texts == [["urgent thing"], ["no hurry"]]


async def test_what_a_person_has_chosen_while_a_model_thinks_stands(driving: Open) -> None:
    stage, model, works = switching("over-first")
    stage.gate("one")
    model.gate = anyio.Event()

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(first, "urgent thing", who=ANN)
        await model.begun.wait()
        await control.overrule(sent.run, sent.position, "incorporate", who=ANN)
        model.gate.set()
        await control.until(first, lambda state: not state.open)
        await anyio.sleep(0.1)

        assert (await talk_of(control, first)).front == first
        stage.gate("one").set()
        assert await control.result(first) == ["one", "urgent thing"]


# ── stop words ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("word", ["stop", " Stop! ", "HALT", "cancel", "abort."])
async def test_a_stop_word_pauses_and_offers_the_cancel_with_its_true_consequence(
    driving: Open, word: str
) -> None:
    stage, model = Stage(f"stop-{word.strip().lower()}"), Model()
    make = stage.writer()
    stage.gate("second")

    @agent(stage.name, converses=True, triage=model.__call__, triage_after=0.02)
    async def maker(run: Run) -> None:
        await run.step("Make", make, "first")
        await run.step("Make more", make, "second")

    async with driving(maker) as control:
        run = await control.start(maker, "work")
        await stage.until_begun("second")
        sent = await control.send(run, word, who=ANN)

        offer = "Cancel? Undoes 2 things, saves partial work to thread."
        assert (sent.did, sent.target, sent.in_flight) == ("paused", run, ("thing",))
        assert sent.status.endswith(offer)
        assert "kept until you resume" not in sent.status
        assert await replies(control, sent.run, "cancel?") == [f"Paused. {offer}"]
        stage.gate("second").set()
        held = await control.until(run, lambda state: state.phase is Phase.PAUSED)
        assert (held.holds, held.cancel_at) == ({Cause.USER}, 0)
        assert model.asked == []
        assert (await talk_of(control, run)).unread == {}
        await control.resume(run)
        await control.ended(run)
        assert len(await runs_of(control, sent.run)) == 1  # the word itself is no work


async def test_viewers_cannot_write_so_much_that_a_stop_is_not_heard(driving: Open) -> None:
    stage, _, works = switching("stop-flood")
    stage.gate("one")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        for n in range(VIEWERS_MAX):
            await control.send(run, f"look {n}", who=VIC)
        with pytest.raises(InvalidRequest, match="64 unread messages of viewers"):
            await control.send(run, "look here", who=VIC)
        for n in range(UNREAD_MAX - VIEWERS_MAX):
            await control.send(run, f"message {n}", who=ANN)
        with pytest.raises(InvalidRequest, match="256 unread messages"):
            await control.send(run, "one more", who=ANN)

        assert (await control.send(run, "stop", who=ANN)).did == "paused"
        await control.until(run, lambda state: state.phase is Phase.PAUSED)


async def test_wait_pauses_and_offers_nothing(driving: Open) -> None:
    stage, _, works = switching("stop-wait")
    stage.gate("one")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(run, "hold on", who=ANN)
        assert sent.did == "paused"
        await control.until(run, lambda state: state.phase is Phase.PAUSED)
        assert await replies(control, sent.run, "cancel?") == []


@pytest.mark.parametrize("text", ["stop the press release", "don't stop", "I said: stop, or not"])
async def test_nothing_but_the_whole_message_is_a_stop_word(driving: Open, text: str) -> None:
    stage, _, works = switching(f"stop-not-{len(text)}")
    stage.gate("one")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(run, text, who=ANN)
        assert sent.did == ""
        assert (await until_chosen(control, sent)).choice == "incorporate"
        assert (await control.state(run)).phase is Phase.RUNNING


async def test_a_stop_word_where_nothing_works_begins_nothing(driving: Open) -> None:
    _, _, works = switching("stop-idle")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await control.ended(run)
        sent = await control.send(run, "stop", who=ANN)
        assert (sent.did, sent.status) == ("", "done; nothing is at work here")
        assert len(await runs_of(control, sent.run)) == 1


async def test_with_nothing_in_front_a_stop_word_pauses_what_works_beside(driving: Open) -> None:
    stage = Stage("stop-beside")
    look = stage.reader()
    stage.gate("slow")

    @agent("stop-beside.scout")
    async def scout(run: Run) -> Any:
        return await run.step("Look", look, "slow")

    @agent("stop-beside", converses=True)
    async def host(run: Run) -> str:
        await run.spawn(scout, "look around")
        return "I have somebody look."

    async with driving(host, scout) as control:
        run = await control.start(host, "look")
        await control.ended(run)
        await stage.until_begun("slow")
        sent = await control.send(run, "stop", who=ANN)
        child = next(iter((await control.state(run)).children))
        assert (sent.did, sent.target) == ("paused", child)
        await control.until(child, lambda state: state.phase is Phase.PAUSED)


# ── aside ────────────────────────────────────────────────────────────────────────────────────


async def test_a_side_question_is_answered_by_a_run_beside_and_touches_nothing(
    driving: Open,
) -> None:
    stage, model = Stage("aside"), Model()
    given: list[Any] = []

    async def aside(run: Run) -> str:
        given.append(run.input)
        await run.say(f"You asked: {run.brief}")
        return "It goes well."

    works = clerk(stage, model, aside=aside)
    stage.gate("one")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        await control.applied(await control.pause(run))
        before = await control.state(run)
        asked = await control.ask_aside(run, "how far are you?", who=ANN)

        answered = await control.ended(asked.target)
        assert (answered.agent, answered.parent) == ("aside-clerk.aside", "")
        assert await replies(control, asked.run, "aside") == [
            "You asked: how far are you?",
            "It goes well.",
        ]
        assert given[0]["brief"] == "one"
        assert given[0]["status"] == "paused"
        assert given[0]["plan"] == ["Look", "Look again"]
        assert (await control.state(run)).head == before.head
        talk = await talk_of(control, run)
        assert (talk.front, talk.unread) == (run, {})
        assert model.asked == []


async def test_without_one_that_answers_the_status_is_the_answer_at_once(driving: Open) -> None:
    stage, _, works = switching("aside-not")
    stage.gate("one")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        thread = (await control.state(run)).thread
        for who in (ANN, VIC):
            asked = await control.ask_aside(thread, "how far are you?", who=who)
            assert asked.status.startswith("working: ")
        assert len(await until_said(control, thread, "aside")) == 2
        assert len(await runs_of(control, thread)) == 1
        with pytest.raises(InvalidRequest, match="needs a text"):
            await control.ask_aside(thread, "  ", who=ANN)


async def test_a_side_question_that_fails_says_so(driving: Open) -> None:
    async def aside(run: Run) -> str:
        raise ValueError("I was not listening")

    stage = Stage("aside-fails")
    works = clerk(stage, aside=aside)
    stage.gate("one")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        asked = await control.ask_aside(run, "well?", who=ANN)
        await control.ended(asked.target)
        assert await replies(control, asked.run, "aside") == [
            "I could not answer that: ValueError: I was not listening"
        ]


# ── looking ──────────────────────────────────────────────────────────────────────────────────


async def test_the_transcript_tells_who_said_what_and_what_became_of_it(driving: Open) -> None:
    stage, _, works = switching("transcript")
    stage.gate("one")

    async with driving(works) as control:
        first = await control.start(works, "one")
        await stage.until_begun("one")
        also = await control.send(first, "also this", who=ANN)
        await until_chosen(control, also)
        later = await control.send(first, "later that", who=VIC)
        await until_chosen(control, later)
        await control.overrule(also.run, also.position, "defer", who=BOB)
        stage.gate("one").set()
        await control.ended(first)
        second = (await until_runs(control, also.run, 2))[-1].journal
        await control.ended(second)

        lines = await control.transcript(also.run)
        told = [(line.kind, line.by, line.text, line.choice, line.status) for line in lines]
        assert ("message", "ann", "also this", "defer", "put off") in told
        assert ("message", "vic", "later that", "incorporate", "read") in told
        assert ("overruled", "bob", "", "defer", "") in told
        kinds = [line.kind for line in lines]
        for earlier, after in [
            ("in front", "message"),
            ("message", "choice"),
            ("choice", "said: triage"),
            ("overruled", "todo: deferred"),
            ("todo: deferred", "todo taken"),
        ]:
            assert kinds.index(earlier) < kinds.index(after)
        assert [line.position for line in lines] == sorted(line.position for line in lines)

"""An agent that converses: a message is answered for while it works, and begins its next run."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from midflight.agents import Agent, agent
from midflight.errors import InvalidRequest
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.journal.record import Limits
from midflight.journal.threads.front import open_messages
from midflight.run import Redirected, Run
from scenarios.chat import (
    ANN,
    VIC,
    Model,
    clerk,
    replies,
    runs_of,
    talk_of,
    triage_calls,
    until_chosen,
    until_runs,
    until_thread,
)
from scenarios.company import events, journal
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


async def test_after_its_end_a_message_begins_the_next_run_of_the_agent(driving: Open) -> None:
    works = clerk(Stage("next"), limits=Limits(steps=9))

    async with driving(works) as control:
        first = await control.start(works, "one")
        await control.ended(first)
        thread = (await control.state(first)).thread
        sent = await control.send(thread, "two", who=ANN)

        assert (sent.did, sent.run) == ("started", thread)
        second = await control.state(sent.target)
        assert (second.agent, second.brief, second.converses) == (works.name, "two", True)
        assert second.limits == works.limits
        assert await control.result(sent.target) == ["two"]
        talk = await talk_of(control, first)
        assert (talk.front, talk.unread) == (sent.target, {})


async def test_to_an_agent_that_does_not_converse_nothing_happens_and_that_is_said(
    driving: Open,
) -> None:
    @agent("next-mute")
    async def mute(run: Run) -> str:
        return run.brief

    async with driving(mute) as control:
        run = await control.start(mute, "one")
        await control.ended(run)
        sent = await control.send(run, "two")

        assert (sent.did, sent.target) == ("", "")
        assert sent.status == "done; nobody reads this until a run is started here"
        assert len(await runs_of(control, sent.run)) == 1
        assert [m.text for m in (await talk_of(control, run)).unread.values()] == ["two"]


@pytest.mark.slow
async def test_a_viewers_message_begins_nothing(driving: Open) -> None:
    works = clerk(Stage("next-viewer"))

    async with driving(works) as control:
        run = await control.start(works, "one")
        await control.ended(run)
        sent = await control.send(run, "mail everybody", who=VIC)
        await anyio.sleep(0.2)  # some sweeps

        assert sent.did == ""
        assert len(await runs_of(control, sent.run)) == 1


async def test_the_same_key_begins_one_run(driving: Open) -> None:
    works = clerk(Stage("next-key"))

    async with driving(works) as control:
        run = await control.start(works, "one")
        await control.ended(run)
        first = await control.send(run, "two", key="k", who=ANN)
        again = await control.send(run, "two", key="k", who=ANN)

        assert (again.position, again.did, again.target) == (
            first.position,
            "started",
            first.target,
        )
        assert len(await runs_of(control, first.run)) == 2


async def test_while_it_works_a_message_is_incorporated_after_the_current_step(
    driving: Open,
) -> None:
    stage, model = Stage("inc"), Model()
    works = clerk(stage, model)
    stage.gate("one")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(run, "also this", who=ANN)
        choice = await until_chosen(control, sent)

        assert (choice.choice, choice.run) == ("incorporate", run)
        assert await replies(control, sent.run, "triage") == [
            "Noted. I take it into account in: one"
        ]
        (view,) = model.asked
        assert (view.brief, view.plan) == ("one", ("Look", "Look again"))
        assert view.status.startswith("working")
        assert [(m.text, m.by, m.role) for m in view.messages] == [
            ("also this", "ann", "controller")
        ]
        stage.gate("one").set()
        assert await control.result(run) == ["one", "also this"]


async def test_what_was_not_chosen_about_yet_is_not_read_and_begins_the_next_run(
    driving: Open,
) -> None:
    stage, model = Stage("inc-late"), Model()
    works = clerk(stage, model, triage_after=5.0)
    stage.gate("one")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(run, "and then?", who=ANN)
        stage.gate("one").set()

        assert await control.result(run) == ["one"]
        _, second = await until_runs(control, sent.run, 2)
        assert await control.result(second.journal) == ["and then?"]
        assert model.asked == []


@pytest.mark.parametrize("mode", ["immediate", "boundary"])
async def test_a_long_step_does_not_keep_anybody_waiting_for_an_answer(
    driving: Open, mode: str
) -> None:
    stage, model = Stage(f"inc-{mode}"), Model()
    works = clerk(stage, model, mode=mode)
    stage.gate("one")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        with anyio.fail_after(5):
            await until_chosen(control, await control.send(run, "hello?", who=ANN))
        assert stage.begun == ["one"]
        stage.gate("one").set()
        assert await control.result(run) == ["one", "hello?"]


async def test_a_triage_is_on_record_as_a_model_call_and_replay_knows_nothing_of_it(
    driving: Open, crashing: Open
) -> None:
    stage, model = Stage("inc-crash"), Model()
    works = clerk(stage, model)
    stage.gate("one")

    async with crashing(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        await until_chosen(control, await control.send(run, "also this", who=ANN))
        (call,) = await triage_calls(control, run)
        assert (call.effect, call.name) == ("model", "Read messages")

    stage.gate("one").set()
    async with driving(works) as control:
        assert await control.result(run) == ["one", "also this"]
        assert len(model.asked) == 1


async def test_a_crash_in_the_middle_of_a_triage_loses_no_message(
    driving: Open, crashing: Open
) -> None:
    stage, model = Stage("tri-crash"), Model()
    works = clerk(stage, model)
    stage.gate("one")
    model.gate = anyio.Event()

    async with crashing(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        await control.send(run, "also this", who=ANN)
        await model.begun.wait()

    model.gate = None
    async with driving(works) as control:
        thread = (await control.state(run)).thread
        await until_thread(control, thread, lambda talk: not open_messages(talk))
        stage.gate("one").set()
        assert await control.result(run) == ["one", "also this"]
        settled = await events(control.store, run, e.AttemptSettled)
        assert [str(x.outcome) for x in settled] == ["aborted", "done"]


@pytest.mark.slow
async def test_a_pause_aborts_the_triage_and_it_is_made_again_after_the_resume(
    driving: Open,
) -> None:
    stage, model = Stage("tri-pause"), Model()
    works = clerk(stage, model)
    stage.gate("one")
    model.gate = anyio.Event()

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(run, "also this", who=ANN)
        await model.begun.wait()
        await control.applied(await control.pause(run))
        assert model.aborted == 1
        assert (await control.state(run)).open == {}
        second = await control.send(run, "and that", who=ANN)
        assert second.status == "paused; your message is kept until you resume"
        await anyio.sleep(0.2)
        assert len(model.asked) == 1  # nobody is asked while the person holds it
        model.gate = None
        await control.resume(run)
        await until_chosen(control, sent)
        stage.gate("one").set()

        assert await control.result(run) == ["one", "also this", "and that"]
        assert model.texts == [["also this"], ["also this", "and that"]]


@pytest.mark.parametrize("verb", ["redirect", "cancel"])
async def test_a_redirect_and_a_cancel_abort_it_too(driving: Open, verb: str) -> None:
    stage, model = Stage(f"tri-{verb}"), Model()
    works = clerk(stage, model)
    stage.gate("one")
    stage.gate("other")
    model.gate = anyio.Event()

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(run, "also this", who=ANN)
        await model.begun.wait()
        held, model.gate = model.gate, None
        if verb == "redirect":
            await control.applied(await control.redirect(run, "other"))
            await until_chosen(control, sent)
            stage.gate("other").set()
            result: Any = await control.result(run)
            assert (model.aborted, result[0]) == (1, "other")
        else:
            await control.cancel(run)
            assert (await control.ended(run)).phase is Phase.CANCELLED
            assert model.aborted == 1
            _, second = await until_runs(control, sent.run, 2)  # it was not read
            assert (await control.ended(second.journal)).brief == "also this"
        assert not held.is_set()


@pytest.mark.parametrize("how", ["raises", "nothing", "nonsense"])
async def test_a_triage_that_fails_or_chooses_nothing_incorporates(driving: Open, how: str) -> None:
    stage = Stage(f"tri-{how}")
    look = stage.reader()
    stage.gate("one")

    async def broken(view: Any) -> Any:
        if how == "raises":
            raise ValueError("no such model")
        return [] if how == "nothing" else ["later", 3]

    @agent(f"tri-{how}", converses=True, triage=broken, triage_after=0.01)
    async def works(run: Run) -> list[str]:
        await run.step("Look", look, run.brief)
        return [message.text for message in await run.inbox()]

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        choice = await until_chosen(control, await control.send(run, "also", who=ANN))
        assert choice.choice == "incorporate"
        assert choice.why == (
            "ValueError: no such model" if how == "raises" else "it has chosen nothing"
        )
        stage.gate("one").set()
        assert await control.result(run) == ["also"]


async def test_at_a_cap_no_model_is_asked_and_the_message_is_incorporated(driving: Open) -> None:
    stage, model = Stage("tri-cap"), Model()
    works = clerk(stage, model, limits=Limits(tokens=10))
    stage.gate("one")

    async with driving(works) as control:
        from midflight.journal.record import Usage
        from scenarios.company import spend

        run = await control.start(works, "one")
        await stage.until_begun("one")
        await spend(control, run, Usage(tokens=11))
        choice = await until_chosen(control, await control.send(run, "also", who=ANN))

        assert (choice.choice, choice.why) == ("incorporate", "the cap on tokens is reached")
        assert model.asked == []


async def test_without_a_triage_of_its_own_plain_words_choose_and_no_model_is_on_record(
    driving: Open,
) -> None:
    stage = Stage("rules")
    works = clerk(stage)
    stage.gate("one")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        head = (await control.state(run)).head
        later = await control.send(run, "water the plants later", who=ANN)
        assert (await until_chosen(control, later)).choice == "defer"
        also = await control.send(run, "and count them", who=ANN)
        assert (await until_chosen(control, also)).choice == "incorporate"
        assert (await control.state(run)).head == head
        stage.gate("one").set()

        assert await control.result(run) == ["one", "and count them"]
        _, second = await until_runs(control, also.run, 2)
        assert await control.result(second.journal) == ["water the plants later"]


async def test_a_look_at_messages_leaves_the_journal_of_a_run_that_is_only_written_to_alone(
    driving: Open,
) -> None:
    stage = Stage("only-written-to")
    works = clerk(stage)
    stage.gate("one")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        head = (await control.state(run)).head
        sent = [await control.send(run, f"message {n}", who=ANN) for n in range(256)]
        with pytest.raises(InvalidRequest, match="256 unread messages"):
            await control.send(run, "one more", who=ANN)
        await until_chosen(control, sent[-1])

        assert (await control.state(run)).head == head
        stage.gate("one").set()
        assert await control.result(run) == ["one", *(f"message {n}" for n in range(256))]
        names = [type(record.event).__name__ for record in await journal(control.store, run)]
        assert names.count("MessagesTaken") == 1


# ── what a run knows of the conversation ─────────────────────────────────────────────────────


async def test_a_run_knows_what_was_said_before_it_and_the_same_at_replay(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("earlier")
    look = stage.reader()
    seen: list[list[tuple[str, str, str, str]]] = []
    stage.gate("two")

    @agent("earlier", converses=True, triage_after=0.01)
    async def remembers(run: Run) -> str:
        told = await run.earlier()
        seen.append([(line.by, line.role, line.kind, line.text) for line in told])
        await run.step("Look", look, run.brief)
        await run.say(f"I did {run.brief}")
        return run.brief

    before = [
        ("library", "controller", "message", "one"),
        ("agent", "agent", "text", "I did one"),
    ]  # and not what vic wrote, which nobody has read: it is still to come
    async with crashing(remembers) as control:
        first = await control.start(remembers, "one")
        await control.send(first, "nice", who=VIC)
        await control.ended(first)
        sent = await control.send(first, "two", who=ANN)
        await stage.until_begun("two")
        await until_chosen(control, await control.send(first, "three", who=ANN))

    stage.gate("two").set()
    async with driving(remembers) as control:
        await control.ended(sent.target)

    assert seen[0] == []
    spoken = [[line for line in told if line[2] != "triage"] for told in seen]
    assert spoken[1] == spoken[2]
    assert sorted(spoken[1]) == sorted(before)


def telling(stage: Stage, model: Model, told: dict[str, list[str]]) -> Agent:
    """Notes under its brief what a run is told of its thread, and reads its inbox."""
    look = stage.reader()

    @agent(f"{stage.name}-tells", converses=True, triage=model.__call__, triage_after=0.02)
    async def tells(run: Run) -> list[str]:
        told[run.brief] = [x.text for x in await run.earlier() if x.kind == "message"]
        await run.step("Look", look, run.brief)
        heard = [message.text for message in await run.inbox()]
        await run.step("Look again", look, f"{run.brief} again")
        return heard

    return tells


async def test_a_message_that_nobody_has_read_is_not_told_and_read_once(driving: Open) -> None:
    told: dict[str, list[str]] = {}
    stage = Stage("told-once")
    tells = telling(stage, Model(), told)
    stage.gate("go on")

    async with driving(tells) as control:
        first = await control.start(tells, "question")
        await control.ended(first)
        await control.send(first, "by the way", who=VIC)
        sent = await control.send(first, "go on", who=ANN)
        await stage.until_begun("go on")
        await until_thread(control, sent.run, lambda talk: not open_messages(talk))
        stage.gate("go on").set()

        assert await control.result(sent.target) == ["by the way"]
        assert told == {"question": [], "go on": ["question"]}
        last = await control.send(first, "and then", who=ANN)
        await control.ended(last.target)
        assert told["and then"] == ["question", "by the way", "go on"]


async def test_what_others_have_still_to_do_is_not_told(driving: Open) -> None:
    """Neither a todo nor a parked run is anybody else's to do; afterwards both were said."""
    told: dict[str, list[str]] = {}
    stage = Stage("told-others")
    tells = telling(stage, Model(later="defer", urgent="switch"), told)
    stage.gate("report")
    stage.gate("report again")

    async with driving(tells) as control:
        first = await control.start(tells, "report")
        await stage.until_begun("report")
        await until_chosen(control, await control.send(first, "in euros", who=ANN))
        deferred = await control.send(first, "later mail Bob", who=ANN)
        await until_chosen(control, deferred)
        stage.gate("report").set()
        await stage.until_begun("report again")
        urgent = await control.send(first, "urgent count", who=ANN)
        await stage.until_begun("urgent count")
        assert told["urgent count"] == []
        stage.gate("report again").set()
        for row in await until_runs(control, urgent.run, 3):
            await control.ended(row.journal)

        assert told["later mail Bob"] == ["report", "in euros", "urgent count"]
        last = await control.send(first, "and then", who=ANN)
        await control.ended(last.target)
        assert told["and then"] == ["report", "in euros", "later mail Bob", "urgent count"]


async def test_a_todo_that_was_removed_is_not_told(driving: Open) -> None:
    told: dict[str, list[str]] = {}
    stage = Stage("told-removed")
    tells = telling(stage, Model(later="defer"), told)
    stage.gate("report")

    async with driving(tells) as control:
        first = await control.start(tells, "report")
        await stage.until_begun("report")
        deferred = await control.send(first, "later mail Bob", who=ANN)
        await until_chosen(control, deferred)
        (todo,) = await control.todos(deferred.run)
        await control.remove_todo(deferred.run, todo.position, who=ANN)
        stage.gate("report").set()
        await control.ended(first)
        last = await control.send(first, "and then", who=ANN)
        await control.ended(last.target)

        assert told["and then"] == ["report"]


async def test_the_profile_changes_where_the_brief_does_and_goes_with_the_conversation(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("profile")
    look = stage.reader()
    for gate in ("one", "calm"):
        stage.gate(gate)

    @agent("profile", converses=True)
    async def chameleon(run: Run) -> list[str]:
        found = [run.profile]
        try:
            await run.step("Look", look, run.brief)
        except Redirected:
            found.append(run.profile)
            await run.step("Look", look, "calm")
        return [*found, run.profile]

    async with crashing(chameleon) as control:
        run = await control.start(chameleon, "one")
        await stage.until_begun("one")
        await control.redirect(run, "other", profile="careful")
        await stage.until_begun("calm")

    stage.gate("calm").set()
    async with driving(chameleon) as control:
        assert await control.result(run) == ["", "careful", "careful"]
        sent = await control.send(run, "next", who=ANN)
        assert await control.result(sent.target) == ["careful", "careful"]


async def test_a_message_knows_what_was_chosen_about_it(driving: Open) -> None:
    stage = Stage("choice")
    look = stage.reader()
    stage.gate("one")

    @agent("choice", converses=True, triage_after=0.01)
    async def reads(run: Run) -> list[str]:
        await run.step("Look", look, run.brief)
        return [message.choice for message in await run.inbox()]

    async with driving(reads) as control:
        run = await control.start(reads, "one")
        await stage.until_begun("one")
        await until_chosen(control, await control.send(run, "also this", who=ANN))
        stage.gate("one").set()
        assert await control.result(run) == ["incorporate"]


def test_a_triage_is_for_agents_that_converse() -> None:
    with pytest.raises(InvalidRequest, match="triage= needs converses=True"):
        agent("mute", triage=Model().__call__)
    with pytest.raises(InvalidRequest, match="between 0 and 5 seconds"):
        agent("slow", converses=True, triage_after=60)

"""“Never mind, do that instead”: plain words that redirect the work before any model is asked."""

from __future__ import annotations

import pytest

from midflight.conversation import TURN_MAX, new_course
from midflight.journal import events as e
from midflight.journal.phases import Cause, Phase
from scenarios.chat import ANN, VIC, Model, clerk, runs_of, talk_of, until_chosen
from scenarios.company import events
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.mark.parametrize(
    ("text", "course"),
    [
        ("never mind, plan a picnic instead", "plan a picnic"),
        ("Nevermind - do this instead: count the chairs.", "count the chairs."),
        ("no, do the invoices instead!", "do the invoices"),
        ("No. Instead, write to bob", "write to bob"),
        ("forget it, let's have lunch instead", "let's have lunch"),
        ("scrap that: a memo\nof one page instead", "a memo\nof one page"),
    ],
)
def test_plain_words_name_the_new_course(text: str, course: str) -> None:
    assert new_course(text) == course


@pytest.mark.parametrize(
    "text",
    [
        "never mind, do this instead",  # do what?
        "never mind the typos, mend the tests instead",  # of the same work
        "no, use the blue one instead",
        "do the invoices instead",
        "no problem",
        "he said: never mind, go home instead",
        "never mind, instead",
        f"never mind, {'x' * TURN_MAX} instead",
    ],
)
def test_whatever_may_mean_something_else_is_left_to_a_triage(text: str) -> None:
    assert new_course(text) == ""


async def test_the_run_in_front_is_redirected_in_the_senders_name_and_no_triage_is_asked(
    driving: Open,
) -> None:
    stage, model = Stage("turned"), Model()
    works = clerk(stage, model)
    stage.gate("one")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(run, "never mind, two instead", who=ANN, key="k")

        assert (sent.did, sent.target) == ("redirected", run)
        assert sent.status.endswith("redirected to: two")
        assert await control.result(run) == ["two"]
        (asked,) = await events(control.store, run, e.RedirectRequested)
        assert (asked.who, asked.text) == (ANN, "two")
        talk = await talk_of(control, run)
        assert talk.unread == {}
        assert talk.read[sent.position].choice == "redirect"
        again = await control.send(run, "never mind, two instead", who=ANN, key="k")
        assert (again.position, again.did) == (sent.position, "redirected")
        assert len(await runs_of(control, sent.run)) == 1
        assert model.asked == []


async def test_what_a_person_holds_takes_the_new_course_when_they_resume(driving: Open) -> None:
    stage = Stage("turned-held")
    works = clerk(stage, Model())
    stage.gate("one")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        await control.pause(run)
        await control.until(run, lambda state: state.phase is Phase.PAUSED)
        sent = await control.send(run, "never mind, two instead", who=ANN)

        assert sent.status == "paused; redirected to: two; taken when you resume"
        assert Cause.USER in (await control.state(run)).holds
        await control.resume(run)
        assert await control.result(run) == ["two"]


async def test_who_may_only_look_redirects_nothing(driving: Open) -> None:
    stage = Stage("turned-viewer")
    works = clerk(stage, Model())
    stage.gate("one")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(run, "never mind, two instead", who=VIC)

        assert sent.did == ""
        assert (await until_chosen(control, sent)).choice == "incorporate"
        assert await events(control.store, run, e.RedirectRequested) == []


async def test_where_nothing_is_at_work_it_is_the_next_task(driving: Open) -> None:
    stage = Stage("turned-idle")
    works = clerk(stage, Model())

    async with driving(works) as control:
        run = await control.start(works, "one")
        await control.ended(run)
        sent = await control.send(run, "never mind, two instead", who=ANN)

        assert sent.did == "started"
        assert await control.result(sent.target) == ["never mind, two instead"]

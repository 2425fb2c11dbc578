"""The agent's code has changed while its run was away: it stops, and asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from midflight.agents import Agent
from midflight.control import Control
from midflight.journal import events as e
from midflight.journal.phases import Cause, Phase
from midflight.journal.state import RunState
from midflight.run import Redirected, Run
from midflight.stores.protocol import Query
from scenarios.conftest import Live, Open
from scenarios.stage import Stage
from scenarios.test_redirect import of_kind, the_question

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("midflight.runtime.driver.REPLAY_S", 0.1)


class Office:
    """An agent in two versions: the one that began the run, and the one that comes back to it."""

    def __init__(self, name: str) -> None:
        self.stage = Stage(name)
        self.make, self.look = self.stage.checked(), self.stage.reader()
        self.stage.gate("end")

    def version(self, body: Callable[[Office, Run], Awaitable[object]]) -> Agent:
        async def clerk(run: Run) -> object:
            return await body(self, run)

        return Agent("clerk", clerk)

    @property
    def made(self) -> list[str]:
        return [what for what in self.stage.done if what != "end"]

    async def before(self, crashing: Open) -> str:
        """The first version makes two things, and dies while it reads."""
        async with crashing(self.version(as_it_was)) as control:
            run = await control.start("clerk", "work")
            await self.stage.until_begun("end")
        self.stage.gate("end").set()
        return str(run)


async def as_it_was(office: Office, run: Run) -> list[object]:
    return [
        await run.step("Make list", office.make, "list"),
        await run.step("Make letter", office.make, "letter"),
        await run.step("Read", office.look, "end"),
    ]


async def renamed(office: Office, run: Run) -> list[object]:
    return [
        await run.step("Make list", office.make, "list"),
        await run.step("Write letter", office.make, "other letter"),
        await run.step("Read", office.look, "end"),
    ]


async def inserted(office: Office, run: Run) -> list[object]:
    return [
        await run.step("Make list", office.make, "list"),
        await run.step("Make copy", office.make, "copy"),
        await run.step("Make letter", office.make, "letter"),
        await run.step("Read", office.look, "end"),
    ]


async def shortened(office: Office, run: Run) -> list[object]:
    return [await run.step("Make list", office.make, "list")]


async def asking(office: Office, run: Run) -> list[object]:
    return [
        await run.step("Make list", office.make, "list"),
        (await run.ask("Really?")).payload,
        await run.step("Make letter", office.make, "letter"),
    ]


async def swapped(office: Office, run: Run) -> list[object]:
    letter = await run.step("Make letter", office.make, "letter")
    return [await run.step("Make list", office.make, "list"), letter]


def held(state: RunState) -> bool:
    return Cause.STALE in state.holds and state.phase is Phase.PAUSED


CHANGES = [
    pytest.param(renamed, "Make letter", "Write letter", id="a step is renamed"),
    pytest.param(inserted, "Make letter", "Make copy", id="a step is inserted"),
    pytest.param(shortened, "Make letter", "its end", id="it ends early"),
    pytest.param(asking, "Make letter", "the question 'Really?'", id="a question is inserted"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("body", "expected", "found"), CHANGES)
async def test_it_is_held_names_expected_and_found_and_starts_nothing(
    driving: Open, crashing: Open, body: Any, expected: str, found: str
) -> None:
    office = Office("stale-held")
    run = await office.before(crashing)

    async with driving(office.version(body)) as control:
        with anyio.fail_after(5):
            state = await control.until(run, held)
        (question,) = state.questions.values()
        may = " The new code may repeat it." if body is not shortened else ""
        assert (question.kind, question.message) == (
            "stale",
            f"The agent's code has changed: expected {expected}, found {found}. "
            f"Already done: thing.{may} What now?",
        )
        await anyio.sleep(0.1)
        assert office.made == ["list", "letter"]


GOING_ON = [
    pytest.param(
        renamed, ["made list", "made other letter", "END"], ["other letter"], id="renamed"
    ),
    pytest.param(
        inserted, ["made list", "made copy", "made letter", "END"], ["copy"], id="inserted"
    ),
    pytest.param(shortened, ["made list"], [], id="shortened"),
]


@pytest.mark.slow
@pytest.mark.parametrize("absent", [False, True], ids=["driven", "nobody drives"])
@pytest.mark.parametrize(("body", "result", "more"), GOING_ON)
async def test_go_on_does_what_is_new_and_nothing_twice(
    driving: Open, crashing: Open, body: Any, result: list[object], more: list[str], absent: bool
) -> None:
    office = Office("stale-go-on")
    run = await office.before(crashing)
    new = office.version(body)

    await answered(run, new, "go on", driving, crashing, absent=absent)
    async with driving(new) as control:
        with anyio.fail_after(5):
            assert await control.result(run) == result
    assert office.made == ["list", "letter", *more]


async def answered(
    run: str, new: Agent, choice: str, driving: Open, crashing: Open, *, absent: bool
) -> None:
    async with (crashing if absent else driving)(new) as control:
        await control.until(run, held)
        question = await the_question(control, run)
        if not absent:
            await control.answer(run, question, choice)
            await control.until(run, lambda state: not held(state))
            return
    async with crashing() as nobody:
        await nobody.answer(run, question, choice)


@pytest.mark.parametrize("choice", ["go on", "fork", "cancel"])
@pytest.mark.slow
async def test_a_crash_right_after_the_answer_changes_nothing_of_it(
    driving: Open, living: Live, crashing: Open, choice: str
) -> None:
    for after in range(50):
        office = Office("stale-crash")
        run = await office.before(crashing)
        new = office.version(inserted)
        async with living(new) as life:
            await life.control.until(run, held)
            await life.control.answer(run, await the_question(life.control, run), choice)
            life.cord.pull(after)
            died = await life.is_cut_short(run)
        async with driving(new) as control:
            with anyio.fail_after(5):
                state = await control.ended(run)
            await as_chosen(control, office, choice, state)
        if not died:
            return
    raise AssertionError("it never outlived the story")


async def as_chosen(control: Control, office: Office, choice: str, state: RunState) -> None:
    made = office.made
    match choice:
        case "go on":
            assert (state.phase, made) == (Phase.DONE, ["list", "letter", "copy"])
        case "cancel":
            assert state.phase is Phase.CANCELLED
            assert list(dict.fromkeys(made)) == ["list", "letter", "undone letter", "undone list"]
        case _:
            assert state.phase is Phase.CANCELLED
            assert [word for word in made if word.startswith("undone")] == []


@pytest.mark.slow
@pytest.mark.parametrize("absent", [False, True], ids=["driven", "nobody drives"])
async def test_fork_begins_a_new_run_there_and_undoes_nothing(
    driving: Open, crashing: Open, absent: bool
) -> None:
    office = Office("stale-fork")
    run = await office.before(crashing)
    new = office.version(renamed)

    await answered(run, new, "fork", driving, crashing, absent=absent)
    async with driving(new) as control:
        with anyio.fail_after(5):
            assert (await control.ended(run)).phase is Phase.CANCELLED
        (forked,) = [row.journal for row in await control.runs(Query()) if row.journal != run]
        question = await the_question(control, forked)
        assert "The run that this is a fork of went on and did: thing." in (
            (await control.state(forked)).questions[question].message
        )
        await control.answer(forked, question, "keep")
        with anyio.fail_after(5):
            assert await control.result(forked) == ["made list", "made other letter", "END"]
    assert office.made == ["list", "letter", "other letter"]


@pytest.mark.slow
@pytest.mark.parametrize("absent", [False, True], ids=["driven", "nobody drives"])
async def test_cancel_undoes_what_the_run_has_done(
    driving: Open, crashing: Open, absent: bool
) -> None:
    office = Office("stale-cancel")
    run = await office.before(crashing)
    new = office.version(renamed)

    await answered(run, new, "cancel", driving, crashing, absent=absent)
    async with driving(new) as control:
        with anyio.fail_after(5):
            assert (await control.ended(run)).phase is Phase.CANCELLED
    assert office.made == ["list", "letter", "undone letter", "undone list"]


async def test_another_order_of_the_same_steps_is_no_change(driving: Open, crashing: Open) -> None:
    office = Office("stale-order")
    run = await office.before(crashing)

    async with driving(office.version(swapped)) as control:
        with anyio.fail_after(5):
            assert await control.result(run) == ["made list", "made letter"]
        assert await of_kind(control, run, e.HoldPlaced) == []
    assert office.made == ["list", "letter"]


@pytest.mark.slow
async def test_after_going_on_a_second_crash_asks_nothing(driving: Open, crashing: Open) -> None:
    office = Office("stale-twice")
    run = await office.before(crashing)
    new = office.version(inserted)
    office.stage.gate("copy")

    async with crashing(new) as control:
        await control.until(run, held)
        await control.answer(run, await the_question(control, run), "go on")
        await office.stage.until_begun("copy")
    office.stage.gate("copy").set()
    async with driving(new) as control:
        with anyio.fail_after(5):
            assert await control.result(run) == ["made list", "made copy", "made letter", "END"]
        assert len(await of_kind(control, run, e.HoldPlaced)) == 1
    assert office.made == ["list", "letter", "copy"]


async def test_a_redirect_that_the_new_code_cannot_hear_where_it_was_told_is_asked_about(
    driving: Open, crashing: Open
) -> None:
    office = Office("stale-redirect")
    office.stage.gate("a")
    office.stage.gate("b")

    async def catching(office: Office, run: Run) -> list[object]:
        try:
            return [await run.step("Read a", office.look, "a")]
        except Redirected as redirected:
            return [redirected.brief, await run.step("Read b", office.look, "b")]

    async def not_reading(office: Office, run: Run) -> list[object]:
        return [run.brief, await run.step("Read b", office.look, "b")]

    async with crashing(office.version(catching)) as control:
        run = await control.start("clerk", "first")
        await office.stage.until_begun("a")
        await control.redirect(run, "second")
        await office.stage.until_begun("b")
    office.stage.gate("b").set()
    async with driving(office.version(not_reading)) as control:
        with anyio.fail_after(5):
            state = await control.until(run, held)
        (question,) = state.questions.values()
        assert "expected a redirect, found Read b" in question.message
        await control.answer(run, question.position, "go on")
        with anyio.fail_after(5):
            assert await control.result(run) == ["second", "B"]

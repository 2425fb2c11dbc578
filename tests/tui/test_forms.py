"""Forms of the terminal app: what is typed stays until it is taken, whatever it is refused for."""

from __future__ import annotations

import pytest
from textual.widgets import Input

from midflight.agents import agent
from midflight.journal.phases import Phase
from midflight.journal.record import Actor, Limits
from midflight.run import Run
from scenarios.conftest import Open
from scenarios.stage import Stage
from tui.screen import Screen, looking
from tui.test_app import watched, worker

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(180)]


def typed(screen: Screen) -> str:
    return screen.app.query_one("#layer-line", Input).value


async def test_a_redirect_typed_while_the_run_comes_to_its_pause_is_taken(driving: Open) -> None:
    stage = Stage("tui-forms-pausing")
    send, read = stage.writer(), stage.reader()
    stage.gate("mail")

    @agent("sender")
    async def sends(run: Run) -> str:
        await run.step("Send", send, "mail")
        await run.step("Read", read, "answer")
        return run.brief

    async with driving(sends) as control:
        run = await control.start("sender", "by post")
        await stage.until_begun("mail")
        await control.pause(run)
        async with looking(control, run) as screen:
            await screen.until("Pausing")
            await screen.press("ctrl+r", *"by bus")
            stage.gate("mail").set()
            await screen.until("Paused")
            await screen.press("enter")
            assert await control.result(run) == "by bus"


async def test_a_refused_redirect_stays_open_with_its_text_and_is_taken_when_sent_again(
    driving: Open,
) -> None:
    stage = Stage("tui-forms-refused")
    async with watched(driving, stage) as (screen, control, run):
        await screen.press("ctrl+r", *"milk")
        asked = await control.redirect(run, "coffee", who=Actor("bob"))
        await control.applied(asked)
        await screen.until("coffee")
        await screen.press("enter")
        await screen.until("has changed at position", "Rewrite the brief")
        assert typed(screen) == "milk"
        assert (await control.state(run)).brief == "coffee"
        await screen.press("enter")
        await control.until(run, lambda state: state.brief == "milk")
        await screen.until_true(lambda: not screen.app.layer.is_open)


async def test_what_was_typed_is_there_again_after_escape_until_it_is_sent(driving: Open) -> None:
    stage = Stage("tui-forms-escape")
    async with watched(driving, stage) as (screen, control, run):
        await screen.press("ctrl+r", *"half a thou", "escape", "ctrl+r")
        assert typed(screen) == "half a thou"
        await screen.press("end", *"ght", "enter")
        await control.until(run, lambda state: state.brief == "half a thought")
        await screen.until_true(lambda: not screen.app.layer.is_open)
        await screen.until("Changed", "thought")
        await screen.press("ctrl+r")
        await screen.until("Rewrite the brief")
        assert typed(screen) == "half a thought"  # it is the brief now
        await screen.press("escape")


async def test_a_cap_that_is_none_stays_in_its_line(driving: Open) -> None:
    stage = Stage("tui-forms-cap")
    stage.gate("score").set()
    works = worker(stage, limits=Limits(steps=2))
    async with driving(works) as control:
        run = await control.start(works, "a memo")
        async with looking(control, run) as screen:
            await screen.until("Paused at the cap", "Raise cap  Esc")
            await screen.press("escape", *"steps=many", "enter")
            await screen.until("steps=many is not a whole number")
            assert typed(screen) == "steps=many"
            await screen.press("home", "shift+end", *"steps=9", "enter")
            await screen.until("Done", "wrote a memo")


async def test_the_words_of_an_answer_to_a_question_that_is_gone_are_told_back(
    driving: Open,
) -> None:
    @agent("asker")
    async def asks(run: Run) -> str:
        await run.ask("Where to?", schema={"type": "string"})
        return str((await run.ask("And back?", schema={"type": "string"})).payload)

    async with driving(asks) as control:
        run = await control.start("asker", "")
        async with looking(control, run) as screen:
            await screen.until("Where to?", "Review  Esc")
            await screen.press("escape", *"Rome by train")
            state = await control.state(run)
            (question,) = state.questions
            await control.answer(run, question, "Paris", who=Actor("bob"))
            await screen.until("And back?", "You had written: Rome by train")
        await control.cancel(run, now=True)
        assert (await control.ended(run)).phase is Phase.CANCELLED

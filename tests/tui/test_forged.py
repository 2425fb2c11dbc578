"""What others have written is drawn, and cannot steer the terminal that the app is in."""

from __future__ import annotations

import pytest
from textual.widgets import Input, Static

from midflight.agents import agent
from midflight.interfaces.terminal.safe_text import STEERING
from midflight.journal.phases import Role
from midflight.journal.record import Actor
from midflight.run import Run
from scenarios.conftest import Open
from scenarios.stage import Stage
from tui.screen import Screen, looking

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(180)]
FORGED = "[b]hi[/]\x1b[7m\x1b]0;pwn\x07\x9b\x7f\u202e!"
SEEN = "[b]hi[/]␛[7m␛]0;pwn"


def steers(screen: Screen) -> set[str]:
    """Of all segments that are drawn: these are what the driver writes, between its own styles."""
    strips = screen.app.screen._compositor.render_strips()
    drawn = "".join(segment.text for strip in strips for segment in strip)
    return {one for one in drawn if ord(one) in STEERING}


async def test_brief_step_message_and_question_are_drawn_to_the_letter(driving: Open) -> None:
    stage = Stage("tui-forged")
    make = stage.writer()

    @agent("parrot")
    async def parrot(run: Run) -> str:
        await run.step(f"Do {run.brief}", make, run.brief)
        schema = {"enum": ["yes", run.brief]}
        answer = await run.ask(f"Sure {run.brief}", schema=schema)
        await run.ask("Which?", schema={"type": "object", "properties": {run.brief: {}}})
        return str(answer.payload)

    async with driving(parrot) as control:
        run = await control.start(parrot, FORGED, title=FORGED)
        viewer = Actor(by="eve", role=Role.VIEWER)
        await control.send(run, f"hear {FORGED}", who=viewer)
        async with looking(control, run, size=(140, 40)) as screen:
            await screen.until(f"Do {SEEN}", f"Sure {SEEN}", f"hear {SEEN}", f"\n {SEEN}")
            assert not steers(screen)
            await control.answer(run, min((await control.state(run)).questions), "yes")
            await screen.until("Which?", f"\n {SEEN[:10]}")
            assert not steers(screen)
            await control.cancel(run)
            await screen.until("Cancelled")
            assert not steers(screen)


async def test_a_widget_that_forgets_to_make_its_text_visible_still_steers_nothing(
    driving: Open,
) -> None:
    stage = Stage("tui-forgets")

    @agent("idle")
    async def idle(run: Run) -> None:
        await stage.gate("never").wait()

    async with driving(idle) as control:
        run = await control.start(idle, FORGED)
        async with looking(control, run) as screen:
            await screen.until("Running")
            await screen.press("ctrl+r")  # the brief as it is, to be rewritten
            await screen.until("Rewrite the brief")
            screen.app.query_one("#layer-title", Static).update("\x1b[2Jforgotten\u202e")
            await screen.until("[2Jforgotten")
            assert screen.app.query_one("#layer-line", Input).value == FORGED
            assert not steers(screen)
        await control.cancel(run, now=True)
        await control.ended(run)

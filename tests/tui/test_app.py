"""The terminal app: the design's keys, on a store and over HTTP; nothing typed is ever lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.control.remote import RemoteControl
from midflight.interfaces.tui.tui_app import LOOK_S
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor, Limits
from midflight.run import Run
from midflight.stores.protocol import Query, Row
from midflight.tools.declaration import tool
from midflight.tools.progress import emit
from remote.doors import DOORS, through
from scenarios.conftest import Open
from scenarios.stage import Stage
from tui.screen import Screen, looking

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(180)]


def worker(stage: Stage, **declared: Any) -> Agent:
    """Three steps; the middle one waits for its cue and speaks meanwhile."""
    make = stage.writer()

    async def speak(what: str) -> str:
        stage.note(stage.begun, what)
        emit("weighing each of them")
        await stage.gate(what).wait()
        return "42 found"

    say = tool(effect="read", name=f"{stage.name}.say")(speak)

    @agent("worker", **declared)
    async def works(run: Run) -> str:
        await run.plan("Fetch the list", "Score each", "Write it down")
        await run.step("Fetch the list", make, "list")
        await run.step("Score each", say, "score")
        await run.step("Write it down", make, run.brief)
        return f"wrote {run.brief}"

    return works


@asynccontextmanager
async def watched(
    driving: Open, stage: Stage, door: str = "here", size: tuple[int, int] = (100, 30)
) -> AsyncIterator[tuple[Screen, Control, str]]:
    """A run in the middle of its work, with somebody in front of it."""
    works = worker(stage)
    async with driving(works) as driver, through(door, driver, works) as control:
        run = await driver.start(works, "a memo on tea", title="Tea memo")
        await stage.until_begun("score")
        async with looking(control, run, size=size) as screen:
            await screen.until("Running", "Fetch the list")
            yield screen, driver, run
        state = await driver.state(run)
        if state.alive:
            stage.gate("score").set()
            await driver.cancel(run, now=True)
            await driver.ended(run)


@pytest.mark.parametrize("door", DOORS)
async def test_escape_pauses_and_resumes_and_never_touches_what_is_typed(
    driving: Open, door: str
) -> None:
    stage = Stage(f"tui-escape-{door}")
    async with watched(driving, stage, door) as (screen, control, run):
        assert "Pause  Esc" in screen.text
        await screen.write("half a thou")
        await screen.press("escape")
        await screen.until("Paused", "Nothing is running or spending", "Resume  Esc")
        assert (await control.state(run)).phase is Phase.PAUSED
        assert screen.composer == "half a thou"
        await screen.press("escape")
        await screen.until("Running", "Pause  Esc")
        assert screen.composer == "half a thou"


async def test_redirect_opens_with_the_old_brief_and_the_change_is_shown(driving: Open) -> None:
    stage = Stage("tui-redirect")
    async with watched(driving, stage) as (screen, control, run):
        await screen.press("ctrl+r")
        await screen.until("Rewrite the brief", "a memo on tea")
        await screen.press("escape")
        assert "Rewrite the brief" not in screen.text
        assert (await control.state(run)).phase is Phase.RUNNING
        await screen.press("ctrl+r")
        await screen.press(*"milk", "enter")
        await screen.until("Changed", "milk")
        assert (await control.state(run)).brief == "milk"


async def test_cancel_is_one_press_and_the_receipt_says_what_was_undone(driving: Open) -> None:
    stage = Stage("tui-cancel")
    async with watched(driving, stage) as (screen, _, _run):
        await screen.until("Cancel  ^X", "Undoes thing")
        await screen.press("ctrl+x")
        await screen.until("Cancelled", "Receipt", "thing: undone", "Start again")
        await screen.press("escape", "ctrl+x")
        await screen.until("It had already finished.")


async def test_what_cannot_be_stopped_any_more_is_asked_about_in_place(driving: Open) -> None:
    stage = Stage("tui-confirm")
    send = stage.writer(irreversible=True, undo=None, approval=False)
    stage.gate("mail")

    @agent("sender")
    async def sends(run: Run) -> None:
        await run.step("Send", send, "mail")

    async with driving(sends) as control:
        run = await control.start("sender", "")
        await stage.until_begun("mail")
        async with looking(control, run) as screen:
            await screen.until("Running")
            await screen.press("ctrl+x")
            await screen.until("Cancel anyway?", "Esc keeps going")
            await screen.press("escape")
            assert (await control.state(run)).phase is Phase.RUNNING
            await screen.press("ctrl+x", "enter")
            await screen.until("Cancelling")
            stage.gate("mail").set()
            await screen.until("Cancelled", "final (irreversible)")


@pytest.mark.parametrize("door", DOORS)
async def test_enter_sends_and_the_thread_shows_what_became_of_it(driving: Open, door: str) -> None:
    stage = Stage(f"tui-send-{door}")
    async with watched(driving, stage, door) as (screen, control, run):
        await screen.write("also the garden")
        await screen.press("enter")
        await screen.until("also the garden", "Sent")
        assert screen.composer == ""
        thread = (await control.state(run)).thread
        (line,) = [line for line in await control.transcript(thread) if line.kind == "message"]
        await screen.write(f"/edit {line.position} only the garden")
        await screen.press("enter")
        await screen.until_true(lambda: screen.composer == "")  # stored, or it would be kept
        await screen.write("/nonsense")
        await screen.press("enter")
        await screen.until("/aside TEXT")
        assert screen.composer == "/nonsense"


async def test_alt_enter_sends_and_switches_and_the_todo_is_listed(driving: Open) -> None:
    stage = Stage("tui-switch")
    stage.gate("shop")
    look = stage.reader()

    @agent("talks", converses=True)
    async def talks(run: Run) -> None:
        heard = [message.text for message in await run.inbox()]
        await run.step("Look", look, run.brief or heard[0])

    async with driving(talks) as control:
        run = await control.start("talks", "shop")
        await stage.until_begun("shop")
        async with looking(Control(control.store, control._engine, who=ANN), run) as screen:
            await screen.until("Running")
            await screen.write("the yard")
            await screen.press("alt+enter")
            await stage.until_begun("the yard")
            await screen.until("Switched to this now")
        stage.gate("shop").set()
        await control.ended(run)


ANN = Actor(by="ann", role=Role.OPERATOR)


async def test_half_of_an_answer_stays_in_its_line_to_be_put_right(driving: Open) -> None:
    @agent("asker")
    async def asks(run: Run) -> str:
        return str((await run.ask("Where to?")).payload)

    async with driving(asks) as control:
        run = await control.start("asker", "")
        async with looking(control, run) as screen:
            await screen.until("Where to?", "Review  Esc")
            await screen.press("escape", *'{"to":', "enter")
            await screen.until("begins like JSON but is not")
            assert (await control.state(run)).phase is Phase.WAITING
            await screen.press(*' "Rome"}', "enter")
            assert await control.result(run) == str({"to": "Rome"})


async def test_a_question_is_a_card_whose_choices_can_be_picked(driving: Open) -> None:
    schema = {"enum": ["red", "green"], "x-labels": {"red": "As before"}}

    @agent("asks")
    async def asks(run: Run) -> str:
        first = await run.ask("Which colour?", schema=schema)
        form = {
            "type": "object",
            "properties": {"n": {"type": "integer"}, "of": {"type": "string"}},
        }
        then = await run.ask("How many?", schema={**form, "required": ["n"]})
        return f"{first.payload} {then.payload}"

    async with driving(asks) as control:
        run = await control.start("asks", "")
        async with looking(control, run) as screen:
            await screen.until("Waiting for you", "Which colour?", "As before", "Review  Esc")
            await screen.press("escape", "down", "enter")
            await screen.until("How many?", "integer")
            await screen.press("escape", *"many", "enter", *"tea", "enter")
            await screen.until("does not fit the question")
            await screen.press("escape")
            for _ in range(4):
                await screen.press("backspace")
            await screen.press("3", "enter", "enter")
            await screen.until("Done")
        assert await control.result(run) == "green {'n': 3, 'of': 'tea'}"


async def test_an_approval_can_be_edited_before_it_is_given(driving: Open) -> None:
    stage = Stage("tui-approve")
    send = stage.writer(irreversible=True, undo=None)

    @agent("sender")
    async def sends(run: Run) -> str:
        sent: str = await run.step("Send", send, "mail")
        return sent

    async with driving(sends) as control:
        run = await control.start("sender", "")
        async with looking(control, run) as screen:
            await screen.until("May this be done: thing?", "Approve - Do it", "Edit", "mail")
            await screen.press("escape", "down", "enter")
            await screen.until('{"edit":{"args":["mail"]')
            line = screen.app.query_one("#card-line")
            line.value = line.value.replace("mail", "letter")  # type: ignore[attr-defined]
            await screen.press("enter")
            await screen.until("Done", "made letter")


async def test_a_card_shows_every_argument_of_what_is_to_be_approved_on_a_line_of_its_own(
    driving: Open,
) -> None:
    @agent("asker")
    async def asks(run: Run) -> str:
        details = {"to": "Ada", "reason": "word " * 70, "amount": 700}
        return (await run.approve("May it be wired?", details=details)).decision

    async with driving(asks) as control:
        run = await control.start("asker", "")
        async with looking(control, run) as screen:
            await screen.until("May it be wired?", "to: Ada", "amount: 700", "Approve - Do it")
        await control.cancel(run, now=True)


async def test_the_last_line_of_a_long_argument_can_be_reached_by_keys_before_it_is_approved(
    driving: Open,
) -> None:
    @agent("asker")
    async def asks(run: Run) -> str:
        lines = [f"line {number} of the letter" for number in range(80)]
        details = {"letter": "\n".join([*lines, "and pay Mallory 900 euros"])}
        return (await run.approve("May it be sent?", details=details)).decision

    async with driving(asks) as control:
        run = await control.start("asker", "")
        async with looking(control, run) as screen:
            await screen.until("May it be sent?", "line 0 of the letter", "Approve - Do it")
            assert "Mallory" not in screen.text
            for _ in range(10):
                if screen.app.focused is not None and screen.app.focused.id == "card-details":
                    break
                await screen.press("shift+tab")
            await screen.press("end")
            await screen.until("and pay Mallory 900 euros", "Approve - Do it")
        await control.cancel(run, now=True)


async def test_a_run_at_its_cap_is_raised_and_goes_on(driving: Open) -> None:
    stage = Stage("tui-cap")
    stage.gate("score").set()
    works = worker(stage, limits=Limits(steps=2))
    async with driving(works) as control:
        run = await control.start(works, "a memo")
        async with looking(control, run) as screen:
            await screen.until("Paused at the cap", "Raise cap  Esc")
            await screen.press("escape")
            await screen.until("Raise the cap", "steps=4")
            await screen.press("enter")
            await screen.until("Done", "wrote a memo")


async def test_the_list_of_runs_leads_from_one_to_another(driving: Open) -> None:
    stage = Stage("tui-runs")
    async with watched(driving, stage) as (screen, control, _):
        stage.gate("score").set()
        await screen.until("Done")
        other = await control.start("worker", "coffee", title="Coffee memo")
        await control.ended(other)
        await screen.press("f2")
        await screen.until("Earlier", "Coffee memo")
        await screen.press("up", "up", "home", "enter")
        await screen.until("wrote coffee")
        assert screen.app.run_shown == other


async def test_what_is_chosen_in_the_list_stays_chosen_when_others_come_before_it(
    driving: Open,
) -> None:
    stage = Stage("tui-chosen")
    async with watched(driving, stage) as (screen, control, _):
        coffee = await control.start("worker", "coffee", title="Coffee memo")
        await screen.press("f2")
        await screen.until("Coffee memo")
        await screen.press("home")
        await control.start("worker", "milk", title="Milk memo")
        await screen.until("Milk memo")
        await screen.press("enter")
        await screen.until_true(lambda: "Tea memo" not in screen.text.splitlines()[0])
        assert screen.app.run_shown == coffee


async def test_the_list_tells_the_end_of_the_run_in_front_as_soon_as_it_is_told(
    driving: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midflight.interfaces.tui.tui_app.RUNS_S", 3600.0)  # only news can tell
    stage = Stage("tui-list")
    async with watched(driving, stage) as (screen, _, _):
        await screen.press("f2")
        await screen.until("Now", "Tea memo")
        stage.gate("score").set()
        await screen.until("Earlier")


class Counted:
    """A control that counts how often the runs are read."""

    def __init__(self, control: Control) -> None:
        self._control, self.read = control, 0

    async def runs(self, query: Query) -> list[Row]:
        self.read += 1
        return await self._control.runs(query)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._control, name)


async def test_a_run_that_moves_at_every_moment_has_the_list_read_a_few_times_a_second(
    driving: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midflight.interfaces.tui.tui_app.RUNS_S", 3600.0)  # only news has it read
    async with driving() as control:
        counted = Counted(control)
        async with looking(counted) as screen:
            await screen.until("Nothing has run yet.")
            began, before, moves = anyio.current_time(), counted.read, 0
            while anyio.current_time() - began < 2.0:
                screen.app.stands("r-busy", f"{moves}")
                moves += 1
                await anyio.sleep(0.01)
            took = anyio.current_time() - began
            assert moves > 10
            assert 2 <= counted.read - before <= took / LOOK_S + 2


async def test_a_pause_pressed_while_the_server_is_away_is_sent_when_it_is_back(
    driving: Open,
) -> None:
    stage = Stage("tui-away")
    async with watched(driving, stage) as (screen, control, run):
        screen.app.there = False
        await screen.until("Reconnecting", "Sent when back online")
        await screen.press("escape")
        await screen.until("Pause will be sent when the server is back.")
        assert (await control.state(run)).phase is Phase.RUNNING
        screen.app.there = True
        await screen.until("Paused", "Resume  Esc")


async def test_a_cancel_pressed_while_the_server_is_away_is_asked_about_again(
    driving: Open,
) -> None:
    stage = Stage("tui-away-cancel")
    async with watched(driving, stage) as (screen, control, run):
        screen.app.there = False
        await screen.until("Reconnecting", "Asks again when back")
        await screen.press("ctrl+x")
        screen.app.there = True
        await screen.until("Cancel was pressed while the server was away.")
        assert (await control.state(run)).phase is Phase.RUNNING
        await screen.press("enter")
        await screen.until("Cancelled")


async def test_ctrl_c_once_says_what_twice_does(
    driving: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "midflight.interfaces.tui.tui_app.LEAVE_S", 60.0
    )  # however late the second one comes
    stage = Stage("tui-leave")
    async with watched(driving, stage) as (screen, _, _run):
        await screen.press("ctrl+c")
        await screen.until("Ctrl+C again leaves; the run goes on.")
        await screen.press("ctrl+c")
        await screen.until_true(lambda: not screen.app.is_running)


async def test_tab_reaches_the_bar_and_says_the_whole_consequence(driving: Open) -> None:
    stage = Stage("tui-tab")
    async with watched(driving, stage) as (screen, control, run):
        await screen.press("tab")
        await screen.until("Pause: Resume keeps context")
        await screen.press("enter")
        await screen.until("Paused")
        assert (await control.state(run)).phase is Phase.PAUSED


async def test_who_opens_it_where_nothing_has_run_is_told_how_to_begin(driving: Open) -> None:
    async with driving() as control, looking(control) as screen:
        await screen.until("Nothing has run yet.")
        await screen.press("escape", "ctrl+x", "ctrl+r", "enter")


async def test_until_the_runs_are_read_nothing_is_said_of_them() -> None:
    nowhere = "http://127.0.0.1:1"
    async with (
        RemoteControl.open(nowhere, "mf_x", patience_s=0.2) as control,
        looking(control) as screen,
    ):
        await screen.until("Reading …", "cannot reach the agent server")
        assert "Nothing has run yet" not in screen.text


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["80x24", "120x40"])
async def test_it_looks_as_it_was_looked_at(driving: Open, size: tuple[int, int]) -> None:
    stage = Stage("tui-looks")
    async with watched(driving, stage, size=size) as (screen, control, run):
        await screen.until_same(f"running-{size[0]}")
        await control.send(run, "also the garden", who=ANN)
        await screen.press("escape")
        await screen.until_same(f"paused-{size[0]}")
        await screen.press("ctrl+x")
        await screen.until_same(f"cancelled-{size[0]}")


async def test_what_goes_on_beside_is_over_on_the_screen_as_soon_as_its_end_is_told(
    driving: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "midflight.interfaces.tui.run_screen.BACKGROUND_S", 3600.0
    )  # only news can tell
    stage = Stage("tui-beside")
    look = stage.reader()
    stage.gate("figures")

    @agent("below")
    async def below(run: Run) -> None:
        await run.step("Look", look, "figures")

    @agent("above")
    async def above(run: Run) -> str:
        await run.spawn(below, "Check the figures")
        return "begun"

    async with driving(above, below) as control:
        run = await control.start("above", "")
        await stage.until_begun("figures")
        await control.ended(run)
        async with looking(control, run) as screen:
            await screen.until("Check the figures", "Running, beside")
            stage.gate("figures").set()
            await screen.until("Done, beside")


async def test_a_press_that_comes_twice_is_told_in_a_few_words(driving: Open) -> None:
    stage = Stage("tui-twice")
    async with watched(driving, stage) as (screen, control, run):
        await screen.press("escape")
        await screen.until("Paused", "Resume  Esc")
        resume = screen.app.slots[0]
        await screen.press("escape")
        await screen.until("Running", "Pause  Esc")
        screen.app.pressing.press(resume, 1)  # the second of two, before anything was drawn
        await screen.until("It is running already.")
        assert (await control.state(run)).phase is Phase.RUNNING

"""When a stop is heard: in the middle of a step, or at its end; and that people are told which."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest

from midflight.agents import Agent, Mode, agent
from midflight.control import Ack, Control
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor
from midflight.run import Run
from midflight.tools.declaration import tool
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]

OPERATOR = Actor(by="olga", role=Role.OPERATOR)
WAITS = "Waits for the end of this step, then"


def reader(stage: Stage, mode: Mode) -> Agent:
    """Reads twice; the first time until its cue, and notes when that is cut short."""

    @tool(effect="read", name=f"{stage.name}.look")
    async def look(what: str) -> str:
        stage.note(stage.begun, what)
        try:
            if what in stage.gates:
                await stage.gates[what].wait()
        except BaseException:
            stage.note(stage.begun, f"{what} cut short")
            raise
        stage.note(stage.done, what)
        return what

    stage.gate("first")

    @agent(stage.name, mode=mode)
    async def works(run: Run) -> str:
        await run.step("Look", look, "first")
        await run.step("Look", look, f"second of {run.brief}")
        return run.brief

    return works


async def paused(control: Control, run: str) -> None:
    await control.until(run, lambda state: state.phase is Phase.PAUSED)


VERBS: dict[str, Callable[[Control, str], Awaitable[Ack]]] = {
    "holds": lambda control, run: control.pause(run),
    "holds for you": lambda control, run: control.take_over(run),
    "changes course": lambda control, run: control.redirect(run, "another"),
    "stops": lambda control, run: control.cancel(run),
}


async def carried_out(control: Control, run: str, verb: str) -> None:
    """Until it has held, and then away with it, or until it has ended."""
    if verb.startswith("holds"):
        await paused(control, run)
        await control.cancel(run)
    await control.ended(run)


@pytest.mark.parametrize("verb", VERBS)
async def test_in_boundary_mode_a_step_is_finished_first_and_the_acknowledgement_says_so(
    driving: Open, verb: str
) -> None:
    stage = Stage(f"boundary-{verb}")
    works = reader(stage, "boundary")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("first")
        assert (await VERBS[verb](control, run)).status == f"{WAITS} {verb}"
        await anyio.sleep(0.1)
        assert stage.begun == ["first"]  # not cut short, and nothing else began
        stage.gate("first").set()
        await carried_out(control, run, verb)

        assert stage.done[0] == "first"
        assert "second of one" not in stage.begun


@pytest.mark.parametrize("verb", VERBS)
async def test_in_immediate_mode_it_is_cut_short_and_nothing_is_said_of_waiting(
    driving: Open, verb: str
) -> None:
    stage = Stage(f"immediate-{verb}")
    works = reader(stage, "immediate")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("first")
        assert (await VERBS[verb](control, run)).status == ""
        await stage.until_begun("first cut short")
        stage.gate("first").set()  # a redirected run reads it once more
        await carried_out(control, run, verb)

        assert "second of one" not in stage.begun


@pytest.mark.parametrize("mode", ["immediate", "boundary"])
@pytest.mark.parametrize("verb", ["cancel now", "kill"])
async def test_the_hard_stops_are_heard_at_once_in_both_modes(
    driving: Open, mode: Mode, verb: str
) -> None:
    stage = Stage(f"hard-{mode}-{verb}")
    works = reader(stage, mode)

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("first")
        if verb == "kill":
            await control.kill(f"agent:{works.name}", who=OPERATOR)
        else:
            assert (await control.cancel(run, now=True)).status == ""
        await stage.until_begun("first cut short")
        state = await control.ended(run)

        assert state.phase is (Phase.KILLED if verb == "kill" else Phase.CANCELLED)
        assert stage.done == []


async def test_the_mode_is_known_also_where_a_run_was_started_by_the_name_of_its_agent(
    driving: Open,
) -> None:
    stage = Stage("boundary-by-name")
    works = reader(stage, "boundary")

    async with driving(works) as control:
        run = await Control(control.store).start(works.name, "one")  # knows no agents
        await stage.until_begun("first")
        assert (await control.pause(run)).status == f"{WAITS} holds"
        stage.gate("first").set()
        await carried_out(control, run, "holds")


async def test_a_cancel_that_waits_can_be_hurried(driving: Open) -> None:
    stage = Stage("boundary-hurried")
    works = reader(stage, "boundary")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("first")
        await control.cancel(run)
        assert (await control.preview(run))["cancel"].label == "Stop now"
        await control.cancel(run, now=True)
        await stage.until_begun("first cut short")
        await control.ended(run)


async def test_an_effect_is_not_cut_short_by_a_cancel_in_boundary_mode_and_is_then_undone(
    driving: Open,
) -> None:
    stage = Stage("boundary-effect")
    make = stage.writer()
    stage.gate("it")

    @agent("boundary-effect", mode="boundary")
    async def works(run: Run) -> None:
        await run.step("Make", make, "it")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("it")
        offers = await control.preview(run)
        assert offers["pause"].consequence == f"{WAITS[:-6]} (thing), then holds"
        assert offers["cancel"].consequence == (
            f"{WAITS} undoes thing, saves partial work to thread"
        )
        accepted = await control.cancel(run)
        assert (accepted.in_flight, accepted.status) == (("thing",), f"{WAITS} stops")
        stage.gate("it").set()
        await control.ended(run)

        assert [line.text for line in (await control.receipt(run)).lines] == ["thing: undone"]
        assert stage.done == ["it", "undone it"]


async def test_the_same_answer_is_given_when_it_is_asked_again_under_its_key(
    driving: Open,
) -> None:
    stage = Stage("boundary-again")
    works = reader(stage, "boundary")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("first")
        first = await control.pause(run, key="k")
        stage.gate("first").set()
        await paused(control, run)
        assert await control.pause(run, key="k") == first
        await control.cancel(run)


@pytest.mark.parametrize("mode", ["immediate", "boundary"])
async def test_what_does_not_run_waits_for_no_step(driving: Open, mode: Mode) -> None:
    @agent(f"asks-{mode}", mode=mode)
    async def asks(run: Run) -> None:
        await run.ask("Well?")

    async with driving(asks) as control:
        run = await control.start(asks, "one")
        await control.until(run, lambda state: state.phase is Phase.WAITING)
        assert (await control.preview(run))["pause"].consequence == "Resume keeps context"
        assert (await control.pause(run)).status == ""
        assert (await control.cancel(run)).status == ""
        await control.ended(run)

"""Verbs for what holds a run, each with its owner: a cap, a person, an effect in flight."""

from __future__ import annotations

from typing import Annotated

import typer

from midflight.cli.caps import Repeats, Seconds, Steps, Tokens, ToolCalls, Usd
from midflight.cli.delivered import WAIT_S, deliver
from midflight.cli.desk import SHOWN, Desk, RunArgument, at_a_desk
from midflight.cli.lifting import raising
from midflight.cli.look import book_of
from midflight.cli.printing import print, print_json
from midflight.cli.steer import Wait
from midflight.errors import InvalidRequest
from midflight.kernel.record import Limits
from midflight.kernel.state import RunState
from midflight.view.amounts import cap_words

app = typer.Typer()


@at_a_desk(app, name="raise")
async def raise_caps(
    desk: Desk,
    run: RunArgument,
    usd: Usd = None,
    seconds: Seconds = None,
    steps: Steps = None,
    tokens: Tokens = None,
    tool_calls: ToolCalls = None,
    repeats: Repeats = None,
    no_caps: Annotated[bool, typer.Option("--no-caps", help="Take all caps away.")] = False,
    wait: Wait = WAIT_S,
) -> int:
    """Set new caps; a run that is held at one goes on. Without any: show how full they are."""
    meant = await desk.run(run)
    caps = Limits(steps, seconds, tokens, usd, tool_calls, repeats)
    if caps == Limits() and not no_caps:
        return await _caps(desk, meant)
    accepted = await desk.control.raise_limits(meant, caps, no_caps=no_caps)
    return await deliver(desk, accepted, wait_s=wait)


async def _caps(desk: Desk, run: str) -> int:
    sheet = (await book_of(desk.control, run)).sheet()
    if desk.as_json:
        print_json({"run": run, "limits": sheet.limits, "meters": sheet.meters})
        return 0
    for meter in sheet.meters:
        print(cap_words(meter, sheet.spent))
    if sheet.limits.repeats is not None:
        print(f"the same call at most {sheet.limits.repeats} times again")
    if sheet.limits == Limits():
        print("It has no caps.")
    example = raising(sheet) or ["--steps 200"]
    print(f"Set one with: {desk.command('raise', run[:SHOWN], *example)}")
    return 0


@at_a_desk(app, name="take-over")
async def take_over(desk: Desk, run: RunArgument, wait: Wait = WAIT_S) -> int:
    """Do it yourself: the run holds, as at a pause, until you hand it back."""
    accepted = await desk.control.take_over(await desk.run(run))
    status = await deliver(desk, accepted, wait_s=wait)
    if not desk.as_json:
        print(f"Give it back with: {desk.command('hand-back', accepted.run[:SHOWN])}")
    return status


@at_a_desk(app, name="hand-back")
async def hand_back(
    desk: Desk,
    run: RunArgument,
    note: Annotated[str, typer.Argument(metavar="TEXT", help="What the run is told.")] = "",
    wait: Wait = WAIT_S,
) -> int:
    """Give a run back that a person has; it goes on with what it is told."""
    return await deliver(desk, await desk.control.hand_back(await desk.run(run), note), wait_s=wait)


@at_a_desk(app, name="stop-effect")
async def stop_effect(
    desk: Desk,
    run: RunArgument,
    attempt: Annotated[
        int | None, typer.Argument(metavar="POSITION", help="Which one, if there are several.")
    ] = None,
    wait: Wait = WAIT_S,
) -> int:
    """Abort the effect that a pause waits for. What became of it is then not known."""
    meant = await desk.run(run)
    chosen = attempt or _only(meant, await desk.control.state(meant))
    return await deliver(desk, await desk.control.stop_effect(meant, chosen), wait_s=wait)


def _only(run: str, state: RunState) -> int:
    able = [flying for flying in state.open.values() if flying.can_be_stopped]
    if not able:
        raise InvalidRequest(f"nothing in flight in run {run} can be stopped. Nothing was changed.")
    if len(able) > 1:
        some = ", ".join(f"{flying.position} ({flying.label})" for flying in able)
        raise InvalidRequest(f"several are in flight: {some}. Say which. Nothing was changed.")
    return able[0].position

"""The verbs over a run: pause, resume, redirect, cancel, fork, undo, holds; and the kill switch."""

from __future__ import annotations

from typing import Annotated, Literal

import anyio
import msgspec
import typer

from midflight.errors import InvalidRequest
from midflight.interfaces.cli.acknowledgement import WAIT_S, deliver, nobody, raising
from midflight.interfaces.cli.arguments import (
    Repeats,
    Seconds,
    Steps,
    Tokens,
    ToolCalls,
    Usd,
    confirm,
)
from midflight.interfaces.cli.console import print, print_json
from midflight.interfaces.cli.run_display import book_of
from midflight.interfaces.cli.target import BEHIND, Desk, RunArgument, at_a_desk
from midflight.interfaces.terminal.looks import SHOWN
from midflight.journal.phases import IN_MOTION
from midflight.journal.record import Limits
from midflight.journal.state import RunState
from midflight.stores.protocol import Query
from midflight.view.shown_values import cap_words

app = typer.Typer()
Scope = Annotated[
    Literal["tree", "this"], typer.Option(help="With its background runs, or this one only.")
]
Wait = Annotated[
    float, typer.Option(min=0, max=3600, metavar="SECONDS", help="How long to wait for it.")
]
CANCEL_WAIT_S = 10.0
SCOPE = Annotated[str, typer.Argument(help="all, agent:NAME or thread:ID.")]


@at_a_desk(app)
async def pause(desk: Desk, run: RunArgument, scope: Scope = "tree", wait: Wait = WAIT_S) -> int:
    """Hold a run: nothing further starts, an effect in flight finishes first."""
    accepted = await desk.control.pause(await desk.run(run), scope=scope)
    return await deliver(desk, accepted, wait_s=wait)


@at_a_desk(app)
async def resume(desk: Desk, run: RunArgument, scope: Scope = "tree", wait: Wait = WAIT_S) -> int:
    """Go on where it was; a parked run comes to the front."""
    accepted = await desk.control.resume(await desk.run(run), scope=scope)
    if accepted.run.startswith("t-"):  # a todo was taken: the thread has it on record
        return _taken_up(desk, accepted.target)
    return await deliver(desk, accepted, wait_s=wait)


def _taken_up(desk: Desk, run: str) -> int:
    if desk.as_json:
        print_json({"run": run, "verb": "resume", "delivery": "applied"})
    else:
        print(f"{run[:SHOWN]}  comes to the front; what was there is parked")
    return 0


@at_a_desk(app)
async def redirect(
    desk: Desk,
    run: RunArgument,
    text: Annotated[str, typer.Argument(help="The new course.")],
    resume: Annotated[bool, typer.Option("--resume", help="And go on, if it is paused.")] = False,
    profile: Annotated[str, typer.Option(help="Another prompt, model or set of tools.")] = "",
    wait: Wait = WAIT_S,
) -> int:
    """Change course: finished work is kept, the next step is rewritten."""
    meant = await desk.run(run)
    accepted = await desk.control.redirect(meant, text, resume=resume, profile=profile)
    return await deliver(desk, accepted, wait_s=wait)


@at_a_desk(app)
async def cancel(
    desk: Desk,
    run: RunArgument,
    now: Annotated[bool, typer.Option("--now", help="Skip the undoing.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Also if something cannot be stopped any more.")
    ] = False,
    scope: Scope = "tree",
    wait: Wait = CANCEL_WAIT_S,
) -> int:
    """Stop a run: abort, undo, save partial work; then show what became of everything."""
    meant = await desk.run(run)
    offer = (await desk.control.preview(meant))["cancel"]
    if offer.confirm and not yes:
        confirm(offer.confirm, "not cancelled. Nothing was changed.")
    accepted = await desk.control.cancel(meant, now=now, scope=scope)
    return await deliver(desk, accepted, wait_s=wait, ready=lambda state: not state.alive)


@at_a_desk(app)
async def fork(
    desk: Desk,
    run: RunArgument,
    at: Annotated[str, typer.Argument(metavar="STEP", help="Its name, or its position.")],
    brief: Annotated[str, typer.Option(help="Another brief for the new run.")] = "",
) -> int:
    """Try again from a step of a run that has ended: earlier steps are taken over."""
    place = int(at) if at.isdecimal() else at
    return await begun(desk, await desk.control.fork(await desk.run(run), place, brief=brief))


async def begun(desk: Desk, run: str, module: str = "") -> int:
    """Say which run has begun, and how to see it; a driver may need a moment to find it."""
    if not desk.remote:
        with anyio.move_on_after(WAIT_S):
            await desk.control.until(run, lambda state: bool(state.driver) or not state.alive)
    driven = desk.remote or await desk.driven(run)
    if desk.as_json:
        print_json({"run": run, "driven": driven})
        return 0
    print(run)
    if driven:
        print(f"Follow it with: {desk.command('watch', run[:SHOWN])}")
    else:
        print(nobody((await desk.row(run)).agent, module))
    return 0


@at_a_desk(app)
async def undo(
    desk: Desk,
    run: RunArgument,
    effect: Annotated[
        list[int], typer.Option(metavar="POSITION", help="Only this one; may be repeated.")
    ] = [],  # noqa: B006 - read and never changed
    wait: Wait = CANCEL_WAIT_S,
) -> int:
    """Undo effects of a run that has ended, and show what became of them."""
    accepted = await desk.control.undo(await desk.run(run), effect)
    return await deliver(
        desk, accepted, wait_s=wait, ready=lambda state: not (state.undos or state.still_to_undo)
    )


@at_a_desk(app)
async def recover(desk: Desk, run: RunArgument) -> int:
    """Bring a killed run back, paused. Operators only."""
    return await deliver(desk, await desk.control.recover(await desk.run(run)))


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
        raise InvalidRequest(
            f"run {run} has several effects in flight: {some}. Give the number of the one to stop. "
            "Nothing was changed."
        )
    return able[0].position


@at_a_desk(app)
async def kill(
    desk: Desk,
    scope: SCOPE,
    reason: Annotated[str, typer.Option(help="For the record.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> int:
    """Stop everything in a scope at once. No undo and no saving; cancel stops one run cleanly."""
    if not yes:
        await _ask(desk, scope)
    killing = await desk.control.kill(scope, reason=reason, **desk.named)
    seen = await _was_seen(desk, scope)
    if desk.as_json:
        print_json({**msgspec.structs.asdict(killing), "seen": seen})
        return 0
    number = len(killing.killed)
    print(f"Stopped {number} run{'s' * (number != 1)}. New ones are refused until the release.")
    for run, flying in killing.killed.items():
        print(f"  {run[:SHOWN]}" + (f"  in flight: {len(flying)}" if flying else ""))
    if not seen:
        print(f"No {scope.partition(':')[0]} of that name was ever seen here; the stop holds.")
    print(f"Release with: {desk.command('release', scope)}")
    return 0


async def _was_seen(desk: Desk, scope: str) -> bool:
    """Return whether anything was ever in this scope; a switch holds for later runs all the same.

    Ask after the switch is set, so that nothing can come in between.
    """
    kind, _, name = scope.partition(":")
    if kind == "agent":
        return bool(await desk.control.runs(Query(agent=name, limit=1)))
    if kind == "thread":
        rows = await desk.control.runs(Query(kind="thread", before=name + BEHIND, limit=1))
        return any(row.journal == name for row in rows) or bool(
            await desk.control.runs(Query(thread=name, limit=1))
        )
    return True


async def _ask(desk: Desk, scope: str) -> None:
    rows = await desk.control.in_scope(scope)
    number = sum(row.phase in IN_MOTION for row in rows)
    resting = len(rows) - number
    others = f", and keep {resting} queued, paused or waiting from moving" if resting else ""
    work = f"{number} run{'s' * (number != 1)} at work"
    question = f"Stop {work} now{others}? No undo and no saving."
    confirm(question, "not stopped. Nothing was changed.")


@at_a_desk(app)
async def release(
    desk: Desk,
    scope: SCOPE = "",
) -> int:
    """Let a scope move again. Without one: list what is stopped."""
    if not scope:
        return await _switches(desk)
    released = await desk.control.release(scope, **desk.named)
    if desk.as_json:
        print_json({"scope": scope, "released": released})
    else:
        print(
            f"{scope} may move again."
            if released
            else f"No kill switch is on for {scope}. Nothing was changed."
        )
    return 0 if released else 1


async def _switches(desk: Desk) -> int:
    found = await desk.control.switches()
    if desk.as_json:
        print_json({"switches": found})
        return 0
    for switch in found:
        why = f": {switch.reason}" if switch.reason else ""
        print(f"{switch.scope}  stopped by {switch.by}{why}")
    if not found:
        print("Nothing is stopped.")
    return 0

"""The verbs over a run: pause, resume, redirect, cancel, fork, undo, recover."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import anyio
import typer

from midflight.cli.asking import confirmed
from midflight.cli.delivered import WAIT_S, deliver, nobody
from midflight.cli.desk import SHOWN, Desk, RunArgument, at_a_desk
from midflight.cli.printing import print, print_json
from midflight.errors import InvalidRequest

app = typer.Typer()
Scope = Annotated[
    Literal["tree", "this"], typer.Option(help="With its background runs, or this one only.")
]
Wait = Annotated[
    float, typer.Option(min=0, max=3600, metavar="SECONDS", help="How long to wait for it.")
]
CANCEL_WAIT_S = 10.0


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
        _confirm(offer.confirm)
    accepted = await desk.control.cancel(meant, now=now, scope=scope)
    return await deliver(desk, accepted, wait_s=wait, ready=lambda state: not state.alive)


def _confirm(question: str) -> None:
    """Ask at the terminal; without one, refuse unless ``--yes`` was given."""
    if not sys.stdin.isatty():
        raise InvalidRequest(f"{question} Say so with --yes. Nothing was changed.")
    if not confirmed(question):
        raise InvalidRequest("not cancelled. Nothing was changed.")


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

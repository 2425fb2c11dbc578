"""The receipt of a verb, and the command that settles a question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import anyio
import msgspec
from msgspec import Struct

from midflight.control.ack import Ack
from midflight.interfaces.cli.arguments import OPTIONS
from midflight.interfaces.cli.console import print, print_json
from midflight.interfaces.cli.target import Desk
from midflight.interfaces.terminal.answer_form import wanted
from midflight.interfaces.terminal.looks import DOUBTFUL, SHOWN, indented
from midflight.interfaces.terminal.safe_text import folded, more
from midflight.journal.phases import ENDS
from midflight.journal.requests import ASIDE, HANDED_OVER
from midflight.journal.state import RunState
from midflight.journal.status import INHERITED, SAVED, Receipt, receipt, status
from midflight.view import RunSheet, control_bar
from midflight.view.data import Asked
from midflight.view.shown_values import CAP, raised, typed

Command = Callable[..., str]


def way_out(command: Command, sheet: RunSheet, asked: Asked) -> str:
    """The command that lets the run go on, as it has to be typed."""
    run = sheet.run[:SHOWN]
    if asked.kind == CAP:
        return command("raise", run, *raising(sheet))
    if asked.kind == HANDED_OVER:
        return command("hand-back", run, "WHAT_YOU_DID")
    several = sum(control_bar.is_answered(one) for one in sheet.questions) > 1
    return command("answer", run, "ANSWER", *_which(asked, several))


def question_lines(command: Command, sheet: RunSheet, asked: Asked) -> list[str]:
    """Return all that a person needs to decide, for ``show``, ``run``, ``watch`` and ``answer``.

    That is the message, the facts of the question, the answers that it takes, and the command.
    """
    fitting = wanted(msgspec.json.decode(asked.schema)) if control_bar.is_answered(asked) else []
    return [asked.message, *fitting, way_out(command, sheet, asked)]


def _which(asked: Asked, several: bool) -> list[str]:
    return ["--question", str(asked.question)] if several else []


def raising(sheet: RunSheet) -> list[str]:
    """The options that would let it go on for as long again."""
    return [f"{OPTIONS[name]} {typed(cap)}" for name, cap in raised(sheet).items()]


def ways_on(command: Command, sheet: RunSheet) -> list[str]:
    """Return the command to hand back a run that a person has taken over without a question."""
    asked = any(one.kind == HANDED_OVER for one in sheet.questions)
    held = "human" in sheet.holds and not asked
    return [command("hand-back", sheet.run[:SHOWN], "WHAT_YOU_DID")] if held else []


WAIT_S: Final = 2.5  # a driver looks for work every two seconds
Ready = Callable[[RunState], bool]


def nobody(agent: str, module: str = "") -> str:
    """Return the line about a run that nobody drives, with the command that would drive it.

    A server may well run, with other agents. ``module`` holds the agent, if the caller knows it.
    """
    place = f"{module or 'MODULE'}:{agent.removesuffix(ASIDE)}"
    return f"Recorded. Nobody drives it now; it goes on with: midflight serve {place}"


class Delivered(Struct, frozen=True):
    """A verb's receipt, and how the run stands after it.

    ``delivery`` is accepted, applied or superseded; ``driven`` says whether anybody drives the run.
    ``said`` is what the verb was answered with: of a resume, what was changed meanwhile.
    """

    run: str
    verb: str
    position: int
    in_flight: tuple[str, ...]
    delivery: str
    phase: str
    status: str
    driven: bool
    receipt: Receipt | None = None
    said: str = ""


async def deliver(
    desk: Desk, accepted: Ack, *, wait_s: float = WAIT_S, ready: Ready | None = None
) -> int:
    """Wait a little for a verb to be applied, and say how the run stands."""
    run, position = accepted.run, accepted.position

    def applied(state: RunState) -> bool:
        delivery = state.deliveries.get(position)
        return delivery is None or delivery.status != "accepted"

    with anyio.move_on_after(wait_s):
        await desk.control.until(run, ready or applied)
    state: RunState = await desk.control.state(run)
    delivery = state.deliveries.get(position)
    ended = state.phase in ENDS
    alone = await desk.control.undriven_since(state) is not None
    found = Delivered(
        run=run,
        verb=accepted.verb,
        position=position,
        in_flight=accepted.in_flight,
        delivery=delivery.status if delivery is not None else "applied",
        phase=state.phase,
        status=status(state, await desk.control.store.now(), alone=alone),
        driven=not state.wants_driver or await desk.driven(run),
        receipt=receipt(state) if ended else None,
        said=accepted.status,
    )
    if desk.as_json:
        print_json(found)
    else:
        _tell(desk, found, state.agent)
    return 0


def _tell(desk: Desk, found: Delivered, agent: str) -> None:
    said = found.status if found.driven else f"{found.verb}: {nobody(agent)}"
    print(f"{found.run[:SHOWN]}  {indented(said)}")
    if found.said:
        print(f"  {indented(found.said)}")
    if found.delivery == "superseded":
        print("  superseded by what was asked after it")
    if found.receipt is not None:
        tell_receipt(found.receipt, how=desk.command("show", found.run[:SHOWN], "--all"))


def tell_receipt(
    kept: Receipt, *, numbered: bool = False, whole: bool = False, how: str = "--all"
) -> None:
    """Print every effect with its outcome, numbered if wanted, and what was saved.

    Of many the middle is folded, unless the ``whole`` is wanted; ``how`` says how that is seen.
    """
    doubtful = [place for place, line in enumerate(kept.lines) if line.word in DOUBTFUL]
    for place in folded(len(kept.lines), doubtful, whole=whole):
        if isinstance(place, range):
            print(f"  {more(place, 'effect', how)}")
            continue
        line = kept.lines[place]
        text = indented(line.text)
        print(f"{line.position:>4}  {text}" if numbered else f"  {text}")
    _tell_list(SAVED, kept.saved, whole, how)
    _tell_list(INHERITED, kept.inherited, whole, how)


def _tell_list(heading: str, things: Sequence[str], whole: bool, how: str) -> None:
    if things:
        print(f"  {heading}")
    for place in folded(len(things), whole=whole):
        if isinstance(place, range):
            print(f"    {more(place, 'line', how)}")
        else:
            print(f"    {indented(things[place])}")

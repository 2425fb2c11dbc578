"""The receipt of a verb: applied, or recorded until somebody drives the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import anyio
from msgspec import Struct

from midflight.cli.desk import SHOWN, Desk
from midflight.cli.printing import print, print_json
from midflight.control.ack import Ack
from midflight.kernel.decide import ASIDE
from midflight.kernel.phases import ENDS
from midflight.kernel.receipt import Receipt, receipt
from midflight.kernel.state import RunState
from midflight.kernel.status import status
from midflight.terminal.folding import folded, more
from midflight.terminal.looks import indented

WAIT_S: Final = 2.5  # a driver looks for work every two seconds
DOUBTFUL: Final = frozenset({"unknown", "could not be undone"})
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
    _tell_list("saved", kept.saved, whole, how)
    _tell_list("taken over", kept.inherited, whole, how)


def _tell_list(word: str, things: Sequence[str], whole: bool, how: str) -> None:
    for place in folded(len(things), whole=whole):
        if isinstance(place, range):
            print(f"  {more(place, 'line', how)}")
        else:
            print(f"  {word}: {indented(things[place])}")

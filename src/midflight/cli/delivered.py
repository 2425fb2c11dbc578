"""What became of a verb: applied, or recorded until somebody drives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio
from msgspec import Struct

from midflight.cli.desk import SHOWN, Desk
from midflight.cli.printing import print, print_json
from midflight.kernel.decide import ASIDE
from midflight.kernel.phases import ENDS
from midflight.kernel.receipt import Receipt, receipt
from midflight.kernel.state import RunState
from midflight.kernel.status import status
from midflight.terminal.looks import indented
from midflight.verbs.covering import Accepted

WAIT_S: Final = 2.5  # whoever drives looks for work every two seconds
Ready = Callable[[RunState], bool]


def nobody(agent: str) -> str:
    """What is said of a run that nobody drives: a server may well run, with other agents."""
    return f"recorded; continues when `midflight serve` runs with agent {agent.removesuffix(ASIDE)}"


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
    desk: Desk, accepted: Accepted, *, wait_s: float = WAIT_S, ready: Ready | None = None
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
    found = Delivered(
        run=run,
        verb=accepted.verb,
        position=position,
        in_flight=accepted.in_flight,
        delivery=delivery.status if delivery is not None else "applied",
        phase=state.phase,
        status=status(state, await desk.control.store.now()),
        driven=not state.wants_driver or await desk.driven(run),
        receipt=receipt(state) if ended else None,
        said=accepted.status,
    )
    if desk.as_json:
        print_json(found)
    else:
        _tell(found, state.agent)
    return 0


def _tell(found: Delivered, agent: str) -> None:
    said = found.status if found.driven else f"{found.verb} {nobody(agent)}"
    print(f"{found.run[:SHOWN]}  {indented(said)}")
    if found.said:
        print(f"  {indented(found.said)}")
    if found.delivery == "superseded":
        print("  superseded by what was asked after it")
    if found.receipt is not None:
        tell_receipt(found.receipt)


def tell_receipt(kept: Receipt, *, numbered: bool = False) -> None:
    """Every effect with its one word, if wanted by its number, and what was saved."""
    for line in kept.lines:
        text = indented(line.text)
        print(f"{line.position:>4}  {text}" if numbered else f"  {text}")
    for saved in kept.saved:
        print(f"  saved: {indented(saved)}")
    for taken in kept.inherited:
        print(f"  taken over: {indented(taken)}")

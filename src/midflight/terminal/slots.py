"""The bar: three slots in an order that never changes, each with its consequence now."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from midflight.kernel.phases import ENDS, Cause, Phase
from midflight.kernel.preview import Offer
from midflight.view import RunSheet

STOP_NOW_AFTER_S: Final = 5.0
AWAY: Final = {
    1: "Sent when back online",
    2: "Asks again when back",
    3: "Asks again when back",
}


class Slot(Struct, frozen=True):
    """One button: what it does (``verb``), its label, its consequence, whether it can be pressed.

    ``confirm`` is asked in place first.
    """

    verb: str
    label: str
    consequence: str
    enabled: bool = True
    confirm: str = ""


def slots(sheet: RunSheet, now: float, *, connected: bool = True) -> tuple[Slot, Slot, Slot]:
    """Return the three slots as they are now."""
    if sheet.phase in ENDS:
        return _after(sheet)
    found = (_first(sheet, now), _of(sheet.preview["redirect"]), _third(sheet, now))
    if connected:
        return found
    one, two, three = (
        Slot(slot.verb, slot.label, AWAY[number], slot.enabled, slot.confirm)
        for number, slot in enumerate(found, 1)
    )
    return one, two, three


def _of(offer: Offer) -> Slot:
    return Slot(offer.verb, offer.label, offer.consequence, offer.enabled, offer.confirm)


def _first(sheet: RunSheet, now: float) -> Slot:
    """Return pause, or the verb that lifts the hold: each cause is lifted by its owner only."""
    offers, holds = sheet.preview, set(sheet.holds)
    if sheet.phase is Phase.WAITING or (Cause.STALE in holds and sheet.questions):
        return _review(sheet, now)
    if sheet.phase in {Phase.PAUSING, Phase.PAUSED}:
        if Cause.CAP in holds and offers["raise limits"].enabled:
            return _of(offers["raise limits"])
        if Cause.HUMAN in holds and offers["hand back"].enabled:
            return _of(offers["hand back"])
        return _of(offers["resume"])
    return _of(offers["pause"])


def _review(sheet: RunSheet, now: float) -> Slot:
    number = len(sheet.questions)
    says = "One decision" if number == 1 else f"{number} decisions"
    ends = [asked.expires_at for asked in sheet.questions if asked.expires_at is not None]
    if ends:
        left = max(0.0, min(ends) - now)
        says += f", {left / 60:.0f} min left" if left >= 90 else f", {left:.0f} s left"
    return Slot("answer", "Review", says, bool(number))


def _third(sheet: RunSheet, now: float) -> Slot:
    offer = sheet.preview["cancel"]
    if sheet.phase is Phase.CANCELLING and offer.enabled:
        begun = max((mark.at for mark in sheet.marks if mark.kind == "cancel"), default=now)
        if now - begun < STOP_NOW_AFTER_S:
            return Slot("cancel", "Stop now", "It is being cancelled", enabled=False)
    return _of(offer)


def _after(sheet: RunSheet) -> tuple[Slot, Slot, Slot]:
    """Return the slots of a run that has ended: the verbs that are still possible."""
    again = _again(sheet)
    undo = _of(sheet.preview["undo"])
    new = Slot("start", "New run", "Leaves this one as it is")
    match sheet.phase:
        case Phase.DONE:
            return Slot("start", "Start another", "Leaves this one as it is"), again, undo
        case Phase.KILLED:
            back = sheet.preview["recover"]
            return new, _of(back), undo
        case _:
            return again, new, undo


def _again(sheet: RunSheet) -> Slot:
    label = "Start again" if sheet.phase is Phase.CANCELLED else "Try again"
    if sheet.fork_from is None:
        return Slot("fork", label, "It had not begun", enabled=False)
    return Slot("fork", label, f"A fork from {sheet.fork_from.name}, context kept")

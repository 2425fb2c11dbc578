"""A run told by its journal: steps, a pause, a redirect, a cancel that undoes, and the receipt.

It plays the driver's part by hand, on a real SQLite file, to show what a driver writes: every
line it prints was on the disk before it was printed.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from midflight.inputs import new_id
from midflight.journal import events as e
from midflight.journal.facts import claim
from midflight.journal.fold import fold
from midflight.journal.phases import Effect, Outcome
from midflight.journal.preview import preview
from midflight.journal.record import Actor, Event, Request
from midflight.journal.requests import Known, decide
from midflight.journal.state import RunState
from midflight.journal.status import one_line, receipt
from midflight.stores.protocol import Append, Draft, Entry, Store, Submit, View
from midflight.stores.sqlite import SqliteStore

RUN, ANN = "r-tour", Actor(by="ann", channel="terminal")
COLOUR = sys.stdout.isatty() and "NO_COLOR" not in os.environ
DIM, BOLD, PLAIN = ("\033[2m", "\033[1m", "\033[0m") if COLOUR else ("", "", "")
PACE_S = 0.25


class Tour:
    """The driver of one run, and the person who interrupts it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.state = RunState(RUN)

    async def ask(self, request: Request) -> None:
        """A person's request: decided inside the store, never lost to a race."""

        def decided(view: View) -> Draft:
            verdict = decide(view.states[RUN], request, switches=view.switches)
            return Draft() if isinstance(verdict, Known) else Draft({RUN: verdict})

        await self.tell(Submit(new_id(), (RUN,), decided, scopes=("all",), new=(RUN,)))

    async def drive(self, *events: Event) -> None:
        """The driver's decision: valid only where it has folded everything."""
        entry = Entry(RUN, self.state.head, events)
        await self.tell(Append(new_id(), (entry,)))

    async def tell(self, what: Submit | Append) -> None:
        """Commit, fold, and show what is on the disk now."""
        store = self.store
        done = await (store.submit(what) if isinstance(what, Submit) else store.append(what))
        fold(self.state, done.records)
        for record in done.records:
            name = record.event.stored_name()
            note = getattr(record.event, "noun", "") or getattr(record.event, "text", "")
            state = f"{self.state.phase:<11}"
            print(f"  {DIM}{record.position:>3}  {state}{PLAIN} {name:<20} {DIM}{note}{PLAIN}")
        await asyncio.sleep(PACE_S)

    async def effect(self, noun: str, *, undoable: bool = True) -> None:
        """One step that touches the world: on record before it begins, settled after."""
        step = noun.replace(" ", "-")
        await self.drive(
            e.AttemptStarted(
                epoch=1,
                step=step,
                name=noun,
                noun=noun,
                effect=Effect.WRITE,
                idempotency_key=f"{RUN}:{step}",
                undoable=undoable,
                irreversible=not undoable,
            )
        )
        begun = self.state.head
        await self.drive(e.AttemptSettled(epoch=1, attempt=begun, outcome=Outcome.DONE))


def title(words: str) -> None:
    """A heading between two scenes."""
    print(f"\n{BOLD}{words}{PLAIN}")


async def play(tour: Tour) -> None:
    """The whole story."""
    title("A run starts, and somebody drives it")
    brief = "Invite all customers to the spring event"
    await tour.ask(e.RunCreated(who=ANN, agent="host", thread="t-tour", brief=brief))

    def taken(view: View) -> Draft:
        state = view.states[RUN]
        assert isinstance(state, RunState)
        return Draft({RUN: claim(state, "d-tour", lease_gone=True)})

    await tour.tell(Submit(new_id(), (RUN,), taken))
    await tour.drive(e.RunEntered(epoch=1))
    await tour.effect("hold on the hall")
    await tour.effect("draft invitation")

    title(f"Pause: {preview(tour.state)['pause'].consequence}")
    await tour.ask(e.PauseRequested(who=ANN))
    await tour.drive(e.Paused(epoch=1, upto=tour.state.head))

    text = "Invite all customers in the EU to the spring event"
    title(f"Redirect and resume: {one_line(brief, text)}")
    await tour.ask(e.RedirectRequested(who=ANN, text=text, resume=True))
    await tour.drive(e.RedirectDelivered(epoch=1, upto=tour.state.head, brief=text))
    await tour.effect("announcement", undoable=False)

    title(f"Cancel: {preview(tour.state)['cancel'].consequence}")
    await tour.ask(e.CancelRequested(who=ANN))
    for effect in reversed([a for a in tour.state.effects.values() if a.undoable]):
        started = e.UndoStarted(
            epoch=1, effect=effect.position, idempotency_key=f"{effect.key}:undo"
        )
        await tour.drive(started)
        await tour.drive(e.UndoSettled(epoch=1, undo=tour.state.head, undone=True))
    await tour.drive(e.WorkSaved(epoch=1, what=("the invitation's text",)))
    await tour.drive(e.RunFinished(epoch=1, outcome="cancelled"))

    title("The receipt accounts for every effect")
    account = receipt(tour.state)
    for line in account.lines:
        print(f"  {line.text}")
    print(f"  saved: {', '.join(account.saved)}")


async def main() -> None:
    """Play it on a journal of its own, and leave nothing behind."""
    with tempfile.TemporaryDirectory() as folder:
        async with SqliteStore.open(Path(folder) / "midflight.db") as store:
            await play(Tour(store))


if __name__ == "__main__":
    asyncio.run(main())

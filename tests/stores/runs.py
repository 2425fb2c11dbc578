"""Short words for what happens to a run, so that the tests read as the store's specification.

Nothing here knows a store: everything goes through the Protocol and the kernel's own decisions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from midflight.inputs import new_id
from midflight.journal import events as e
from midflight.journal.facts import claim as claimed
from midflight.journal.facts import record
from midflight.journal.fold import fold
from midflight.journal.phases import Effect, Outcome, Role
from midflight.journal.record import Actor, Event, Fact, Recorded, Request
from midflight.journal.requests import Known, decide, scopes
from midflight.journal.state import RunState
from midflight.journal.threads import thread as t
from midflight.stores.protocol import PAGE, Append, Committed, Draft, Entry, Store, Submit, View

RUN: Final = "r-1"
THREAD: Final = "t-1"
ANN: Final = Actor(by="ann")
OLGA: Final = Actor(by="olga", role=Role.OPERATOR)


# ── requests ─────────────────────────────────────────────────────────────────────────────────


def created(
    agent: str = "clerk", thread: str = THREAD, brief: str = "Send the invoices", **fields: Any
) -> e.RunCreated:
    return e.RunCreated(who=ANN, agent=agent, thread=thread, brief=brief, **fields)


async def start(store: Store, run: str = RUN, **fields: Any) -> Committed:
    """Create a run as ``Control.start`` will: refused where an operator's switch is on."""
    request = created(**fields)
    return await ask(store, request, run, new=(run,), within=scopes(request.agent, request.thread))


async def open_thread(store: Store, thread: str = THREAD, title: str = "Invoices") -> Committed:
    return await ask(store, t.ThreadCreated(who=ANN, title=title), thread, new=(thread,))


async def say(store: Store, text: str, thread: str = THREAD) -> Committed:
    return await ask(store, t.MessageSent(who=ANN, text=text), thread)


async def ask(
    store: Store,
    request: Request,
    journal: str = RUN,
    *,
    id: str = "",  # noqa: A002 - the name it has in a Submit
    expect: int | None = None,
    new: tuple[str, ...] = (),
    within: tuple[str, ...] = (),
) -> Committed:
    """Make a request; a known one leaves ``Known`` as the note and appends nothing."""

    def answer(view: View) -> Draft:
        verdict = decide(view.states[journal], request, expect=expect, switches=view.switches)
        return Draft(note=verdict) if isinstance(verdict, Known) else Draft({journal: verdict})

    return await store.submit(Submit(id or new_id(), (journal,), answer, scopes=within, new=new))


def answering(draft: Draft, *journals: str) -> Submit:
    """A request whose answer is the same whatever the state."""
    return Submit(new_id(), journals or (RUN,), lambda view: draft)


async def pause(store: Store, run: str = RUN) -> Committed:
    return await ask(store, e.PauseRequested(who=ANN), run)


async def cancel(store: Store, run: str = RUN, *, now: bool = False) -> Committed:
    return await ask(store, e.CancelRequested(who=ANN, now=now), run)


async def resume(store: Store, run: str = RUN) -> Committed:
    """Resume as ``Control.resume`` will: with the switches that cover the run under lock."""
    row = await store.row(run)
    return await ask(store, e.ResumeRequested(who=ANN), run, within=scopes(row.agent, row.thread))


# ── facts ────────────────────────────────────────────────────────────────────────────────────


async def tell(store: Store, fact: Fact, run: str = RUN) -> Committed:
    """Report how something ended, whatever has become of the run."""

    def answer(view: View) -> Draft:
        state = view.states[run]
        assert isinstance(state, RunState)
        return Draft({run: record(state, fact)})

    return await store.submit(Submit(new_id(), (run,), answer))


def outcome(
    attempt: int, how: Outcome = Outcome.DONE, *, epoch: int = 1, **fields: Any
) -> e.AttemptSettled:
    return e.AttemptSettled(epoch=epoch, attempt=attempt, outcome=how, **fields)


# ── driving ──────────────────────────────────────────────────────────────────────────────────


def decision(journal: str, expected: int, *events: Event, id: str = "") -> Append:  # noqa: A002
    return Append(id or new_id(), (Entry(journal, expected, events),))


def started(step: str, *, epoch: int = 1, effect: Effect = Effect.ONCE, **fields: Any) -> Event:
    return e.AttemptStarted(
        epoch=epoch, step=step, name=step, effect=effect, idempotency_key=f"{step}#1", **fields
    )


async def claim(store: Store, run: str = RUN, *, driver: str = "d-1") -> int:
    """Take a run over; its new epoch, or 0 where a living driver has it."""
    row = await store.row(run)

    def answer(view: View) -> Draft:
        state = view.states[run]
        assert isinstance(state, RunState)
        gone = state.driver in view.gone
        return Draft({run: claimed(state, driver, lease_gone=gone, switches=view.switches)})

    within, leases = scopes(row.agent, row.thread), (row.driver,) if row.driver else ()
    taken = await store.submit(Submit(new_id(), (run,), answer, scopes=within, leases=leases))
    return taken.records[0].event.epoch if taken.records else 0


@dataclass
class Driver:
    """Someone who drives a run: decides on what it has folded itself, and on nothing else."""

    store: Store
    state: RunState
    epoch: int

    @property
    def run(self) -> str:
        return self.state.journal

    async def decides(self, *events: Event, id: str = "") -> Committed:  # noqa: A002
        done = await self.store.append(decision(self.run, self.state.head, *events, id=id))
        fold(self.state, done.records)
        return done

    async def reads_again(self) -> None:
        fold(self.state, await read_all(self.store, self.run, self.state.head))

    async def enters(self) -> Committed:
        return await self.decides(e.RunEntered(epoch=self.epoch))

    async def begins(self, step: str = "send", **fields: Any) -> int:
        """Start an attempt; where it stands is its name from here on."""
        return (await self.decides(started(step, epoch=self.epoch, **fields))).position(self.run)

    async def settles(self, attempt: int, how: Outcome = Outcome.DONE, **fields: Any) -> Committed:
        done = await tell(self.store, outcome(attempt, how, epoch=self.epoch, **fields), self.run)
        await self.reads_again()
        return done

    async def asks(self, message: str = "Send it?", **fields: Any) -> int:
        asked = e.QuestionOpened(epoch=self.epoch, kind="ask", message=message, **fields)
        return (await self.decides(asked)).position(self.run)

    async def waits(self) -> Committed:
        return await self.decides(e.WaitBegan(epoch=self.epoch))

    async def pauses(self) -> Committed:
        await self.reads_again()
        return await self.decides(e.Paused(epoch=self.epoch, upto=self.state.head))

    async def finishes(self, how: str = "done", **fields: Any) -> Committed:
        await self.reads_again()
        return await self.decides(e.RunFinished(epoch=self.epoch, outcome=how, **fields))

    async def leaves(self) -> Committed:
        return await self.decides(e.DriverReleased(epoch=self.epoch))


async def drive(store: Store, run: str = RUN, *, driver: str = "d-1") -> Driver:
    """Claim a run and fold it."""
    epoch = await claim(store, run, driver=driver)
    assert epoch, f"{run} has a living driver"
    return Driver(store, await run_state(store, run), epoch)


async def running(store: Store, run: str = RUN, *, driver: str = "d-1", **fields: Any) -> Driver:
    """A run that was started, claimed and entered."""
    await start(store, run, **fields)
    driving = await drive(store, run, driver=driver)
    await driving.enters()
    return driving


async def ended(store: Store, run: str = RUN, **fields: Any) -> Driver:
    driving = await running(store, run, **fields)
    await driving.finishes()
    return driving


# ── looking ──────────────────────────────────────────────────────────────────────────────────


async def run_state(store: Store, run: str = RUN) -> RunState:
    state = await store.load(run)
    assert isinstance(state, RunState)
    return state


async def thread_state(store: Store, thread: str = THREAD) -> t.ThreadState:
    state = await store.load(thread)
    assert isinstance(state, t.ThreadState)
    return state


async def read_all(store: Store, journal: str = RUN, after: int = 0) -> list[Recorded]:
    found: list[Recorded] = []
    while page := await store.read(journal, after=found[-1].position if found else after):
        found += page
        if len(page) < PAGE:
            break
    return found


def names(records: Iterable[Recorded]) -> list[str]:
    return [record.event.stored_name() for record in records]


def positions(records: Iterable[Recorded]) -> list[int]:
    return [record.position for record in records]

"""Journals in memory that take events exactly as a store does: checked, then folded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Generic, TypeVar

from typing_extensions import override

from midflight.journal import events as e
from midflight.journal import facts
from midflight.journal import requests as decisions
from midflight.journal.fold import advance
from midflight.journal.phases import Effect, Outcome, Role
from midflight.journal.record import Actor, Event, Fact, Limits, Recorded, Request, Unknown, Usage
from midflight.journal.requests import Known, Switch, Verdict
from midflight.journal.state import RunState
from midflight.journal.threads import thread as t
from midflight.journal.transition_table import TRIAGE, check

ANN: Final = Actor("ann")
BOB: Final = Actor("bob")
OLGA: Final = Actor("olga", Role.OPERATOR)
VIC: Final = Actor("vic", Role.VIEWER)

S = TypeVar("S", RunState, t.ThreadState)


class Journal(Generic[S]):
    """What was appended and what it adds up to. The time of an event is its position."""

    def __init__(self, state: S) -> None:
        self.state: S = state
        self.records: list[Recorded] = []

    @override
    def __repr__(self) -> str:
        return "\n".join(f"{r.position:3} {r.event!r}" for r in self.records)

    def append(self, *events: Event, at: float | None = None) -> int:
        """Check and fold each; the answer is the position of the last."""
        for event in events:
            check(self.state, event)
            self._write(event, at)
        return self.state.head

    def append_from_the_future(self, *, must_understand: bool) -> None:
        """What a newer version of Midflight has written here; no check of ours has seen it."""
        self._write(Unknown("run.teleported", 1, must_understand, b"{}"), None)

    def decide(
        self, request: Request, *, expect: int | None = None, switches: Iterable[Switch] = ()
    ) -> Verdict:
        """What the kernel answers; nothing is appended."""
        return decisions.decide(self.state, request, expect=expect, switches=switches)

    def ask(
        self, request: Request, *, expect: int | None = None, switches: Iterable[Switch] = ()
    ) -> int:
        """Decide and append; the answer is the position of the acknowledgement."""
        verdict = self.decide(request, expect=expect, switches=switches)
        if isinstance(verdict, Known):
            return verdict.position
        self.append(*verdict)
        return self.state.head - len(verdict) + 1

    def _write(self, event: Event | Unknown, at: float | None) -> None:
        position = self.state.head + 1
        when = float(position) if at is None else at
        record = Recorded(self.state.journal, position, when, event)
        self.records.append(record)
        advance(self.state, record)


class Run(Journal[RunState]):
    """A run's journal, with the driver's and the person's usual moves."""

    def __init__(self, **created: Any) -> None:
        super().__init__(RunState("r-1"))
        asked = {"agent": "trip", "thread": "t-1", "brief": "Plan the trip"} | created
        self.append(e.RunCreated(who=ANN, **asked))

    def replay(self) -> Iterator[tuple[RunState, Recorded]]:
        """Fold the journal anew; after each event, the state and the event."""
        state = RunState(self.state.journal)
        for record in self.records:
            advance(state, record)
            yield state, record

    # the driver

    def claim(self, driver: str = "d-1") -> int:
        return self.append(*facts.claim(self.state, driver, lease_gone=True))

    def enter(self) -> int:
        return self.append(e.RunEntered(epoch=self.state.epoch))

    def start(
        self,
        step: str,
        *,
        effect: Effect = Effect.ONCE,
        noun: str = "",
        label: str = "",
        undoable: bool = False,
        irreversible: bool = False,
        release_always: bool = False,
        in_thread: bool = False,
        reserved: Usage | None = None,
    ) -> int:
        started = e.AttemptStarted(
            epoch=self.state.epoch,
            step=step,
            name=step,
            effect=effect,
            idempotency_key=f"{step}-key",
            noun=noun,
            label=label,
            undoable=undoable,
            irreversible=irreversible,
            release_always=release_always,
            in_thread=in_thread,
            reserved=reserved or Usage(),
        )
        return self.append(started)

    def triage(self) -> int:
        """A model looks at messages, beside whatever the run does."""
        started = e.AttemptStarted(
            epoch=self.state.epoch,
            step="triage:3",
            name="Read messages",
            tool=TRIAGE,
            effect=Effect.MODEL,
            idempotency_key="triage-key",
        )
        return self.append(started)

    def settled(self, attempt: int, outcome: Outcome = Outcome.DONE, **more: Any) -> Fact:
        """How the attempt ended, as the driver of today sees it; not appended."""
        return e.AttemptSettled(epoch=self.state.epoch, attempt=attempt, outcome=outcome, **more)

    def settle(self, attempt: int, outcome: Outcome = Outcome.DONE, **more: Any) -> int:
        return self.append(self.settled(attempt, outcome, **more))

    def did(self, step: str, outcome: Outcome = Outcome.DONE, **how: Any) -> int:
        """An effect from start to outcome; the answer is its position."""
        attempt = self.start(step, **how)
        self.settle(attempt, outcome)
        return attempt

    def report(self, fact: Fact) -> tuple[Event, ...]:
        """Hand in a fact as a driver of any age does; the answer is what was appended."""
        events = facts.record(self.state, fact)
        self.append(*events)
        return events

    def start_undo(self, effect: int) -> int:
        key = f"{self.state.effects[effect].key}:undo"
        return self.append(
            e.UndoStarted(epoch=self.state.epoch, effect=effect, idempotency_key=key)
        )

    def undo(self, effect: int, *, undone: bool = True, why: str = "") -> int:
        undo = self.start_undo(effect)
        return self.append(e.UndoSettled(epoch=self.state.epoch, undo=undo, undone=undone, why=why))

    def open_question(self, message: str = "Pay $80?", **more: Any) -> int:
        asked = {"kind": "approval"} | more
        return self.append(e.QuestionOpened(epoch=self.state.epoch, message=message, **asked))

    def wait(self) -> int:
        return self.append(e.WaitBegan(epoch=self.state.epoch))

    def hold(self) -> int:
        """The driver has come to rest, having heard everything so far."""
        return self.append(e.Paused(epoch=self.state.epoch, upto=self.state.head))

    def deliver(self, brief: str, *, upto: int | None = None) -> int:
        heard = self.state.head if upto is None else upto
        return self.append(e.RedirectDelivered(epoch=self.state.epoch, upto=heard, brief=brief))

    def finish(self, outcome: str = "done") -> int:
        return self.append(e.RunFinished(epoch=self.state.epoch, outcome=outcome))

    # the person and the operator

    def pause(self, who: Actor = ANN, **more: Any) -> int:
        return self.ask(e.PauseRequested(who=who, **more))

    def resume(self, who: Actor = ANN, **more: Any) -> int:
        return self.ask(e.ResumeRequested(who=who, **more))

    def redirect(self, text: str, who: Actor = ANN, **more: Any) -> int:
        return self.ask(e.RedirectRequested(who=who, text=text, **more))

    def cancel(self, who: Actor = ANN, **more: Any) -> int:
        return self.ask(e.CancelRequested(who=who, **more))

    def answer(self, question: int, who: Actor = ANN, **more: Any) -> int:
        return self.ask(e.QuestionAnswered(who=who, question=question, **more))

    def raise_limits(self, limits: Limits, who: Actor = ANN) -> int:
        return self.ask(e.LimitsRaised(who=who, limits=limits))

    def kill(self, scope: str = "all") -> tuple[Event, ...]:
        events = facts.kill(self.state, e.Killed(who=OLGA, scope=scope))
        self.append(*events)
        return events

    def status(self, request: int) -> str:
        """What became of the request at a position."""
        return self.state.deliveries[request].status


class Thread(Journal[t.ThreadState]):
    """A conversation's journal."""

    def __init__(self, title: str = "Trip") -> None:
        super().__init__(t.ThreadState("t-1"))
        self.append(t.ThreadCreated(who=ANN, title=title))

    def send(self, text: str, who: Actor = ANN, **more: Any) -> int:
        return self.ask(t.MessageSent(who=who, text=text, **more))


# ── a run in each phase ──────────────────────────────────────────────────────────────────────


def queued(**created: Any) -> Run:
    return Run(**created)


def running(**created: Any) -> Run:
    run = Run(**created)
    run.claim()
    run.enter()
    return run


def pausing() -> Run:
    """Waits for an effect in flight before it holds."""
    run = running()
    run.start("create_invoice")
    run.pause()
    return run


def paused() -> Run:
    run = running()
    run.pause()
    run.hold()
    return run


def waiting(**question: Any) -> Run:
    run = running()
    run.open_question(**question)
    run.wait()
    return run


def cancelling() -> Run:
    run = running()
    run.cancel()
    return run


def done() -> Run:
    run = running()
    run.finish()
    return run


def failed() -> Run:
    run = running()
    run.finish("failed")
    return run


def cancelled() -> Run:
    run = cancelling()
    run.finish("cancelled")
    return run


def killed() -> Run:
    run = running()
    run.kill()
    return run

"""Hand-made runs in every phase that together show every event its phase can take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from journal.journals import ANN, OLGA, Run, cancelling, paused, pausing, queued, running, waiting
from midflight.journal import events as e
from midflight.journal.phases import Cause, Effect, Outcome, Phase
from midflight.journal.record import Decision


def eventful() -> Run:
    """Has booked (and can undo it), does not know whether it mailed, and has a child that lives."""
    run = running()
    run.did("book", undoable=True)
    run.did("mail", Outcome.UNKNOWN)
    run.append(e.ChildSpawned(epoch=run.state.epoch, child="r-2", agent="scout", brief="Look"))
    return run


def busy() -> Run:
    """Two things in flight and a question open."""
    run = eventful()
    run.open_question()
    run.start("pay")
    run.start_undo(next(iter(run.state.effects)))
    return run


def _queued() -> Iterator[Run]:
    yield queued()
    run = queued()
    run.redirect("Elsewhere")
    run.claim()
    yield run
    run = queued()
    run.append(e.HoldPlaced(cause=Cause.STALE))
    run.claim()
    run.open_question("It has changed since. Go on?")
    run.append(e.HoldLifted(cause=Cause.STALE))
    yield run


def _running() -> Iterator[Run]:
    yield running()
    yield eventful()
    yield busy()
    run = running()
    run.open_question()
    yield run
    run = running()
    run.redirect("Elsewhere")
    yield run


def _pausing() -> Iterator[Run]:
    yield pausing()
    run = running()
    run.append(e.TakenOver(who=ANN))
    yield run
    run = running()
    run.pause()
    yield run
    run = busy()
    run.pause()
    yield run
    run = running()
    run.redirect("Elsewhere")
    run.pause()
    yield run


def _paused() -> Iterator[Run]:
    yield paused()
    run = running()
    run.append(e.TakenOver(who=ANN))
    run.hold()
    yield run
    run = eventful()
    run.open_question()
    run.redirect("Elsewhere")
    run.pause()
    run.hold()
    yield run
    run = busy()
    run.kill()
    run.ask(e.Recovered(who=OLGA))
    yield run


def _waiting() -> Iterator[Run]:
    yield waiting()
    run = eventful()
    run.open_question()
    run.wait()
    yield run
    run = waiting()
    run.triage()
    yield run


def _cancelling() -> Iterator[Run]:
    yield cancelling()
    for before in (eventful, busy):
        run = before()
        run.cancel()
        yield run


def _ended(end: Callable[[Run], object]) -> Iterator[Run]:
    run = eventful()
    end(run)
    yield run
    run.claim("d-2")
    run.ask(e.UndoRequested(who=ANN))
    yield run
    run = eventful()
    end(run)
    run.claim("d-2")
    run.ask(e.UndoRequested(who=ANN))
    run.start_undo(max(run.state.undo_wanted))
    yield run


def _cancelled(run: Run) -> None:
    run.cancel()
    run.finish("cancelled")


SITUATIONS: Final[dict[Phase, Callable[[], Iterator[Run]]]] = {
    Phase.QUEUED: _queued,
    Phase.RUNNING: _running,
    Phase.PAUSING: _pausing,
    Phase.PAUSED: _paused,
    Phase.WAITING: _waiting,
    Phase.CANCELLING: _cancelling,
    Phase.DONE: lambda: _ended(Run.finish),
    Phase.FAILED: lambda: _ended(lambda run: run.finish("failed")),
    Phase.CANCELLED: lambda: _ended(_cancelled),
    Phase.KILLED: lambda: _ended(Run.kill),
}


def in_phase(phase: Phase) -> list[Run]:
    """Every situation of a phase."""
    runs = list(SITUATIONS[phase]())
    assert all(run.state.phase is phase for run in runs)
    return runs


def beginnings(run: Run) -> list[Decision]:
    """One of everything that begins something, as the driver of today would write it."""
    epoch = run.state.epoch
    return [
        e.RunEntered(epoch=epoch),
        e.AttemptStarted(
            epoch=epoch, step="mail", name="mail", effect=Effect.ONCE, idempotency_key="k"
        ),
        e.AttemptStarted(
            epoch=epoch, step="think", name="model", effect=Effect.MODEL, idempotency_key="k"
        ),
        e.ChildSpawned(epoch=epoch, child="r-2", agent="scout", brief="Look"),
        e.WindowOpened(epoch=epoch, step="mail", noun="email", until=99.0),
        *(
            e.UndoStarted(epoch=epoch, effect=p, idempotency_key="k:undo")
            for p in run.state.effects
        ),
    ]

"""The transitions of a run: enter, deliver, pause, wait, finish, evict, leave.

Each looks at the state once more inside its decision, on which nothing can have been added since:
between choosing a transition and making it a person may have pressed a button.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from midflight.errors import SourceGone
from midflight.journal import events as e
from midflight.journal.phases import ENDS, Cause, Mode, Phase
from midflight.journal.record import NULL, Event
from midflight.journal.requests import WITHDRAWN
from midflight.journal.state import RETRY, SETTLE, RunState
from midflight.journal.status import one_line
from midflight.run import Evicted, Redirected, Signal, Stopped
from midflight.runtime import foreign, values
from midflight.runtime.replay import code_change
from midflight.runtime.replay.history import REDIRECTED
from midflight.runtime.run_context import RunContext
from midflight.runtime.run_session import Session
from midflight.runtime.steps.undo import calls_for_more, compensate
from midflight.runtime.threads.succession import end

HELD: Final = {"stale", "cap"}  # questions of holds, which another course does not lift


async def enter(session: Session) -> None:
    """Call the function, with everything on record at hand."""
    log = session.journal
    if log.state.phase is Phase.QUEUED or not log.state.entered:
        mode = Mode(session.agent.mode)
        told = mode if mode is not log.state.mode else None
        size = session.history.digest_bytes
        entered = e.RunEntered(epoch=session.journal.epoch, mode=told, digest_bytes=size)
        await log.decide(
            lambda s: [entered] if s.phase is Phase.QUEUED and not session.journal.lost else []
        )
    elif Cause.DRAIN in log.state.holds:
        lifted = e.HoldLifted(cause=Cause.DRAIN)
        await log.decide(
            lambda s: [lifted] if Cause.DRAIN in s.holds and not session.journal.lost else []
        )
    if log.state.phase is not Phase.RUNNING or session.journal.lost:
        return
    await _call_function(session)


async def _call_function(session: Session) -> None:
    """Call the agent's function, on the course as it is now.

    Not without what it takes over from another run: it would do all of that once more.
    """
    saved, restored = session.history.state, None
    if saved is not None:
        client = session.journal.client
        raw = await client.blob(saved.blob.hash) if saved.blob else bytes(saved.state)
        restored = values.decode(raw)
    session.enter()
    if session.lineage.gone:  # layer without-what-takes-over-function
        session.function.fail(SourceGone(session.lineage.gone))
    else:
        session.function.start(RunContext(session, session.guards, restored))


async def hold_for_end(session: Session) -> None:
    """The function has ended before it has asked for all that it asked for before."""
    await code_change.hold_for_code(session, session.guards)


async def deliver(session: Session) -> None:
    """Tell the function of the new course; it goes on by itself or is called again."""
    history = session.history

    def delivered(state: RunState) -> list[Event]:
        if "redirect" not in state.pending.values() or state.redirect is None:
            return []
        text, profile = state.redirect
        if (
            state.phase in {Phase.CANCELLING, *ENDS}
            or session.journal.lost
            or not session.in_flight.quiet
        ):
            return []
        begin()
        given_up = [name for name in state.timers if name.startswith((RETRY, SETTLE))]
        asked = [question for question, asks in state.questions.items() if asks.kind not in HELD]
        return [
            *(e.TimerCleared(epoch=session.journal.epoch, name=name) for name in given_up),
            *(
                e.QuestionClosed(question=question, why=f"{WITHDRAWN}: redirected")
                for question in asked
            ),
            e.RedirectDelivered(
                epoch=session.journal.epoch,
                upto=state.head,
                brief=text,
                profile=profile,
                diff=one_line(state.brief, text),
                calls=tuple(
                    sorted(call for call in session.in_flight.calls if not history.is_done(call))
                ),
                after=history.calls if session.function.running else 0,
            ),
        ]

    with session.signals.delivery() as begin:
        await session.journal.decide(delivered)


async def tell_redirect(session: Session) -> None:
    """The function is told of the new course."""
    session.signals.redirect()


async def pause(session: Session) -> None:
    """Say that the run is paused, once nothing is in flight any more."""

    def paused(state: RunState) -> list[Event]:
        if state.phase is not Phase.PAUSING or session.journal.lost or not session.in_flight.quiet:
            return []
        return [e.Paused(epoch=session.journal.epoch, upto=state.head)]

    await session.journal.decide(paused)


async def wait(session: Session) -> None:
    """Say that the run waits, once only people can bring it on."""

    def waiting(state: RunState) -> list[Event]:
        moves = state.phase is Phase.RUNNING and not state.pending and not session.journal.lost
        if not (moves and session.in_flight.only_asks):
            return []
        old = session.questions.unasked(state)
        closed = [e.QuestionClosed(question=q, why=f"{WITHDRAWN}: not asked any more") for q in old]
        begins = (
            [e.WaitBegan(epoch=session.journal.epoch)] if len(old) < len(state.questions) else []
        )
        return [*closed, *begins]

    await session.journal.decide(waiting)


def wakes(session: Session) -> bool:
    """It waits without its function and has something to do: an answer, a timer, its end."""
    journal, state = session.journal, session.journal.state
    if state.phase is not Phase.WAITING or session.function.running:
        return False
    due = any(journal.left_of_timer(timer) <= 0 for timer in state.timers)
    return due or state.stirred or session.function.ended is not None


async def wake(session: Session) -> None:
    """Go on with a run that waited without its function, once an answer or a due time is there."""

    def woken(state: RunState) -> list[Event]:
        due = [name for name in state.timers if session.journal.left_of_timer(name) <= 0]
        cleared = [e.TimerCleared(epoch=session.journal.epoch, name=name) for name in due]
        return (
            [*session.journal.wait_over(state), *cleared]
            if wakes(session) and not session.journal.lost
            else []
        )

    await session.journal.decide(woken)


async def finish(session: Session) -> None:
    """The function has ended: by itself, with a failure, or to be called again."""
    ended = session.function.ended
    if isinstance(ended, Redirected):
        await _enter_again(session)
        return
    if isinstance(ended, Signal):
        session.function.forget()
        session.signals.forget()
        return
    await _settle_forgotten(session)  # layer run-waits-for-steps-function
    if session.in_flight.steps:
        return
    await session.attention.stop("its function has ended")
    if calls_for_more(session):
        await session.journal.flush()
    await compensate(session)
    failed = isinstance(ended, BaseException)
    words = foreign.words(ended) if isinstance(ended, BaseException) else ""
    result = ended if isinstance(ended, Raw) else NULL

    def finished(state: RunState) -> list[Event]:
        if state.phase is not Phase.RUNNING or state.pending or session.journal.lost:
            return []
        outcome = "failed" if failed else "done"
        return [
            e.RunFinished(epoch=session.journal.epoch, outcome=outcome, result=result, error=words),
            e.DriverReleased(epoch=session.journal.epoch, why=outcome),
        ]

    if await end(session, finished):
        session.be_over()
        session.function.report_failure()


async def _enter_again(session: Session) -> None:
    """It has not caught the redirect: it begins anew, with the new brief and its records."""
    size = session.history.digest_bytes
    again = e.RunEntered(epoch=session.journal.epoch, why=REDIRECTED, digest_bytes=size)

    def entered(state: RunState) -> list[Event]:
        moves = state.phase is Phase.RUNNING and not state.pending and not session.journal.lost
        return [again] if moves else []

    if await session.journal.decide(entered):
        session.signals.forget()
        await _call_function(session)


async def _settle_forgotten(session: Session) -> None:
    """Steps that the function did not wait for: reads are ended, effects come to their end."""
    session.signals.tell(Stopped("its function has ended"))
    session.in_flight.abort("its function has ended", effects=False)
    log = session.journal

    def disturbed() -> bool:
        return (
            log.state.phase is not Phase.RUNNING or bool(log.state.pending) or session.journal.lost
        )

    await log.until(lambda: not session.in_flight.steps or disturbed())


async def undo_on_request(session: Session) -> None:
    """It has ended, and somebody wants its effects undone."""
    await compensate(session)


async def leave(session: Session) -> None:
    """Another driver has the run, or it was killed: start nothing, report what still ends."""
    session.signals.tell(Stopped("the run is not driven here any more"))
    killed = session.journal.state.phase is Phase.KILLED
    session.in_flight.abort("killed" if killed else "another driver took over", effects=killed)
    await session.attention.stop("the run is not driven here any more")
    await session.journal.until(lambda: not session.in_flight.steps)
    await session.function.unwind()
    session.be_over()


async def evict(session: Session) -> None:
    """Let the function go; it is called again, with its records, when the run moves."""
    session.signals.tell(Evicted("the run rests"))
    await session.journal.until(lambda: not session.in_flight.steps or session.journal.lost)
    await session.function.unwind()

    def released(state: RunState) -> list[Event]:
        rests = state.phase in {Phase.PAUSED, Phase.WAITING}
        written_to = state.phase is Phase.WAITING and session.attention.has_messages
        wanted = state.wants_driver or written_to
        if session.journal.lost or not rests or (wanted and not session.gate.draining):
            return []
        return [e.DriverReleased(epoch=session.journal.epoch, why="rests")]

    if await session.journal.decide(released):
        session.be_over()
    else:
        session.signals.forget()  # it moves again: call it anew
        session.function.forget()


async def release(session: Session) -> None:
    """Let go of a run in which nothing is left to do."""
    await session.journal.decide(
        lambda s: (
            [e.DriverReleased(epoch=session.journal.epoch)]
            if s.driver and not session.journal.lost
            else []
        )
    )
    session.be_over()


async def hold_for_drain(session: Session) -> None:
    """Hold the run until the next process takes it: ours is about to end."""
    movable = {Phase.RUNNING, Phase.QUEUED}
    held = e.HoldPlaced(cause=Cause.DRAIN, why="the process that drives it is ending")
    await session.journal.decide(
        lambda s: [held] if s.phase in movable and not session.journal.lost else []
    )


async def close_expired(session: Session) -> None:
    """Close the questions that nobody has answered in time."""

    def closed(state: RunState) -> list[Event]:
        if state.phase not in {Phase.RUNNING, Phase.WAITING}:
            return []  # time stands still for a run that is held
        left = {
            question: session.journal.left_of_question(question) for question in state.questions
        }
        late = [
            question for question, seconds in left.items() if seconds is not None and seconds <= 0
        ]
        closing = [e.QuestionClosed(question=question, why="expired") for question in late]
        return [] if session.journal.lost else list(closing)

    await session.journal.decide(closed)

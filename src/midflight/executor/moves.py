"""The moves of a driver: enter, deliver, pause, wait, finish, evict, leave.

Each move looks at the state once more inside its decision, on which nothing can have been added
since: between choosing a move and making it a person may have pressed a button.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Raw

from midflight.executor import foreign
from midflight.executor.front import end
from midflight.executor.heard import REDIRECTED
from midflight.executor.undo import compensate
from midflight.kernel import events as e
from midflight.kernel.decide import WITHDRAWN
from midflight.kernel.diff import one_line
from midflight.kernel.identities import RETRY, SETTLE
from midflight.kernel.phases import ENDS, Cause, Mode, Phase
from midflight.kernel.record import NULL, Event
from midflight.kernel.state import RunState
from midflight.run import Evicted, Redirected, Signal, Stopped

if TYPE_CHECKING:
    from midflight.executor.drive import Driver

HELD: Final = {"stale", "cap"}  # questions of holds, which another course does not lift


async def enter(driver: Driver) -> None:
    """Call the function, with everything on record at hand."""
    log = driver.log
    if log.state.phase is Phase.QUEUED or not log.state.entered:
        mode = Mode(driver.agent.mode)
        told = mode if mode is not log.state.mode else None
        size = driver.replay.digest_bytes
        entered = e.RunEntered(epoch=driver.epoch, mode=told, digest_bytes=size)
        await log.decide(lambda s: [entered] if s.phase is Phase.QUEUED and not driver.lost else [])
    elif Cause.DRAIN in log.state.holds:
        lifted = e.HoldLifted(cause=Cause.DRAIN)
        await log.decide(lambda s: [lifted] if Cause.DRAIN in s.holds and not driver.lost else [])
    if log.state.phase is not Phase.RUNNING or driver.lost:
        return
    await driver.restore()
    driver.call_function()


async def deliver(driver: Driver) -> None:
    """Tell the function of the new course; it goes on by itself or is called again."""
    replay = driver.replay

    def delivered(state: RunState) -> list[Event]:
        if "redirect" not in state.pending.values() or state.redirect is None:
            return []
        text, profile = state.redirect
        if state.phase in {Phase.CANCELLING, *ENDS} or driver.lost or not driver.working.quiet:
            return []
        driver.course.delivering = True
        given_up = [name for name in state.timers if name.startswith((RETRY, SETTLE))]
        asked = [question for question, asks in state.questions.items() if asks.kind not in HELD]
        return [
            *(e.TimerCleared(epoch=driver.epoch, name=name) for name in given_up),
            *(
                e.QuestionClosed(question=question, why=f"{WITHDRAWN}: redirected")
                for question in asked
            ),
            e.RedirectDelivered(
                epoch=driver.epoch,
                upto=state.head,
                brief=text,
                profile=profile,
                diff=one_line(state.brief, text),
                calls=tuple(
                    sorted(call for call in driver.working.calls if not replay.is_done(call))
                ),
                after=replay.calls if driver.function.running else 0,
            ),
        ]

    try:
        await driver.log.decide(delivered)
    finally:
        driver.course.delivering = False
        driver.log.stir()


async def tell_redirect(driver: Driver) -> None:
    """The function is told of the new course."""
    driver.course.redirect()


async def pause(driver: Driver) -> None:
    """Say that the run is paused, once nothing is in flight any more."""

    def paused(state: RunState) -> list[Event]:
        if state.phase is not Phase.PAUSING or driver.lost or not driver.working.quiet:
            return []
        return [e.Paused(epoch=driver.epoch, upto=state.head)]

    await driver.log.decide(paused)


async def wait(driver: Driver) -> None:
    """Say that the run waits, once only people can bring it on."""

    def waiting(state: RunState) -> list[Event]:
        moves = state.phase is Phase.RUNNING and not state.pending and not driver.lost
        if not (moves and driver.working.only_asks):
            return []
        old = driver.questions.unasked(state)
        closed = [e.QuestionClosed(question=q, why=f"{WITHDRAWN}: not asked any more") for q in old]
        begins = [e.WaitBegan(epoch=driver.epoch)] if len(old) < len(state.questions) else []
        return [*closed, *begins]

    await driver.log.decide(waiting)


async def wake(driver: Driver) -> None:
    """It has waited long enough without its function: what was answered or is due goes on."""

    def woken(state: RunState) -> list[Event]:
        due = [name for name in state.timers if driver.left_of_timer(name) <= 0]
        cleared = [e.TimerCleared(epoch=driver.epoch, name=name) for name in due]
        return [*driver.wait_over(state), *cleared] if driver.wakes and not driver.lost else []

    await driver.log.decide(woken)


async def finish(driver: Driver) -> None:
    """The function has ended: by itself, with a failure, or to be called again."""
    ended = driver.function.ended
    if isinstance(ended, Redirected):
        await _enter_again(driver)
        return
    if isinstance(ended, Signal):
        driver.function.forget()
        driver.course.told = None
        return
    await _settle_forgotten(driver)
    if driver.working.steps:
        return
    await driver.attention.stop("its function has ended")
    await compensate(driver)
    failed = isinstance(ended, BaseException)
    words = foreign.words(ended) if isinstance(ended, BaseException) else ""
    result = ended if isinstance(ended, Raw) else NULL

    def finished(state: RunState) -> list[Event]:
        if state.phase is not Phase.RUNNING or state.pending or driver.lost:
            return []
        outcome = "failed" if failed else "done"
        return [
            e.RunFinished(epoch=driver.epoch, outcome=outcome, result=result, error=words),
            e.DriverReleased(epoch=driver.epoch, why=outcome),
        ]

    if await end(driver, finished):
        driver.over = True
        driver.function.report_failure()


async def _enter_again(driver: Driver) -> None:
    """It has not caught the redirect: it begins anew, with the new brief and its records."""
    size = driver.replay.digest_bytes
    again = e.RunEntered(epoch=driver.epoch, why=REDIRECTED, digest_bytes=size)

    def entered(state: RunState) -> list[Event]:
        moves = state.phase is Phase.RUNNING and not state.pending and not driver.lost
        return [again] if moves else []

    if await driver.log.decide(entered):
        driver.course.told = None
        await driver.restore()
        driver.call_function()


async def _settle_forgotten(driver: Driver) -> None:
    """Steps that the function did not wait for: reads are ended, effects come to their end."""
    driver.course.tell(Stopped("its function has ended"))
    driver.working.abort("its function has ended", effects=False)
    log = driver.log

    def disturbed() -> bool:
        return log.state.phase is not Phase.RUNNING or bool(log.state.pending) or driver.lost

    await log.until(lambda: not driver.working.steps or disturbed())


async def undo_on_request(driver: Driver) -> None:
    """It has ended, and somebody wants its effects undone."""
    await compensate(driver)


async def leave(driver: Driver) -> None:
    """Another driver has the run, or it was killed: start nothing, report what still ends."""
    driver.course.tell(Stopped("the run is not driven here any more"))
    killed = driver.log.state.phase is Phase.KILLED
    driver.working.abort("killed" if killed else "another driver took over", effects=killed)
    await driver.attention.stop("the run is not driven here any more")
    await driver.log.until(lambda: not driver.working.steps)
    await driver.function.unwind()
    driver.over = True


async def evict(driver: Driver) -> None:
    """Let the function go; it is called again, with its records, when the run moves."""
    driver.course.tell(Evicted("the run rests"))
    await driver.log.until(lambda: not driver.working.steps or driver.lost)
    await driver.function.unwind()

    def released(state: RunState) -> list[Event]:
        rests = state.phase in {Phase.PAUSED, Phase.WAITING}
        written_to = state.phase is Phase.WAITING and driver.attention.has_messages
        wanted = state.wants_driver or written_to
        if driver.lost or not rests or (wanted and not driver.draining):
            return []
        return [e.DriverReleased(epoch=driver.epoch, why="rests")]

    if await driver.log.decide(released):
        driver.over = True
    else:
        driver.course.told = None  # it moves again: call it anew
        driver.function.forget()


async def release(driver: Driver) -> None:
    """Let go of a run in which nothing is left to do."""
    await driver.log.decide(
        lambda s: [e.DriverReleased(epoch=driver.epoch)] if s.driver and not driver.lost else []
    )
    driver.over = True


async def hold_for_drain(driver: Driver) -> None:
    """Hold the run until the next process takes it: ours is about to end."""
    movable = {Phase.RUNNING, Phase.QUEUED}
    held = e.HoldPlaced(cause=Cause.DRAIN, why="the process that drives it is ending")
    await driver.log.decide(lambda s: [held] if s.phase in movable and not driver.lost else [])


async def close_expired(driver: Driver) -> None:
    """Close the questions that nobody has answered in time."""

    def closed(state: RunState) -> list[Event]:
        if state.phase not in {Phase.RUNNING, Phase.WAITING}:
            return []  # time stands still for a run that is held
        left = {question: driver.left_of_question(question) for question in state.questions}
        late = [
            question for question, seconds in left.items() if seconds is not None and seconds <= 0
        ]
        closing = [e.QuestionClosed(question=question, why="expired") for question in late]
        return [] if driver.lost else list(closing)

    await driver.log.decide(closed)

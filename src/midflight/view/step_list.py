"""The steps of a run, from its records, and the marks on its timeline beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from midflight.journal import events as e
from midflight.journal.phases import ENDS, Cause, Effect, Outcome, Phase
from midflight.journal.record import Event, Recorded, Request
from midflight.journal.state import KEYED, RETRY, SETTLE, RunState, asking_step
from midflight.journal.transition_table import TRIAGE
from midflight.view.data import ForkFrom, Mark, StepSheet
from midflight.view.shown_values import short, summary
from midflight.view.step_status import Entry, failed, sheet, stand_of_plan

HOLDS: Final = {Cause.CAP: "cap", Cause.PARKED: "parked", Cause.STALE: "changed"}
LIFTED: Final = {Cause.PARKED: "Came back", Cause.DRAIN: "Its server is back"}


def mark_of(record: Recorded, *, before: RunState) -> Mark | None:
    """Return the mark of a record on the timeline, if any; ``before`` is the state before it."""
    event = record.event
    if isinstance(event, e.DriverClaimed) and not before.driver:
        return None  # its last driver has left in good order
    tell = _TOLD.get(type(event))
    if tell is None:
        return None
    kind, text = tell(event)
    return Mark(record.at, kind, short(text), event.who.by if isinstance(event, Request) else "")


def _plain(kind: str, text: str) -> Callable[[Any], tuple[str, str]]:
    return lambda _event: (kind, text)


def _read(event: e.MessagesTaken) -> tuple[str, str]:
    count = len(event.messages)
    return "message", f"{count} message{'s' * (count != 1)} read" if count else "Messages read"


_TOLD: Final[dict[type[Event], Callable[[Any], tuple[str, str]]]] = {
    e.DriverClaimed: _plain("recovered", "Went on after its process was lost"),
    e.PauseRequested: _plain("pause", "Pause"),
    e.Paused: _plain("paused", "Paused"),
    e.ResumeRequested: _plain("resume", "Resume"),
    e.RedirectRequested: lambda event: ("redirect", event.text),
    e.RedirectDelivered: lambda event: ("redirected", event.brief),
    e.CancelRequested: lambda event: ("cancel", "Stop now" if event.now else "Cancel"),
    e.HoldPlaced: lambda event: (HOLDS.get(event.cause, str(event.cause)), event.why),
    e.HoldLifted: lambda event: (f"lifted {event.cause}", LIFTED.get(event.cause, "Goes on")),
    e.LimitsRaised: _plain("limits", "Cap raised"),
    e.QuestionOpened: lambda event: ("question", event.message),
    e.QuestionAnswered: lambda event: ("answer", "Declined" if event.declined else "Answered"),
    e.QuestionClosed: lambda event: ("closed", event.why),
    e.MessagesTaken: _read,
    e.NoticeGiven: lambda event: ("notice", event.text),
    e.TakenOver: _plain("take over", "Taken over"),
    e.HandedBack: lambda event: ("hand back", event.note or "Handed back"),
    e.UndoRequested: _plain("undo", "Undo"),
    e.Killed: _plain("kill", "Stopped by an operator"),
    e.Recovered: _plain("recover", "Brought back"),
    e.RunFinished: lambda event: ("end", event.outcome),
}


RESTING: Final = frozenset({"paused", "retrying"})  # begun, and goes on before what is planned
SETTLED: Final = frozenset(
    {"done", "failed", "cancelled", "skipped", "undone", "undo_failed", "kept"}
)
"""States that only a record about the step changes, unless the run ends or comes back."""


class Steps:
    """All steps of a run, in the order in which they began."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._by_attempt: dict[int, Entry] = {}
        self._loose: dict[str, None] = {}  # may change without a record of their own
        self._changed: dict[str, None] = {}  # since ``changed`` was last called
        self._asking: dict[int, str] = {}  # question -> step
        self._stands_for: dict[str, str] = {}  # a step -> the one whose effect it took over
        self._undos: dict[int, int] = {}
        self._ending = _ending(Phase.QUEUED)
        self._course = 0
        self._planned_at = 0
        self._since_plan: Counter[str] = Counter()  # names of steps that began after the plan

    @property
    def failed(self) -> str:
        """The name of the last step that has failed."""
        names = (x.name for x in reversed(self._entries.values()) if x.error and failed(x))
        return next(names, "")

    # ── what a record says ───────────────────────────────────────────────────────────────────

    def take(self, record: Recorded, state: RunState) -> None:
        """Note what a record says about a step; the state has it already."""
        event, at = record.event, record.position
        match event:
            case e.AttemptStarted() if event.tool != TRIAGE:
                self._begin(event, record, state)
            case e.AttemptSettled() | e.LateOutcome():
                self._settle(event, record)
            case e.StepSettled():
                self._read(event, record, state)
            case e.StepLeft() if event.step in self._entries:
                self._touch(self._entries[event.step]).left = True
            case e.TimerSet() | e.TimerCleared():
                self._timer(event)
            case e.QuestionOpened():
                self._ask(event, record, state)
            case e.WindowOpened():
                self._held_back(event, record, state)
            case e.PlanSet():
                self._planned_at = at
                self._since_plan.clear()
            case _:
                self._undoing(event, at, state)

    def _timer(self, event: e.TimerSet | e.TimerCleared) -> None:
        """Note that a step waits before it is tried again, or before it is looked up again."""
        again = self._entries.get(event.name.removeprefix(RETRY))
        if again is not None and isinstance(event, e.TimerSet):
            self._touch(again)
            again.retries, again.tries = again.retries + 1, event.tries
        unseen = event.name.removeprefix(SETTLE)
        if unseen.isdecimal() and int(unseen) in self._by_attempt:
            self._touch(self._by_attempt[int(unseen)])

    def _begin(self, event: e.AttemptStarted, record: Recorded, state: RunState) -> None:
        entry = self._of(event.step, event.name, record, state)
        self._by_attempt[record.position] = entry
        entry.attempt, entry.outcome, entry.left = record.position, None, False
        entry.tool, entry.noun = event.tool, event.label or event.noun or event.name
        entry.effect, entry.irreversible = event.effect, event.irreversible
        entry.error, entry.ended_at, entry.course = "", None, state.course
        if entry.started_at is None:
            entry.started_at = record.at

    def _settle(self, event: e.AttemptSettled | e.LateOutcome, record: Recorded) -> None:
        entry = self._by_attempt.get(event.attempt)
        if entry is None:
            return
        self._touch(entry)
        entry.tokens += event.usage.tokens
        entry.usd += event.usage.usd or 0.0
        if not self._stands(entry, event):  # layer lost-worker-has-done-shown
            return
        entry.outcome, entry.error = event.outcome, event.error
        entry.ended_at, entry.result_at = record.at, record.position
        entry.summary = summary(event.result, event.blob)

    def _stands(self, entry: Entry, event: e.AttemptSettled | e.LateOutcome) -> bool:
        """Note an outcome; return whether it is the step's, which the first try done decides."""
        if event.attempt == entry.attempt:
            entry.attempt, told, entry.told = entry.told or entry.attempt, entry.told, 0
            return not told
        if event.outcome is not Outcome.DONE or entry.outcome is Outcome.DONE:
            return False
        if entry.outcome is None:  # the last one is in flight
            entry.told = event.attempt
        else:
            entry.attempt = event.attempt
        return True

    def _read(self, event: e.StepSettled, record: Recorded, state: RunState) -> None:
        if self._takes_over(event):
            return
        entry = self._of(event.step, event.name, record, state)
        entry.outcome = Outcome.FAILED if event.error else Outcome.DONE
        entry.error, entry.ended_at = event.error, record.at
        entry.result_at = record.position
        entry.summary = summary(event.result, event.blob)

    def _takes_over(self, event: e.StepSettled) -> bool:
        """Show the effect that a step took over once: where it was done, under the new name."""
        earlier = event.earlier
        done = self._by_attempt.get(earlier.position) if earlier and not earlier.run else None
        asking = self._entries.get(event.step)
        if done is None or (asking is not None and asking.attempt):
            return False
        if asking is not None and asking is not done:
            del self._entries[event.step]
            self._loose.pop(event.step, None)
            self._changed.pop(event.step, None)
            if asking.position > self._planned_at:
                self._since_plan[asking.name] -= 1
        if event.step != done.id:
            self._stands_for[event.step] = done.id
        if done.position <= self._planned_at:  # done before this plan, and reached since
            self._since_plan[event.name] += 1
        self._rename(done, event.name)
        self._touch(done)
        return True

    def _ask(self, event: e.QuestionOpened, record: Recorded, state: RunState) -> None:
        """Note a question for the step that asks it, or for the step whose attempt it is about."""
        step = asking_step(event)  # layer step-would-repeat-effect-one-needs
        if step:
            step = self._of(step, _named(step), record, state).id
        elif event.about in self._by_attempt:
            step = self._touch(self._by_attempt[event.about]).id
        if step:
            self._asking[record.position] = step

    def _held_back(self, event: e.WindowOpened, record: Recorded, state: RunState) -> None:
        entry = self._of(event.step, _named(event.step), record, state)
        entry.noun, entry.irreversible = event.noun, True

    def _undoing(self, event: Event, at: int, state: RunState) -> None:
        if isinstance(event, e.UndoRequested):
            for wanted in state.undo_wanted & self._by_attempt.keys():
                self._touch(self._by_attempt[wanted])
        if isinstance(event, e.UndoStarted):
            self._undos[at] = event.effect
        effect = getattr(event, "effect", None) or self._undos.get(getattr(event, "undo", 0), 0)
        if effect in self._by_attempt:
            self._touch(self._by_attempt[effect])

    def _of(self, step: str, name: str, record: Recorded, state: RunState) -> Entry:
        entry = self._entries.get(self._stands_for.get(step, step))
        if entry is None:
            entry = Entry(step, record.position, name, course=state.course)
            entry.rewritten = state.course > self._course
            self._course = state.course
            self._entries[step] = entry
            self._since_plan[name] += 1
        elif entry.name != name and not name.startswith(KEYED):
            self._rename(entry, name)
        return self._touch(entry)

    def _rename(self, entry: Entry, name: str) -> None:
        if entry.position > self._planned_at:
            self._since_plan[entry.name] -= 1
            self._since_plan[name] += 1
        entry.name = name

    def _touch(self, entry: Entry) -> Entry:
        self._loose[entry.id] = None
        return entry

    # ── how they stand ───────────────────────────────────────────────────────────────────────

    def knows(self, step: str) -> bool:
        """Return whether this step has begun, as far as the journal says."""
        return step in self._entries or step in self._stands_for

    def sheets(self, state: RunState) -> list[StepSheet]:
        """Return every step as it stands, then what is planned."""
        asking = self._look_again(state)
        begun = [entry.sheet for entry in self._entries.values() if entry.sheet is not None]
        return begun + self._planned(state, asking, begun)

    def unsettled(self, state: RunState) -> list[StepSheet]:
        """Return the steps that have begun and not settled, then what is planned."""
        asking = self._look_again(state)
        loose = sorted((self._entries[step] for step in self._loose), key=_place)
        begun = [entry.sheet for entry in loose if entry.sheet is not None]
        return begun + self._planned(state, asking, begun)

    def changed(self, state: RunState) -> list[StepSheet]:
        """Return the steps that have begun or changed since the last call, in their order."""
        self._look_again(state)
        changed = sorted((self._entries[step] for step in self._changed), key=_place)
        self._changed = {}
        return [entry.sheet for entry in changed if entry.sheet is not None]

    def _look_again(self, state: RunState) -> dict[str, int]:
        """Bring the sheets of all steps up to date; return which step asks which question."""
        if (ending := _ending(state.phase)) != self._ending:
            self._ending = ending
            self._loose = dict.fromkeys(self._entries)
        asking = {self._asking[q]: q for q in state.questions if q in self._asking}
        for step in list(self._loose):
            entry = self._entries[step]
            now = sheet(entry, state, asking.get(step, 0))
            if now != entry.sheet:
                entry.sheet = now
                self._changed[step] = None
            waits = now.question or now.until is not None or entry.attempt in state.open
            if now.status in SETTLED and not waits:
                del self._loose[step]
        return asking

    def _planned(
        self, state: RunState, asking: dict[str, int], begun: list[StepSheet]
    ) -> list[StepSheet]:
        """Return the steps that are left of the plan; the first is under way if nothing else is."""
        left = list(enumerate(state.plan))[self._begun(state) :]
        busy = bool(state.open or asking) or not left or any(x.status in RESTING for x in begun)
        loose = [] if busy else [q for q in state.questions if q not in self._asking]
        sheets = []
        for number, name in left:
            first = number == left[0][0] and not busy
            status, word = stand_of_plan(state, first, bool(loose))
            question = loose[0] if first and loose else 0
            sheets.append(StepSheet(f"plan:{number}", 0, name, status, word, question=question))
        return sheets

    def _begun(self, state: RunState) -> int:
        """Return how many steps of the plan have begun: by their names, or else by their number."""
        since = self._since_plan
        known = [number for number, name in enumerate(state.plan) if since.get(name)]
        if known:
            return known[-1] + 1
        working = any(attempt.effect is not Effect.MODEL for attempt in state.open.values())
        return max(0, state.spent.steps - state.plan_from) + working


def _place(entry: Entry) -> int:
    return entry.position


def _ending(phase: Phase) -> Phase | None:
    """Return the phase if it bears on steps that have settled: an end, or the way to one."""
    return phase if phase in ENDS or phase is Phase.CANCELLING else None


def _named(step: str) -> str:
    """Return the name in a step's identity, which is shown until a record tells its name."""
    return step if step.startswith(KEYED) else step.rpartition(":")[0] or step


THERE: Final = frozenset({"done", "kept", "skipped"})
"""States of a step whose work need not be done again."""
BIRTH: Final = 1  # the record that starts a run; there is nothing before it to take over


def fork_from(phase: Phase, steps: Sequence[StepSheet], failed: str) -> ForkFrom | None:
    """The step that failed, or the first whose work is not there any more.

    A fork takes over what came before it. Where all of it is there, it begins with the last one.
    """
    if phase not in ENDS:
        return None
    begun = [(number, step) for number, step in enumerate(steps, 1) if step.position > BIRTH]
    broken = []
    if phase is Phase.FAILED:
        named = [place for place in begun if place[1].name == failed]
        broken = named or [place for place in begun if place[1].status == "failed"]
    gone = [place for place in begun if place[1].status not in THERE]
    for number, step in broken[-1:] or gone[:1] or begun[-1:]:
        return ForkFrom(step.position, number, step.name)
    return None

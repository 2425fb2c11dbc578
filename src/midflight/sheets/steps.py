"""The steps of a run, from its records: what was done, what is being done, what is still planned.

A step is looked at again only when something has touched it or the run has changed its phase, so a
run of many thousand steps costs a watcher little at each of them.
"""

from __future__ import annotations

from typing import Final

from midflight.kernel import events as e
from midflight.kernel.identities import RETRY, about_step
from midflight.kernel.machine import TRIAGE
from midflight.kernel.phases import Effect, Outcome, Phase
from midflight.kernel.record import Event, Recorded
from midflight.kernel.state import RunState
from midflight.sheets.shapes import StepSheet
from midflight.sheets.standing import Entry, failed, sheet, stand_of_plan
from midflight.sheets.words import summary

RESTING: Final = frozenset({"paused", "retrying"})  # begun, and goes on before what is planned


class Steps:
    """All of them, in the order in which they began."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._by_attempt: dict[int, Entry] = {}
        self._loose: dict[str, None] = {}  # may change without a record of their own
        self._asking: dict[int, str] = {}  # question -> step
        self._undos: dict[int, int] = {}
        self._phase = Phase.QUEUED
        self._course = 0
        self._planned_at = 0

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
            case e.TimerSet() if event.name.removeprefix(RETRY) in self._entries:
                entry = self._touch(self._entries[event.name.removeprefix(RETRY)])
                entry.retries, entry.tries = entry.retries + 1, event.tries
            case e.QuestionOpened():
                self._ask(event, record, state)
            case e.WindowOpened():
                self._held_back(event, record, state)
            case e.PlanSet():
                self._planned_at = at
            case _:
                self._undoing(event, at)

    def _begin(self, event: e.AttemptStarted, record: Recorded, state: RunState) -> None:
        entry = self._of(event.step, event.name, record, state)
        self._by_attempt[record.position] = entry
        entry.attempt, entry.outcome, entry.left = record.position, None, False
        entry.tool, entry.noun = event.tool, event.noun or event.name
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
        if not self._stands(entry, event):
            return
        entry.outcome, entry.error = event.outcome, event.error
        entry.ended_at, entry.result_at = record.at, record.position
        entry.summary = summary(event.result, event.blob)

    def _stands(self, entry: Entry, event: e.AttemptSettled | e.LateOutcome) -> bool:
        """Whether that is what came of the step: of its tries the first one that was done."""
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
        entry = self._of(event.step, event.name, record, state)
        entry.outcome = Outcome.FAILED if event.error else Outcome.DONE
        entry.error, entry.ended_at = event.error, record.at
        entry.result_at = record.position
        entry.summary = summary(event.result, event.blob)

    def _ask(self, event: e.QuestionOpened, record: Recorded, state: RunState) -> None:
        """An approval comes before its step; what is asked about an attempt, after it."""
        step = about_step(event)
        if step:
            self._of(step, _named(step), record, state)
        elif event.about in self._by_attempt:
            step = self._touch(self._by_attempt[event.about]).id
        if step:
            self._asking[record.position] = step

    def _held_back(self, event: e.WindowOpened, record: Recorded, state: RunState) -> None:
        entry = self._of(event.step, _named(event.step), record, state)
        entry.noun, entry.irreversible = event.noun, True

    def _undoing(self, event: Event, at: int) -> None:
        if isinstance(event, e.UndoStarted):
            self._undos[at] = event.effect
        effect = getattr(event, "effect", None) or self._undos.get(getattr(event, "undo", 0), 0)
        if effect in self._by_attempt:
            self._touch(self._by_attempt[effect])

    def _of(self, step: str, name: str, record: Recorded, state: RunState) -> Entry:
        entry = self._entries.get(step)
        if entry is None:
            entry = Entry(step, record.position, name, course=state.course)
            entry.rewritten = state.course > self._course
            self._course = state.course
            self._entries[step] = entry
        entry.name = name if entry.name != name and not name.startswith("key:") else entry.name
        return self._touch(entry)

    def _touch(self, entry: Entry) -> Entry:
        self._loose[entry.id] = None
        return entry

    # ── how they stand ───────────────────────────────────────────────────────────────────────

    def sheets(self, state: RunState) -> list[StepSheet]:
        """Every step as it stands, then what is planned."""
        if state.phase is not self._phase:
            self._phase = state.phase
            self._loose = dict.fromkeys(self._entries)
        asking = {
            step: question for question, step in self._asking.items() if question in state.questions
        }
        for step in list(self._loose):
            entry = self._entries[step]
            now = sheet(entry, state, asking.get(step, 0))
            if now != entry.sheet:
                entry.sheet = now
            if now.status == "done":
                del self._loose[step]
        begun = [entry.sheet for entry in self._entries.values() if entry.sheet is not None]
        return begun + self._planned(state, asking, begun)

    def _planned(
        self, state: RunState, asking: dict[str, int], begun: list[StepSheet]
    ) -> list[StepSheet]:
        """What is left of the plan. The first of it is under way while nothing else is."""
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
        """How many steps of the plan have begun: by their names, or else by their number."""
        since = {x.name for x in self._entries.values() if x.position > self._planned_at}
        known = [number for number, name in enumerate(state.plan) if name in since]
        if known:
            return known[-1] + 1
        working = any(attempt.effect is not Effect.MODEL for attempt in state.open.values())
        return max(0, state.spent.steps - state.plan_from) + working


def _named(step: str) -> str:
    """The name in an identity, until a record says it."""
    return step if step.startswith("key:") else step.rpartition(":")[0] or step

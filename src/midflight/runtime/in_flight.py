"""The calls of a run that are under way: steps, other calls of its function, helpers, and tasks."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from anyio.abc import TaskGroup
from msgspec import Raw, Struct

from midflight.journal.phases import Effect
from midflight.journal.record import Usage
from midflight.runtime.run_journal import RunJournal
from midflight.runtime.steps.bounds import Alarms
from midflight.runtime.steps.tool_call import Call
from midflight.tools.declaration import Tool


class LastWords(Struct, frozen=True):
    """The words that an attempt has streamed, while nothing else has begun since it ended."""

    step: str
    attempt: int
    text: str

    def begin(self, text: str) -> bool:
        """Return whether ``text`` is what was streamed, or goes on from it."""
        streamed = self.text.strip()
        return bool(streamed) and text.strip().startswith(streamed)


class Waiting:
    """A call of the function that waits and is not a step; ``course`` is the one it is made on."""

    __slots__ = ("called", "course", "identity")

    def __init__(self, identity: str, called: str, course: int) -> None:
        self.identity = identity
        self.called = called
        self.course = course

    def follow(self, course: int) -> None:
        """Go on with a course of which this call is not told."""
        self.course = course


class OpenStep(Protocol):
    """A step that is under way, as the other parts of its run see it."""

    name: str
    identity: str
    tool: Tool
    call: Call | None
    attempt: int
    resting: bool  # neither in the tool nor writing down how it ended
    asking: bool  # it waits for a person
    idle: bool  # it waits before it tries again

    @property
    def given(self) -> Raw:
        """The arguments, as they are stored."""

    @property
    def asked(self) -> str:
        """The digest of the arguments that the function has given."""

    @property
    def shown(self) -> Raw:
        """The arguments as watchers see them."""

    @property
    def reserved(self) -> Usage:
        """The amount that it may spend."""

    def follow(self, course: int) -> None:
        """Go on with a course of which this step is not told."""

    def hear_late(self) -> None:
        """Hear that somebody was late to tell of an attempt."""


class Tasks:
    """The tasks of one driver. They end with it."""

    __slots__ = ("_alarms", "_group", "_leaving")

    def __init__(self, alarms: Alarms) -> None:
        self._alarms = alarms
        self._group: TaskGroup
        self._leaving = False

    def open(self, group: TaskGroup) -> None:
        """Begin tasks in this group from now on."""
        self._group = group

    def close(self) -> None:
        """Begin nothing more: a group at its end does not wait for newcomers."""
        self._leaving = True

    def start(self, work: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Begin a task in the context of the caller."""
        self._group.start_soon(work, *args)

    def begin(self, work: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Begin a task also where none runs: in a callback of the loop. Not while leaving."""
        if not self._leaving:
            self._alarms.home.run(self.start, work, *args)


S = TypeVar("S", bound=OpenStep)


class InFlight:
    """One run's calls. Each adds itself when it is made and takes itself out when it is over."""

    __slots__ = (
        "_answers", "_expecting", "_immediate", "_journal", "_tasks", "helpers", "last_words",
        "steps", "under_way", "waiting",
    )  # fmt: skip

    def __init__(self, journal: RunJournal, tasks: Tasks, *, immediate: bool) -> None:
        self._journal = journal
        self._tasks = tasks
        self._immediate = immediate
        self._expecting = 0
        self._answers: list[str] = []  # steps whose answer is waited for
        self.steps: set[OpenStep] = set()
        self.under_way: set[OpenStep] = set()  # those of them that a cap has let through
        self.waiting: dict[str, Waiting] = {}  # calls that are not steps
        self.helpers: set[Call] = set()  # undos and checks under way
        self.last_words: LastWords | None = None

    # ── coming and going ─────────────────────────────────────────────────────────────────────

    def begin(self, step: S, work: Callable[[S], Coroutine[Any, Any, None]]) -> None:
        """Do a step, in a task of the driver's."""
        self.steps.add(step)
        self._tasks.start(work, step)
        if not self._journal.calm:
            self._journal.stir()  # it may wait, and that may be what somebody looks for

    def let_through(self, step: OpenStep) -> None:
        """No cap is in the way of a step: it counts as under way."""
        self.under_way.add(step)

    def hold_back(self, step: OpenStep) -> None:
        """A step waits at the gate, and does not count as under way."""
        self.under_way.discard(step)

    def leave(self, step: OpenStep) -> None:
        """The step is over."""
        self.steps.discard(step)
        self.under_way.discard(step)
        if not self._journal.calm:
            self._journal.stir()

    @contextmanager
    def call(self, waiting: Waiting) -> Iterator[Waiting]:
        """While inside, a call of the function waits that is not a step."""
        self.waiting[waiting.identity] = waiting
        self._journal.stir()
        try:
            yield waiting
        finally:
            self.waiting.pop(waiting.identity, None)
            self._journal.stir()

    @contextmanager
    def helping(self, call: Call) -> Iterator[None]:
        """While inside, an undo, a check or a look is being called."""
        self.helpers.add(call)
        try:
            yield
        finally:
            self.helpers.discard(call)

    @contextmanager
    def expecting(self) -> Iterator[None]:
        """While inside, the function waits for something other than a person."""
        self._expecting += 1
        try:
            yield
        finally:
            self._expecting -= 1
            self._journal.stir()

    @contextmanager
    def asking(self, step: str) -> Iterator[None]:
        """While inside, the answer to the question of a step is waited for."""
        self._answers.append(step)
        self._journal.stir()
        try:
            yield
        finally:
            self._answers.remove(step)
            self._journal.stir()

    def is_asking(self, step: str) -> bool:
        """Return whether the answer to the question of a step is waited for."""
        return step in self._answers

    def speak(self, words: LastWords | None) -> None:
        """Remember what the last attempt has streamed; None once another one begins."""
        self.last_words = words

    # ── looking ──────────────────────────────────────────────────────────────────────────────

    @property
    def calls(self) -> set[str]:
        """The identities of everything that is waited for."""
        return {step.identity for step in self.steps} | self.waiting.keys()

    @property
    def names(self) -> list[str]:
        """The names of steps and calls, in words for a person."""
        others = (call.called for call in self.waiting.values())
        return sorted([*(step.name for step in self.steps), *others])

    @property
    def quiet(self) -> bool:
        """True if nothing is inside a tool or writing down how it ended."""
        state = self._journal.state
        return not state.open and not state.undos and all(step.resting for step in self.steps)

    @property
    def only_asks(self) -> bool:
        """Everything that goes on here waits for a person."""
        busy = [step for step in self.steps if not (step.asking or step.idle)]
        asks = self._answers and not self._expecting and self._journal.state.questions
        return bool(asks) and not busy and self.quiet

    @property
    def being_called(self) -> list[Call]:
        """The calls that are inside a tool now."""
        return [step.call for step in self.steps if step.call is not None]

    def hear_late(self) -> None:
        """Somebody tells late how an attempt ended; it may be of one of these steps."""
        for step in self.steps:
            step.hear_late()

    # ── ending what is inside a tool ─────────────────────────────────────────────────────────

    def abort(self, why: str, *, effects: bool, hurry: bool = False) -> None:
        """End reads and model calls, and effects too if it must be."""
        for step in self.steps:
            call = step.call
            if call is None or call.tool.irreversible:
                continue
            harmless = call.tool.effect in {Effect.READ, Effect.MODEL}
            if effects or harmless:
                call.abort(why, hurry=hurry)

    def hushed(self, why: str) -> bool:
        """Abort reads and model calls, unless in boundary mode; true when all is quiet."""
        if self._immediate:  # layer in-boundary-mode-pause
            self.abort(why, effects=False)
        return self.quiet

    def stop_effect(self, attempt: int) -> None:
        """*Stop it*: the person does not want to wait for the effect that a pause waits for."""
        for step in self.steps:
            if step.attempt == attempt and step.call is not None:
                step.call.abort("stopped by a person")

    def cut_short(self, why: str) -> None:
        """End all of it, also what no person may stop: it would end in a moment, unrecorded."""
        for call in self.being_called:
            call.abort(why)

    def leave_behind(self, why: str) -> None:
        """Do not let a call that would not end keep this process."""
        for call in (*self.being_called, *self.helpers):
            call.end_with_process(why)

    def cancel(self, *, now: bool) -> None:
        """Abort at once what a cancel ends, and not when the pilot has its turn.

        Beside many busy runs that would be several milliseconds later.
        """
        if (now or self._immediate) and not self._journal.lost:  # layer in-boundary-mode-cancel
            self.abort("cancelled", effects=True, hurry=now)  # layer cancel-aborts-effects-too

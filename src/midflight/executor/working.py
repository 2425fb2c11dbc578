"""The steps and other calls that an agent's function has begun and waits for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from midflight.kernel.phases import Effect

if TYPE_CHECKING:
    from midflight.executor.calls import Call
    from midflight.executor.drive import Driver
    from midflight.executor.replay import Waiting
    from midflight.executor.steps import Step


class Working:
    """One run's calls. Each adds itself when it is made and takes itself out when it is over."""

    __slots__ = ("_driver", "_expecting", "_log", "steps", "under_way", "waiting")

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._log = driver.log
        self._expecting = 0
        self.steps: set[Step] = set()
        self.under_way: set[Step] = set()  # those of them that a cap has let through
        self.waiting: dict[str, Waiting] = {}  # calls that are not steps

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
        state = self._log.state
        return not state.open and not state.undos and all(step.resting for step in self.steps)

    @property
    def only_asks(self) -> bool:
        """Everything that goes on here waits for a person."""
        driver = self._driver
        busy = [step for step in self.steps if not (step.asking or step.idle)]
        asks = driver.questions.any and not self._expecting and bool(self._log.state.questions)
        return asks and not busy and self.quiet

    @contextmanager
    def expecting(self) -> Iterator[None]:
        """While inside, the function waits for something other than a person."""
        self._expecting += 1
        try:
            yield
        finally:
            self._expecting -= 1
            self._log.stir()

    def leave(self, step: Step) -> None:
        """The step is over."""
        self.steps.discard(step)
        self.under_way.discard(step)
        self._log.stir()

    def hear_late(self) -> None:
        """Somebody tells late how an attempt ended; it may be of one of these steps."""
        for step in self.steps:
            step.hear_late()

    def let_go(self) -> None:
        """The driver is done: it is not to be kept in memory from here."""
        del self._driver

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
        if self._driver.agent.mode == "immediate":
            self.abort(why, effects=False)
        return self.quiet

    def stop_effect(self, attempt: int) -> None:
        """*Stop it*: the person does not want to wait for the effect that a pause waits for."""
        for step in self.steps:
            if step.attempt == attempt and step.call is not None:
                step.call.abort("stopped by a person")

    def cut_short(self, why: str) -> None:
        """End all of it, also what no person may stop: it would end in a moment, unrecorded."""
        for step in self.steps:
            if step.call is not None:
                step.call.abort(why)

    @property
    def being_called(self) -> list[Call]:
        """The calls that are inside a tool now."""
        return [step.call for step in self.steps if step.call is not None]

    def cancel(self, *, now: bool) -> None:
        """Abort at once what a cancel ends, and not when the pilot has its turn.

        Beside many busy runs that would be several milliseconds later.
        """
        if (now or self._driver.agent.mode == "immediate") and not self._driver.lost:
            self.abort("cancelled", effects=True, hurry=now)

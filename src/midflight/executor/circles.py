"""The results of a run's last calls. ``kernel.limits.stuck`` says whether they go in circles."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from midflight.executor import values
from midflight.kernel import events as e
from midflight.kernel.identities import turn
from midflight.kernel.limits import Call

HISTORY: Final = 256  # calls in which circles are looked for

Settled = e.StepSettled | e.AttemptSettled | e.LateOutcome


@dataclass(slots=True, eq=False)
class Circles:
    """One run's. Calls are put in short only when somebody looks at them."""

    made: int = 0
    nudged_at: int | None = None  # the function was told, after so many of them
    _seen: list[Call] = field(default_factory=list)
    _unseen: list[tuple[str, Settled, bool]] = field(default_factory=list)

    def note(self, event: Settled, step: str, failed: bool) -> None:
        """Remember what came of a call."""
        self._unseen.append((step, event, failed))
        self.made += 1
        if self.made % HISTORY == 0:
            del self._unseen[:-HISTORY]
            del self._seen[:-HISTORY]

    @property
    def history(self) -> list[Call]:
        """The last calls, and what came of them; each is put in short once."""
        for step, event, failed in self._unseen:
            came = event.blob.hash if event.blob else values.digest(bytes(event.result))
            self._seen.append(Call(turn(step)[0], came, failed))
        self._unseen.clear()
        return self._seen

    def nudged(self) -> None:
        """The function was told that it goes in circles."""
        self.nudged_at = self.made

    def forget(self) -> None:
        """Forget what was done before: a person lets the run go on, or another run has done it."""
        self.nudged_at = None
        self._seen.clear()
        self._unseen.clear()

"""An effect that a person has stopped in the middle, in words for people and for models."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

ABORTED: Final = "aborted: "
BY: Final = {
    "stopped by a person": "A person has stopped it",
    "cancelled": "A person has cancelled the run and so stopped it",
    "paused": "A person has paused the run and so stopped it",
    "redirected": "A person has changed the course and so stopped it",
    "killed": "An operator has stopped it",
}
"""The reason for an abort, as the journal has it -> words that say who has aborted the attempt."""
TEXT_MAX: Final = 8_000  # characters of what it had said; the end of it


class Cut(Struct, frozen=True):
    """An attempt that was cut: the reason, after how many seconds, and what it had said by then."""

    why: str
    seconds: float
    text: str = ""

    def words(self) -> str:
        """Say that it was stopped, after how long, what may have happened, and its output."""
        by = BY.get(self.why.removeprefix(ABORTED), "It was stopped")
        told = f"{by} after {self.seconds:.1f} s, before it was done. It may have partly happened."
        if not self.text.strip():
            return f"{told} It had said nothing until then."
        return f"{told} Its output until then:\n{self.text[-TEXT_MAX:].rstrip()}"

"""The audit of voice: a line for each act and each call, with the person and the figures.

The words themselves are in the thread, with the person and ``voice`` as the channel.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from midflight.interfaces.voice.speech.speech_engines import FRAME_MS, RATE
from midflight.journal.record import Actor

audit: Final = logging.getLogger("midflight.audit")


@dataclass
class Account:
    """The account of one call."""

    who: Actor
    thread: str
    line_ms: int = 0
    speech_ms: int = 0  # of the person
    acts: int = 0
    asked_again: int = 0

    def note_frame(self, *, speech: bool) -> None:
        """Count a frame that was heard."""
        self.line_ms += FRAME_MS
        self.speech_ms += FRAME_MS * speech

    def note_act(self, act: str, *, refused: bool) -> None:
        """Write a line about an act on somebody's words, done or ``refused``."""
        self.acts += 1
        audit.info(
            "Control", extra={"action": "control", "act": act, "refused": refused} | self._by
        )

    def close(self, played: int) -> None:
        """Write the line of a call that is over; so many samples of ours were played in it."""
        figures = {
            "line_s": self.line_ms / 1000,
            "speech_s": self.speech_ms / 1000,
            "spoken_s": round(played / RATE, 3),
            "acts": self.acts,
            "asked_again": self.asked_again,
        }
        audit.info("Call ended", extra={"action": "call"} | self._by | figures)

    @property
    def _by(self) -> dict[str, object]:
        who = self.who
        by = {"by": who.by, "role": str(who.role), "channel": who.channel}
        return by | {"target": {"thread": self.thread}}

"""Questions of a thread's runs, read out: as they come, and one at a time where several are open.

Work that is not in front asks too, in the background or where it was parked. Who only listens
cannot see whose question it is, so it is said.
"""

from __future__ import annotations

from collections.abc import Callable

from midflight.control import Control
from midflight.errors import JournalNotFound
from midflight.kernel.front import short
from midflight.voice.mouth import Mouth
from midflight.voice.utterance import Question


async def worded(control: Control, question: Question, message: str, front: str) -> str:
    """A question as it is read out: with what it is about, unless the run in front asks it."""
    if question.journal == front:
        return message
    try:
        run = await control.state(question.journal)
    except JournalNotFound:  # it was purged meanwhile: nothing is left to be said of it
        return message
    return f"About {short(run.title or run.brief)}: {message}"


class Asking:
    """One line's: what is open, and asked by whom."""

    def __init__(self, control: Control, mouth: Mouth, begin: Callable[[], None]) -> None:
        self._control, self._mouth, self._begin = control, mouth, begin
        self._open: dict[Question, str] = {}  # the oldest first
        self._since: dict[Question, float] = {}  # those that were open before we came

    def note(self, question: Question, message: str, since: float) -> None:
        """It is open, and was before we came; they come in any order."""
        self._since[question] = since
        self._open[question] = message
        self._open = dict(sorted(self._open.items(), key=lambda one: self._since[one[0]]))

    async def ask(self, question: Question, message: str, front: str) -> None:
        """It is open now: read it out."""
        self._open[question] = message
        self._say(await worded(self._control, question, message, front), question)

    async def settle(self, question: Question) -> None:
        """It need not be asked any longer."""
        self._open.pop(question, None)
        await self._mouth.take_back(lambda said: said.about == question)

    async def settle_all(self, run: str) -> None:
        """The run is over, and with it what it asked."""
        for question in [question for question in self._open if question.journal == run]:
            await self.settle(question)

    async def ask_again(self, front: str) -> None:
        """Ask the newest that is open; people answer one at a time."""
        left = list(self._open)
        if left and not any(map(self._mouth.will_ask, left)):
            count = f"{len(left)} questions are open. The newest: " * (len(left) > 1)
            newest = left[-1]
            message = await worded(self._control, newest, self._open[newest], front)
            if newest in self._open:  # else somebody has answered it meanwhile
                self._say((count or "Still open: ") + message, newest)

    def _say(self, text: str, about: Question) -> None:
        self._mouth.say(text, about=about)
        self._begin()

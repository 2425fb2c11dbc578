"""Questions of a thread's runs, read out: as they come, and one at a time where several are open.

Work that is not in front asks too, in the background or where it was parked. A person who only
listens cannot see which work asks, so the question says it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec

from midflight.control import Control
from midflight.errors import JournalNotFound
from midflight.kernel.events import QuestionOpened
from midflight.kernel.front import short
from midflight.view.exact_text import exactly
from midflight.view.question_form import all_facts
from midflight.voice.mouth import Mouth
from midflight.voice.utterance import Question

FACTS_MAX: Final = 180  # characters, which take about twelve seconds to say
MESSAGE_MAX: Final = 600
LONG: Final = (
    "The details are on the screen. Read them, and answer there; here you can only say no."
)
SPEAKABLE: Final = re.compile(r"[\w\s.,:;'@/$€£%#&+()!?•-]*")
"""Text that is understood by its sound. A voice leaves out quotes, brackets and escapes."""


def spoken(asked: QuestionOpened) -> str:
    """Return a question as it is read out: first its values, so that a yes comes after them.

    Values that are too long to be listened to, or have no sound, are on the screen. It is said
    that they are, and that a yes is given there.
    """
    if not is_read_out(asked):
        return f"{LONG} {asked.message}"
    told = values_told(asked)
    return f"{told} {asked.message}" if told else asked.message


def is_read_out(asked: QuestionOpened) -> bool:
    """Return whether all that a question is about is said: else it takes no yes by voice."""
    told = values_told(asked)
    short = len(told) <= FACTS_MAX and len(asked.message) <= MESSAGE_MAX
    seen = exactly(asked.message) == asked.message
    return short and seen and SPEAKABLE.fullmatch(told) is not None


def values_told(asked: QuestionOpened) -> str:
    """Return the values of what a question is about as they are said before it."""
    facts = all_facts(msgspec.json.decode(asked.schema))
    told = ", ".join(" ".join(f"{name} {value}".split()) for name, value in facts)
    return f"This is about: {told}." if told else ""


async def worded(control: Control, question: Question, message: str, front: str) -> str:
    """Return a question as it is read out: with the name of its work, unless that is in front."""
    if question.journal == front:
        return message
    try:
        run = await control.state(question.journal)
    except JournalNotFound:  # it was purged meanwhile: nothing is left to be said of it
        return message
    return f"About {short(run.title or run.brief)}: {message}"


class Asking:
    """The open questions of one line, with the runs that ask them."""

    def __init__(self, control: Control, mouth: Mouth, begin: Callable[[], None]) -> None:
        self._control, self._mouth, self._begin = control, mouth, begin
        self._open: dict[Question, str] = {}  # the oldest first
        self._since: dict[Question, float] = {}  # those that were open before we came

    def note(self, question: Question, message: str, since: float) -> None:
        """Keep a question that was open before we came; such questions come in any order."""
        self._since[question] = since
        self._open[question] = message
        self._open = dict(sorted(self._open.items(), key=lambda one: self._since[one[0]]))

    async def ask(self, question: Question, message: str, front: str) -> None:
        """Keep a question that has just been opened, and read it out."""
        self._open[question] = message
        self._say(await worded(self._control, question, message, front), question)

    async def settle(self, question: Question) -> None:
        """Drop a question that need not be asked any longer."""
        self._open.pop(question, None)
        await self._mouth.take_back(lambda said: said.about == question)

    async def settle_all(self, run: str) -> None:
        """Drop all questions of a run that is over."""
        for question in [question for question in self._open if question.journal == run]:
            await self.settle(question)

    async def ask_again(self, front: str) -> None:
        """Ask the newest open question; people answer one at a time."""
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

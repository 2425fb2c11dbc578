"""Questions read out one at a time, and words as answers to the one that was heard last."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from midflight.control import Control
from midflight.errors import JournalNotFound
from midflight.interfaces.voice.call_record import Caller, Done, Moment
from midflight.interfaces.voice.lexicon import Act, Meaning, doing, plain
from midflight.interfaces.voice.speech.agenda import Question, Utterance
from midflight.interfaces.voice.speech.mouth import Mouth
from midflight.journal.events import QuestionOpened
from midflight.journal.phases import Cause
from midflight.journal.state import RunState
from midflight.journal.threads.front import short
from midflight.stores.lookup import question_at
from midflight.view.question_form import Pick, all_facts, picks, written
from midflight.view.shown_values import exactly

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
        if left and not any(map(self._mouth.agenda.will_ask, left)):
            count = f"{len(left)} questions are open. The newest: " * (len(left) > 1)
            newest = left[-1]
            message = await worded(self._control, newest, self._open[newest], front)
            if newest in self._open:  # else somebody has answered it meanwhile
                self._say((count or "Still open: ") + message, newest)

    def _say(self, text: str, about: Question) -> None:
        self._mouth.say(text, about=about)
        self._begin()


APPROVE, REJECT = "approve", "reject"
ANSWERS: Final = {Act.YES, Act.NO}
PASSED_ON: Final = "Passed on."
ON_A_SCREEN: Final = (
    "That cannot be read out whole, so nobody can say yes to it here. Read it on a screen, and "
    "answer there. You can say no."
)
HEAR_ALL: Final = "Hear all of it first, please: "
STILL_OPEN: Final = "Still open: "
YES_OR_NO: Final = "Say “yes” or “no”, please: "
LATER: Final = "Passed on. It goes on with that when its turn comes."


class Fitting(Struct, frozen=True):
    """An open question that they had heard, and the answer that their words would be."""

    question: Question
    run: RunState
    asked: QuestionOpened
    payload: Any


class Answers:
    """Finds the question that words on a line answer, among those that they had heard by then."""

    def __init__(self, caller: Caller) -> None:
        self._control, self._thread = caller.control, caller.thread
        self._asked_instead: Question | None = None
        self._known: frozenset[Utterance] = frozenset()  # that they had heard when they last spoke

    def spoke(self, moment: Moment) -> None:
        """They have: what they had heard by then is not new to them any more."""
        self._known = frozenset(moment.asked)

    async def find(self, meant: Meaning, moment: Moment) -> Done | Fitting | None:
        """The question that is answered so; what to ask where that is in doubt; None if none is."""
        if meant.act is Act.REDIRECT:
            return await self._instead(meant, moment)  # layer front-not-redirected-to-what-other
        fitting = await self._fitting(meant, moment)
        if not fitting:
            return None
        one = fitting[0]
        if agrees(one) and not is_read_out(one.asked):  # layer yes-to-what-cannot-read-out
            return Done(Act.SAY, ON_A_SCREEN, one.question)
        # layer yes-comes-after-values
        unheard = HEAR_ALL if agrees(one) and not self._values_heard(one, moment) else ""
        doubt = self._doubt(meant, moment, fitting) or unheard
        return await self._ask(doubt, one, moment) if doubt else one

    def _values_heard(self, one: Fitting, moment: Moment) -> bool:
        """Return whether the person had heard all the values before they answered."""
        told = values_told(one.asked)
        heard = (said.heard for said in moment.asked if said.about == one.question)
        return not told or any(told in each for each in heard)

    async def _fitting(self, meant: Meaning, moment: Moment) -> list[Fitting]:
        """Return the open questions that these words would answer, the one heard last first."""
        found: list[Fitting] = []
        runs: dict[str, RunState | None] = {}
        for question in self._heard(moment):
            # layer words-to-front-not-for-has
            if question.journal == moment.front or self._is_about(question, meant, moment):
                if question.journal not in runs:
                    runs[question.journal] = await self._run(question.journal)
                one = await self._open(question, runs[question.journal], meant)
                found += [one] if one is not None and one.payload is not None else []
        return found

    def _is_about(self, question: Question, meant: Meaning, moment: Moment) -> bool:
        """Return whether the words may answer a question of a run that is not in front.

        They do not where they are meant for the run in front.
        """
        new, last = question in self._new(moment), is_last(question, moment)
        return new or last if meant.act in ANSWERS else new and last

    def _heard(self, moment: Moment) -> list[Question]:
        """Questions of runs, heard last first."""
        asked = [said.about for said in reversed(moment.asked) if said.about]
        return list(dict.fromkeys(one for one in asked if one.journal != self._thread))

    def _new(self, moment: Moment) -> set[Question | None]:
        """Return the questions that the person has heard since they last spoke."""
        return {said.about for said in moment.asked if said not in self._known}

    async def _run(self, run: str) -> RunState | None:
        try:
            return await self._control.state(run)
        except JournalNotFound:  # it was purged
            return None

    async def _open(
        self, question: Question, run: RunState | None, meant: Meaning
    ) -> Fitting | None:
        """The question, if it is open and nobody has its run; with what the words would answer."""
        # layer person-has-taken-over-theirs
        if run is None or question.place not in run.questions or Cause.HUMAN in run.holds:
            return None
        asked = await question_at(self._control.store, run.journal, question.place)
        if asked is None:
            return None
        return Fitting(question, run, asked, payload_of(asked, meant))

    def _doubt(self, meant: Meaning, moment: Moment, fitting: list[Fitting]) -> str:
        """Return the words to say before asking again, where the answer's meaning is not plain."""
        first, new = fitting[0], self._new(moment)
        several = sum(one.question in new for one in fitting)
        if several > 1:  # layer several-questions-none-answered
            return f"{several} questions are open. The last one first: "
        if first.question != self._heard(moment)[0]:  # what they have heard last is settled
            return STILL_OPEN
        # layer yes-to-what-front-has-said
        if first.question.journal != moment.front and not is_last(first.question, moment):
            return STILL_OPEN  # the front has said something since, which may have asked them, too
        verb = doing(meant.said) if meant.act in ANSWERS else ""
        return YES_OR_NO if verb and verb not in plain(first.asked.message) else ""

    async def _instead(self, meant: Meaning, moment: Moment) -> Done | Fitting | None:
        """A redirect that may be an answer to work which is not in front; None if it is not.

        The run in front would be told what is for others. It is asked about once for each question.
        """
        last = moment.last.about if moment.last is not None else None
        if last is None or last.journal in {moment.front, self._thread}:
            return None
        if last == self._asked_instead or last not in self._new(moment):
            return None
        self._asked_instead = last
        words = Meaning(Act.SAY, meant.said, meant.said)
        one = await self._open(last, await self._run(last.journal), words)
        if one is None or one.payload is not None:
            return one
        return await self._ask(YES_OR_NO, one, moment)

    async def _ask(self, before: str, one: Fitting, moment: Moment) -> Done:
        message = await worded(self._control, one.question, spoken(one.asked), moment.front)
        return Done(Act.SAY, before + message, one.question)


def agrees(one: Fitting) -> bool:
    """Return whether an answer lets something be done: it is neither a no nor words asked for."""
    schema = msgspec.json.decode(one.asked.schema)
    words = isinstance(schema, dict) and schema.get("type") == "string" and "enum" not in schema
    return not words and one.payload is not False and one.payload != REJECT


def is_last(question: Question, moment: Moment) -> bool:
    """Return whether the person had heard nothing else since the question."""
    return moment.last is not None and moment.last.about == question


def payload_of(asked: QuestionOpened, meant: Meaning) -> Any:
    """The answer that words give to a question; None where a form is needed, or other words."""
    schema = msgspec.json.decode(asked.schema)
    found = picks(schema)
    if meant.act in ANSWERS:
        for yes, no in ((True, False), (APPROVE, REJECT)):
            if _takes(found, yes) and _takes(found, no):
                return yes if meant.act is Act.YES else no
    kinds = schema if isinstance(schema, dict) else {}
    if kinds.get("type") == "string" and "enum" not in kinds:
        return meant.text or None
    said = meant.text.casefold()
    named = (pick.value for pick in found if said in _names(pick))
    return next(named, None)


def _takes(found: list[Pick], value: bool | str) -> bool:
    """Return whether the value is among the picks, with the same type: 1 is not True."""
    return any(pick.value == value and type(pick.value) is type(value) for pick in found)


def _names(pick: Pick) -> set[str]:
    return {name.casefold() for name in (written(pick.value), pick.words) if name}

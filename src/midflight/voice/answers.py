"""Words as answers: to the question that was heard last, whichever run of the thread asks it.

In doubt it is asked about. An approval that was meant for something else is worse than a question
too many, most of all where the work that asks is not what people are looking at.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

from midflight.control import Control
from midflight.errors import JournalNotFound
from midflight.kernel.events import QuestionOpened
from midflight.kernel.phases import Cause
from midflight.kernel.state import RunState
from midflight.stores.lookup import question_at
from midflight.view.question_form import Pick, picks, written
from midflight.voice.asking import is_read_out, spoken, values_told, worded
from midflight.voice.deeds import Done, Moment
from midflight.voice.lexicon import Act, Meaning, doing
from midflight.voice.mouth import Mouth
from midflight.voice.phrases import plain
from midflight.voice.utterance import Question, Utterance

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

    def __init__(self, control: Control, thread: str, mouth: Mouth) -> None:
        self._control, self._thread, self._mouth = control, thread, mouth
        self._asked_instead: Question | None = None
        self._known: frozenset[Utterance] = frozenset()  # that they had heard when they last spoke

    def spoke(self, moment: Moment) -> None:
        """They have: what they had heard by then is not new to them any more."""
        self._known = frozenset(moment.asked)

    async def find(self, meant: Meaning, moment: Moment) -> Done | Fitting | None:
        """The question that is answered so; what to ask where that is in doubt; None if none is."""
        if meant.act is Act.REDIRECT:
            return await self._instead(meant, moment)
        fitting = await self._fitting(meant, moment)
        if not fitting:
            return None
        one = fitting[0]
        if agrees(one) and not is_read_out(one.asked):
            return Done(Act.SAY, ON_A_SCREEN, one.question)
        unheard = HEAR_ALL if agrees(one) and not self._values_heard(one, moment) else ""
        doubt = self._doubt(meant, moment, fitting) or unheard
        return await self._ask(doubt, one, moment) if doubt else one

    def _values_heard(self, one: Fitting, moment: Moment) -> bool:
        """Whether they have heard all the values before they answered."""
        told = values_told(one.asked)
        heard = (said.heard for said in moment.asked if said.about == one.question)
        return not told or any(told in each for each in heard)

    async def _fitting(self, meant: Meaning, moment: Moment) -> list[Fitting]:
        """What is open and would be answered so, heard last first."""
        found: list[Fitting] = []
        runs: dict[str, RunState | None] = {}
        for question in self._heard(moment):
            if question.journal == moment.front or self._is_about(question, meant, moment):
                if question.journal not in runs:
                    runs[question.journal] = await self._run(question.journal)
                one = await self._open(question, runs[question.journal], meant)
                found += [one] if one is not None and one.payload is not None else []
        return found

    def _is_about(self, question: Question, meant: Meaning, moment: Moment) -> bool:
        """Whether their words may be for work that is not in front: those to the front are not."""
        new, last = question in self._new(moment), is_last(question, moment)
        return new or last if meant.act in ANSWERS else new and last

    def _heard(self, moment: Moment) -> list[Question]:
        """Questions of runs, heard last first."""
        asked = [said.about for said in reversed(moment.asked) if said.about]
        return list(dict.fromkeys(one for one in asked if one.journal != self._thread))

    def _new(self, moment: Moment) -> set[Question | None]:
        """What they have heard since they last spoke."""
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
        if run is None or question.place not in run.questions or Cause.HUMAN in run.holds:
            return None
        asked = await question_at(self._control.store, run.journal, question.place)
        if asked is None:
            return None
        return Fitting(question, run, asked, payload_of(asked, meant))

    def _doubt(self, meant: Meaning, moment: Moment, fitting: list[Fitting]) -> str:
        """What to say before it is asked again, where it is not plain that it is meant."""
        first, new = fitting[0], self._new(moment)
        several = sum(one.question in new for one in fitting)
        if several > 1:
            return f"{several} questions are open. The last one first: "
        if first.question != self._heard(moment)[0]:  # what they have heard last is settled
            return STILL_OPEN
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
    """Whether an answer lets something be done: neither a no, nor words that were asked for."""
    schema = msgspec.json.decode(one.asked.schema)
    words = isinstance(schema, dict) and schema.get("type") == "string" and "enum" not in schema
    return not words and one.payload is not False and one.payload != REJECT


def is_last(question: Question, moment: Moment) -> bool:
    """Whether they had heard nothing else since."""
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
    """Whether it is among them; 1 is no yes."""
    return any(pick.value == value and type(pick.value) is type(value) for pick in found)


def _names(pick: Pick) -> set[str]:
    return {name.casefold() for name in (written(pick.value), pick.words) if name}

"""Spoken words as verbs of ``Control``; the controls act before any model is asked."""

from __future__ import annotations

from typing import Final

import anyio

from midflight.conversation import stop_word
from midflight.errors import MidflightError, Refused
from midflight.interfaces.voice.call_record import Caller, Done, Moment, Sending, kept_because
from midflight.interfaces.voice.lexicon import (
    HOLDING,
    Act,
    Meaning,
    approves,
    cancels,
)
from midflight.interfaces.voice.speech.mouth import Mouth
from midflight.interfaces.voice.spoken_answers import (
    ANSWERS,
    LATER,
    PASSED_ON,
    Answers,
    Fitting,
)
from midflight.journal.phases import Cause
from midflight.journal.state import RunState

STOP: Final = "stop"
WORDS: Final = ANSWERS | {Act.SAY}  # all else is a control: it settles whether to cancel
TO_RUNS: Final = WORDS | {Act.REDIRECT}  # what may be about a question
WITH_A_PERSON: Final = "A person has this. It goes on when they hand it back."
NOTHING_YET: Final = "Nothing is at work here yet."
BROKEN_OFF: Final = "[The line broke off while they said this; there may be more to it.] "
YES_OR_NO: Final = "It is still paused. Say “yes” to cancel it, or “no” to go on."


class Acts:
    """One line's. One thing is done at a time, in the order in which it was said."""

    def __init__(self, caller: Caller, mouth: Mouth, sending: Sending) -> None:
        self._caller, self._control, self._by = caller, caller.control, caller.by
        self._mouth, self._sending = mouth, sending
        self._one = anyio.Lock()
        self._cancelling = ("", 0)  # a run that was stopped, and where in the thread
        self._answers = Answers(caller)

    async def do(self, meant: Meaning, moment: Moment) -> Done:
        """Do it; what is refused is answered with why, and changes nothing."""
        async with self._one:
            if meant.act in HOLDING:  # our tongue, even if nothing else can be held
                await self._mouth.keep()
            try:
                if not moment.whole:  # layer half-utterance-approves-cancels
                    return await self._do_what_is_safe(meant)
                return await self._do(meant, moment)
            except MidflightError as error:
                return Done(meant.act, str(error), refused=True)
            finally:
                self._answers.spoke(moment)

    async def _do(self, meant: Meaning, moment: Moment) -> Done:
        run = await self._front()
        asked = await self._asked_to_cancel(moment)
        if meant.act not in WORDS:
            self._cancelling = ("", 0)
        match meant.act:
            case _ if asked and cancels(meant.said):  # layer polite-word-after-stop-does
                return await self._cancel(asked)
            case Act.PAUSE:
                return await self._pause(run)
            case Act.STOP:
                return await self._stop(meant.said)
            case Act.YES if asked:  # polite, perhaps: a cancel wants more
                return Done(Act.SAY, YES_OR_NO)
            case Act.NO if asked:
                self._cancelling = ("", 0)
                return await self._go_on(run)
            case _:
                answered = await self._answer(run, meant, moment)
                return answered or await self._to_front(run, meant, moment)

    async def _do_what_is_safe(self, meant: Meaning) -> Done:
        """The line has ended in the midst of it: "yes" may have been "yes, but only to Bob".

        What holds the work is done. Else it is a message that says so, and first, so that no words
        in it are more than that: it answers, redirects and resumes nothing.
        """
        match meant.act:
            case Act.PAUSE:
                return await self._pause(await self._front())
            case Act.STOP:
                return await self._stop(meant.said)
            case _:
                await self._sending.hang_up()
                await self._sending.write(BROKEN_OFF + meant.said)
                return Done(Act.SAY)

    async def _to_front(self, run: RunState | None, meant: Meaning, moment: Moment) -> Done:
        match meant.act:
            case _ if run is None or not run.alive:
                return await self._to_nobody(meant)
            case _ if Cause.HUMAN in run.holds:
                return await self._to_a_person(meant)
            case _ if run.journal != moment.front:  # they spoke to another
                await self._sending.send(meant.said)
                return Done(Act.SAY)
            case _:
                return await self._to_run(run, meant)

    async def _asked_to_cancel(self, moment: Moment) -> str:
        """The run that is still held, and of which they had last heard whether to cancel it."""
        run, since = self._cancelling
        last = moment.asked[-1].about if run and moment.asked else None
        if last is None or last.journal != self._caller.thread or last.place <= since:
            return ""
        return run if Cause.USER in (await self._control.state(run)).holds else ""

    async def _to_nobody(self, meant: Meaning) -> Done:
        """Nothing is at work: words begin something."""
        if meant.act is Act.GO_ON:
            return Done(Act.GO_ON, go_on=True)
        begun, kept = await self._sending.send(meant.said)
        if not begun:  # an operator has stopped it all, or they may only look on
            return Done(Act.SAY, kept_because(kept))
        if meant.act is Act.STRATEGY:
            await self._control.redirect(begun, meant.said, profile=meant.text, **self._by())
            return Done(Act.STRATEGY)
        return Done(Act.SAY)

    async def _to_a_person(self, meant: Meaning) -> Done:
        """Somebody has taken it over: what is said is said to them."""
        if meant.act is Act.GO_ON:
            return Done(Act.GO_ON, WITH_A_PERSON, go_on=True)
        if meant.act is Act.HUMAN:
            return Done(Act.HUMAN, WITH_A_PERSON, go_on=True)
        await self._sending.send(meant.said)
        return Done(Act.SAY)

    async def _to_run(self, run: RunState, meant: Meaning) -> Done:
        match meant.act:
            case Act.GO_ON:
                return await self._go_on(run)
            case Act.HUMAN:
                await self._control.take_over(run.journal, **self._by())
                await self._sending.give_up()
                return Done(Act.HUMAN, "I am getting a person. Nothing goes on until they say so.")
            case Act.STRATEGY:
                return await self._redirect(run, run.brief, meant.text)
            case Act.REDIRECT:
                return await self._redirect(run, meant.text)
            case _:
                return await self._say(run, meant)

    # ── the controls ─────────────────────────────────────────────────────────────────────────

    async def _pause(self, run: RunState | None) -> Done:
        """Hold the work, as our tongue is: "go on" brings both back."""
        if run is None or not run.alive or Cause.USER in run.holds:
            return Done(Act.PAUSE)
        accepted = await self._control.pause(run.journal, **self._by())
        flying = ", ".join(accepted.in_flight)
        return Done(Act.PAUSE, f"It pauses when this has ended: {flying}." if flying else "")

    async def _stop(self, text: str) -> Done:
        """The panic word costs nothing: it pauses, and asks whether to cancel."""
        if await self._caller.talk() is None:
            return Done(Act.STOP, NOTHING_YET)  # there is not even a thread to write it into
        word = text if stop_word(text) else STOP
        accepted = await self._control.send(self._caller.thread, word, **self._by())
        if not accepted.target:
            await self._sending.give_up()
            return Done(Act.STOP, "I stopped talking. Nothing is at work.")
        self._cancelling = (accepted.target, accepted.position)
        return Done(Act.STOP)  # the thread asks, and we read it out

    async def _go_on(self, run: RunState | None) -> Done:
        if run is not None and run.alive and Cause.USER in run.holds:
            await self._sending.take_thought_back(run.journal)
            await self._control.resume(run.journal, **self._by())
        return Done(Act.GO_ON, go_on=True)

    async def _cancel(self, run: str) -> Done:
        self._cancelling = ("", 0)
        accepted = await self._control.cancel(run, **self._by())
        await self._sending.give_up()
        flying = f" Still in flight: {', '.join(accepted.in_flight)}." * bool(accepted.in_flight)
        return Done(Act.YES, f"Cancelling.{flying}")

    async def _redirect(self, run: RunState, text: str, profile: str = "") -> Done:
        """Abort what its model says. It has to be told what was heard: that is on no record yet."""
        words = text + self._sending.heard_of_thought()
        await self._control.redirect(run.journal, words, profile=profile, resume=True, **self._by())
        await self._sending.give_up()
        return Done(Act.STRATEGY if profile else Act.REDIRECT)

    # ── words for the run ────────────────────────────────────────────────────────────────────

    async def _say(self, run: RunState, meant: Meaning) -> Done:
        if Cause.USER in run.holds:  # they want it to wait, and what is aside, too
            await self._sending.write(meant.said)
            return Done(Act.SAY)
        if meant.asks_nothing:  # it is told, and speaks on
            await self._sending.write(meant.said)
            return Done(Act.SAY, go_on=True)
        if self._sending.is_thinking_aloud(run.journal):
            try:
                return await self._redirect(run, meant.said)
            except Refused:
                pass  # it has ended meanwhile
        await self._sending.send(meant.said)
        return Done(Act.SAY)

    async def _answer(self, run: RunState | None, meant: Meaning, moment: Moment) -> Done | None:
        """Take the words as the answer to a question that the person had heard.

        Returns the outcome, or None if the words answer no question.
        """
        is_held = run is not None and Cause.USER in run.holds
        if meant.act is Act.GO_ON and not is_held and approves(meant.said):
            meant = Meaning(Act.YES, "", "")
        found = await self._answers.find(meant, moment) if meant.act in TO_RUNS else None
        if not isinstance(found, Fitting):
            return found
        question = found.question
        await self._control.answer(question.journal, question.place, found.payload, **self._by())
        if question.journal != moment.front:
            return await self._answered_aside(found, meant, is_held=is_held)
        if not is_held:
            await self._sending.give_up()
        return Done(meant.act)

    async def _answered_aside(self, found: Fitting, meant: Meaning, *, is_held: bool) -> Done:
        """Other work was answered: what the run in front was saying goes on."""
        await self._mouth.take_back(lambda said: said.about == found.question)
        if is_held or not self._mouth.agenda.aside:
            return Done(meant.act, LATER if Cause.PARKED in found.run.holds else PASSED_ON)
        return Done(meant.act, go_on=True)

    # ── how it stands ────────────────────────────────────────────────────────────────────────

    async def _front(self) -> RunState | None:
        talk = await self._caller.talk()
        return await self._control.state(talk.front) if talk is not None and talk.front else None

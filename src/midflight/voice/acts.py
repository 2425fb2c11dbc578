"""What people say, as verbs of ``Control``; the controls act before any model is asked.

What was heard of our own words goes on record with it: before a message that begins the next run,
so that this run knows; after a verb that aborts the model, because only then no more can come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import anyio
import msgspec
from msgspec import Struct

from midflight.control import Control
from midflight.conversation import stop_word
from midflight.errors import JournalNotFound, MidflightError, NotAllowed, Refused
from midflight.inputs import Ids
from midflight.kernel.events import QuestionOpened
from midflight.kernel.phases import Cause
from midflight.kernel.record import Who
from midflight.kernel.state import RunState
from midflight.kernel.thread import ThreadState
from midflight.run import Agent
from midflight.voice.lexicon import Act, Meaning, approves, cancels, doing, plain
from midflight.voice.mouth import Mouth
from midflight.voice.shown import Saying, Shown
from midflight.voice.utterance import Question, Utterance

STOP: Final = "stop"
APPROVE, REJECT = "approve", "reject"
ANSWERS: Final = {Act.YES, Act.NO}
WORDS: Final = ANSWERS | {Act.SAY}  # all else is a control: it settles whether to cancel
WITH_A_PERSON: Final = "A person has this. It goes on when they hand it back."
YES_OR_NO: Final = "It is still paused. Say “yes” to cancel it, or “no” to go on."


class Done(Struct, frozen=True):
    """What came of somebody's words: ``say`` is our answer, ``go_on`` with what was put aside."""

    act: Act
    say: str = ""
    about: Question | None = None  # which ``say`` asks once more
    go_on: bool = False
    refused: bool = False


class Moment(Struct, frozen=True):
    """How it stood when somebody began to speak: they answer nothing that they had not heard."""

    front: str = ""
    asked: tuple[Question, ...] = ()  # of which they had heard something, the last one last


class Acts:
    """One line's. One thing is done at a time, in the order in which it was said."""

    def __init__(
        self,
        control: Control,
        agent: Agent,
        thread: str,
        who: Who,
        *,
        ids: Ids,
        mouth: Mouth,
        show: Callable[[Shown], None],
    ) -> None:
        self._control, self._agent, self._thread = control, agent, thread
        self._who, self._ids, self._mouth, self._show = who, ids, mouth, show
        self._one = anyio.Lock()
        self._cancelling = ("", 0)  # a run that was stopped, and where in the thread
        self._known: set[Question] = set()  # that were asked before their last words

    async def do(self, meant: Meaning, moment: Moment) -> Done:
        """Do it; what is refused is answered with why, and changes nothing."""
        async with self._one:
            try:
                return await self._do(meant, moment)
            except MidflightError as error:
                return Done(meant.act, str(error), refused=True)
            finally:
                self._known.update(moment.asked)

    async def _do(self, meant: Meaning, moment: Moment) -> Done:
        run = await self._front()
        asked = await self._asked_to_cancel(moment)
        if meant.act not in WORDS:
            self._cancelling = ("", 0)
        match meant.act:
            case _ if asked and cancels(meant.said):
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
            case _ if run is None or not run.alive:
                return await self._to_nobody(meant)
            case _ if Cause.HUMAN in run.holds:
                return await self._to_a_person(meant)
            case _ if run.journal != moment.front:  # they spoke to another
                await self._send(meant.said)
                return Done(Act.SAY)
            case _:
                return await self._to_run(run, meant, moment)

    async def _asked_to_cancel(self, moment: Moment) -> str:
        """The run that is still held, and of which they had last heard whether to cancel it."""
        run, since = self._cancelling
        last = moment.asked[-1] if run and moment.asked else Question("", 0)
        if last.journal != self._thread or last.place <= since:
            return ""
        return run if Cause.USER in (await self._control.state(run)).holds else ""

    async def _to_nobody(self, meant: Meaning) -> Done:
        """Nothing is at work: words begin something."""
        if meant.act is Act.GO_ON:
            return Done(Act.GO_ON, go_on=True)
        begun = await self._send(meant.said)
        if meant.act is Act.STRATEGY and begun:
            await self._control.redirect(begun, meant.said, profile=meant.text, **self._by())
            return Done(Act.STRATEGY)
        return Done(Act.SAY)

    async def _to_a_person(self, meant: Meaning) -> Done:
        """Somebody has taken it over: what is said is said to them."""
        if meant.act is Act.GO_ON:
            return Done(Act.GO_ON, WITH_A_PERSON, go_on=True)
        if meant.act is Act.HUMAN:
            return Done(Act.HUMAN, WITH_A_PERSON)
        await self._send(meant.said)
        return Done(Act.SAY)

    async def _to_run(self, run: RunState, meant: Meaning, moment: Moment) -> Done:
        match meant.act:
            case Act.GO_ON if Cause.USER not in run.holds and approves(meant.said):
                yes = Meaning(Act.YES, "", "")
                return await self._answer(run, yes, moment) or await self._go_on(run)
            case Act.GO_ON:
                return await self._go_on(run)
            case Act.HUMAN:
                await self._control.take_over(run.journal, **self._by())
                await self.give_up()
                return Done(Act.HUMAN, "I am getting a person. Nothing goes on until they say so.")
            case Act.STRATEGY:
                return await self._redirect(run, run.brief, meant.text)
            case Act.REDIRECT:
                return await self._redirect(run, meant.text)
            case _:
                return await self._say(run, meant, moment)

    # ── the controls ─────────────────────────────────────────────────────────────────────────

    async def _pause(self, run: RunState | None) -> Done:
        """Hold the work, and our tongue: "go on" brings both back."""
        await self._mouth.keep()
        if run is None or not run.alive or Cause.USER in run.holds:
            return Done(Act.PAUSE)
        accepted = await self._control.pause(run.journal, **self._by())
        flying = ", ".join(accepted.in_flight)
        return Done(Act.PAUSE, f"Paused. First this ends: {flying}." if flying else "")

    async def _stop(self, text: str) -> Done:
        """The panic word costs nothing: it pauses, and asks whether to cancel."""
        word = text if stop_word(text) else STOP
        accepted = await self._control.send(self._thread, word, **self._by())
        if not accepted.target:
            await self.give_up()
            return Done(Act.STOP, "Stopped. Nothing else is at work.")
        await self._mouth.keep()
        self._cancelling = (accepted.target, accepted.position)
        return Done(Act.STOP)  # the thread asks, and we read it out

    async def _go_on(self, run: RunState | None) -> Done:
        if run is not None and run.alive and Cause.USER in run.holds:
            # its model begins that answer anew; what else was put aside goes on
            await self._record(await self._mouth.take_back(partial(_is_thought, run.journal)))
            await self._control.resume(run.journal, **self._by())
        return Done(Act.GO_ON, go_on=True)

    async def _cancel(self, run: str) -> Done:
        self._cancelling = ("", 0)
        accepted = await self._control.cancel(run, **self._by())
        await self.give_up()
        flying = f" Still in flight: {', '.join(accepted.in_flight)}." * bool(accepted.in_flight)
        return Done(Act.YES, f"Cancelling.{flying}")

    async def _redirect(self, run: RunState, text: str, profile: str = "") -> Done:
        """Abort what its model says. It has to be told what was heard: that is on no record yet."""
        words = text + _after(self._mouth.put_by)
        await self._control.redirect(run.journal, words, profile=profile, resume=True, **self._by())
        await self.give_up()
        return Done(Act.STRATEGY if profile else Act.REDIRECT)

    # ── words for the run ────────────────────────────────────────────────────────────────────

    async def _say(self, run: RunState, meant: Meaning, moment: Moment) -> Done:
        answer = await self._answer(run, meant, moment)
        if answer is not None:
            return answer
        if Cause.USER in run.holds:  # they want it to wait, and what is aside, too
            await self._write(meant.said)
            return Done(Act.SAY)
        if any(_is_thought(run.journal, said) for said in self._mouth.put_by):
            try:
                return await self._redirect(run, meant.said)
            except Refused:
                pass  # it has ended meanwhile
        await self._send(meant.said)
        return Done(Act.SAY)

    async def _answer(self, run: RunState, meant: Meaning, moment: Moment) -> Done | None:
        """What came of it as the answer to a question that they had heard; None if it is none."""
        heard = [q.place for q in reversed(moment.asked) if q.journal == run.journal]
        fitting: dict[int, Any] = {}
        for place in dict.fromkeys(heard):
            asked = await self._question(run.journal, place) if place in run.questions else None
            payload = _payload(asked, meant) if asked is not None else None
            if payload is not None:
                fitting[place] = payload
        if not fitting:
            return None
        place = next(iter(fitting))
        doubt = self._doubt(run, meant, list(fitting), last=heard[0])
        if doubt:
            return Done(Act.SAY, doubt, Question(run.journal, place))
        await self._control.answer(run.journal, place, fitting[place], **self._by())
        if Cause.USER not in run.holds:
            await self.give_up()
        return Done(meant.act)

    def _doubt(self, run: RunState, meant: Meaning, places: list[int], last: int) -> str:
        """What to ask where it is not plain which of these questions was meant, the last first."""
        message = run.questions[places[0]].message
        new = [place for place in places if Question(run.journal, place) not in self._known]
        if len(new) > 1:
            return f"{len(new)} questions are open. The last one first: {message}"
        if last not in run.questions:  # what they have heard last is settled
            return f"Still open: {message}"
        verb = doing(meant.said) if meant.act in ANSWERS else ""
        if verb and verb not in plain(message):
            return f"Say “yes” or “no”, please: {message}"
        return ""

    async def _question(self, run: str, place: int) -> QuestionOpened | None:
        for record in await self._control.store.read(run, after=place - 1, limit=1):
            if isinstance(record.event, QuestionOpened):
                return record.event
        return None

    async def _send(self, text: str) -> str:
        """Write it into the thread; gives the run that it has begun."""
        await self.give_up()
        return await self._write(text)

    async def _write(self, text: str) -> str:
        talk = await self._talk()
        key = self._ids()
        if talk is None or (talk.host is None and not talk.front):
            said = [(key, text)]
            turn = await self._control.converse(
                self._agent, self._thread, said, key=key, who=self._who
            )
            return turn.run
        accepted = await self._control.send(self._thread, text, who=self._who, key=key)
        return accepted.target

    async def give_up(self) -> None:
        """What was put aside will not be said; what was heard of it goes on record."""
        await self._record(self._mouth.give_up())

    async def hang_up(self) -> None:
        """Nobody listens any longer. What was not begun stays what it is: words to be read."""
        await self._record(self._mouth.hang_up())

    async def _record(self, cut: Sequence[Utterance]) -> None:
        for said in cut:
            self._show(Saying(said.heard, cut=True))
            if said.run:
                with suppress(NotAllowed):  # who may only look leaves no record of what they heard
                    await self._control.heard(
                        self._thread, said.heard, run=said.run, of=said.of, **self._by()
                    )

    # ── how it stands ────────────────────────────────────────────────────────────────────────

    async def _talk(self) -> ThreadState | None:
        try:
            talk = await self._control.store.load(self._thread)
        except JournalNotFound:
            return None
        return talk if isinstance(talk, ThreadState) else None

    async def _front(self) -> RunState | None:
        talk = await self._talk()
        return await self._control.state(talk.front) if talk is not None and talk.front else None

    def _by(self) -> dict[str, Any]:
        return {"who": self._who, "key": self._ids()}


def _is_thought(run: str, said: Utterance) -> bool:
    """Whether it is what the run's model says at the moment, and on no record yet."""
    return said.run == run and not said.of


def _after(cut: Sequence[Utterance]) -> str:
    """What was heard of words that are not on record, for the model that said them."""
    heard = " ".join(said.heard for said in cut if said.run and not said.of).strip()
    return f"\n\n(Said while you spoke. Of your answer they had heard: “{heard}”)" if heard else ""


def _payload(asked: QuestionOpened, meant: Meaning) -> Any:
    """The answer that words give to a question; None where a form is needed, or other words."""
    schema = msgspec.json.decode(asked.schema)
    kinds = schema if isinstance(schema, dict) else {}
    if meant.act in ANSWERS:
        yes = meant.act is Act.YES
        choices = str(schema)
        if kinds.get("type") == "boolean":
            return yes
        if APPROVE in choices and REJECT in choices:
            return APPROVE if yes else REJECT
    if kinds.get("type") == "string" and "enum" not in kinds:
        return meant.text or None
    return next(
        (v for v in kinds.get("enum", ()) if str(v).casefold() == meant.text.casefold()), None
    )

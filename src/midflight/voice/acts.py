"""What people say, as verbs of ``Control``; the controls act before any model is asked.

What was heard of our own words goes on record with it: before a message that begins the next run,
so that this run knows; after a verb that aborts the model, because only then no more can come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import anyio
import msgspec
from msgspec import Struct

from midflight.control import Control
from midflight.conversation import stop_word
from midflight.errors import JournalNotFound, MidflightError, Refused
from midflight.inputs import Ids
from midflight.kernel.events import QuestionOpened
from midflight.kernel.phases import Cause
from midflight.kernel.record import Who
from midflight.kernel.state import RunState
from midflight.kernel.thread import ThreadState
from midflight.run import Agent
from midflight.voice.lexicon import Act, Meaning, approves, cancels
from midflight.voice.mouth import Mouth, Utterance
from midflight.voice.shown import Saying, Shown

STOP: Final = "stop"
APPROVE, REJECT = "approve", "reject"
WITH_A_PERSON: Final = "A person has this. It goes on when they hand it back."
YES_OR_NO: Final = "It is still paused. Say “yes” to cancel it, or “no” to go on."


class Done(Struct, frozen=True):
    """What came of somebody's words: ``say`` is our answer, ``go_on`` with what was put aside."""

    act: Act
    say: str = ""
    go_on: bool = False
    refused: bool = False


class Moment(Struct, frozen=True):
    """How it stood when somebody began to speak: they have not answered what came since."""

    front: str = ""
    seen: int = 0  # of its journal
    cancelling: str = ""  # the run of which we had asked whether to cancel it


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
        self.cancelling = ""  # see ``Moment``

    async def do(self, meant: Meaning, moment: Moment) -> Done:
        """Do it; what is refused is answered with why, and changes nothing."""
        async with self._one:
            try:
                return await self._do(meant, moment)
            except MidflightError as error:
                return Done(meant.act, str(error), refused=True)

    async def _do(self, meant: Meaning, moment: Moment) -> Done:
        run = await self._front()
        asked = self.cancelling if self.cancelling == moment.cancelling else ""
        self.cancelling = ""
        match meant.act:
            case _ if asked and cancels(meant.said):
                return await self._cancel(asked)
            case Act.PAUSE:
                return await self._pause(run)
            case Act.STOP:
                return await self._stop(meant.said)
            case Act.YES if asked:  # polite, perhaps: a cancel wants more
                self.cancelling = asked
                return Done(Act.SAY, YES_OR_NO)
            case Act.NO if asked:
                return await self._go_on(run)
            case _ if run is None or not run.alive:
                return await self._to_nobody(meant)
            case _ if Cause.HUMAN in run.holds:
                return await self._to_a_person(meant)
            case _ if run.journal != moment.front:  # they spoke to another
                await self._send(meant.said)
                return Done(Act.SAY)
            case _:
                return await self._to_run(run, meant, moment.seen)

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

    async def _to_run(self, run: RunState, meant: Meaning, seen: int) -> Done:
        match meant.act:
            case Act.GO_ON:
                free = Cause.USER not in run.holds
                if free and approves(meant.said) and await self._approved(run, seen):
                    return Done(Act.YES)
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
                return await self._say(run, meant, seen)

    # ── the controls ─────────────────────────────────────────────────────────────────────────

    async def _pause(self, run: RunState | None) -> Done:
        """Hold the work, and our tongue: "go on" brings both back."""
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
        self.cancelling = accepted.target
        return Done(Act.STOP)  # the thread asks, and we read it out

    async def _go_on(self, run: RunState | None) -> Done:
        if run is not None and run.alive and Cause.USER in run.holds:
            await self._control.resume(run.journal, **self._by())
            # its model begins that answer anew; what else was put aside goes on
            await self._record(
                self._mouth.drop(lambda said: not said.of and said.run == run.journal)
            )
        return Done(Act.GO_ON, go_on=True)

    async def _cancel(self, run: str) -> Done:
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

    async def _say(self, run: RunState, meant: Meaning, seen: int) -> Done:
        if await self._answered(run, meant, seen):
            return Done(meant.act)
        if any(not said.of for said in self._mouth.put_by if said.run == run.journal):
            try:
                return await self._redirect(run, meant.said)
            except Refused:
                pass  # it has ended meanwhile
        await self._send(meant.said)
        return Done(Act.SAY)

    async def _answered(self, run: RunState, meant: Meaning, seen: int) -> bool:
        """Whether it was the answer to a question that was open when they spoke, and was given."""
        for place in run.questions:
            asked = await self._question(run.journal, place) if place <= seen else None
            payload = _payload(asked, meant) if asked is not None else None
            if payload is not None:
                await self._control.answer(run.journal, place, payload, **self._by())
                await self.give_up()
                return True
        return False

    async def _approved(self, run: RunState, seen: int) -> bool:
        """The same, of questions that only want a yes."""
        return await self._answered(run, Meaning(Act.YES, "", ""), seen)

    async def _question(self, run: str, place: int) -> QuestionOpened | None:
        for record in await self._control.store.read(run, after=place - 1, limit=1):
            if isinstance(record.event, QuestionOpened):
                return record.event
        return None

    async def _send(self, text: str) -> str:
        """Write it into the thread; gives the run that it has begun."""
        await self.give_up()
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
        await self._record(self._mouth.drop())

    async def hang_up(self) -> None:
        """Nobody listens any longer. What was not begun stays what it is: words to be read."""
        await self._record(self._mouth.hang_up())

    async def _record(self, cut: Sequence[Utterance]) -> None:
        for said in cut:
            self._show(Saying(said.heard, cut=True))
            if said.run:
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


def _after(cut: Sequence[Utterance]) -> str:
    """What was heard of words that are not on record, for the model that said them."""
    heard = " ".join(said.heard for said in cut if said.run and not said.of).strip()
    return f"\n\n(Said while you spoke. Of your answer they had heard: “{heard}”)" if heard else ""


def _payload(asked: QuestionOpened, meant: Meaning) -> Any:
    """The answer that words give to a question; None where a form is needed, or other words."""
    schema = msgspec.json.decode(asked.schema)
    kinds = schema if isinstance(schema, dict) else {}
    if meant.act in {Act.YES, Act.NO}:
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

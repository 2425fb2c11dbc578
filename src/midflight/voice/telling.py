"""What a run says, as it says it: its model's words while they come, and what it puts on record."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from midflight.control import Control
from midflight.conversation import stopped_here, why_stopped
from midflight.errors import JournalNotFound
from midflight.kernel import events as e
from midflight.kernel import thread as t
from midflight.kernel.machine import TRIAGE
from midflight.kernel.phases import Cause, Effect
from midflight.kernel.record import Recorded, Who
from midflight.stores.base import Delta, LiveWatch
from midflight.voice.mouth import Mouth, Utterance
from midflight.voice.shown import Handed, Saying, Shown

CANCEL: Final = "cancel?"
SPOKEN: Final = frozenset({"text", "aside", CANCEL})


class Telling:
    """Follows a thread and the runs that come to its front, and gives the mouth their words."""

    def __init__(
        self,
        control: Control,
        thread: str,
        mouth: Mouth,
        who: Who,
        *,
        begin: Callable[[], None],
        show: Callable[[Shown], None],
    ) -> None:
        self._control, self._thread, self._mouth, self._who = control, thread, mouth, who
        self._begin, self._show = begin, show  # ``begin``: somebody has something to say
        self.front = ""
        self._seen: dict[str, int] = {}  # runs -> how far the person can know of them
        self._runs: set[str] = set()
        self._thinking: dict[tuple[str, str], int] = {}  # steps of models -> their attempt
        self._open: dict[tuple[str, str], Utterance] = {}
        self._last: dict[str, Utterance] = {}  # what each run's model has said last
        self._human = ""  # the run that a person has
        self._news: LiveWatch | None = None

    async def run(self) -> None:
        """Follow for as long as it is not cancelled; what was said before is not said again."""
        talk = await self._talk()
        cursors = {self._thread: talk.head}
        if talk.front:
            state = await self._control.state(talk.front)
            cursors[talk.front] = self._seen[talk.front] = state.head
            self.front = talk.front
            self._runs.add(talk.front)
            if Cause.HUMAN in state.holds:
                self._with_a_person(talk.front, "a person")
            for place, attempt in state.open.items():
                if attempt.effect is Effect.MODEL:
                    self._thinking[talk.front, attempt.step] = place
        async with self._control.watch_live(cursors) as news:
            self._news = news
            async for item in news:
                if isinstance(item, Delta):
                    self._hear(item)
                elif item.journal == self._thread:
                    await self._take_line(item)
                else:
                    self._take_step(item)

    @property
    def seen(self) -> int:
        """How far the run in front is known to who listens."""
        return self._seen.get(self.front, 0)

    async def _talk(self) -> t.ThreadState:
        """The thread as it is; an empty one where nothing was ever said."""
        with suppress(JournalNotFound):
            talk = await self._control.store.load(self._thread)
            if isinstance(talk, t.ThreadState):
                return talk
        return t.ThreadState(self._thread)

    def _hear(self, delta: Delta) -> None:
        """A piece of what a step says; a model's is spoken, a tool's progress is not."""
        place = (delta.journal, delta.step)
        if place not in self._thinking:
            return
        said = self._open.get(place)
        if said is None or len(said.text) > delta.offset + len(delta.text):
            said = self._mouth.say("", run=delta.journal, ended=False)
            self._open[place] = self._last[delta.journal] = said
        self._mouth.add(said, delta.text[len(said.text) - delta.offset :])
        self._begin()

    async def _take_line(self, record: Recorded) -> None:
        event = record.event
        match event:
            case t.FrontChanged():
                self.front = event.run
                if event.run and event.run not in self._runs and self._news is not None:
                    self._runs.add(event.run)
                    self._news.add(event.run, 0)
            case t.Said() if event.kind in SPOKEN and not event.to:
                await self._said(record.position, event)
            case t.MessageSent() if self._human and event.who.by != self._who.by:
                self._say(f"{event.who.by} says: {event.text}")
            case _:
                pass

    async def _said(self, position: int, event: t.Said) -> None:
        """On record now; what of it was spoken already is not spoken twice."""
        said, why = self._last.pop(event.run, None), why_stopped(event.text)
        if said is None or not event.text.startswith(said.text.rstrip()):
            asks = event.kind == CANCEL
            self._mouth.say(event.text, run=event.run, of=position, asks=asks)
        elif why and not said.is_heard:
            said.of = position
            await self._break_off(said, why)
        else:
            said.of = position
            self._mouth.add(said, event.text[len(said.text) :], ended=True)
        self._begin()

    async def _break_off(self, said: Utterance, why: str) -> None:
        """A policy has ended it. Speech is behind the model, and may be in the midst of it."""
        heard = await self._mouth.break_off(said, f"Stopped here: {why}.")
        self._show(Saying(heard, cut=True))
        words = stopped_here(heard, why)
        await self._control.heard(self._thread, words, run=said.run, of=said.of, who=self._who)

    def _say(self, text: str, *, asks: bool = False) -> None:
        self._mouth.say(text, asks=asks)
        self._begin()

    def _with_a_person(self, run: str, name: str) -> None:
        self._human = run
        self._show(Handed(name))

    def _with_the_agent(self, run: str) -> None:
        if self._human == run:
            self._human = ""
            self._show(Handed(""))

    def _take_step(self, record: Recorded) -> None:
        event, run = record.event, record.journal
        self._seen[run] = record.position
        match event:
            case e.AttemptStarted() if event.effect is Effect.MODEL and event.tool != TRIAGE:
                self._thinking[run, event.step] = record.position
                self._open.pop((run, event.step), None)
            case e.AttemptSettled() | e.LateOutcome():
                self._settled(run, event)
            case e.QuestionOpened():
                self._say(event.message, asks=True)
            case e.TakenOver():
                mine = event.who.by == self._who.by
                self._with_a_person(run, "a person" if mine else event.who.by)
                if not mine:
                    self._say(f"{event.who.by} has taken over.")
            case e.HandedBack():
                self._with_the_agent(run)
                note = f": {event.note}" if event.note else "."
                self._say(f"{event.who.by} has handed back{note}")
            case e.RunFinished():
                self._with_the_agent(run)
                if event.outcome == "failed":
                    self._say(f"That has failed: {event.error}")
            case _:
                pass

    def _settled(self, run: str, event: e.AttemptSettled | e.LateOutcome) -> None:
        for place, attempt in list(self._thinking.items()):
            if place[0] == run and attempt == event.attempt:
                del self._thinking[place]
                said = self._open.pop(place, None)
                if said is not None:  # also where it broke off: no more of it will come
                    self._mouth.add(said, "", ended=True)

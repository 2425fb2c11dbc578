"""Follows a thread and its runs, and reads out their words, questions and controls of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from midflight.conversation import stopped_here, why_stopped
from midflight.interfaces.voice.call_record import Caller, Noting
from midflight.interfaces.voice.speech.agenda import Question, Utterance
from midflight.interfaces.voice.speech.mouth import Mouth
from midflight.interfaces.voice.spoken_answers import Asking, spoken
from midflight.interfaces.voice.voice_wire import Handed
from midflight.journal import events as e
from midflight.journal.phases import LIVE, Cause, Effect, Outcome
from midflight.journal.record import Actor, Recorded
from midflight.journal.threads import thread as t
from midflight.journal.transition_table import TRIAGE
from midflight.stores.hints import Delta
from midflight.stores.protocol import LiveWatch, Query

CANCEL: Final = "cancel?"
SPOKEN: Final = frozenset({"text", "aside", CANCEL})


class Reciting:
    """Reads out on one line. ``begin`` is called when there is something to say."""

    def __init__(
        self, thread: str, mouth: Mouth, noting: Noting, begin: Callable[[], None]
    ) -> None:
        self._thread, self._mouth, self._noting, self._begin = thread, mouth, noting, begin
        self._spoken_for: set[str] = set()  # runs whose words are spoken: they were in front
        self._thinking: dict[tuple[str, str], int] = {}  # steps of models -> their attempt
        self._open: dict[tuple[str, str], Utterance] = {}
        self._last: dict[str, Utterance] = {}  # what each run's model has said last
        self._ended: set[str] = set()  # runs that somebody has cancelled or killed

    # ── whose words ──────────────────────────────────────────────────────────────────────────

    def speak_for(self, run: str) -> None:
        """Speak the words of a run's model from now on: the run has come to the front."""
        self._spoken_for.add(run)

    def speaks_for(self, run: str) -> bool:
        """Return whether the words of a run are spoken here."""
        return run in self._spoken_for

    # ── a model's, while they come ───────────────────────────────────────────────────────────

    def think(self, run: str, step: str, attempt: int) -> None:
        """Note that a model is asked, or asked once more: its words begin anew."""
        self._thinking[run, step] = attempt
        self._open.pop((run, step), None)

    def hear(self, delta: Delta) -> None:
        """Speak a piece of a model's words; a tool's progress is not spoken.

        A piece from another process comes by two ways, at once and with the record, and either may
        be behind: words that came already are not new. After a gap the line waits for the record,
        which has all of them.
        """
        place = (delta.journal, delta.step)
        if self._thinking.get(place) != delta.attempt or delta.journal not in self._spoken_for:
            return
        said = self._open.get(place)
        known = len(said.text) if said is not None else 0
        if not delta.offset <= known < delta.offset + len(delta.text):
            return
        if said is None:
            said = self._mouth.say("", run=delta.journal, ended=False)
            self._open[place] = self._last[delta.journal] = said
        self._mouth.add(said, delta.text[known - delta.offset :])
        self._begin()

    async def settle(self, run: str, event: e.AttemptSettled | e.LateOutcome) -> None:
        """End the words of a model whose attempt is over."""
        for place, attempt in list(self._thinking.items()):
            if place[0] == run and attempt == event.attempt:
                del self._thinking[place]
                said = self._open.pop(place, None)
                if said is not None and (event.outcome is Outcome.DONE or said.kept):
                    self._mouth.add(said, "", ended=True)
                elif said is not None:
                    await self._end_here(said)

    async def _end_here(self, said: Utterance) -> None:
        """Drop the words of a model that was stopped or broke off; record only what was heard.

        Words that wait for a person to go on are not dropped: the person may redirect the run, and
        its model has to be told what they had heard.
        """
        for gone in await self._mouth.take_back(lambda one: one is said):
            if gone.heard:
                await self._noting.cut(gone)
        if self._last.get(said.run) is said:
            del self._last[said.run]

    # ── on record ────────────────────────────────────────────────────────────────────────────

    async def take_said(self, position: int, event: t.Said) -> None:
        """Speak words that are on record now, but none that were spoken already.

        An aside, or the question whether to cancel, comes in the midst of an answer, which is still
        to come.
        """
        is_answer, why = event.kind == "text", why_stopped(event.text)
        said = self._last.pop(event.run, None) if is_answer else None
        if said is None or not event.text.startswith(said.text.rstrip()):
            about = Question(self._thread, position) if event.kind == CANCEL else None
            if about is not None or event.run not in self._ended:
                new = self._mouth.say(event.text, run=event.run, of=position, about=about)
                self._noting.follow(new, is_answer=is_answer)
        elif why and not said.is_heard:
            said.of = position
            await self._break_off(said, why)
        else:
            said.of = position
            self._mouth.add(said, event.text[len(said.text) :], ended=True)
            self._noting.follow(said, is_answer=is_answer)
        self._begin()

    async def _break_off(self, said: Utterance, why: str) -> None:
        """Stop speaking words that a policy has ended: speech may be in the midst of them."""
        heard = await self._mouth.break_off(said, f"Stopped here: {why}.")
        await self._noting.cut(said, stopped_here(heard, why))

    # ── no more of them ──────────────────────────────────────────────────────────────────────

    async def silence(self, run: str, which: Callable[[Utterance], bool] = lambda _: True) -> bool:
        """Say no more of a run's words, all or ``which``; return whether there were any."""
        gone = await self._mouth.take_back(lambda said: said.run == run and which(said))
        for said in gone:
            await self._noting.cut(said)
        last = self._last.get(run)
        if last is not None and not last.is_heard:  # should it be said after all, then from anew
            del self._last[run]
        return bool(gone)

    async def begin_anew(self, run: str, *, resumes: bool = True) -> None:
        """Let a run's model begin its words anew; the other words go on where they were."""
        await self.silence(run, lambda said: not said.of)
        if resumes:
            self._mouth.release(run)
            await self._mouth.bring_back()
            self._begin()

    def end(self, run: str) -> None:
        """Note that somebody has ended a run: its model says nothing any more."""
        self._ended.add(run)
        for place in [place for place in self._thinking if place[0] == run]:
            del self._thinking[place]

    def recover(self, run: str) -> None:
        """Note that a run that was ended goes on after all."""
        self._ended.discard(run)


class Telling:
    """Follows a thread and the runs that come to its front, and gives the mouth their words."""

    def __init__(
        self, caller: Caller, mouth: Mouth, noting: Noting, begin: Callable[[], None]
    ) -> None:
        self._caller, self._control, self._thread = caller, caller.control, caller.thread
        self._mouth, self._noting, self._begin = mouth, noting, begin
        self.front = ""
        self._asking = Asking(self._control, mouth, begin)
        self._reciting = Reciting(self._thread, mouth, noting, begin)
        self._runs: set[str] = set()  # that are followed
        self._human = ""  # the run that a person has
        self._news: LiveWatch | None = None

    async def run(self) -> None:
        """Follow for as long as it is not cancelled; what was said before is not said again."""
        talk = await self._caller.talk() or t.ThreadState(self._thread)
        cursors = {self._thread: talk.head}
        self._to_front(talk.front)
        cursors |= await self._others()
        if talk.front:
            cursors[talk.front] = await self._meet(talk.front, cursors)
        self._runs.update(run for run in cursors if run != self._thread)
        await self._asking.ask_again(self.front)
        async with self._control.watch_live(cursors) as news:
            self._news = news
            async for item in news:
                if isinstance(item, Delta):
                    self._reciting.hear(item)
                elif item.journal == self._thread:
                    await self._take_line(item)
                else:
                    await self._take_step(item)

    async def _others(self) -> dict[str, int]:
        """Return the positions of the other living runs of the thread: they may ask something, too.

        A run that came to the front since we looked may be speaking: it is met as well.
        """
        places: dict[str, int] = {}
        query = Query(thread=self._thread, phases=LIVE)
        for row in reversed(await self._control.runs(query)):
            if row.journal != self.front:
                places[row.journal] = await self._meet(row.journal, places)
        return places

    async def _meet(self, run: str, known: dict[str, int]) -> int:
        """Take in what a run that lives already asks and does; return its position."""
        state = await self._control.state(run)
        for place, attempt in state.open.items():
            if attempt.effect is Effect.MODEL:
                self._reciting.think(run, attempt.step, place)
                self._noting.doubt_answer(run)
        for place in state.questions:
            [record] = await self._control.store.read(run, after=place - 1, limit=1)
            assert isinstance(record.event, e.QuestionOpened)
            self._asking.note(Question(run, place), spoken(record.event), record.at)
        for child, outcome in state.children.items():
            if not outcome:  # also one that was begun since we looked who is there
                known.setdefault(child, 0)
        if run == self.front and Cause.HUMAN in state.holds:
            self._with_a_person(run, "a person")
        return state.head

    def _follow(self, run: str) -> None:
        if run not in self._runs and self._news is not None:
            self._runs.add(run)
            self._news.add(run, 0)

    def _to_front(self, run: str) -> None:
        self.front = run
        if run:
            self._reciting.speak_for(run)

    # ── what comes ───────────────────────────────────────────────────────────────────────────

    async def _take_line(self, record: Recorded) -> None:
        event = record.event
        match event:
            case t.FrontChanged():
                self._to_front(event.run)
                if event.run:
                    self._follow(event.run)
            case t.Said() if event.kind in SPOKEN and not event.to:
                await self._reciting.take_said(record.position, event)
            case t.SpeechHeard():
                self._noting.doubt(event)
            case t.MessageSent() if self._human and event.who.by != self._caller.who.by:
                self._say(f"{event.who.by} says: {event.text}")
            case _:
                pass

    async def _take_step(self, record: Recorded) -> None:
        event, run = record.event, record.journal
        match event:
            case e.AttemptStarted() if event.effect is Effect.MODEL and event.tool != TRIAGE:
                self._reciting.think(run, event.step, record.position)
            case e.AttemptSettled() | e.LateOutcome():
                await self._reciting.settle(run, event)
            case e.TextStreamed():
                piece = Delta(run, event.step, event.attempt, event.offset, event.text)
                self._reciting.hear(piece)
            case e.QuestionOpened():
                question = Question(run, record.position)
                await self._asking.ask(question, spoken(event), self.front)
            case e.QuestionAnswered():
                await self._asking.settle(Question(run, event.question))
                await self._asking.ask_again(self.front)
            case e.QuestionClosed():
                await self._asking.settle(Question(run, event.question))
            case e.ChildSpawned():
                self._follow(event.child)
            case _:
                await self._take_control(event, run)

    def _say(self, text: str) -> None:
        self._mouth.say(text)
        self._begin()

    # ── controls from other doors ────────────────────────────────────────────────────────────

    async def _take_control(self, event: object, run: str) -> None:
        """Take a cancel, kill, pause, resume, redirect or change of hands, from any door."""
        match event:
            case e.CancelRequested():
                await self._over(run, self._by(event.who, "cancelled"), event.key)
            case e.Killed():
                await self._over(run, self._by(event.who, "stopped"), event.key)
            case _ if not self._reciting.speaks_for(run):
                pass  # it has said nothing here, and others tell how it ended
            case e.PauseRequested():
                await self._mouth.keep(run)
            case e.ResumeRequested():
                await self._reciting.begin_anew(run)
            case e.RedirectRequested() if not self._caller.has_asked(event.key):  # ours gives it up
                await self._reciting.begin_anew(run, resumes=event.resume)
            case _:
                self._take_turn(event, run)

    async def _over(self, run: str, told: str, key: str) -> None:
        """Silence a run that somebody has ended, and say that it has ended unless we ended it."""
        self._reciting.end(run)
        await self._asking.settle_all(run)
        was_speaking = await self._reciting.silence(run)
        if self._caller.has_asked(key):
            return  # our own acts tell it
        if was_speaking or run == self.front:
            self._say(told)

    def _by(self, who: Actor, what: str) -> str:
        return f"It was {what}." if who.by == self._caller.who.by else f"{who.by} has {what} it."

    def _take_turn(self, event: object, run: str) -> None:
        """Tell the listener of a takeover, a hand-back and a failure; note a recovery."""
        match event:
            case e.TakenOver():
                mine = event.who.by == self._caller.who.by
                self._with_a_person(run, "a person" if mine else event.who.by)
                if not mine:
                    self._say(f"{event.who.by} has taken over.")
            case e.HandedBack():
                self._with_the_agent(run)
                note = f": {event.note}" if event.note else "."
                self._say(f"{event.who.by} has handed back{note}")
            case e.Recovered():
                self._reciting.recover(run)
            case e.RunFinished():
                self._with_the_agent(run)
                if event.outcome == "failed":
                    self._say(f"That has failed: {event.error}")
            case _:
                pass

    def _with_a_person(self, run: str, name: str) -> None:
        self._human = run
        self._caller.show(Handed(name))

    def _with_the_agent(self, run: str) -> None:
        if self._human == run:
            self._human = ""
            self._caller.show(Handed(""))

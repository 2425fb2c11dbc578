"""Reads out the words of runs: a model's while they come, others from the record; nothing twice.

A model is heard before its answer is on record, and may be stopped before it ever is. So its words
are kept apart from those that have a place in the thread, until they have theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from midflight.conversation import stopped_here, why_stopped
from midflight.kernel import events as e
from midflight.kernel import thread as t
from midflight.kernel.phases import Outcome
from midflight.stores.protocol import Delta
from midflight.voice.mouth import Mouth
from midflight.voice.noting import Noting
from midflight.voice.utterance import Question, Utterance

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

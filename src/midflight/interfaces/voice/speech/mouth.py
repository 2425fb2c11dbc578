"""Speaks: texts become speech, speech is played, and it is known to the sample what was heard.

Speech that is interrupted is not forgotten but put aside, with the sample at which it was. It goes
on from there, or is given up when the person has said something else instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio

from midflight.interfaces.voice.speech.agenda import Agenda, Clause, Question, Utterance
from midflight.interfaces.voice.speech.playback import Loudspeaker, Making, Playing
from midflight.interfaces.voice.speech.speech_engines import Sink, SpeechFailed, Synthesiser

PATIENCE_S: Final = 0.5  # between looks at how much was played, where nobody tells


class Mouth:
    """One line's. ``failed`` is told of a text that could not be spoken, to show it instead.

    ``may`` says whether it is our turn: what is to be said meanwhile waits, made or not.
    """

    def __init__(
        self,
        sink: Sink,
        synthesiser: Synthesiser,
        failed: Callable[[str, SpeechFailed], None],
        may: Callable[[], bool] = lambda: True,
    ) -> None:
        self.agenda = Agenda()
        self._making = Making(synthesiser, self.stir)
        self._sink = Loudspeaker(sink)
        self._playing = Playing(self._sink)
        self._failed, self._may = failed, may
        self._stir = anyio.Event()
        self._silent = False

    # ── what is to be said ───────────────────────────────────────────────────────────────────

    def say(
        self,
        text: str,
        *,
        run: str = "",
        of: int = 0,
        ended: bool = True,
        fleeting: bool = False,
        about: Question | None = None,
    ) -> Utterance:
        """Say this after what is waiting; words of a run also after what is put aside."""
        said = Utterance(run, text, of, ended, fleeting, about)
        self.agenda.add(said)
        self.stir()
        return said

    def add(self, said: Utterance, text: str, *, ended: bool = False) -> None:
        """More of it, or its end."""
        said.text += text
        said.ended = said.ended or ended
        self.stir()

    def stir(self) -> None:
        """Something has changed: text came, or samples were played."""
        self._note_played()
        self.agenda.drop_heard()
        if self._making.is_busy:
            self._making.drop_all_but(self.agenda.unsaid_clauses())
        self._stir.set()
        self._stir = anyio.Event()

    # ── how it stands ────────────────────────────────────────────────────────────────────────

    @property
    def is_busy(self) -> bool:
        """True if something is being said, or is to be said."""
        return self.agenda.is_busy

    @property
    def is_making(self) -> bool:
        """True if speech is being made that is not there yet."""
        return self._making.is_busy

    @property
    def played(self) -> int:
        """Samples that were played in all."""
        return self._sink.played

    # ── stopping and going on ────────────────────────────────────────────────────────────────

    async def hold(self) -> None:
        """Be silent at once; nothing is forgotten."""
        self._silent = True
        await self._sink.hold()
        self._note_played()

    async def go_on(self) -> None:
        """Go on at the very next sample, with what was put aside if there is something."""
        await self.bring_back()
        self._silent = False
        await self._sink.go_on()
        self.stir()

    async def bring_back(self, *, behind: Utterance | None = None) -> None:
        """Say next what was put aside, except for what is kept. A silent mouth stays silent.

        ``behind`` is said before it, if it is being said now.
        """
        if self.agenda.comes_back:
            await self._forget()
            self.agenda.bring_back(behind)  # some may be gone by now

    async def put_aside(self) -> None:
        """Keep what was being said for later, and be free to say something else."""
        await self._forget()
        self.agenda.put_aside()
        self._silent = False
        await self._sink.go_on()
        self.stir()

    async def keep(self, run: str = "") -> None:
        """It waits until ``release``: what is aside, or what a run says that is held."""
        if self.agenda.has_now(run):
            await self._forget()
            self.agenda.hold_back(run)  # with what came meanwhile
        self.agenda.keep(run)
        self.stir()

    def release(self, run: str = "") -> None:
        """The listener, or also a run, goes on: what was kept is brought back with the rest."""
        self.agenda.release(run)

    async def break_off(self, said: Utterance, then: str) -> str:
        """No more of it is played, not to the end of a word; ``then`` is said in its place.

        Gives what was heard of it.
        """
        if self.agenda.is_now(said):
            await self._forget()
        heard = said.break_off(then)
        self.stir()
        return heard

    async def take_back(self, which: Callable[[Utterance], bool]) -> list[Utterance]:
        """No more of these is played, not to the end of a word: all not heard to their end."""
        gone = self.agenda.chosen(which)
        if any(map(self.agenda.is_now, gone)):
            await self._forget()
        self.agenda.take_back(gone)
        self.stir()
        return [said for said in gone if not said.is_heard]

    def give_up(self) -> list[Utterance]:
        """Give up what was put aside, and return the part that was not heard to its end.

        Utterances that came since are said now, and so are questions of which nobody has heard
        anything.
        """
        gone = self.agenda.give_up()
        self.stir()
        return [said for said in gone if not said.is_heard]

    def hang_up(self) -> list[Utterance]:
        """Nobody listens any longer: all that was begun and not heard to its end."""
        self._note_played()
        return self.agenda.hang_up()

    async def watch(self) -> None:
        """A frame's time has passed while it is our turn: words that are not played are shown."""
        if self._silent or not self._sink.is_stalled():
            return
        waiting = self._playing.waiting
        await self._forget()
        for clause in waiting:
            self._fail(clause, SpeechFailed("the loudspeaker", "plays nothing"))
        self.stir()

    async def _forget(self) -> None:
        """Stop the sink before the agenda changes: only then is it known how much was heard."""
        await self._playing.forget()
        self.agenda.note_begun()

    def _note_played(self) -> None:
        self._playing.note(self._sink.played)
        self.agenda.note_begun()

    # ── speaking ─────────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Speak for as long as it is not cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                clause = self.agenda.next_clause()
                stirred = self._stir
                if clause is None or not self._may_speak():
                    await _a_while(stirred)
                    self.stir()
                    continue
                self._making.begin(clause, tasks)
                if clause.given < clause.samples:
                    await self._give(clause, self._playing.epoch)
                elif clause.broken is not None:
                    self._fail(clause, clause.broken)
                    self.stir()
                elif not clause.made:
                    await _a_while(stirred)

    def _may_speak(self) -> bool:
        # layer stopped-not-given-to-page
        return not self._silent and not self._playing.is_cutting and self._may()

    async def _give(self, clause: Clause, epoch: int) -> None:
        """Give the sink what it has room for, again and again, until it has all that is made."""
        while clause.given < clause.samples and epoch == self._playing.epoch and not clause.failed:
            stirred = self._stir
            room = self._playing.room
            if room <= 0 or not self._may_speak():
                await _a_while(stirred)
                continue
            try:
                await self._playing.give(clause, room)
            except SpeechFailed as error:
                self._fail(clause, error)
        self.stir()

    def _fail(self, clause: Clause, error: SpeechFailed) -> None:
        if not clause.failed:
            clause.failed = True
            self._failed(clause.text, error)


async def _a_while(stirred: anyio.Event) -> None:
    with anyio.move_on_after(PATIENCE_S):
        await stirred.wait()

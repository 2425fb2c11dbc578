"""Speaks: texts become speech, speech is played, and it is known to the sample what was heard.

Speech that is interrupted is not forgotten but put aside, with the sample at which it was. It goes
on from there, or is given up when the person has said something else instead. What runs say
meanwhile waits behind it; only questions and our own words do not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

import anyio

from midflight.voice.loudspeaker import Loudspeaker
from midflight.voice.making import Making
from midflight.voice.played import clauses
from midflight.voice.seams import RATE, WIDTH, Sink, SpeechFailed, Synthesiser
from midflight.voice.utterance import Clause, Question, Utterance

AHEAD: Final = int(1.5 * RATE)  # samples that wait in the sink; more would only be thrown away
PATIENCE_S: Final = 0.5  # between looks at how much was played, where nobody tells

ASKED: Final = 64  # questions that are remembered; nobody answers one that is older
FOR_RUN: Final = "its run is held"
FOR_LISTENER: Final = "the listener wants it to wait"


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
        self._sink = Loudspeaker(sink)
        self._making = Making(synthesiser, self.stir)
        self._failed, self._may = failed, may
        self._queue: deque[Utterance] = deque()
        self._aside: deque[Utterance] = deque()  # put aside where they were
        self._asked: deque[Utterance] = deque(maxlen=ASKED)  # questions that have begun
        self._begun: Utterance | None = None  # what has begun last, of all that is of use later
        self._segments: deque[tuple[int, Clause, int, int]] = deque()  # in the sink, not played
        self._given = 0  # samples that the sink has got in all, without what it was made to forget
        self._stir = anyio.Event()
        self._epoch = 0  # grows when the sink is cut: who gives it speech looks again
        self._cutting = 0  # those who wait until it is; two can at once, from two doors
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
        before = self._aside_before(run) if run and about is None else None
        if before is not None:
            said.late, said.kept = True, before.kept
            self._aside.append(said)
        else:
            self._queue.append(said)
        self.stir()
        return said

    def _aside_before(self, run: str) -> Utterance | None:
        """What is aside and to be said before new words of a run; others are not held with it."""
        aside = reversed(self._aside)
        return next((said for said in aside if said.kept != FOR_RUN or said.run == run), None)

    def add(self, said: Utterance, text: str, *, ended: bool = False) -> None:
        """More of it, or its end."""
        said.text += text
        said.ended = said.ended or ended
        self.stir()

    @property
    def is_busy(self) -> bool:
        """Whether there is something to be said, or being said."""
        return any(True for _ in self._unheard())

    @property
    def played(self) -> int:
        """Samples that were played in all."""
        return self._sink.played

    @property
    def is_making(self) -> bool:
        """Whether speech is being made that is not there yet."""
        return self._making.is_busy

    @property
    def can_go_on(self) -> bool:
        """Whether something was put aside."""
        return bool(self._aside)

    def _unheard(self) -> Iterator[Utterance]:
        return (said for said in self._queue if not said.is_heard)

    def stir(self) -> None:
        """Something has changed: text came, or samples were played."""
        self._note_played()
        while self._queue and self._queue[0].is_heard:
            self._queue.popleft()
        if self._making.is_busy:
            self._making.drop_all_but(self._to_be_said())
        self._stir.set()
        self._stir = anyio.Event()

    def _to_be_said(self) -> set[Clause]:
        """Now or later, and not shown instead."""
        every = (clause for said in (*self._queue, *self._aside) for clause in said.clauses)
        return {clause for clause in every if not clause.failed}

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
        """What was put aside is said next, but for what is kept; it stays silent if it is.

        Next, or right behind something that is said now.
        """
        if any(not said.kept for said in self._aside):
            await self._forget_in_sink()
            back = [said for said in self._aside if not said.kept]  # some may be gone by now
            later = [said for said in self._queue if not said.fleeting]
            before = [said for said in later if said is behind]
            self._queue = deque([*before, *back, *(said for said in later if said is not behind)])
            for said in back:
                said.late = False
            self._aside = deque(said for said in self._aside if said.kept)

    async def put_aside(self) -> None:
        """Keep what was being said for later, and be free to say something else."""
        await self._forget_in_sink()
        kept = [said for said in self._queue if not (said.fleeting or said.is_heard)]
        self._aside.extend(kept)
        self._queue.clear()
        self._silent = False
        await self._sink.go_on()
        self.stir()

    async def keep(self, run: str = "") -> None:
        """It waits until ``release``: what is aside, or what a run says that is held."""

        def is_said_by_run(said: Utterance) -> bool:
            return bool(run) and said.run == run and not said.about

        if any(map(is_said_by_run, self._queue)):
            await self._forget_in_sink()
            said_by_run = list(filter(is_said_by_run, self._queue))  # with what came meanwhile
            self._queue = deque(said for said in self._queue if said not in said_by_run)
            self._aside.extend(said for said in said_by_run if not said.is_heard)
        for said in self._aside:
            if not run:
                said.kept = FOR_LISTENER
            elif said.run == run:
                said.kept = said.kept or FOR_RUN
        self.stir()

    def release(self, run: str = "") -> None:
        """The listener, or also a run, goes on: what was kept is brought back with the rest."""
        for said in self._aside:
            if said.kept == FOR_LISTENER or said.run == run:
                said.kept = ""

    async def break_off(self, said: Utterance, then: str) -> str:
        """No more of it is played, not to the end of a word; ``then`` is said in its place.

        Gives what was heard of it.
        """
        if said in self._queue:
            await self._forget_in_sink()
        heard = said.heard
        spoken = f"{heard} " * bool(heard)
        said.clauses = [Clause(spoken, made=True)] if heard else []
        said.text, said.taken, said.ended = spoken + then, len(spoken), True
        self.stir()
        return heard

    async def take_back(self, which: Callable[[Utterance], bool]) -> list[Utterance]:
        """No more of these is played, not to the end of a word: all not heard to their end."""
        gone = [said for said in (*self._aside, *self._queue) if which(said)]
        if any(said in self._queue for said in gone):
            await self._forget_in_sink()
        self._aside = deque(said for said in self._aside if said not in gone)
        self._queue = deque(said for said in self._queue if said not in gone)
        self.stir()
        return [said for said in gone if not said.is_heard]

    def give_up(self) -> list[Utterance]:
        """What was put aside will not be said: all of it that was not heard to its end.

        What came since is said now, and so are questions of which nobody has heard anything.
        """
        stays = [said for said in self._aside if said.outlasts]
        gone = [said for said in self._aside if said not in stays]
        self._aside.clear()
        for said in stays:
            said.late, said.kept = False, ""
            if said.about:
                said.begin_anew()
        self._queue.extend(stays)
        self.stir()
        return [said for said in gone if not said.is_heard]

    def hang_up(self) -> list[Utterance]:
        """Nobody listens any longer: all that was begun and not heard to its end."""
        self._note_played()
        begun = [*self._aside, *self._queue]
        self._queue.clear()
        self._aside.clear()
        return [said for said in begun if said.heard and not said.is_heard]

    async def watch(self) -> None:
        """A frame's time has passed while it is our turn: words that are not played are shown."""
        if self._silent or not self._sink.is_stalled():
            return
        waiting = [clause for _, clause, _, _ in self._segments]
        await self._forget_in_sink()
        for clause in dict.fromkeys(waiting):
            self._fail(clause, SpeechFailed("the loudspeaker", "plays nothing"))
        self.stir()

    @property
    def is_asking(self) -> bool:
        """Whether a question is being said, or was when we asked them to say it again."""
        waiting = (said for said in (*self._queue, *self._aside) if not said.is_heard)
        return any(said.about for said in islice((x for x in waiting if not x.fleeting), 1))

    @property
    def asked(self) -> tuple[Utterance, ...]:
        """The questions of which something was heard, in the order in which they began."""
        return tuple(self._asked)

    @property
    def last_heard(self) -> Utterance | None:
        """What was begun last, a question or not; our asking to say it again is neither."""
        return self._begun

    def will_ask(self, question: Question) -> bool:
        """Whether it waits to be asked."""
        waiting = (*self._aside, *self._queue)
        return any(said.about == question and not said.is_begun for said in waiting)

    @property
    def put_by(self) -> list[Utterance]:
        """What is put aside."""
        return list(self._aside)

    async def _forget_in_sink(self) -> None:
        """It plays no more of it; until it has said how much it had played, it gets nothing new.

        What it got meanwhile it would play, and what is to be said is only known afterwards.
        """
        self._epoch += 1
        self._cutting += 1
        try:
            played = await self._sink.cut()
        finally:
            self._cutting -= 1
            self._epoch += 1
        self._note_played(played)
        self._given = played
        for _, clause, _, _ in self._segments:
            clause.given = clause.played
        self._segments.clear()

    def _note_played(self, played: int | None = None) -> None:
        played = self._sink.played if played is None else played
        while self._segments:
            start, clause, offset, count = self._segments[0]
            done = min(max(played - start, 0), count)
            clause.played = max(clause.played, offset + done)
            if done < count:
                break
            self._segments.popleft()
        for said in self._queue:
            if said.is_begun and said.text and not said.fleeting:
                self._begun = said
                if said.about and said not in self._asked:
                    self._asked.append(said)

    # ── speaking ─────────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Speak for as long as it is not cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                clause = self._next()
                stirred = self._stir
                if clause is None or not self._may_speak():
                    await _a_while(stirred)
                    self.stir()
                    continue
                self._making.begin(clause, tasks)
                if clause.given < clause.samples:
                    await self._give(clause, self._epoch)
                elif clause.broken is not None:
                    self._fail(clause, clause.broken)
                    self.stir()
                elif not clause.made:
                    await _a_while(stirred)

    def _may_speak(self) -> bool:
        return not self._silent and not self._cutting and self._may()

    def _next(self) -> Clause | None:
        """The first clause of which the sink has not got all."""
        for said in self._queue:
            for clause in said.clauses:
                if not clause.failed and not (clause.made and clause.given >= clause.samples):
                    return clause
            ready, _ = clauses(said.text[said.taken :], whole=said.ended)
            if ready:
                said.taken += len(ready[0])
                said.clauses.append(Clause(ready[0]))
                return said.clauses[-1]
            if not said.ended:
                return None  # what comes after it waits
        return None

    def _fail(self, clause: Clause, error: SpeechFailed) -> None:
        if not clause.failed:
            clause.failed = True
            self._failed(clause.text, error)

    async def _give(self, clause: Clause, epoch: int) -> None:
        """Give the sink what it has room for, again and again, until it has all that is made."""
        while clause.given < clause.samples and epoch == self._epoch and not clause.failed:
            stirred = self._stir
            room = AHEAD - (self._given - self._sink.played)
            if room <= 0 or not self._may_speak():
                await _a_while(stirred)
                continue
            count = min(room, clause.samples - clause.given)
            start = clause.given * WIDTH
            self._segments.append((self._given, clause, clause.given, count))
            clause.given += count
            self._given += count
            try:
                await self._sink.play(bytes(clause.pcm[start : start + count * WIDTH]))
            except SpeechFailed as error:
                self._take_back(clause, count)
                self._fail(clause, error)
        self.stir()

    def _take_back(self, clause: Clause, count: int) -> None:
        """The sink has not got the last piece."""
        if self._segments:  # unless all was forgotten meanwhile
            self._segments.pop()
            self._given -= count
            clause.given -= count


async def _a_while(stirred: anyio.Event) -> None:
    with anyio.move_on_after(PATIENCE_S):
        await stirred.wait()

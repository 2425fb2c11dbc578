"""The record of a call: a person's words and what they heard in the thread, figures in the audit.

Several people may listen to the same words, and the thread keeps the most that any of them has
heard. Words count as heard to their end if nobody says otherwise. So the line of a person who hangs
up says otherwise, and then a line that has heard them to their end says so.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import Struct

from midflight.agents import Agent
from midflight.control import Control
from midflight.control.verbs import By
from midflight.errors import MidflightError, NotAllowed
from midflight.inputs import Ids, new_id
from midflight.interfaces.voice.lexicon import Act
from midflight.interfaces.voice.speech.agenda import Question, Utterance
from midflight.interfaces.voice.speech.mouth import Mouth
from midflight.interfaces.voice.speech.speech_engines import FRAME_MS, RATE
from midflight.interfaces.voice.voice_wire import Saying, Shown, Trouble
from midflight.journal.record import Actor
from midflight.journal.threads.thread import HUNG_UP, WHOLE, SpeechHeard, ThreadState
from midflight.stores.lookup import thread_if_any

log: Final = logging.getLogger("midflight.interfaces.voice")
audit: Final = logging.getLogger("midflight.audit")
NOT_NOTED: Final = "I could not write down how much of the agent's words you have heard."
REMEMBERED: Final = 64  # words of runs, and requests; nothing is said about older ones


class Caller:
    """The person on a line, the thread that they talk to, and their screen.

    It knows the requests of its line, because a person may have several lines.
    """

    def __init__(
        self,
        control: Control,
        thread: str,
        who: Actor,
        show: Callable[[Shown], None],
        ids: Ids = new_id,
    ) -> None:
        self.control, self.thread, self.who, self.show = control, thread, who, show
        self._ids, self._given = ids, deque[str](maxlen=REMEMBERED)

    def by(self) -> By:
        """Return the person and a new key, for a request."""
        self._given.append(self._ids())
        return {"who": self.who, "key": self._given[-1]}

    def has_asked(self, key: str) -> bool:
        """Return whether a request came from this line."""
        return key in self._given

    async def talk(self) -> ThreadState | None:
        """Return the thread as it is; None where nothing was ever said."""
        return await thread_if_any(self.control.store, self.thread)


# ── the audit ────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Account:
    """The account of one call."""

    who: Actor
    thread: str
    line_ms: int = 0
    speech_ms: int = 0  # of the person
    acts: int = 0
    asked_again: int = 0

    def note_frame(self, *, speech: bool) -> None:
        """Count a frame that was heard."""
        self.line_ms += FRAME_MS
        self.speech_ms += FRAME_MS * speech

    def note_act(self, act: str, *, refused: bool) -> None:
        """Write a line about an act on somebody's words, done or ``refused``."""
        self.acts += 1
        audit.info(
            "Control", extra={"action": "control", "act": act, "refused": refused} | self._by
        )

    def close(self, played: int) -> None:
        """Write the line of a call that is over; so many samples of ours were played in it."""
        figures = {
            "line_s": self.line_ms / 1000,
            "speech_s": self.speech_ms / 1000,
            "spoken_s": round(played / RATE, 3),
            "acts": self.acts,
            "asked_again": self.asked_again,
        }
        audit.info("Call ended", extra={"action": "call"} | self._by | figures)

    @property
    def _by(self) -> dict[str, object]:
        who = self.who
        by = {"by": who.by, "role": str(who.role), "channel": who.channel}
        return by | {"target": {"thread": self.thread}}


# ── the words of runs ────────────────────────────────────────────────────────────────────────────


class Noting:
    """The words of runs that a line has heard, and how much of them."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._spoken: dict[int, Utterance] = {}  # by place: what is being said
        self._whole: dict[int, Utterance] = {}  # and what was heard to its end, without its sound
        self._doubted: set[int] = set()  # of these, what others have not heard to its end
        self._doubted_runs: set[str] = set()  # runs whose answer others may have left early

    # ── words heard to their end ─────────────────────────────────────────────────────────────

    def follow(self, said: Utterance, *, is_answer: bool) -> None:
        """Follow words that are in the thread now; an aside is not the answer that others left."""
        self._spoken[said.of] = said
        _forget_oldest(self._spoken)
        if is_answer and said.run in self._doubted_runs:
            self._doubted_runs.discard(said.run)
            self._doubted.add(said.of)

    def doubt(self, heard: SpeechHeard) -> None:
        """Note that somebody has not heard words to their end; if we have, we say so."""
        if self._caller.has_asked(heard.key) or heard.how == WHOLE:
            return
        if heard.of:
            self._doubted.add(heard.of)
        elif heard.how == HUNG_UP:
            self.doubt_answer(heard.run)

    def doubt_answer(self, run: str) -> None:
        """Note the same of an answer that a model still gives: earlier listeners may have left."""
        self._doubted_runs.add(run)

    def due(self) -> list[Utterance]:
        """Return the words that are to be recorded as heard to their end, each of them once."""
        for place, said in [one for one in self._spoken.items() if one[1].is_heard]:
            del self._spoken[place]
            self._whole[place] = Utterance(said.run, said.text, said.of)
            _forget_oldest(self._whole)
        found = [place for place in self._doubted if place in self._whole]
        self._doubted &= self._spoken.keys()
        return [self._whole[place] for place in found]

    async def whole(self, said: Utterance) -> None:
        """Record that words were heard to their end, which somebody else has not heard."""
        await self._write(said, said.text, WHOLE)

    # ── words cut short ──────────────────────────────────────────────────────────────────────

    async def cut(self, said: Utterance, words: str = "", *, hung_up: bool = False) -> None:
        """Record that no more of it is said; ``words``, if given, stand for what was heard.

        A listener who hangs up stops no model: its words come on record later, and in full.
        """
        self._spoken.pop(said.of, None)
        self._caller.show(Saying(said.heard, cut=True))
        if said.run:
            how = HUNG_UP if hung_up and not said.of else ""
            await self._write(said, words or said.heard, how)

    def goes_on(self, said: Utterance) -> None:
        """Follow words of which more is said after all, so that hearing their end is recorded."""
        if said.run and said.of:
            self._spoken[said.of] = said
            self._doubted.add(said.of)

    async def _write(self, said: Utterance, words: str, how: str) -> None:
        caller = self._caller
        try:
            await caller.control.heard(
                caller.thread, words, run=said.run, of=said.of, how=how, **caller.by()
            )
        except NotAllowed:
            pass  # a person who may only look leaves no record of what they heard
        except MidflightError as error:  # the call goes on without this record
            about = {"action": "heard_failed"}
            told = "How much a person has heard in thread %s could not be recorded"
            log.exception(told, caller.thread, extra=about)
            caller.show(Trouble(f"{NOT_NOTED} {error}", words))


def _forget_oldest(kept: dict[int, Utterance]) -> None:
    if len(kept) > REMEMBERED:
        del kept[next(iter(kept))]


class Moment(Struct, frozen=True):
    """The state when somebody began to speak: they answer nothing that they had not heard."""

    front: str = ""
    asked: tuple[Utterance, ...] = ()  # questions of which they had heard something, in that order
    last: Utterance | None = None  # what they had heard last, a question or not
    aimed: bool = False  # they held a key to talk: it is for us
    whole: bool = True  # else the line has ended, or stood still, in the midst of what they said

    @property
    def awaited(self) -> bool:
        """True if the words are for us, or nobody can be asked whether they are."""
        answers = self.last is not None and self.last.about is not None
        return answers or self.aimed or not self.whole  # layer remark-in-line-stands-still


class Done(Struct, frozen=True):
    """The outcome of somebody's words: our answer, and whether words put aside ``go_on``."""

    act: Act
    say: str = ""
    about: Question | None = None  # which ``say`` asks once more
    go_on: bool = False
    refused: bool = False


KEPT: Final = "your message is kept"  # where nothing says why nothing was begun


class Sending:
    """Writes what the person on a line says into the thread."""

    def __init__(self, caller: Caller, agent: Agent, mouth: Mouth, noting: Noting) -> None:
        self._caller, self._agent = caller, agent
        self._mouth, self._noting = mouth, noting

    async def send(self, text: str) -> tuple[str, str]:
        """Write it into the thread; gives the run that it has begun, or why it has not.

        What was heard is on record before it. If it cannot be written, what was said goes on.
        """
        cut = [said for said in self._mouth.agenda.aside if not (said.is_heard or said.outlasts)]
        await self._record(cut)
        try:
            begun = await self.write(text)
        except Exception:
            for said in cut:
                self._noting.goes_on(said)
            raise
        await self._record([said for said in self._mouth.give_up() if said not in cut])
        return begun

    async def write(self, text: str) -> tuple[str, str]:
        """The same, while what was put aside stays there."""
        caller = self._caller
        talk, by = await caller.talk(), caller.by()
        if talk is None or (talk.host is None and not talk.front):
            said = [(by["key"], text)]
            turn = await caller.control.converse(self._agent, caller.thread, said, **by)
            return turn.run, ""
        accepted = await caller.control.send(caller.thread, text, **by)
        return accepted.target, accepted.kept

    # ── what was heard ───────────────────────────────────────────────────────────────────────

    def heard_of_thought(self) -> str:
        """Return a note for the model: the words that were heard of an answer not yet on record."""
        thought = (said for said in self._mouth.agenda.aside if said.run and not said.of)
        heard = " ".join(said.heard for said in thought).strip()
        told = f"\n\n(Said while you spoke. Of your answer they had heard: “{heard}”)"
        return told if heard else ""

    def is_thinking_aloud(self, run: str) -> bool:
        """Return whether words that the run's model says at the moment were put aside."""
        return any(_is_thought(run, said) for said in self._mouth.agenda.aside)

    async def take_thought_back(self, run: str) -> None:
        """Its model begins that answer anew; what else was put aside goes on."""
        await self._record(await self._mouth.take_back(lambda said: _is_thought(run, said)))

    async def give_up(self) -> None:
        """Give up what was put aside, and record the part of it that was heard."""
        await self._record(self._mouth.give_up())

    async def hang_up(self) -> None:
        """Nobody listens any longer. What was not begun stays what it is: words to be read."""
        for said in self._mouth.hang_up():
            await self._noting.cut(said, hung_up=True)

    async def _record(self, cut: Sequence[Utterance]) -> None:
        for said in cut:
            await self._noting.cut(said)


def kept_because(kept: str) -> str:
    """Return why nothing was begun, as it is said."""
    why = kept or KEPT
    return f"{why[0].upper()}{why[1:]}."


def _is_thought(run: str, said: Utterance) -> bool:
    """Return whether the run's model is saying it at the moment: it is not on record yet."""
    return said.run == run and not said.of

"""Words of a person, written into the thread with what they had heard of us by then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from midflight.agents import Agent
from midflight.control import Control
from midflight.inputs import Ids
from midflight.interfaces.voice.speech.mouth import Mouth
from midflight.interfaces.voice.speech.utterance import Question, Utterance
from midflight.interfaces.voice.talk.heard_words import Noting
from midflight.interfaces.voice.understanding.lexicon import Act
from midflight.journal.record import Actor
from midflight.stores.lookup import thread_if_any


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
        return answers or self.aimed or not self.whole


class Done(Struct, frozen=True):
    """The outcome of somebody's words: our answer, and whether words put aside ``go_on``."""

    act: Act
    say: str = ""
    about: Question | None = None  # which ``say`` asks once more
    go_on: bool = False
    refused: bool = False


KEPT: Final = "your message is kept"  # where nothing says why nothing was begun


class Sending:
    """One line's."""

    def __init__(
        self,
        control: Control,
        agent: Agent,
        thread: str,
        who: Actor,
        *,
        ids: Ids,
        mouth: Mouth,
        noting: Noting,
    ) -> None:
        self._control, self._agent, self._thread = control, agent, thread
        self._who, self._ids, self._mouth, self._noting = who, ids, mouth, noting

    async def send(self, text: str) -> tuple[str, str]:
        """Write it into the thread; gives the run that it has begun, or why it has not.

        What was heard is on record before it. If it cannot be written, what was said goes on.
        """
        cut = [said for said in self._mouth.put_by if not (said.is_heard or said.outlasts)]
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
        talk = await thread_if_any(self._control.store, self._thread)
        key = self._ids()
        if talk is None or (talk.host is None and not talk.front):
            said = [(key, text)]
            turn = await self._control.converse(
                self._agent, self._thread, said, key=key, who=self._who
            )
            return turn.run, ""
        accepted = await self._control.send(self._thread, text, who=self._who, key=key)
        return accepted.target, accepted.kept

    # ── what was heard ───────────────────────────────────────────────────────────────────────

    def heard_of_thought(self) -> str:
        """Return a note for the model: the words that were heard of an answer not yet on record."""
        thought = (said for said in self._mouth.put_by if said.run and not said.of)
        heard = " ".join(said.heard for said in thought).strip()
        told = f"\n\n(Said while you spoke. Of your answer they had heard: “{heard}”)"
        return told if heard else ""

    def is_thinking_aloud(self, run: str) -> bool:
        """Return whether words that the run's model says at the moment were put aside."""
        return any(_is_thought(run, said) for said in self._mouth.put_by)

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

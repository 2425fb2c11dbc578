"""What steps say is heard on other machines too, as long as somebody there listens.

A process in which somebody watches a run *with its text* says so; the one that drives the run then
passes on what its steps say, and nobody else does. None of it is kept: the journal has it a moment
later, and whoever misses a piece asks for the whole of it again.

Words travel as NOTIFY, behind the news of the same moment on the same connection: so nobody hears a
step speak before knowing that it has begun.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from time import monotonic
from typing import Final

import msgspec
from msgspec import Struct

from midflight.inputs import Ids
from midflight.stores.hub import Hub
from midflight.stores.voices import Voice

PIECE: Final = 1000  # characters, at up to six bytes each
LETTER_MAX: Final = 7_900  # bytes: NOTIFY takes 8,000, and what is too long is read later
HALVES: Final = re.compile("[\\ud800-\\udfff]")  # of a sign that a model was cut off in
NAMES: Final = 100  # journals in one letter
AGAIN_S: Final = 5.0  # how often it is said that somebody still listens, or still speaks
FORGET_S: Final = 16.0  # who was not heard of for so long is not there


class Words(Struct, frozen=True, omit_defaults=True):
    """A letter: who listens to what, what somebody says, or who still speaks."""

    sender: str
    hear: tuple[str, ...] = ()
    anew: bool = False  # from the beginning
    voice: str = ""
    journal: str = ""
    step: str = ""
    attempt: int = 0
    offset: int = 0
    text: str = ""
    over: bool = False
    speaking: tuple[str, ...] = ()


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Words)


class Spoken(Struct):
    """A voice of this process, and how much of it the others were told."""

    name: str
    told: int = 0


class Far(Struct):
    """A voice of another process, as it is heard here."""

    voice: Voice
    heard_at: float


class Echo:
    """Both ends of it: passes on what is said here, and has what others say heard here."""

    def __init__(self, hub: Hub, ids: Ids, wake: Callable[[], None]) -> None:
        self._hub = hub
        self._wake = wake
        self._name = ids()
        self._wanted: dict[str, float] = {}  # by others: journal -> until when
        self._spoken: dict[Voice, Spoken] = {}
        self._count = 0
        self._far: dict[str, Far] = {}
        self._asks: dict[str, None] = {}  # journals of which all is wanted
        self._post: list[Words] = []
        self._repeated = 0.0
        hub.overheard = self

    # ── what happens here ────────────────────────────────────────────────────────────────────

    def spoke(self, voice: Voice) -> None:
        """A step has said something."""
        if voice.journal in self._wanted and not self._is_far(voice):
            self._note(voice)
            self._wake()

    def ended(self, voice: Voice) -> None:
        """It says nothing more. What it has said and nobody was told is told with its end."""
        spoken = self._spoken.pop(voice, None)
        if spoken is not None:
            self._post += self._pieces(voice, spoken)
            self._post.append(Words(self._name, voice=spoken.name, over=True))
            self._wake()

    def listened(self, journal: str) -> None:
        """Somebody here listens to a run to which nobody did."""
        self._asks[journal] = None
        self._wake()

    def unlistened(self, journal: str) -> None:
        """Nobody here does any more; the others find that out by hearing nothing of it."""
        self._asks.pop(journal, None)
        for name in [name for name, far in self._far.items() if far.voice.journal == journal]:
            self._hub.voices.end(self._far.pop(name).voice)

    def _is_far(self, voice: Voice) -> bool:
        return any(far.voice is voice for far in self._far.values())

    def _note(self, voice: Voice) -> Spoken:
        spoken = self._spoken.get(voice)
        if spoken is None:
            self._count += 1
            spoken = self._spoken[voice] = Spoken(f"{self._name}.{self._count}")
        return spoken

    # ── letters ──────────────────────────────────────────────────────────────────────────────

    def letters(self) -> list[str]:
        """What is to be told now."""
        self._forget()
        post, self._post = self._post, []
        if self._asks:
            post += self._listening(list(self._asks), anew=True)
            self._asks.clear()
        if monotonic() - self._repeated >= AGAIN_S:
            self._repeated = monotonic()
            post += self._listening(self._hub.listened, anew=False)
        for voice, spoken in self._spoken.items():
            if voice.journal in self._wanted:
                post += self._pieces(voice, spoken)
        letters = (_encoder.encode(words) for words in post)
        return [letter.decode() for letter in letters if len(letter) <= LETTER_MAX]

    def _listening(self, journals: Collection[str], *, anew: bool) -> Iterator[Words]:
        for some in _parts(list(journals)):
            yield Words(self._name, hear=some, anew=anew)

    def _pieces(self, voice: Voice, spoken: Spoken) -> Iterator[Words]:
        text, offset = voice.since(spoken.told), spoken.told
        spoken.told = voice.length
        for start in range(0, len(text), PIECE):
            yield Words(
                self._name,
                voice=spoken.name,
                journal=voice.journal,
                step=voice.step,
                attempt=voice.attempt,
                offset=offset + start,
                text=HALVES.sub("\N{REPLACEMENT CHARACTER}", text[start : start + PIECE]),
            )

    def _forget(self) -> None:
        """Those of whom nothing was heard for long."""
        now = monotonic()
        self._wanted = {journal: at for journal, at in self._wanted.items() if at > now}
        for voice in [voice for voice in self._spoken if voice.journal not in self._wanted]:
            del self._spoken[voice]
        for name in [name for name, far in self._far.items() if far.heard_at < now - FORGET_S]:
            self._hub.voices.end(self._far.pop(name).voice)

    # ── what others say ──────────────────────────────────────────────────────────────────────

    def heard(self, payload: str) -> None:
        """A letter has come."""
        try:
            words = _decoder.decode(payload)
        except msgspec.MsgspecError:
            return  # somebody else's words on our channel
        if words.sender == self._name:
            return
        if words.hear:
            self._told_of_listeners(words)
        for name in words.speaking:
            if name in self._far:
                self._far[name].heard_at = monotonic()
        if words.over and words.voice in self._far:
            self._hub.voices.end(self._far.pop(words.voice).voice)
        elif words.text:
            self._listen(words)

    def _told_of_listeners(self, words: Words) -> None:
        speaking: list[str] = []
        for journal in words.hear:
            self._wanted[journal] = monotonic() + FORGET_S
            for voice in self._hub.voices.of(journal):
                if not self._is_far(voice):
                    spoken = self._note(voice)
                    spoken.told = 0 if words.anew else spoken.told
                    speaking.append(spoken.name)
        self._post += [Words(self._name, speaking=some) for some in _parts(speaking)]
        if speaking:
            self._wake()

    def _listen(self, words: Words) -> None:
        if words.journal not in self._hub.listened:
            return
        far = self._far.get(words.voice)
        if words.offset > (far.voice.length if far else 0):
            self.listened(words.journal)  # a piece was lost: have all of it again
            return
        if far is None:
            voice = self._hub.voices.begin(words.journal, words.step, words.attempt)
            far = self._far[words.voice] = Far(voice, 0.0)
        far.heard_at = monotonic()
        far.voice.say(words.text[far.voice.length - words.offset :])


def _parts(names: list[str]) -> Iterable[tuple[str, ...]]:
    return [tuple(names[at : at + NAMES]) for at in range(0, len(names), NAMES)]

"""Passes the words of steps on to other machines, as long as somebody there listens.

A process in which somebody watches a run *with its text* says so; the one that drives the run then
passes on what its steps say, and nobody else does. None of it is kept: the journal has it a moment
later, and a process that misses a piece asks for the whole of it again.

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
from midflight.stores.hints import LiveCall, Voice
from midflight.stores.hub import Hub

PIECE: Final = 1000  # characters, at up to six bytes each
LETTER_MAX: Final = 7_900  # bytes: NOTIFY takes 8,000, and what is too long is read later
HALVES: Final = re.compile("[\\ud800-\\udfff]")  # of a sign that a model was cut off in
NAMES: Final = 100  # journals in one letter
AGAIN_S: Final = 5.0  # how often it is said that somebody still listens, or still speaks
FORGET_S: Final = 16.0  # a process that was not heard of for so long is not there


class Words(Struct, frozen=True, omit_defaults=True):
    """A letter between processes: about listeners, words of a step, or steps that still speak."""

    sender: str
    hear: tuple[str, ...] = ()
    anew: bool = False  # from the beginning
    voice: str = ""
    journal: str = ""
    step: str = ""
    attempt: int = 0
    offset: int = 0
    text: str = ""
    call: LiveCall | None = None  # with which the voice has begun
    over: bool = False
    speaking: tuple[str, ...] = ()


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Words)


class Spoken(Struct):
    """A voice of this process, and how much of it the others were told."""

    name: str
    told: int = 0
    called: bool = False  # whether they were told of the call that it has begun with


class Far(Struct):
    """A voice of another process, as it is heard here."""

    voice: Voice
    heard_at: float


class Echo:
    """Passes the words of steps here on to other processes, and theirs to the watchers here."""

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
        """Note that a step has said something, if another process listens to it."""
        if voice.journal in self._wanted and not self._is_far(voice):  # layer words-go-out-only
            self._note(voice)
            self._wake()

    def ended(self, voice: Voice) -> None:
        """End a voice; its words that were not sent yet are sent with its end."""
        spoken = self._spoken.pop(voice, None)
        if spoken is not None:
            self._post += self._pieces(voice, spoken)
            # layer voice-has-ended-forgotten
            self._post.append(Words(self._name, voice=spoken.name, over=True))
            self._wake()

    def listened(self, journal: str) -> None:
        """Ask for the text of a run that has its first listener in this process."""
        self._asks[journal] = None
        self._wake()

    def unlistened(self, journal: str) -> None:
        """Drop the text of a run without listeners; other processes notice that we ask no more."""
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
        """Take the letters that are to be sent now."""
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
        if voice.call is not None and not spoken.called:
            spoken.called = True
            yield Words(
                self._name,
                voice=spoken.name,
                journal=voice.journal,
                step=voice.step,
                attempt=voice.attempt,
                call=voice.call,
            )
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
        """Forget listeners and voices of other processes of which nothing was heard for long."""
        now = monotonic()
        # layer stops-listening-forgotten
        self._wanted = {journal: at for journal, at in self._wanted.items() if at > now}
        for voice in [voice for voice in self._spoken if voice.journal not in self._wanted]:
            del self._spoken[voice]
        for name in [name for name, far in self._far.items() if far.heard_at < now - FORGET_S]:
            self._hub.voices.end(self._far.pop(name).voice)

    # ── what others say ──────────────────────────────────────────────────────────────────────

    def heard(self, payload: str) -> None:
        """Take a letter that has come."""
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
        elif words.text or words.call is not None:
            self._listen(words)

    def _told_of_listeners(self, words: Words) -> None:
        speaking: list[str] = []
        for journal in words.hear:
            self._wanted[journal] = monotonic() + FORGET_S
            for voice in self._hub.voices.of(journal):
                if not self._is_far(voice):
                    spoken = self._note(voice)
                    if words.anew:
                        spoken.told, spoken.called = 0, False
                    speaking.append(spoken.name)
        self._post += [Words(self._name, speaking=some) for some in _parts(speaking)]
        if speaking:
            self._wake()

    def _listen(self, words: Words) -> None:
        if words.journal not in self._hub.listened:
            return
        far = self._far.get(words.voice)
        if words.offset > (far.voice.length if far else 0):
            # layer lost-piece-asked-for-again
            self.listened(words.journal)  # a piece was lost: have all of it again
            return
        if far is None:
            voice = self._hub.voices.begin(words.journal, words.step, words.attempt, words.call)
            far = self._far[words.voice] = Far(voice, 0.0)
        far.heard_at = monotonic()
        far.voice.say(words.text[far.voice.length - words.offset :])


def _parts(names: list[str]) -> Iterable[tuple[str, ...]]:
    return [tuple(names[at : at + NAMES]) for at in range(0, len(names), NAMES)]

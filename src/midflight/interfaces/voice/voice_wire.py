"""The messages that a page and a line exchange over a WebSocket, and the news for a screen in them.

From the page: bytes are how many samples it has played (four, little-endian) and sound from its
microphone, if there is any; texts are JSON with a ``t``. To the page: bytes are sound to be played,
texts are orders to its loudspeaker and what its screen should show. A terminal shows the same news.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import anyio
import msgspec
from msgspec import Struct

from midflight.interfaces.voice.speech.speech_engines import RATE, WIDTH

AGAIN: Final = "asked again"  # it was not understood
IF_MEANT: Final = "asked if meant"  # it was understood, and seems to want nothing
ASKED: Final = frozenset({AGAIN, IF_MEANT})


class FloorShown(Struct, frozen=True, tag_field="t", tag="floor"):
    """The state of the floor: quiet, speaking, held, hearing or judging."""

    floor: str


class Outcome(Struct, frozen=True, tag_field="t", tag="outcome"):
    """The outcome of a sound: resumed, interrupted, asked again, asked if meant or ignored."""

    outcome: str
    heard: str = ""
    confidence: float | None = None  # where it is known


class Saying(Struct, frozen=True, tag_field="t", tag="saying"):
    """The words that are being said or, if ``cut``, the part of them that was heard."""

    text: str
    cut: bool = False


class Did(Struct, frozen=True, tag_field="t", tag="did"):
    """The act that followed somebody's words, and our answer to them."""

    act: str
    text: str = ""


class Handed(Struct, frozen=True, tag_field="t", tag="handed"):
    """The person who has the run; empty if it is the agent's again."""

    to: str


class Trouble(Struct, frozen=True, tag_field="t", tag="trouble"):
    """Something does not work as it should; what is shown instead, and what to do."""

    text: str
    instead: str = ""


Shown: TypeAlias = FloorShown | Outcome | Saying | Did | Handed | Trouble


def in_words(shown: Shown) -> str:
    """Return one line for a terminal."""
    match shown:
        case FloorShown():
            return f"· {shown.floor}"
        case Outcome():
            sure = f" ({shown.confidence:.2f})" if shown.confidence is not None else ""
            return f"{shown.outcome} “{shown.heard}”{sure}" if shown.heard else shown.outcome
        case Saying():
            return f"heard of it: “{shown.text}”" if shown.cut else f"says: “{shown.text}”"
        case Did():
            return f"→ {shown.act}{f': {shown.text}' if shown.text else ''}"
        case Handed():
            return f"· with {shown.to}" if shown.to else "· with the agent again"
        case Trouble():
            return f"! {shown.text}{f' {shown.instead}' if shown.instead else ''}"


HEADER: Final = 4
SOUND_MAX: Final = 2 * RATE * WIDTH  # two seconds at once: nobody's microphone gives more
TEXT_MAX: Final = 4_096
PIECE: Final = RATE // 5 * WIDTH  # what is sent at once, so that a hold is never behind much of it
ANSWER_S: Final = 1.5  # for a page to say how much it has played: what is on record hangs on it


class Misfit(Exception):
    """A message is not of the agreed form; the line goes on without it."""


class Frame(Struct, frozen=True):
    """A frame from the page: how much the page has played so far, and the sound that it heard."""

    played: int
    pcm: bytes


class Hello(Struct, frozen=True, tag_field="t", tag="hello", forbid_unknown_fields=True):
    """The page begins: how its sound is made, and whether its person presses a key to talk."""

    rate: int
    mode: Literal["hands-free", "push"] = "hands-free"


class Talk(Struct, frozen=True, tag_field="t", tag="talk", forbid_unknown_fields=True):
    """The key to talk is down, or let go."""

    on: bool


class Silenced(Struct, frozen=True, tag_field="t", tag="silenced", forbid_unknown_fields=True):
    """The page has dropped what was waiting; so much was played before.

    It says to which cut that is the answer. Pages of before answer in their order, and say none.
    """

    played: int
    number: int = 0


FromPage: TypeAlias = Hello | Talk | Silenced
_page: Final[msgspec.json.Decoder[FromPage]] = msgspec.json.Decoder(FromPage)


def read_bytes(data: bytes) -> Frame:
    """A frame from a page; raises ``Misfit`` with what is wrong in words."""
    if len(data) > SOUND_MAX:
        raise Misfit(
            f"A frame of {len(data):,} bytes is too large: {SOUND_MAX:,} are allowed. It was "
            "not heard; send smaller ones."
        )
    if len(data) < HEADER or len(data) % WIDTH:
        raise Misfit(
            f"A frame of {len(data)} bytes is wrong: a frame begins with four bytes that say how "
            "much was played, and 16-bit samples follow. It was not heard."
        )
    return Frame(int.from_bytes(data[:HEADER], "little"), data[HEADER:])


def read_text(text: str) -> FromPage:
    """A message from a page; raises ``Misfit`` with what is wrong in words."""
    if len(text) > TEXT_MAX:
        raise Misfit(f"A message of {len(text):,} characters is too large. It was not read.")
    try:
        said = _page.decode(text)
    except msgspec.MsgspecError as error:
        raise Misfit(f"A message could not be understood: {error}. It was not read.") from None
    if isinstance(said, Hello) and said.rate != RATE:
        raise Misfit(
            f"Your sound has {said.rate:,} samples a second, and {RATE:,} are needed. Until it has "
            "so many, nothing that you say is heard."
        )
    return said


class PageSink:
    """A page's loudspeaker. Only the page knows what was really played.

    A cut that it did not answer in time is on record as if it had played no more than it had said.
    Until it does answer, what it says is about what was cut, and counts for nothing that came
    after; the answer then tells from where on it does.
    """

    def __init__(self, send: Callable[[bytes | dict[str, object]], None]) -> None:
        self._send = send
        self._cuts = 0
        self._unanswered: dict[int, anyio.Event] = {}  # by their number
        self._given_up: set[int] = set()  # those of them that nobody waits for any longer
        self._is_gone = False
        self._told = 0  # the page's own count
        self._beyond = 0  # of it: played of what was cut, after we had given up
        self.played = 0

    async def play(self, pcm: bytes) -> None:
        """Send it on."""
        for start in range(0, len(pcm), PIECE):
            self._send(pcm[start : start + PIECE])

    async def hold(self) -> None:
        """Be silent, and keep what waits."""
        self._send({"t": "hold"})

    async def go_on(self) -> None:
        """Go on at the next sample."""
        self._send({"t": "go on"})

    async def cut(self) -> int:
        """Forget what waits; the page says how much was played, or we go by its last word."""
        if self._is_gone:
            return self.played
        self._cuts += 1
        number, answered = self._cuts, anyio.Event()
        self._unanswered[number] = answered
        self._send({"t": "cut", "number": number})
        try:
            with anyio.move_on_after(ANSWER_S):
                await answered.wait()
        finally:
            if number in self._unanswered:
                self._given_up.add(number)
        return self.played

    def gone(self) -> None:
        """Nobody will answer any more: its last word counts, and no cut waits for another."""
        self._is_gone = True
        for answered in self._unanswered.values():
            answered.set()

    def note(self, played: int) -> None:
        """So much was played: never less than before, whatever a page says."""
        self._told = max(self._told, played)
        if not self._given_up:  # layer late-page-had-played
            self.played = max(self.played, self._told - self._beyond)

    def silenced(self, played: int, number: int = 0) -> None:
        """The page has done as it was told. What it does not answer any more, it has missed."""
        number = number or min(self._unanswered, default=0)
        if number not in self._unanswered:
            return  # it has said that before, or makes it up
        late = bool(self._given_up)
        self.note(played)
        if late:
            self._beyond = self._told - self.played
        for old in [old for old in self._unanswered if old <= number]:
            self._unanswered.pop(old).set()
            self._given_up.discard(old)


def as_text(shown: Shown | dict[str, object]) -> str:
    """A message to a page."""
    return msgspec.json.encode(shown).decode()

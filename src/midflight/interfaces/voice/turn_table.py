"""The table of turns: it decides when we speak. It has no clock and no sound.

Time passes with the frames that are heard.

::

    speaking ──sound──▶ held ──backchannel, noise──▶ speaking   at the same sample
                          ├────words──────────────▶ cut, and the person has the floor
                          ├────a remark───────────▶ asked for again if it is for us; likewise
                          └────unclear────────────▶ asked again; silence: speaking, same sample

It takes two stages because no ear can tell a "mm-hm" from a "stop" in a tenth of a second, and a
voice that talks on for longer than that talks over people. To hold costs nothing; what a sound was
is decided when it has ended, or when it lasts and has words that are more than an assent.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from midflight.interfaces.voice.speech.speech_engines import FRAME_MS

ONSET: Final = 0.35  # of a frame, to count as speech while nobody is known to speak
SURE: Final = 0.75  # one such frame is enough
GOES_ON: Final = 0.25  # and while somebody does
HOLD_MS: Final = 2 * FRAME_MS
CLICK_MS: Final = 3 * FRAME_MS  # shorter than any word: not worth a look
LASTS_MS: Final = 800  # so long a sound is looked at before it has ended
AGAIN_MS: Final = 640
TOO_LONG_MS: Final = 2_600  # nobody says "mm-hm" for so long
END_HELD_MS: Final = 9 * FRAME_MS  # silence that ends a sound while we hold
END_MS: Final = 17 * FRAME_MS  # and while the person has the floor: people think between words
PATIENCE_MS: Final = 4_000  # after a question of ours
LONGEST_MS: Final = 28_000  # what a recogniser takes at once


class Floor(StrEnum):
    """The state of the conversation: whose turn it is to speak."""

    QUIET = "quiet"
    SPEAKING = "speaking"
    HELD = "held"  # we were speaking, and a sound came
    HEARING = "hearing"  # the person speaks, and we do not
    JUDGING = "judging"  # the sound has ended; what was it?


class Verdict(StrEnum):
    """The kind of a sound, as judged."""

    NOISE = "noise"
    BACKCHANNEL = "backchannel"
    WORDS = "words"
    REMARK = "remark"  # words that want nothing, it seems
    UNCLEAR = "unclear"


# ── what happens ─────────────────────────────────────────────────────────────────────────────────


class FrameHeard(Struct, frozen=True):
    """A frame of sound, in which somebody is this likely to speak."""

    likely: float


class SpeechBegan(Struct, frozen=True):
    """We have something to say, and begin."""


class SpeechEnded(Struct, frozen=True):
    """All that we had to say was played, perhaps only after a sound had begun."""


class Judged(Struct, frozen=True):
    """The verdict on sound number ``sound``, as far as it was heard; ``whole`` if it had ended."""

    sound: int
    verdict: Verdict
    whole: bool


class Pressed(Struct, frozen=True):
    """The person holds the key to talk down, or lets it go."""

    down: bool


Event: TypeAlias = FrameHeard | SpeechBegan | SpeechEnded | Judged | Pressed


class Order(StrEnum):
    """An order of the table, for the line to carry out."""

    HOLD = "hold"  # be silent now, forget nothing
    GO_ON = "go on"  # at the very next sample
    LET_GO = "let go"  # of what is held: there is nothing in it
    CUT = "cut"  # forget what was not heard
    JUDGE = "judge"  # what is being said?
    JUDGE_WHOLE = "judge whole"  # what was said?
    TAKE = "take"  # the person's words are theirs to give to the run
    ASK = "ask"  # say that they were not understood
    ASK_IF_MEANT = "ask if meant"  # say that they are to be said again if they were for us
    IGNORE = "ignore"  # it was nothing


class Taking(Struct, frozen=True):
    """The state of the table. ``held``: there is speech that can be gone on with."""

    floor: Floor = Floor.QUIET
    held: bool = False
    cut: bool = False  # there was, and was put aside before it was known what the sound is
    asked: bool = False  # we have asked, and wait for the answer
    remarked: bool = False  # for a remark to be said again if it was for us
    sound: int = 0  # which one it is, counted from 1
    loud_ms: int = 0
    spoke_ms: int = 0  # speech of this sound
    lasts_ms: int = 0  # all of it, with pauses
    more_ms: int = 0  # speech after all that a recogniser takes at once
    quiet_ms: int = 0
    looked_ms: int = 0  # when it was last judged before its end
    pressed: bool = False


Step: TypeAlias = tuple[Taking, tuple[Order, ...]]


def advance(now: Taking, event: Event) -> Step:
    """Take one event. Pure: the same state and event give the same orders."""
    match event:
        case FrameHeard():
            return _hear(now, event.likely)
        case SpeechBegan():
            return _begin(now)
        case SpeechEnded():
            return _end(now)
        case Judged():
            return _judge(now, event)
        case Pressed():
            return _press(now, event.down)


def _begin(now: Taking) -> Step:
    """We speak only where nobody else does; else what we have to say waits."""
    if now.floor is Floor.QUIET:
        return replace(now, floor=Floor.SPEAKING, loud_ms=0, quiet_ms=0), ()
    return now, ()


def _end(now: Taking) -> Step:
    """All was said. Who begins with our last sample has the floor: they assent to nothing."""
    match now.floor:
        case Floor.SPEAKING:
            return replace(now, floor=Floor.QUIET, quiet_ms=0), ()
        case Floor.HELD:
            return replace(now, floor=Floor.HEARING, held=False), (Order.LET_GO,)
        case _:
            return now, ()


def _hear(now: Taking, likely: float) -> Step:
    lasting = replace(now, lasts_ms=now.lasts_ms + FRAME_MS)
    if now.pressed:
        return _hear_pressed(replace(lasting, spoke_ms=now.spoke_ms + FRAME_MS))
    match now.floor:
        case Floor.QUIET | Floor.SPEAKING:
            return _wait_for_sound(now, likely)
        case Floor.HELD | Floor.HEARING:
            return _follow_sound(lasting, likely)
        case Floor.JUDGING:
            return _hear_more(lasting, likely)


def _hear_pressed(now: Taking) -> Step:
    """A key that nobody lets go, or whose page has died, does not keep us silent for ever."""
    return _press(now, False) if now.lasts_ms >= LONGEST_MS else (now, ())


def _wait_for_sound(now: Taking, likely: float) -> Step:
    loud = now.loud_ms + FRAME_MS if likely >= ONSET else 0
    if loud >= HOLD_MS or likely >= SURE:
        return _sound_began(now, loud)
    quiet = now.quiet_ms + FRAME_MS
    if now.asked and now.floor is Floor.QUIET and quiet >= PATIENCE_MS:
        return _nothing_more(replace(now, loud_ms=loud))
    return replace(now, loud_ms=loud, quiet_ms=quiet), ()


def _sound_began(now: Taking, spoke_ms: int) -> Step:
    began = _new_sound(now, spoke_ms)
    if now.floor is Floor.SPEAKING:
        return replace(began, floor=Floor.HELD, held=True), (Order.HOLD,)
    return replace(began, floor=Floor.HEARING), ()


def _new_sound(now: Taking, spoke_ms: int) -> Taking:
    new = replace(now, sound=now.sound + 1, spoke_ms=spoke_ms, lasts_ms=spoke_ms)
    return replace(new, quiet_ms=0, loud_ms=0, looked_ms=0, more_ms=0)


def _follow_sound(now: Taking, likely: float) -> Step:
    if likely >= GOES_ON:
        now = replace(now, spoke_ms=now.spoke_ms + FRAME_MS, quiet_ms=0)
    else:
        now = replace(now, quiet_ms=now.quiet_ms + FRAME_MS)
    if now.quiet_ms >= (END_HELD_MS if now.floor is Floor.HELD else END_MS):
        return _sound_ended(now)
    if now.lasts_ms >= LONGEST_MS:
        return replace(now, floor=Floor.JUDGING, loud_ms=0), (Order.JUDGE_WHOLE,)
    if now.floor is Floor.HELD:
        return _look_at(now)
    return now, ()


def _look_at(now: Taking) -> Step:
    """A sound that lasts is either words, or something that people do not stop for."""
    if now.spoke_ms >= TOO_LONG_MS:
        return _cut(now)
    due = now.looked_ms + AGAIN_MS if now.looked_ms else LASTS_MS
    if now.spoke_ms >= due:
        return replace(now, looked_ms=now.spoke_ms), (Order.JUDGE,)
    return now, ()


def _cut(now: Taking) -> Step:
    cut = replace(now, floor=Floor.HEARING, held=False, cut=True)  # layer remark-said-again-over
    return cut, (Order.CUT,)


def _sound_ended(now: Taking) -> Step:
    if now.spoke_ms <= CLICK_MS:
        return _nothing_more(now)
    return replace(now, floor=Floor.JUDGING, loud_ms=0), (Order.JUDGE_WHOLE,)


def _nothing_more(now: Taking) -> Step:
    """It was nothing: go on where we were, if we were anywhere."""
    over = replace(now, asked=False, remarked=False, held=False, cut=False, quiet_ms=0)
    if now.held or now.cut:
        return replace(over, floor=Floor.SPEAKING), (Order.GO_ON,)
    return replace(over, floor=Floor.QUIET), (Order.IGNORE,)


def _hear_more(now: Taking, likely: float) -> Step:
    """They speak on while we think about it: it is the same sound, and not over."""
    if now.lasts_ms >= LONGEST_MS:
        return _hear_what_is_too_much(now, likely)
    loud = now.loud_ms + FRAME_MS if likely >= ONSET else 0
    if loud < HOLD_MS:
        return replace(now, loud_ms=loud), ()
    floor = Floor.HELD if now.held else Floor.HEARING
    spoke = now.spoke_ms + loud
    same = replace(now, sound=now.sound + 1, loud_ms=0, quiet_ms=0, looked_ms=spoke)
    return replace(same, floor=floor, spoke_ms=spoke), ()


def _hear_what_is_too_much(now: Taking, likely: float) -> Step:
    """It is another sound, once the first is judged; else who never pauses never would be."""
    if likely >= GOES_ON:
        return replace(now, more_ms=now.more_ms + FRAME_MS, quiet_ms=0), ()
    return replace(now, quiet_ms=now.quiet_ms + FRAME_MS), ()


def _judge(now: Taking, event: Judged) -> Step:
    if event.sound != now.sound:
        return now, ()  # of a sound that went on since
    if not event.whole:
        heard = now.floor is Floor.HELD and event.verdict is Verdict.WORDS
        return _cut(now) if heard else (now, ())
    if now.floor is not Floor.JUDGING:
        return now, ()
    after, orders = _decide(now, event.verdict)
    if now.more_ms >= HOLD_MS and after.floor is Floor.QUIET:
        more = replace(_new_sound(after, now.more_ms), lasts_ms=now.lasts_ms - LONGEST_MS)
        return replace(more, floor=Floor.HEARING, quiet_ms=now.quiet_ms), orders
    return after, orders


def _decide(now: Taking, verdict: Verdict) -> Step:
    over = replace(now, floor=Floor.QUIET, quiet_ms=0, asked=False, remarked=False)
    match verdict:
        case Verdict.WORDS:
            orders = (Order.CUT, Order.TAKE) if now.held else (Order.TAKE,)
            return replace(over, held=False, cut=False), orders
        case Verdict.UNCLEAR:
            return replace(over, asked=True), (Order.ASK,)
        case Verdict.BACKCHANNEL | Verdict.REMARK if not (now.held or now.cut):
            return over, (Order.TAKE,)  # nothing to assent to but our question
        case Verdict.REMARK:
            return replace(over, asked=True, remarked=True), (Order.ASK_IF_MEANT,)
        case Verdict.NOISE | Verdict.BACKCHANNEL:
            return _nothing_more(now)


def _press(now: Taking, down: bool) -> Step:
    if down == now.pressed:
        return now, ()
    if not down:
        over = replace(now, pressed=False, floor=Floor.JUDGING, loud_ms=0)
        return over, (Order.JUDGE_WHOLE,)
    held = now.held or now.floor is Floor.SPEAKING
    heard = 0 if now.floor in {Floor.QUIET, Floor.SPEAKING} else now.lasts_ms  # it is kept
    begun = replace(_new_sound(now, 0), pressed=True, held=held, lasts_ms=heard)
    orders = (Order.HOLD,) if now.floor is Floor.SPEAKING else ()
    return replace(begun, floor=Floor.HELD if held else Floor.HEARING), orders

"""Messages in a thread while an agent works, and the choices about them.

There are three choices. *Incorporate*: the work adjusts after its present step. *Switch*: the work
is parked and the message is done now. *Defer*: the message is kept as a todo. A few plain words act
before any model is asked: *stop* and *wait* pause, *never mind, do that instead* redirects.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

Action: TypeAlias = Literal["incorporate", "switch", "defer"]

INCORPORATE: Final = "incorporate"
SWITCH: Final = "switch"
DEFER: Final = "defer"
ACTIONS: Final = (INCORPORATE, SWITCH, DEFER)

BACKGROUND: Final = "background"
"""The role of a background run that reports to the one which began it."""

REPORT: Final = "report"
"""The kind of words in which a run beside the front tells its thread how it has ended."""

TEXT_MAX: Final = 64 * 1024  # characters that a message, a brief or an answer in words takes
TRIAGE_AFTER_S: Final = 0.4  # people send a thought in three messages: wait for the third


def is_storable(text: str) -> bool:
    """Return whether a text can be stored: it holds no surrogate and no NUL."""
    return "\x00" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


class Message(Struct, frozen=True):
    """A message that somebody has written in the thread, with the role that they had then."""

    id: int
    text: str
    by: str
    role: str
    at: float
    choice: str = ""

    def with_text(self, text: str) -> Message:
        """The same message, edited before it was read."""
        return replace(self, text=text)

    def with_choice(self, choice: str) -> Message:
        """The same message, after somebody has chosen what to do about it."""
        return replace(self, choice=choice)


class Spoken(Struct, frozen=True):
    """Something that was said in the thread: a ``message`` of a person, or words of a run.

    ``untrusted`` marks words of a run that had read words of strangers.
    """

    by: str
    role: str
    text: str
    kind: str
    run: str
    at: float
    untrusted: bool = False


class Choice(Struct, frozen=True):
    """A choice about a message; ``say`` answers it, ``title`` names its todo."""

    message: int
    action: Action
    say: str = ""
    why: str = ""
    title: str = ""


class TriageView(Struct, frozen=True):
    """The view of a triage: the work, how it stands, and the messages to choose about.

    ``run`` is the id of the run that works.
    """

    brief: str
    status: str
    plan: tuple[str, ...]
    messages: list[Message]
    transcript: list[Spoken]
    run: str = ""


Triage = Callable[[TriageView], Awaitable[Sequence[Choice]]]

LATER: Final = re.compile(
    r"\b(later|afterwards|after that|not now|when(ever)? you('re| are| have)( done| finished| time)"
    r"|once you('re| are) (done|finished)|next time)\b",
    re.IGNORECASE,
)
SOONER: Final = re.compile(
    r"\b(instead|urgent(ly)?|immediately|right now|at once|asap|drop (that|this|everything))\b"
    r"|^\s*(now|first)\b|\b(now|first)\s*[.!]*\s*$|\bfirst do\b",
    re.IGNORECASE,
)


async def rule_triage(view: TriageView) -> Sequence[Choice]:
    """Choose by a few plain words; for agents that converse and bring no triage of their own."""
    return [Choice(message.id, _by_words(message.text)) for message in view.messages]


def _by_words(text: str) -> Action:
    if LATER.search(text):
        return DEFER
    return SWITCH if SOONER.search(text) else INCORPORATE


STOP_WORDS: Final = frozenset(
    {"stop", "stop it", "stop that", "halt", "cancel", "cancel it", "cancel that", "abort"}
)
WAIT_WORDS: Final = frozenset({"wait", "pause", "hold on", "hold it", "hang on", "one moment"})


def stop_word(text: str) -> str:
    """Return ``"cancel?"`` or ``"pause"`` if a message is nothing but such a word; else ""."""
    said = " ".join(text.casefold().split()).strip(".!… ")
    if said in STOP_WORDS:  # layer only-whole-message-stop-word
        return "cancel?"
    return "pause" if said in WAIT_WORDS else ""


_STOPPED: Final = re.compile(r"\[Stopped here: (?P<why>.+)\.\]\Z")


def stopped_here(text: str, why: str) -> str:
    """Words that a policy has ended, as they go on record."""
    return f"{text} [Stopped here: {why}.]".strip()


def why_stopped(text: str) -> str:
    """Return why a policy has ended these words; empty if none has."""
    found = _STOPPED.search(text)
    return found["why"] if found else ""


_PAUSE: Final = r"\s*[,.;:!…\u2013—-]+\s*"
_TURN: Final = re.compile(
    rf"""\s*(?:(?:never\s?mind|forget\ (?:it|that|this)|scrap\ (?:it|that|this)){_PAUSE}
    |no{_PAUSE}(?=do\b|instead\b|let['\u2019]?s\b))  # “no, the blue one instead” is a detail
    (?:(?:do\ (?:this|that)\ )?instead{_PAUSE}(?P<behind>.+)|(?P<before>.+?)[\s,]instead)
    [\s.!…]*""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_POINTING: Final = re.compile(r"(do )?(this|that|it|something else)", re.IGNORECASE)
TURN_MAX: Final = 500  # characters; a longer message says more than that


def new_course(text: str) -> str:
    """Return the new brief, if a message says only: never mind, do that instead; else "".

    It takes unmistakable words only. A triage finds out what other messages mean.
    """
    turned = _TURN.fullmatch(text) if len(text) <= TURN_MAX else None
    if turned is None:
        return ""
    wanted = (turned["behind"] or turned["before"]).strip(" \n,")
    return "" if _POINTING.fullmatch(wanted) else wanted

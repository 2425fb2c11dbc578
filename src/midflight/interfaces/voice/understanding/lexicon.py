"""The meaning of words before any model is asked: three controls, answers, and a few more.

These are pure functions of the text. They are strict where they act (on a whole utterance, or its
beginning), and leave an utterance that they do not know to the run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from midflight.interfaces.voice.understanding.assents import agrees, any_of, is_assent, plain

ORDERS: Final = (
    "Stop.", "Stop it.", "Wait.", "No.", "Go on.", "Go back.", "Hold on.", "Hang on.", "Pause.",
    "Cancel.", "Cancel that.", "Continue.", "Be brief.", "Start over.", "Never mind.", "Not that.",
    "What?", "Louder.", "Skip this.", "Next.", "Repeat.", "Help.", "Slower.", "Why?",
    "Repeat that.", "Say that again.", "Halt.", "Abort.", "Enough.", "That's enough.", "Hold it.",
    "One moment.", "Resume.", "Proceed.", "Go ahead.", "Carry on.", "Keep going.", "Shorter.",
    "Operator.",
)  # fmt: skip
"""As a recogniser writes them: what short sounds are weighed against."""


class Act(StrEnum):
    """An action that an utterance asks for at once."""

    PAUSE = "pause"
    STOP = "stop"  # pause, and ask whether to cancel
    GO_ON = "go on"
    REDIRECT = "redirect"
    STRATEGY = "strategy"
    HUMAN = "human"
    YES = "yes"
    NO = "no"
    SAY = "say"  # nothing of these: it is the run's to understand


HOLDING: Final = {Act.PAUSE, Act.STOP}
CONTROLS: Final = HOLDING | {Act.GO_ON}


class Meaning(Struct, frozen=True):
    """An act, and the words or the name that go with it; ``said`` is all that was said."""

    act: Act
    text: str
    said: str
    asks_nothing: bool = False  # "no, that's fine": words for the run that are to change nothing


FILLER: Final = "(?:" + any_of(
    "uh", "um", "er", "oh", "ah", "hey", "well", "so", "but", "okay", "ok", "yeah", "right",
    "sorry", "actually", "i mean", "just", "please",
) + " )*"  # fmt: skip
LEAD: Final = "(?:" + FILLER + any_of(
    "yes", "no", "nope", "never mind", "i said", "you can", "(?:can|could|would|will) you"
) + f" )*{FILLER}"  # fmt: skip
"""What may stand before an order without changing it."""

AFTER: Final = "(?: please| now| right now| then)*"
A_WHILE: Final = any_of("a", "one", "just a") + " " + any_of("second", "moment", "minute", "sec")
ON_WHICH: Final = any_of(
    "go", "carry", "move", "come", "keep", "based", "focus", "work", "count", "rely", "depend"
)
"""After these "on a second" is no "hang on a second" that was heard a little wrong."""

WAIT: Final = any_of(
    "wait", "pause", "hold on", "hold it", "hold up", "hang on", A_WHILE, f"give me {A_WHILE}",
    f"(?:wait|stop|pause|hold on) for {A_WHILE}", rf"(?!{ON_WHICH}\b)[\w']+ on {A_WHILE}",
)  # fmt: skip
STOP: Final = any_of(
    "stop", "stop (?:it|that|this|right there|talking|everything)", "halt", "abort",
    "abort that", "enough", "that's enough", "cancel", "cancel (?:it|that|this|everything)",
)  # fmt: skip
HELD: Final = (
    f"{AFTER}(?: there| no| nope| yes| okay| sorry)*{AFTER}"  # what changes no hold behind it
)
ON: Final = any_of(
    "go on", "go ahead", "continue", "carry on", "keep going", "resume", "proceed", "as you were"
)
YES: Final = any_of("yes", "yeah", "yep", "yup", "sure", "okay", "ok", "of course")
NO: Final = any_of("no", "nope", "nah")
DOINGS: Final = (
    "send", "wire", "pay", "buy", "order", "book", "place", "post", "publish", "submit", "share",
    "delete", "remove", "drop", "move", "change", "make", "create", "write", "save", "run",
    "start", "deploy", "ship", "merge", "sign", "approve", "confirm",
)  # fmt: skip
DOING: Final = f"(?P<doing>{any_of(*DOINGS)}) (?:it|that|this|them)"
DO: Final = any_of("do", "do (?:it|that|this)", "please do", "go for it")
PERSON: Final = any_of("human", "human being", "real person", "operator", "person", "colleague")
ASKED_FOR: Final = any_of(
    "i (?:want|need|would like)(?: to (?:talk|speak) (?:to|with))?",
    "(?:let me|can i|could i|may i) (?:talk|speak) (?:to|with)",
    "get me", "give me",
)  # fmt: skip
AHEAD: Final = re.compile(
    "(?:please |okay |ok |yes )*(?:go ahead|proceed)(?: please| now| then| with it| with that)*"
)
FIRM: Final = frozenset({"yes", "yep", "yup"})  # nobody says that over a question to be polite
IT_WAS_NOT: Final = "(?:it|that) (?:wasn't|isn't|was not|is not)"
NOT_MEANT: Final = re.compile(
    f"{FILLER}(?:{NO}(?: {NO}| thanks| thank you| sorry| {IT_WAS_NOT}| not you)*(?: for you)?"
    f"|(?:{IT_WAS_NOT}|not) for you|not you|never mind)"
)
CANCEL: Final = "cancel(?: it| that| this| everything)?"
CANCELS: Final = re.compile(f"(?:(?:yes|yep|yup) ?)+(?:{CANCEL})?{AFTER}|{CANCEL}{AFTER}")

WHOLE: Final[Mapping[Act, str]] = {
    Act.PAUSE: f"{LEAD}{WAIT}(?: {LEAD}{WAIT}| {A_WHILE})*{HELD}",
    Act.STOP: f"{LEAD}(?:{WAIT} {LEAD})*{STOP}(?: {LEAD}{any_of(WAIT, STOP)})*{HELD}",
    Act.GO_ON: f"{LEAD}{ON}(?: {LEAD}{ON})*{AFTER}",
    Act.HUMAN: f"{LEAD}(?:{ASKED_FOR} (?:a |an |the |another )?{PERSON}|operator){AFTER}",
    Act.YES: FILLER + any_of(
        f"{YES}(?: {YES}| please)*(?: (?:{DO}|{DOING}))?{AFTER}",
        "(?:please )?do (?:it|that)", "please do", "no problem", "right", "correct",
        "yes cancel(?: it)?", "approve", "approved",
    ),
    Act.NO: FILLER + any_of(
        f"{NO}(?: {NO}| please| thanks| thank you)*",
        f"(?:{NO} )*(?:don't|do not)(?: {DO}| {DOING})?{AFTER}",
        "never mind", "reject", "reject it", "leave it",
    ),
}  # fmt: skip
STRATEGIES: Final[Mapping[str, str]] = {
    "brief": any_of(
        "be (?:more )?brief", "be briefer", "briefly", "(?:keep it|make it) short", "shorter",
        "(?:give me )?the short version", "in short", "less detail", "cut it short",
    ),
    "detailed": any_of(
        "(?:give me |in )?more details?", "be more detailed", "in full",
        "(?:give me )?the long version", "explain (?:it |that )?more",
    ),
}  # fmt: skip
"""Names of profiles, and what people say for them."""

_NOT: Final = r"(?:no|nope|nah|actually|instead|rather|i mean|not that)"
_TURN: Final = r"(?:no|nope|nah|actually|wait|stop|sorry|hold on)[,.;:!-]+\s*"
OTHERWISE: Final = re.compile(
    rf"(?:{_NOT}[\s,.;:!-]+|{_TURN})(?:{_TURN})*(?P<rest>.{{3,}})", re.IGNORECASE | re.DOTALL
)
HOLDS: Final = re.compile(r"\b(?:wait|stop|hold on)\b", re.IGNORECASE)
EXCUSED: Final = re.compile(r"\bsorry[,.;:!-]+\s*$", re.IGNORECASE)
EXCUSE: Final = re.compile(
    "(?:i was|i'm|i am)(?: just| still| back)? "
    + any_of("on mute", "muted", "away", "back", "distracted", "coughing", "sneezing", "late")
)
"""What people say of themselves after "sorry": nothing is asked for."""

ALL: Final = re.compile("(?:that's|that is) (?:it|all)(?: for now)? (?:thanks|thank you)")
ORDERED: Final = frozenset(map(plain, ORDERS))


def meaning(text: str) -> Meaning:
    """Return the action that an utterance asks for at once."""
    text = text.strip()
    return _order(text) or _otherwise(text) or Meaning(Act.SAY, text, text)


def _order(text: str) -> Meaning | None:
    """An order or an answer, if it is one from beginning to end."""
    said = plain(text)
    for act, pattern in WHOLE.items():
        if re.fullmatch(pattern, said):
            return Meaning(act, text, text)
    for name, pattern in STRATEGIES.items():
        if re.fullmatch(f"{LEAD}{pattern}{AFTER}", said):
            return Meaning(Act.STRATEGY, name, text)
    return None


def _otherwise(text: str) -> Meaning | None:
    """A redirect, unless what comes after the "no" is an order itself, or says nothing new."""
    turned = OTHERWISE.fullmatch(text)
    if turned is None or is_assent(text):  # "no worries"
        return None
    rest = turned["rest"].strip()
    order = _order(rest)
    if order is not None and order.act not in {Act.YES, Act.NO}:
        return Meaning(order.act, order.text, text)
    if order is not None or plain(rest) in ORDERED:  # "no, yes", "sorry, what?"
        return None
    if _asks_for_nothing(text[: turned.start("rest")], rest):
        return Meaning(Act.SAY, text, text, asks_nothing=True)
    return Meaning(Act.REDIRECT, rest, text)


def _asks_for_nothing(before: str, rest: str) -> bool:
    """Return whether the words change nothing: "no, that's fine". After a "wait" they might."""
    if HOLDS.search(before):
        return False
    excuse = EXCUSED.search(before) and EXCUSE.fullmatch(plain(rest))
    return agrees(rest) or ALL.fullmatch(plain(rest)) is not None or bool(excuse)


def was_not_meant(text: str) -> bool:
    """Return whether the text only says that the words before it were not for us."""
    return NOT_MEANT.fullmatch(plain(text)) is not None


def doing(text: str) -> str:
    """Return the action that a yes or a no names, if it names one: "yes, send it"."""
    found = re.search(rf"\b{DOING}", plain(text))
    return found["doing"] if found else ""


def approves(text: str) -> bool:
    """Return whether it says yes to a proposed action; otherwise it only means "go on"."""
    return AHEAD.fullmatch(plain(text)) is not None


def cancels(text: str) -> bool:
    """Return whether it says yes to a proposed cancel; a polite "okay" or "right" does not."""
    return CANCELS.fullmatch(plain(text)) is not None


def is_firm(text: str) -> bool:
    """Return whether it is an answer even over the question, where other words would be assents."""
    words = set(plain(text).split())
    return bool(words) and words <= FIRM

"""The meaning of words before any model is asked: assents, three controls, answers, and a few more.

These are pure functions of the text. They are strict where they act (on a whole utterance, or its
beginning), and leave an utterance that they do not know to the run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

SIGNS: Final = re.compile(r"[^\w\s']+")


def plain(text: str) -> str:
    """Small letters, no signs, single spaces; digits are words too."""
    return " ".join(SIGNS.sub(" ", text.casefold().replace("\u2019", "'")).split())


def any_of(*phrases: str) -> str:
    """A pattern for one of these, which may be patterns themselves."""
    return f"(?:{'|'.join(phrases)})"


WEIGHED: Final = (
    "Uh-huh.", "Mm-hmm.", "Mhm.", "Mm.", "Hmm.", "Yeah.", "Yep.", "Yes.", "Okay.", "Right.",
    "All right.", "I see.", "Sure.", "Got it.", "Oh.", "Ah.", "Um.", "Uh.", "Wow.", "Cool.",
    "Great.", "Good.", "Nice.", "Really?", "Yeah, okay.", "Oh, I see.", "Ah, okay.",
    "Exactly.", "Of course.", "Thanks.", "Makes sense.", "Interesting.", "Yup.", "Aha.", "Fine.",
    "Perfect.", "Indeed.", "Absolutely.", "Definitely.", "Gotcha.", "Lovely.", "Very good.",
    "Sounds good.", "Fair enough.", "I know.", "Alright.", "Thank you.",
)  # fmt: skip
"""As a recogniser writes them: what short sounds are weighed against."""

ASSENTING: Final = frozenset({
    "uh", "huh", "uhhuh", "mm", "mmm", "hmm", "hm", "mhm", "mmhmm", "um", "oh", "ah", "aha", "ooh",
    "yeah", "yep", "yes", "yup", "ya", "yea", "okay", "ok", "right", "alright", "sure",
    "gotcha", "wow", "cool", "great", "good", "nice", "really", "exactly", "indeed", "interesting",
    "fine", "perfect", "absolutely", "definitely", "totally", "thanks", "well",
    "lovely", "awesome", "excellent", "brilliant", "wonderful",
    "understood", "agreed", "noted", "certainly", "precisely", "naturally", "obviously", "surely",
    "truly", "clearly", "seriously", "likewise", "righto", "gosh", "goodness", "cheers",
    "amazing", "fantastic", "fascinating", "impressive", "neat", "splendid", "superb", "sweet",
    "terrific", "marvellous", "marvelous", "bravo", "bingo", "aww", "aye", "ditto", "amen",
    "blimey",
})  # fmt: skip
BESIDE: Final = frozenset({
    "you", "so", "very", "quite", "i", "it", "all", "of", "that's", "that", "see", "true",
})  # fmt: skip
"""Words of assents that are none by themselves."""

HOW: Final = any_of(
    "so", "very", "quite", "really", "pretty", "rather", "totally", "absolutely", "perfectly",
    "completely", "just", "all", "most", "such", "truly", "entirely", "simply", "more than", "also",
    "certainly", "definitely", "about",
)  # fmt: skip
GOOD: Final = any_of(
    "good", "great", "nice", "fine", "cool", "lovely", "perfect", "brilliant", "excellent",
    "wonderful", "awesome", "amazing", "fantastic", "terrific", "superb", "splendid", "marvell?ous",
    "neat", "sweet", "super", "interesting", "fascinating", "impressive", "true", "right",
    "correct", "fair", "okay", "ok", "alright", "all right", "reasonable", "sensible",
    "useful", "helpful", "handy", "funny", "exciting", "promising", "encouraging", "smart",
    "clever", "wise", "solid", "decent", "remarkable", "incredible", "beautiful", "plausible",
    "understandable", "logical", "obvious", "surprising", "sad", "ace",
    "not (?:too |so |half )?bad",
)  # fmt: skip
THING: Final = any_of(
    "one", "call", "point", "idea", "job", "stuff", "deal", "thing", "work", "plan", "news",
    "thinking", "thought", "choice", "catch", "move", "answer", "question", "summary", "result",
    "results", "then", "to know", "to hear(?: that| it)?", "to see", "(?:by|with|for) me",
    "for (?:sure|you|him|her|them)", "indeed", "too",
)  # fmt: skip
IS: Final = any_of(
    "(?:that|it|this|you|they)(?:'s|'re| is| are| was| must be)",
    "(?:(?:that|it|this|they) )?(?:all )?(?:sounds?|looks?|seems?|feels?)",
)
AGREE: Final = any_of(
    "see", "know", "agree", "understand", "follow", "get", "hear", "believe", "remember", "bet",
    "like", "love", "appreciate", "(?:think|guess|suppose|imagine|hope|believe|thought|figured) so",
    "think (?:you're|you are) right", "(?:couldn't|could not) agree more",
    "guess", "suppose", "imagine", "gather", "(?:thought|figured) as much", "see why", "can tell",
    "(?:see|know|get) what you mean", "see your point", "know the feeling", "got",
)  # fmt: skip
FULLY: Final = any_of(
    "can", "do", "quite", "totally", "fully", "completely", "really", "definitely", "certainly",
    "also", "just", "absolutely",
)  # fmt: skip
MADE: Final = any_of(
    f"(?:what )?(?:an? )?(?:{HOW} |how )*{GOOD}(?: {THING})*",
    f"{IS} (?:{HOW} )*(?:an? |the )?(?:{HOW} )*{GOOD}(?: {THING})*",
    f"i (?:{FULLY} )*{AGREE}(?: (?:it|that|this|you|too|now|completely|entirely))*",
    "i(?:'m| am) (?:still |all )?(?:with you|following|listening|here|ears|impressed|glad|sure)",
    "i(?:'ll| will) (?:bet|say)|i(?:'d| would) (?:say so|think so|agree)",
    "so (?:do|am|did|was) i|i do(?: too)?",
    "(?:it|that|they) (?:sure|really|certainly|surely) (?:is|are|does|do|was|did)",
    "(?:what|that's|that is) (?:a |an )?(?:real )?(?:shame|pity|relief|surprise|treat)|too bad",
    "that's (?:too bad|for sure)|poor (?:thing|you)|good heavens|oh man|(?:just|quite) so|quite",
    "(?:i've |we've )?got (?:it|that|you|ya)",
    "(?:(?:that|it|this) )?(?:all )?(?:does )?makes? (?:perfect |total |good |a lot of )?sense",
    "(?:(?:that|it|this) )?(?:works|suits)(?: for)?(?: me)?",
    "(?:love|appreciate) (?:it|that|this)|like it|much appreciated|you got it",
    "(?:glad|happy|pleased|good) to hear(?: it| that)?",
    "thank you(?:(?: so| very)* much)?|thanks (?:a lot|so much|very much)|many thanks",
    "no (?:problem|worries|doubt|kidding|wonder)|without (?:a )?doubt|for (?:sure|certain|real)",
    "sure (?:thing|enough)|(?:fair|true) enough|you bet|point taken",
    "well (?:done|said|put)|very (?:well|much so)",
    "me too|same here|right (?:on|you are)|(?:spot|bang) on|hear hear|(?:so|too) true|too right",
    "roger(?: that)?|oke?y dokey|okie dokie|(?:all|that's|loud and|crystal) clear",
    "so (?:it is|it seems|i see|i hear|i gather)|as i thought|as expected|is that so",
    "(?:my|oh my|good) (?:goodness|gosh|god|word|lord|grief)|goodness (?:me|gracious)",
    "oh (?:my|boy|dear)",
    "there (?:we|you) (?:go|are)|you don't say|if you say so|you said it|with you|of course|i see",
)  # fmt: skip
ONE: Final = any_of(MADE, *sorted(ASSENTING), "h?m[hm]*(?:ok)?")
ASSENT: Final = re.compile(f"{ONE}(?: {ONE})*")
ASKED: Final = re.compile(r"^\W*(?:how|what|are)\b.*\?\W*$", re.IGNORECASE | re.DOTALL)
AT_MOST: Final = 6  # words of what is made up; who says more wants to be listened to
SPELLED: Final = re.compile(r"(?<![\w'])(?:[b-hj-z] )+[b-hj-z](?![\w'])")
"""As a recogniser writes "mhm": "M. H. M."."""

JOINING: Final = frozenset({
    "i", "you", "he", "she", "it", "we", "they", "me", "him", "her", "us", "them", "my", "your",
    "his", "its", "our", "their", "mine", "yours", "this", "that", "these", "those", "here",
    "there", "now", "then", "each", "and", "or", "but", "so", "as", "if", "the", "a", "an", "to",
    "of", "in", "at", "by", "for", "with", "from", "on", "into", "than", "too", "also", "just",
    "even", "still", "yet", "i'm", "you're", "he's", "she's", "it's", "we're", "they're", "that's",
    "there's", "i've", "you've", "we've", "i'll", "you'll", "we'll", "i'd", "let's", "is", "are",
    "was", "were", "be", "been", "am", "do", "does", "did", "has", "have", "had", "will", "would",
    "shall", "should", "can", "could", "may", "might", "must",
})  # fmt: skip
"""Words that join others."""

TELLING_NOTHING: Final = JOINING | ASSENTING | BESIDE


def is_assent(text: str) -> bool:
    """Return whether people say the text to show that they listen."""
    if ASKED.search(text):  # "how good?"
        return False
    words = set(_said(text).split())
    only = words <= ASSENTING | BESIDE and bool(words & ASSENTING or {"i", "see"} <= words)
    return only or agrees(text)


def agrees(text: str) -> bool:
    """Return whether it is phrased as an assent. Its words alone may be an order: "cool it"."""
    said = _said(text)
    is_short = said.count(" ") < AT_MOST
    return is_short and not ASKED.search(text) and ASSENT.fullmatch(said) is not None


def _said(text: str) -> str:
    return SPELLED.sub(lambda letters: letters[0].replace(" ", ""), plain(text.replace("-", " ")))


def says_nothing(text: str) -> bool:
    """Return whether there is nothing in the text to act on; assents are often misheard so."""
    return not text.rstrip().endswith("?") and set(plain(text).split()) <= TELLING_NOTHING


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
    if HOLDS.search(before):  # layer has-said-wait-or-stop
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

"""Words by which people show that they listen, and words as they are compared."""

from __future__ import annotations

import re
from typing import Final

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

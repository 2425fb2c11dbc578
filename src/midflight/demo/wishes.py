"""The rules of the demo model: a pure function from a person's words to wishes.

The demo model says that it is a set of rules. Words that it does not understand it answers with a
list of those that it does.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

KNOWS: Final = (
    "The demo model is a set of rules. It understands: “only EU” (or US, APAC), “only enterprise” "
    "(or team, starter), “top 20”, “also include trials”, “write it in three sentences”, “first "
    "tell me how many customers churned in March”, and “later: draft a slide”."
)
REGIONS: Final = {
    "EU": re.compile(r"\b(EU|Europe(an)?)\b", re.IGNORECASE),
    "US": re.compile(r"\b(USA?|U\.S\.|[Aa]merican?)(?!\w)"),  # "us" is a word of its own
    "APAC": re.compile(r"\b(APAC|Asian?|Pacific)\b", re.IGNORECASE),
}
PLANS: Final = {p: re.compile(rf"\b{p}s?\b", re.IGNORECASE) for p in ("enterprise", "starter")} | {
    "team": re.compile(r"\bteam (plan|customers?)\b|\bonly team\b", re.IGNORECASE)
}
EVERYWHERE: Final = re.compile(
    r"\b(all|every) regions?\b|\b(everywhere|worldwide)\b", re.IGNORECASE
)
ALL_PLANS: Final = re.compile(r"\b(all|every) plans?\b", re.IGNORECASE)
TRIALS: Final = re.compile(r"\btrials?\b", re.IGNORECASE)
WITHOUT: Final = re.compile(r"\b(no|not|without|exclude|leave out|drop)\b", re.IGNORECASE)
TOP: Final = re.compile(r"\b(?:top|first|worst) (\w+)\b", re.IGNORECASE)
ALL_OF_THEM: Final = re.compile(r"\b(all of them|everyone|everybody)\b", re.IGNORECASE)
SENTENCES: Final = re.compile(r"\b(\w+) sentences?\b", re.IGNORECASE)
SHORTER: Final = re.compile(r"\b(short|shorter|briefly|brief)\b", re.IGNORECASE)
LONGER: Final = re.compile(r"\b(longer|in full|in detail)\b", re.IGNORECASE)

HOW_MANY: Final = re.compile(
    r"\bhow (many|much)\b|\bcount\b|\bwhat('s| is) (the|our) (mrr|revenue)"
)
CHURNED: Final = re.compile(r"\b(churn(ed)?|left|leave|lost|cancelled)\b", re.IGNORECASE)
MONEY: Final = re.compile(r"\b(mrr|revenue|money|pay)\b", re.IGNORECASE)
SLIDE: Final = re.compile(r"\bslides?\b", re.IGNORECASE)
STATUS: Final = re.compile(r"\b(how (is it going|far)|status|what are you doing|progress)\b")
MEMO: Final = re.compile(r"\b(memo|churn|risk|report)\b", re.IGNORECASE)

NUMBERS: Final = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "fifteen": 15, "twenty": 20, "thirty": 30, "fifty": 50,
}  # fmt: skip
NAMES: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
TOP_MAX: Final = 400
SENTENCES_MAX: Final = 9


class Scope(Struct, frozen=True):
    """The customers that are looked at. Empty means all of them; ``top`` 0 means all at risk."""

    region: str = ""
    plan: str = ""
    trials: bool = False
    top: int = 0

    def words(self) -> str:
        """For people: ``the top 20 enterprise customers in the EU, trials included``."""
        who = customers(self.region, self.plan)
        top = f"the top {self.top} " if self.top else ""
        return f"{top}{who}, trials included" if self.trials else f"{top}paying {who}"


class Wishes(Struct, frozen=True):
    """The memo as it is wanted: whom it is about, and its length; ``sentences`` 0 means in full."""

    scope: Scope = Scope()
    sentences: int = 0

    def words(self) -> str:
        """For people."""
        style = f", in {counted(self.sentences, 'sentence')}" if self.sentences else ""
        return f"{self.scope.words()}{style}"


class Question(Struct, frozen=True):
    """A question to be counted: present customers, those who have left, or revenue."""

    kind: str
    month: str = ""  # its English name
    region: str = ""
    plan: str = ""


class Slide(Struct, frozen=True):
    """A slide to be drafted."""


class Status(Struct, frozen=True):
    """A question about how the work is going."""


class Unknown(Struct, frozen=True):
    """Words that the rules do not understand."""

    text: str

    def words(self) -> str:
        """Return the answer: that the words are not understood, and which ones are."""
        short = self.text if len(self.text) <= 80 else f"{self.text[:79]}…"
        return f"I do not understand “{short}”. {KNOWS}"


PROBES: Final = (Wishes(), Wishes(Scope("other", "other", trials=True, top=-1), sentences=-1))
"""Words that change neither of these two hold no wish for the memo."""

Heard = Wishes | Question | Slide | Status | Unknown


def understood(text: str, wishes: Wishes) -> Heard:
    """Interpret a person's words, given their wishes so far."""
    if HOW_MANY.search(text.lower()):
        return _question(text)
    if SLIDE.search(text):
        return Slide()
    if STATUS.search(text.lower()):
        return Status()
    wanted = _wishes(text, wishes)
    if MEMO.search(text) or any(_wishes(text, probe) != probe for probe in PROBES):
        return wanted  # perhaps the same wishes as before
    return Unknown(text)


def _question(text: str) -> Question:
    kind = "churned" if CHURNED.search(text) else "revenue" if MONEY.search(text) else "customers"
    month = next((name for name in NAMES if re.search(rf"\b{name}\b", text)), "")
    return Question(kind, month, _first(REGIONS, text), _first(PLANS, text))


def _wishes(text: str, wishes: Wishes) -> Wishes:
    scope = wishes.scope
    region = "" if EVERYWHERE.search(text) else _first(REGIONS, text) or scope.region
    plan = "" if ALL_PLANS.search(text) else _first(PLANS, text) or scope.plan
    trials = not WITHOUT.search(text) if TRIALS.search(text) else scope.trials
    top = 0 if ALL_OF_THEM.search(text) else _number(TOP, text, TOP_MAX) or scope.top
    said = _number(SENTENCES, text, SENTENCES_MAX) or (3 if SHORTER.search(text) else 0)
    sentences = 0 if LONGER.search(text) else said or wishes.sentences
    return replace(wishes, scope=Scope(region, plan, trials, top), sentences=sentences)


def _first(patterns: dict[str, re.Pattern[str]], text: str) -> str:
    return next((name for name, pattern in patterns.items() if pattern.search(text)), "")


def _number(pattern: re.Pattern[str], text: str, most: int) -> int:
    for found in pattern.findall(text):
        word = str(found).lower()
        number = int(word) if word.isdecimal() and len(word) < 6 else NUMBERS.get(word, 0)
        if number:
            return min(number, most)
    return 0


def customers(region: str, plan: str) -> str:
    """For people: ``enterprise customers in the EU``."""
    where = {"": "", "US": " in the US", "EU": " in the EU"}.get(region, f" in {region}")
    return f"{plan} customers{where}".strip()


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 task``, ``20 tasks``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"

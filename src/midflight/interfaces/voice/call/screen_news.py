"""News for a listener's screen while they talk. Plain data, for a page, a terminal or a log."""

from __future__ import annotations

from typing import Final, TypeAlias

from msgspec import Struct

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

"""The choices of a triage about messages, and what follows from them in their thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from midflight.conversation import ACTIONS, DEFER, INCORPORATE, SWITCH, Choice
from midflight.executor.foreign import text
from midflight.executor.front import finder
from midflight.kernel import front
from midflight.kernel.phases import Outcome
from midflight.kernel.record import Usage
from midflight.kernel.state import RunState
from midflight.kernel.thread import Message as Unread
from midflight.kernel.thread import Said, ThreadState
from midflight.stores.protocol import View

WORDS: Final = {
    INCORPORATE: "Noted. I take it into account in: {brief}",
    SWITCH: "I do this now, and then come back to: {brief}",
    DEFER: "Noted for later. I go on with: {brief}",
}


class Purse:
    """Hears what a triage spends."""

    def __init__(self) -> None:
        self.usage = Usage()

    def hear(self, text: str) -> None:
        """Drop what the call says on the way: it is for nobody."""

    def pay(self, usage: Usage) -> None:
        """One unknown price makes the sum unknown."""
        before = self.usage
        priced = usage.usd is not None and (before.usd is not None or not before.tokens)
        usd = (before.usd or 0.0) + (usage.usd or 0.0) if priced else None
        self.usage = Usage(tokens=before.tokens + usage.tokens, usd=usd)


class Chosen(msgspec.Struct, frozen=True):
    """The end of a triage: its attempt on record (0 if rules have chosen), and its choices."""

    attempt: int
    choices: tuple[Choice, ...] = ()
    outcome: Outcome = Outcome.DONE
    error: str = ""
    usage: Usage = Usage()


def is_open(talk: ThreadState, message: Unread) -> bool:
    """Return whether a message is still as it was when it was looked at."""
    now = talk.unread.get(message.position)
    return now is not None and not now.choice and now.text == message.text


def valid_choices(value: Any) -> tuple[Choice, ...]:
    """Return those of what a triage gave that are choices; it may have given anything.

    Their words are made storable, as all that code of others says.
    """
    try:
        made = list(value) if isinstance(value, Sequence) else []
        return tuple(_storable(c) for c in made if isinstance(c, Choice) and _can_be_meant(c))
    except Exception:  # noqa: BLE001 - code of the value's own class
        return ()


def _can_be_meant(choice: Choice) -> bool:
    return choice.action in ACTIONS and type(choice.message) is int


def _storable(choice: Choice) -> Choice:
    title = text(choice.title, front.TITLE_MAX)
    say, why = text(choice.say or ""), text(choice.why or "")
    return Choice(choice.message, choice.action, say=say, why=why, title=title)


def apply_choices(
    moves: front.Moves,
    view: View,
    talk: ThreadState,
    run: RunState,
    messages: list[Unread],
    chosen: Chosen,
    *,
    new: str,
) -> None:
    """Do with each message what was chosen for it; without a choice, incorporate it.

    Several messages that want to be done now become one new run. A message whose sender may not
    steer switches nothing.
    """
    by_message = {choice.message: choice for choice in reversed(chosen.choices)}
    now: list[Unread] = []
    said: dict[str, None] = {}
    why = ""
    for message in messages:
        choice = by_message.get(message.position) if message.who.role.steers else None
        choice = choice or Choice(message.position, INCORPORATE, why=chosen.error)
        match choice.action:
            case "switch":
                now.append(message)
                why = why or choice.why
            case "defer":
                front.defer(moves, talk, message, choice.title, choice.why)
            case _:
                front.incorporate(moves, talk, message.position, run.journal, choice.why)
        words = choice.say or WORDS[choice.action].format(brief=front.short(run.brief))
        said[words] = None
    untrusted = run.untrusted or not all(message.who.role.steers for message in messages)
    for each in said:
        words_said = Said(run=run.journal, text=each, kind="triage", untrusted=untrusted)
        moves.add(talk.journal, words_said)
    if now:
        front.switch(moves, talk, finder(view), now, front=run, new=new, why=why)

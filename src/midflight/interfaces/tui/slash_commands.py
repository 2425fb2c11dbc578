"""Commands behind a slash: verbs that are wanted too seldom for a place on the screen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import Struct

from midflight.control.ack import Ack
from midflight.errors import InvalidRequest
from midflight.journal.limits import limits_from
from midflight.journal.record import Actor, Limits
from midflight.view import RunSheet

if TYPE_CHECKING:
    from midflight.control.any_control import AnyControl


class Order(Struct, frozen=True):
    """A line as it was written: the word, what stands behind it, and what it is about."""

    control: AnyControl
    sheet: RunSheet
    named: dict[str, Actor]
    word: str
    rest: str

    @property
    def run(self) -> str:
        """The run in front."""
        return self.sheet.run

    @property
    def thread(self) -> str:
        """Its thread."""
        return self.sheet.thread

    @property
    def number(self) -> int:
        """The number that comes first."""
        first = self.rest.partition(" ")[0]
        if not first.isdecimal():
            raise InvalidRequest(f"{usage(self.word)}: N must be a number. Nothing was changed.")
        return int(first)

    @property
    def numbers(self) -> list[int]:
        """All numbers, with commas or spaces between them; the list may be empty."""
        parts = self.rest.replace(",", " ").split()
        if not all(part.isdecimal() for part in parts):
            raise InvalidRequest(f"{usage(self.word)}: N must be a number. Nothing was changed.")
        return [int(part) for part in parts]

    @property
    def more(self) -> str:
        """The text after the number."""
        return self.rest.partition(" ")[2].strip()


class Slash(NamedTuple):
    """A command: its verb, the arguments it wants, its action, and a question asked first."""

    verb: str
    wants: str
    do: Callable[[Order], Awaitable[Any]]
    asks: str = ""


def usage(word: str) -> str:
    """Return a command as it is written, with its arguments."""
    return f"/{word} {SLASH[word].wants}".rstrip()


def listed() -> str:
    """Return all commands there are, in one line."""
    return ", ".join(usage(word) for word in SLASH)


def _only(numbers: list[int], able: list[int], what: str) -> int:
    """Return the number that is named, or else the only one there is."""
    if numbers:
        return numbers[0]
    if len(able) != 1:
        some = ", ".join(map(str, able))
        how = f"name one {what}: {some}" if able else f"there is no {what} now"
        raise InvalidRequest(f"{how}. Nothing was changed.")
    return able[0]


def _stop(order: Order) -> Awaitable[Ack]:
    able = [flying.position for flying in order.sheet.in_flight if flying.can_be_stopped]
    effect = _only(order.numbers, able, "effect in flight that can be stopped")
    return order.control.stop_effect(order.run, effect)


def _decline(order: Order) -> Awaitable[Ack]:
    asked = [one.question for one in order.sheet.questions]
    question = _only(order.numbers, asked, "question to decline")
    return order.control.decline(order.run, question)


def _raise(order: Order) -> Awaitable[Ack]:
    return order.control.raise_limits(order.run, limits_of(order.rest))


async def _release(order: Order) -> bool:
    if not await order.control.release(order.rest, **order.named):
        raise InvalidRequest(f"no kill switch is on for {order.rest}. Nothing was changed.")
    return True


SLASH: Final[dict[str, Slash]] = {
    "aside": Slash("ask_aside", "TEXT", lambda o: o.control.ask_aside(o.run, o.rest)),
    "now": Slash("do_now", "N", lambda o: o.control.do_now(o.thread, o.number)),
    "remove": Slash("remove_todo", "N", lambda o: o.control.remove_todo(o.thread, o.number)),
    "order": Slash("reorder", "N,N", lambda o: o.control.reorder(o.thread, o.numbers)),
    "edit": Slash(
        "edit_message", "N TEXT", lambda o: o.control.edit_message(o.thread, o.number, o.more)
    ),
    "withdraw": Slash(
        "withdraw_message", "N", lambda o: o.control.withdraw_message(o.thread, o.number)
    ),
    "overrule": Slash(
        "overrule", "N CHOICE", lambda o: o.control.overrule(o.thread, o.number, o.more)
    ),
    "decline": Slash("decline", "[N]", _decline),
    "raise": Slash("raise_limits", "usd=4", _raise),
    "take-over": Slash("take_over", "", lambda o: o.control.take_over(o.run)),
    "hand-back": Slash("hand_back", "[TEXT]", lambda o: o.control.hand_back(o.run, o.rest)),
    "stop-effect": Slash("stop_effect", "[N]", _stop),
    "undo": Slash("undo", "[N,N]", lambda o: o.control.undo(o.run, o.numbers)),
    "kill": Slash(
        "kill",
        "SCOPE",
        lambda o: o.control.kill(o.rest, reason="", **o.named),
        asks="Stop everything in {} now? No undo and no saving.",
    ),
    "release": Slash("release", "SCOPE", _release),
}
"""Numbers are those that stand in the thread, among the todos and in the receipt."""


def limits_of(text: str) -> Limits:
    """Return the caps in a text such as ``usd=4 steps=200``."""
    pairs = [part.partition("=") for part in text.split()]
    if not all(value for _, _, value in pairs):
        raise InvalidRequest(f"{text!r} names no cap: write usd=4 steps=200. Nothing was changed.")
    return limits_from({name: value for name, _, value in pairs})

"""Compares the messages that a client sends with the thread: they may have been cut or changed.

A thread is a record that everybody in it shares, and its runs have acted on it: it can be added to,
not rewritten. A client that asks for something else is told so; nothing is added or left out
silently. What the client has seen is in the state that it sends back, so one that is only behind
is not taken for one that has cut something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from midflight.control import Control
from midflight.errors import JournalNotFound
from midflight.interfaces.agui.agui_events import KEY, is_ours
from midflight.interfaces.agui.agui_input import Input, Said
from midflight.journal.threads import thread as t

UNCHANGED = "Nothing was changed."


class Known(Struct):
    """A message of the thread, under the id by which its reader knows it."""

    position: int
    texts: set[str]
    own: bool
    withdrawn: bool = False


async def messages_of(control: Control, thread: str, reader: str) -> dict[str, Known]:
    """Read the messages of people in a thread, in their order."""
    found: dict[str, Known] = {}
    ids: dict[int, str] = {}
    after = 0
    try:
        while page := await control.store.read(thread, after=after):
            after = page[-1].position
            for record in page:
                match record.event:
                    case t.MessageSent(who=who, key=key, text=text):
                        own = key.startswith(KEY) and who.by == reader
                        known = key.removeprefix(KEY) if own else f"{thread}:{record.position}"
                        ids[record.position] = known
                        found[known] = Known(record.position, {text}, own)
                    case t.MessageEdited(message=message, text=text):
                        found[ids[message]].texts.add(text)
                    case t.MessageWithdrawn(message=message):
                        found[ids[message]].withdrawn = True
                    case _:
                        pass
    except JournalNotFound:
        pass  # nothing was said here yet
    return found


def new_in(messages: Sequence[Said], known: Mapping[str, Known]) -> list[Said]:
    """Return what the thread does not have yet."""
    return [one for one in messages if one.id not in known and not is_ours(one.id)]


def objection(given: Input, known: Mapping[str, Known]) -> str:
    """Say in which way the client has changed the thread; empty if it has not."""
    listed = [one for one in given.messages if one.id in known]
    for one in listed:
        if one.text not in known[one.id].texts:
            return (
                f"Message {one.id} was changed. What was said in a thread stays as it was said, "
                f"for runs have acted on it: say at its end what you want instead. {UNCHANGED}"
            )
    if new_in(given.messages, known) and (missing := _left_out(given, known)):
        return (
            f"What was sent has new words, but {_count(missing)} of yours in this thread left out. "
            "A thread cannot be cut, for runs have acted on what was said: say it at the end, or "
            f"begin another thread. {UNCHANGED}"
        )
    return ""


def _left_out(given: Input, known: Mapping[str, Known]) -> list[str]:
    """Return the sender's own messages that they have seen and do not send any more.

    A list may begin late: only what is missing after its first message counts. A client that sends
    no state is taken to have seen all of the thread if it sends any message of it, else nothing.
    """
    listed = {one.id for one in given.messages}
    first = min((known[name].position for name in listed & known.keys()), default=0)
    nothing = 0 if not first else max(one.position for one in known.values())
    seen = given.seen if given.seen is not None else nothing
    return [
        name
        for name, one in known.items()
        if one.own and not one.withdrawn and first < one.position <= seen and name not in listed
    ]


def notices(given: Input, known: Mapping[str, Known]) -> list[str]:
    """Say what differs without harm: a part of the thread was sent, or in another order.

    Another order is no objection: a stock client that was behind keeps its own order for good.
    """
    said: list[str] = []
    places = [known[one.id].position for one in given.messages if one.id in known]
    if places != sorted(places):
        said.append("the messages were sent in another order than they were said; that one holds")
    listed = {one.id for one in given.messages}
    missing = [name for name, one in known.items() if name not in listed and not one.withdrawn]
    if missing and new_in(given.messages, known):
        said.append(
            f"this thread has {_count(missing)} that what was sent has not; the new words were "
            "added at the end"
        )
    return said


def asks_again(given: Input, known: Mapping[str, Known]) -> bool:
    """Return whether the last message is in the thread already: its sender wants a new answer."""
    return given.ends_with_user and bool(given.messages) and given.messages[-1].id in known


def no_second_answer(run: str) -> str:
    """Say that an answer is not made again."""
    fork = f", or fork its run with POST /v1/runs/{run}/fork" if run else ""
    return (
        "You ask for another answer to a message that this thread has dealt with. Its run may have "
        "done things in the world, so it is not begun again by itself: say in a new message what "
        f"should be different{fork}. The conversation is shown as it stands. {UNCHANGED}"
    )


def _count(messages: Sequence[str]) -> str:
    return "one message" if len(messages) == 1 else f"{len(messages)} messages"

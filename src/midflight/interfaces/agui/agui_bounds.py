"""Bounds the bytes that an AG-UI stream reads of the past of its thread, and sends of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ag_ui.core import AssistantMessage, Message, MessagesSnapshotEvent, ToolMessage

from midflight.errors import JournalNotFound
from midflight.journal.record import Recorded
from midflight.stores.lookup import Journals
from midflight.stores.watch.subscription import weight

LOOK_BACK_BYTES_MAX: Final = 8 * 1024 * 1024  # of runs that have ended, beside the newest
MESSAGES_BYTES_MAX: Final = 1024 * 1024  # of the messages in a snapshot; a larger one goes alone
FRAME: Final = 100  # bytes of a message beside its words

RUNS_LEFT_OUT: Final = (
    "this thread has more than is read at once: of its older runs only what was said is shown"
)
MESSAGES_LEFT_OUT: Final = (
    "this conversation is longer than is sent at once: its oldest messages are left out, and "
    "GET /v1/threads/ID/transcript has them"
)


async def read_within(
    store: Journals, journal: str, after: int = 0, *, most: float = float("inf")
) -> list[Recorded]:
    """Read a journal; no further than where it holds more than ``most`` bytes."""
    found: list[Recorded] = []
    try:
        while page := await store.read(journal, after=after + len(found)):
            found += page
            most -= sum(map(weight, page))
            if most < 0:
                break
    except JournalNotFound:
        pass  # nothing was said here yet
    return found


def snapshot_of(messages: Sequence[Message], left_out: list[str]) -> MessagesSnapshotEvent:
    """Return a snapshot of the newest messages; what is left out is noted once in ``left_out``."""
    shown = newest_within(messages, MESSAGES_BYTES_MAX)
    if len(shown) < len(messages) and MESSAGES_LEFT_OUT not in left_out:
        left_out.append(MESSAGES_LEFT_OUT)
    return MessagesSnapshotEvent(messages=shown)


def newest_within(messages: Sequence[Message], most: int) -> list[Message]:
    """Return the newest messages, as many as ``most`` bytes hold, or one; no result without a call.

    The newest one is always there.
    """
    size, first = 0, len(messages)
    for place in range(len(messages) - 1, -1, -1):
        size += _bytes_of(messages[place])
        if size > most and first < len(messages):
            break
        first = place
    if first:
        while first < len(messages) - 1 and isinstance(messages[first], ToolMessage):
            first += 1
    return list(messages[first:])


def _bytes_of(message: Message) -> int:
    words = [message.content] if isinstance(message.content, str) else []
    if isinstance(message, AssistantMessage):
        words += [call.function.arguments for call in message.tool_calls or ()]
    return FRAME + sum(len(text.encode()) for text in words)

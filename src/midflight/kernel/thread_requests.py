"""The checks of requests to a thread that its rules alone do not make."""

from __future__ import annotations

from typing import Final

from midflight.errors import InvalidRequest, NotAllowed
from midflight.kernel import thread as t
from midflight.kernel.phases import rank
from midflight.kernel.record import Actor, Request

CHOICES: Final = ("incorporate", "switch", "defer", "back", "undo")
"""The choices that a person can make about a message."""


def check_request(state: t.ThreadState, request: Request, *, read_at_once: bool) -> None:
    """Raise, with what is accepted instead, unless the thread takes this request as it is."""
    if isinstance(request, t.WORDED) and not request.text.strip():
        raise InvalidRequest(f"a message to {state.journal} needs a text. It was not stored.")
    if isinstance(request, t.MessageSent) and not read_at_once:
        _room(state, request.who)
    if isinstance(request, t.MessageEdited | t.MessageWithdrawn):
        _own(state, request)
    if isinstance(request, t.ChoiceOverruled):
        _overrulable(state, request)


def _overrulable(state: t.ThreadState, request: t.ChoiceOverruled) -> None:
    if request.choice not in CHOICES:
        raise InvalidRequest(
            f"{request.choice!r} is no choice; use one of {', '.join(CHOICES)}. Nothing was "
            "changed."
        )
    if request.message not in state.unread and request.message not in state.read:
        raise InvalidRequest(
            f"there is no message {request.message} in {state.journal} that can be overruled: "
            "only the last ones can. Nothing was changed."
        )


def _room(state: t.ThreadState, who: Actor) -> None:
    """Raise ``InvalidRequest`` if too many messages are unread, or too many of those by viewers."""
    unread, whose = len(state.unread), ""
    full = unread >= t.UNREAD_MAX
    if not full and not who.role.steers:
        unread = sum(not message.who.role.steers for message in state.unread.values())
        full, whose = unread >= t.VIEWERS_MAX, f" of {who.role}s"
    if full:
        raise InvalidRequest(
            f"{state.journal} has {unread} unread messages{whose}; wait until the agent has "
            "read some. This one was not stored."
        )


def _own(state: t.ThreadState, request: t.MessageEdited | t.MessageWithdrawn) -> None:
    """Raise ``NotAllowed`` unless the sender asks, with at least the role that the message has."""
    message, who = state.unread.get(request.message), request.who
    if message is None:
        return
    if who.by != message.who.by or rank(who.role) < rank(message.who.role):
        sender = f"its sender, {message.who.by}, as a {message.who.role}"
        raise NotAllowed(who.by, who.role, "changing this message", sender)

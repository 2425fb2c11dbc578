"""A person's turn in a conversation: what they have written, and the run that is to answer it.

One decision over the thread and its runs, so that two turns at once never begin two runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from midflight.errors import InvalidRequest
from midflight.kernel import events as e
from midflight.kernel.decide import Known, decide
from midflight.kernel.phases import Cause, Role
from midflight.kernel.record import Event, key_of
from midflight.kernel.state import RunState
from midflight.kernel.thread import FrontChanged, MessageSent, ThreadCreated, ThreadState
from midflight.stores.protocol import Draft, View, Widen

BUSY: Final = "busy"
STARTED: Final = "started"
IDLE: Final = "idle"


class Taken(Struct, frozen=True):
    """The run a turn belongs to: it was ``started`` for it, is ``busy`` already, or there is none.

    ``new`` are the messages that the thread did not have yet, with their positions where they were
    written down here; where the run is ``busy``, the caller sends them afterwards.
    """

    run: str
    how: str
    new: tuple[MessageSent, ...] = ()
    positions: tuple[int, ...] = ()


def take(
    view: View,
    created: e.RunCreated,
    messages: Sequence[MessageSent],
    *,
    to_front: FrontChanged,
    beside: str,
) -> Draft:
    """Begin a run for what is unread, unless something is in front already.

    ``to_front`` names the new run; if that is there already it was begun by this same turn.
    ``beside`` is a run of the thread that may live, in case that the thread does not name it.
    """
    run, talk = to_front.run, view.states[created.thread]
    assert isinstance(talk, ThreadState)
    new = tuple(message for message in messages if key_of(message) not in talk.keys)
    if view.states[run].head:
        return Draft(note=Taken(run, BUSY, new))
    if (busy := _busy(view, talk, beside)) is not None:
        _same_agent(busy, created)
        return Draft(note=Taken(busy.journal, BUSY, new))
    waiting = [m for m in talk.unread.values() if m.who.role is not Role.VIEWER]
    if not waiting and not new:
        return Draft(note=Taken("", IDLE))
    opening: tuple[Event, ...] = () if talk.head else (ThreadCreated(who=created.who),)
    before = talk.head + len(opening)
    positions = tuple(range(before + 1, before + 1 + len(new)))
    taken = (*(message.position for message in waiting), *positions)
    brief = "\n".join([*(m.text for m in waiting), *(m.text for m in new)])
    begun = replace(created, brief=brief, messages=taken, thread_at=talk.head)
    verdict = decide(view.states[run], begun, switches=view.switches)
    assert not isinstance(verdict, Known)
    read = e.MessagesTaken(run=run, upto=max(taken), messages=taken)
    said = (*opening, *new, to_front, read)
    return Draft({run: verdict, talk.journal: said}, Taken(run, STARTED, new, positions))


def _busy(view: View, talk: ThreadState, front: str) -> RunState | None:
    """The run that answers in this thread now: one that is parked does not."""
    named = [run for run in dict.fromkeys((talk.front, front)) if run]
    if missing := [run for run in named if run not in view.states]:
        raise Widen(*missing)
    for state in (view.states[run] for run in named):
        if isinstance(state, RunState) and state.alive and Cause.PARKED not in state.holds:
            return state
    return None


def _same_agent(busy: RunState, created: e.RunCreated) -> None:
    if busy.agent != created.agent:
        raise InvalidRequest(
            f"{created.thread} is busy with run {busy.journal} of agent {busy.agent}, so "
            f"{created.agent} cannot answer there now. Nothing was changed."
        )

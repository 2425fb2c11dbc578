"""A turn: one AG-UI request, compared with its thread, understood and done.

A thread is a record that everybody in it shares, and its runs have acted on it: it can be added to,
not rewritten. A client that asks for something else is told so; nothing is added or left out
silently. What the client has seen is in the state that it sends back, so one that is only behind
is not taken for one that has cut something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ag_ui.core import BaseEvent, CustomEvent
from msgspec import Struct

from midflight import audit
from midflight.agents import Agent
from midflight.audit import deed
from midflight.control import Control
from midflight.control import Turn as Conversed
from midflight.control.audit_trail import record_undone, repeats_not_recorded
from midflight.errors import JournalNotFound
from midflight.inputs import new_id
from midflight.interfaces.agui import agui_resume
from midflight.interfaces.agui.agui_events import KEY, is_ours
from midflight.interfaces.agui.agui_input import Input, Said
from midflight.interfaces.agui.agui_resume import Answer, Receipt
from midflight.journal import events as e
from midflight.journal.phases import ENDS, Cause, Role
from midflight.journal.record import Actor, Recorded
from midflight.journal.state import RunState
from midflight.journal.threads import thread as t
from midflight.stores.lookup import Journals, thread_if_any
from midflight.stores.protocol import Query
from midflight.stores.subscription import weight

PROTOCOL: Final = "1.0"
RECEIPT: Final = "midflight:receipt"
WARNING: Final = "midflight:warning"
VIEWER: Final = "onDisconnect was ignored: a viewer who leaves changes nothing"
LOOK_BACK_BYTES_MAX: Final = 8 * 1024 * 1024  # of runs that have ended, beside the newest
RUNS_LEFT_OUT: Final = (
    "this thread has more than is read at once: of its older runs only what was said is shown"
)
UNCHANGED: Final = "Nothing was changed."


class Turn(Struct, frozen=True):
    """An AG-UI run: its names there, the thread and the run that it is about here.

    No run: there is nothing to do, and the stream only shows how the thread stands.
    """

    thread_id: str
    run_id: str
    thread: str
    run: str
    agent: Agent
    who: Actor
    receipts: Sequence[Receipt] = ()
    warnings: Sequence[str] = ()
    sent: Sequence[int] = ()  # messages to a run that was at work already
    since: Mapping[str, int] = {}  # journal -> where it was when this turn was taken
    old: bool = False  # the client is of version 0
    resumed: bool = False  # the client has sent answers to interrupts
    fresh: bool = False  # the client has nothing of the thread yet
    misfits: Mapping[str, str] = {}  # interrupt -> why its answer was not taken; "": of none
    refusal: str = ""  # why nothing was done: the thread is only shown as it is
    follow: bool = False  # the client wants to hear of what is done in the thread afterwards


async def take_turn(control: Control, agent: Agent, given: Input, who: Actor) -> Turn:
    """Do what the input asks for, and say which run is to be followed.

    First it is understood, then messages are stored, and then answers are given: a resume then
    tells the run what was written while it was paused.
    """
    thread = given.journal
    known = await messages_of(control, thread, who.by)
    if refusal := objection(given, known):
        await _record(control, agent, who, audit.REFUSED, "history_changed")
        return _refused(agent, given, who, refusal)
    answers = await agui_resume.understand(control, thread, given.resume, given.misread)
    with repeats_not_recorded():
        turn = await _converse(control, agent, given, who, known)
    looks = not (given.resume or given.misread or given.follow or who.role is Role.VIEWER)
    if looks and not turn.run and asks_again(given, known):
        await _record(control, agent, who, audit.REFUSED, "answered_before")
        last = await newest_of(control, thread)
        return _refused(agent, given, who, no_second_answer(last))
    sent = [Receipt("send", "accepted", m.run, m.position, m.status) for m in turn.messages]
    since = await _places(control, thread, turn, answers)
    given_back = await agui_resume.give(control, answers, given.run, who)
    if not (turn.started or turn.messages or answers):
        await _record(control, agent, who, audit.REPEATED)
    named = next((answer.state.journal for answer in answers if answer.state is not None), "")
    return Turn(
        given.thread,
        given.run,
        thread,
        run=turn.run if turn.started else named or turn.run,
        since=since,
        agent=agent,
        who=who,
        receipts=sent + given_back,
        warnings=[
            *given.warnings,
            *([VIEWER] if given.on_disconnect and who.role is Role.VIEWER else []),
            *notices(given, known),
            *agui_resume.told_about(answers, given_back),
        ],
        sent=[] if turn.started else [message.position for message in turn.messages],
        old=given.old,
        resumed=bool(given.resume or given.misread),
        fresh=given.fresh,
        misfits=agui_resume.misfits(answers, given_back),
        follow=given.follow,
    )


async def _converse(
    control: Control, agent: Agent, given: Input, who: Actor, known: Mapping[str, Known]
) -> Conversed:
    """Send the messages that are new. A viewer who sends none begins no run either."""
    said = [(KEY + m.id, m.text) for m in given.messages if not is_ours(m.id)]
    if who.role is Role.VIEWER and not new_in(given.messages, known):
        return Conversed(await front_of(control, given.journal))
    return await control.converse(agent, given.journal, said, key=KEY + given.run, who=who)


async def _record(control: Control, agent: Agent, who: Actor, outcome: str, why: str = "") -> None:
    """Put a turn into the audit in which nobody has said or answered anything new."""
    asked = deed("converse", agent.name, id=new_id(), who=who, outcome=outcome, why=why)
    await record_undone(control, asked)


def _refused(agent: Agent, given: Input, who: Actor, why: str) -> Turn:
    """Return a turn that shows the thread as it is, and says why nothing was done."""
    return Turn(
        given.thread,
        given.run,
        given.journal,
        run="",
        agent=agent,
        who=who,
        warnings=given.warnings,
        old=given.old,
        resumed=bool(given.resume or given.misread),
        refusal=why,
    )


async def _places(
    control: Control, thread: str, turn: Conversed, answers: Sequence[Answer]
) -> dict[str, int]:
    """Return the positions after which events are told as they come; before them is history.

    What the client has sent is history: it has that already.
    """
    found = {answer.state.journal: answer.state.head for answer in answers if answer.state}
    if turn.started:
        found[turn.run] = 1
    if found:
        said = [sent.position for sent in turn.messages]
        found[thread] = max(said) if said else (await control.store.row(thread)).head
    return found


# ── the thread that it is about ───────────────────────────────────────────────────────────────


async def front_of(control: Control, thread: str) -> str:
    """Return the run that a thread is about now; empty where none is alive.

    Looking begins nothing: also a viewer may do it.
    """
    rows = await control.store.rows(Query(thread=thread))
    talk = await thread_if_any(control.store, thread)
    named = talk.front if talk is not None else ""
    living = [row.journal for row in rows if not row.parent and row.phase not in ENDS]
    for run in (named, *living):
        if run in living and Cause.PARKED not in (await control.state(run)).holds:
            return run
    return ""


async def newest_of(control: Control, thread: str) -> str:
    """Return the run of a thread that was begun last, whether it lives or not."""
    rows = await control.store.rows(Query(thread=thread))
    return next((row.journal for row in rows if not row.parent), "")


def in_order(records: Sequence[Recorded], thread: str) -> list[Recorded]:
    """Put records of a thread and its runs into the order in which a client is told of them.

    Of what came at the same time the thread's records are first. But what is said at the end of a
    run comes after all that led to it, and before that end.
    """
    ends = {(r.at, r.journal): r.position for r in records if isinstance(r.event, e.RunFinished)}
    ended_at = {at for at, _ in ends}

    def place(record: Recorded) -> tuple[float, int, int]:
        at, position = record.at, record.position
        if record.journal == thread:  # layer words-of-end-after-what-led-to
            return at, 2 if at in ended_at else 0, position
        return at, 1 if position < ends.get((at, record.journal), 0) else 3, position

    return sorted(records, key=place)


def led_to(records: Sequence[Recorded], at: float) -> list[Recorded]:
    """Return the records of a run that come before what was said of it at a time."""
    for place, record in enumerate(records):
        if record.at == at and isinstance(record.event, e.RunFinished):
            return [*records[:place]]  # layer words-of-end-heard-after-what-led-to
    return [record for record in records if record.at < at]


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
    for record in await read_within(control.store, thread):
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
    # layer conversation-cut-not-added
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
        said.append("your client sent the messages in another order; the thread keeps its own")
    listed = {one.id for one in given.messages}
    missing = [name for name, one in known.items() if name not in listed and not one.withdrawn]
    if missing and new_in(given.messages, known):
        said.append(
            f"this thread has {_count(missing)} that your client did not send; its new words were "
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


# ── receipts ──────────────────────────────────────────────────────────────────────────────────


class Receipts:
    """Receipts for controls: each is told when its status changes."""

    def __init__(self) -> None:
        self._delivered: dict[tuple[str, int], str] = {}

    def told(self, runs: Mapping[str, RunState]) -> list[BaseEvent]:
        """Return receipts for controls whose status changed: accepted, applied, superseded."""
        told: list[BaseEvent] = []
        for run, state in runs.items():
            for position, delivery in state.deliveries.items():
                if self._delivered.get((run, position)) != delivery.status:
                    self._delivered[run, position] = delivery.status
                    value = {
                        "run": run,
                        "verb": delivery.verb,
                        "status": delivery.status,
                        "position": position,
                        "at": delivery.at,
                    }
                    told.append(CustomEvent(name=RECEIPT, value=value))
        return told

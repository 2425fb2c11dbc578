"""Decides which run a thread is about, and what comes next when that run is over.

The decisions are pure functions of a thread and the runs that it names. A person's verb, a driver
whose run ends or whose triage has chosen, and the sweep after a crash share them. Each gives the
events of one transaction; since all of them look under the same locks, no two take the same todo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from midflight.journal import events as e
from midflight.journal.phases import Cause, Phase
from midflight.journal.record import Event
from midflight.journal.state import RunState
from midflight.journal.status import place
from midflight.journal.threads import thread as t

Find = Callable[[str], RunState | None]
"""A run by its id, as of this moment under lock; None when it was purged."""

TITLE_MAX: Final = 80
TOLD_MAX: Final = 3  # messages that are named in one line


class Moves:
    """Events of one transaction, by journal, in the order in which they are to stand."""

    def __init__(self) -> None:
        self.events: dict[str, list[Event]] = {}

    def add(self, journal: str, *events: Event) -> None:
        """Add events at the end of a journal."""
        self.events.setdefault(journal, []).extend(events)


def is_free(talk: t.ThreadState, find: Find, ended: str = "") -> bool:
    """Return whether nothing is in front: its run has ended (just now: ``ended``), or is parked."""
    if not talk.front or talk.front == ended:
        return True
    run = find(talk.front)
    return run is None or not run.alive or Cause.PARKED in run.holds  # layer front-taken-only


def open_messages(talk: t.ThreadState) -> list[t.Message]:
    """Return the unread messages about which nothing was chosen yet."""
    return [message for message in talk.unread.values() if not message.choice]


def is_spoken_to(talk: t.ThreadState, run: RunState) -> bool:
    """Return whether a run that waits for a person has messages to look at meanwhile."""
    waits = run.phase is Phase.WAITING and is_host(talk, run)
    return waits and talk.front == run.journal and bool(open_messages(talk))


def is_host(talk: t.ThreadState, run: RunState) -> bool:
    """Return whether the run's agent is the one that answers in the thread."""
    return talk.host is not None and talk.host.agent == run.agent


def readable(talk: t.ThreadState, run: str, *, converses: bool) -> tuple[int, ...]:
    """The unread messages that a run is given, and what its background runs report to it.

    To one that converses, those that were chosen for it. Others read what comes, unless the thread
    is somebody else's.
    """
    reports = [position for position, to in talk.reports.items() if to == run]
    if converses:
        chosen = (m for m in talk.unread.values() if m.choice == "incorporate")
        # layer messages-for-parked-run-wait
        return tuple(sorted([*reports, *(m.position for m in chosen if m.run == run)]))
    elsewhere = talk.host is not None and talk.front not in {"", run}
    takes = {run} if elsewhere else {"", run}
    mine = (m.position for m in talk.unread.values() if m.run in takes)
    return tuple(sorted([*reports, *mine]))


# ── beginning, parking, coming back ──────────────────────────────────────────────────────────


def begin(
    moves: Moves,
    talk: t.ThreadState,
    find: Find,
    *,
    new: str,
    messages: Sequence[t.Message],
) -> None:
    """The next run of the thread's host, in front, for these messages."""
    host = talk.host
    assert host is not None
    assert all(message.who.role.steers for message in messages)  # or data would become a brief
    before = find(talk.front) if talk.front else None
    same = before is not None and before.agent == host.agent
    moves.add(
        new,
        e.RunCreated(
            who=messages[-1].who,
            agent=host.agent,
            thread=talk.journal,
            brief="\n".join(message.text for message in messages),
            mode=host.mode,
            limits=host.limits,
            profile=before.profile if before is not None and same else "",
            converses=True,
            asides=host.asides,
            thread_at=talk.head,
            messages=tuple(message.position for message in messages),
        ),
    )
    moves.add(talk.journal, t.FrontChanged(run=new))


def take(moves: Moves, talk: t.ThreadState, run: str, messages: Iterable[t.Message]) -> None:
    """Messages are read by a run that was begun for them."""
    taken = tuple(message.position for message in messages)
    moves.add(talk.journal, e.MessagesTaken(run=run, upto=max(taken), messages=taken))


def park(moves: Moves, talk: t.ThreadState, run: RunState, *, why: str, until: str) -> None:
    """Hold a run as a pause does, with a todo that brings it back after the run ``until``."""
    moves.add(run.journal, e.HoldPlaced(cause=Cause.PARKED, why=why))
    moves.add(
        talk.journal,
        t.TodoAdded(
            kind="parked",
            text=f"resume {short(run.title or run.brief)} from {place(run)}",
            run=run.journal,
            note=_note(talk, run),
            until=until,
        ),
    )


def _note(talk: t.ThreadState, run: RunState) -> str:
    """Enough for a person to know where it was; the run itself knows all of it."""
    done, plan = max(0, run.spent.steps - run.plan_from), run.plan
    lines = [f"Brief: {run.brief}"]
    if plan:
        lines.append(f"Plan: {', '.join(plan)}; {min(done, len(plan))} of {len(plan)} done")
    if talk.last_said and talk.front == run.journal:
        lines.append(f"Last said: {talk.last_said}")
    return "\n".join(lines)


def bring_back(moves: Moves, talk: t.ThreadState, todo: t.Todo, why: str) -> None:
    """A parked run comes to the front again."""
    moves.add(todo.run, e.HoldLifted(cause=Cause.PARKED, why=why))
    moves.add(
        talk.journal, t.TodoTaken(todo=todo.position, run=todo.run), t.FrontChanged(run=todo.run)
    )


def is_parked(todo: t.Todo, find: Find) -> bool:
    """Return whether the run of a todo is alive and still parked."""
    run = find(todo.run)
    return run is not None and run.alive and Cause.PARKED in run.holds


def begin_todo(moves: Moves, talk: t.ThreadState, find: Find, todo: t.Todo, *, new: str) -> str:
    """A deferred message is taken up by a new run of its sender. If it cannot be: why not."""
    message = talk.read.get(todo.message)
    if message is None:
        return "its message is not known"
    if not message.who.role.steers:
        return f"its message is a {message.who.role}'s"
    moves.add(talk.journal, t.TodoTaken(todo=todo.position, run=new))
    begin(moves, talk, find, new=new, messages=[message])
    return ""


# ── what comes next ──────────────────────────────────────────────────────────────────────────


def go_on(
    moves: Moves, talk: t.ThreadState, find: Find, *, new: str, ended: str = ""
) -> list[t.Message]:
    """If the front is free: unread messages begin the next run, or else the next todo is taken.

    Gives the messages that have begun one.
    """
    if not is_free(talk, find, ended):
        return []
    waiting = left_messages(talk, find, ended)
    if talk.host is not None and waiting:
        _own_up(moves, talk, find, waiting, "It is done now in a run of its own.")
        begin(moves, talk, find, new=new, messages=waiting)
        take(moves, talk, new, waiting)
        return waiting
    _next_todo(moves, talk, find, new=new, ended=ended)
    return []


def _next_todo(moves: Moves, talk: t.ThreadState, find: Find, *, new: str, ended: str) -> None:
    for todo in talk.next_todos:
        if todo.run == ended and ended:
            continue
        if todo.kind == "parked" and is_parked(todo, find):  # layer run-gone-not-brought-back
            bring_back(moves, talk, todo, "what it was parked for is over")
            return
        why = "its run has ended"
        if todo.kind != "parked":
            if talk.host is None:
                continue
            why = begin_todo(moves, talk, find, todo, new=new)
        if not why:
            return
        moves.add(talk.journal, t.TodoDropped(todo=todo.position, why=why))


def after_end(
    moves: Moves, talk: t.ThreadState, find: Find, *, new: str, ended: str, stopped: bool
) -> None:
    """A run ends: its own todo is gone, messages it has not read are open again, and so on.

    While an operator has stopped the thread nothing begins; the sweep looks again after that.
    """
    for todo in talk.todos.values():
        if todo.run == ended and todo.kind == "parked":
            moves.add(talk.journal, t.TodoDropped(todo=todo.position, why="its run has ended"))
    left = [m for m in talk.unread.values() if m.run == ended]  # layer ended-run-has-not-read
    for message in left:
        moves.add(talk.journal, t.MessageTriaged(message=message.position, choice=""))
    begun = go_on(moves, talk, find, new=new, ended=ended) if not stopped else []
    _own_up(moves, talk, find, [m for m in left if m not in begun], "It is kept, and still open.")
    if talk.host is None:
        _tell_unread(moves, talk, find(ended))


def _own_up(
    moves: Moves, talk: t.ThreadState, find: Find, messages: Iterable[t.Message], now: str
) -> None:
    """People were told that a run takes these into account, and it has ended without."""
    for message in messages:
        run = find(message.run) if message.choice == "incorporate" and message.run else None
        if run is not None:  # layer message-to-taken-into-account
            text = f"{_called(run)} ended before it read {short(message.text)!r}. {now}"
            moves.add(talk.journal, _told(run, text, [message]))


def _tell_unread(moves: Moves, talk: t.ThreadState, run: RunState | None) -> None:
    """Say which messages a run left unread: only an agent that looks for messages reads them."""
    if run is None or talk.front not in {"", run.journal} or run.aside_of:
        return
    unread = [m for m in talk.unread.values() if m.position > run.thread_at and not m.run]
    if unread:
        words = ", ".join(repr(short(message.text)) for message in unread[:TOLD_MAX])
        more = f" and {len(unread) - TOLD_MAX} more" if len(unread) > TOLD_MAX else ""
        text = f"{_called(run)} ended without reading {words}{more}. Nothing was done about it."
        moves.add(talk.journal, _told(run, text, unread[:TOLD_MAX]))


def _told(run: RunState, text: str, messages: Iterable[t.Message]) -> t.Said:
    """Return words about messages, untrusted if the run is, or if a sender may not steer."""
    clean = not run.untrusted and all(message.who.role.steers for message in messages)
    return t.Said(run=run.journal, text=text, kind="triage", untrusted=not clean)


def _called(run: RunState) -> str:
    return repr(short(run.title or run.brief))


def left_messages(talk: t.ThreadState, find: Find, ended: str = "") -> list[t.Message]:
    """Return the unread messages of people who may steer that no living run is to read."""
    # layer viewer-message-begins-nothing
    return [m for m in talk.unread.values() if m.who.role.steers and _is_left(m, find, ended)]


def _is_left(message: t.Message, find: Find, ended: str) -> bool:
    """Return whether no living run is to read the message."""
    if not message.run or message.run == ended:
        return True
    run = find(message.run)
    return run is None or not run.alive


# ── what was chosen ──────────────────────────────────────────────────────────────────────────


def incorporate(moves: Moves, talk: t.ThreadState, message: int, run: str, why: str = "") -> None:
    """``run`` reads it after what it is doing."""
    moves.add(
        talk.journal,
        t.MessageTriaged(message=message, choice="incorporate", run=run, why=why),
    )


def defer(moves: Moves, talk: t.ThreadState, message: t.Message, title: str, why: str = "") -> None:
    """It becomes a todo."""
    moves.add(
        talk.journal,
        t.MessageTriaged(message=message.position, choice="defer", why=why),
        t.TodoAdded(kind="deferred", text=title or short(message.text), message=message.position),
    )


def switch(
    moves: Moves,
    talk: t.ThreadState,
    find: Find,
    messages: Sequence[t.Message],
    *,
    front: RunState | None,
    new: str,
    why: str = "",
) -> None:
    """Park the run in front, and begin a new run that does what the messages say."""
    for message in messages:
        moves.add(
            talk.journal,
            t.MessageTriaged(message=message.position, choice="switch", run=new, why=why),
        )
    if front is not None:
        park(moves, talk, front, why=f"until {short(messages[-1].text)!r} is done", until=new)
    begin(moves, talk, find, new=new, messages=messages)
    unread = [message for message in messages if message.position in talk.unread]
    if unread:
        take(moves, talk, new, unread)


def short(text: str) -> str:
    """The first line, if it is not long."""
    line = text.strip().splitlines()[0] if text.strip() else ""
    return line if len(line) <= TITLE_MAX else f"{line[: TITLE_MAX - 1]}…"

"""Plain structs that a page shows of a run, of a thread and of the list of runs.

A sheet follows from the records of its journal, so that every reader who folds them gets the same
sheet. Only one thing is asked of the store: whether the run's driver lives. Times are those of the
store. Values that change by themselves (seconds in motion, a countdown) are left to the reader's
clock: seconds are counted up to ``updated_at``, and go on while ``moving_since`` is set and
``undriven_since`` is not. ``patch`` gives the way from one sheet to the next as a JSON Patch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final, Literal

from msgspec import Raw, Struct

from midflight.control.todos import TodoOffer
from midflight.control.transcript import Line
from midflight.journal.limits import Meter
from midflight.journal.phases import Cause, Effect, Mode, Phase, Role
from midflight.journal.preview import Offer
from midflight.journal.record import Limits
from midflight.journal.state import Spent
from midflight.journal.status import Receipt
from midflight.stores.protocol import Row


class InFlight(Struct, frozen=True):
    """An effect that is in flight at this moment."""

    position: int
    name: str
    noun: str
    effect: Effect
    irreversible: bool
    can_be_stopped: bool


class Way(Struct, frozen=True):
    """One way to answer a question: a ``value`` to pick, or a ``form`` to fill in.

    ``form`` is empty for a pick, or else ``answer``, ``edit`` or ``respond``; the last two put what
    was typed under their own name. ``part`` is the place of its schema among the alternatives.
    ``asks`` stands over the field of a form, and ``send`` on the button that sends it.
    """

    label: str
    consequence: str = ""
    value: Any = None
    form: Literal["", "answer", "edit", "respond"] = ""
    part: int = 0
    asks: str = ""
    send: str = ""
    tone: Literal["", "good", "bad"] = ""


class Slot(Struct, frozen=True):
    """One button: its ``verb``, its label, its consequence, and whether it can be pressed.

    ``confirm`` is asked in place first. Before ``opens_at`` it cannot be pressed yet; at
    ``expires_at`` what it leads to is over. The caller needs the ``role``.
    """

    verb: str
    label: str
    consequence: str
    enabled: bool = True
    confirm: str = ""
    opens_at: float | None = None
    expires_at: float | None = None
    role: Role = Role.CONTROLLER


class Bar(Struct, frozen=True):
    """The bar of a run: how it stands, in words, and what can be done about it.

    ``looks`` chooses its sign and colour: a phase, or ``undriven`` or ``human``. ``slots`` keep
    their order, ``menu`` has the other verbs that can be pressed. ``away`` is the detail while the
    server cannot be reached. ``reads`` says when a message is read that is written now, in a thread
    where an agent answers.
    """

    looks: str
    word: str
    detail: str
    slots: tuple[Slot, ...] = ()
    menu: tuple[str, ...] = ()
    away: str = ""
    reads: str = ""


class Asked(Struct, frozen=True):
    """An open question; its position is its id."""

    question: int
    kind: str
    message: str
    schema: Raw
    about: int = 0
    expires_at: float | None = None
    answerers: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()  # what it is about, whole, as every door shows it
    cap: str = ""  # the cap that holds the run, if the question is about one
    why: str = ""  # and why it does
    verb: str = (
        "answer"  # that settles it: a cap is raised, and a run that a person has handed back
    )
    ways: tuple[Way, ...] = ()  # to answer it, in the order in which they are offered
    skip: str = ""  # the consequence of leaving it unanswered, where that can be chosen


class RunView(Struct, frozen=True):
    """A run as it is at position ``head``, what each verb would do, and what it has done so far.

    ``meters`` has one entry for each cap that is set, with what calls in flight have reserved.
    ``reads_messages`` says that it is known to read messages while it works; if not, nobody knows.
    ``undriven_since`` is set where the run needs a driver and has none that lives: nothing happens,
    and its clock stands still. ``parked_for`` says what a parked run waits for, ``undoing`` what a
    run still does that is being cancelled, ``cause`` why one has failed, without the step's name.
    """

    run: str
    head: int
    thread: str
    agent: str
    title: str
    brief: str
    profile: str
    parent: str
    fork_of: str
    mode: Mode
    phase: Phase
    status: str
    holds: list[Cause]
    human: str
    created_at: float
    updated_at: float
    plan: tuple[str, ...]
    limits: Limits
    spent: Spent
    meters: list[Meter]
    questions: list[Asked]
    in_flight: list[InFlight]
    children: dict[str, str]
    notices: list[tuple[str, str]]
    error: str
    preview: dict[str, Offer]
    receipt: Receipt
    undriven_since: float | None = None
    reads_messages: bool = False
    parked_for: str = ""
    undoing: str = ""
    cause: str = ""


class UnreadMessage(Struct, frozen=True):
    """A message that nobody has read yet."""

    message: int
    text: str
    by: str
    role: str
    choice: str
    at: float


class StepSheet(Struct, frozen=True):
    """One step of a run: how it stands, in one of the states that ``WORDS`` lists.

    ``position`` is where it begins in the journal, which is what a fork takes; ``result_at`` is the
    record that holds its result, 0 before that. ``until`` is when a held or repeated step begins. A
    step of the plan that has not begun has no position yet.
    """

    id: str
    position: int
    name: str
    status: str
    word: str
    tool: str = ""
    noun: str = ""
    effect: str = ""
    irreversible: bool = False
    started_at: float | None = None
    ended_at: float | None = None
    seconds: float | None = None
    usd: float = 0.0
    tokens: int = 0
    attempt: int = 1
    tries: int = 0
    summary: str = ""
    error: str = ""
    question: int = 0
    child: str = ""
    rewritten: bool = False
    can_be_stopped: bool = False
    result_at: int = 0
    until: float | None = None


class Change(Struct, frozen=True):
    """A redirect: the brief before and after, and whether the run was told of it yet."""

    at: float
    by: str
    was: str
    now: str
    applied: bool


class Mark(Struct, frozen=True):
    """Something on the timeline that is no step."""

    at: float
    kind: str
    text: str
    by: str = ""


class Background(Struct, frozen=True):
    """A run that this one has begun. ``status`` is how it stands, in one line."""

    run: str
    title: str
    phase: str
    started_at: float
    ended_at: float | None
    status: str


class ForkFrom(Struct, frozen=True):
    """The step from which a run that has ended would be tried again, and its number in the list."""

    position: int
    number: int
    name: str


class RunSheet(RunView, frozen=True, kw_only=True):
    """All that the view of a run shows. ``position`` is what a control takes as ``expect``.

    ``done`` counts its steps that have a result, as the list of runs does; those of runs that it
    has begun are spent, and not among them.
    """

    position: int
    moving_since: float | None
    steps: list[StepSheet]
    done: int
    changes: list[Change]
    marks: list[Mark]
    spend: list[tuple[float, float, int]]
    background: list[Background]
    result: str
    ended_at: float | None
    ended_by: str
    failed_step: str
    fork_from: ForkFrom | None
    bar: Bar = Bar("", "", "")


class RunNews(Struct, frozen=True):
    """The parts of a run's sheet that have come or changed since a follower last asked.

    ``steps`` have begun or changed, ``marks`` are new, and so are the ``changes`` of the brief that
    the run was told of. ``questions`` are all that are open.
    """

    steps: list[StepSheet]
    marks: list[Mark]
    changes: list[Change]
    questions: list[Asked]


class ThreadSheet(Struct, frozen=True):
    """A conversation. ``hosted`` says whether an agent answers here whatever runs."""

    thread: str
    head: int
    title: str
    front: str
    hosted: bool
    created_at: float
    updated_at: float
    lines: list[Line]
    todos: list[TodoOffer]
    unread: list[UnreadMessage]
    runs: list[Row]


Sheet = RunSheet | ThreadSheet


WORDS: Final = {
    "queued": "Queued",
    "running": "Running",
    "paused": "Paused",
    "waiting": "Needs you",
    "done": "Done",
    "failed": "Failed",
    "retrying": "Retry",
    "cancelled": "Cancelled",
    "skipped": "Skipped",
    "undoing": "Undoing",
    "undone": "Undone",
    "undo_failed": "Could not undo",
    "kept": "Kept",
    "lost": "Cut off",
}
"""The states of a step, and what a person reads."""


Op = dict[str, Any]


def patch(before: Any, after: Any) -> list[Op]:
    """The operations that make ``after`` out of ``before``."""
    found: list[Op] = []
    _differ(before, after, "", found)
    return found


def _differ(before: Any, after: Any, path: str, found: list[Op]) -> None:
    if before is after or (before == after and type(before) is type(after)):
        return
    old, new = _members(before), _members(after)
    if old is not None and new is not None:
        _differ_by_name(old, new, path, found)
    elif _is_list(before) and _is_list(after):
        _differ_by_place(before, after, path, found)
    else:
        found.append({"op": "replace", "path": path, "value": after})


def _members(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, Struct) and not value.__struct_config__.omit_defaults:
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return None  # one that leaves out what is as usual is replaced whole


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _differ_by_name(
    old: Mapping[str, Any], new: Mapping[str, Any], path: str, found: list[Op]
) -> None:
    found += [{"op": "remove", "path": f"{path}/{_part(name)}"} for name in old if name not in new]
    for name, value in new.items():
        place = f"{path}/{_part(name)}"
        if name in old:
            _differ(old[name], value, place, found)
        else:
            found.append({"op": "add", "path": place, "value": value})


def _differ_by_place(old: Sequence[Any], new: Sequence[Any], path: str, found: list[Op]) -> None:
    """Compare two lists place by place: their common beginning and end stay.

    Between these, places are changed, removed or added.
    """
    shorter = min(len(old), len(new))
    first = 0
    while first < shorter and (old[first] is new[first] or old[first] == new[first]):
        first += 1
    last = 0
    while last < shorter - first and old[-1 - last] == new[-1 - last]:
        last += 1
    was, now = old[first : len(old) - last], new[first : len(new) - last]
    both = min(len(was), len(now))
    for place in range(both):
        _differ(was[place], now[place], f"{path}/{first + place}", found)
    gone = range(len(was) - 1, both - 1, -1)
    found += [{"op": "remove", "path": f"{path}/{first + place}"} for place in gone]
    found += [
        {"op": "add", "path": f"{path}/{first + place}", "value": now[place]}
        for place in range(both, len(now))
    ]


def _part(name: str) -> str:
    return str(name).replace("~", "~0").replace("/", "~1")

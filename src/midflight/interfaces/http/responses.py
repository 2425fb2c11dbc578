"""The answers of the server, their description, and the parameters that all routes share.

Most answers are structs of the journal as they are; a few are made here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final

import msgspec
from fastapi import Depends, Request
from msgspec import Raw, Struct

from midflight.agents import Agent
from midflight.control import Ack, Control, Turn, verbs
from midflight.control.recorder import runs_below
from midflight.control.todos import TodoOffer
from midflight.control.transcript import Line
from midflight.interfaces.http.access.access import caller
from midflight.interfaces.http.bodies import IdempotencyKey
from midflight.journal.events import QuestionOpened
from midflight.journal.phases import Phase
from midflight.journal.record import Actor, Limits, Recorded
from midflight.journal.requests import Switch
from midflight.journal.state import Delivery, RunState
from midflight.journal.threads.thread import ThreadState, Todo
from midflight.stores.hints import Delta
from midflight.stores.lookup import question_at
from midflight.stores.protocol import Killing, Row, Store
from midflight.view.data import RunView, UnreadMessage
from midflight.view.run_book import accounted, asked, unread, viewed

PAGE_BYTES_MAX: Final = 1024 * 1024  # of a page of records; a larger record goes alone
READ_AT_ONCE: Final = 32  # records that are read before their size is known


class Page(Struct, frozen=True):
    """Rows, newest first; ``next`` is the ``before`` of the next page, or empty at the end."""

    rows: list[Row]
    next: str = ""


class Records(Struct, frozen=True):
    """A stretch of a journal; ``next`` is the ``after`` of the next one, or null at the end."""

    records: list[Recorded]
    next: int | None = None


async def records_of(store: Store, journal: str, after: int, limit: int) -> dict[str, Any]:
    """Return ``Records`` as it is encoded, of at most ``PAGE_BYTES_MAX`` or one record."""
    found: list[Raw] = []
    size, position = 0, after
    while len(found) < limit:
        wanted = min(READ_AT_ONCE, limit - len(found))
        read = await store.read(journal, after=position, limit=wanted)
        for record in read:
            encoded = Raw(msgspec.json.encode(record))
            if found and size + len(encoded) > PAGE_BYTES_MAX:  # layer page-of-records-has-bounded
                return {"records": found, "next": position}
            found.append(encoded)
            size, position = size + len(encoded), record.position
        if len(read) < wanted:
            return {"records": found, "next": None}
    return {"records": found, "next": position}


def page_of(rows: list[Row], limit: int) -> dict[str, Any]:
    """Return ``Page`` as it is encoded, of at most ``PAGE_BYTES_MAX`` or one row."""
    found = within(rows)
    whole = len(found) == len(rows) < limit
    return {"rows": found, "next": "" if whole or not rows else rows[len(found) - 1].journal}


def transcript_of(lines: list[Line], after: int) -> dict[str, Any]:
    """Return ``Transcript`` as it is encoded, of at most ``PAGE_BYTES_MAX`` or one line."""
    wanted = [line for line in lines if line.position > after]
    found = within(wanted)
    whole = len(found) == len(wanted)
    return {"lines": found, "next": None if whole else wanted[len(found) - 1].position}


def within(items: Iterable[Struct], most: int = PAGE_BYTES_MAX) -> list[Raw]:
    """Return the first of the items, encoded: as many as ``most`` bytes hold, or one."""
    found: list[Raw] = []
    size = 0
    for item in items:
        encoded = msgspec.json.encode(item)
        size += len(encoded)
        if found and size > most:
            break
        found.append(Raw(encoded))
    return found


class AgentView(Struct, frozen=True):
    """An agent that can be started."""

    name: str
    mode: str
    limits: Limits


class Agents(Struct, frozen=True):
    """The agents that can be started here."""

    agents: list[AgentView]


class ResultView(Struct, frozen=True):
    """The end of a run: its phase, its error, and the value that its function returned."""

    run: str
    phase: Phase
    error: str
    result: Any


class ThreadView(Struct, frozen=True):
    """A conversation as it is at position ``head``."""

    thread: str
    head: int
    title: str
    front: str
    created_at: float
    messages: int
    unread: list[UnreadMessage]
    todos: list[Todo]
    runs: list[Row]


class Todos(Struct, frozen=True):
    """The todos of a thread that are still to be done, in their order."""

    todos: list[TodoOffer]


class Transcript(Struct, frozen=True):
    """Messages and choices of a thread; ``next`` is the ``after`` of the next page, or null."""

    lines: list[Line]
    next: int | None = None


class DeliveryView(Struct, frozen=True):
    """The fate of a request: accepted, then applied or superseded ``at`` a position."""

    run: str
    position: int
    verb: str
    status: str
    at: int


class Released(Struct, frozen=True):
    """The answer to a release: ``released`` is false when nothing was stopped."""

    released: bool


class Switches(Struct, frozen=True):
    """The kill switches that are on."""

    switches: list[Switch]


class ServerView(Struct, frozen=True):
    """The server itself: its version, and the kind of store behind it."""

    version: str
    store: str
    voice: bool = False  # whether one can talk to it


class Me(Struct, frozen=True):
    """The caller's name and role, the agents that can be started, and the server that answers."""

    by: str
    role: str
    agents: list[AgentView]
    server: ServerView


class Session(Struct, frozen=True):
    """The caller's name and role; ``page_secret`` is sent once, when a code is exchanged."""

    by: str
    role: str
    page_secret: str = ""


class Health(Struct, frozen=True):
    """The server's own report whether it can do its work."""

    ok: bool
    store: str


class ProblemView(Struct, frozen=True):
    """Any error. ``changed`` is null where nobody can know; ``state`` comes with a 409.

    ``about`` has what the sentence is made of, for programs.
    """

    error: str
    message: str
    changed: bool | None
    state: Any = None
    about: Any = None
    details: Any = None
    limit: int | None = None


SHOWN: Final = (
    Ack,
    Turn,
    Page,
    Records,
    RunView,
    ResultView,
    ThreadView,
    Todos,
    Transcript,
    DeliveryView,
    Killing,
    Released,
    Switches,
    Session,
    Health,
    ProblemView,
    Delta,
    Agents,
    Me,
)
"""The structs that ``openapi.json`` describes; the schemas are made from the structs themselves."""


def agent_view(agent: Agent) -> AgentView:
    """An agent as it is shown."""
    return AgentView(agent.name, agent.mode, agent.limits)


async def view_of(control: Control, run: str) -> RunView:
    """The run as it is now."""
    state = await control.state(run)
    found = await questions_of(control.store, state)
    questions = [asked(position, question) for position, question in found.items()]
    below, now = await runs_below(control.store, state), await control.store.now()
    since = await control.undriven_since(state)
    return RunView(**viewed(state, now, questions, since), **accounted(state, below))


async def questions_of(store: Store, state: RunState) -> dict[int, QuestionOpened]:
    """Read the open questions of a run, by their positions."""
    found = {}
    for position in state.questions:
        question = await question_at(store, state.journal, position)
        assert question is not None, f"{state.journal} has an open question at {position}"
        found[position] = question
    return found


def delivery_of(run: str, position: int, delivery: Delivery) -> DeliveryView:
    """Return the delivery receipt of a verb, as it is shown."""
    return DeliveryView(run, position, delivery.verb, delivery.status, delivery.at)


def thread_of(talk: ThreadState, runs: list[Row]) -> ThreadView:
    """The thread as it is now."""
    return ThreadView(
        thread=talk.journal,
        head=talk.head,
        title=talk.title,
        front=talk.front,
        created_at=talk.created_at,
        messages=talk.messages,
        unread=unread(talk),
        todos=talk.next_todos,
        runs=runs,
    )


def schemas() -> dict[str, Any]:
    """Components of ``openapi.json``."""
    template = "#/components/schemas/{name}"
    _, components = msgspec.json.schema_components(SHOWN, ref_template=template)
    return components


# ── for every route ──────────────────────────────────────────────────────────────────────────

JSON: Final = "application/json"


def control_of(request: Request) -> Control:
    """Return the ``Control`` of this app."""
    control: Control = request.app.state.control
    return control


def asker(who: Annotated[Actor, Depends(caller)], key: IdempotencyKey = "") -> verbs.By:
    """Return the caller and the idempotency key, as every verb of ``Control`` takes them."""
    return {"who": who, "key": key}


Controlled = Annotated[Control, Depends(control_of)]
By = Annotated[verbs.By, Depends(asker)]
Caller = Annotated[Actor, Depends(caller)]


def answers(
    name: str, example: Any = None, *, status: int = 200
) -> dict[int | str, dict[str, Any]]:
    """Describe an answer by the struct that it is."""
    content: dict[str, Any] = {"schema": {"$ref": f"#/components/schemas/{name}"}}
    if example is not None:
        content["example"] = example
    return {status: {"description": name, "content": {JSON: content}}}


PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    "4XX": {
        "description": "Refused; nothing was changed. A 409 says how the run really is.",
        "content": {JSON: {"schema": {"$ref": "#/components/schemas/ProblemView"}}},
    },
    "5XX": {
        "description": "It failed here.",
        "content": {JSON: {"schema": {"$ref": "#/components/schemas/ProblemView"}}},
    },
}


def note(request: Request, **what: Any) -> None:
    """Add to the line that the door writes into the audit."""
    request.state.audit = {**getattr(request.state, "audit", {}), **what}

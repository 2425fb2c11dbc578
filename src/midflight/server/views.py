"""What is answered: structs of the kernel as they are, and the few that are put together here."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

from midflight.control import Accepted, Control, Turn
from midflight.kernel.decide import Switch
from midflight.kernel.phases import Phase
from midflight.kernel.record import Limits, Recorded
from midflight.kernel.state import Delivery
from midflight.kernel.thread import ThreadState, Todo
from midflight.run import Agent
from midflight.sheets.shapes import Asked, RunView, UnreadMessage
from midflight.sheets.view import accounted, asked, unread, viewed
from midflight.stores.base import Delta, Killing, Row
from midflight.stores.waiting import question_at
from midflight.verbs.covering import runs_below
from midflight.verbs.todos import TodoOffer
from midflight.verbs.transcript import Line


class Page(Struct, frozen=True):
    """Rows, newest first; ``next`` is the ``before`` of the next page, or empty at the end."""

    rows: list[Row]
    next: str = ""


class Records(Struct, frozen=True):
    """A stretch of a journal; ``next`` is the ``after`` of the next one, or null at the end."""

    records: list[Recorded]
    next: int | None = None


class AgentView(Struct, frozen=True):
    """An agent that can be started."""

    name: str
    mode: str
    limits: Limits


class Agents(Struct, frozen=True):
    """The agents that can be started here."""

    agents: list[AgentView]


class ResultView(Struct, frozen=True):
    """How a run has ended and what its function returned."""

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
    """What is still to be done in a thread, in its order."""

    todos: list[TodoOffer]


class Transcript(Struct, frozen=True):
    """All that was said and chosen in a thread."""

    lines: list[Line]


class DeliveryView(Struct, frozen=True):
    """What became of a verb: accepted, then applied or superseded ``at`` a position."""

    run: str
    position: int
    verb: str
    status: str
    at: int


class Released(Struct, frozen=True):
    """Whether there was something to release."""

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
    """Who you are here, which agents can be started, and what answers."""

    by: str
    role: str
    agents: list[AgentView]
    server: ServerView


class Session(Struct, frozen=True):
    """Who you are here. The session itself is in the cookie only."""

    by: str
    role: str


class Health(Struct, frozen=True):
    """Whether this server can do its work."""

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
    Accepted,
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
"""What ``openapi.json`` describes; the schemas are made from the structs themselves."""


def agent_view(agent: Agent) -> AgentView:
    """An agent as it is shown."""
    return AgentView(agent.name, agent.mode, agent.limits)


async def view_of(control: Control, run: str) -> RunView:
    """The run as it is now."""
    state = await control.state(run)
    questions = [await _asked(control, run, position) for position in state.questions]
    below, now = await runs_below(control.store, state), await control.store.now()
    return RunView(**viewed(state, now, questions), **accounted(state, below))


async def _asked(control: Control, run: str, position: int) -> Asked:
    question = await question_at(control.store, run, position)
    assert question is not None, f"{run} has an open question at {position}"
    return asked(position, question)


def delivery_of(run: str, position: int, delivery: Delivery) -> DeliveryView:
    """What became of a verb."""
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

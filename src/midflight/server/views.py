"""What is answered: structs of the kernel as they are, and the few that are put together here."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from midflight.control import Accepted, Control, Turn
from midflight.kernel.decide import Switch
from midflight.kernel.phases import Cause, Effect, Mode, Phase
from midflight.kernel.preview import Offer
from midflight.kernel.receipt import Receipt, receipt
from midflight.kernel.record import NULL, Limits, Recorded
from midflight.kernel.state import Attempt, Delivery, RunState, Spent
from midflight.kernel.status import status
from midflight.kernel.thread import ThreadState, Todo
from midflight.stores.base import Delta, Killing, Row
from midflight.talks import TodoOffer
from midflight.transcript import Line
from midflight.verbs import offers


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


class InFlight(Struct, frozen=True):
    """What is being done at this moment."""

    position: int
    name: str
    noun: str
    effect: Effect
    irreversible: bool
    can_be_stopped: bool


class Asked(Struct, frozen=True):
    """An open question; its position is its id."""

    question: int
    kind: str
    message: str
    schema: Raw
    about: int = 0
    expires_at: float | None = None
    answerers: tuple[str, ...] = ()


class RunView(Struct, frozen=True):
    """A run as it is at position ``head``, what each verb would do, and what it has done so far."""

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
    questions: list[Asked]
    in_flight: list[InFlight]
    children: dict[str, str]
    notices: list[tuple[str, str]]
    error: str
    preview: dict[str, Offer]
    receipt: Receipt


class ResultView(Struct, frozen=True):
    """How a run has ended and what its function returned."""

    run: str
    phase: Phase
    error: str
    result: Any


class UnreadMessage(Struct, frozen=True):
    """A message that nobody has read yet."""

    message: int
    text: str
    by: str
    role: str
    choice: str
    at: float


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
)
"""What ``openapi.json`` describes; the schemas are made from the structs themselves."""


async def view_of(control: Control, run: str) -> RunView:
    """The run as it is now."""
    state = await control.state(run)
    now = await control.store.now()
    return RunView(
        run=run,
        head=state.head,
        thread=state.thread,
        agent=state.agent,
        title=state.title,
        brief=state.brief,
        profile=state.profile,
        parent=state.parent,
        fork_of=state.fork_of,
        mode=state.mode,
        phase=state.phase,
        status=status(state, now),
        holds=sorted(state.holds),
        human=state.human,
        created_at=state.created_at,
        updated_at=state.at,
        plan=state.plan,
        limits=state.limits,
        spent=_spent(state, now),
        questions=[await _asked(control, run, position) for position in state.questions],
        in_flight=[_in_flight(attempt) for attempt in state.open.values()],
        children=state.children,
        notices=state.notices,
        error=state.error,
        preview=offers(state),
        receipt=receipt(state),
    )


def _spent(state: RunState, now: float) -> Spent:
    """With the seconds of the stretch that it is in."""
    spent = state.spent
    running = max(0.0, now - state.moving_since) if state.moving_since is not None else 0.0
    return Spent(
        spent.steps,
        spent.tool_calls,
        spent.tokens,
        spent.usd,
        spent.unpriced,
        spent.seconds + running,
    )


async def _asked(control: Control, run: str, position: int) -> Asked:
    """With its schema, which is in the journal only."""
    (record,) = await control.store.read(run, after=position - 1, limit=1)
    asked = record.event
    return Asked(
        question=position,
        kind=asked.kind,
        message=asked.message,
        schema=asked.schema or NULL,
        about=asked.about,
        expires_at=asked.expires_at,
        answerers=asked.answerers,
    )


def _in_flight(attempt: Attempt) -> InFlight:
    return InFlight(
        position=attempt.position,
        name=attempt.name,
        noun=attempt.noun,
        effect=attempt.effect,
        irreversible=attempt.irreversible,
        can_be_stopped=attempt.can_be_stopped,
    )


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
        unread=[
            UnreadMessage(m.position, m.text, m.who.by, m.who.role, m.choice, m.at)
            for m in talk.unread.values()
        ],
        todos=talk.next_todos,
        runs=runs,
    )


def schemas() -> dict[str, Any]:
    """Components of ``openapi.json``."""
    template = "#/components/schemas/{name}"
    _, components = msgspec.json.schema_components(SHOWN, ref_template=template)
    return components

"""What stories about conversations need: an agent that converses, and looks into its thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anyio

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.control.ack import Ack
from midflight.conversation import Action, Choice, TriageView
from midflight.journal import events as e
from midflight.journal.phases import Role
from midflight.journal.record import Actor
from midflight.journal.threads.thread import MessageSent, MessageTriaged, Said, ThreadState
from midflight.run import Run
from midflight.stores.protocol import Query, Row
from scenarios.company import events
from scenarios.stage import Stage

ANN, BOB, VIC = Actor(by="ann"), Actor(by="bob"), Actor(by="vic", role=Role.VIEWER)
SOON_S = 0.03  # what a triage waits for more messages, in stories that are not about that


class Model:
    """A triage that chooses as it was told, and notes what it was asked."""

    def __init__(self, **choices: Action) -> None:
        self.asked: list[TriageView] = []
        self.choices = choices  # first word of a message -> action
        self.gate: anyio.Event | None = None
        self.begun = anyio.Event()
        self.aborted = 0

    async def __call__(self, view: TriageView) -> Sequence[Choice]:
        self.asked.append(view)
        self.begun.set()
        if self.gate is not None:
            try:
                await self.gate.wait()
            except BaseException:
                self.aborted += 1
                raise
        return [
            Choice(message.id, self.choices.get(message.text.split()[0], "incorporate"))
            for message in view.messages
        ]

    @property
    def texts(self) -> list[list[str]]:
        return [[message.text for message in view.messages] for view in self.asked]


def clerk(stage: Stage, model: Model | None = None, **declared: Any) -> Agent:
    """Reads two things for its brief, with a look into its inbox after each.

    The first thing is named like the brief, so a story can hold each run where it wants.
    """
    look = stage.reader()
    declared.setdefault("triage_after", SOON_S)
    triage = model.__call__ if model is not None else None

    @agent(f"{stage.name}-clerk", converses=True, triage=triage, **declared)
    async def works(run: Run) -> list[Any]:
        heard: list[str] = []
        await run.plan("Look", "Look again")
        await run.step("Look", look, run.brief)
        heard += [message.text for message in await run.inbox()]
        await run.step("Look again", look, f"{run.brief} again")
        heard += [message.text for message in await run.inbox()]
        return [run.brief, *heard]

    return works


async def talk_of(control: Control, run: str) -> ThreadState:
    state = await control.store.load((await control.state(run)).thread)
    assert isinstance(state, ThreadState)
    return state


async def until_thread(
    control: Control, thread: str, ready: Callable[[ThreadState], bool]
) -> ThreadState:
    """Wait until a thread is as wanted."""
    with anyio.fail_after(15):
        while True:
            talk = await control.store.load(thread)
            assert isinstance(talk, ThreadState)
            if ready(talk):
                return talk
            await anyio.sleep(0.01)


async def until_front(control: Control, thread: str, run: str = "", *, but: str = "") -> str:
    """Wait until a run is in front: this one, or any but that."""

    def there(talk: ThreadState) -> bool:
        return talk.front == run if run else talk.front not in {"", but}

    return (await until_thread(control, thread, there)).front


async def until_chosen(control: Control, sent: Ack) -> MessageTriaged:
    """Wait until something was chosen about a message."""
    with anyio.fail_after(15):
        while True:
            made: list[MessageTriaged] = await events(control.store, sent.run, MessageTriaged)
            for choice in made:
                if choice.message == sent.position and choice.choice:
                    return choice
            await anyio.sleep(0.01)


async def replies(control: Control, thread: str, kind: str) -> list[str]:
    words: list[Said] = await events(control.store, thread, Said)
    return [spoken.text for spoken in words if spoken.kind == kind]


async def until_said(control: Control, thread: str, kind: str) -> list[str]:
    """Wait until something of a kind was said, and give all of it."""
    with anyio.fail_after(15):
        while True:
            words = await replies(control, thread, kind)
            if words:
                return words
            await anyio.sleep(0.01)


async def messages(control: Control, thread: str) -> list[str]:
    return [sent.text for sent in await events(control.store, thread, MessageSent)]


async def runs_of(control: Control, thread: str) -> list[Row]:
    """The runs of a thread, oldest first."""
    return sorted(await control.runs(Query(thread=thread)), key=lambda row: row.created_at)


async def until_runs(control: Control, thread: str, number: int) -> list[Row]:
    with anyio.fail_after(15):
        while True:
            rows = await runs_of(control, thread)
            if len(rows) >= number:
                return rows
            await anyio.sleep(0.01)


async def triage_calls(control: Control, run: str) -> list[e.AttemptStarted]:
    begun: list[e.AttemptStarted] = await events(control.store, run, e.AttemptStarted)
    return [attempt for attempt in begun if attempt.step.startswith("triage:")]

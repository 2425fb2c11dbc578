"""Acts on a run when the AG-UI client that reads it leaves, or when Stop is pressed in the client.

Both close the connection, and nothing tells them apart. A client may come back within a grace time.
The person counts, not the connection: somebody who still reads the thread in another stream of this
process has not left. When the server itself shuts down, nothing is done to the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

import anyio
from msgspec import Struct
from msgspec.structs import replace

from midflight.agents import Agent
from midflight.control import Control
from midflight.errors import MidflightError, Refused
from midflight.inputs import Clock
from midflight.interfaces.agui.agui_events import KEY
from midflight.interfaces.agui.agui_input import Input
from midflight.interfaces.http.event_streams import Streams
from midflight.journal import events as e
from midflight.journal.record import Actor
from midflight.tools.secret import clean_logger

CONTINUE: Final = "continue"
CHANNEL: Final = "agui:disconnect"
LOOK_S: Final = 0.05  # between two looks at the clock
VIEWER: Final = "a viewer who leaves changes nothing: onDisconnect was left out"
log: Final = clean_logger(__name__)


class Presence:
    """Counts the streams in which each person reads each thread over AG-UI, in this process."""

    def __init__(self, clock: Clock, grace_s: float) -> None:
        self._clock = clock
        self._grace_s = grace_s
        self._reading: Counter[tuple[str, str]] = Counter()
        self._awaited: dict[tuple[str, str], set[anyio.Event]] = {}

    @contextmanager
    def reading(self, by: str, thread: str) -> Iterator[None]:
        """Count a reader of a thread while the block runs, and wake those who wait for them."""
        who = (by, thread)
        self._reading[who] += 1
        for back in self._awaited.get(who, ()):
            back.set()
        try:
            yield
        finally:
            self._reading[who] -= 1
            if not self._reading[who]:
                del self._reading[who]

    async def is_gone(self, by: str, thread: str) -> bool:
        """Wait for the grace time, and say whether they have not come back in it.

        What they read in another stream counts at the end of that time: a tab that is closed hangs
        up one of its streams before the other.
        """
        who, back = (by, thread), anyio.Event()
        until = self._clock() + self._grace_s
        self._awaited.setdefault(who, set()).add(back)
        try:
            while self._clock() < until and not back.is_set():
                with anyio.move_on_after(LOOK_S):
                    await back.wait()
        finally:
            self._awaited[who].discard(back)
            if not self._awaited[who]:
                del self._awaited[who]
        return not back.is_set() and who not in self._reading


class Leaving(Struct, frozen=True):
    """The choice that one request makes for the case that its client leaves.

    ``choice`` is empty where the agent decides, and then only the person who began the run counts.
    """

    control: Control
    presence: Presence
    who: Actor
    thread: str
    request: str
    agent: Agent
    choice: str = ""

    @classmethod
    def of(
        cls, control: Control, presence: Presence, agent: Agent, given: Input, who: Actor
    ) -> Leaving:
        """Take the choice from a request; a viewer may not steer, so their run goes on."""
        choice = (given.on_disconnect or "") if who.role.steers else CONTINUE
        return cls(control, presence, who, given.journal, given.run, agent, choice)

    def is_reading(self) -> AbstractContextManager[None]:
        """Say that the client reads, for as long as a block runs."""
        return self.presence.reading(self.who.by, self.thread)

    async def left(self, run: str, streams: Streams) -> None:
        """Do it, unless they come back in time or the server leaves meanwhile."""
        staying = anyio.CancelScope()
        streams.enter(staying)
        try:
            with staying:
                choice = await self._choice(run)
                if choice != CONTINUE and await self.presence.is_gone(self.who.by, self.thread):
                    await self._do(choice, run)
        except MidflightError as error:
            about = {"action": "left", "run": run, "by": self.who.by, "error": str(error)}
            log.error("A run was left as it was when its reader had gone", extra=about)
        finally:
            streams.exit(staying)

    async def _choice(self, run: str) -> str:
        if not run or self.choice or self.agent.on_disconnect == CONTINUE:
            return self.choice if run and self.choice else CONTINUE
        (first,) = await self.control.store.read(run, limit=1)
        created = first.event
        began = isinstance(created, e.RunCreated) and created.who.by == self.who.by
        return self.agent.on_disconnect if began else CONTINUE

    async def _do(self, choice: str, run: str) -> None:
        who, key = replace(self.who, channel=CHANNEL), f"{KEY}left:{self.request}"
        verb = self.control.pause if choice == "pause" else self.control.cancel
        about = {"action": "left", "run": run, "by": who.by, "verb": choice}
        try:
            await verb(run, who=who, key=key)
        except Refused as refused:  # it has ended meanwhile, say
            log.info(
                "A run whose reader had gone took no %s",
                choice,
                extra=about | {"why": str(refused)},
            )
        else:
            log.info("A run was told to %s: its reader had gone", choice, extra=about)

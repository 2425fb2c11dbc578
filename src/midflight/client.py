"""``Client``: starts runs and controls them, and hands out a handle for each run, thread, question.

``midflight.open`` gives a client for the runs of a store that this program opens, and drives them
here. ``midflight.connect`` gives one for the runs of a server. Both are of the same type.

A request is in the journal before it is acknowledged, with the actor who asked. A verb answers with
an ``Ack``: the position of the request in the journal. From there it is applied or superseded,
which ``RunHandle.applied`` waits for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, overload

from typing_extensions import TypeVar

from midflight.agents import Agent
from midflight.control import Control, local
from midflight.control.any_control import AWAY_S, PATIENCE_S
from midflight.engines.driver_pool import DRAIN_S
from midflight.engines.local_engine import Engine
from midflight.errors import InvalidRequest
from midflight.handles import Controls, RunHandle, ThreadHandle
from midflight.journal.phases import Phase
from midflight.journal.record import Actor, Limits
from midflight.journal.requests import Switch
from midflight.stores.protocol import Killing, Query, Row, Store

T = TypeVar("T", default=Any)


class Client:
    """Starts runs, lists them and hands out handles; ``kill`` is the operator's switch.

    ``actor`` is the person or program in whose name requests are recorded. Over HTTP the token
    says that, and an actor is refused.
    """

    def __init__(self, controls: Controls, actor: Actor | None = None) -> None:
        self.controls = controls
        self.actor = actor

    @classmethod
    def over(
        cls, store: Store, engine: Engine | None = None, *, actor: Actor | None = None
    ) -> Client:
        """Return a client for the runs of a store that is open, which an engine of yours drives."""
        return cls(Control(store, engine), actor)

    def acting_for(self, actor: Actor) -> Client:
        """Return a client for the same runs whose requests are recorded in another name."""
        return Client(self.controls, actor)

    @overload
    async def start(
        self,
        agent: Agent[T],
        brief: str,
        *,
        input: Any = None,
        thread: str = "",
        limits: Limits | None = None,
        title: str = "",
        key: str = "",
    ) -> RunHandle[T]: ...

    @overload
    async def start(
        self,
        agent: str,
        brief: str,
        *,
        input: Any = None,
        thread: str = "",
        limits: Limits | None = None,
        title: str = "",
        key: str = "",
    ) -> RunHandle: ...

    async def start(
        self,
        agent: Agent | str,
        brief: str,
        *,
        input: Any = None,  # noqa: A002 - the plain word for it
        thread: str = "",
        limits: Limits | None = None,
        title: str = "",
        key: str = "",
    ) -> RunHandle:
        """Start a run. Repeated under the same key by the same actor it returns the same run.

        ``brief`` is what the run is to do, in words; ``input`` is plain data for its function.
        """
        options = {"input": input, "thread": thread, "limits": limits, "title": title, "key": key}
        return RunHandle(self, await self.call("start", agent, brief, **options))

    def run(self, id: str) -> RunHandle:  # noqa: A002 - the plain word for it
        """Return a handle for a run. Nothing is looked up until the handle is used."""
        return RunHandle(self, id)

    def thread(self, id: str) -> ThreadHandle:  # noqa: A002 - the plain word for it
        """Return a handle for a thread. Nothing is looked up until the handle is used."""
        return ThreadHandle(self, id)

    async def runs(
        self,
        *,
        phases: Iterable[Phase] = (),
        thread: str = "",
        agent: str = "",
        search: str = "",
        before: str = "",
        limit: int = 100,
    ) -> list[Row]:
        """List runs, newest first; ``before`` is the id at which the last page ended."""
        return await self.controls.runs(
            Query(
                phases=tuple(phases),
                thread=thread,
                agent=agent,
                search=search,
                before=before,
                limit=limit,
            )
        )

    @overload
    async def kill(self, scope: Literal["all"], *, reason: str = "") -> Killing: ...

    @overload
    async def kill(self, *, agent: Agent | str, reason: str = "") -> Killing: ...

    @overload
    async def kill(self, *, thread: ThreadHandle | str, reason: str = "") -> Killing: ...

    async def kill(
        self,
        scope: Literal["all"] | None = None,
        *,
        agent: Agent | str = "",
        thread: ThreadHandle | str = "",
        reason: str = "",
    ) -> Killing:
        """Stop everything at once: all runs, those of an agent, or those of a thread.

        When this returns they have stopped. Nothing is undone or saved, and nothing begins there
        until the switch is released.
        """
        killing: Killing = await self.call("kill", _scope(scope, agent, thread), reason=reason)
        return killing

    @overload
    async def release(self, scope: Literal["all"] | Switch) -> bool: ...

    @overload
    async def release(self, *, agent: Agent | str) -> bool: ...

    @overload
    async def release(self, *, thread: ThreadHandle | str) -> bool: ...

    async def release(
        self,
        scope: Literal["all"] | Switch | None = None,
        *,
        agent: Agent | str = "",
        thread: ThreadHandle | str = "",
    ) -> bool:
        """Take a kill switch back. Return False if it was not on."""
        return bool(await self.call("release", _scope(scope, agent, thread)))

    async def switches(self) -> list[Switch]:
        """List the kill switches that are on."""
        return await self.controls.switches()

    def call(self, verb: str, *given: Any, **options: Any) -> Coroutine[Any, Any, Any]:
        """Have a verb done in the name of this client's actor."""
        if self.actor is not None:
            options["who"] = self.actor
        done: Coroutine[Any, Any, Any] = getattr(self.controls, verb)(*given, **options)
        return done


def control_of(client: Client | Control) -> Control:
    """Return the control that the front doors of this program are built on.

    Raises ``InvalidRequest`` for a client of a server, which has front doors of its own.
    """
    control = client.controls if isinstance(client, Client) else client
    if not isinstance(control, Control):
        raise InvalidRequest(
            "a client of midflight.connect cannot be used here, because its store is on a server: "
            "open the store itself with midflight.open, or use what the server offers. Nothing was "
            "started."
        )
    return control


def _scope(
    scope: Literal["all"] | Switch | None, agent: Agent | str, thread: ThreadHandle | str
) -> str:
    """Return the scope of a kill switch as it is stored."""
    named = [
        scope.scope if isinstance(scope, Switch) else scope,
        f"agent:{agent if isinstance(agent, str) else agent.name}" if agent else None,
        f"thread:{thread if isinstance(thread, str) else thread.id}" if thread else None,
    ]
    given = [each for each in named if each is not None]
    if len(given) != 1:
        raise InvalidRequest(
            'name one scope, and only one: "all", agent= or thread=. Nothing was changed.'
        )
    return given[0]


@asynccontextmanager
async def open(  # noqa: A001 - always written midflight.open
    address: str | Path,
    *,
    agents: Sequence[Agent] = (),
    workdir: str | Path = ".midflight",
    drain_s: float = DRAIN_S,
    signals: bool = False,
    actor: Actor | None = None,
) -> AsyncIterator[Client]:
    """Open a store, drive the runs of these agents in this process, and control them.

    With ``signals=True`` SIGTERM, SIGINT and SIGHUP (its terminal has closed) end the block in good
    order: nothing further is claimed, runs are held, steps in flight have ``drain_s`` seconds to
    end, and the program goes on behind the block. The next start takes the runs up again. A second
    SIGTERM or SIGINT ends the process at once, which is as safe as a crash.
    """
    async with local(
        address, *agents, workdir=workdir, drain_s=drain_s, signals=signals
    ) as control:
        yield Client(control, actor)


@asynccontextmanager
async def connect(
    url: str,
    token: str = "",
    *,
    patience_s: float = PATIENCE_S,
    away_s: float = AWAY_S,
    insecure: bool = False,
) -> AsyncIterator[Client]:
    """Control the runs of a server for as long as the block runs; the token says who asks.

    A request is repeated for ``patience_s`` seconds while the server is away, a watch for
    ``away_s``. ``insecure`` lets a token go over plain HTTP to another machine.
    """
    from midflight.control.remote import RemoteControl

    async with RemoteControl.open(
        url, token, patience_s=patience_s, away_s=away_s, insecure=insecure
    ) as control:
        yield Client(control)

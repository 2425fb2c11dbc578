"""The contract of an engine, and the default one, which drives runs in this process until its end.

A process that is told to end leaves in good order, and at once when it is told twice. A terminal
that closes tells its programs with SIGHUP, and may do so several times: the system tells them, and
so does the shell. So SIGHUP never counts as the second time.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Protocol, Self

import anyio

from midflight.agents import Agent
from midflight.engines.driver_pool import DRAIN_S, Crew, Post, known_agents
from midflight.engines.sweep import SWEEP_S, Sweep
from midflight.engines.watchdog import BLOCKED_S
from midflight.inputs import Clock, Ids, new_id, wall_clock
from midflight.stores.protocol import Store
from midflight.tasks import owned_tasks

LEAVING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""The signals that every program of ours leaves on: it was ended, Ctrl-C, its terminal closed."""
GRACE_S: Final = 2.0  # for what is left of the process, after its runs had their time
log: Final = logging.getLogger(__name__)


@asynccontextmanager
async def leaving_on(
    signals: Collection[signal.Signals], patience_s: float
) -> AsyncIterator[anyio.CancelScope]:
    """Give a scope that the first of these signals cancels; without signals nothing does.

    From the first one on they have their usual force again: a second one ends the process at once,
    whatever it is doing. So does the first when the patience is at its end: a tool in a thread
    cannot be ended, and its run is not to be taken over while it can still act.

    A SIGHUP that was ignored when the process began, as ``nohup`` does, is ignored here too.
    """
    scope = anyio.CancelScope()
    heard = [number for number in signals if not _is_ignored_hangup(number)]
    if not heard:
        yield scope
        return
    with anyio.open_signal_receiver(*heard) as received:

        async def listen() -> None:
            first = await anext(received)
            for number in heard:
                # layer closed-terminal-says-so-twice-ends
                again = _ignore if number is signal.SIGHUP else signal.SIG_DFL
                signal.signal(number, again)
            log.info("Leaving", extra={"action": "leaving", "signal": first.name})
            scope.cancel()
            with anyio.move_on_after(patience_s + GRACE_S):
                while await anext(received) is signal.SIGHUP:
                    pass  # one that had come before we took the first, and not a second order
            words = "This process ends at once: it was told to end twice, or did not end in time"
            log.warning(words, extra={"action": "left", "signal": first.name})
            signal.signal(first, signal.SIG_DFL)
            os.kill(os.getpid(), first)

        async with owned_tasks(listen):
            yield scope


def _is_ignored_hangup(number: signal.Signals) -> bool:
    return number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN


def _ignore(*_: object) -> None:
    """Do nothing. Unlike ``SIG_IGN`` this is not inherited by programs that we start."""


class Engine(Protocol):
    """Finds a driver for a run, and another one if that driver dies."""

    async def ensure(self, run: str) -> None:
        """Have a run driven to which something was appended, and which may have no driver.

        This is idempotent, and quick.
        """

    def agent(self, name: str) -> Agent | None:
        """Return the agent of this name, if it is known here, so that it can be started by name."""


class NoEngine:
    """The engine of commands, which record requests and never drive a run."""

    async def ensure(self, run: str) -> None:
        """Do nothing: a process that drives runs finds this one by its sweep."""

    def agent(self, name: str) -> Agent | None:
        """Return None: no agent is known here."""
        return None


class LocalEngine:
    """Drives in tasks of this process. Made by ``LocalEngine.open``."""

    def __init__(self, post: Post) -> None:
        self.agents = post.agents
        self.name = f"local-{post.ids()}"
        self._crew: Crew

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        store: Store,
        agents: Iterable[Agent],
        *,
        workdir: str | Path = ".midflight",
        clock: Clock = wall_clock,
        ids: Ids = new_id,
        sweep_s: float = SWEEP_S,
        drain_s: float = DRAIN_S,
        signals: Collection[signal.Signals] = (),
        blocked_s: float = BLOCKED_S,
    ) -> AsyncIterator[Self]:
        """Drive runs of these agents for as long as the block runs.

        At its end runs are held with cause ``drain``, what is in flight has ``drain_s`` to end, and
        the next start goes on. ``signals`` end the block: see ``leaving_on``. A tool that keeps the
        event loop for ``blocked_s`` seconds is named in the log and to its run.
        """
        post = Post(store, known_agents(agents), Path(workdir), clock, ids)
        engine = cls(post)
        async with (
            leaving_on(signals, drain_s) as block,
            Crew.open(
                engine.name, post, engine.ensure, drain_s, block, blocked_s=blocked_s
            ) as crew,
        ):
            engine._crew = crew
            sweep = Sweep(
                store, post.agents, engine.ensure, ids=ids, every_s=sweep_s, then=crew.tend
            )
            async with owned_tasks(sweep.keep_on):
                yield engine

    async def ensure(self, run: str) -> None:
        """See ``Engine.ensure``."""
        self._crew.take_up(run)

    def agent(self, name: str) -> Agent | None:
        """See ``Engine.agent``."""
        return self.agents.get(name)

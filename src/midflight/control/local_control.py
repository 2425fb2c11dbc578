"""``Control``: does the verbs on a store that this process has open.

A request is in the journal before it is acknowledged, with the actor who asked. The answer is an
``Ack``: the position of the request in the journal. From there it is applied or superseded,
which ``Control.applied`` waits for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from typing_extensions import override

from midflight.agents import Agent
from midflight.control import ack
from midflight.control.ack import Ack
from midflight.control.any_control import AnyControl, cursors_of
from midflight.control.audit_trail import Audited, floods_of_callers
from midflight.control.messages import Messages
from midflight.control.recorder import Recorder
from midflight.control.run_verbs import Asides, Handler, KillSwitch, RunRequests
from midflight.control.starts import Starts
from midflight.control.todos import TodoOffer, Todos
from midflight.control.transcript import Line, lines_of
from midflight.control.verbs import VERBS
from midflight.engines.driver_pool import DRAIN_S
from midflight.engines.local_engine import LEAVING, Engine, LocalEngine, NoEngine
from midflight.engines.sweep import with_drivers
from midflight.errors import InvalidRequest, NoSuchRequest
from midflight.inputs import Ids, new_id
from midflight.journal import events as e
from midflight.journal.record import Actor
from midflight.journal.requests import Switch
from midflight.journal.state import Delivery, RunState
from midflight.journal.threads import thread as t
from midflight.stores import open_store
from midflight.stores.lookup import end_of, result_of
from midflight.stores.protocol import THREAD_PREFIX, LiveWatch, Row, Store, Watch

LIBRARY: Final = Actor(by="library")


class Control(AnyControl):
    """Controls the runs in a store. It executes none: an engine does, such as ``local`` opens."""

    store: Store

    def __init__(
        self, store: Store, engine: Engine | None = None, *, who: Actor = LIBRARY, ids: Ids = new_id
    ) -> None:
        self.store = store
        self._engine = engine or NoEngine()
        self._who = who
        self._ids = ids
        self._floods = floods_of_callers()
        self._record = Recorder(store, self._engine, ids)
        self._todos = Todos(self._record)
        self._handlers = handlers(self._record, self._todos)

    @override
    async def _do(
        self, verb: str, target: Any, given: dict[str, Any], by: Mapping[str, Any]
    ) -> Any:
        """Do a verb in the name of its caller; it leaves one record, whatever becomes of it."""
        entry, who = VERBS[verb], by.get("who")
        async with Audited(self, entry, target, who):
            given = entry.checked(given, by)
            if who is not None and not isinstance(who, Actor):  # a bare name has no role
                raise InvalidRequest(
                    f'who= must be an Actor, as in Actor("Ada"), not {who!r:.80}. Nothing was '
                    "changed."
                )
            options: dict[str, Any] = {"who": who or self._who}
            if entry.key:
                options["key"] = by.get("key", "")
            if entry.expect:
                options["expect"] = by.get("expect")
            return await self._handlers[verb](target, **given, **options)

    # ── looking ──────────────────────────────────────────────────────────────────────────────

    @override
    async def _with_drivers(self, rows: list[Row]) -> list[Row]:
        return await with_drivers(self.store, rows)

    @override
    async def _returned(self, state: RunState) -> Any:
        return msgspec.json.decode(await result_of(self.store, await end_of(self.store, state)))

    @override
    def watch(
        self, watched: str | Mapping[str, int], after: int = 0
    ) -> AbstractAsyncContextManager[Watch]:
        """Events after a position, then new ones as they come."""
        return self.store.watch(cursors_of(watched, after))

    @override
    def watch_live(
        self, watched: str | Mapping[str, int], after: int = 0
    ) -> AbstractAsyncContextManager[LiveWatch]:
        """As ``watch``, with what steps say while they work."""
        return self.store.watch_live(cursors_of(watched, after))

    @override
    async def applied(self, accepted: Ack) -> Delivery:
        """Wait until a verb was applied or superseded; a message until it was read or put off."""
        if accepted.run.startswith(THREAD_PREFIX):
            return await ack.settled(self.store, accepted.run, accepted.position)

        def settled(state: RunState) -> bool:
            if accepted.position not in state.deliveries:
                raise NoSuchRequest(accepted.run, accepted.position)
            return state.deliveries[accepted.position].status != "accepted"

        return (await self.until(accepted.run, settled)).deliveries[accepted.position]

    @override
    async def todos(self, thread: str) -> list[t.Todo]:
        """List the todos of a thread, in the order in which they will be done."""
        return (await self._record.thread(thread)).next_todos

    @override
    async def preview_todos(self, thread: str) -> list[TodoOffer]:
        """List the todos, each with what it would mean now to do or to remove it."""
        return await self._todos.offered(thread)

    @override
    async def transcript(self, thread: str) -> list[Line]:
        """All that was said and chosen in a thread, in order."""
        return lines_of(await self._record.records(thread))

    @override
    async def switches(self) -> list[Switch]:
        """The kill switches that are on."""
        return await self.store.switches()


def handlers(record: Recorder, todos: Todos) -> dict[str, Handler]:
    """Return what does each verb of the table."""
    messages, runs, switch = Messages(record), RunRequests(record, todos), KillSwitch(record)
    starts = Starts(record, messages)
    return {
        "start": starts.start,
        "converse": starts.converse,
        "fork": starts.fork,
        "pause": runs.asking("pause", e.PauseRequested),
        "resume": runs.resume,
        "redirect": runs.asking("redirect", e.RedirectRequested),
        "cancel": runs.asking("cancel", e.CancelRequested),
        "answer": runs.answer,
        "decline": runs.asking("decline", e.QuestionAnswered, declined=True),
        "raise_limits": runs.asking("raise limits", e.LimitsRaised),
        "take_over": runs.asking("take over", e.TakenOver),
        "hand_back": runs.asking("hand back", e.HandedBack),
        "stop_effect": runs.asking("stop effect", e.EffectStopRequested),
        "undo": runs.asking("undo", e.UndoRequested),
        "recover": runs.asking("recover", e.Recovered),
        "send": messages.send,
        "ask_aside": Asides(record).ask_aside,
        "edit_message": messages.telling("edit", t.MessageEdited),
        "withdraw_message": messages.telling("withdraw", t.MessageWithdrawn),
        "overrule": messages.overrule,
        "heard": messages.heard,
        "do_now": todos.do_now,
        "reorder": messages.telling("reorder", t.TodosReordered),
        "remove_todo": todos.remove_todo,
        "kill": switch.kill,
        "release": switch.release,
    }


def _check_agents(agents: Iterable[object]) -> None:
    named: dict[str, Agent] = {}
    for each in agents:
        if not isinstance(each, Agent):
            raise InvalidRequest(
                f"{each!r:.80} is not an agent: decorate its function with @agent."
            )
        if named.setdefault(each.name, each) is not each:
            raise InvalidRequest(
                f"two agents are called {each.name}: give one of them another name, as in "
                "@agent('another')."
            )


@asynccontextmanager
async def local(
    address: str | Path,
    *agents: Agent,
    workdir: str | Path = ".midflight",
    drain_s: float = DRAIN_S,
    signals: bool = False,
) -> AsyncIterator[Control]:
    """Open a store, drive runs of these agents in this process, and control them.

    With ``signals=True`` SIGTERM, SIGINT and SIGHUP (its terminal has closed) end the block in good
    order: nothing further is claimed, runs are held, steps in flight have ``drain_s`` seconds to
    end, and the program goes on behind the block. The next start takes the runs up again. A second
    SIGTERM or SIGINT ends the process at once, which is as safe as a crash.
    """
    _check_agents(agents)
    async with (
        open_store(str(address)) as store,
        LocalEngine.open(
            store, agents, workdir=workdir, drain_s=drain_s, signals=LEAVING if signals else ()
        ) as engine,
    ):
        yield Control(store, engine)

"""``AnyControl``: every verb over runs and threads, as a typed method, and all that is looked up.

Its two kinds are ``Control``, for a store that this process has open, and ``RemoteControl``, for
the runs of a server. Code that takes an ``AnyControl`` works with both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Unpack

from midflight.agents import Agent
from midflight.control.ack import Ack, Turn
from midflight.control.recorder import offers, runs_below
from midflight.control.todos import TodoOffer
from midflight.control.transcript import Line
from midflight.control.verbs import By, RunBy
from midflight.errors import InvalidRequest, NoResult
from midflight.journal.limits import NO_CAPS
from midflight.journal.phases import LIVE, Phase
from midflight.journal.preview import Offer
from midflight.journal.record import Actor, Limits
from midflight.journal.requests import ASIDE, Switch
from midflight.journal.state import Delivery, RunState, needs_driver, undriven_since
from midflight.journal.status import Receipt, receipt
from midflight.journal.threads.thread import Todo
from midflight.stores.lookup import Journals, ended, run_state, until, without_person
from midflight.stores.protocol import Killing, Query, Row

ROWS: Final = 500  # a page of them
PATIENCE_S: Final = 10.0  # in which a request is repeated while its server is away
AWAY_S: Final = 600.0  # in which a watcher waits for a server that is away


class AnyControl(ABC):
    """Controls runs, wherever they are.

    Verbs take ``who=``, who asks, and ``key=``: the same request under the same key is done once.
    Those over a run also take ``expect=``, the position that the caller has seen: they are refused
    as ``Outdated`` if something that matters has changed since. A pause and a cancel never are.
    """

    store: Journals

    @abstractmethod
    async def _do(
        self, verb: str, target: Any, given: dict[str, Any], by: Mapping[str, Any]
    ) -> Any:
        """Have a verb of the table done to its target."""

    @abstractmethod
    async def _returned(self, state: RunState) -> Any:
        """Return what the function of a run has returned, which is done."""

    # ── starting ─────────────────────────────────────────────────────────────────────────────

    async def start(
        self,
        agent: Agent | str,
        brief: str,
        *,
        thread: str = "",
        input: Any = None,  # noqa: A002 - what people call it
        limits: Limits | None = None,
        title: str = "",
        **by: Unpack[By],
    ) -> str:
        """Start a run and give its id. Repeated under the same key it gives the same run."""
        given = {"brief": brief, "thread": thread, "input": input, "limits": limits, "title": title}
        run: str = await self._do("start", agent, given, by)
        return run

    async def converse(
        self,
        agent: Agent | str,
        thread: str,
        messages: Iterable[tuple[str, str]],
        **by: Unpack[By],
    ) -> Turn:
        """Say something in a conversation: a run that is in front hears it, or one is started.

        ``messages`` are keys and texts; a message that this sender has sent under its key is not
        sent again. A turn that they repeat under its ``key`` belongs to the run that it has
        started.
        """
        turn: Turn = await self._do("converse", thread, {"agent": agent, "messages": messages}, by)
        return turn

    async def fork(self, run: str, at: int | str, *, brief: str = "", **by: Unpack[By]) -> str:
        """Try again from a step of a run that has ended, and give the new run's id.

        ``at`` is a step's name or a position: records before it are taken over; that step and all
        later ones are done anew. The new run asks about effects that came after it.
        """
        new: str = await self._do("fork", run, {"at": at, "brief": brief}, by)
        return new

    # ── verbs over a run ─────────────────────────────────────────────────────────────────────

    async def pause(self, run: str, *, scope: str = "tree", **by: Unpack[RunBy]) -> Ack:
        """Hold a run: nothing further starts, and what is in flight is ended or finishes.

        ``scope="tree"`` is the run with the background runs that it has begun, ``"this"`` it alone.
        """
        return await self._ack("pause", run, {"scope": scope}, by)

    async def resume(self, run: str, *, scope: str = "tree", **by: Unpack[RunBy]) -> Ack:
        """Let a run go on where it was, with ``scope="tree"`` also background runs that were held.

        A run that was parked for another comes back, and the other is parked in its turn.
        """
        return await self._ack("resume", run, {"scope": scope}, by)

    async def redirect(
        self, run: str, text: str, *, profile: str = "", resume: bool = False, **by: Unpack[RunBy]
    ) -> Ack:
        """Change course: ``text`` is the new brief. Finished work is kept.

        ``profile`` names another way of working, if the agent has some. A run that a person holds
        stays held, unless ``resume=True``.
        """
        given = {"text": text, "profile": profile, "resume": resume}
        return await self._ack("redirect", run, given, by)

    async def cancel(
        self, run: str, *, now: bool = False, scope: str = "tree", **by: Unpack[RunBy]
    ) -> Ack:
        """Stop a run for good: abort, undo, save. The answer lists what is in flight.

        ``now=True`` skips the undoing. ``scope="this"`` leaves its background runs alone.
        """
        return await self._ack("cancel", run, {"now": now, "scope": scope}, by)

    async def answer(self, run: str, question: int, payload: Any, **by: Unpack[RunBy]) -> Ack:
        """Answer an open question of the run, by its position. The first answer wins."""
        return await self._ack("answer", run, {"question": question, "payload": payload}, by)

    async def decline(self, run: str, question: int, **by: Unpack[RunBy]) -> Ack:
        """Leave an open question unanswered for good: the run goes on without an answer."""
        return await self._ack("decline", run, {"question": question}, by)

    async def raise_limits(
        self, run: str, limits: Limits = NO_CAPS, *, no_caps: bool = False, **by: Unpack[RunBy]
    ) -> Ack:
        """Set new caps; a run that is held at a cap goes on.

        Caps that are not named stay as they are. ``no_caps=True`` takes all of them away.
        """
        return await self._ack("raise_limits", run, {"limits": limits, "no_caps": no_caps}, by)

    async def take_over(self, run: str, **by: Unpack[RunBy]) -> Ack:
        """Take a run into one's own hands: it holds, as at a pause, until it is handed back."""
        return await self._ack("take_over", run, {}, by)

    async def hand_back(self, run: str, note: str = "", **by: Unpack[RunBy]) -> Ack:
        """Give a run back that a person had taken or was given; ``note`` is what it is told."""
        return await self._ack("hand_back", run, {"note": note}, by)

    async def stop_effect(self, run: str, attempt: int, **by: Unpack[RunBy]) -> Ack:
        """Abort an effect in flight that a pause waits for; its outcome becomes unknown."""
        return await self._ack("stop_effect", run, {"attempt": attempt}, by)

    async def undo(self, run: str, effects: Iterable[int] = (), **by: Unpack[RunBy]) -> Ack:
        """Undo effects of a run that has ended; all that can be, if none are named."""
        return await self._ack("undo", run, {"effects": effects}, by)

    async def recover(self, run: str, **by: Unpack[RunBy]) -> Ack:
        """Bring a run back that was killed. It comes back paused. Operators only."""
        return await self._ack("recover", run, {}, by)

    # ── verbs over a thread ──────────────────────────────────────────────────────────────────

    async def send(self, to: str, text: str, **by: Unpack[By]) -> Ack:
        """Write a message into a thread, or into that of a run. When accepted it is stored.

        Where an agent converses and nothing is in front it starts the next run. Of somebody who may
        control, a stop word that is the whole message pauses at once, and never cancels by itself;
        “never mind, do that instead” redirects.
        """
        return await self._ack("send", to, {"text": text}, by)

    async def ask_aside(self, to: str, text: str, **by: Unpack[By]) -> Ack:
        """Ask something about a run without touching it, also while it is paused.

        Answered in the thread: by a run of the agent's ``aside``, or at once with how it stands.
        """
        return await self._ack("ask_aside", to, {"text": text}, by)

    async def edit_message(self, thread: str, message: int, text: str, **by: Unpack[By]) -> Ack:
        """Give a message that nobody has read yet another text. Its sender only."""
        return await self._ack("edit_message", thread, {"message": message, "text": text}, by)

    async def withdraw_message(self, thread: str, message: int, **by: Unpack[By]) -> Ack:
        """Take a message back that nobody has read yet. Its sender only."""
        return await self._ack("withdraw_message", thread, {"message": message}, by)

    async def overrule(self, thread: str, message: int, choice: str, **by: Unpack[By]) -> Ack:
        """Want something else done about a message than was chosen.

        ``incorporate``: into the work in front. ``switch``: do it now, and park what is in front.
        ``defer``: keep it as a todo. ``back``: go back now to what was parked for it. ``undo``: the
        run that has read it goes back to its brief.
        """
        return await self._ack("overrule", thread, {"message": message, "choice": choice}, by)

    async def heard(
        self, thread: str, text: str, *, run: str, of: int = 0, how: str = "", **by: Unpack[By]
    ) -> Ack:
        """Note how much of what ``run`` has said a listener heard before cutting it short.

        ``of`` is the place of the words in the thread; 0 if the run was still speaking. From here
        on the conversation holds what was heard, for people and for models. ``how="hung up"``: the
        run speaks on, without them; its words are marked when they come. Of several listeners
        the one counts who has heard the most; ``how="whole"``: they have heard it to its end.
        """
        return await self._ack(
            "heard", thread, {"text": text, "run": run, "of": of, "how": how}, by
        )

    async def do_now(self, thread: str, todo: int, **by: Unpack[By]) -> Ack:
        """Take a todo now: a parked run comes back, a deferred message is done."""
        return await self._ack("do_now", thread, {"todo": todo}, by)

    async def reorder(self, thread: str, order: Sequence[int], **by: Unpack[By]) -> Ack:
        """Put todos in the person's order; the others follow in the usual one."""
        return await self._ack("reorder", thread, {"order": order}, by)

    async def remove_todo(self, thread: str, todo: int, **by: Unpack[By]) -> Ack:
        """Do not want it any more. A parked run is cancelled with its todo, and undone."""
        return await self._ack("remove_todo", thread, {"todo": todo}, by)

    # ── verbs for operators ──────────────────────────────────────────────────────────────────

    async def kill(self, scope: str, *, reason: str = "", who: Actor | None = None) -> Killing:
        """The operator's switch: when this returns, everything in scope has stopped.

        ``scope`` is ``all``, ``agent:NAME`` or ``thread:ID``. Nothing is undone or saved, and
        nothing begins there until it is released.
        """
        killing: Killing = await self._do("kill", scope, {"reason": reason}, {"who": who})
        return killing

    async def release(self, scope: str, *, who: Actor | None = None) -> bool:
        """Take a kill switch back: the runs in its scope may move again. False if it was not on."""
        return bool(await self._do("release", scope, {}, {"who": who}))

    def _ack(
        self, verb: str, to: str, given: dict[str, Any], by: Mapping[str, Any]
    ) -> Coroutine[Any, Any, Ack]:
        return self._do(verb, to, given, by)

    # ── looking ──────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    async def applied(self, accepted: Ack) -> Delivery:
        """Wait until a verb was applied or superseded; a message until it was read or put off."""

    @abstractmethod
    async def todos(self, thread: str) -> list[Todo]:
        """List the todos of a thread, in the order in which they will be done."""

    @abstractmethod
    async def preview_todos(self, thread: str) -> list[TodoOffer]:
        """List the todos, each with what it would mean now to do it at once or to remove it."""

    @abstractmethod
    async def transcript(self, thread: str) -> list[Line]:
        """All that was said and chosen in a thread, in order."""

    @abstractmethod
    async def switches(self) -> list[Switch]:
        """The kill switches that are on."""

    @abstractmethod
    def watch(
        self, watched: str | Mapping[str, int], after: int = 0
    ) -> AbstractAsyncContextManager[Any]:
        """Events of a run or a thread after a position, then new ones as they come.

        Several are watched at once if their ids are given, with a position for each. To stop
        watching changes nothing in the run.
        """

    @abstractmethod
    def watch_live(
        self, watched: str | Mapping[str, int], after: int = 0
    ) -> AbstractAsyncContextManager[Any]:
        """As ``watch``, with what steps say while they work.

        A watch that begins in the middle of a step first yields the words that the step has said so
        far.
        """

    async def result(self, run: str, *, on_question: str = "wait") -> Any:
        """Wait for the end of a run and give what its agent function returned.

        Raises ``NoResult`` if it has failed, was cancelled or was killed. A run that asks a person
        is waited for until somebody has answered; with ``on_question="raise"`` it is
        ``NeedsPerson`` at once, which says what is asked and by which run: it may be a background
        run below this one. The run itself is not changed by that.
        """
        state = await without_person(self.ended, self.store, run, on_question)
        if state.phase is not Phase.DONE:
            raise NoResult(run, state.phase, state.error)
        return await self._returned(state)

    async def state(self, run: str) -> RunState:
        """The run as it is now."""
        return await run_state(self.store, run)

    async def preview(self, run: str) -> dict[str, Offer]:
        """Tell for each verb whether it can be pressed, and what it would do now, also below."""
        state = await self.state(run)
        return offers(state, await runs_below(self.store, state))

    async def receipt(self, run: str) -> Receipt:
        """Return the receipt of a run: it tells what became of every effect."""
        return receipt(await self.state(run))

    async def runs(self, query: Query | None = None) -> list[Row]:
        """The runs there are, newest first."""
        return await self._with_drivers(await self.store.rows(query or Query()))

    async def row(self, run: str) -> Row:
        """One run as it stands in the list of runs."""
        return (await self._with_drivers([await self.store.row(run)]))[0]

    async def undriven_since(self, state: RunState) -> float | None:
        """Return the time since which a run lacks the driver that it needs; None if it does not."""
        if not needs_driver(state):
            return None
        row = await self.row(state.journal)
        return undriven_since(state, gone=row.undriven, now=await self.store.now())

    async def _with_drivers(self, rows: list[Row]) -> list[Row]:
        """Mark those that nobody drives; over HTTP the server has done it."""
        return rows

    async def in_scope(self, scope: str) -> list[Row]:
        """All live runs that a kill of this scope would stop, or would keep from moving."""
        kind, name = scope_of(scope)
        agents = (name, f"{name}{ASIDE}") if kind == "agent" else ("",)
        thread = name if kind == "thread" else ""
        found: list[Row] = []
        for agent in agents:
            before = ""
            while True:
                query = Query(phases=LIVE, agent=agent, thread=thread, before=before, limit=ROWS)
                page = await self.store.rows(query)
                found += page
                if len(page) < ROWS:
                    break
                before = page[-1].journal
        return found

    async def ended(self, run: str) -> RunState:
        """Wait for the end of a run, and return the run as it was then."""
        return await ended(self.store, run)

    async def until(self, run: str, ready: Callable[[RunState], bool]) -> RunState:
        """Wait until the run's state is as wanted."""
        return await until(self.store, run, ready)


def scope_of(scope: str) -> tuple[str, str]:
    """Split the scope of a kill switch into kind and name; ``InvalidRequest`` if it is not one."""
    kind, _, name = str(scope).partition(":")
    if scope != "all" and not (kind in {"agent", "thread"} and name):
        raise InvalidRequest(
            f"{scope!r} is not a scope; use all, agent:NAME or thread:ID. Nothing was changed."
        )
    return kind, name


def cursors_of(watched: str | Mapping[str, int], after: int) -> Mapping[str, int]:
    """The position after which each is watched, of one or of several; ``after`` is for the one."""
    return {watched: after} if isinstance(watched, str) else watched

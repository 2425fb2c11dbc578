"""Handles: a run, a thread or a question, by its id, with all its verbs.

A client hands them out. A handle holds no state of its own and may be made at any time.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, Literal, Protocol, TypeAlias

import msgspec
from typing_extensions import TypeVar, override

from midflight.control.ack import Ack
from midflight.control.todos import TodoOffer
from midflight.control.transcript import Line
from midflight.conversation import Action
from midflight.errors import ENDED, InvalidRequest
from midflight.journal.events import QuestionOpened
from midflight.journal.limits import NO_CAPS
from midflight.journal.phases import Cause, Phase
from midflight.journal.preview import Offer
from midflight.journal.record import Limits, Recorded
from midflight.journal.requests import Switch
from midflight.journal.state import Delivery, RunState
from midflight.journal.status import Receipt
from midflight.journal.threads.thread import Todo
from midflight.stores.hints import Delta
from midflight.stores.lookup import Journals, question_at
from midflight.stores.protocol import Query, Row

T = TypeVar("T", default=Any)

Reach: TypeAlias = Literal["tree", "this"]
"""The reach of a verb: the run with the background runs that it has begun, or the run alone."""

OnQuestion: TypeAlias = Literal["wait", "raise"]
Overruling: TypeAlias = Action | Literal["back", "undo"]
Ready: TypeAlias = Callable[[RunState], bool]


class Controls(Protocol):
    """The control that a client uses: over the runs of a store here, or those of a server."""

    @property
    def store(self) -> Journals:
        """The journals, to be read."""

    async def result(self, run: str, *, on_question: OnQuestion = "wait") -> Any:
        """Wait for the end of a run and return what its function returned."""

    async def applied(self, accepted: Ack) -> Delivery:
        """Wait until a request was applied or superseded."""

    async def state(self, run: str) -> RunState:
        """Return a run as it is now."""

    async def until(self, run: str, ready: Ready) -> RunState:
        """Wait until the state of a run is as wanted."""

    async def ended(self, run: str) -> RunState:
        """Wait for the end of a run."""

    async def preview(self, run: str) -> dict[str, Offer]:
        """Return, for each verb, whether it can be pressed and what it would do."""

    async def receipt(self, run: str) -> Receipt:
        """Account for every effect of a run."""

    async def runs(self, query: Query | None = None) -> list[Row]:
        """List runs, newest first."""

    async def row(self, run: str) -> Row:
        """Return one run as it stands in the list."""

    async def todos(self, thread: str) -> list[Todo]:
        """List what is still to be done in a thread."""

    async def preview_todos(self, thread: str) -> list[TodoOffer]:
        """The same, with what each choice would mean now."""

    async def transcript(self, thread: str) -> list[Line]:
        """Return all that was said and chosen in a thread."""

    async def switches(self) -> list[Switch]:
        """List the kill switches that are on."""

    def watch(
        self, watched: str | Mapping[str, int], after: int = 0
    ) -> AbstractAsyncContextManager[AsyncIterable[Recorded]]:
        """Watch events as they come."""

    def watch_live(
        self, watched: str | Mapping[str, int], after: int = 0
    ) -> AbstractAsyncContextManager[AsyncIterable[Recorded | Delta]]:
        """Watch events, and what steps say while they work."""


class Caller(Protocol):
    """The client that a handle asks through; it adds the actor to each request."""

    @property
    def controls(self) -> Controls:
        """The control of the store or the server."""

    def call(self, verb: str, *given: Any, **options: Any) -> Coroutine[Any, Any, Any]:
        """Have a verb done in the name of the client's actor."""


class RunHandle(Generic[T]):
    """A run, by its id: press its verbs, wait for it, look at it.

    Verbs take ``key=``: the same request under the same key is done once. Most take ``expect=``,
    the position that the caller has seen: they are refused as ``Outdated`` if something that
    matters has changed since. A pause and a cancel never are.
    """

    def __init__(self, client: Caller, id: str) -> None:  # noqa: A002 - the plain word for it
        self.client = client
        self.id = id

    @override
    def __repr__(self) -> str:
        return f"RunHandle({self.id!r})"

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunHandle) and other.id == self.id

    @override
    def __hash__(self) -> int:
        return hash(self.id)

    async def pause(self, *, scope: Reach = "tree", key: str = "") -> Ack:
        """Hold the run: nothing further starts, and what is in flight is ended or finishes."""
        return await self.press("pause", scope=scope, key=key)

    async def resume(
        self, *, scope: Reach = "tree", key: str = "", expect: int | None = None
    ) -> Ack:
        """Let the run go on where it was. A parked run comes back, and the other is parked."""
        return await self.press("resume", scope=scope, key=key, expect=expect)

    async def redirect(
        self,
        text: str,
        *,
        profile: str = "",
        resume: bool = False,
        key: str = "",
        expect: int | None = None,
    ) -> Ack:
        """Change course: ``text`` is the new brief, and finished work is kept.

        ``profile`` names another way of working, if the agent has some. A run that a person holds
        stays held, unless ``resume=True``.
        """
        return await self.press(
            "redirect", text, profile=profile, resume=resume, key=key, expect=expect
        )

    async def cancel(self, *, now: bool = False, scope: Reach = "tree", key: str = "") -> Ack:
        """Stop the run for good: abort, undo, save. The answer lists what is in flight.

        ``now=True`` skips the undoing.
        """
        return await self.press("cancel", now=now, scope=scope, key=key)

    async def cancel_and_wait(
        self, *, now: bool = False, scope: Reach = "tree", key: str = ""
    ) -> Receipt:
        """Cancel the run, wait for its end, and account for every effect."""
        await self.cancel(now=now, scope=scope, key=key)
        return await self.receipt()

    async def send(self, text: str, *, key: str = "") -> Ack:
        """Write a message into the run's thread."""
        return await self.press("send", text, key=key)

    async def ask_aside(self, text: str, *, key: str = "") -> Ack:
        """Ask something about the run without touching it; the answer comes in the thread."""
        return await self.press("ask_aside", text, key=key)

    async def raise_limits(
        self,
        limits: Limits = NO_CAPS,
        *,
        no_caps: bool = False,
        key: str = "",
        expect: int | None = None,
    ) -> Ack:
        """Set new caps; a run that is held at a cap goes on. Caps that are not named stay."""
        return await self.press("raise_limits", limits, no_caps=no_caps, key=key, expect=expect)

    async def take_over(self, *, key: str = "", expect: int | None = None) -> Ack:
        """Take the run into one's own hands: it holds until it is handed back."""
        return await self.press("take_over", key=key, expect=expect)

    async def hand_back(self, note: str = "", *, key: str = "", expect: int | None = None) -> Ack:
        """Give the run back that a person had; ``note`` is what it is told."""
        return await self.press("hand_back", note, key=key, expect=expect)

    async def stop_effect(self, attempt: int, *, key: str = "", expect: int | None = None) -> Ack:
        """Abort an effect in flight that a pause waits for; its outcome becomes unknown."""
        return await self.press("stop_effect", attempt, key=key, expect=expect)

    async def undo(
        self, effects: Iterable[int] = (), *, key: str = "", expect: int | None = None
    ) -> Ack:
        """Undo effects of the run, which has ended; all that can be, if none are named."""
        return await self.press("undo", tuple(effects), key=key, expect=expect)

    async def undo_and_wait(self, effects: Iterable[int] = (), *, key: str = "") -> Receipt:
        """Undo effects of the run, wait until that has ended, and account for every effect."""
        await self.undo(effects, key=key)
        await self.until(lambda state: not state.wants_driver)
        return await self.receipt()

    async def recover(self, *, key: str = "", expect: int | None = None) -> Ack:
        """Bring the run back, paused, after it was killed. Operators only."""
        return await self.press("recover", key=key, expect=expect)

    async def fork(self, at: int | str, *, brief: str = "", key: str = "") -> RunHandle[T]:
        """Try again from a step of the run, which has ended: ``at`` is its name or position."""
        new = await self.client.call("fork", self.id, at, brief=brief, key=key)
        return RunHandle(self.client, new)

    def press(self, verb: str, *given: Any, **options: Any) -> Coroutine[Any, Any, Ack]:
        """Press a verb by its name."""
        return self.client.call(verb, self.id, *given, **options)

    async def applied(self, ack: Ack) -> Delivery:
        """Wait until a request was applied or superseded; a message until it was read."""
        return await self.client.controls.applied(ack)

    async def until(self, ready: Ready) -> RunState:
        """Wait until the state of the run is as wanted."""
        return await self.client.controls.until(self.id, ready)

    async def wait(self) -> RunState:
        """Wait for the end of the run."""
        return await self.client.controls.ended(self.id)

    async def wait_paused(self) -> RunState:
        """Wait until a person's pause holds the run, or it has ended."""
        return await self.until(
            lambda s: not s.alive or (s.phase is Phase.PAUSED and Cause.USER in s.holds)
        )

    async def result(self, *, on_question: OnQuestion = "wait") -> T:
        """Wait for the end of the run and return what its function returned.

        Raises ``NoResult`` if it has failed, was cancelled or was killed. A run that asks a person
        is waited for until somebody has answered; with ``on_question="raise"`` it is
        ``NeedsPerson`` at once.
        """
        result: T = await self.client.controls.result(self.id, on_question=on_question)
        return result

    async def next_question(self) -> QuestionHandle:
        """Wait until the run asks something, and return its oldest open question."""
        state = await self.until(lambda s: bool(s.questions) or not s.alive)
        if not state.questions:
            raise InvalidRequest(f"run {self.id} {ENDED[state.phase]} and will ask nothing more.")
        return await self._question(min(state.questions))

    async def state(self) -> RunState:
        """Return the run as it is now."""
        return await self.client.controls.state(self.id)

    async def questions(self) -> list[QuestionHandle]:
        """Return the open questions of the run, the oldest first."""
        return [await self._question(at) for at in sorted((await self.state()).questions)]

    async def _question(self, position: int) -> QuestionHandle:
        asked = await question_at(self.client.controls.store, self.id, position)
        assert asked is not None
        return QuestionHandle(self, position, asked)

    async def preview(self) -> dict[str, Offer]:
        """Return, for each verb, whether it can be pressed and what it would do now."""
        return await self.client.controls.preview(self.id)

    async def receipt(self, *, wait: bool = True) -> Receipt:
        """Account for every effect of the run, at its end or, with ``wait=False``, as of now."""
        if wait:
            await self.wait()
        return await self.client.controls.receipt(self.id)

    async def thread(self) -> ThreadHandle:
        """Return the thread that the run belongs to."""
        row = await self.client.controls.row(self.id)
        return ThreadHandle(self.client, row.thread)

    def watch(self, after: int = 0) -> AbstractAsyncContextManager[AsyncIterable[Recorded]]:
        """Watch the events of the run after a position, then new ones as they come."""
        return self.client.controls.watch(self.id, after)

    def watch_live(
        self, after: int = 0
    ) -> AbstractAsyncContextManager[AsyncIterable[Recorded | Delta]]:
        """As ``watch``, with what steps say while they work."""
        return self.client.controls.watch_live(self.id, after)


class QuestionHandle:
    """An open question of a run. The first answer wins."""

    def __init__(self, run: RunHandle, position: int, asked: QuestionOpened) -> None:
        self.run = run
        self.position = position
        self.kind = asked.kind
        self.message = asked.message
        self.schema: dict[str, Any] | None = msgspec.json.decode(asked.schema)
        self.expires_at = asked.expires_at

    async def answer(self, payload: Any, *, key: str = "", expect: int | None = None) -> Ack:
        """Answer with plain data that fits the question's schema."""
        return await self.run.press("answer", self.position, payload, key=key, expect=expect)

    async def approve(self, *, key: str = "", expect: int | None = None) -> Ack:
        """Allow what is asked for, as it is."""
        return await self.answer("approve", key=key, expect=expect)

    async def reject(self, *, key: str = "", expect: int | None = None) -> Ack:
        """Forbid what is asked for."""
        return await self.answer("reject", key=key, expect=expect)

    async def decline(self, *, key: str = "", expect: int | None = None) -> Ack:
        """Leave the question unanswered for good: the run goes on without an answer."""
        return await self.run.press("decline", self.position, key=key, expect=expect)


class ThreadHandle:
    """A thread, by its id: the messages between people and runs, and the todos."""

    def __init__(self, client: Caller, id: str) -> None:  # noqa: A002 - the plain word for it
        self.client = client
        self.id = id

    @override
    def __repr__(self) -> str:
        return f"ThreadHandle({self.id!r})"

    async def send(self, text: str, *, key: str = "") -> Ack:
        """Write a message. When it is acknowledged it is stored."""
        return await self._press("send", text, key=key)

    async def ask_aside(self, text: str, *, key: str = "") -> Ack:
        """Ask something about the thread's work without touching it."""
        return await self._press("ask_aside", text, key=key)

    async def edit_message(self, message: int, text: str, *, key: str = "") -> Ack:
        """Give a message that nobody has read yet another text. Its sender only."""
        return await self._press("edit_message", message, text, key=key)

    async def withdraw_message(self, message: int, *, key: str = "") -> Ack:
        """Take a message back that nobody has read yet. Its sender only."""
        return await self._press("withdraw_message", message, key=key)

    async def overrule(self, message: int, choice: Overruling, *, key: str = "") -> Ack:
        """Want something else done about a message than was chosen."""
        return await self._press("overrule", message, choice, key=key)

    async def todos(self) -> list[Todo]:
        """List what is still to be done, in the order in which it will be."""
        return await self.client.controls.todos(self.id)

    async def preview_todos(self) -> list[TodoOffer]:
        """The same, with what it would mean now to do each at once or to remove it."""
        return await self.client.controls.preview_todos(self.id)

    async def do_now(self, todo: int, *, key: str = "") -> Ack:
        """Take a todo now: a parked run comes back, a deferred message is done."""
        return await self._press("do_now", todo, key=key)

    async def reorder(self, order: Sequence[int], *, key: str = "") -> Ack:
        """Put todos in the person's order; those left out follow in the usual one."""
        return await self._press("reorder", order, key=key)

    async def remove_todo(self, todo: int, *, key: str = "") -> Ack:
        """Remove a todo. A parked run is cancelled with it, and undone."""
        return await self._press("remove_todo", todo, key=key)

    async def transcript(self) -> list[Line]:
        """Return all that was said and chosen in the thread, in order."""
        return await self.client.controls.transcript(self.id)

    async def runs(self) -> list[Row]:
        """List the thread's runs, newest first."""
        return await self.client.controls.runs(Query(thread=self.id))

    def watch(self, after: int = 0) -> AbstractAsyncContextManager[AsyncIterable[Recorded]]:
        """Watch the events of the thread after a position, then new ones as they come."""
        return self.client.controls.watch(self.id, after)

    def _press(self, verb: str, *given: Any, **options: Any) -> Coroutine[Any, Any, Ack]:
        return self.client.call(verb, self.id, *given, **options)

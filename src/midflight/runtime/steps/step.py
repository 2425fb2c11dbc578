"""One step while it is under way: its call, what it waits for, and how its tool is entered.

It runs in a task of its driver; the agent's function only waits for ``future``. The way from its
gate to its record is in ``attempt``.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import anyio
from msgspec import Raw

from midflight.journal import events as e
from midflight.journal.phases import Effect
from midflight.journal.record import NULL, Usage
from midflight.run import Redirected
from midflight.runtime import foreign
from midflight.runtime.host import Host
from midflight.runtime.replay.staleness import Guards
from midflight.runtime.replay.step_records import Answered
from midflight.runtime.steps.bounds import Ending
from midflight.runtime.steps.budget import within_caps
from midflight.runtime.steps.side_calls import call_apart
from midflight.runtime.steps.speech import NOTHING, Speech
from midflight.runtime.steps.tool_call import Call
from midflight.tools.declaration import Tool
from midflight.tools.labels import label_of
from midflight.tools.progress import check_usage

SHOWN_MAX: Final = 16 * 1024  # bytes of arguments that are kept and told only to be seen
_MAKING: Final = threading.Lock()
TOLD: Final = "a worker that was lost has done it"


class NotWaitedFor(Exception):
    """Raised when the function has given the step up before it began; nobody hears this."""


class LeftBehind(Exception):
    """Raised when a tool would not end. The step goes on in another task.

    An open cancel scope of that tool, or a task of it that fails, would cancel its caller.
    """

    def __init__(self, ending: Ending) -> None:
        self.ending = ending
        super().__init__("left behind")


class NotReserved(Exception):
    """Raised when a tool's ``reserves`` has raised something: the step has failed."""


class Step:
    """A step that is being done."""

    __slots__ = (
        "_before", "_questions", "_refreshing", "_reserved", "_since", "_speech", "args", "asked",
        "asking", "attempt", "begins_at", "call", "course", "future", "given", "guards", "host",
        "identity", "idle", "intact", "key", "kwargs", "name", "resting", "tool", "unwanted",
        "wait_at_least", "wanted",
    )  # fmt: skip

    def __init__(
        self,
        host: Host,
        guards: Guards,
        identity: str,
        name: str,
        tool: Tool,
        *,
        call: tuple[tuple[Any, ...], dict[str, Any]],
        given: Raw,
        asked: str,
        course: int,
        refreshing: bool = False,
    ) -> None:
        self.host = host
        self.guards = guards
        self.identity = identity
        self.key = f"{host.journal.run}:{identity}"  # so that a provider can recognise a repeat
        self.name = name
        self.tool = tool
        self.args, self.kwargs = call
        self.given = self.wanted = given  # a person may edit what is given, not what was wanted
        self.asked = asked  # the digest of what the function has given
        self.course = course
        self.call: Call | None = None
        self.wait_at_least = 0.0  # before the next try, as the last refusal has said
        self.attempt = 0  # where the attempt under way is on record
        self.begins_at: float | None = None  # by the steady clock: just before it was let go
        self.future: asyncio.Future[Raw] = host.alarms.loop.create_future()
        self._speech: Speech | None = None
        self._before = host.history.records.get(identity)  # of an earlier course, if at all
        self._refreshing = refreshing  # a read that is repeated, so it waits for no other record
        self._reserved: tuple[Raw, Usage] | None = None  # and the arguments that it is for
        self.unwanted = False
        self.intact: Mapping[str, str] = {}  # how guards looked just before it began
        self.resting = True  # neither in the tool nor writing down how it ended
        self.asking = False  # it waits for a person
        self.idle = False  # it waits before it tries again
        self._questions: anyio.CancelScope | None = None
        self._since = host.alarms.loop.time()

    @property
    def label(self) -> str:
        """The words that a person has for this one, with its arguments as they are now."""
        of_it = partial(label_of, self.tool, self.name, self.args, self.kwargs)
        try:
            made = foreign.answered(of_it) if self.tool.describe else of_it()
        except Exception:  # noqa: BLE001 - a label that cannot be made must not fail the step
            made = of_it(declared=False)
        return made if made.isascii() and made.isprintable() else foreign.text(made)

    @property
    def speech(self) -> Speech:
        """The words of the step, and what it spends."""
        if self._speech is None:
            with _MAKING:  # its first words may come from two threads
                if (made := self._speech) is None:
                    made = self._speech = Speech(self.host, self)
                return made
        return self._speech

    @property
    def spent(self) -> Usage:
        """The amount that the attempt says to have spent so far."""
        return NOTHING if self._speech is None else self._speech.usage

    def hear(self, text: str) -> None:
        """See ``Ear``."""
        if self.call is not None:  # or it is over, and a thread that it has begun still speaks
            self.speech.hear(text)

    def pay(self, usage: Usage) -> None:
        """See ``Ear``."""
        if self.call is not None:
            self.speech.pay(usage)

    @property
    def shown(self) -> Raw:
        """The arguments as watchers see them; nothing where they are large."""
        return self.given if len(bytes(self.given)) <= SHOWN_MAX else NULL

    @property
    def told(self) -> bool:
        """True if a worker that began the step before us has told meanwhile that it is done."""
        return self.host.history.records.get(self.identity) is not self._before

    @property
    def reserved(self) -> Usage:
        """The amount that it may spend, as its tool says; asked once for the same arguments."""
        reserves = self.tool.reserves
        if reserves is None:
            return NOTHING
        if self._reserved is None or self._reserved[0] is not self.given:
            what = f"reserves= of {self.tool.name}"
            try:
                usage = foreign.answered(partial(reserves, *self.args, **self.kwargs))
            except Exception as error:
                raise NotReserved(f"{what} failed: {foreign.words(error)}") from error
            check_usage(usage, what)
            self._reserved = self.given, usage
        return self._reserved[1]

    def rest(self) -> None:
        """Come to rest, where others may wait for that: a pause, a cancel."""
        if not self.resting:
            self.resting = True
            self.host.journal.stir()

    def rest_unheard(self) -> None:
        """Come to rest: only the code that waits for the step's end hears of that, and at once."""
        self.resting = True

    @contextmanager
    def idling(self) -> Iterator[None]:
        """While inside, it waits before it tries again."""
        self.idle = True
        self.host.journal.stir()
        try:
            yield
        finally:
            self.idle = False
            self.host.journal.stir()

    # ── what others change ───────────────────────────────────────────────────────────────────

    def begin(self, position: int, at: float) -> None:
        """An attempt is on record, and its time runs."""
        self.attempt, self.begins_at = position, at

    def edit(self, args: tuple[Any, ...], kwargs: dict[str, Any], given: Raw) -> None:
        """A person has changed the arguments."""
        self.args, self.kwargs, self.given = args, kwargs, given

    def rely_on(self, intact: Mapping[str, str]) -> None:
        """Note how guards looked just before it began."""
        self.intact = intact

    def be_patient(self, seconds: float) -> None:
        """Wait at least so long before the next try."""
        self.wait_at_least = seconds

    def follow(self, course: int) -> None:
        """Go on with a course of which this step is not told."""
        self.course = course

    # ── its end ──────────────────────────────────────────────────────────────────────────────

    def be_over(self) -> None:
        """Leave the run: the function was told how this ended."""
        self.call = None  # all know us: or each step would be left to the collector
        self._speech, self.resting = None, True
        del self.future
        self.host.in_flight.leave(self)

    def raise_if_told(self) -> None:
        """It was told of a redirect while its end was being written down: that it gives later."""
        if self.host.signals.told is None:
            self.host.signals.raise_if_told(self.course)

    def hear_late(self) -> None:
        """Somebody was late to tell of an attempt: if it was ours, what we ask is of no concern."""
        if self.told and self._questions is not None:
            self._questions.cancel()

    def tell(self, error: BaseException) -> None:
        """Have the function raise it."""
        if isinstance(error, Redirected):
            self.host.history.turn_away(self.identity, error)
        if not self.future.done():
            self.future.set_exception(error)

    def give_up(self) -> None:
        """The function does not wait any more: a read is ended, an effect finishes and settles.

        A step that has not begun does not begin.
        """
        self.unwanted = True
        if self._questions is not None:
            self._questions.cancel()
        self.host.tasks.begin(self._leave)
        if self.tool.effect is Effect.READ and self.call is not None:
            self.call.abort("not waited for any more")
        self.host.journal.stir()

    async def _leave(self) -> None:
        """Note that the function has not learnt how this ended."""
        await anyio.lowlevel.checkpoint()  # nothing is noted by a driver that is being ended itself
        waited = self.host.alarms.loop.time() - self._since
        left = e.StepLeft(
            epoch=self.host.journal.epoch, step=self.identity, name=self.name, waited=waited
        )
        if self.host.signals.told is None:
            await self.host.journal.settle(left)

    # ── gates ────────────────────────────────────────────────────────────────────────────────

    async def may_start(self) -> None:
        """Wait until the run may move. Raises what the function has to be told."""
        host = self.host
        self.rest()
        host.in_flight.hold_back(self)
        wait = host.journal.until if self._refreshing else host.gate.wait_until
        while True:
            if not self.starts():
                await wait(self._has_something_to_do)
                host.signals.raise_if_told(self.course)
            if self.unwanted:
                raise NotWaitedFor
            _ = self.reserved  # others count it from here on, and must not fail for it
            if await within_caps(host, self):
                return

    def _has_something_to_do(self) -> bool:
        return self.unwanted or self.host.gate.movable(self.course, replaying=self._refreshing)

    async def ask(
        self,
        step: str,
        kind: str,
        message: str,
        schema: dict[str, Any],
        *,
        about: int = 0,
        replaces: str = "",
        expires_at: float | None = None,
    ) -> Answered:
        """Open a question of this step, or find it again, and wait for its answer.

        Nobody need answer it once the step is told to be done: then it is closed.
        """
        if self.told and not self.unwanted:
            return Answered(self.host.history.now, closed=TOLD)
        self.asking = True
        self.host.journal.stir()
        self._questions = anyio.CancelScope()
        try:
            with self._questions:
                return await self.host.questions.ask(
                    step,
                    kind,
                    message,
                    schema=schema,
                    about=about,
                    replaces=replaces,
                    expires_at=expires_at,
                    course=self.course,
                )
            await self.host.questions.withdraw(step)
            if self.told and not self.unwanted:
                return Answered(self.host.history.now, closed=TOLD)
            raise NotWaitedFor
        finally:
            self.asking = False
            self.host.journal.stir()
            self._questions = None

    def starts(self) -> bool:
        """Return whether it may begin right now, without waiting."""
        return self.host.gate.may_start(self.course, replaying=self._refreshing)

    async def run_tool(self, late: Callable[[Ending], None] | None = None) -> Ending:
        """Do what the tool does, once. An end that comes too late is told to ``late``."""
        kwargs, host = self.kwargs, self.host
        if self.tool.wants_key:
            kwargs = kwargs | {"idempotency_key": self.key}
        if self._speech is not None:
            self._speech.begin_again()
        if host.in_flight.last_words is not None:
            host.in_flight.speak(None)
        self.call = Call(
            self.tool,
            self.args,
            kwargs,
            host.alarms,
            self,
            since=self.begins_at,
            may_begin=self._has_the_run,
            waits=self._wait,
            late=late,
        )
        self.resting = False
        try:
            ending = await self.call.run()
        finally:
            if self._speech is not None:
                self._speech.end()
        if ending.left:
            raise LeftBehind(ending)
        return ending

    def _wait(self) -> None:
        """The tool waits for something."""
        self.speech.wait()

    def _has_the_run(self) -> bool:
        """Asked in a thread, so it only looks."""
        return self.host.lease.held and not self.host.journal.lost

    async def run_apart(self, call: Call) -> Ending:
        """Be inside a helper of the tool, where a stop can reach it."""
        self.resting = False
        self.call = call
        return await call_apart(call)

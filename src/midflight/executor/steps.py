"""One step, from being asked for to its end: what it waits for, and how its tool is entered.

It runs in a task that the driver owns; the agent function only waits for ``future``. The work of a
step between its gate and its record is in ``attempts``, the record in ``recording``.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
from msgspec import Raw

from midflight.errors import CorruptEntry, IllegalEvent, StepFailed
from midflight.executor import attempts, foreign
from midflight.executor.calls import Call, Ending
from midflight.executor.caps import NOTHING, within_caps
from midflight.executor.heard import Answered
from midflight.executor.helping import call_apart
from midflight.executor.recording import record
from midflight.executor.speech import Speech
from midflight.kernel import events as e
from midflight.kernel.phases import Effect
from midflight.kernel.record import NULL, Usage
from midflight.run import Redirected
from midflight.tools.base import Tool
from midflight.tools.labels import label_of
from midflight.tools.progress import check_usage

if TYPE_CHECKING:
    from midflight.executor.drive import Driver


SHOWN_MAX: Final = 16 * 1024  # bytes of arguments that are kept and told only to be seen
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
        "_asking", "_before", "_idle", "_questions", "_refreshing", "_reserved", "_resting",
        "_since", "args", "asked", "attempt", "begins_at", "call", "course", "driver", "future",
        "given", "identity", "intact", "kwargs", "name", "speech", "tool", "unwanted",
        "wait_at_least", "wanted",
    )  # fmt: skip

    def __init__(
        self,
        driver: Driver,
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
        self.driver = driver
        self.identity = identity
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
        self.future: asyncio.Future[Raw] = driver.alarms.loop.create_future()
        self.speech = Speech(self)
        self._before = driver.replay.records.get(identity)  # of an earlier course, if at all
        self._refreshing = refreshing  # a read that is repeated, so it waits for no other record
        self._reserved: tuple[Raw, Usage] | None = None  # and the arguments that it is for
        self.unwanted = False
        self.intact: dict[str, str] = {}  # how guards looked just before it began
        self._resting = True
        self._asking = False
        self._idle = False
        self._questions: anyio.CancelScope | None = None
        self._since = driver.alarms.loop.time()

    @property
    def noun(self) -> str:
        """The word that a person has for it."""
        return self.tool.noun or self.name

    @property
    def label(self) -> str:
        """The words that a person has for this one, with its arguments as they are now."""
        of_it = partial(label_of, self.tool, self.name, self.args, self.kwargs)
        try:
            made = foreign.answered(of_it)
        except Exception:  # noqa: BLE001 - a label that cannot be made must not fail the step
            made = of_it(declared=False)
        return foreign.text(made)

    @property
    def shown(self) -> Raw:
        """The arguments as watchers see them; nothing where they are large."""
        return self.given if len(bytes(self.given)) <= SHOWN_MAX else NULL

    @property
    def told(self) -> bool:
        """True if a worker that began the step before us has told meanwhile that it is done."""
        return self.driver.replay.records.get(self.identity) is not self._before

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

    @property
    def resting(self) -> bool:
        """Neither in the tool nor writing down how it ended."""
        return self._resting

    @resting.setter
    def resting(self, resting: bool) -> None:
        stirs = resting and not self._resting  # nobody waits for a step to begin
        self._resting = resting
        if stirs:
            self.driver.log.stir()

    def rest_unheard(self) -> None:
        """Come to rest: only the code that waits for the step's end hears of that, and at once."""
        self._resting = True

    @property
    def asking(self) -> bool:
        """Waits for a person."""
        return self._asking

    @asking.setter
    def asking(self, asking: bool) -> None:
        self._asking = asking
        self.driver.log.stir()

    @property
    def idle(self) -> bool:
        """Waits before it tries again."""
        return self._idle

    @idle.setter
    def idle(self, idle: bool) -> None:
        self._idle = idle
        self.driver.log.stir()

    @property
    def key(self) -> str:
        """Stable over every repeat, so that a provider can recognise one."""
        return f"{self.driver.run}:{self.identity}"

    async def perform(self, left: Ending | None = None) -> None:
        """Do it, and tell the function that waits for it.

        ``left`` is how its tool ended where that had to be left behind, in another task.
        """
        try:
            result = await self._perform(left)
            self._hear()
        except LeftBehind as behind:
            self.driver.begin(self.perform, behind.ending)
            return
        except (asyncio.CancelledError, IllegalEvent, CorruptEntry):
            self._be_over()
            raise  # the driver's own affair: the function cannot do anything about it
        except StepFailed as error:
            try:
                self._hear()
            except Redirected as redirected:
                self._tell(redirected)
            else:
                self._tell(error)
        except BaseException as error:  # noqa: BLE001 - a signal or a failure goes to the caller
            self._tell(error)
        else:
            if not self.future.done():
                self.future.set_result(result)
        self._be_over()

    async def _perform(self, left: Ending | None) -> Raw:
        try:
            return await attempts.perform(self, left)
        except NotReserved as failed:
            return await record(self, NULL, str(failed), cause=failed.__cause__)

    def _be_over(self) -> None:
        self.call = None  # all know us: or each step would be left to the collector
        del self.speech, self.future
        self.driver.working.leave(self)

    def _hear(self) -> None:
        """It was told of a redirect while its end was being written down: that it gives later."""
        if self.driver.course.told is None:
            self.driver.course.raise_if_told(self.course)

    def hear_late(self) -> None:
        """Somebody was late to tell of an attempt: if it was ours, what we ask is of no concern."""
        if self.told and self._questions is not None:
            self._questions.cancel()

    def _tell(self, error: BaseException) -> None:
        if isinstance(error, Redirected):
            self.driver.replay.turn_away(self.identity, error)
        if not self.future.done():
            self.future.set_exception(error)

    def give_up(self) -> None:
        """The function does not wait any more: a read is ended, an effect finishes and settles.

        What has not begun does not begin.
        """
        self.unwanted = True
        if self._questions is not None:
            self._questions.cancel()
        self.driver.begin(self._leave)
        if self.tool.effect is Effect.READ and self.call is not None:
            self.call.abort("not waited for any more")
        self.driver.log.stir()

    async def _leave(self) -> None:
        """Note that the function has not learnt how this ended."""
        await anyio.lowlevel.checkpoint()  # nothing is noted by a driver that is being ended itself
        waited = self.driver.alarms.loop.time() - self._since
        left = e.StepLeft(
            epoch=self.driver.epoch, step=self.identity, name=self.name, waited=waited
        )
        if self.driver.course.told is None:
            await self.driver.log.settle(left)

    # ── gates ────────────────────────────────────────────────────────────────────────────────

    async def may_start(self) -> None:
        """Wait until the run may move. Raises what the function has to be told."""
        driver = self.driver
        self.resting = True
        driver.working.under_way.discard(self)
        wait = driver.log.until if self._refreshing else driver.gate.wait_until
        while True:
            await wait(self._has_something_to_do)
            driver.course.raise_if_told(self.course)
            if self.unwanted:
                raise NotWaitedFor
            _ = self.reserved  # others count it from here on, and must not fail for it
            if await within_caps(driver, self):
                return

    def _has_something_to_do(self) -> bool:
        return self.unwanted or self.driver.gate.movable(self.course, replaying=self._refreshing)

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
            return Answered(self.driver.replay.now, closed=TOLD)
        self.asking = True
        self._questions = anyio.CancelScope()
        try:
            with self._questions:
                return await self.driver.questions.ask(
                    step,
                    kind,
                    message,
                    schema=schema,
                    about=about,
                    replaces=replaces,
                    expires_at=expires_at,
                    course=self.course,
                )
            await self.driver.questions.withdraw(step)
            if self.told and not self.unwanted:
                return Answered(self.driver.replay.now, closed=TOLD)
            raise NotWaitedFor
        finally:
            self.asking = False
            self._questions = None

    def starts(self) -> bool:
        """Return whether it may begin right now, without waiting."""
        return self.driver.gate.may_start(self.course, replaying=self._refreshing)

    async def run_tool(self) -> Ending:
        """Do what the tool does, once."""
        kwargs = dict(self.kwargs)
        if self.tool.wants_key:
            kwargs["idempotency_key"] = self.key
        call = Call(
            self.tool,
            self.args,
            kwargs,
            self.driver.alarms,
            self.speech.begin(),
            since=self.begins_at,
            may_begin=self._has_the_run,
        )
        if self.tool.effect.touches_world:
            call.late = partial(attempts.tell_late, self, self.attempt)
        return await self.run_call(call)

    def _has_the_run(self) -> bool:
        """Asked in a thread, so it only looks."""
        return self.driver.lease.held and not self.driver.lost

    async def run_call(self, call: Call, *, apart: bool = False) -> Ending:
        """Be inside a tool, where a stop can reach it."""
        self.resting = False
        self.call = call
        try:
            ending = await (call_apart(call) if apart else call.run())
        finally:
            self.speech.end()
        if ending.left and not apart:
            raise LeftBehind(ending)
        return ending

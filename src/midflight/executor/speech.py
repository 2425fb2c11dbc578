"""What a step says while it works: told at once, kept every two seconds and at every stop."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio

from midflight.executor.caps import NOTHING, give_notice
from midflight.kernel import events as e
from midflight.kernel.record import Usage
from midflight.tools.secret import beginning_of_one, hide

if TYPE_CHECKING:
    from midflight.executor.steps import Step
    from midflight.stores.voices import Voice

KEEP_S: Final = 2.0
KEPT_MAX: Final = 256 * 1024  # characters of one attempt; a person reads no more
CUT: Final = "\n[… the rest was not kept …]\n"


class Speech:
    """The text of one step so far. What comes from a thread is taken over on the loop."""

    __slots__ = (
        "_attempts", "_keeping", "_offset", "_pending", "_said", "_spoke_at", "_step", "_unsaid",
        "_voice", "usage",
    )  # fmt: skip

    def __init__(self, step: Step) -> None:
        self._step = step
        self._spoke_at = 0.0  # by the loop's clock
        self._pending: list[str] = []
        self._unsaid = ""  # what may be the beginning of a secret waits for its end
        self._voice: Voice | None = None
        self._offset = 0  # how much of it is in the journal
        self._said = 0
        self._attempts = 0  # by this driver; a read has no record of its own for each
        self._keeping = False
        self.usage = NOTHING

    def begin(self) -> Speech:
        """A new attempt speaks from the beginning."""
        self.usage = NOTHING
        self._pending.clear()
        self._unsaid, self._voice = "", None
        alarms = self._step.driver.alarms
        self._offset, self._said, self._spoke_at = 0, 0, alarms.loop.time()
        self._attempts += 1
        alarms.set(self, self._spoke_at + self._step.tool.stall)
        return self

    def end(self) -> None:
        """The attempt is over, and may be silent."""
        self._step.driver.alarms.drop(self)
        if self._unsaid:
            self._say(self._unsaid)  # not the beginning of one, as it turns out
        if self._voice is not None:
            self._step.driver.store.voices.end(self._voice)

    def ring(self, now: float) -> float | None:
        """What has been silent for too long is shown as stalled, once an attempt."""
        step, stall = self._step, self._step.tool.stall
        if self._spoke_at + stall > now:
            return self._spoke_at + stall
        kind = f"stalled:{step.attempt}:{step.identity}:{step.driver.epoch}.{self._attempts}"
        text = f"{step.name} has shown no progress for {stall:g} s"
        step.driver.begin(give_notice, step.driver, kind, text)
        return None

    def pay(self, usage: Usage) -> None:
        """What the attempt has spent. One unknown price makes its sum unknown."""
        before = self.usage
        priced = usage.usd is not None and (before.usd is not None or not before.tokens)
        usd = (before.usd or 0.0) + usage.usd if priced and usage.usd is not None else None
        self.usage = Usage(tokens=before.tokens + usage.tokens, usd=usd)

    def hear(self, text: str) -> None:
        """What the attempt says, perhaps in a thread."""
        home = self._step.driver.alarms
        if threading.get_ident() == home.thread:
            self._take(text)
        else:
            with suppress(RuntimeError):  # the driver's loop has ended before this thread
                home.loop.call_soon_threadsafe(self._take, text)

    def _take(self, text: str) -> None:
        self._spoke_at = self._step.driver.alarms.loop.time()
        room = KEPT_MAX - self._said
        if not text or room < 0:
            return
        self._said += len(text)
        said = hide(self._unsaid + (text if len(text) <= room else text[:room] + CUT))
        split = len(said) - beginning_of_one(said)
        said, self._unsaid = said[:split], said[split:]
        self._say(said)
        if not self._keeping and not self._step.resting:
            self._keeping = True
            self._step.driver.begin(self._keep_soon)

    def _say(self, text: str) -> None:
        if not text:
            return
        self._pending.append(text)
        if self._voice is None:
            step = self._step
            voices = step.driver.store.voices
            self._voice = voices.begin(step.driver.run, step.identity, step.attempt)
        self._voice.say(text)

    async def _keep_soon(self) -> None:
        await anyio.sleep(KEEP_S)
        self._keeping = False
        if not self._step.resting:
            await self.keep()

    async def keep(self) -> None:
        """Put what was said since the last time into the journal."""
        text = "".join(self._pending)
        self._pending.clear()
        if not text:
            return
        step, offset = self._step, self._offset
        self._offset += len(text)
        await step.driver.log.settle(
            e.TextStreamed(
                epoch=step.driver.epoch,
                step=step.identity,
                attempt=step.attempt,
                offset=offset,
                text=text,
            )
        )

"""What a step says while it works: told at once, kept every two seconds and at every stop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio

from midflight.executor.caps import give_notice
from midflight.kernel import events as e
from midflight.kernel.record import Usage
from midflight.tools.secret import beginning_of_one, hide

if TYPE_CHECKING:
    from midflight.executor.steps import Step
    from midflight.stores.voices import Voice

KEEP_S: Final = 2.0
KEPT_MAX: Final = 256 * 1024  # characters of one attempt; a person reads no more
NOTHING: Final = Usage()
CUT: Final = "\n[… the rest was not kept …]\n"


class Speech:
    """The text of one step so far. What comes from a thread is taken over on the loop."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._spoke_at = 0.0  # by the loop's clock
        self._pending: deque[str] = deque()
        self._unsaid = ""  # what may be the beginning of a secret waits for its end
        self._voice: Voice | None = None
        self._offset = 0  # how much of it is in the journal
        self._said = 0
        self._attempts = 0  # by this driver; a read has no record of its own for each
        self._keeping = False
        self.usage = NOTHING
        self._home = threading.get_ident()
        self._loop = asyncio.get_running_loop()

    def begin(self) -> Speech:
        """A new attempt speaks from the beginning."""
        self.usage = NOTHING
        self._pending.clear()
        self._unsaid, self._voice = "", None
        self._offset, self._said, self._spoke_at = 0, 0, self._loop.time()
        self._attempts += 1
        self._step.driver.silence.watch(self)
        return self

    def end(self) -> None:
        """The attempt is over, and may be silent."""
        self._step.driver.silence.forget(self)
        if self._unsaid:
            self._say(self._unsaid)  # not the beginning of one, as it turns out
        if self._voice is not None:
            self._step.driver.store.voices.end(self._voice)

    @property
    def stalls_at(self) -> float:
        """When it will have been silent for too long, by the loop's clock."""
        return self._spoke_at + self._step.tool.stall

    def say_that_it_stalls(self) -> None:
        """What has been silent for too long is shown as stalled, once an attempt."""
        step, stall = self._step, self._step.tool.stall
        kind = f"stalled:{step.attempt}:{step.identity}:{step.driver.epoch}.{self._attempts}"
        text = f"{step.name} has shown no progress for {stall:g} s"
        step.driver.tasks.start_soon(give_notice, step.driver, kind, text)

    def pay(self, usage: Usage) -> None:
        """What the attempt has spent. One unknown price makes its sum unknown."""
        before = self.usage
        priced = usage.usd is not None and (before.usd is not None or not before.tokens)
        usd = (before.usd or 0.0) + usage.usd if priced and usage.usd is not None else None
        self.usage = Usage(tokens=before.tokens + usage.tokens, usd=usd)

    def hear(self, text: str) -> None:
        """What the attempt says, perhaps in a thread."""
        if threading.get_ident() == self._home:
            self._take(text)
        else:
            with suppress(RuntimeError):  # the driver's loop has ended before this thread
                self._loop.call_soon_threadsafe(self._take, text)

    def _take(self, text: str) -> None:
        self._spoke_at = self._loop.time()
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
            self._step.driver.tasks.start_soon(self._keep_soon)

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


class Silence:
    """Looks for steps of one run that stall: one timer for all, since most end long before it."""

    def __init__(self) -> None:
        self._speaking: set[Speech] = set()
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, speech: Speech) -> None:
        """An attempt has begun."""
        self._speaking.add(speech)
        due = speech.stalls_at
        if self._timer is None or due < self._timer.when():
            self.close()
            self._timer = asyncio.get_running_loop().call_at(due, self._look)

    def forget(self, speech: Speech) -> None:
        """It is over, or was told of."""
        self._speaking.discard(speech)

    def _look(self) -> None:
        loop, self._timer = asyncio.get_running_loop(), None
        for speech in [s for s in self._speaking if s.stalls_at <= loop.time()]:
            self.forget(speech)
            speech.say_that_it_stalls()
        if self._speaking:
            due = min(speech.stalls_at for speech in self._speaking)
            self._timer = loop.call_at(due, self._look)

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

"""The words of a step while it works: told at once, kept every two seconds and at every stop."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Final

import anyio

from midflight.journal import events as e
from midflight.journal.phases import Effect
from midflight.journal.record import Usage
from midflight.runtime.foreign import text as storable
from midflight.runtime.host import Host
from midflight.runtime.in_flight import LastWords, OpenStep
from midflight.stores.hints import LiveCall, Voice
from midflight.tools.secret import beginning_of_one, hide

KEEP_S: Final = 2.0
KEPT_MAX: Final = 256 * 1024  # characters of one attempt; a person reads no more
PIECE: Final = 128 * 1024  # characters of one event, of which each may need six bytes there
CUT: Final = "\n[… the rest was not kept …]\n"
NOTHING: Final = Usage()  # spent or reserved, as far as was said
SAID_MAX: Final = 64 * 1024  # characters of a model's words that are kept with its end


class Speech:
    """The text of one step so far. Words that come from a thread are taken over on the loop."""

    __slots__ = (
        "_attempts", "_host", "_keeping", "_offset", "_pending", "_said", "_spoke_at", "_step",
        "_unsaid", "_voice", "usage",
    )  # fmt: skip

    def __init__(self, host: Host, step: OpenStep) -> None:
        self._host = host
        self._step = step
        self._spoke_at = host.alarms.loop.time()
        self._pending: list[str] = []
        self._unsaid = ""  # a possible beginning of a secret waits for its end
        self._voice: Voice | None = None
        self._offset = 0  # how much of it is in the journal
        self._said = 0
        self._attempts = 1  # by this driver; a read has no record of its own for each
        self._keeping = False
        self.usage = NOTHING

    def begin_again(self) -> None:
        """A new attempt speaks from the beginning."""
        self.usage = NOTHING
        self._pending.clear()
        self._unsaid, self._voice = "", None
        self._offset, self._said, self._spoke_at = 0, 0, self._host.alarms.loop.time()
        self._attempts += 1

    def wait(self) -> None:
        """The attempt waits for something, so others see it: from now on it may be silent long."""
        self._host.alarms.set(self, self._spoke_at + self._step.tool.stall)
        if self._step.tool.effect is Effect.READ and self._voice is None:
            self._voice = self._begun()

    def _begun(self) -> Voice:
        """Begin to tell watchers. Of a read also its call: only its end will be on record."""
        step, voices = self._step, self._host.journal.client.voices
        is_read = step.tool.effect is Effect.READ
        called = LiveCall(name=step.name, tool=step.tool.name, input=step.shown)
        about = (called,) if is_read else ()
        return voices.begin(self._host.journal.run, step.identity, step.attempt, *about)

    def end(self) -> None:
        """The attempt is over, and may be silent."""
        self._host.alarms.drop(self)
        if self._unsaid:
            self._say(self._unsaid)  # not the beginning of one, as it turns out
        if self._voice is not None:
            step = self._step
            self._host.journal.client.voices.end(self._voice)  # layer attempt-over-forgotten
            if text := self._voice.since(0):
                self._host.in_flight.speak(LastWords(step.identity, step.attempt, text))

    @property
    def said(self) -> str:
        """The words that the attempt has streamed so far, as people have seen them; cut if long."""
        text = "" if self._voice is None else self._voice.since(0)
        return text if len(text) <= SAID_MAX else text[:SAID_MAX] + CUT

    def ring(self, now: float) -> float | None:
        """Give notice, once an attempt, of a step that has been silent for too long."""
        step, stall = self._step, self._step.tool.stall
        if self._spoke_at + stall > now:
            return self._spoke_at + stall
        kind = f"stalled:{step.attempt}:{step.identity}:{self._host.journal.epoch}.{self._attempts}"
        text = f"{step.name} has shown no progress for {stall:g} s"
        self._host.tasks.begin(self._host.journal.give_notice, kind, text)
        return None

    def pay(self, usage: Usage) -> None:
        """Add to what the attempt has spent. One unknown price makes its sum unknown."""
        before = self.usage
        priced = usage.usd is not None and (before.usd is not None or not before.tokens)
        usd = (before.usd or 0.0) + usage.usd if priced and usage.usd is not None else None
        self.usage = Usage(tokens=before.tokens + usage.tokens, usd=usd)

    def hear(self, text: str) -> None:
        """Take words that the attempt says, perhaps in a thread."""
        home = self._host.alarms
        if threading.get_ident() == home.thread:
            self._take(text)
        else:
            with suppress(RuntimeError):  # the driver's loop has ended before this thread
                home.loop.call_soon_threadsafe(self._take, text)

    def _take(self, text: str) -> None:
        self._spoke_at = self._host.alarms.loop.time()
        if type(text) is not str or not text.isascii():
            text = storable(text, KEPT_MAX + 1)  # what is longer is cut below
        room = KEPT_MAX - self._said
        if not text or room < 0:
            return
        self._said += len(text)
        said = hide(self._unsaid + (text if len(text) <= room else text[:room] + CUT))
        split = len(said) - beginning_of_one(said)  # layer may-beginning-of-secret-waits
        said, self._unsaid = said[:split], said[split:]
        self._say(said)
        if not self._keeping and not self._step.resting:
            self._keeping = True
            self._host.tasks.begin(self._keep_soon)

    def _say(self, text: str) -> None:
        if not text:
            return
        self._pending.append(text)
        if self._voice is None:
            self._voice = self._begun()
        self._voice.say(text)

    async def _keep_soon(self) -> None:
        await anyio.sleep(KEEP_S)
        self._keeping = False
        if not self._step.resting:
            await self.keep()

    async def keep(self) -> None:
        """Put what was said since the last time into the journal."""
        for piece in self.take():
            await self._host.journal.settle(piece)

    def take(self) -> list[e.TextStreamed]:
        """Return what was said since the last time, for the journal."""
        text = "".join(self._pending)
        self._pending.clear()
        pieces, step = [], self._step
        for start in range(0, len(text), PIECE):
            piece = e.TextStreamed(
                epoch=self._host.journal.epoch,
                step=step.identity,
                attempt=step.attempt,
                offset=self._offset,
                text=text[start : start + PIECE],
            )
            self._offset += len(piece.text)
            pieces.append(piece)
        return pieces

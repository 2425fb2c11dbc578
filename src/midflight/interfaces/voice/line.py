"""One conversation by voice: what is heard and said goes through the table, and to the run.

``hear`` takes sound as it comes from a microphone; the line's time is the sound's. So a test that
gives it an hour of sound in a second has lived an hour, and one that gives none stands still.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from midflight.agents import Agent
from midflight.control import Control
from midflight.inputs import Ids, new_id
from midflight.interfaces.voice import turn_table as t
from midflight.interfaces.voice.call_record import Account, Caller, Moment, Noting, Sending
from midflight.interfaces.voice.ear import Ear
from midflight.interfaces.voice.narration import Telling
from midflight.interfaces.voice.speech.fallback import AnyRecogniser, AnySynthesiser
from midflight.interfaces.voice.speech.mouth import Mouth
from midflight.interfaces.voice.speech.speech_engines import (
    RATE,
    Engines,
    Heard,
    Sink,
    SpeechFailed,
)
from midflight.interfaces.voice.spoken_verbs import Acts
from midflight.interfaces.voice.turn_actions import NOTHING, Obeying
from midflight.interfaces.voice.turn_table import Floor, Order, Taking, advance
from midflight.interfaces.voice.voice_wire import FloorShown, Shown, Trouble
from midflight.journal.record import Actor

log: Final = logging.getLogger("midflight.interfaces.voice")

LET_GO: Final = (
    f"The key was down for {t.LONGEST_MS // 1000} s, the most that I can listen to at once. I take "
    "what you said so far. Press the key again to go on."
)
HEARS_LESS: Final = (
    "I hear less well: the speech detector {}. Where it is loud, hold the key to talk."
)
CANNOT_SPEAK: Final = "I cannot speak at the moment; here it is in writing."
SETTLE_S: Final = 8.0  # for the last words of who hangs up: to be recognised, and done
RECORD_S: Final = 3.0  # and for what they had heard, however long the former took
DEALT_WITH: Final = frozenset(
    {Order.GO_ON, Order.TAKE, Order.ASK, Order.ASK_IF_MEANT, Order.IGNORE}
)


class Line:
    """See the module. Opened by ``line_to``."""

    def __init__(
        self, caller: Caller, agent: Agent, engines: Engines, sink: Sink, tasks: TaskGroup
    ) -> None:
        self._show, self._tasks = caller.show, tasks
        self._ear = Ear(engines.vad())
        self.taking = Taking()
        voice = AnySynthesiser(*engines.synthesisers)
        self.mouth = Mouth(sink, voice, self._cannot_speak, self._is_our_turn)
        self._noting = Noting(caller)
        self._sending = Sending(caller, agent, self.mouth, self._noting)
        self._acts = Acts(caller, self.mouth, self._sending)
        self._account = Account(caller.who, caller.thread)
        self._obeying = Obeying(
            self,
            ear=self._ear,
            recogniser=AnyRecogniser(*engines.recognisers),
            mouth=self.mouth,
            acts=self._acts,
            account=self._account,
            tasks=tasks,
            show=caller.show,
        )
        self._telling = Telling(caller, self.mouth, self._noting, self.begin)
        self._moment = Moment()  # when the sound began that is heard now
        self._told_of_ear = ""

    @property
    def pending(self) -> int:
        """Recognitions and verbs that are not done yet."""
        return self._obeying.pending

    @property
    def spoken_s(self) -> dict[str, float]:
        """Seconds of speech so far: heard from the person, and played to them."""
        return {"heard": self._account.speech_ms / 1000, "spoken": self.mouth.played / RATE}

    async def run(self) -> None:
        """Speak and listen to the run, for as long as it is not cancelled."""
        self._tasks.start_soon(self.mouth.run)
        await self._telling.run()

    async def hang_up(self) -> None:
        """End the call: words that were said still take effect, and heard speech is recorded.

        Hanging up cancels no run.
        """
        self._obeying.leaving = True
        with anyio.move_on_after(SETTLE_S, shield=True):
            await self._settle()
        with anyio.move_on_after(RECORD_S, shield=True):
            for said in self._noting.due():
                await self._noting.whole(said)
            await self._sending.hang_up()
        self._account.close(self.mouth.played)

    async def _settle(self) -> None:
        while self.pending or self.taking.floor in {Floor.HELD, Floor.HEARING}:
            if self.taking.floor in {Floor.HELD, Floor.HEARING}:
                await self.happen(t.Pressed(True))
                self._moment = replace(self._moment, whole=False)
                await self.happen(t.Pressed(False))  # they have ended in the middle of it
            await anyio.sleep(0.01)  # recognitions and verbs, each of which has a bound

    # ── what comes in ────────────────────────────────────────────────────────────────────────

    async def hear(self, pcm: bytes, *, fed: bool = False) -> None:
        """Sound from the microphone, in pieces of any size; ``fed`` is silence that nobody sent.

        Time passes with it for who speaks when. It says nothing of a loudspeaker, and nothing of
        whether somebody has ended: what was being said is dealt with as half of it.
        """
        for frame in self._ear.frames(pcm):
            spoke = self.taking.spoke_ms
            if fed and self.taking.floor in {Floor.HELD, Floor.HEARING}:  # layer what-said
                self._moment = replace(self._moment, whole=False)
            await self.happen(t.FrameHeard(self._ear.hear(frame)))
            self._account.note_frame(speech=self.taking.spoke_ms > spoke)
            if self._ear.trouble != self._told_of_ear:
                self._told_of_ear = self._ear.trouble
                self._show(Trouble(HEARS_LESS.format(self._ear.trouble)))
            if self.taking.floor is Floor.SPEAKING and not fed:  # layer question-suspended-page-has
                await self.mouth.watch()
            await self.tick()

    async def press(self, *, down: bool) -> None:
        """The key to talk is held down, or let go."""
        await self.happen(t.Pressed(down))

    async def tick(self) -> None:
        """More was played, perhaps: see whether we have ended, or can begin."""
        self.mouth.stir()
        for said in self._noting.due():
            await self._obeying.start(partial(self._noting.whole, said))
        floor = self.taking.floor
        # layer answer-begins-with-question-last
        ended = floor is Floor.SPEAKING or (floor is Floor.HELD and not self.mouth.agenda.aside)
        if ended and not self.mouth.is_busy:
            await self.happen(t.SpeechEnded())
        self.begin()

    def begin(self) -> None:
        """We have something to say: say it if nobody else speaks."""
        if self.taking.floor is Floor.QUIET and self.mouth.is_busy:
            self.taking, _ = advance(self.taking, t.SpeechBegan())
            self._show(FloorShown(self.taking.floor))
            self.mouth.stir()

    def _is_our_turn(self) -> bool:
        return self.taking.floor is Floor.SPEAKING

    def _cannot_speak(self, text: str, error: SpeechFailed) -> None:
        about = {"action": "tts_failed", "why": str(error)}
        log.warning("Words could not be spoken in a voice call: %s", error, extra=about)
        self._show(Trouble(CANNOT_SPEAK, text))

    # ── the table ────────────────────────────────────────────────────────────────────────────

    async def happen(self, event: t.Event, heard: Heard = NOTHING) -> None:
        """Take an event; ``heard`` is what was judged. What an order is about is fixed here.

        To carry it out may take a while, in which the next sound begins: that is not to be mixed
        up with this one.
        """
        before = self.taking
        self.taking, orders = advance(before, event)
        obeying, moment = self._obeying, self._moment
        doings = [obeying.doing(order, heard, self.taking, moment) for order in orders]
        if not DEALT_WITH.isdisjoint(orders):
            self._ear.forget()
        if self.taking.sound != before.sound and self._ear.keep():
            agenda = self.mouth.agenda
            self._moment = Moment(self._telling.front, agenda.asked, agenda.last_heard)
        if self.taking.pressed and not self._moment.aimed:
            self._moment = replace(self._moment, aimed=True)
        if before.pressed and not self.taking.pressed and isinstance(event, t.FrameHeard):
            self._show(Trouble(LET_GO))
        if self.taking.floor is not before.floor:
            self._show(FloorShown(self.taking.floor))
        await obeying.in_turn(doings)


@asynccontextmanager
async def line_to(
    control: Control,
    agent: Agent,
    thread: str,
    *,
    who: Actor,
    engines: Engines,
    sink: Sink,
    show: Callable[[Shown], None] = lambda _: None,
    ids: Ids = new_id,
) -> AsyncIterator[Line]:
    """A line that is open as long as the block is. Hanging up cancels nothing.

    ``show`` is told what a screen should say.
    """
    async with anyio.create_task_group() as tasks:
        line = Line(Caller(control, thread, who, show, ids), agent, engines, sink, tasks)
        tasks.start_soon(line.run)
        try:
            yield line
        finally:
            await line.hang_up()
            tasks.cancel_scope.cancel()

"""One conversation by voice: what is heard and said goes through the table, and to the run.

``hear`` takes sound as it comes from a microphone; the line's time is the sound's. So a test that
gives it an hour of sound in a second has lived an hour, and one that gives none stands still.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from midflight.control import Control
from midflight.inputs import Ids, new_id
from midflight.kernel.record import Who
from midflight.run import Agent
from midflight.voice.acts import Acts
from midflight.voice.ear import Ear
from midflight.voice.fallback import AnyRecogniser, AnySynthesiser
from midflight.voice.lexicon import judge, meaning
from midflight.voice.mouth import Mouth, Utterance
from midflight.voice.seams import Heard, Recogniser, Sink, SpeechFailed, Synthesiser, Vad
from midflight.voice.shown import Did, FloorShown, Outcome, Saying, Shown, Trouble
from midflight.voice.taking import Event as Happened
from midflight.voice.taking import (
    Floor,
    FrameHeard,
    Judged,
    Order,
    Pressed,
    SpeechBegan,
    SpeechEnded,
    Taking,
    Verdict,
    advance,
)
from midflight.voice.telling import Telling

log: Final = logging.getLogger("midflight.voice")

SORRY: Final = "Sorry, I did not catch that."
CANNOT_HEAR: Final = "Sorry, I cannot make out words at the moment. Please write instead."
CANNOT_SPEAK: Final = "I cannot speak at the moment; here it is in writing."
DEAF_AFTER: Final = 2  # failures in a row, after which people are told to write


class Engines(Struct, frozen=True):
    """What a line hears and speaks with; several of a kind stand in for each other."""

    vad: Callable[[], Vad]
    recognisers: tuple[Recogniser, ...]
    synthesisers: tuple[Synthesiser, ...]


class Line:
    """See the module. Opened by ``line_to``; ``show`` is told what a screen should say."""

    def __init__(
        self,
        control: Control,
        agent: Agent,
        thread: str,
        *,
        who: Who,
        engines: Engines,
        sink: Sink,
        show: Callable[[Shown], None],
        tasks: TaskGroup,
        ids: Ids = new_id,
    ) -> None:
        self._show, self._tasks = show, tasks
        self._ear = Ear(engines.vad())
        self._recogniser = AnyRecogniser(*engines.recognisers)
        self.taking = Taking()
        voice = AnySynthesiser(*engines.synthesisers)
        self.mouth = Mouth(sink, voice, self._cannot_speak, self._is_our_turn)
        self._acts = Acts(
            control,
            agent,
            thread,
            who,
            ids=ids,
            aside=lambda: self.mouth.put_by,
            drop=self._drop,
        )
        self._telling = Telling(control, thread, self.mouth, who, self.begin)
        self._heard = Heard("", 0.0)
        self._deaf = 0
        self._told_of_ear = False
        self.pending = 0  # recognitions and verbs that are not done yet

    @property
    def level(self) -> float:
        """How loud the last frame was, from 0 to 1."""
        return self._ear.level

    async def run(self) -> None:
        """Speak and listen to the run, for as long as it is not cancelled."""
        self._tasks.start_soon(self.mouth.run)
        await self._telling.run()

    # ── what comes in ────────────────────────────────────────────────────────────────────────

    async def hear(self, pcm: bytes) -> None:
        """Sound from the microphone, in pieces of any size."""
        for frame in self._ear.frames(pcm):
            await self._happen(FrameHeard(self._ear.hear(frame)))
            if self._ear.trouble and not self._told_of_ear:
                self._told_of_ear = True
                self._show(Trouble(f"I hear less well than I should: {self._ear.trouble}."))
            await self.tick()

    async def press(self, *, down: bool) -> None:
        """The key to talk is held down, or let go."""
        await self._happen(Pressed(down))

    async def tick(self) -> None:
        """More was played, perhaps: see whether we have ended, or can begin."""
        self.mouth.stir()
        if self.taking.floor is Floor.SPEAKING and not self.mouth.is_busy:
            await self._happen(SpeechEnded())
        self.begin()

    def begin(self) -> None:
        """We have something to say: say it if nobody else speaks."""
        if self.taking.floor is Floor.QUIET and self.mouth.is_busy:
            self.taking, _ = advance(self.taking, SpeechBegan())
            self._show(FloorShown(self.taking.floor))
            self.mouth.stir()

    def _is_our_turn(self) -> bool:
        return self.taking.floor is Floor.SPEAKING

    # ── the table ────────────────────────────────────────────────────────────────────────────

    async def _happen(self, event: Happened) -> None:
        before = self.taking
        self.taking, orders = advance(before, event)
        if self.taking.sound != before.sound:
            self._ear.keep()
        if self.taking.floor is not before.floor:
            self._show(FloorShown(self.taking.floor))
        for order in orders:
            await self._obey(order)

    async def _obey(self, order: Order) -> None:
        match order:
            case Order.HOLD:
                await self.mouth.hold()
            case Order.GO_ON:
                self._ear.forget()
                self._show(Outcome("resumed", self._heard.text, self._heard.confidence))
                await self.mouth.go_on()
            case Order.CUT:
                self._show(Outcome("interrupted"))
                await self.mouth.put_aside()
            case Order.JUDGE | Order.JUDGE_WHOLE:
                whole = order is Order.JUDGE_WHOLE
                now = self.taking
                self._begin_task(
                    partial(self._judge, self._ear.sound, now.sound, now.spoke_ms, whole)
                )
            case Order.TAKE:
                self._ear.forget()
                self._begin_task(partial(self._take, self._heard))
            case Order.ASK:
                self._ear.forget()
                await self._ask()
            case Order.IGNORE:
                self._ear.forget()
                self._show(Outcome("ignored"))

    def _begin_task(self, task: Callable[[], Awaitable[None]]) -> None:
        self.pending += 1
        self._tasks.start_soon(self._counted, task)

    async def _counted(self, task: Callable[[], Awaitable[None]]) -> None:
        try:
            await task()
        finally:
            self.pending -= 1

    async def _judge(self, pcm: bytes, sound: int, spoke_ms: int, whole: bool) -> None:
        """What was said. Whatever fails, there is a verdict: the table never waits for nothing."""
        verdict = Verdict.UNCLEAR
        heard = Heard("", 0.0)
        try:
            heard = await self._recogniser.recognise(pcm)
            verdict = judge(heard, spoke_ms, whole=whole, held=self.taking.held)
            self._deaf = 0
        except SpeechFailed as error:
            self._deaf += whole
            log.warning("Recognition has failed", extra={"action": "stt_failed", "why": str(error)})
        if whole and sound == self.taking.sound:
            self._heard = heard
        await self._happen(Judged(sound, verdict, whole))

    async def _take(self, heard: Heard) -> None:
        self._show(Outcome("heard", heard.text, heard.confidence))
        done = await self._acts.do(meaning(heard.text))
        self._show(Did(done.act, done.say))
        if done.say:
            self.mouth.say(done.say)
        if done.go_on:
            await self.mouth.go_on()
        self.begin()

    # ── when something is not understood, or does not work ───────────────────────────────────

    async def _ask(self) -> None:
        self._show(Outcome("asked again", self._heard.text, self._heard.confidence))
        await self.mouth.put_aside()
        deaf = self._deaf >= DEAF_AFTER
        if deaf:
            self._show(Trouble(CANNOT_HEAR))
        self.mouth.say(CANNOT_HEAR if deaf else SORRY, fleeting=True)
        self.begin()

    def _cannot_speak(self, text: str, error: SpeechFailed) -> None:
        log.warning("Synthesis has failed", extra={"action": "tts_failed", "why": str(error)})
        self._show(Trouble(CANNOT_SPEAK, text))

    def _drop(self) -> list[Utterance]:
        dropped = self.mouth.drop()
        for said in dropped:
            self._show(Saying(said.heard, cut=True))
        return dropped


@asynccontextmanager
async def line_to(
    control: Control,
    agent: Agent,
    thread: str,
    *,
    who: Who,
    engines: Engines,
    sink: Sink,
    show: Callable[[Shown], None] = lambda _: None,
    ids: Ids = new_id,
) -> AsyncIterator[Line]:
    """A line that is open as long as the block is. Hanging up cancels nothing."""
    async with anyio.create_task_group() as tasks:
        line = Line(
            control,
            agent,
            thread,
            who=who,
            engines=engines,
            sink=sink,
            show=show,
            tasks=tasks,
            ids=ids,
        )
        tasks.start_soon(line.run)
        yield line
        tasks.cancel_scope.cancel()

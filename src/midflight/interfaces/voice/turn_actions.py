"""Carries out the orders of the table: be silent, go on, make out words, act on them, or ask.

Orders are carried out one after the other, as given. An order that takes a while is a task of its
own, and whatever fails in it, the line lives on.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias

import anyio
from anyio.abc import TaskGroup

from midflight.interfaces.voice import turn_table as t
from midflight.interfaces.voice.call_record import Account, Moment
from midflight.interfaces.voice.ear import Ear
from midflight.interfaces.voice.judgement import judge
from midflight.interfaces.voice.lexicon import is_firm, meaning
from midflight.interfaces.voice.speech.agenda import Utterance
from midflight.interfaces.voice.speech.mouth import Mouth
from midflight.interfaces.voice.speech.speech_engines import (
    Heard,
    Recogniser,
    SpeechFailed,
    is_noisy,
)
from midflight.interfaces.voice.spoken_verbs import Acts
from midflight.interfaces.voice.turn_table import Order, Taking, Verdict
from midflight.interfaces.voice.voice_wire import (
    AGAIN,
    IF_MEANT,
    Did,
    Outcome,
    Shown,
    Trouble,
)

log: Final = logging.getLogger("midflight.interfaces.voice")

SORRY: Final = "Sorry, I did not catch that."
FOR_ME: Final = "If that was for me, please say it again."
CANNOT_HEAR: Final = "Sorry, I cannot make out words at the moment. Please write instead."
DEAF_AFTER: Final = 2  # failures in a row, after which people are told to write
NOTHING: Final = Heard("", 0.0)

Doing: TypeAlias = Callable[[], Awaitable[None]]


class Conversation(Protocol):
    """The line, as who obeys it knows it: who has the floor, and what changes that."""

    taking: Taking

    async def happen(self, event: t.Event, heard: Heard) -> None:
        """Take an event; ``heard`` is what was judged."""

    def begin(self) -> None:
        """We have something to say: say it if nobody else speaks."""


class Obeying:
    """One line's; what a sound was goes back to it, and may be the next order."""

    def __init__(
        self,
        line: Conversation,
        *,
        ear: Ear,
        recogniser: Recogniser,
        mouth: Mouth,
        acts: Acts,
        account: Account,
        tasks: TaskGroup,
        show: Callable[[Shown], None],
    ) -> None:
        self._line, self._ear, self._recogniser, self._mouth = line, ear, recogniser, mouth
        self._acts, self._account, self._tasks, self._show = acts, account, tasks, show
        self._one = anyio.Lock()
        self._deaf = 0
        self.leaving = False  # they have hung up: nobody can be asked
        self.pending = 0  # recognitions and verbs that are not done yet

    def doing(self, order: Order, heard: Heard, now: Taking, moment: Moment) -> Doing:
        """Return a function that carries the order out, with its subject fixed now."""
        match order:
            case Order.HOLD:
                return self._mouth.hold
            case Order.GO_ON:
                return partial(self._go_on, heard)
            case Order.LET_GO:
                return self._mouth.go_on
            case Order.CUT:
                return self._cut
            case Order.JUDGE | Order.JUDGE_WHOLE:
                whole = order is Order.JUDGE_WHOLE
                said = self._ear.end() if whole else self._ear.sound
                judging = partial(self._judge, said, now, moment, whole)
                return partial(self.start, judging)
            case Order.TAKE:
                return partial(self.start, partial(self._take, heard, moment))
            case Order.ASK:
                return partial(self._ask, heard)
            case Order.ASK_IF_MEANT:
                return partial(self._ask_if_meant, heard)
            case Order.IGNORE:
                return self._ignore

    async def in_turn(self, doings: Sequence[Doing]) -> None:
        """Carry them out, after what was ordered before."""
        if doings:
            async with self._one:
                for doing in doings:
                    await doing()

    async def start(self, task: Doing) -> None:
        """Do it beside the line, which hears on meanwhile."""
        self.pending += 1
        self._tasks.start_soon(self._counted, task)

    async def _counted(self, task: Doing) -> None:
        try:
            await task()
        except Exception as error:  # an edge: one utterance's trouble does not end the line
            words = "Something that was said in a voice call could not be done"
            log.exception(words, extra={"action": "voice_failed"})
            why = str(error).rstrip(".")
            self._show(Trouble(f"That could not be done: {why}. You can say it again, or write."))
            await self._speak_on()
        finally:
            self.pending -= 1

    # ── what was said ────────────────────────────────────────────────────────────────────────

    async def _judge(self, pcm: bytes, then: Taking, moment: Moment, whole: bool) -> None:
        """Judge a sound. There is a verdict whatever fails, so the table never waits in vain."""
        verdict, heard = Verdict.UNCLEAR, NOTHING
        try:
            heard = await self._recogniser.recognise(pcm)
            now = self._line.taking
            answers = self._mouth.agenda.is_asking and is_firm(heard.text)
            verdict = judge(
                heard,
                then.spoke_ms,
                whole=whole,
                held=(now.held or now.cut) and not answers,
                noisy=is_noisy(pcm),
                asked=now.asked,
                remarked=now.remarked,
                awaited=self.leaving or moment.awaited,  # layer remark-of-hangs-up-meanwhile
            )
            self._deaf = 0
        except SpeechFailed as error:
            self._deaf += whole
            about = {"action": "stt_failed", "why": str(error)}
            log.warning("The words of a voice call were not recognised: %s", error, extra=about)
        except Exception:  # an edge: what nobody has thought of is not understood
            self._deaf += whole
            words = "The words of a voice call were not recognised, because of an error"
            log.exception(words, extra={"action": "judge_failed"})
        await self._line.happen(t.Judged(then.sound, verdict, whole), heard)

    async def _take(self, heard: Heard, moment: Moment) -> None:
        self._show(Outcome("heard", heard.text, heard.confidence))
        done = await self._acts.do(meaning(heard.text), moment)
        self._account.note_act(done.act, refused=done.refused)
        self._show(Did(done.act, done.say))
        answer = self._mouth.say(done.say, about=done.about) if done.say else None
        if done.go_on:
            self._mouth.release()
        if done.go_on or done.refused:
            await self._speak_on(behind=answer if done.refused else None)
        self._line.begin()

    async def _ask(self, heard: Heard) -> None:
        self._show(Outcome(AGAIN, heard.text, heard.confidence))
        deaf = self._deaf >= DEAF_AFTER
        if deaf:
            self._show(Trouble(CANNOT_HEAR))
        await self._ask_with(CANNOT_HEAR if deaf else SORRY)

    async def _ask_if_meant(self, heard: Heard) -> None:
        self._show(Outcome(IF_MEANT, heard.text, heard.confidence))
        await self._ask_with(FOR_ME)

    async def _ask_with(self, words: str) -> None:
        self._account.asked_again += 1
        await self._mouth.put_aside()
        self._mouth.say(words, fleeting=True)
        self._line.begin()

    async def _ignore(self) -> None:
        self._show(Outcome("ignored"))

    # ── our own words ────────────────────────────────────────────────────────────────────────

    async def _go_on(self, heard: Heard) -> None:
        self._show(Outcome("resumed", heard.text, heard.confidence))
        await self._mouth.go_on()

    async def _cut(self) -> None:
        self._show(Outcome("interrupted"))
        await self._mouth.put_aside()

    async def _speak_on(self, behind: Utterance | None = None) -> None:
        """Go on with what was put aside, except where its run or the listener waits."""
        async with self._one:
            await self._mouth.bring_back(behind=behind)
            if not self._line.taking.held:
                await self._mouth.go_on()

"""Records how much a listener has heard of the words of runs.

Several people may listen to the same words, and the record keeps the most that any of them has
heard. Words count as heard to their end if nobody says otherwise. So the line of a person who hangs
up says otherwise, and then a line that has heard them to their end says so.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from midflight.control import Control
from midflight.control.verbs import By
from midflight.errors import MidflightError, NotAllowed
from midflight.inputs import Ids
from midflight.interfaces.voice.call.screen_news import Saying, Shown, Trouble
from midflight.interfaces.voice.speech.utterance import Utterance
from midflight.journal.record import Actor
from midflight.journal.threads.thread import HUNG_UP, WHOLE, SpeechHeard

log: Final = logging.getLogger("midflight.interfaces.voice")
NOT_NOTED: Final = "How much of its words you have heard could not be written down."
REMEMBERED: Final = 64  # words of runs, and requests; nothing is said about older ones


class OwnIds:
    """Makes ids for the requests of this line, and knows them: a person may have several lines."""

    def __init__(self, ids: Ids) -> None:
        self._ids, self._given = ids, deque[str](maxlen=REMEMBERED)

    def __call__(self) -> str:
        """Return a new id."""
        self._given.append(self._ids())
        return self._given[-1]

    def __contains__(self, key: object) -> bool:
        return key in self._given


class Noting:
    """The record of one line."""

    def __init__(
        self,
        control: Control,
        thread: str,
        who: Actor,
        *,
        ids: OwnIds,
        show: Callable[[Shown], None],
    ) -> None:
        self._control, self._thread, self._who = control, thread, who
        self._ids, self._show = ids, show
        self._spoken: dict[int, Utterance] = {}  # by place: what is being said
        self._whole: dict[int, Utterance] = {}  # and what was heard to its end, without its sound
        self._doubted: set[int] = set()  # of these, what others have not heard to its end
        self._doubted_runs: set[str] = set()  # runs whose answer others may have left early

    # ── words heard to their end ─────────────────────────────────────────────────────────────

    def follow(self, said: Utterance, *, is_answer: bool) -> None:
        """Follow words that are in the thread now; an aside is not the answer that others left."""
        self._spoken[said.of] = said
        _forget_oldest(self._spoken)
        if is_answer and said.run in self._doubted_runs:
            self._doubted_runs.discard(said.run)
            self._doubted.add(said.of)

    def doubt(self, heard: SpeechHeard) -> None:
        """Note that somebody has not heard words to their end; if we have, we say so."""
        if heard.key in self._ids or heard.how == WHOLE:
            return
        if heard.of:
            self._doubted.add(heard.of)
        elif heard.how == HUNG_UP:
            self.doubt_answer(heard.run)

    def doubt_answer(self, run: str) -> None:
        """Note the same of an answer that a model still gives: earlier listeners may have left."""
        self._doubted_runs.add(run)

    def due(self) -> list[Utterance]:
        """Return the words that are to be recorded as heard to their end, each of them once."""
        for place, said in [one for one in self._spoken.items() if one[1].is_heard]:
            del self._spoken[place]
            self._whole[place] = Utterance(said.run, said.text, said.of)
            _forget_oldest(self._whole)
        found = [place for place in self._doubted if place in self._whole]
        self._doubted &= self._spoken.keys()
        return [self._whole[place] for place in found]

    async def whole(self, said: Utterance) -> None:
        """Record that words were heard to their end, which somebody else has not heard."""
        await self._write(said, said.text, WHOLE)

    # ── words cut short ──────────────────────────────────────────────────────────────────────

    async def cut(self, said: Utterance, words: str = "", *, hung_up: bool = False) -> None:
        """Record that no more of it is said; ``words``, if given, stand for what was heard.

        A listener who hangs up stops no model: its words come on record later, and in full.
        """
        self._spoken.pop(said.of, None)
        self._show(Saying(said.heard, cut=True))
        if said.run:
            how = HUNG_UP if hung_up and not said.of else ""
            await self._write(said, words or said.heard, how)

    def goes_on(self, said: Utterance) -> None:
        """Follow words of which more is said after all, so that hearing their end is recorded."""
        if said.run and said.of:
            self._spoken[said.of] = said
            self._doubted.add(said.of)

    async def _write(self, said: Utterance, words: str, how: str) -> None:
        by: By = {"who": self._who, "key": self._ids()}
        try:
            await self._control.heard(self._thread, words, run=said.run, of=said.of, how=how, **by)
        except NotAllowed:
            pass  # a person who may only look leaves no record of what they heard
        except MidflightError as error:  # the call goes on without this record
            log.exception("What was heard is not on record", extra={"action": "heard_failed"})
            self._show(Trouble(f"{NOT_NOTED} {error}", words))


def _forget_oldest(kept: dict[int, Utterance]) -> None:
    if len(kept) > REMEMBERED:
        del kept[next(iter(kept))]

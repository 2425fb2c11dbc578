"""What a listener has heard of what runs say, as it goes on record.

Several may listen to the same words, and the record has what was heard by who has heard the most.
Words count as heard to their end if nobody says otherwise. So who hangs up says otherwise, and
whoever still listens, or has heard it all, says so then.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from midflight.control import Control
from midflight.errors import MidflightError, NotAllowed
from midflight.inputs import Ids
from midflight.kernel.record import Who
from midflight.kernel.thread import HUNG_UP, WHOLE, SpeechHeard
from midflight.verbs.telling import By
from midflight.voice.shown import Saying, Shown, Trouble
from midflight.voice.utterance import Utterance

log: Final = logging.getLogger("midflight.voice")
NOT_NOTED: Final = "How much of its words you have heard could not be written down."
REMEMBERED: Final = 64  # words of runs, and requests; nobody says anything about older ones


class OwnIds:
    """Ids for what this line asks, which knows them again: one person may have several lines."""

    def __init__(self, ids: Ids) -> None:
        self._ids, self._given = ids, deque[str](maxlen=REMEMBERED)

    def __call__(self) -> str:
        """A new one."""
        self._given.append(self._ids())
        return self._given[-1]

    def __contains__(self, key: object) -> bool:
        return key in self._given


class Noting:
    """One line's."""

    def __init__(
        self,
        control: Control,
        thread: str,
        who: Who,
        *,
        ids: OwnIds,
        show: Callable[[Shown], None],
    ) -> None:
        self._control, self._thread, self._who = control, thread, who
        self._ids, self._show = ids, show
        self._spoken: dict[int, Utterance] = {}  # by place: what is being said
        self._whole: dict[int, Utterance] = {}  # and what was heard to its end, without its sound
        self._doubted: set[int] = set()  # of these, what others have not heard to its end
        self._doubted_runs: set[str] = set()  # whose answer others have left before it was written

    # ── who has heard it to its end ──────────────────────────────────────────────────────────

    def follow(self, said: Utterance, *, is_answer: bool) -> None:
        """It has its place in the thread now; an aside is not the answer that others have left."""
        self._spoken[said.of] = said
        _forget_oldest(self._spoken)
        if is_answer and said.run in self._doubted_runs:
            self._doubted_runs.discard(said.run)
            self._doubted.add(said.of)

    def doubt(self, heard: SpeechHeard) -> None:
        """Somebody tells how much they have heard; if we have heard more we tell, too."""
        if heard.key in self._ids or heard.how == WHOLE:
            return
        if heard.of:
            self._doubted.add(heard.of)
        elif heard.how == HUNG_UP:
            self.doubt_answer(heard.run)

    def doubt_answer(self, run: str) -> None:
        """The same of an answer that a model still gives: who listened before may have left."""
        self._doubted_runs.add(run)

    def due(self) -> list[Utterance]:
        """What has to be told to have been heard to its end. Each is given once."""
        for place, said in [one for one in self._spoken.items() if one[1].is_heard]:
            del self._spoken[place]
            self._whole[place] = Utterance(said.run, said.text, said.of)
            _forget_oldest(self._whole)
        found = [place for place in self._doubted if place in self._whole]
        self._doubted &= self._spoken.keys()
        return [self._whole[place] for place in found]

    async def whole(self, said: Utterance) -> None:
        """It was heard to its end, which somebody else has not heard."""
        await self._write(said, said.text, WHOLE)

    # ── who has not ──────────────────────────────────────────────────────────────────────────

    async def cut(self, said: Utterance, words: str = "", *, hung_up: bool = False) -> None:
        """No more of it is said to them; ``words`` stand for what was heard, if given.

        Who hangs up stops nobody: what a model was saying comes on record later, and in full.
        """
        self._spoken.pop(said.of, None)
        self._show(Saying(said.heard, cut=True))
        if said.run:
            how = HUNG_UP if hung_up and not said.of else ""
            await self._write(said, words or said.heard, how)

    def goes_on(self, said: Utterance) -> None:
        """More of it is said after all: if they hear it to its end the record is to say so."""
        if said.run and said.of:
            self._spoken[said.of] = said
            self._doubted.add(said.of)

    async def _write(self, said: Utterance, words: str, how: str) -> None:
        by: By = {"who": self._who, "key": self._ids()}
        try:
            await self._control.heard(self._thread, words, run=said.run, of=said.of, how=how, **by)
        except NotAllowed:
            pass  # who may only look leaves no record of what they heard
        except MidflightError as error:  # a call is worth more than a line about it
            log.exception("What was heard is not on record", extra={"action": "heard_failed"})
            self._show(Trouble(f"{NOT_NOTED} {error}", words))


def _forget_oldest(kept: dict[int, Utterance]) -> None:
    if len(kept) > REMEMBERED:
        del kept[next(iter(kept))]

"""What a listener has heard of what runs say, as it goes on record."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from midflight.control import Control
from midflight.errors import NotAllowed
from midflight.inputs import Ids
from midflight.kernel.record import Who
from midflight.kernel.thread import HUNG_UP
from midflight.voice.shown import Saying, Shown
from midflight.voice.utterance import Utterance


class Noting:
    """One line's."""

    def __init__(
        self,
        control: Control,
        thread: str,
        who: Who,
        *,
        ids: Ids,
        show: Callable[[Shown], None],
    ) -> None:
        self._control, self._thread, self._who = control, thread, who
        self._ids, self._show = ids, show

    async def cut(self, said: Utterance, words: str = "", *, hung_up: bool = False) -> None:
        """No more of it is said to them; ``words`` stand for what was heard, if given.

        Who hangs up stops nobody: what a model was saying comes on record later, and in full.
        """
        self._show(Saying(said.heard, cut=True))
        if said.run:
            how = HUNG_UP if hung_up and not said.of else ""
            await self._write(said, words or said.heard, how)

    async def _write(self, said: Utterance, words: str, how: str) -> None:
        with suppress(NotAllowed):  # who may only look leaves no record of what they heard
            await self._control.heard(
                self._thread,
                words,
                run=said.run,
                of=said.of,
                how=how,
                who=self._who,
                key=self._ids(),
            )

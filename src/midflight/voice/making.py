"""Makes speech of clauses, each in a task of its own.

So what comes does not wait for what was cut, however slow the voice is. A clause that is only put
aside is made to its end, for it goes on at its sample; one that nobody will say is not made either.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from contextlib import aclosing

import anyio
from anyio.abc import TaskGroup

from midflight.voice.played import speakable
from midflight.voice.seams import Mark, SpeechFailed, Synthesiser
from midflight.voice.utterance import Clause


class Making:
    """One line's. ``stir`` is called whenever there is more of a clause, or an end of it."""

    def __init__(self, synthesiser: Synthesiser, stir: Callable[[], None]) -> None:
        self._synthesiser, self._stir = synthesiser, stir
        self._scopes: dict[Clause, anyio.CancelScope] = {}

    @property
    def is_busy(self) -> bool:
        """Whether speech is being made that is not there yet."""
        return bool(self._scopes)

    def begin(self, clause: Clause, tasks: TaskGroup) -> None:
        """Make it, unless that has begun already."""
        if not clause.begun:
            clause.begun = True
            self._scopes[clause] = anyio.CancelScope()
            tasks.start_soon(self._make, clause, self._scopes[clause])

    def drop_all_but(self, wanted: Container[Clause]) -> None:
        """Nobody will say the others."""
        for clause, scope in self._scopes.items():
            if clause not in wanted:
                scope.cancel()

    async def _make(self, clause: Clause, scope: anyio.CancelScope) -> None:
        """Make all of it; where it was dropped half made, and is to be said after all, anew.

        What was heard of it is known by what was made before, until there is as much again.
        """
        text, pcm, marks = speakable(clause.text), bytearray(), list[Mark]()
        try:
            with scope:
                if text.strip():
                    async with aclosing(self._synthesiser.speak(text)) as chunks:
                        async for chunk in chunks:
                            pcm += chunk.pcm
                            marks += chunk.marks
                            if len(pcm) >= len(clause.pcm):
                                clause.pcm, clause.marks = pcm, marks
                                self._stir()
                clause.pcm, clause.marks, clause.made = pcm, marks, True
            clause.begun = not scope.cancelled_caught
        except SpeechFailed as error:
            clause.broken = error
        finally:
            del self._scopes[clause]
            self._stir()

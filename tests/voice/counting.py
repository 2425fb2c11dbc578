"""How many words of a text were begun after so many samples: counted anew, clause by clause."""

from __future__ import annotations

from midflight.interfaces.voice.speech.agenda import clauses
from midflight.interfaces.voice.speech.espeak import Espeak


def words_begun(text: str, played: int) -> int:
    """As espeak-ng speaks it."""
    count, start = 0, 0
    for clause in clauses(text, whole=True)[0]:
        pcm, marks = Espeak().made(clause)
        if start + len(pcm) // 2 > played:
            begun = [mark for mark in marks if start + mark.sample < played]
            return count + len(clause[: begun[-1].at + 1].split()) if begun else count
        count, start = count + len(clause.split()), start + len(pcm) // 2
    return count

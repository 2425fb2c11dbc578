"""What is said into silence, plain or garbled: what is asked about, and what is misheard."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from voice_scene import ANN, BEFORE, MEASURED, PEOPLE, lines_to, rows, teller

from midflight.interfaces.voice.lexicon import plain
from midflight.interfaces.voice.line import line_to
from midflight.interfaces.voice.room import Room, RoomSink
from midflight.interfaces.voice.speech.speech_engines import Engines
from midflight.interfaces.voice.voice_wire import ASKED, Outcome, Shown
from voice.noises import mixed
from voice.speakers import said

MISHEARD = 1 / 3  # of the words, to count as misheard
UNKNOWN = "(a recording)"  # of which nobody has written down what it says
KINDS = {
    "espeak": "espeak-ng",
    "flite": "flite",
    "pico": "Pico",
    "human": "people",
    "phone": "people",
}


class Utterance(Struct, frozen=True):
    """Something that was said, and what was made of it."""

    text: str
    voice: str
    asked: bool
    heard: str

    @property
    def kind(self) -> str:
        """Who says it."""
        return KINDS[self.voice.partition(":")[0]]

    @property
    def misheard(self) -> bool:
        """Whether it was acted on, and too many of its words are others."""
        if self.asked or self.text == UNKNOWN:
            return False
        said, heard = plain(self.text).split(), plain(self.heard).split()
        return distance(said, heard) > MISHEARD * len(said)


def utterances() -> list[tuple[str, str]]:
    """Each command of four words and more by each voice of its list, and the recordings."""
    return sorted(of_list(MEASURED) | of_list(BEFORE))


def of_list(split: str) -> set[tuple[str, str]]:
    """The same of one list."""
    found = [row for row in rows("commands") if row["split"] == split]
    people = {(row["text"], row["voice"]) for row in found if row["voice"].startswith(PEOPLE)}
    voices = {row["voice"] for row in found} - {voice for _, voice in people}
    texts = {
        row["text"] for row in found if row["voice"] in voices and len(row["text"].split()) >= 4
    }
    return people | {(text, voice) for text in texts for voice in voices}


async def said_into_silence(engines: Engines, recipe: str) -> list[Utterance]:
    """All of them, mixed with what the recipe says."""
    found = []
    async with lines_to(teller) as control:
        for number, (text, voice) in enumerate(utterances()):
            pcm = mixed(said(text, voice), recipe, seed=number + 1)
            sink, shown = RoomSink(), list[Shown]()
            async with line_to(
                control,
                teller,
                f"t-{recipe}-{number}",
                who=ANN,
                engines=engines,
                sink=sink,
                show=shown.append,
            ) as line:
                room = Room(line, sink)
                await room.wait(0.5)
                await room.hear(pcm)
                await room.wait(1.0)
            outcomes = [one for one in shown if isinstance(one, Outcome)]
            heard = " ".join(one.heard for one in outcomes if one.outcome == "heard")
            asked = any(one.outcome in ASKED for one in outcomes) and not heard
            found.append(Utterance(text, voice, asked, heard))
            if number % 50 == 49:
                print(f"  {recipe}: {number + 1}", flush=True)
    return found


async def clarify(engines: Engines) -> dict[str, Any]:
    """Shares of all that was said, in per cent; of clean ones also by who has said them."""
    clean = await said_into_silence(engines, "clean")
    garbled = await said_into_silence(engines, "white0")
    by_kind = {
        kind: share([one.asked for one in clean if one.kind == kind])
        for kind in dict.fromkeys(KINDS.values())
    }
    by_list = {
        name: share([one.asked for one in clean if (one.text, one.voice) in said_in])
        for name, said_in in (("newest", of_list(MEASURED)), ("before", of_list(BEFORE)))
    }
    known = [one.misheard for one in clean if one.text != UNKNOWN]
    return {
        "clarify_clean_pct": share([one.asked for one in clean]),
        "clean": len(clean),
        "clarify_clean_by": by_kind,
        "clarify_clean_by_list": by_list,
        "misheard_clean_pct": share(known),
        "clarify_garbled_pct": share([one.asked for one in garbled]),
        "garbled": len(garbled),
    }


def share(of: list[bool]) -> float:
    return 100 * sum(of) / max(len(of), 1)


def distance(said: list[str], heard: list[str]) -> int:
    """How many words are left out, put in, or others."""
    row = list(range(len(heard) + 1))
    for place, word in enumerate(said, 1):
        before, row[0] = row[0], place
        for at, other in enumerate(heard, 1):
            before, row[at] = row[at], min(row[at] + 1, row[at - 1] + 1, before + (word != other))
    return row[-1]

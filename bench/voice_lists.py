"""Writes the rows of ``bench/voice/*.tsv`` that are measured: new words, voices, speeds and seeds.

Old are the words that people cannot do without ("stop", "no", "uh-huh"), and the recordings called
``human``: there are no others. All of those called ``phone`` (Debian's asterisk-core-sounds-en-wav:
one person, on the telephone) that say more than a word were in earlier lists. Whoever looks at what
came of them, and changes something, makes others and calls these ``seen``.
"""

from __future__ import annotations

import csv
from itertools import cycle

from figures import ROOT

LISTS = ROOT / "bench/voice"
NAMES = ("split", "text", "voice", "noise")
VOICES = (
    "espeak:en-us+Henrique", "espeak:en+antonio", "espeak:en-gb-x-rp+Jacky", "espeak:en-us+mike2",
    "flite:rms@0.95", "flite:awb@1.06", "pico:en-GB@0.93", "pico:en-US@1.07",
)  # fmt: skip
BESIDE = ("clean", "brown19", "clean", "pink18", "white17")
ORDERS = (
    "stop", "wait", "pause", "no", "cancel", "hold on", "quit", "halt", "continue", "hang on",
    "could you use a different voice", "what time is my dentist appointment",
    "forget the report what's on my calendar", "wait did you say fifteen or fifty",
    "you're mumbling I can't make that out", "change the title to something friendlier",
    "no no delete the draft not the original", "who else was copied on that email",
    "get me the phone number for the Denver office", "stop saying the date every single time",
    "compare that with what we spent last spring", "let me ask you something about that",
    "can we come back to this after lunch", "no I want it sorted by date",
    "wait before you go on what's the deadline", "print that page out for me",
    "how come it went down in August", "I'd rather hear the conclusions first",
    "take Sandra off the invitation list", "no you've got the wrong client",
    "could you explain that in plain English", "what was the name of that supplier",
    "don't bother with the appendix", "give me a second to find my glasses",
    "answer him and say we agree", "wait I don't think that's been approved",
    "can you translate that into Spanish", "book the small conference room for noon",
    "no make it a quarter past nine", "are you sure about that percentage",
    "please don't read me the web addresses", "jump to the part about the warehouse",
    "I didn't ask for the whole history", "pick up where we left off yesterday",
    "what's the difference between those two options", "wait add Tom to that thread too",
    "see if there's a later flight to Chicago", "highlight that sentence for me would you",
    "no that's last week's version", "you can leave out the greetings", "how much is that in euros",
)  # fmt: skip
ASSENTS = (
    "uh-huh", "mm-hmm", "yeah", "yes", "right", "okay", "mm", "sure", "yep", "oh", "wow", "great",
    "exactly", "true", "nice", "cool", "ah", "absolutely", "oh my god", "gosh", "geez", "yikes",
    "ouch", "huh", "hm interesting", "how interesting", "imagine that", "go figure", "figures",
    "that figures", "just as I thought", "I thought as much", "I suppose so", "I guess so",
    "not bad", "awesome",
)  # fmt: skip
RECORDINGS = (
    "goforward", "numbers", "something", "cards/001", "cards/002", "cards/003", "cards/004",
    "cards/005", *(f"librivox/sense_and_sensibility_01_austen_64kb-0{n}" for n in (870, 880, 890)),
    *(f"librivox/sense_and_sensibility_01_austen_64kb-0{n}" for n in (920, 930)),
)  # fmt: skip
NOISES = {
    "cough": 10,
    "clicks": 6,
    "thump": 6,
    "hiss": 6,
    "beep": 4,
    "hum": 3,
    "sneeze": 6,
    "keys": 6,
}


def spread(texts: tuple[str, ...], voices_each: int) -> list[tuple[str, str, str]]:
    """Each text by so many voices, in turn, so that every voice says about as much."""
    voices, beside = cycle(VOICES), cycle(BESIDE)
    return [(text, next(voices), next(beside)) for text in texts for _ in range(voices_each)]


def commands() -> list[tuple[str, str, str]]:
    people = [
        ("(a recording)", f"human:{name}", noise)
        for name, noises in zip(RECORDINGS, cycle((("clean", "brown19"), ("pink18", "clean"))))
        for noise in noises
    ]
    return [*spread(ORDERS, 4), *people]


def backchannels() -> list[tuple[str, str, str]]:
    sounds = [
        (f"({kind})", f"noise:{kind}:{seed}", "clean")
        for kind, count in NOISES.items()
        for seed in range(1601, 1601 + count)
    ]
    return [*spread(ASSENTS, 5), *sounds]


def write(name: str, rows: list[tuple[str, str, str]]) -> None:
    """Those that were measured before stay, as seen."""
    path = LISTS / f"{name}.tsv"
    with path.open(encoding="utf-8") as file:
        before = list(csv.DictReader(file, delimiter="\t"))
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, delimiter="\t", lineterminator="\n")
        out.writerow(NAMES)
        for row in before:
            seen = "seen" if row["split"].startswith("held-out") else row["split"]
            out.writerow((seen, row["text"], row["voice"], row["noise"]))
        out.writerows(("held-out", *row) for row in rows)


if __name__ == "__main__":
    write("commands", commands())
    write("backchannels", backchannels())

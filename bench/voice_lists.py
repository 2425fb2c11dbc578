"""Writes the rows of ``bench/voice/*.tsv`` that are measured: new words, voices, speeds and seeds.

Old are the words that people cannot do without ("stop", "no", "uh-huh"), and the recordings called
``human``: there are no others. Those called ``phone`` (Debian's asterisk-core-sounds-en-wav: one
person, on the telephone) are others than before. Whoever looks at what came of them, and changes
something, makes others and calls these ``seen``.
"""

from __future__ import annotations

import csv
from itertools import cycle

from figures import ROOT

LISTS = ROOT / "bench/voice"
NAMES = ("split", "text", "voice", "noise")
VOICES = (
    "espeak:en-us+Diogo", "espeak:en+caleb", "espeak:en-gb-x-rp+michel", "espeak:en-us+steph3",
    "flite:rms@1.04", "flite:awb@0.97", "pico:en-GB@1.07", "pico:en-US@0.92",
)  # fmt: skip
BESIDE = ("clean", "pink17", "clean", "white20", "brown18")
ORDERS = (
    "stop", "wait", "pause", "no", "cancel", "hold on", "quit", "halt", "continue", "hang on",
    "back up", "who's that", "which Karen", "spell that", "read it again", "no Thursday",
    "quieter please", "never mind that", "who sent it", "just the totals",
    "no I meant the one from last year", "wait that can't be the right number",
    "can you go over that last bit again", "no don't send it to Martin yet",
    "what was the figure for March", "hang on somebody's at the door",
    "move my two o'clock to Friday afternoon", "could you talk a little slower please",
    "skip the introduction and get to the results", "no the other report the quarterly one",
    "wait who signed off on that", "put that on my to do list", "I've heard this part already",
    "can you give me the short version", "let's do the emails first", "no it's Anderson with an o",
    "how many pages are left", "sorry I missed what you said about staffing",
    "actually let's leave that for tomorrow", "send a copy of this to Priya",
    "don't read out the footnotes", "wait go back to the budget",
    "make a note to call the landlord", "no that meeting was moved to Wednesday",
    "what does that abbreviation stand for", "can you turn your volume down a bit",
    "just tell me what they decided", "is that before or after taxes",
    "hold that thought I've got a call", "no leave the second paragraph as it was",
    "remind me about this on Monday morning",
)  # fmt: skip
ASSENTS = (
    "uh-huh", "mm-hmm", "yeah", "yes", "right", "okay", "mm", "sure", "yep", "oh", "wow", "great",
    "exactly", "true", "nice", "cool", "ah", "absolutely", "no way", "that makes sense", "for sure",
    "very true", "I bet", "I'll bet", "I know right", "oh I know", "tell me about it",
    "you're telling me", "you can say that again", "well I'll be", "I'll be damned", "holy cow",
    "holy smokes", "good grief", "goodness me", "oh my goodness",
)  # fmt: skip
RECORDINGS = (
    "goforward", "numbers", "something", "cards/001", "cards/002", "cards/003", "cards/004",
    "cards/005", *(f"librivox/sense_and_sensibility_01_austen_64kb-0{n}" for n in (870, 880, 890)),
    *(f"librivox/sense_and_sensibility_01_austen_64kb-0{n}" for n in (920, 930)),
)  # fmt: skip
ON_THE_PHONE = {
    "conf-adminmenu": "Please press 1 to mute or unmute yourself, 2 to lock or unlock the "
    "conference, 3 to eject the last user, 4 or 6 to decrease or increase the conference volume, "
    "7 or 9 to decrease or increase your volume, or 8 to exit.",
    "conf-usermenu": "Please press 1 to mute or unmute yourself, 4 or 6 to decrease or increase "
    "the conference volume, 7 or 9 to decrease or increase your volume, or 8 to exit.",
    "dictate/playback_mode": "playback mode",
    "letters/ascii36": "dollar sign",
    "letters/ascii60": "less than",
    "letters/ascii63": "question mark",
    "vm-Cust3": "folder 7",
    "vm-options": "Press 1 to record your unavailable message, press 2 to record your busy "
    "message, press 3 to record your name, press 4 to record your temporary greeting, press 5 to "
    "change your password, press star to return to the main menu.",
}
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
        for name, noises in zip(RECORDINGS, cycle((("clean", "brown18"), ("pink17", "clean"))))
        for noise in noises
    ]
    phone = [
        (text, f"phone:{name}", noise)
        for (name, text), noise in zip(ON_THE_PHONE.items(), cycle(BESIDE), strict=False)
    ]
    return [*spread(ORDERS, 4), *people, *phone]


def backchannels() -> list[tuple[str, str, str]]:
    sounds = [
        (f"({kind})", f"noise:{kind}:{seed}", "clean")
        for kind, count in NOISES.items()
        for seed in range(1501, 1501 + count)
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
            seen = "seen" if row["split"] == "held-out" else row["split"]
            out.writerow((seen, row["text"], row["voice"], row["noise"]))
        out.writerows(("held-out", *row) for row in rows)


if __name__ == "__main__":
    write("commands", commands())
    write("backchannels", backchannels())

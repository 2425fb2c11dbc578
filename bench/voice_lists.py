"""Writes the rows of ``bench/voice/*.tsv`` that are measured: new voices, speeds and seeds.

Their words are those of the lists before, and so are the recordings of humans: there are no others.
Whoever looks at what came of them, and changes something, makes others and calls these ``seen``.
"""

from __future__ import annotations

import csv
from itertools import cycle

from figures import ROOT

LISTS = ROOT / "bench/voice"
NAMES = ("split", "text", "voice", "noise")
VOICES = (
    "espeak:en-us+steph", "espeak:en+belinda", "espeak:en-gb-x-rp+paul", "espeak:en-us-nyc+Michael",
    "flite:rms@1.05", "flite:awb@0.96", "pico:en-GB@1.04", "pico:en-US@0.97",
)  # fmt: skip
BESIDE = ("clean", "pink17", "clean", "white18", "brown16")
ORDERS = (
    "stop", "wait", "pause", "no", "cancel", "hold on", "stop it", "go back", "enough", "abort",
    "hold it", "one moment", "just a second", "slow down", "speak up", "louder please", "not now",
    "forget it", "skip ahead", "next one", "leave that out", "stop right there", "stop reading",
    "hang on a second", "let me speak", "excuse me", "I have a question", "that is wrong",
    "what did you say", "you misunderstood me", "use the other table", "take the second option",
    "do the first one instead", "no, in euros please", "no, only this year", "put it in an email",
    "talk to the finance team", "how many were there", "where does that come from",
    "who signed the contract", "why did it fall in March", "is that with tax",
    "what about France", "show me the chart first", "leave out the discounts",
    "give me the short version", "more detail please", "get me a human please",
    "change the subject", "wait, which year is that",
)  # fmt: skip
ASSENTS = (
    "uh-huh", "mm hmm", "mhm", "yeah", "yup", "okay", "right", "sure", "I see", "aha", "oh",
    "alright", "cool", "wow", "fine", "perfect", "great", "indeed", "absolutely", "gotcha",
    "right okay", "okay sure", "yes yes", "oh really", "ah I see", "oh nice", "hmm okay",
    "good good", "thank you", "sounds good", "I know", "fair enough", "lovely", "very good",
    "uh-huh, okay", "yeah, right",
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
        for name, noises in zip(RECORDINGS, cycle((("clean", "brown16"), ("pink17", "clean"))))
        for noise in noises
    ]
    return [*spread(ORDERS, 4), *people]


def backchannels() -> list[tuple[str, str, str]]:
    sounds = [
        (f"({kind})", f"noise:{kind}:{seed}", "clean")
        for kind, count in NOISES.items()
        for seed in range(401, 401 + count)
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

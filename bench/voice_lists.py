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
    "espeak:en-us+Andrea", "espeak:en+edward", "espeak:en-gb-x-rp+shelby", "espeak:en-us+rob",
    "flite:slt@0.97", "flite:rms@1.02", "pico:en-GB@1.02", "pico:en-US@0.98",
)  # fmt: skip
BESIDE = ("clean", "pink19", "clean", "white16", "brown18")
ORDERS = (
    "stop", "wait", "pause", "no", "cancel", "hold on", "abort", "enough", "go back", "hang on",
    "stop please", "wait there", "not so fast", "hold it there", "do it again", "speak clearly",
    "turn it up", "too long", "I object", "let me finish", "hear me out", "may I say something",
    "ignore that one", "remove that line", "anything else please", "could I ask you something",
    "you got me wrong there", "that is an old figure", "we have been over this",
    "begin with the conclusion", "who wrote this report", "what is the margin",
    "when does it expire", "which one came first", "how far are we now",
    "can you move it to Friday", "only the paid orders", "no, the smaller office",
    "no, in pounds please", "write to the landlord instead", "include the travel budget",
    "group it by country please", "hide the third row", "check with Thomas first",
    "do not change the password", "wait, there is a mistake", "how do you know that",
    "why was Italy left out", "let us look at rents", "give me the address once more",
)  # fmt: skip
ASSENTS = (
    "uh-huh", "mm hmm", "mhm", "yeah", "yup", "okay", "right", "sure", "I see", "aha", "mm", "oh",
    "alright", "good", "cool", "exactly", "indeed", "wow", "great", "thank you", "gotcha",
    "sounds good", "interesting", "perfect", "oh great", "yes right", "okay good", "fine fine",
    "ah good", "oh right", "yeah yeah", "right sure", "well yes", "agreed", "noted",
    "I understand",
)  # fmt: skip
RECORDINGS = (
    "goforward", "numbers", "something", "cards/001", "cards/002", "cards/003", "cards/004",
    "cards/005", *(f"librivox/sense_and_sensibility_01_austen_64kb-0{n}" for n in (870, 880, 890)),
    *(f"librivox/sense_and_sensibility_01_austen_64kb-0{n}" for n in (920, 930)),
)  # fmt: skip
ON_THE_PHONE = {
    "agent-pass": "Please enter your password followed by the pound key.",
    "conf-full": "That conference is full.",
    "conf-kicked": "You have been kicked from this conference.",
    "conf-locked": "This conference is locked!",
    "conf-muted": "You are now muted.",
    "conf-nonextended": "The conference cannot be extended.",
    "conf-now-muted": "The conference is now muted.",
    "conf-now-unmuted": "The conference is now unmuted.",
    "conf-onlyone": "There is currently one other participant in the conference.",
    "conf-roll-callcomplete": "Playback of the list of people attending is complete.",
    "confbridge-conf-begin": "The conference will now begin.",
    "confbridge-conf-end": "The conference has ended.",
    "confbridge-lock-no-join": "The conference is currently locked and cannot be joined.",
    "confbridge-only-participant": "You are currently the only participant in the conference.",
    "confbridge-pin-bad": "You have entered too many invalid personal identification numbers.",
    "demo-nomatch": "I'm sorry there are no matches for those keywords.",
    "dir-nomore": "There are no more compatible entries in the directory.",
    "dir-welcome": "Welcome to the directory.",
    "enter-num-blacklist": "Please enter the number to be blacklisted.",
    "info-about-last-call": "Information about your last call.",
    "conf-unmuted": "You are now unmuted.",
    "pm-invalid-option": "That option is invalid. Please try again.",
    "queue-callswaiting": "Waiting to speak with a representative.",
    "sorry-youre-having-problems": "Sorry you're having problems.",
    "speed-dial-empty": "The speed dial entry you've accessed is empty.",
    "to-call-this-number": "To call this number.",
    "tt-somethingwrong": "Something is terribly wrong.",
    "vm-dialout": "Please wait while I connect your call.",
    "vm-enter-num-to-call": "Please enter the number you wish to call.",
    "vm-helpexit": "Press star for help or pound to exit.",
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
        for name, noises in zip(RECORDINGS, cycle((("clean", "brown18"), ("pink19", "clean"))))
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
        for seed in range(601, 601 + count)
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

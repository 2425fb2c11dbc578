"""Writes the rows of ``bench/voice/*.tsv`` that are measured: new words, voices, speeds and seeds.

Old are the words that people cannot do without ("stop", "no", "uh-huh"), and the recordings called
``human``: there are no others. Those called ``phone`` (Debian's asterisk-core-sounds-en-wav: one
person, on the telephone) are new. Whoever looks at what came of them, and changes something, makes
others and calls these ``seen``.
"""

from __future__ import annotations

import csv
from itertools import cycle

from figures import ROOT

LISTS = ROOT / "bench/voice"
NAMES = ("split", "text", "voice", "noise")
VOICES = (
    "espeak:en-us+Annie", "espeak:en+david", "espeak:en-gb-x-rp+anika", "espeak:en-us+ed",
    "flite:slt@1.04", "flite:awb@1.02", "pico:en-GB@0.98", "pico:en-US@1.03",
)  # fmt: skip
BESIDE = ("clean", "pink18", "clean", "white17", "brown17")
ORDERS = (
    "stop", "wait", "pause", "no", "cancel", "hold on", "abort", "enough", "go back", "hang on",
    "stop this now", "wait for me", "not yet", "hold that thought", "try again", "speak slower",
    "turn it down", "too fast", "I disagree", "my turn", "listen to me", "may I interrupt",
    "forget about that", "drop that part", "something else please", "sorry to interrupt you",
    "I did not mean that", "that was last month", "you are going too fast",
    "please start from zero", "who is the owner", "what is the total", "when is it due",
    "which of them is cheaper",
    "how long will it take", "can we do it on Monday", "only the open invoices",
    "no, the other customer", "no, in dollars please", "call the supplier instead",
    "add the shipping costs", "sort it by date please", "keep the second column",
    "ask Maria about it", "do not book the flight", "wait, I need to check that",
    "where did you find this", "why is Spain missing", "let us talk about prices",
    "tell me the deadline again",
)  # fmt: skip
ASSENTS = (
    "uh-huh", "mm hmm", "mhm", "yeah", "yep", "okay", "right", "sure", "I see", "aha", "ah", "oh",
    "all right", "good", "nice", "exactly", "of course", "really", "great", "thanks", "got it",
    "makes sense", "interesting", "fine", "oh wow", "yes okay", "okay right", "sure sure",
    "ah right", "oh good", "yeah sure", "right yes", "well okay", "totally", "understood",
    "good to know",
)  # fmt: skip
RECORDINGS = (
    "goforward", "numbers", "something", "cards/001", "cards/002", "cards/003", "cards/004",
    "cards/005", *(f"librivox/sense_and_sensibility_01_austen_64kb-0{n}" for n in (870, 880, 890)),
    *(f"librivox/sense_and_sensibility_01_austen_64kb-0{n}" for n in (920, 930)),
)  # fmt: skip
ON_THE_PHONE = {
    "all-circuits-busy-now": "All circuits are busy now.",
    "cannot-complete-as-dialed": "Your call cannot be completed as dialed.",
    "check-number-dial-again": "Please check the number and dial again.",
    "conf-extended": "The conference has been extended.",
    "conf-getpin": "Please enter the conference pin number.",
    "conf-invalidpin": "That pin is invalid for this conference.",
    "conf-leaderhasleft": "The leader has left the conference.",
    "conf-noempty": "No empty conferences currently exist.",
    "conf-now-recording": "The conference is now being recorded.",
    "conf-onlyperson": "You are currently the only person in this conference.",
    "conf-placeintoconf": "You will now be placed into the conference.",
    "conf-waitforleader": "The conference will begin when the leader arrives.",
    "confbridge-invalid": "You have entered an invalid option.",
    "confbridge-removed": "You have been removed from the conference.",
    "confbridge-unmuted": "You are no longer muted.",
    "demo-echodone": "The echo test has been completed.",
    "dir-nomatch": "No directory entries match your search.",
    "feature-not-avail-line": "That feature is not available on this line.",
    "from-unknown-caller": "From an unknown caller.",
    "number-not-answering": "The number is not answering.",
    "please-try-call-later": "Please try your call again later.",
    "pls-hold-while-try": "Please hold while we try to connect you.",
    "priv-recordintro": "At the tone, please say your name.",
    "privacy-incorrect": "I'm sorry, that number is not valid.",
    "queue-thankyou": "Thank you for your patience.",
    "simul-call-limit-reached": "Simultaneous call limit reached.",
    "something-terribly-wrong": "Something is terribly wrong!",
    "transfer": "Please hold while I try that extension.",
    "tt-monkeysintro": "They have been carried away by monkeys.",
    "tt-weasels": "Weasels have eaten our phone system.",
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
        for name, noises in zip(RECORDINGS, cycle((("clean", "brown17"), ("pink18", "clean"))))
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
        for seed in range(501, 501 + count)
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

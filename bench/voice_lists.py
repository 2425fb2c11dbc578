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
    "espeak:en-us+travis", "espeak:en+adam", "espeak:en-gb-x-rp+ian", "espeak:en-us+edward2",
    "flite:rms@0.99", "flite:awb@1.04", "pico:en-GB@1.08", "pico:en-US@0.95",
)  # fmt: skip
BESIDE = ("clean", "white17", "clean", "brown18", "pink16")
ORDERS = (
    "stop", "wait", "pause", "no", "cancel", "hold on", "abort", "enough", "go back", "hang on",
    "please stop that", "wait there", "not so fast", "stay on the line", "one more time",
    "turn it down", "switch that off", "too loud", "I object", "let me finish", "listen to me",
    "may I ask something", "cross that out", "remove that line", "another person please",
    "can I cut in here", "you skipped a chapter", "that is an old version",
    "we agreed on something else",
    "begin with the costs", "who signed the lease", "what does it weigh",
    "when is the next train", "which of them is cheaper", "how far is the airport",
    "can you move it to Friday", "only the open invoices", "no, the smaller office",
    "no, in kilograms please", "write to the landlord instead", "include the bank holidays",
    "sort it by city please", "leave out the second page", "ask Martin about the rent",
    "do not send the contract", "wait, I cannot hear you", "how old are these numbers",
    "why is Poland missing here", "let us talk about travel", "repeat the address once more",
)  # fmt: skip
ASSENTS = (
    "uh-huh", "mm hmm", "mhm", "yeah", "yep", "okay", "right", "sure", "I see", "aha", "um", "ah",
    "all right", "good", "fine", "exactly", "indeed", "wow", "cool", "thanks", "got it",
    "makes sense", "of course", "perfect", "oh great", "yes right", "okay good", "right sure",
    "ah good", "oh fine", "yeah yeah okay", "good good", "well right", "totally", "wonderful",
    "I understand",
)  # fmt: skip
RECORDINGS = (
    "goforward", "numbers", "something", "cards/001", "cards/002", "cards/003", "cards/004",
    "cards/005", *(f"librivox/sense_and_sensibility_01_austen_64kb-0{n}" for n in (870, 880, 890)),
    *(f"librivox/sense_and_sensibility_01_austen_64kb-0{n}" for n in (920, 930)),
)  # fmt: skip
ON_THE_PHONE = {
    "agent-incorrect": "Login incorrect.  Please enter your agent number followed by the pound "
    "key.",
    "at-tone-time-exactly": "At the sound of the tone, the time will be exactly...",
    "call-fwd-no-ans": "Call-Forward on No Answer.",
    "conf-hasjoin": "is now in the conference.",
    "conf-invalid": "That is not a valid conference number.  Please try again.",
    "conf-userswilljoin": "users will join the conference.",
    "confbridge-begin-glorious-b": "the conference will begin when our glorious leader arrives",
    "confbridge-begin-leader": "the conference will begin when the leader arrives",
    "confbridge-dec-list-vol-out": "...to decrease the audio volume from other participants.",
    "confbridge-dec-talk-vol-out": "...to decrease your speaking volume to other participants.",
    "confbridge-has-left": "...has left the conference.",
    "confbridge-inc-list-vol-out": "...to increase the audio volume from other participants.",
    "confbridge-inc-talk-vol-out": "...to increase your speaking volume to other participants.",
    "confbridge-lock-in": "To lock, or unlock the conference...",
    "confbridge-locked": "The conference is now locked.",
    "confbridge-menu-exit-out": "...to exit the menu.",
    "confbridge-muted": "You are now muted.",
    "confbridge-participants": "...participants in the conference.",
    "confbridge-remove-last-out": "...to remove the participant who most recently joined the "
    "conference.",
    "confbridge-rest-list-vol-out": "...to reset the audio volume of the conference to the default "
    "level.",
    "confbridge-rest-talk-vol-out": "...to reset your speaking volume to the default level.",
    "demo-thanks": "Goodbye.  Thank you for trying out the Asterisk Open Source PBX.",
    "dir-firstlast": "... letters of your party's first or last name.",
    "dir-pls-enter": "Please enter the first ...",
    "invalid": "I am sorry, that's not a valid extension.  Please try again.",
    "pbx-invalid": "I am sorry, that's not a valid extension.  Please try again.",
    "priv-introsaved": "Thank you. Please hold, while I attempt to connect you with your party!",
    "queue-holdtime": "The estimated hold time is currently",
    "queue-quantity2": "... callers waiting to speak with a representative.",
    "spy-misdn": "M I S D N",
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
        for name, noises in zip(RECORDINGS, cycle((("clean", "pink16"), ("white17", "clean"))))
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
        for seed in range(801, 801 + count)
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

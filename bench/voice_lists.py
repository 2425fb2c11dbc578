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
    "espeak:en-us+Mike", "espeak:en+Denis", "espeak:en-gb-x-rp+RicishayMax2", "espeak:en-us+Reed",
    "flite:slt@0.99", "flite:rms@0.97", "pico:en-GB@1.01", "pico:en-US@0.99",
)  # fmt: skip
BESIDE = ("clean", "pink17", "clean", "white18", "brown16")
ORDERS = (
    "stop", "wait", "pause", "no", "cancel", "hold on", "abort", "halt", "go on", "hang on",
    "let us take a break", "a little slower", "skip that part", "wrong city", "be silent",
    "not this quickly", "what is that", "go to the top", "undo that", "wrong number",
    "say it louder", "let me think", "stop everything", "only the first one", "leave it out",
    "cross that off", "turn it off", "I have a question", "read me the title again",
    "what is due on Friday", "who opened the gate", "how much did we spend",
    "move the call to three", "no, the blue table", "no, in metric tons please",
    "send it to the night shift", "count the open invoices", "leave the pictures for later",
    "can we begin with Chile", "which floor is that on", "tell me about the bridge",
    "do not order the paint", "when did you check that", "that date is a week off",
    "add the cost of storage", "compare it with two years ago", "wait, how many are left",
    "put the lawyer in copy", "why is the total lower", "use the longer of the two",
)  # fmt: skip
ASSENTS = (
    "uh-huh", "mm hmm", "mhm", "yeah", "yep", "okay", "right", "sure", "I see", "ah", "oh",
    "got it", "all right", "good", "exactly", "great", "fine", "thanks", "cool", "ah nice one",
    "yes exactly", "right I see", "mm yeah", "quite right", "good call", "that's fine",
    "oh brilliant", "yes of course", "okay fine yes", "yep yep", "great thanks", "hm okay",
    "I follow", "well good", "mm right", "sounds fine",
)  # fmt: skip
RECORDINGS = (
    "goforward", "numbers", "something", "cards/001", "cards/002", "cards/003", "cards/004",
    "cards/005", *(f"librivox/sense_and_sensibility_01_austen_64kb-0{n}" for n in (870, 880, 890)),
    *(f"librivox/sense_and_sensibility_01_austen_64kb-0{n}" for n in (920, 930)),
)  # fmt: skip
ON_THE_PHONE = {
    "auth-incorrect": "Password incorrect.  Please enter your password followed by the pound key.",
    "conf-hasleft": "has left the conference.",
    "confbridge-begin-glorious-c": "the conference will begin when our glorious leader arrives",
    "confbridge-binaural-off": "3D audio disabled",
    "confbridge-binaural-on": "3D audio enabled",
    "confbridge-lock-extended": "...to lock, or unlock the conference. When a conference is locked "
    "only conference administrators can join.",
    "confbridge-lock-out": "...to lock, or unlock the conference.",
    "dir-last": "... letters of your party's last name.",
    "do-not-disturb": "Do not disturb.",
    "please-try-again": "Please try again.",
    "queue-quantity1": "Currently, there are more than ...",
    "queue-thereare": "You are currently caller number",
    "queue-youarenext": "Your call is now first in line and will be answered by the next available "
    "representative.",
    "vm-advopts": "press 3 for advanced options",
    "vm-calldiffnum": "press 2 to enter a different number",
    "vm-forward": "Press 1 to enter an extension, press 2 to use the directory",
    "vm-from-phonenumber": "message from phone number",
    "vm-invalidpassword": "That is not a valid password.  Please try again.",
    "vm-login": "Comedian Mail.  Mailbox?",
    "vm-marked-nonurgent": "Urgent status removed.",
    "vm-opts": "Press 2 to change folders, press 3 for advanced options, press zero for mailbox "
    "options.",
    "vm-reachoper": "press 0 to reach an operator",
    "vm-rec-busy": "After the tone say your busy message and then press the pound key.",
    "vm-rec-temp": "After the tone, say your temporary message, and then press the pound key.",
    "vm-star-cancel": "press star to cancel",
    "vm-tocallnum": "press 1 to call this number",
    "vm-tocancel": "or pound to cancel.",
    "vm-toforward": "Press 8 to forward the message to another user",
    "vm-toreply": "press 1 to send a reply",
    "vm-torerecord": "press 3 to rerecord your message",
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
        for name, noises in zip(RECORDINGS, cycle((("clean", "pink17"), ("white18", "clean"))))
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
        for seed in range(1001, 1001 + count)
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

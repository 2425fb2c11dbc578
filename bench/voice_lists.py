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
    "espeak:en-us+sandro", "espeak:en+miguel", "espeak:en-gb-x-rp+m2", "espeak:en-us+Mario",
    "flite:slt@0.95", "flite:awb@0.98", "pico:en-GB@0.96", "pico:en-US@1.04",
)  # fmt: skip
BESIDE = ("clean", "white16", "clean", "brown17", "pink18")
ORDERS = (
    "stop", "wait", "pause", "no", "cancel", "hold on", "abort", "halt", "go on", "hang on",
    "wait up", "back up a bit", "say less", "wrong folder", "be quiet", "quiet please",
    "who are you", "jump to the end", "forget that one", "wrong person", "say it slower",
    "I want to ask", "hold everything", "not the other one", "drop that", "strike that out",
    "shut it off", "my turn now", "read the last part again", "what happens on Monday",
    "who is paying for this", "how many people are coming", "move the meeting to noon",
    "no, the green folder", "no, in Swiss francs please", "send it to the other office",
    "count the returned parcels", "leave the kitchen for later", "can we start with Spain",
    "which street is it on", "tell me about the garden", "do not call the plumber",
    "where did you find that", "that name is spelled wrong", "add the price of shipping",
    "compare it with last autumn", "wait, who is on the list", "put my sister in copy",
    "why did the order fail", "use the smaller of the two",
)  # fmt: skip
ASSENTS = (
    "uh-huh", "mm hmm", "mhm", "yeah", "yep", "okay", "right", "sure", "I see", "ah", "oh",
    "got it", "all right", "good", "exactly", "great", "fine", "thanks", "cool", "okay yeah",
    "yes sure", "ah cool", "mm okay", "very nice", "good point", "that's right", "oh wonderful",
    "sure thing", "right yeah", "yeah sure okay", "okay great", "mhm yeah", "I get it",
    "well nice", "wow okay", "aha okay",
)  # fmt: skip
RECORDINGS = (
    "goforward", "numbers", "something", "cards/001", "cards/002", "cards/003", "cards/004",
    "cards/005", *(f"librivox/sense_and_sensibility_01_austen_64kb-0{n}" for n in (870, 880, 890)),
    *(f"librivox/sense_and_sensibility_01_austen_64kb-0{n}" for n in (920, 930)),
)  # fmt: skip
ON_THE_PHONE = {
    "agent-loginok": "Agent logged in.",
    "conf-thereare": "There are currently",
    "confbridge-dec-talk-vol-in": "To decrease your speaking volume to other participants...",
    "confbridge-inc-talk-vol-in": "To increase your speaking volume to other participants...",
    "confbridge-leave-out": "...to leave the conference.",
    "confbridge-menu-exit-in": "To exit the menu...",
    "confbridge-only-one": "There is currently one other participant in the conference.",
    "confbridge-there-are": "There are currently...",
    "dir-instr": "If this is the person you are looking for press 1 now, otherwise please press "
    "star now.",
    "is-in-use": "Is in use.",
    "is-set-to": "Is set to.",
    "pbx-invalidpark": "I am sorry, there is no call parked on that extension.  Please try again.",
    "pbx-parkingfailed": "Parking attempt failed.",
    "to-listen-to-it": "To listen to it.",
    "vm-delete": "Press 7 to delete this message.",
    "vm-forward-multiple": "press 1 to send this message, or 2 to add another recipient.",
    "vm-forwardoptions": "press 1 to prepend a message or 2 to forward the message without "
    "prepending",
    "vm-from-extension": "message from extension",
    "vm-leavemsg": "Press 5 to leave a message",
    "vm-mismatch": "The passwords you entered and re-entered did not match.  Please try again.",
    "vm-newuser": "Welcome to Comedian Mail. First, I will guide you through a short setup "
    "process.",
    "vm-num-i-have": "the number i have is",
    "vm-onefor-full": "Press one to listen to ...",
    "vm-pls-try-again": "please try again",
    "vm-prev": "Press 4 for the previous message",
    "vm-review-nonurgent": "Press 4 to remove the urgent status of this message.",
    "vm-review-urgent": "Press 4 to mark this message as urgent.",
    "vm-saveoper": "press 1 to accept this recording, otherwise, please continue to hold",
    "vm-tempgreeting": "press 1 to record your temporary greeting",
    "vm-tempgreeting2": "press 1 to record your temporary greeting, or press 2 to erase your "
    "temporary greeting",
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
        for name, noises in zip(RECORDINGS, cycle((("clean", "pink18"), ("white16", "clean"))))
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
        for seed in range(901, 901 + count)
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

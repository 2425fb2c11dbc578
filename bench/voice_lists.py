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
    "espeak:en-us+zac", "espeak:en+m1", "espeak:en-gb-x-rp+quincy", "espeak:en-us+steph2",
    "flite:awb@1.05", "flite:slt@1.01", "pico:en-GB@1.03", "pico:en-US@0.96",
)  # fmt: skip
BESIDE = ("clean", "pink19", "clean", "white16", "brown17")
ORDERS = (
    "stop", "wait", "pause", "no", "cancel", "hold on", "abort", "halt", "go on", "hang on",
    "skip that", "say again", "be quiet please", "undo that", "next section", "shush",
    "start over", "wrong month", "scratch that", "speak up", "too fast", "back one page",
    "what was the profit last year", "no, I meant the spring figures",
    "can you send that to my boss", "how many people did we hire", "no, the other report please",
    "read me the summary instead", "who wrote this part", "no, use the numbers from march",
    "which office sold the most", "jump ahead to the sales forecast",
    "could you say that more slowly", "that total can't be right", "turn the volume down a bit",
    "no, not the draft, the final version", "book a meeting about this tomorrow",
    "why did costs go up in june", "I've heard this bit already",
    "no, we sold twelve, not twenty", "what does that mean in plain english",
    "just give me the bottom line", "call the accounts team for me",
    "sorry, what was that last figure", "remind me about this after lunch",
    "no, leave out the staff costs", "compare that with the previous quarter",
    "let's talk about the budget instead", "my exit's coming up, show the map",
    "where did you get that number",
)  # fmt: skip
ASSENTS = (
    "uh-huh", "mm-hmm", "mm", "yeah", "yes", "yep", "right", "okay", "oh", "ah", "sure", "wow",
    "cool", "great", "exactly", "true", "nice", "absolutely", "I agree", "it really is",
    "they certainly did", "I can imagine", "quite impressive", "pretty neat", "so encouraging",
    "that's brilliant", "that's for sure", "that's a relief", "great work", "lovely stuff",
    "right right", "true true", "oh wow", "mm yeah", "too true", "yes indeed",
)  # fmt: skip
RECORDINGS = (
    "goforward", "numbers", "something", "cards/001", "cards/002", "cards/003", "cards/004",
    "cards/005", *(f"librivox/sense_and_sensibility_01_austen_64kb-0{n}" for n in (870, 880, 890)),
    *(f"librivox/sense_and_sensibility_01_austen_64kb-0{n}" for n in (920, 930)),
)  # fmt: skip
ON_THE_PHONE = {
    "agent-alreadyon": "That agent is already logged on.  Please enter your agent number "
    "followed by the pound key.",
    "agent-user": "Agent login.  Please enter your agent number followed by the pound key.",
    "call-fwd-unconditional": "Call-Forward Unconditional.",
    "confbridge-inc-list-vol-in": "To increase the audio volume from other participants...",
    "confbridge-rest-talk-vol-in": "To reset your speaking volume to the default level...",
    "de-activated": "De-activated.",
    "dir-usingkeypad": "... using your touchtone keypad.  Use the 7 key for Q, and the 9 key "
    "for Z.",
    "im-sorry": "I'm sorry.",
    "num-was-successfully": "The number was successfully...",
    "privacy-to-blacklist-last-caller": "The last caller was...",
    "queue-less-than": "less than",
    "queue-periodic-announce": "All of our represenatives are currently busy. Please stay on "
    "the line and your call will be answered by the next available representative.",
    "sorry": "We're sorry.",
    "spy-iax2": 'IAX (note: does not say "2")',
    "spy-nbs": "N B S",
    "spy-usbradio": "USB Radio",
    "ss-noservice": "The number you have dialed is not in service. Please check the number and "
    "try again.",
    "to-rerecord-it": "To re-record it.",
    "unidentified-no-callback": "Un-indentified or witheld and therefore cannot be called back.",
    "vm-deleted": "Message deleted.",
    "vm-isonphone": "is on the phone",
    "vm-mailboxfull": "sorry but the user's mail box can't accept more messages",
    "vm-marked-urgent": "Message marked urgent.",
    "vm-nobox": "you cannot reply to this message because the sender does not have a mailbox",
    "vm-record-prepend": "At the tone, please record an introduction to the forwarded message. "
    " When done, press the pound sign.",
    "vm-reenterpassword": "Please re-enter your password followed by the pound key.",
    "vm-savedto": "saved to",
    "vm-tomakecall": "press 4 to place an outgoing call",
    "vm-unknown-caller": "from an unknown caller",
    "vm-youhave": "you have",
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
        for name, noises in zip(RECORDINGS, cycle((("clean", "pink19"), ("white16", "clean"))))
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
        for seed in range(1201, 1201 + count)
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

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
    "espeak:en-us+Lee", "espeak:en+max", "espeak:en-gb-x-rp+victor", "espeak:en-us+Marco",
    "flite:slt@1.06", "flite:rms@1.03", "pico:en-GB@0.99", "pico:en-US@1.02",
)  # fmt: skip
BESIDE = ("clean", "pink16", "clean", "white17", "brown18")
ORDERS = (
    "stop", "wait", "pause", "no", "cancel", "hold on", "abort", "halt", "go on", "hang on",
    "skip this", "be quiet", "undo that", "say that again", "next section", "go back", "too fast",
    "not that one", "slow down", "start over", "shut up", "louder please",
    "what was the total for march", "how much did we spend on travel", "who approved that budget",
    "when is the next payment due", "why did sales drop in the spring",
    "which region grew the most", "is that before or after tax",
    "how does that compare to last year", "where did that number come from",
    "can you explain the last figure", "did we hit our target", "no, I meant the second quarter",
    "no, the other customer", "no, use the new price list", "no, I asked about profit",
    "no, read me the summary instead", "no, that was in february",
    "no, it should be forty percent", "send this report to the finance team",
    "skip to the part about hiring", "just give me the main points",
    "read the last paragraph again", "open the sales figures instead",
    "make a note about the rent", "set up a meeting for tuesday", "leave out the marketing costs",
    "change the deadline to friday morning", "let me hear the conclusion first",
)  # fmt: skip
ASSENTS = (
    "uh-huh", "mm-hmm", "yeah", "yep", "yes", "right", "okay", "sure", "oh", "mm", "ah", "hmm",
    "wow", "great", "exactly", "true", "cool", "nice", "I agree", "I hear you", "you're right",
    "I believe it", "pretty impressive", "really interesting", "how wonderful", "that's great",
    "that's so true", "that's encouraging", "great work", "smart thinking", "lovely stuff",
    "right, right", "yeah, yeah", "oh wow", "ah, I see", "yeah, definitely",
)  # fmt: skip
RECORDINGS = (
    "goforward", "numbers", "something", "cards/001", "cards/002", "cards/003", "cards/004",
    "cards/005", *(f"librivox/sense_and_sensibility_01_austen_64kb-0{n}" for n in (870, 880, 890)),
    *(f"librivox/sense_and_sensibility_01_austen_64kb-0{n}" for n in (920, 930)),
)  # fmt: skip
ON_THE_PHONE = {
    "agent-loggedoff": "Agent Logged off.",
    "call-forwarding": "Call forwarding.",
    "call-fwd-on-busy": "Call-Forward on Busy.",
    "call-waiting": "Call waiting.",
    "conf-enteringno": "You are entering conference number",
    "conf-userwilljoin": "user will join the conference.",
    "confbridge-dec-list-vol-in": "To decrease the audio volume from other participants...",
    "confbridge-mute-out": "...to mute or unmute yourself.",
    "confbridge-rest-list-vol-in": "To reset the audio volume of the conference to the default "
    "level...",
    "confbridge-unlocked": "The conference is now unlocked.",
    "dir-multi1": "Press ...",
    "dir-multi2": "... for ...",
    "queue-reporthold": "Hold time",
    "vm-Cust2": "folder 6",
    "vm-incorrect": "Login incorrect.",
    "vm-incorrect-mailbox": "Login incorrect.  Mailbox?",
    "vm-intro": "Please leave your message after the tone.  When done hang up or press the "
    "pound key. (simple tone sound plays)",
    "vm-invalid-password": "That password does not meet the minimum requirements for this "
    "mailbox.  Please try again.",
    "vm-next": "Press 6 to play the next message.",
    "vm-rec-unv": "After the tone say your unavailable message and then press the pound key.",
    "vm-repeat": "Press 5 to repeat the current message.",
    "vm-savemessage": "or 9 to save this message",
    "vm-then-pound": "then press pound",
    "vm-theperson": "The person at extension",
    "vm-tocallback": "press 2 to call the person who sent this message",
    "vm-tohearenv": "press 3 to hear the message envelope",
    "vm-tooshort": "your message is too short",
    "vm-undelete": "Press 7 to undelete this message",
    "vm-undeleted": "Message undeleted.",
    "you-entered": "You entered.",
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
        for seed in range(1101, 1101 + count)
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

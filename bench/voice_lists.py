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
    "espeak:en-us+m4", "espeak:en+pablo", "espeak:en-gb-x-rp+m6", "espeak:en-us+Hugo",
    "flite:rms@1.01", "flite:slt@0.98", "pico:en-GB@0.97", "pico:en-US@1.05",
)  # fmt: skip
BESIDE = ("clean", "pink18", "clean", "white19", "brown16")
ORDERS = (
    "stop", "wait", "pause", "no", "cancel", "hold on", "abort", "halt", "go on", "hang on",
    "skip this part", "be quiet", "say that again", "undo that", "that's wrong", "not that one",
    "next section please", "slow down", "start over", "shut up", "read it louder", "wrong report",
    "what was the total for march", "no, I meant the sales report", "who wrote this part of it",
    "no, use last year's numbers instead", "can you send this to finance",
    "how much did we spend on travel", "just give me the short version",
    "go back to the first chapter", "no, the other customer, not them",
    "why did the profit fall so sharply", "open my calendar for tomorrow morning",
    "that figure cannot be correct", "delete the second paragraph please",
    "no, it was forty, not fourteen", "when is the next board meeting",
    "compare that with the previous quarter", "which region did best in spring",
    "add a note about the delay", "no, read me the summary first", "call my office right now",
    "how many people did we hire", "change the currency to dollars",
    "where does that number come from", "no, that belongs under marketing",
    "tell me about the new warehouse", "is that before or after tax",
    "remind me about this on monday", "what does that word mean",
)  # fmt: skip
ASSENTS = (
    "uh-huh", "mm-hmm", "yeah", "yes", "right", "okay", "mm", "sure", "yep", "oh", "wow", "great",
    "exactly", "true", "nice", "cool", "ah", "absolutely", "I agree", "I hear you",
    "it really is", "I believe it", "you're right", "pretty impressive", "so true",
    "quite remarkable", "that's lovely", "that's for sure", "that's really something",
    "great job", "what a result", "excellent work", "right right", "true true", "oh nice",
    "mm yeah",
)  # fmt: skip
RECORDINGS = (
    "goforward", "numbers", "something", "cards/001", "cards/002", "cards/003", "cards/004",
    "cards/005", *(f"librivox/sense_and_sensibility_01_austen_64kb-0{n}" for n in (870, 880, 890)),
    *(f"librivox/sense_and_sensibility_01_austen_64kb-0{n}" for n in (920, 930)),
)  # fmt: skip
ON_THE_PHONE = {
    "conf-adminmenu-menu8": "Press 1 to list users currently in the conference, 2 to kick all "
    "non-administrator users, 3 to mute or umute all non-administrator users, 4 to record this "
    "conference, or 8 to exit this menu and return to the conference.",
    "conf-errormenu": "Invalid Choice",
    "conf-usermenu-162": "Please press 1 to mute or unmute yourself, 4 or 6 to decrease or "
    "increase the conference volume, 5 to extend the conference, 7 or 9 to decrease or "
    "increase your volume, or 8 to exit this menu and return to the conference.",
    "confbridge-has-joined": "...has joined the conference.",
    "confbridge-mute-extended": "...to mute, or unmute yourself. When you are muted you can "
    "not send audio to other participants. However you will still hear audio from other "
    "unmuted participants.",
    "confbridge-pin": "Please enter your personal identification number followed by the pound, "
    "or hash key.",
    "confbridge-remove-last-in": "To remove the participant who most recently joined the "
    "conference...",
    "demo-enterkeywords": "Please enter one or more keywords separated by * and then press the "
    "pound key.",
    "demo-nogo": "I am afraid I was unable to create a connection to the Digium demonstration "
    "Asterisk server.  You may find some helpful debugging information on the Asterisk console.",
    "dir-first": "letters of your party's first name.",
    "dir-intro": "Welcome to the directory.  Please enter the first three letters of your "
    "party's last name using your touch tone keypad.  Use the 7 key for Q and the 9 key for Z.",
    "dir-multi9": "Press 9 for more entries.",
    "hello-world": "Hello world.",
    "if-correct-press": "If this is correct, press...",
    "priv-callpending": "I have a caller waiting, who introduces themselves as:",
    "screen-callee-options": "You have these options: Dial 1 if you wish to immediately "
    "connect to the incoming call.  Dial 2 if you wish to send this caller to voicemail.  Dial "
    "3 to send this caller to the torture menus.  Dial 4 to send this caller to a polite "
    '"don\'t call" menu.',
    "speed-dial": "Speed-dial.",
    "spy-mobile": "Bluetooth Mobile",
    "to-extension": "To extension.",
    "tt-allbusy": "All representatives of the household are currently assisting other "
    "telemarketers.  Please hold and your call will be answered in the order it was received.",
    "vm-duration": "This message lasts ...",
    "vm-instructions": "To look into your messages press 1 now.  You may quit voicemail at any "
    "time by pressing the pound key.",
    "vm-isunavail": "is unavailable",
    "vm-msginstruct": "To hear the next message press 6, to repeat this message press 5, to "
    "hear the previous message press 4, to delete or undelete this message press zero, to quit "
    "voicemail press pound.",
    "vm-onefor": "Press 1 for",
    "vm-opts-full": "press 2 to access messages saved in other folders.  Press 3 to record a "
    "message for another mailbox.  Press 0 for greetings and password management.",
    "vm-review": "press 1 to accept this recording press 2 to listen to it press 3 to rerecord "
    "your message",
    "vm-tmpexists": "There is a temporary greeting, which overrides your standard greetings.",
    "vm-tocancelmsg": "press star to cancel this message",
    "vm-toenternumber": "press 1 to enter a number",
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
        for name, noises in zip(RECORDINGS, cycle((("clean", "pink18"), ("white19", "clean"))))
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
        for seed in range(1301, 1301 + count)
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

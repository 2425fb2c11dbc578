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
    "espeak:en-us+marcelo", "espeak:en+gustave", "espeak:en-gb-x-rp+norbert", "espeak:en-us+pedro",
    "flite:rms@0.98", "flite:awb@1.03", "pico:en-GB@1.05", "pico:en-US@0.94",
)  # fmt: skip
BESIDE = ("clean", "brown17", "clean", "pink19", "white18")
ORDERS = (
    "stop", "wait", "pause", "no", "cancel", "hold on", "quit", "halt", "continue", "hang on",
    "go back a bit", "hold on a second", "pause it there", "slow down please", "that's too fast",
    "just the headlines", "switch to French", "that's the wrong year", "speak up please",
    "open the appendix", "I've heard this already", "no, I meant the March figures",
    "no, the other report", "can you email me that chart instead",
    "no, I asked about the Berlin office", "wait, where did that number come from",
    "no, go to the last page", "what was that number again", "let's jump to the bit about staffing",
    "who wrote this report anyway", "where did that figure come from",
    "can you just give me the short version", "why did costs go up so much",
    "what time is my next meeting", "could you read that last sentence again",
    "send this to Maria in accounting", "call Daniel and put him on speaker",
    "can you email this to the whole team", "put a reminder on my calendar for Friday",
    "move my three o'clock to tomorrow morning", "open the sales report from last quarter",
    "let's do the budget report instead", "jump ahead to the part about staffing",
    "leave out all the footnotes", "I need to take this call", "did anyone reply to my email yet",
    "stop there, I need to take a call", "just tell me if we made a profit",
    "make a note of that for me", "find out who signed off on this",
    "I'd rather hear about the new customers",
)  # fmt: skip
ASSENTS = (
    "uh-huh", "mm-hmm", "yeah", "yes", "right", "okay", "mm", "sure", "yep", "oh", "wow", "great",
    "exactly", "true", "nice", "cool", "ah", "absolutely", "well I never", "fancy that",
    "you don't say", "can't argue there", "yeah for sure", "no surprise there", "no kidding",
    "sounds about right", "oh that's interesting", "I thought so", "I'm with you", "about time too",
    "that's true", "not bad at all", "just as I expected", "who knew", "how about that",
    "I figured as much",
)  # fmt: skip
RECORDINGS = (
    "goforward", "numbers", "something", "cards/001", "cards/002", "cards/003", "cards/004",
    "cards/005", *(f"librivox/sense_and_sensibility_01_austen_64kb-0{n}" for n in (870, 880, 890)),
    *(f"librivox/sense_and_sensibility_01_austen_64kb-0{n}" for n in (920, 930)),
)  # fmt: skip
ON_THE_PHONE = {
    "basic-pbx-ivr-main": "Thank you for calling Super Awesome Company, Waldo's premier provider of"
    " perfect products. If you know your party's extension, you may dial it at any time. To "
    "establish a sales partnership, press one. To speak with a customer advocate, press two. "
    "For accounting and other receivables, press three. For a company directory, press four. "
    "For an operator, press zero.",
    "conf-adminmenu-162": "Please press 1 to mute or unmute yourself, 2 to lock or unlock the "
    "conference, 3 to eject the last user, 4 or 6 to decrease or increase the conference "
    "volume, 5 to extend the conference, 7 or 9 to decrease or increase your volume, or 8 to "
    "exit.",
    "conf-adminmenu-18": "Please press 1 to mute or unmute yourself, 2 to lock or unlock the "
    "conference, 3 to eject the last user, 4 or 6 to decrease or increase the conference "
    "volume, 5 to extend the conference, 7 or 9 to decrease or increase your volume, or 8 for"
    " more options.",
    "conf-otherinparty": "other participants in the conference",
    "demo-abouttotry": "I am about to attempt an Inter-Asterisk Exchange connection to a "
    "demonstration server located at Digium. In order for this to work you must already be "
    "connected to the Internet. Please wait a moment while I attempt to make the connection.",
    "demo-echotest": "You are about to enter an echo test. In this mode everything you say will be "
    "repeated back to you just as soon as it is received. The purpose of this test is"
    " to give you an audible sense of the latency between you and the machine that is"
    " running the echo test application. You may end the test by hanging up or by "
    "pressing the pound key.",
    "demo-moreinfo": "Asterisk is an Open Source full-featured PBX and IVR platform that runs on "
    "the linux operating system. For more information, visit www.asterisk.org.",
    "dictate/both_help": "press * to toggle pause, press # to enter a new dictation filename",
    "dictate/enter_filename": "Enter a numeric dictation filename followed by # or just # to exit",
    "dictate/forhelp": "press 0 for help",
    "dictate/play_help": "press 1 to switch to record mode, press 2 to toggle fast playback, press "
    "7 to jump backwards, press 8 to jump forwards",
    "dictate/record_help": "press 1 to switch to playback mode, press 8 to truncate the file and "
    "start over",
    "dictate/record_mode": "record mode",
    "dictate/truncating_audio": "truncating audio",
    "dir-intro-fn": "Welcome to the directory. Please enter the first three letters of your party's"
    " first name using your touch tone keypad. Use the 7 key for Q and the 9 key for Z.",
    "followme/call-from": "incoming call from",
    "followme/options": "press 1 to accept this call, or 2 to reject it",
    "followme/status": "the person you are calling is not at their desk; I will try to locate them "
    "for you",
    "letters/ascii123": "left brace",
    "letters/ascii125": "right brace",
    "letters/ascii40": "open parenthesis",
    "letters/ascii41": "close parenthesis",
    "letters/ascii62": "greater than",
    "letters/ascii91": "left bracket",
    "letters/ascii93": "right bracket",
    "one-moment-please": "One moment, please.",
    "telephone-number": "Telephone number.",
    "vm-Cust1": "folder 5",
    "vm-Cust4": "folder 8",
    "vm-Cust5": "folder 9",
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
        for name, noises in zip(RECORDINGS, cycle((("clean", "brown17"), ("pink19", "clean"))))
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
        for seed in range(1401, 1401 + count)
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

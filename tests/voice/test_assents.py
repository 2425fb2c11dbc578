"""What people say to show that they listen, and what only sounds like it."""

from __future__ import annotations

import csv
import time
from pathlib import Path

import pytest

from midflight.interfaces.voice.lexicon import is_assent

LISTS = Path(__file__).parents[2] / "bench/voice"

ASSENTS = """
    Uh-huh.; mm hmm; M. H. M.; H. M. M. Ok.; H. M. O. K.; Oh, I see.; yeah, okay; Thank you.;
    Fair enough.; Sounds good!; Very nice.; Quite interesting.; I know.; Great job.; I follow.;
    I totally agree.; I think so too.; I see what you mean.; I'm with you.; That's a good point.;
    That is so true.; It sounds reasonable.; What a nice idea.; How interesting.; Good to hear.;
    Works for me.; That makes perfect sense.; No worries.; Not bad.; Thanks a lot.; You bet.;
    What a shame.; It sure is.; So do I.; Right you are.; Yes, exactly, good call.;
    Got it, thanks.; I, I see.; Too true.; How nice.; Is that so?; Really?"""
NONE = """
    ; you; and all; I; so; okay but stop; 5 5; a b c; that's wrong; I don't follow;
    sounds wrong; not good; good, next one; right, but faster; I see the problem; make it so;
    make it very nice; correct that; copy that; no way; that's it; that's all; that will do;
    is it; the second one; I like the first one better; I got another question; clear;
    that's too clever; sounds too good; it would be good to know; that's good enough; I would like
    this; I already know that; how good?; like this; go on; hey; whoa; look at that"""


@pytest.mark.parametrize("text", [text.strip() for text in ASSENTS.split(";")])
def test_these_are_assents(text: str) -> None:
    assert is_assent(text)


@pytest.mark.parametrize("text", [text.strip() for text in NONE.split(";")])
def test_these_are_not(text: str) -> None:
    assert not is_assent(text)


def test_no_command_of_the_lists_is_taken_for_one() -> None:
    with (LISTS / "commands.tsv").open(encoding="utf-8") as file:
        said = {row["text"] for row in csv.DictReader(file, delimiter="\t")}

    assert len(said) > 200
    assert not [text for text in said if is_assent(text)]


@pytest.mark.parametrize("part", ["good", "so", "mm", "that's all", "I do", "what a good thing"])
def test_nobody_waits_for_the_answer_whatever_was_said(part: str) -> None:
    began = time.process_time()
    for count in range(1, 60):
        is_assent(f"{part} " * count + "but")

    assert time.process_time() - began < 1  # a pattern that goes astray takes minutes

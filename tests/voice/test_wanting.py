"""What is said over us and seems to want nothing, and what wants something."""

from __future__ import annotations

import pytest

from midflight.interfaces.voice.judgement import judge, may_only_remark
from midflight.interfaces.voice.speech.speech_engines import Heard
from midflight.interfaces.voice.turn_table import Verdict

SURE = 0.95


@pytest.mark.parametrize(
    "text",
    [
        "Just as I expected.", "Not bad at all.", "About time too.", "Fancy that.", "Who knew?",
        "How about that?", "Makes you think.", "That figures.", "I knew it.", "Could be worse.",
        "You can say that again.", "Tell me about it.", "It's a funny old world.", "What a mess.",
        "What are the odds?", "Here we go again.", "That explains a lot.",
        "No surprise there.", "No wonder he left.", "Oh no.", "How odd.", "More power to them.",
        "You're not wrong.", "I have my doubts.", "Those were the days.",
    ],
)  # fmt: skip
def test_a_remark_over_us_is_neither_a_message_nor_passed_over(text: str) -> None:
    assert judge(Heard(text, SURE), 1_600) is Verdict.REMARK


@pytest.mark.parametrize(
    "text",
    [
        "Read that again.", "Skip the intro.", "Use euros.", "Can you open the door.",
        "The blue one.", "Just the headlines.", "Only Spain.", "In euros.", "Under fifty.",
        "Which Tuesday?",
        "What about breakfast?", "How much is that?", "Who signed it?", "How recent?", "Too long.",
        "Not that one.", "That's the wrong year.", "That's not right.", "I meant the film.",
        "I need a pen.", "I can't hear you.", "I don't agree.", "You skipped a line.", "My turn.",
        "Let me think.", "I'd rather walk.", "Send it to Maria.", "Ask Bob.", "With Bob.",
        "Without music.", "A bit slower.", "More detail please.", "Tomorrow.", "Tuesday.", "Two.",
        "It has to fit.", "My bus is here.", "No more examples.", "No, the other way round.",
        "No use that file.", "No, way too long.", "No way, stop that.", "No rush but stop now.",
        "Close one window.", "Deploy it.", "With Godfrey.", "Sorry, I'm back.",
        "Before lunch.", "You've lost me.", "We agreed on something else.",
        "Take out what he said about the weather.", "he has been at sea for many years now",
    ],
)  # fmt: skip
def test_what_has_a_mark_of_a_wish_or_is_long_is_taken(text: str) -> None:
    assert judge(Heard(text, SURE), 1_400) is Verdict.WORDS


def test_a_remark_is_words_where_it_is_waited_for_or_said_again() -> None:
    heard = Heard("Not bad at all.", SURE)

    assert judge(heard, 1_400) is Verdict.REMARK
    assert judge(heard, 1_400, held=False) is Verdict.WORDS
    assert judge(heard, 1_400, asked=True) is Verdict.WORDS
    assert judge(heard, 1_400, awaited=True) is Verdict.WORDS  # it answers our question


def test_the_beginning_of_what_may_be_a_remark_ends_no_turn() -> None:
    assert judge(Heard("Just as I", SURE), 1_400, whole=False) is Verdict.UNCLEAR
    assert judge(Heard("Send the report to", SURE), 1_400, whole=False) is Verdict.WORDS


def test_a_recogniser_that_does_not_say_how_sure_it_is_is_asked_about_remarks_too() -> None:
    assert judge(Heard("Not bad at all.", None), 1_400) is Verdict.REMARK
    assert judge(Heard("Read that again.", None), 1_400) is Verdict.WORDS


def test_of_remarks_nobody_says_more_than_six_words() -> None:
    assert may_only_remark("he always was a bit odd")
    assert not may_only_remark("he always was a bit odd himself")

"""What a sound was, by its words, how sure they are, and what it is near to."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from midflight.interfaces.voice.judgement import judge
from midflight.interfaces.voice.speech.speech_engines import Heard, Word
from midflight.interfaces.voice.turn_table import Verdict


@pytest.mark.parametrize(
    ("heard", "spoke_ms", "verdict"),
    [
        (Heard("Yeah.", 0.9), 300, Verdict.BACKCHANNEL),
        (Heard("Stop.", 0.5), 300, Verdict.WORDS),
        (Heard("Amend them.", 0.7, lean=5.0), 500, Verdict.BACKCHANNEL),
        (Heard("Amend them.", 0.7, lean=3.0), 500, Verdict.UNCLEAR),
        (Heard("Uh?", 0.72, (Word("Uh?", 0.31),), lean=1.5), 350, Verdict.UNCLEAR),
        (Heard("Uh?", 0.72, (Word("Uh?", 0.31),), lean=5.9), 350, Verdict.BACKCHANNEL),
        (Heard("Thank you.", 0.8, (Word("Thank", 0.9), Word("you.", 0.4))), 500, Verdict.UNCLEAR),
        (
            Heard("Thank you.", 0.8, (Word("Thank", 0.9), Word("you.", 0.8))),
            500,
            Verdict.BACKCHANNEL,
        ),
        (Heard("Ten of clubs.", 0.83, lean=4.3), 832, Verdict.WORDS),
        (Heard("The heat that", 0.34, lean=2.9), 800, Verdict.UNCLEAR),
        (Heard("Repeat that", 0.58, lean=3.1), 736, Verdict.UNCLEAR),
        (Heard("Dog!", 0.5, lean=-5.0), 500, Verdict.UNCLEAR),
        (Heard("Great.", 0.7, lean=-1.0), 400, Verdict.UNCLEAR),
        (Heard("Let's listen.", 0.66, lean=4.2), 832, Verdict.UNCLEAR),
        (Heard("Lively.", 0.66, lean=4.2), 500, Verdict.BACKCHANNEL),
        (Heard("Definitely.", 0.74, (Word("Definitely.", 0.18),), 5.7), 580, Verdict.UNCLEAR),
        (Heard("Definitely.", 0.74, (Word("Definitely.", 0.18),), 6.7), 580, Verdict.BACKCHANNEL),
        (Heard("Lively.", 0.46, (Word("Lively.", 0.25),), 4.9), 550, Verdict.UNCLEAR),
        (Heard("So it is Lord.", 0.69), 830, Verdict.UNCLEAR),
        (Heard("So it is Lord.", 0.71), 830, Verdict.REMARK),
        (Heard("Go back", 0.52, lean=-7.2), 540, Verdict.WORDS),
        (Heard("Go back", 0.52, lean=0.0), 540, Verdict.UNCLEAR),
        (Heard("They're back.", 0.52, lean=-7.2), 540, Verdict.UNCLEAR),
        (Heard("Talk to the finance team.", 0.71), 1_400, Verdict.WORDS),
        (Heard("Talk to the finance team.", 0.69), 1_400, Verdict.UNCLEAR),
        (Heard("Talk to the finance team in Hamburg.", 0.59), 1_900, Verdict.WORDS),
        (Heard("Talk to the finance team in Hamburg.", 0.57), 1_900, Verdict.UNCLEAR),
        (Heard("", 0.0), 130, Verdict.NOISE),
        (Heard("", 0.0), 900, Verdict.UNCLEAR),
        (Heard("What about Germany?", 0.9), 1_200, Verdict.WORDS),
        (Heard("Water pout sherman hey", 0.4), 1_200, Verdict.UNCLEAR),
    ],
)
def test_a_sound_was(heard: Heard, spoke_ms: int, verdict: Verdict) -> None:
    assert judge(heard, spoke_ms) is verdict


def test_a_wait_that_was_heard_a_little_wrong_is_asked_about_and_is_no_message() -> None:
    late = Heard("Late.", 0.81, (Word("Late.", 0.61),), lean=-5.9)
    come_on = Heard("Come on.", 0.86, (Word("Come", 0.96), Word("on.", 0.69)))

    assert judge(late, 450) is Verdict.UNCLEAR
    assert judge(replace(come_on, control=-7.1), 480) is Verdict.UNCLEAR
    assert judge(replace(come_on, control=-9.0), 480) is Verdict.REMARK
    assert judge(Heard("Tuesday.", 0.9, (Word("Tuesday.", 0.8),)), 450) is Verdict.WORDS


def test_a_word_that_is_hardly_heard_makes_words_of_a_short_sound_over_us_unclear() -> None:
    named = Heard("He named him.", 0.81, (Word("He", 0.49), Word("named", 0.98)))  # "mm-hmm"

    assert judge(named, 830) is Verdict.UNCLEAR
    assert judge(named, 830, held=False) is Verdict.WORDS  # in silence it may be an answer
    assert judge(named, 1_600) is Verdict.REMARK  # it was heard well enough
    assert judge(replace(named, text="He has named him."), 1_200) is Verdict.REMARK
    assert judge(replace(named, words=(Word("He", 0.61),)), 830) is Verdict.REMARK
    assert judge(replace(named, text="Start over."), 830) is Verdict.WORDS
    assert judge(replace(named, text="No, in euros."), 830) is Verdict.WORDS


@pytest.mark.parametrize("text", ["And then,", "Them.", "But I see.", "You have right."])
def test_words_that_tell_nothing_are_asked_about_where_they_are_said_over_us(text: str) -> None:
    assert judge(Heard(text, 0.95), 700) is Verdict.UNCLEAR
    assert judge(Heard(text, 0.95), 700, held=False) is Verdict.WORDS
    assert judge(Heard(text, 0.95), 700, asked=True) is Verdict.WORDS  # they say it again
    assert judge(Heard(text, 0.95), 1_600) is Verdict.REMARK
    assert judge(Heard(text + " Only Germany", 0.95), 700) is Verdict.WORDS


def test_a_question_tells_something() -> None:
    assert judge(Heard("Are you sure?", 0.95), 700) is Verdict.WORDS
    assert judge(Heard("Are you sure.", 0.95), 700) is Verdict.UNCLEAR


def test_the_less_is_heard_of_its_worst_word_the_nearer_it_has_to_be_to_an_assent() -> None:
    press = Heard("Press.", 0.63, (Word("Press.", 0.37),), lean=4.47)

    assert judge(press, 448) is Verdict.UNCLEAR
    assert judge(replace(press, lean=4.7), 448) is Verdict.BACKCHANNEL


def test_a_long_assent_that_is_hardly_heard_is_asked_about_unless_it_is_near() -> None:
    muttered = Heard("That is a very good idea.", 0.7, (Word("That", 0.5),))

    assert judge(muttered, 1_400) is Verdict.UNCLEAR
    assert judge(replace(muttered, lean=4.5), 1_400) is Verdict.BACKCHANNEL
    assert judge(replace(muttered, words=(Word("That", 0.8),)), 1_400) is Verdict.BACKCHANNEL


def test_a_single_word_is_an_answer_where_nobody_is_talked_over() -> None:
    late = Heard("Late.", 0.81, (Word("Late.", 0.61),), lean=-5.9)

    assert judge(late, 450, held=False) is Verdict.WORDS


def test_an_order_to_the_letter_is_not_asked_about_for_being_near_to_a_control() -> None:
    start_over = Heard("Start over.", 0.85, (Word("Start", 0.8), Word("over.", 0.6)), control=-5.0)

    assert judge(start_over, 640) is Verdict.WORDS


def test_two_syllables_of_one_assent_are_not_two_assents() -> None:
    unsure = Heard("Mm-Hmm", 0.62, (Word("Mm-Hmm", 0.4),), lean=0.2)  # it was "wait"

    assert judge(unsure, 224) is Verdict.UNCLEAR
    assert judge(replace(unsure, lean=4.5), 224) is Verdict.BACKCHANNEL
    assert judge(Heard("Yeah, okay.", 0.62, unsure.words), 224) is Verdict.BACKCHANNEL


def test_what_is_only_near_to_an_assent_is_no_answer() -> None:
    mumbled = Heard("Amend them.", 0.7, lean=5.0)

    assert judge(mumbled, 500, held=False) is Verdict.UNCLEAR


@pytest.mark.parametrize("text", ["Okay.", "Yes.", "Yeah, sure."])
def test_an_answer_that_is_badly_heard_is_asked_about(text: str) -> None:
    assert judge(Heard(text, 0.2), 400, held=False) is Verdict.UNCLEAR
    assert judge(Heard(text, 0.95), 400, held=False) is Verdict.WORDS


def test_to_hold_little_certainty_will_do_and_to_go_on_it_will_not() -> None:
    assert judge(Heard("Stop.", 0.36), 400) is Verdict.WORDS
    assert judge(Heard("Go on.", 0.36), 400) is Verdict.UNCLEAR


def test_few_words_have_to_be_surer_over_us_than_in_silence_unless_they_were_asked_for() -> None:
    words = Heard("Talk to the finance team.", 0.66)

    assert judge(words, 1_400) is Verdict.UNCLEAR
    assert judge(words, 1_400, held=False) is Verdict.WORDS
    assert judge(words, 1_400, asked=True) is Verdict.WORDS
    assert judge(words, 1_400, awaited=True) is Verdict.WORDS  # nobody may be left to be asked


def test_few_words_over_us_of_which_one_is_a_guess_have_to_be_surer_still() -> None:
    guessed = Heard("Could it seem a lot worse?", 0.75, (Word("Could", 0.35), Word("it", 0.9)))

    assert judge(guessed, 1_400) is Verdict.UNCLEAR
    assert judge(replace(guessed, words=(Word("Could", 0.45),)), 1_400) is Verdict.WORDS
    assert judge(replace(guessed, confidence=0.81), 1_400) is Verdict.WORDS
    assert judge(guessed, 1_400, held=False) is Verdict.WORDS


def test_in_noise_words_have_to_be_surer_and_orders_do_not() -> None:
    words = Heard("Talk to the finance team.", 0.72)

    assert judge(words, 1_400) is Verdict.WORDS
    assert judge(words, 1_400, noisy=True) is Verdict.UNCLEAR
    assert judge(Heard(words.text, 0.8), 1_400, noisy=True) is Verdict.WORDS
    assert judge(Heard("Stop.", 0.36), 400, noisy=True) is Verdict.WORDS


@pytest.mark.parametrize(
    ("text", "spoke_ms", "held", "verdict"),
    [
        ("Yes.", 300, False, Verdict.WORDS),
        ("No.", 300, False, Verdict.WORDS),
        ("Okay.", 300, True, Verdict.BACKCHANNEL),
        ("Great.", 300, True, Verdict.UNCLEAR),
        ("Stop.", 300, True, Verdict.WORDS),
        ("Why?", 300, True, Verdict.WORDS),
        ("Amend them.", 400, True, Verdict.UNCLEAR),
        ("What about Germany?", 1_300, True, Verdict.WORDS),
        ("", 900, True, Verdict.UNCLEAR),
        ("you", 100, True, Verdict.NOISE),
    ],
)
def test_where_nobody_says_how_sure_they_are_short_words_count_if_they_are_known(
    text: str, spoke_ms: int, held: bool, verdict: Verdict
) -> None:
    assert judge(Heard(text, None), spoke_ms, held=held) is verdict


@pytest.mark.parametrize("text", ["Okay.", "Right.", "Sure.", "Yeah.", "Do it.", "Go ahead."])
@pytest.mark.parametrize("held", [True, False])
def test_where_nobody_says_how_sure_they_are_only_a_firm_yes_approves_at_once(
    text: str, held: bool
) -> None:
    polite = Heard(text, None)

    assert judge(polite, 400, held=held) is not Verdict.WORDS
    assert judge(polite, 400, held=False, asked=True) is Verdict.WORDS  # they say it again
    assert judge(Heard(f"Yes. {text}", None), 400, held=False) is Verdict.WORDS
    assert judge(Heard(text, 0.95), 400, held=False) is Verdict.WORDS


@pytest.mark.parametrize("text", ["Go on.", "Continue.", "No.", "Never mind.", "Be brief."])
def test_what_approves_nothing_needs_no_firm_word(text: str) -> None:
    assert judge(Heard(text, None), 400, held=False) is Verdict.WORDS


def test_half_an_utterance_of_unknown_certainty_only_holds() -> None:
    assert judge(Heard("Stop.", None), 800, whole=False) is Verdict.WORDS
    assert judge(Heard("Yes but what about", None), 1_500, whole=False) is Verdict.UNCLEAR


def test_half_an_utterance_that_that_is_short_is_not_judged_as_words() -> None:
    assert judge(Heard("Yes but", 0.9), 800, whole=False) is not Verdict.WORDS

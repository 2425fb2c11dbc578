"""What words mean before any model is asked."""

from __future__ import annotations

import pytest

from midflight.voice.lexicon import (
    Act,
    approves,
    cancels,
    doing,
    is_assent,
    is_firm,
    judge,
    meaning,
)
from midflight.voice.seams import Heard, Word
from midflight.voice.taking import Verdict

MEANINGS = {
    Act.PAUSE: """wait; Wait, wait.; Hold on.; hang on a second; Give me a minute, please.;
        Oh, wait.; Wait, no.; Could you please wait a moment?; Stop for a second.; But wait!;
        Wait, sorry.; Hold it there.;
        No, no, wait!; Okay, hold up.""",
    Act.STOP: """Stop!; stop it please; No, stop.; cancel that; That's enough.; Wait, stop!;
        Stop, wait.; Stop, please stop.; Stop! Cancel it!; Wait, cancel that.; Actually, stop.;
        Sorry, stop.; Hold on, stop.; I mean stop; Just stop.; Stop everything.; Uh, stop.;
        Hey, stop.; Yeah, stop.; Stop right there.; Can you stop?; No no no stop; Stop. Stop. No!;
        Stop, stop, stop, stop.; Yes, cancel it.; I said stop!; Never mind, stop.""",
    Act.GO_ON: """Go on.; okay, continue; Keep going, please.; Sorry, go on.; Wait, go on.;
        Just go on""",
    Act.HUMAN: """I want to talk to a human.; Get me an operator; Operator, please.;
        Wait, I want to talk to a human.""",
    Act.STRATEGY: """Be brief.; Please keep it short.; Give me the long version.; Stop. Be brief.;
        Actually, be brief.""",
    Act.YES: """Yes.; Yeah; do it; Yes, do it.; Yes, please do.; Yes, send it.; Okay, go for it.;
        Well, yes.; Sure, please.; Just do it.""",
    Act.NO: """No.; Never mind.; No, no, no.; No, don't.; Please don't.; No, don't send it.;
        No thank you.""",
    Act.REDIRECT: """No, only the EU.; Wait. Only the ten largest.; Actually use euros;
        wait, use the other account; stop, do the invoices first; No, no, only the EU;
        Sorry, I meant France; Stop, wait for the results; No, not that one; Wait, don't stop""",
    Act.SAY: """What about Germany?; Stop the second one and take the third; The operator was rude;
        Wait for the results and tell me; 5 5; ; Yes, explain that.; Sorry, what?; No, yes.;
        Yes, but send it tomorrow; Don't stop""",
}


@pytest.mark.parametrize(
    ("text", "act"),
    [(text.strip(), act) for act, texts in MEANINGS.items() for text in texts.split(";")],
)
def test_an_utterance_means(text: str, act: Act) -> None:
    assert meaning(text).act is act


def test_a_redirect_is_what_comes_after_the_no() -> None:
    assert meaning("No, only the EU.").text == "only the EU."
    assert meaning("No, only the EU.").said == "No, only the EU."
    assert meaning("No, no, only the EU.").text == "only the EU."
    assert meaning("Stop. Be brief.").text == "brief"


def test_a_yes_may_say_to_what() -> None:
    assert doing("Yes, please send it.") == doing("No, don't send them") == "send"
    assert not doing("Yes, do it.")


@pytest.mark.parametrize("text", ["Wait, stop!", "Stop! Cancel it!", "Yes, stop.", "Wait, yes."])
def test_no_stop_is_the_second_yes_that_a_cancel_needs(text: str) -> None:
    assert not cancels(text)


@pytest.mark.parametrize("text", ["Go ahead.", "yes, go ahead please", "Okay, proceed."])
def test_these_approve_where_an_approval_is_asked(text: str) -> None:
    assert approves(text)
    assert meaning(text).act is Act.GO_ON


@pytest.mark.parametrize("text", ["Go on.", "No, go ahead.", "Go ahead and delete it", "continue"])
def test_these_do_not(text: str) -> None:
    assert not approves(text)


def test_only_a_yes_is_firm() -> None:
    assert is_firm("Yes.")
    assert is_firm("Yes, yes.")
    assert not any(map(is_firm, ("", "Okay.", "Right.", "Yeah.", "Yes but")))


@pytest.mark.parametrize(
    "text",
    [
        "Uh-huh.",
        "Fair enough.",
        "Sounds good!",
        "I know.",
        "mm hmm",
        "Oh, I see.",
        "Thank you.",
        "yeah, okay",
        "M. H. M.",
        "H. M. M. Ok.",
    ],
)
def test_these_are_assents(text: str) -> None:
    assert is_assent(text)


@pytest.mark.parametrize(
    "text", ["", "you", "and all", "I", "so", "okay but stop", "5 5", "great job", "a b c"]
)
def test_these_are_not(text: str) -> None:
    assert not is_assent(text)


@pytest.mark.parametrize(
    ("heard", "spoke_ms", "verdict"),
    [
        (Heard("Yeah.", 0.9), 300, Verdict.BACKCHANNEL),
        (Heard("Stop.", 0.5), 300, Verdict.WORDS),
        (Heard("Amend them.", 0.7, lean=5.0), 500, Verdict.BACKCHANNEL),
        (Heard("Amend them.", 0.7, lean=3.0), 500, Verdict.UNCLEAR),
        (Heard("Uh?", 0.72, (Word("Uh?", 0.31),), lean=1.5), 350, Verdict.UNCLEAR),
        (Heard("Uh?", 0.72, (Word("Uh?", 0.31),), lean=4.5), 350, Verdict.BACKCHANNEL),
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
        (Heard("So it is Lord.", 0.6), 830, Verdict.UNCLEAR),
        (Heard("So it is Lord.", 0.66), 830, Verdict.WORDS),
        (Heard("Go back", 0.52, lean=-7.2), 540, Verdict.WORDS),
        (Heard("Go back", 0.52, lean=0.0), 540, Verdict.UNCLEAR),
        (Heard("They're back.", 0.52, lean=-7.2), 540, Verdict.UNCLEAR),
        (Heard("Talk to the finance team.", 0.59), 1_400, Verdict.WORDS),
        (Heard("Talk to the finance team.", 0.57), 1_400, Verdict.UNCLEAR),
        (Heard("", 0.0), 130, Verdict.NOISE),
        (Heard("", 0.0), 900, Verdict.UNCLEAR),
        (Heard("What about Germany?", 0.9), 1_200, Verdict.WORDS),
        (Heard("Water pout sherman hey", 0.4), 1_200, Verdict.UNCLEAR),
    ],
)
def test_a_sound_was(heard: Heard, spoke_ms: int, verdict: Verdict) -> None:
    assert judge(heard, spoke_ms) is verdict


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


def test_in_noise_words_have_to_be_surer_and_orders_do_not() -> None:
    words = Heard("Talk to the finance team.", 0.66)

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


def test_half_an_utterance_of_unknown_certainty_only_holds() -> None:
    assert judge(Heard("Stop.", None), 800, whole=False) is Verdict.WORDS
    assert judge(Heard("Yes but what about", None), 1_500, whole=False) is Verdict.UNCLEAR


def test_half_an_utterance_that_that_is_short_is_not_judged_as_words() -> None:
    assert judge(Heard("Yes but", 0.9), 800, whole=False) is not Verdict.WORDS

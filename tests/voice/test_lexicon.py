"""What words mean before any model is asked."""

from __future__ import annotations

import pytest

from midflight.voice.lexicon import Act, approves, is_assent, is_firm, judge, meaning
from midflight.voice.seams import Heard, Word
from midflight.voice.taking import Verdict

MEANINGS = {
    Act.PAUSE: ["wait", "Wait, wait.", "Hold on.", "hang on a second", "Give me a minute, please."],
    Act.STOP: ["Stop!", "stop it please", "No, stop.", "cancel that", "That's enough."],
    Act.GO_ON: ["Go on.", "okay, continue", "Keep going, please."],
    Act.HUMAN: ["I want to talk to a human.", "Get me an operator", "Operator, please."],
    Act.STRATEGY: ["Be brief.", "Please keep it short.", "Give me the long version."],
    Act.YES: ["Yes.", "Yeah", "do it"],
    Act.NO: ["No.", "Never mind."],
    Act.REDIRECT: ["No, only the EU.", "Wait. Only the ten largest.", "Actually use euros"],
    Act.SAY: [
        "What about Germany?",
        "Stop the second one and take the third",
        "The operator was rude",
        "Wait for the results and tell me",
        "5 5",
        "",
    ],
}


@pytest.mark.parametrize(
    ("text", "act"), [(text, act) for act, texts in MEANINGS.items() for text in texts]
)
def test_an_utterance_means(text: str, act: Act) -> None:
    assert meaning(text).act is act


def test_a_redirect_is_what_comes_after_the_no() -> None:
    assert meaning("No, only the EU.").text == "only the EU."
    assert meaning("No, only the EU.").said == "No, only the EU."


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
    ],
)
def test_these_are_assents(text: str) -> None:
    assert is_assent(text)


@pytest.mark.parametrize(
    "text", ["", "you", "and all", "I", "so", "okay but stop", "5 5", "great job"]
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
        (Heard("Go back", 0.52, lean=-7.2), 540, Verdict.WORDS),
        (Heard("Go back", 0.52, lean=0.0), 540, Verdict.UNCLEAR),
        (Heard("They're back.", 0.52, lean=-7.2), 540, Verdict.UNCLEAR),
        (Heard("Talk to the finance team.", 0.66), 1_400, Verdict.WORDS),
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


def test_half_an_utterance_that_is_short_is_not_judged_as_words() -> None:
    assert judge(Heard("Yes but", 0.9), 800, whole=False) is not Verdict.WORDS

"""What words mean before any model is asked."""

from __future__ import annotations

import pytest

from midflight.interfaces.voice.lexicon import (
    Act,
    approves,
    cancels,
    doing,
    is_firm,
    meaning,
)

MEANINGS = {
    Act.PAUSE: """wait; Wait, wait.; Hold on.; hang on a second; Give me a minute, please.;
        Oh, wait.; Wait, no.; Could you please wait a moment?; Stop for a second.; But wait!;
        Wait, sorry.; Hold it there.; Pang on a second.; I'm on a minute.;
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
        Sorry, I meant France; Stop, wait for the results; No, not that one; Wait, don't stop;
        No, the other one; Sorry, I meant Berlin; No, that's fine but use euros; No, I like Berlin;
        No, the good one; No, all of it; No, that one; Actually, the nice one;
        Sorry, I was thinking of Berlin; Sorry, I'm late for it so skip ahead; No, I was on mute;
        No, cool it; Sorry, cool it; No, really all of it; No, it all, very well""",
    Act.SAY: """What about Germany?; Stop the second one and take the third; The operator was rude;
        Wait for the results and tell me; 5 5; ; Yes, explain that.; Sorry, what?; No, yes.;
        Yes, but send it tomorrow; Don't stop;
        No, that's fine.; No I like it.; No, it's good.; Actually, that makes sense.;
        No, no, good idea.; Nope, sounds good; No, I agree.; Sorry, I was on mute.;
        Sorry, I'm back.; No, sorry, I was muted; No, that's all, thanks;
        No worries.; No doubt.; Carry on a second; Based on one minute""",
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


@pytest.mark.parametrize(
    "text", ["Wait, that's fine", "Stop. Good idea.", "No, hold on, I like it"]
)
def test_who_has_said_wait_is_not_taken_for_one_who_agrees(text: str) -> None:
    assert meaning(text).act is Act.REDIRECT


def test_who_asks_for_nothing_is_told_from_who_has_words_for_the_run() -> None:
    asking = ["What about Germany?", "No, only the EU.", "No, cool it", "No, yes.", "Sorry, what?"]
    assert not [text for text in asking if meaning(text).asks_nothing]
    idle = ["No, that's fine.", "Sorry, I was on mute.", "No, I agree.", "No, that's all, thanks"]
    assert [text for text in idle if meaning(text).asks_nothing] == idle


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

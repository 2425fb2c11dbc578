"""What the demo model understands, and that it says what it does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midflight.conversation import Message, TriageView
from midflight.demo.analyst import BRIEF, choose
from midflight.demo.wishes import Question, Scope, Slide, Status, Unknown, Wishes, understood

BEFORE = Wishes(Scope(region="US", top=20), sentences=3)


@pytest.mark.parametrize(
    ("text", "wishes"),
    [
        (BRIEF, Wishes()),
        ("only EU", Wishes(Scope(region="EU"))),
        ("Just European customers, please", Wishes(Scope(region="EU"))),
        ("only the US", Wishes(Scope(region="US"))),
        ("only enterprise", Wishes(Scope(plan="enterprise"))),
        ("top 20", Wishes(Scope(top=20))),
        ("the top twenty will do", Wishes(Scope(top=20))),
        ("also include trials", Wishes(Scope(trials=True))),
        ("top 5 enterprise in APAC", Wishes(Scope("APAC", "enterprise", top=5))),
        ("write it in three sentences", Wishes(sentences=3)),
        ("make it shorter", Wishes(sentences=3)),
    ],
)
def test_it_understands(text: str, wishes: Wishes) -> None:
    assert understood(text, Wishes()) == wishes


@pytest.mark.parametrize(
    ("text", "wishes"),
    [
        ("all regions", Wishes(Scope(top=20), 3)),
        ("everyone at risk", Wishes(Scope("US"), 3)),
        ("without trials", BEFORE),
        ("in full again", Wishes(Scope("US", top=20))),
        ("only EU", Wishes(Scope("EU", top=20), 3)),
    ],
)
def test_a_wish_adds_to_those_before_it_or_takes_one_back(text: str, wishes: Wishes) -> None:
    assert understood(text, BEFORE) == wishes


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("first tell me how many customers churned in March", Question("churned", "March")),
        ("How many EU customers did we lose?", Question("customers", region="EU")),
        ("how much revenue was there in May?", Question("revenue", "May")),
        ("how many enterprise customers are there?", Question("customers", plan="enterprise")),
    ],
)
def test_a_question_is_counted(text: str, question: Question) -> None:
    assert understood(text, BEFORE) == question


def test_us_is_a_country_only_in_capitals() -> None:
    assert understood("tell us how it went with the memo", Wishes()) == Wishes()


@pytest.mark.parametrize("text", ["paint it purple", "", "top secret", "in Latin"])
def test_what_it_does_not_understand_is_told_with_what_it_does(text: str) -> None:
    heard = understood(text, BEFORE)

    assert isinstance(heard, Unknown)
    assert "only EU" in heard.words()


def test_other_work_is_told_from_this_work() -> None:
    assert understood("later: draft a slide", Wishes()) == Slide()
    assert understood("how is it going?", Wishes()) == Status()


@given(st.text(), st.text())
def test_no_words_are_too_strange(text: str, more: str) -> None:
    wishes = understood(text, Wishes())
    understood(more, wishes if isinstance(wishes, Wishes) else BEFORE)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("only EU", "incorporate"),
        ("only EU first", "incorporate"),
        ("how many customers churned in March?", "incorporate"),
        ("first tell me how many customers churned in March", "switch"),
        ("draft a slide", "defer"),
        ("later: draft a slide", "defer"),
        ("draft a slide right now", "switch"),
        ("later: only EU", "defer"),
        ("paint it purple", "incorporate"),
        ("how is it going?", "incorporate"),
    ],
)
async def test_a_message_is_sorted_and_answered(text: str, action: str) -> None:
    message = Message(7, text, "ann", "controller", 0.0)
    (choice,) = await choose(TriageView(BRIEF, "working", (), [message], []))

    assert (choice.message, choice.action) == (7, action)
    assert choice.say

"""The demo's run from its first step to the outbox, and what people change on the way."""

from __future__ import annotations

import email
import email.policy
import re
import xml.etree.ElementTree as ET

import pytest

from demo.arithmetic import at_risk, churned_in
from demo.theatre import Playing, Theatre

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

WHO = "Who shall get the memo?"
MAY = "May this be done: email to"
PLAN = [
    "Fetch customer list",
    "Join against MRR",
    "Score churn risk",
    "Create follow-up tasks",
    "Write memo with chart",
    "Send memo",
]


def names_in(memo: str) -> list[str]:
    return re.findall(r"<tr><td>([^<]+)</td>", memo)


def is_about(playing: Playing, expected: list[tuple[str, int]], scope: str) -> None:
    """The memo says what the database says, and the tasks are for those people."""
    memo = playing.memo()
    losing = sum(usd for _, usd in expected)
    assert f"{len(expected)} of " in memo
    assert f"({scope})" in memo
    assert f"They pay ${losing:,} a month" in memo
    assert names_in(memo) == [name for name, _ in expected]
    assert playing.open_tasks() == {name for name, _ in expected}


def test_six_steps_lead_to_a_memo_with_true_figures_in_the_outbox(theatre: Theatre) -> None:
    playing = theatre.play()
    playing.asked(WHO)
    state = playing.state()
    assert state["plan"] == PLAN
    assert "step 6 of 6" in state["status"] or state["phase"] == "waiting"
    assert (state["spent"]["usd"], state["limits"]["usd"]) == (0, 1)
    is_about(playing, at_risk(playing), "paying customers")
    assert playing.files("outbox") == []

    playing.answer(WHO, "The board")
    playing.answer(MAY, "approve")
    playing.ended("done")
    (sent,) = playing.files("outbox")
    letter = email.message_from_bytes(sent.read_bytes(), policy=email.policy.default)
    assert letter["To"] == "board@example.test"
    body = letter.get_body()
    assert body is not None
    assert body.get_content().strip() == playing.memo().strip()
    assert playing.receipt()[0] == ("email to The board", "final")


def test_the_chart_shows_the_revenue_of_each_month(theatre: Theatre) -> None:
    playing = theatre.play()
    playing.asked(WHO)
    page = playing.memo()
    drawn = ET.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    bars = [e.text for e in drawn.iter("{http://www.w3.org/2000/svg}title")][1:]

    assert bars == [
        f"{month}: ${usd:,}"
        for month, usd in playing.ask("SELECT month, sum(usd) FROM revenue GROUP BY 1 ORDER BY 1")
    ]
    assert len(bars) == 18


COURSES = [
    ("only EU", "NOT trial AND region = 'EU'", 0, "paying customers in the EU"),
    ("all regions, top 20", "NOT trial", 20, "the top 20 paying customers"),
    ("everyone, also include trials", "TRUE", 0, "customers, trials included"),
    (
        "no trials, only enterprise",
        "NOT trial AND plan = 'enterprise'",
        0,
        "paying enterprise customers",
    ),
]


def test_each_redirect_changes_figures_and_tasks_and_keeps_the_rest(theatre: Theatre) -> None:
    playing = theatre.play()
    asked = playing.asked(WHO)
    for wish, where, top, scope in COURSES:
        playing.verb("redirect", text=wish)
        asked = playing.asked(WHO, after=asked)

        is_about(playing, at_risk(playing, where=where, top=top), scope)
        assert playing.state()["plan"] == [
            "Score churn risk again",
            "Adjust follow-up tasks",
            "Rewrite memo",
            "Send memo",
        ]
    records = playing.get(f"/v1/runs/{playing.run}/records")["records"]
    read = [r["event"]["name"] for r in records if r["event"]["event"] == "step.settled"]
    assert read == [*PLAN[:3], *[f"{PLAN[2]} again"] * len(COURSES)]


def test_wishes_add_up_whether_they_come_as_redirects_or_as_messages(theatre: Theatre) -> None:
    playing = theatre.play()
    first = playing.asked(WHO)
    playing.verb("redirect", text="only EU")
    second = playing.asked(WHO, after=first)
    playing.write("top 5")
    playing.heard("I read it as soon as you have answered me")
    playing.verb("redirect", text="write it in three sentences")
    playing.asked(WHO, after=second)

    where = "NOT trial AND region = 'EU'"
    is_about(playing, at_risk(playing, where=where, top=5), "the top 5 paying customers in the EU")
    text = re.findall("<p>(.*?)</p>", playing.memo(), re.DOTALL)[0]
    assert len(re.findall(r"[.](?: |$)", text)) == 3


def test_what_people_write_while_they_are_asked_is_read_before_anything_is_sent(
    theatre: Theatre,
) -> None:
    playing = theatre.play()
    playing.asked(WHO)
    playing.write("only EU")
    playing.heard("I read it as soon as you have answered me")
    playing.answer(WHO, "The board")
    playing.asked(MAY)

    where = "NOT trial AND region = 'EU'"
    is_about(playing, at_risk(playing, where=where), "paying customers in the EU")
    assert playing.files("outbox") == []


def test_a_message_first_is_done_at_once_and_the_memo_comes_back(theatre: Theatre) -> None:
    playing = theatre.play()
    playing.asked(WHO)
    playing.write("first tell me how many customers churned in March")
    count, month = churned_in(playing, "03")

    playing.heard("First this; then I come back to the memo.")
    playing.heard(f"{count} customers churned in March {month[:4]}.")
    playing.until(lambda state: not state["holds"] and state["questions"])
    playing.answer(WHO, "Sales leads")
    playing.answer(MAY, "approve")
    playing.ended("done")
    assert len(playing.files("outbox")) == 1


def test_what_can_wait_is_put_off_and_done_after_the_memo(theatre: Theatre) -> None:
    playing = theatre.play()
    playing.asked(WHO)
    playing.write("later: draft a slide")
    playing.heard("Noted; after the memo.")
    (todo,) = playing.get(f"/v1/threads/{playing.state()['thread']}/todos")["todos"]
    assert "slide" in str(todo)
    assert playing.files("slides") == []

    playing.answer(WHO, "Sales leads")
    playing.answer(MAY, "reject")
    playing.ended("done")
    playing.heard("The slide is drafted")
    (slide,) = playing.files("slides")
    assert f"{len(at_risk(playing))} at risk" in slide.read_text(encoding="utf-8")


def test_what_it_does_not_understand_it_says_and_goes_on(theatre: Theatre) -> None:
    playing = theatre.play()
    first = playing.asked(WHO)
    playing.write("paint it purple")
    assert "only EU" in playing.heard("I do not understand “paint it purple”.")
    playing.verb("redirect", text="in Latin, please")
    playing.heard("I do not understand “in Latin, please”.")
    playing.asked(WHO, after=first)

    is_about(playing, at_risk(playing), "paying customers")
    other = playing.post("/v1/runs", agent="analyst", brief="Find a table for eight")["run"]
    playing.ended("done", other)
    result = playing.get(f"/v1/runs/{other}/result")["result"]
    assert result.startswith("I do not understand “Find a table for eight”.")


def test_a_side_question_is_answered_and_touches_nothing(theatre: Theatre) -> None:
    playing = theatre.play()
    playing.asked(WHO)
    playing.verb("ask_aside", text="How many customers do we have?")
    ((count,),) = playing.ask("SELECT count(*) FROM customers WHERE status != 'churned'")

    playing.heard(f"There are {count} customers")
    assert playing.state()["phase"] == "waiting"

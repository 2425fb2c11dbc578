"""The ways to answer a question as every front door offers them, and an answer read back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from midflight.journal.events import QuestionOpened
from midflight.view.question_form import read_back, ways
from midflight.view.run_book import asked

APPROVAL = {
    "oneOf": [
        {"enum": ["approve", "reject"]},
        {"type": "object", "properties": {"edit": {}}, "required": ["edit"]},
        {"type": "object", "properties": {"respond": {"type": "string"}}, "required": ["respond"]},
    ],
    "x-labels": {"approve": "Send it", "reject": "Leave it"},
}


def test_a_choice_that_leads_in_a_circle_is_answered_in_words() -> None:
    assert [way.form for way in ways({"oneOf": [{"$ref": "#"}]})] == ["answer"]
    assert [way.form for way in ways({"anyOf": [{"oneOf": [{"$ref": "#/anyOf/0"}]}]})] == ["answer"]


def test_an_approval_is_offered_first_and_its_refusal_after_the_other_answers() -> None:
    found = ways(APPROVAL)

    assert [(way.label, way.consequence, way.tone) for way in found] == [
        ("Approve", "Send it", "good"),
        ("Edit", "Change, then do it", ""),
        ("Reject", "Leave it", "bad"),
        ("Respond", "Say what instead", ""),
    ]
    assert [(way.form, way.part) for way in found] == [
        ("", 0),
        ("edit", 1),
        ("", 0),
        ("respond", 2),
    ]
    assert [way.send for way in found] == ["", "Approve as edited", "", "Send response"]


@pytest.mark.parametrize(
    ("schema", "labels"),
    [
        (None, ["Answer"]),
        ({"type": "boolean"}, ["Yes", "No"]),
        ({"enum": ["a", "b"], "x-labels": {"a": "The first"}}, ["The first", "B"]),
        ({"enum": [1, 2]}, ["1", "2"]),
        ({"type": "string"}, ["Answer"]),
        ({"$defs": {"Who": {"enum": ["a", "b"]}}, "oneOf": [{"$ref": "#/$defs/Who"}]}, ["A", "B"]),
        ({"$ref": "#/nowhere"}, ["Answer"]),
    ],
)
def test_other_answers_have_the_words_of_who_asks(schema: Any, labels: list[str]) -> None:
    assert [way.label for way in ways(schema)] == labels


@pytest.mark.parametrize(
    ("schema", "payload", "words"),
    [
        (APPROVAL, "approve", "Approve"),
        (APPROVAL, {"respond": "Ask Ana first"}, "Respond: Ask Ana first"),
        (APPROVAL, {"edit": {"to": "bob"}}, 'Edit: {"to":"bob"}'),
        ({"type": "boolean"}, True, "Yes"),
        ({"enum": [0, 1]}, True, "true"),
        (None, "in words", "in words"),
    ],
)
def test_an_answer_is_read_back_in_the_words_of_its_button(
    schema: Any, payload: Any, words: str
) -> None:
    assert read_back(schema, payload) == words


@pytest.mark.parametrize(
    ("kind", "verb", "labels", "skip"),
    [
        ("ask", "answer", ["Yes", "No"], "It goes on without an answer"),
        ("approval", "answer", ["Yes", "No"], ""),
        ("cap", "raise limits", [], ""),
        ("human", "hand back", [], ""),
    ],
)
def test_a_question_names_the_verb_that_settles_it(
    kind: str, verb: str, labels: list[str], skip: str
) -> None:
    schema = msgspec.Raw(b'{"type": "boolean"}')
    found = asked(7, QuestionOpened(epoch=1, kind=kind, message="usd: full.", schema=schema))

    assert (found.verb, [way.label for way in found.ways], found.skip) == (verb, labels, skip)

"""What somebody types as an answer, and what is sent for it."""

from __future__ import annotations

from typing import Any

import pytest

from midflight.errors import InvalidRequest
from midflight.interfaces.terminal.answer_form import plain, wanted

APPROVAL = {
    "oneOf": [
        {"enum": ["approve", "reject"]},
        {"type": "object", "properties": {"edit": {}}, "required": ["edit"]},
        {
            "type": "object",
            "properties": {"respond": {"type": "string"}},
            "required": ["respond"],
            "additionalProperties": False,
        },
    ]
}

SHORT = {"type": "string", "maxLength": 5}


@pytest.mark.parametrize(
    ("typed", "schema", "sent"),
    [
        ("tea", None, "tea"),
        ("42", None, "42"),
        ('{"a": 1}', None, {"a": 1}),
        ("[1, 2]", None, [1, 2]),
        ('"tea"', None, "tea"),
        ("[draft] tea", {"type": "string"}, "[draft] tea"),
        ('"tea"', {"type": "string"}, '"tea"'),
        ("42", {"type": "integer"}, 42),
        ("Approve", APPROVAL, "approve"),
        ("only on Fridays", APPROVAL, {"respond": "only on Fridays"}),
        ('{"edit": {"to": "bob"}}', APPROVAL, {"edit": {"to": "bob"}}),
        ('"quite"', APPROVAL, {"respond": '"quite"'}),
    ],
)
def test_what_is_typed_becomes_what_the_question_wants(typed: str, schema: Any, sent: Any) -> None:
    assert plain(typed, schema) == sent


@pytest.mark.parametrize("typed", ['{"a":', "[1, 2", '"tea', ' {"edit": {"to": "bob"}'])
@pytest.mark.parametrize("schema", [None, APPROVAL, {"type": "object"}], ids=str)
def test_half_of_an_answer_does_not_become_the_answer(typed: str, schema: Any) -> None:
    with pytest.raises(
        InvalidRequest, match=r"begins like JSON but is not valid JSON.*Nothing was answered"
    ):
        plain(typed, schema)


OPEN = {"anyOf": [{"enum": ["red", "green"]}, {"type": "string"}]}


@pytest.mark.parametrize(
    ("typed", "schema", "meant"),
    [
        ("aprove", APPROVAL, "approve"),
        ("Approved ", APPROVAL, "approve"),
        ("reject!", APPROVAL, "reject"),
        ("gren", OPEN, "green"),
        ("gren", {"enum": ["red", "green"]}, "green"),
    ],
)
def test_a_word_that_is_nearly_a_choice_is_asked_back_and_not_taken_for_words(
    typed: str, schema: Any, meant: str
) -> None:
    with pytest.raises(InvalidRequest, match=f"did you mean {meant}\\?.*Nothing was answered"):
        plain(typed, schema)


@pytest.mark.parametrize("typed", ["later", "not approve", "approve it on Friday", "blue"])
def test_other_words_are_taken_as_words(typed: str) -> None:
    assert plain(typed, APPROVAL) == {"respond": typed}
    assert plain(typed, OPEN) == typed


@pytest.mark.parametrize("schema", [SHORT, {"anyOf": [SHORT, {"type": "null"}]}], ids=str)
def test_where_only_a_text_is_taken_its_length_is_what_is_wrong(schema: Any) -> None:
    assert plain("[urgent] only", schema) == "[urgent] only"  # for the schema to refuse


@pytest.mark.parametrize(
    "schema", [None, {"type": ["string", "array"]}, APPROVAL, {"type": "object"}], ids=str
)
def test_who_is_refused_is_told_how_to_send_the_same_words(schema: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        plain("[urgent] only", schema)
    _, named, way = str(refused.value).partition("As words it is: ")
    assert bool(named) == (schema != {"type": "object"})  # which takes no words
    if named:
        sent = plain(way.partition(". Nothing was answered")[0], schema)
        assert sent in ("[urgent] only", {"respond": "[urgent] only"})


def test_what_is_typed_for_an_answer_is_told_where_it_is_not_its_name() -> None:
    offered = {"enum": ["Sales leads", "board"], "x-labels": {"board": "The board"}}

    assert wanted(offered) == ["Sales leads", "The board   (board)"]

"""What somebody types as an answer, and what is sent for it."""

from __future__ import annotations

from typing import Any

import pytest

from midflight.errors import InvalidRequest
from midflight.terminal.forms import plain

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
    with pytest.raises(InvalidRequest, match=r"begins as JSON and is none.*Nothing was answered"):
        plain(typed, schema)

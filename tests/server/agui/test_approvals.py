"""Answers to approvals in the words of the AG-UI guide, and what they are in ours."""

from __future__ import annotations

from typing import Any

import pytest

from midflight.errors import DOTS
from midflight.interfaces.agui.agui_approvals import described, holds_dots, in_our_words
from midflight.runtime.steps.preconditions import schema


def pay(*args: Any, names: tuple[str, ...] = (), **kwargs: Any) -> dict[str, Any]:
    """The stored schema of an approval for a call of the tool ``pay``."""
    given = schema({"args": list(args), "kwargs": kwargs})
    return given | {"x-tool": "pay", "x-names": list(names)}


@pytest.mark.parametrize(
    ("payload", "ours"),
    [
        (True, "approve"),
        (False, "reject"),
        ({"approved": True}, "approve"),
        ({"approved": False}, "reject"),
        ({"approved": False, "reason": " "}, "reject"),
        ({"approved": False, "reason": "too dear"}, {"respond": "too dear"}),
        (
            {"approved": True, "editedArgs": {"amount": 7}},
            {"edit": {"args": [], "kwargs": {"amount": 7}}},
        ),
        ({"approved": False, "editedArgs": {"amount": 7}}, "reject"),
        ({"approved": False, "condition": "not today"}, "reject"),
        ({"edit": {"kwargs": {"amount": 7}}}, {"edit": {"kwargs": {"amount": 7}}}),
        ({"respond": "no"}, {"respond": "no"}),
        ("approve", "approve"),
    ],
)
def test_the_guides_words_mean(payload: Any, ours: Any) -> None:
    assert in_our_words(payload, pay(amount=100)) == ours


@pytest.mark.parametrize(
    "payload",
    [
        {"approved": True, "condition": "only today"},
        {"approved": 1},
        {"approved": "true"},
        {"approved": None},
        {"approved": False, "reason": 7},
        {},
        [],
        None,
        1,
    ],
)
def test_what_is_no_plain_yes_or_no_is_left_as_it_is_and_fits_nothing(payload: Any) -> None:
    assert in_our_words(payload, pay(amount=100)) == payload


def test_edited_arguments_go_by_place_where_the_call_gave_them_so() -> None:
    stored = pay("shop", 100, names=("to", "amount"), note="thanks")

    edited = in_our_words(
        {"approved": True, "editedArgs": {"note": "bye", "amount": 80, "to": "bank"}}, stored
    )
    without = in_our_words({"approved": True, "editedArgs": {"amount": 80}}, stored)

    assert edited == {"edit": {"args": ["bank", 80], "kwargs": {"note": "bye"}}}
    assert without == {"edit": {"args": [], "kwargs": {"amount": 80}}}


def test_the_older_shape_of_edited_arguments_is_taken_where_it_can_mean_nothing_else() -> None:
    older = {"args": [], "kwargs": {"amount": 7}}
    run_it = pay(args=["-l"])

    assert in_our_words({"approved": True, "editedArgs": older}, pay(amount=1)) == {"edit": older}
    assert in_our_words({"approved": True, "editedArgs": {"args": ["-a"]}}, run_it) == {
        "edit": {"args": [], "kwargs": {"args": ["-a"]}}
    }


def test_dots_that_stand_for_a_secret_are_that_secret_again_in_its_own_place_only() -> None:
    token = {"$secret": "CRM_TOKEN"}
    stored = pay("shop", token, names=("to", "token"), deep=[{"key": token}], note="x")

    def edited(**arguments: Any) -> Any:
        return in_our_words({"approved": True, "editedArgs": arguments}, stored)

    same = edited(to="bank", token=DOTS, deep=[{"key": DOTS}], note="y")
    moved = edited(to=DOTS, token="none", deep=[], note=f"with {DOTS} in it")

    assert same == {
        "edit": {"args": ["bank", token], "kwargs": {"deep": [{"key": token}], "note": "y"}}
    }
    assert not holds_dots(same)
    assert moved["edit"]["args"] == [DOTS, "none"]
    assert holds_dots(moved)
    assert holds_dots({"edit": {"kwargs": {"note": f"with {DOTS} in it"}}})
    assert not holds_dots({"respond": f"what is {DOTS}?"})


def test_arguments_without_a_name_are_edited_as_a_list() -> None:
    stored = pay("a", "b", names=("first",))
    given = {"args": ["c"], "kwargs": {}}

    assert in_our_words({"approved": True, "editedArgs": given}, stored) == {"edit": given}
    assert "args" in described(stored)["properties"]["editedArgs"]["properties"]


def test_a_question_of_an_older_journal_has_a_description_too() -> None:
    for stored in (None, {}, {"enum": ["approve", "reject"]}, {"oneOf": 7}, {"x-tool": "pay"}):
        assert described(stored)["required"] == ["approved"]
        assert in_our_words({"approved": True}, stored) == "approve"

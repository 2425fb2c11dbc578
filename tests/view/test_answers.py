"""A question's schema is read once: what can be picked is the same at every door."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from midflight.interfaces.chat.run_posts import card
from midflight.interfaces.terminal.answer_form import choices, plain, wanted
from midflight.interfaces.voice.lexicon import Act, Meaning
from midflight.interfaces.voice.spoken_answers import payload_of
from midflight.journal.events import QuestionOpened
from midflight.runtime.steps.preconditions import schema as approval
from midflight.view.data import Asked
from midflight.view.question_form import Pick, about, picks, ways, written
from midflight.view.run_book import asked

YES, NO = Meaning(Act.YES, "yes", "yes"), Meaning(Act.NO, "no", "no")
MAYBE = {"anyOf": [{"type": "boolean"}, {"type": "null"}]}
NAMED = {"oneOf": [{"const": 1, "title": "One night"}, {"const": 7, "title": "A week"}]}


def spoken(schema: Any, meant: Meaning) -> Any:
    asked = QuestionOpened(
        epoch=1, kind="ask", message="Well?", schema=Raw(msgspec.json.encode(schema))
    )
    return payload_of(asked, meant)


def told(schema: Any) -> Asked:
    encoded = Raw(msgspec.json.encode(schema))
    return asked(7, QuestionOpened(epoch=1, kind="ask", message="Well?", schema=encoded))


def says(text: str) -> Meaning:
    return Meaning(Act.SAY, text, text)


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"enum": ["a", 2]}, ["a", 2]),
        ({"const": "only"}, ["only"]),
        ({"type": "boolean"}, [True, False]),
        (MAYBE, [True, False]),
        (NAMED, [1, 7]),
        ({"anyOf": [{"oneOf": [{"enum": ["a"]}, {"const": "b"}]}, {"type": "string"}]}, ["a", "b"]),
        (approval({"to": "sales"}), ["approve", "reject"]),
        ({"type": "string"}, []),
        ({"type": "object", "properties": {"a": {"enum": ["b"]}}}, []),
        ({"enum": "no list", "x-labels": ["no", "labels"]}, []),
        (None, []),
        (True, []),
    ],
    ids=str,
)
def test_what_can_be_picked_is_the_same_in_terminals_and_chats(
    schema: Any, values: list[Any]
) -> None:
    assert [pick.value for pick in picks(schema)] == values
    assert [choice.value for choice in choices(schema)] == values
    assert [way.value for way in ways(schema) if not way.form] == values


def test_an_answer_is_called_what_its_asker_calls_it_at_every_door() -> None:
    assert picks(NAMED) == [Pick(1, "1", "One night"), Pick(7, "7", "A week")]
    assert [choice.label for choice in choices(NAMED)] == ["One night", "A week"]
    assert [way.label for way in ways(NAMED)] == ["One night", "A week"]
    assert spoken(NAMED, says("a week")) == 7


def test_yes_and_no_answer_what_may_also_be_left_open() -> None:
    assert wanted(MAYBE) == ["Yes   (true)", "No   (false)"]
    assert [plain(word, MAYBE) for word in ("yes", "No", "null")] == [True, False, None]
    assert (spoken(MAYBE, YES), spoken(MAYBE, NO)) == (True, False)


def test_by_voice_yes_approves_only_what_can_be_approved() -> None:
    assert spoken(approval({"to": "sales"}), YES) == "approve"
    assert spoken(approval({"to": "sales"}), NO) == "reject"
    about = {"enum": ["send", "hold"], "x-details": "They approve or reject it on Monday"}
    assert spoken(about, YES) is None
    assert spoken(about, says("Send")) == "send"
    assert spoken({"enum": [1, 0]}, YES) is None
    inside = {"type": "object", "properties": {"decision": {"enum": ["approve", "reject"]}}}
    assert spoken(inside, YES) is None


def test_by_voice_words_are_taken_where_text_is_wanted() -> None:
    assert spoken({"type": "string"}, says("the blue one")) == "the blue one"
    assert spoken({"type": "string", "enum": ["red"]}, says("the blue one")) is None


@pytest.mark.parametrize(
    ("details", "lines"),
    [
        (None, []),
        ("as it is", ["as it is"]),
        ({"to": "sales", "n": 2}, ["to: sales", "n: 2"]),
        ({"args": ["a", 1], "kwargs": {"to": "b"}}, ["argument 1: a", "argument 2: 1", "to: b"]),
        ({"args": "an essay", "kwargs": 3}, ["args: an essay", "kwargs: 3"]),
        ({"args": [], "kwargs": {}, "more": 1}, ["args: []", "kwargs: {}", "more: 1"]),
        ([1, 2], ["[1,2]"]),
        (False, ["false"]),
    ],
    ids=str,
)
def test_nothing_that_a_question_is_about_is_left_out(details: Any, lines: list[str]) -> None:
    assert about({"x-details": details}) == lines
    assert wanted({"type": "string", "x-details": details}) == [*lines, "string"]
    shown = card("r-1", told({"type": "string", "x-details": details})).text.splitlines()[1:]
    assert shown == (["```", *lines, "```"] if lines else [])


def test_text_is_written_as_it_is_and_anything_else_as_json() -> None:
    assert [written(value) for value in ("a b", 1, None, {"a": [True]})] == [
        "a b",
        "1",
        "null",
        '{"a":[true]}',
    ]


def test_a_question_about_a_call_shows_the_tool_and_named_arguments_with_dots_for_secrets() -> None:
    stored = {"$secret": "TOKEN"}
    schema = {
        "enum": ["approve"],
        "x-tool": "crm.mail",
        "x-names": ["to", "token"],
        "x-details": {"args": ["ada", stored], "kwargs": {"n": [stored]}},
    }
    facts = ["tool: crm.mail", "to: ada", "token: •••", 'n: ["•••"]']
    assert about(schema) == facts
    assert about({"x-tool": "crm.mail", "x-details": {"tool": "crm.mail"}}) == ["tool: crm.mail"]
    assert wanted(schema)[:4] == facts
    assert card("r-1", told(schema)).text.splitlines()[1:7] == ["```", *facts, "```"]

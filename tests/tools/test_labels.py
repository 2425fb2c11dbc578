"""What a person calls one effect: its own label, or its noun and its first text."""

from __future__ import annotations

from typing import Any

import pytest

from midflight.errors import InvalidTool
from midflight.tools.base import Tool, declared
from midflight.tools.labels import in_words, label_of, named
from midflight.tools.secret import Secret


def mail(to: str, subject: str = "Hello", token: object = None) -> None:
    """Send it."""


def made(**options: Any) -> Tool:
    return declared(mail, name="labels.mail", **options)


@pytest.mark.parametrize(
    ("options", "args", "kwargs", "label"),
    [
        ({"noun": "mail"}, ("ada",), {}, "mail ada"),
        ({"noun": "mail"}, (), {"to": "ada"}, "mail ada"),
        ({}, ("ada",), {}, "Send mail ada"),
        ({"noun": "mail to ada"}, ("ada",), {}, "mail to ada"),
        ({"noun": "mail"}, (), {}, "mail"),
        ({"noun": "mail"}, ([1], 7), {}, "mail 7"),
        ({"noun": "mail"}, (True, None), {}, "mail"),
        ({"noun": "mail"}, ({"a": 1},), {}, "mail a 1"),
        ({"noun": "mail"}, ({"a": 2},), {}, "mail a 2"),
        ({"noun": "mail"}, ({"to": {"name": "ada"}, "n": 7},), {}, "mail ada, n 7"),
        ({"noun": "mail"}, ([["ada", "bob"]],), {}, "mail ada, bob"),
        ({"noun": "mail"}, ([1, 2, 3, 4],), {}, "mail 1, 2, 3"),
        ({"noun": "mail"}, ({"body": "x" * 500, "id": 7},), {}, "mail id 7"),
        ({"noun": "mail"}, ({"ok": True, "none": None},), {}, "mail"),
        ({"noun": "mail"}, ({"a": 1}, "ada"), {}, "mail ada"),
        ({"noun": "mail"}, ("a\n  b",), {}, "mail a b"),
        ({"label": "mail to {to}"}, ("ada",), {}, "mail to ada"),
        ({"label": "{subject} for {to}"}, ("ada",), {}, "Hello for ada"),
        ({"label": lambda to, **_: f"a mail to {to}"}, ("ada",), {"subject": "x"}, "a mail to ada"),
        ({"noun": "mail", "label": lambda to: 1 / 0}, ("ada",), {}, "mail ada"),
        ({"noun": "mail", "label": "{to.nothing}"}, ("ada",), {}, "mail ada"),
    ],
)
def test_a_label(
    options: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any], label: str
) -> None:
    assert label_of(made(**options), "Send mail", args, kwargs) == label


def test_a_label_of_a_huge_or_circular_argument_is_made_from_its_beginning() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert label_of(made(noun="mail"), "", (circle,), {}) == "mail"
    assert label_of(made(noun="mail"), "", ([None] * 10_000_000,), {}) == "mail"


def test_a_secret_inside_an_argument_is_not_in_the_label(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABEL_TOKEN", "hush-hush")
    token = Secret("LABEL_TOKEN")
    token.reveal()

    given = ({"token": token, "to": "ada", "text": "it is hush-hush"},)
    assert label_of(made(noun="mail"), "", given, {}) == "mail ada, it is •••"


def test_a_label_is_one_short_line_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABEL_TOKEN", "hush-hush")
    token = Secret("LABEL_TOKEN")
    token.reveal()

    assert label_of(made(noun="mail"), "", (token, "for hush-hush"), {}) == "mail for •••"
    assert label_of(made(label="{to} {token}"), "", ("ada", "", token), {}) == "ada •••"
    assert len(label_of(made(noun="mail"), "", ("x" * 2_000_000,), {})) == 80


@pytest.mark.parametrize(
    ("label", "why"),
    [
        ("mail to {whom}", "label= names 'whom', which is no argument of it"),
        ("mail to {", "label= is no template"),
        (7, "label= has to be a template or a function"),
    ],
)
def test_a_label_that_cannot_be_made_is_refused_where_it_is_declared(label: Any, why: str) -> None:
    with pytest.raises(InvalidTool, match=why):
        made(label=label)


def test_arguments_in_words_have_names_and_dots_and_are_whole() -> None:
    stored = {"$secret": "LABEL_TOKEN"}
    given = named(mail, ["ada", {"n": [1, stored]}], {"token": stored})
    assert in_words(given) == {"to": "ada", "subject": '{"n":[1,"•••"]}', "token": "•••"}
    assert in_words(named(None, ["ada"], {})) == {"argument 1": "ada"}
    assert len(in_words({f"a{number}": number for number in range(20)})) == 20
    assert in_words({"text": "two\nlines " * 10_000})["text"] == "two\nlines " * 10_000

"""What a person calls one effect: its own label, or its noun and its first text."""

from __future__ import annotations

from typing import Any

import pytest

from midflight.errors import InvalidTool
from midflight.tools.declaration import Tool, declared
from midflight.tools.labels import in_words, label_of, named
from midflight.tools.secret import Secret


def mail(to: str, subject: str = "Hello", token: object = None) -> None:
    """Send it."""


def made(**options: Any) -> Tool:
    return declared(mail, name="labels.mail", **options)


@pytest.mark.parametrize(
    ("options", "args", "kwargs", "label"),
    [
        ({"label": "mail"}, ("ada",), {}, "mail ada"),
        ({"label": "mail"}, (), {"to": "ada"}, "mail ada"),
        ({}, ("ada",), {}, "Send mail ada"),
        ({"label": "mail to ada"}, ("ada",), {}, "mail to ada"),
        ({"label": "mail"}, (), {}, "mail"),
        ({"label": "mail"}, ([1], 7), {}, "mail 7"),
        ({"label": "mail"}, (True, None), {}, "mail"),
        ({"label": "mail"}, ({"a": 1},), {}, "mail a 1"),
        ({"label": "mail"}, ({"a": 2},), {}, "mail a 2"),
        ({"label": "mail"}, ({"to": {"name": "ada"}, "n": 7},), {}, "mail ada, n 7"),
        ({"label": "mail"}, ([["ada", "bob"]],), {}, "mail ada, bob"),
        ({"label": "mail"}, ([1, 2, 3, 4],), {}, "mail 1, 2, 3"),
        ({"label": "mail"}, ({"body": "x" * 500, "id": 7},), {}, "mail id 7"),
        ({"label": "mail"}, ({"ok": True, "none": None},), {}, "mail"),
        ({"label": "mail"}, ({"a": 1}, "ada"), {}, "mail ada"),
        ({"label": "mail"}, ("a\n  b",), {}, "mail a b"),
        ({"describe": "mail to {to}"}, ("ada",), {}, "mail to ada"),
        ({"describe": "{subject} for {to}"}, ("ada",), {}, "Hello for ada"),
        (
            {"describe": lambda to, **_: f"a mail to {to}"},
            ("ada",),
            {"subject": "x"},
            "a mail to ada",
        ),
        ({"label": "mail", "describe": lambda to: 1 / 0}, ("ada",), {}, "mail ada"),
        ({"label": "mail", "describe": "{to.nothing}"}, ("ada",), {}, "mail ada"),
    ],
)
def test_a_label(
    options: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any], label: str
) -> None:
    assert label_of(made(**options), "Send mail", args, kwargs) == label


def test_a_label_of_a_huge_or_circular_argument_is_made_from_its_beginning() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert label_of(made(label="mail"), "", (circle,), {}) == "mail"
    assert label_of(made(label="mail"), "", ([None] * 10_000_000,), {}) == "mail"


def test_a_secret_inside_an_argument_is_not_in_the_label(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABEL_TOKEN", "hush-hush")
    token = Secret("LABEL_TOKEN")
    token.reveal()

    given = ({"token": token, "to": "ada", "text": "it is hush-hush"},)
    assert label_of(made(label="mail"), "", given, {}) == "mail ada, it is •••"


def test_a_label_is_one_short_line_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABEL_TOKEN", "hush-hush")
    token = Secret("LABEL_TOKEN")
    token.reveal()

    assert label_of(made(label="mail"), "", (token, "for hush-hush"), {}) == "mail for •••"
    assert label_of(made(describe="{to} {token}"), "", ("ada", "", token), {}) == "ada •••"
    assert len(label_of(made(label="mail"), "", ("x" * 2_000_000,), {})) == 80


@pytest.mark.parametrize(
    ("describe", "why"),
    [
        ("mail to {whom}", "describe= names 'whom', which is not an argument of the function"),
        ("mail to {", "describe= is not a valid template"),
        (7, "describe= has to be a template or a function"),
    ],
)
def test_a_label_that_cannot_be_made_is_refused_where_it_is_declared(
    describe: Any, why: str
) -> None:
    with pytest.raises(InvalidTool, match=why):
        made(describe=describe)


def test_arguments_in_words_have_names_and_dots_and_are_whole() -> None:
    stored = {"$secret": "LABEL_TOKEN"}
    given = named(mail, ["ada", {"n": [1, stored]}], {"token": stored})
    assert in_words(given) == {"to": "ada", "subject": '{"n":[1,"•••"]}', "token": "•••"}
    assert in_words(named(None, ["ada"], {})) == {"argument 1": "ada"}
    assert len(in_words({f"a{number}": number for number in range(20)})) == 20
    assert in_words({"text": "two\nlines " * 10_000})["text"] == "two\nlines " * 10_000

"""Every front door shows the whole of what is approved, or offers nothing to approve it with.

Whatever the arguments are, each door shows each value to the letter: as it is, or with an escape
that can be undone in place of what would be hidden. A door that cannot offers no way to say yes.
"""

from __future__ import annotations

import base64
import json
import unicodedata
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from journal.journals import running
from midflight.interfaces.agui.agui_state import open_interrupts
from midflight.interfaces.chat.discord_posts import TEXT_MAX, pieces, view_of
from midflight.interfaces.chat.run_posts import card
from midflight.interfaces.chat.webhook import _shown as delivered
from midflight.interfaces.cli.acknowledgement import question_lines
from midflight.interfaces.cli.run_display import Lines, Picture
from midflight.interfaces.terminal import looks
from midflight.interfaces.tui.bar_widget import facts_shown
from midflight.interfaces.voice.speech.agenda import Question
from midflight.interfaces.voice.spoken_answers import Fitting, agrees, is_read_out, spoken
from midflight.journal.events import QuestionOpened
from midflight.journal.state import RunState
from midflight.runtime.steps import preconditions
from midflight.view import RunBook, ThreadBook
from midflight.view.question_form import all_facts
from midflight.view.run_book import asked as as_asked

HOSTILE = [
    "", " padded ", '"quoted"', "two\nlines\n\namount: 1", "tab\there", "\x1b[2J\x1b[31mred",
    "\r\nover", "```\n@everyone\n```", "`tick", "ends in a tick`", "a\u200bb", "\u202egnp.exe",
    "soft\u00adhyphen", "\ufeffmark", "no\u00a0break", "e\u0301", "a\U000e0041b",
    "👩\u200d💻 ✔\ufe0f", "\\u200b", "[x](http://e.vil)", "<@123>", "**bold**", "word " * 4_000,
    "x" * 20_000, "7", "true", "null",
]  # fmt: skip
VALUES = st.recursive(
    st.sampled_from(HOSTILE)
    | st.text(st.characters(codec="utf-8"), max_size=40)
    | st.integers(-(2**63), 2**64 - 1)
    | st.booleans()
    | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
NAMES = st.sampled_from(["to", "body", "a b", "x: 1\ny"])
CALLS = st.fixed_dictionaries(
    {
        "args": st.lists(VALUES, max_size=2),
        "kwargs": st.dictionaries(NAMES, VALUES, max_size=3),
    }
)
EVERYTHING: dict[str, Any] = {"args": HOSTILE, "kwargs": {"to": HOSTILE, "body": {"deep": HOSTILE}}}


def question(call: dict[str, Any]) -> QuestionOpened:
    schema = preconditions.schema(call) | {"x-tool": "bank.pay", "x-names": ["first"]}
    return QuestionOpened(
        epoch=1, kind="approval", message="May it?", schema=Raw(msgspec.json.encode(schema))
    )


def values_of(call: dict[str, Any]) -> list[Any]:
    return [*call["args"], *call["kwargs"].values()]


def undone(shown: str, value: Any) -> Any:
    """What a person who reads it takes it for."""
    if isinstance(value, str):
        return json.loads(shown, strict=False) if shown[:1] == '"' else shown
    return msgspec.json.decode(shown)


def expected(asked: QuestionOpened, call: dict[str, Any]) -> list[str]:
    """The forms in which the values are shown: each gives its value back, and nothing is hidden."""
    shown = [value for _, value in all_facts(msgspec.json.decode(asked.schema))][1:]
    for form, value in zip(shown, values_of(call), strict=True):
        assert undone(form, value) == value
        emoji = form.replace("👩\u200d💻 ✔\ufe0f", "")
        hidden = {"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"}
        unseen = [c for c in emoji if c != "\n" and unicodedata.category(c) in hidden]
        assert unseen == [] or is_emoji_only(unseen)
    return shown


def is_emoji_only(unseen: list[str]) -> bool:
    return set(unseen) <= {"\u200d"}


def flush_left(text: str, room: int) -> str:
    """The text without the room that a door leaves before the further lines of a value."""
    return text.replace("\n" + " " * room, "\n")


CASES = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@CASES
@given(CALLS)
@example(EVERYTHING)
def test_the_terminal_app_shows_all_of_it(call: dict[str, Any]) -> None:
    asked = question(call)
    shown = flush_left(facts_shown(msgspec.json.decode(asked.schema)), 2)
    assert all(form in shown for form in expected(asked, call))


@CASES
@given(CALLS)
@example(EVERYTHING)
def test_show_and_answer_print_all_of_it(call: dict[str, Any]) -> None:
    asked = question(call)
    book = book_of(asked)
    lines = question_lines(lambda *words: " ".join(words), book.sheet(), book.sheet().questions[0])
    shown = "\n".join(flush_left(looks.indented(line), 6) for line in lines)
    assert all(form in shown for form in expected(asked, call))


@pytest.mark.anyio
@pytest.mark.parametrize("made", [Lines, lambda command: Picture(command, driving=True)])
async def test_run_and_watch_print_all_of_it(made: Any, capsys: pytest.CaptureFixture[str]) -> None:
    asked = question(EVERYTHING)
    shown: Lines
    with made(lambda *words: " ".join(words)) as shown:
        shown.begin(book_of(asked), ThreadBook("t-1"), 0.0)
    told = flush_left(capsys.readouterr().out, 8)

    for form in expected(asked, EVERYTHING):
        assert form in told


@CASES
@given(CALLS)
@example(EVERYTHING)
def test_the_page_is_told_all_of_it(call: dict[str, Any]) -> None:
    asked = question(call)
    told = [value for _, value in as_asked(7, asked).facts]
    assert told[1:] == expected(asked, call)


@CASES
@given(CALLS)
@example(EVERYTHING)
@example({"args": ["```\n@everyone\n```"], "kwargs": {}})
@example({"args": ["ends in a tick`"], "kwargs": {}})
def test_a_chat_has_all_of_it_in_one_block_or_in_a_file(call: dict[str, Any]) -> None:
    asked = question(call)
    post = card("r-1", as_asked(7, asked))
    texts, files = pieces(post)

    assert all(len(text) <= TEXT_MAX for text in texts)
    if files:
        shown = b"".join(file.fp.read() for file in files).decode()
    else:
        (text,) = texts
        before, shown, behind = text.split("```")  # nothing in the block ends it
        assert "May it?" in before
        assert behind.strip() == ""
    assert all(form in flush_left(shown, 2) for form in expected(asked, call))
    assert view_of(post) is not None


@CASES
@given(CALLS)
@example(EVERYTHING)
def test_a_webhook_is_sent_all_of_it(call: dict[str, Any]) -> None:
    asked = question(call)
    body = delivered(card("r-1", as_asked(7, asked)))
    files = [base64.b64decode(file["base64"]).decode() for file in body["files"]]
    shown = flush_left("\n".join([body["text"], *files]), 2)
    assert all(form in shown for form in expected(asked, call))


@CASES
@given(CALLS)
@example(EVERYTHING)
@example({"args": ["Ada"], "kwargs": {"amount": 700}})
def test_a_voice_says_all_of_it_or_takes_no_yes(call: dict[str, Any]) -> None:
    asked = question(call)
    yes = Fitting(Question("r-1", 7), RunState(journal="r-1"), asked, "approve")
    no = Fitting(Question("r-1", 7), RunState(journal="r-1"), asked, "reject")
    assert agrees(yes)
    assert not agrees(no)
    if is_read_out(asked):
        said = spoken(asked)
        assert all(" ".join(form.split()) in said for form in expected(asked, call))
    else:
        assert "here you can only say no" in spoken(asked)


@CASES
@given(CALLS)
@example(EVERYTHING)
def test_an_agui_client_is_given_all_of_it(call: dict[str, Any]) -> None:
    asked = question(call)
    run = running()
    position = run.open_question("May it?", schema=asked.schema, kind="approval")
    (found,) = open_interrupts(run.state, {position: asked}).values()
    assert found.interrupt.metadata is not None
    assert found.interrupt.metadata["details"] == call


def book_of(asked: QuestionOpened) -> RunBook:
    run = running()
    run.open_question(asked.message, schema=asked.schema)
    run.wait()
    book = RunBook(run.state.journal)
    for record in run.records:
        book.take(record)
    return book


def hidden_characters() -> Iterator[str]:
    for code in range(0x110000):
        char = chr(code)
        if unicodedata.category(char) in {"Cc", "Cf", "Zl", "Zp"} and char != "\n":
            yield char


def test_no_character_that_hides_or_steers_comes_through_in_any_place() -> None:
    text = "".join(f"a{char}b" for char in hidden_characters())
    ((_, shown),) = all_facts({"x-details": {"to": text}})
    assert json.loads(shown, strict=False) == text
    assert not set(shown) & set(hidden_characters())

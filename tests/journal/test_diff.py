"""What a person changed, in one line."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from midflight.journal.record import Limits
from midflight.journal.status import DIFF_WIDTH, Piece, changed_meanwhile, one_line, word_diff

SAME = (Limits(), Limits())

words = st.lists(st.sampled_from(["hold", "a", "table", "the", "garden", "room"])).map(" ".join)


def test_the_change_is_told_by_words() -> None:
    assert word_diff("Hold a table tonight", "Hold the garden room tonight") == (
        Piece("same", "Hold"),
        Piece("removed", "a table"),
        Piece("added", "the garden room"),
        Piece("same", "tonight"),
    )


def test_one_line_marks_what_went_and_what_came() -> None:
    assert one_line("Hold a table", "Hold the garden room") == "Hold ~a table~ =the garden room="


def test_no_change_is_the_text_itself() -> None:
    assert one_line("Hold a table", "Hold a table") == "Hold a table"
    assert word_diff("", "") == ()


def test_a_text_from_nothing_is_all_new() -> None:
    assert word_diff("", "Hold a table") == (Piece("added", "Hold a table"),)


def test_line_breaks_do_not_make_two_lines() -> None:
    assert "\n" not in one_line("Hold\na table", "Hold\nthe\nroom")


def test_a_long_line_is_cut_to_its_width() -> None:
    line = one_line("", "word " * 100)

    assert len(line) == DIFF_WIDTH
    assert line.endswith("…")


@given(words, words)
def test_both_texts_can_be_read_back_from_the_change(old: str, new: str) -> None:
    pieces = word_diff(old, new)

    assert " ".join(p.text for p in pieces if p.kind != "added") == old
    assert " ".join(p.text for p in pieces if p.kind != "removed") == new


# ── the line of a resume ─────────────────────────────────────────────────────────────────────


def test_a_resume_that_changes_nothing_says_so() -> None:
    assert changed_meanwhile(("Go", "Go"), SAME) == "nothing changed"


def test_a_resume_lists_everything_the_person_changed() -> None:
    line = changed_meanwhile(
        ("Hold a table", "Hold a room"),
        (Limits(usd=1.0), Limits(usd=2.0, steps=5)),
        answers=["yes"],
        messages=2,
    )

    assert line == (
        "Hold a ~table~ =room=; steps cap None → 5; usd cap 1.0 → 2.0; answered 'yes'; "
        "2 new messages"
    )


def test_one_message_is_one_message() -> None:
    assert changed_meanwhile(("Go", "Go"), SAME, messages=1) == "1 new message"

"""What was heard is told from the samples that were played."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from midflight.interfaces.voice.speech.agenda import clauses, heard_of, speakable
from midflight.interfaces.voice.speech.speech_engines import Mark

TEXT = "Here is the summary"
MARKS = (Mark(0, 0), Mark(100, 5), Mark(200, 8), Mark(300, 12))


def test_a_word_is_heard_when_half_of_it_was() -> None:
    assert heard_of(TEXT, MARKS, 400, 149) == "Here"
    assert heard_of(TEXT, MARKS, 400, 150) == "Here is"


def test_all_of_it_is_heard_at_the_end_and_nothing_at_the_beginning() -> None:
    assert heard_of(TEXT, MARKS, 400, 400) == TEXT
    assert heard_of(TEXT, MARKS, 400, 0) == ""


def test_marks_are_taken_by_their_place_and_not_by_counting() -> None:
    """espeak-ng says "has been" in one, and "42" in two."""
    text = "It has been 42 times"
    marks = (Mark(0, 0), Mark(100, 3), Mark(300, 12), Mark(350, 13), Mark(400, 15))

    assert heard_of(text, marks, 500, 210) == "It has been"
    assert heard_of(text, marks, 500, 360) == "It has been 42"


def test_without_marks_each_character_takes_as_long() -> None:
    assert heard_of(TEXT, (), 1_900, 600) == "Here is"


words = st.lists(st.text("abc", min_size=1, max_size=6), min_size=1, max_size=12).map(" ".join)


@given(words, st.integers(0, 2_000), st.integers(0, 2_000))
def test_who_hears_for_longer_hears_no_less(text: str, one: int, other: int) -> None:
    short, long = sorted([one, other])
    first, second = heard_of(text, (), 2_000, short), heard_of(text, (), 2_000, long)

    assert text.startswith(second)
    assert second.startswith(first)


@given(st.text("ab .,!?\n", max_size=500), st.booleans())
def test_no_character_is_lost_between_clauses(text: str, whole: bool) -> None:
    found, rest = clauses(text, whole=whole)

    assert "".join(found) + rest == text
    assert not (whole and rest)


@given(st.text(max_size=200))
def test_signs_are_taken_away_without_moving_anything(text: str) -> None:
    assert len(speakable(text)) == len(text)


def test_a_sentence_is_spoken_as_soon_as_it_has_ended() -> None:
    assert clauses("It grew. In ev", whole=False) == (["It grew. "], "In ev")

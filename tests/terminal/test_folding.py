"""Long lists are folded in the middle; nothing that needs a look is hidden."""

from __future__ import annotations

from midflight.interfaces.terminal.safe_text import FIRST, LAST, MARKED_MAX, SHORT, folded, more


def test_a_short_list_is_shown_whole() -> None:
    assert list(folded(SHORT)) == list(range(SHORT))


def test_of_a_long_list_the_first_and_the_last_are_shown() -> None:
    found = list(folded(2_000))

    assert found[:FIRST] == list(range(FIRST))
    assert found[FIRST] == range(FIRST, 2_000 - LAST)
    assert found[FIRST + 1 :] == list(range(2_000 - LAST, 2_000))


def test_what_is_marked_is_shown_where_it_stands() -> None:
    found = list(folded(100, [50, 52]))

    assert found[FIRST:-LAST] == [range(5, 50), 50, 51, 52, range(53, 85)]


def test_of_many_that_are_marked_the_last_are_shown() -> None:
    shown = [place for place in folded(10_000, range(10_000)) if isinstance(place, int)]

    assert len(shown) == FIRST + max(LAST, MARKED_MAX)


def test_the_whole_list_is_shown_where_that_is_wanted() -> None:
    assert list(folded(2_000, whole=True)) == list(range(2_000))


def test_a_fold_says_how_many_it_hides_and_how_they_are_seen() -> None:
    assert more(range(5, 1_965), "step", "--all") == "… 1,960 more steps (--all)"
    assert more(range(5, 6), "step", "--all") == "… 1 more step (--all)"

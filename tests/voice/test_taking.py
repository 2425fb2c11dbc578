"""Who speaks when, as a table: examples of each edge, and what holds whatever happens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midflight.interfaces.voice.speech.speech_engines import FRAME_MS
from midflight.interfaces.voice.turn_table import (
    CLICK_MS,
    END_HELD_MS,
    END_MS,
    LASTS_MS,
    LONGEST_MS,
    PATIENCE_MS,
    TOO_LONG_MS,
    Event,
    Floor,
    FrameHeard,
    Judged,
    Order,
    Pressed,
    SpeechBegan,
    SpeechEnded,
    Taking,
    Verdict,
    advance,
)

LOUD, SILENT = FrameHeard(1.0), FrameHeard(0.0)


def play(events: Iterable[Event], now: Taking = Taking()) -> tuple[Taking, list[Order]]:  # noqa: B008
    orders: list[Order] = []
    for event in events:
        now, more = advance(now, event)
        orders += more
    return now, orders


def frames(likely: float, ms: int) -> list[Event]:
    return [FrameHeard(likely)] * (ms // FRAME_MS)


SPEAKING = play([SpeechBegan()])[0]


def held_after(ms: int) -> Taking:
    now, _ = play([*frames(1.0, ms), *frames(0.0, END_HELD_MS)], SPEAKING)
    assert now.floor is Floor.JUDGING
    return now


def judged(now: Taking, verdict: Verdict) -> tuple[Taking, list[Order]]:
    return play([Judged(now.sound, verdict, True)], now)


def test_a_sound_while_we_speak_holds_us_at_its_first_sure_frame() -> None:
    assert play([LOUD], SPEAKING)[1] == [Order.HOLD]


def test_two_likely_frames_are_as_good_as_a_sure_one_and_one_is_not() -> None:
    assert play([FrameHeard(0.6)], SPEAKING)[1] == []
    assert play([FrameHeard(0.6)] * 2, SPEAKING)[1] == [Order.HOLD]


def test_likely_frames_with_a_gap_between_them_hold_nobody() -> None:
    assert play([FrameHeard(0.6), SILENT] * 20, SPEAKING)[1] == []


def test_a_click_is_over_before_anybody_looks_at_it() -> None:
    now, orders = play([*frames(1.0, CLICK_MS), *frames(0.0, END_HELD_MS)], SPEAKING)

    assert (now.floor, orders) == (Floor.SPEAKING, [Order.HOLD, Order.GO_ON])


def test_an_assent_lets_us_go_on() -> None:
    now, orders = judged(held_after(400), Verdict.BACKCHANNEL)

    assert (now.floor, orders) == (Floor.SPEAKING, [Order.GO_ON])


def test_words_cut_us_and_are_taken() -> None:
    now, orders = judged(held_after(400), Verdict.WORDS)

    assert (now.floor, now.held, orders) == (Floor.QUIET, False, [Order.CUT, Order.TAKE])


def test_what_is_unclear_is_asked_about_and_silence_lets_us_go_on() -> None:
    now, orders = judged(held_after(400), Verdict.UNCLEAR)
    assert orders == [Order.ASK]

    now, orders = play([SpeechBegan(), SpeechEnded(), *frames(0.0, PATIENCE_MS + FRAME_MS)], now)

    assert (now.floor, orders) == (Floor.SPEAKING, [Order.GO_ON])


def test_a_remark_is_asked_about_and_silence_lets_us_go_on() -> None:
    now, orders = judged(held_after(400), Verdict.REMARK)
    assert orders == [Order.ASK_IF_MEANT]

    now, orders = play([SpeechBegan(), SpeechEnded(), *frames(0.0, PATIENCE_MS + FRAME_MS)], now)

    assert (now.floor, orders) == (Floor.SPEAKING, [Order.GO_ON])


def test_a_sound_that_lasts_is_looked_at_before_it_ends() -> None:
    now, orders = play(frames(1.0, LASTS_MS), SPEAKING)
    assert orders == [Order.HOLD, Order.JUDGE]

    now, orders = play([Judged(now.sound, Verdict.WORDS, False)], now)

    assert (now.floor, orders) == (Floor.HEARING, [Order.CUT])


def test_assents_that_last_are_not_words_yet() -> None:
    now, _ = play(frames(1.0, LASTS_MS), SPEAKING)

    now, orders = play([Judged(now.sound, Verdict.BACKCHANNEL, False)], now)

    assert (now.floor, orders) == (Floor.HELD, [])


def test_who_speaks_on_while_we_think_about_it_is_not_judged_by_the_half() -> None:
    thinking = held_after(400)

    now, orders = play([LOUD, LOUD, Judged(thinking.sound, Verdict.BACKCHANNEL, True)], thinking)

    assert (now.floor, orders) == (Floor.HELD, [])


@pytest.mark.parametrize("verdict", [Verdict.BACKCHANNEL, Verdict.REMARK])
def test_an_assent_or_a_remark_while_we_are_silent_is_an_answer(verdict: Verdict) -> None:
    now, _ = play([*frames(1.0, 400), *frames(0.0, 640)])

    assert judged(now, verdict)[1] == [Order.TAKE]


def test_who_never_pauses_is_judged_once_and_not_with_every_frame() -> None:
    _, orders = play(frames(1.0, 120_000))

    assert orders.count(Order.JUDGE_WHOLE) == 1


def test_who_speaks_longer_than_is_taken_at_once_is_taken_in_parts() -> None:
    now, orders = play(frames(1.0, LONGEST_MS + 1_600))
    assert (now.floor, orders) == (Floor.JUDGING, [Order.JUDGE_WHOLE])

    now, orders = judged(now, Verdict.WORDS)
    assert (now.floor, now.spoke_ms, orders) == (Floor.HEARING, 1_600, [Order.TAKE])
    now, orders = play(frames(0.0, END_MS), now)
    assert (now.floor, orders) == (Floor.JUDGING, [Order.JUDGE_WHOLE])


def test_what_they_said_after_it_is_judged_too_if_they_have_ended_meanwhile() -> None:
    now, _ = play([*frames(1.0, LONGEST_MS + 640), *frames(0.0, 1_600)])
    now, _ = judged(now, Verdict.WORDS)

    assert play([SILENT], now)[1] == [Order.JUDGE_WHOLE]


def test_pauses_count_among_what_is_taken_at_once() -> None:
    pausing = [*frames(1.0, 640), *frames(0.0, 320)] * (LONGEST_MS // 960)

    assert Order.JUDGE_WHOLE not in play(pausing)[1]
    assert Order.JUDGE_WHOLE in play([*pausing, *frames(1.0, 960)])[1]


def test_we_do_not_begin_while_somebody_speaks() -> None:
    now, _ = play([LOUD, LOUD, SpeechBegan()])

    assert now.floor is Floor.HEARING


def test_a_key_that_is_pressed_holds_us_and_letting_it_go_asks_what_was_said() -> None:
    now, orders = play([Pressed(True), *frames(0.0, 2_000), Pressed(False)], SPEAKING)

    assert (now.floor, orders) == (Floor.JUDGING, [Order.HOLD, Order.JUDGE_WHOLE])


def test_a_key_that_nobody_lets_go_is_let_go_for_them() -> None:
    now, orders = play([Pressed(True), *frames(0.0, 60_000)], SPEAKING)

    assert (now.floor, now.pressed) == (Floor.JUDGING, False)
    assert orders == [Order.HOLD, Order.JUDGE_WHOLE]
    assert play([Pressed(False)], now) == (now, [])


def cut_by_a_long_sound() -> Taking:
    now, orders = play(frames(1.0, TOO_LONG_MS + FRAME_MS), SPEAKING)
    assert Order.CUT in orders
    return play(frames(0.0, END_MS), now)[0]


def test_speech_that_was_cut_goes_on_after_what_was_nothing_or_an_assent() -> None:
    for verdict in (Verdict.NOISE, Verdict.BACKCHANNEL):
        now, orders = judged(cut_by_a_long_sound(), verdict)

        assert (now.floor, orders) == (Floor.SPEAKING, [Order.GO_ON])


def test_speech_that_was_cut_for_what_is_unclear_goes_on_after_the_question_and_silence() -> None:
    now, orders = judged(cut_by_a_long_sound(), Verdict.UNCLEAR)
    assert orders == [Order.ASK]

    now, orders = play([SpeechBegan(), SpeechEnded(), *frames(0.0, PATIENCE_MS + FRAME_MS)], now)

    assert (now.floor, now.cut, orders) == (Floor.SPEAKING, False, [Order.GO_ON])


def test_speech_that_was_cut_for_words_is_theirs_to_bring_back() -> None:
    now, orders = judged(cut_by_a_long_sound(), Verdict.WORDS)

    assert (now.floor, now.cut, orders) == (Floor.QUIET, False, [Order.TAKE])


Told = tuple[Event, Taking, tuple[Order, ...], Taking]
LIKELY = st.sampled_from([0.0, 0.2, 0.4, 0.6, 1.0])
MOVES: st.SearchStrategy[Any] = st.one_of(
    st.tuples(LIKELY, st.integers(1, 40)),  # a stretch of sound
    st.builds(Judged, st.integers(0, 1), st.sampled_from(Verdict), st.booleans()),
    st.sampled_from([SpeechBegan(), SpeechEnded(), Pressed(True), Pressed(False)]),
)


def told(moves: list[tuple[float, int] | Event]) -> list[Told]:
    """What the table said to each; a judgement is about the last sound, or the one before."""
    now, found = Taking(), []
    for move in moves:
        several = [FrameHeard(move[0])] * move[1] if isinstance(move, tuple) else [move]
        for event in several:
            if isinstance(event, Judged):
                event = Judged(now.sound - event.sound, event.verdict, event.whole)
            after, orders = advance(now, event)
            found.append((event, now, orders, after))
            now = after
    return found


histories: st.SearchStrategy[list[Told]] = st.lists(MOVES, max_size=40).map(told)


def test_who_begins_with_our_last_sample_has_the_floor_as_nothing_is_left_to_be_gone_on_with() -> (
    None
):
    now, orders = play([LOUD, SpeechEnded()], SPEAKING)
    assert (now.floor, now.held) == (Floor.HEARING, False)
    assert orders == [Order.HOLD, Order.LET_GO]

    ended, _ = play([*frames(1.0, 300), *frames(0.0, END_MS)], now)
    _, orders = judged(ended, Verdict.BACKCHANNEL)
    assert orders == [Order.TAKE]


@given(histories)
def test_every_hold_is_followed_by_going_on_or_a_cut_before_the_next_speech(
    history: list[Told],
) -> None:
    holding = False
    for _, _, orders, after in history:
        for order in orders:
            if order is Order.HOLD:
                holding = True
            if order in {Order.GO_ON, Order.CUT}:
                holding = False
        assert not (holding and after.floor is Floor.SPEAKING and not after.held)


@given(histories)
def test_words_are_never_passed_over(history: list[Told]) -> None:
    for event, before, orders, _ in history:
        if before.floor is not Floor.JUDGING:
            continue
        match event:
            case Judged(sound, Verdict.WORDS, True) if sound == before.sound:
                assert Order.TAKE in orders
                assert Order.GO_ON not in orders


@given(histories)
def test_assents_and_noises_never_cut(history: list[Told]) -> None:
    for event, _, orders, _ in history:
        if isinstance(event, Judged) and event.verdict in {Verdict.BACKCHANNEL, Verdict.NOISE}:
            assert Order.CUT not in orders


@given(histories, st.sampled_from(Verdict))
def test_the_line_is_never_dead(history: list[Told], verdict: Verdict) -> None:
    """Silence and answers to what is asked always lead back to a floor on which we can speak."""
    now = history[-1][3] if history else Taking()
    now, _ = play([Pressed(False), *frames(0.0, 1_000)], now)
    for _ in range(3):
        now, _ = play([Judged(now.sound, verdict, True), SpeechEnded()], now)
        now, _ = play(frames(0.0, PATIENCE_MS + 1_000), now)

    assert now.floor in {Floor.QUIET, Floor.SPEAKING}
    assert not (now.floor is Floor.QUIET and now.held)


@given(histories, st.sampled_from(Verdict))
def test_speech_that_was_cut_is_gone_on_with_or_its_end_is_who_spoke_instead(
    history: list[Told], verdict: Verdict
) -> None:
    """Whatever happened, it is not left lying where nobody takes it up."""
    now = history[-1][3] if history else Taking()
    left = now.cut
    now, orders = play([Pressed(False), *frames(0.0, 1_000)], now)
    for _ in range(3):
        now, more = play([Judged(now.sound, verdict, True), SpeechEnded()], now)
        now, last = play(frames(0.0, PATIENCE_MS + 1_000), now)
        orders += [*more, *last]

    assert not now.cut
    assert not left or {Order.GO_ON, Order.TAKE} & set(orders)

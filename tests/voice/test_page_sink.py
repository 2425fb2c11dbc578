"""A page's loudspeaker: only it knows what was played, and it may be late to say so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel
import pytest

from midflight.interfaces.voice import voice_wire
from midflight.interfaces.voice.speech.agenda import Question, Utterance
from midflight.interfaces.voice.speech.mouth import Mouth
from midflight.interfaces.voice.voice_wire import PageSink, Silenced, read_text
from voice.studio import WORD, PlainSynthesiser

pytestmark = pytest.mark.anyio
TEXT = "one two three four five six seven eight nine ten eleven twelve"
LONG = " ".join(f"w{number}" for number in range(40))  # one clause of four seconds
LATE_S = 0.05
Stop: TypeAlias = Callable[[Mouth, Utterance], Coroutine[Any, Any, None]]


class Page:
    """A mouth whose sink is a page's, and what the page was sent."""

    def __init__(self) -> None:
        self.sent: list[bytes | dict[str, object]] = []
        self.sink = PageSink(self.sent.append)
        self.voice = PlainSynthesiser()
        self.mouth = Mouth(self.sink, self.voice, lambda *_: None)

    @property
    def cuts(self) -> list[int]:
        told = [sent for sent in self.sent if isinstance(sent, dict)]
        return [int(str(one["number"])) for one in told if one["t"] == "cut"]

    def sent_since_last_cut(self) -> bytes:
        """Sound that it got after it was told to forget all."""
        last = max(
            n for n, sent in enumerate(self.sent) if isinstance(sent, dict) and "number" in sent
        )
        return b"".join(sent for sent in self.sent[last:] if isinstance(sent, bytes))

    async def has_played(self, words: int, text: str) -> Utterance:
        """So many of what a run says now, as the page says itself."""
        said = self.mouth.say(text, run="r-1")
        await self.works()
        await self.plays(words)
        return said

    async def plays(self, words: int) -> None:
        """The page says with a frame that it has played so many in all."""
        self.sink.note(words * WORD)
        await self.works()

    async def works(self) -> None:
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        self.mouth.stir()

    async def answers_in_time(self, words: int, number: int | None = None) -> None:
        """The next cut; an old page gives no number."""
        before = len(self.cuts)
        with anyio.fail_after(10):
            while len(self.cuts) == before:
                await anyio.lowlevel.checkpoint()
        self.sink.silenced(words * WORD, number if number is not None else self.cuts[-1])


@asynccontextmanager
async def page(monkeypatch: pytest.MonkeyPatch, within_s: float = LATE_S) -> AsyncIterator[Page]:
    monkeypatch.setattr(voice_wire, "ANSWER_S", within_s)
    there = Page()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(there.mouth.run)
        yield there
        tasks.cancel_scope.cancel()


async def test_what_a_late_page_had_played_before_the_cut_is_not_taken_for_the_next_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with page(monkeypatch) as there:
        first = await there.has_played(3, TEXT)
        await there.mouth.put_aside()  # the page has not answered
        asked = there.mouth.say("may I delete the backup now please", about=Question("r-1", 5))
        await there.works()
        await there.plays(8)  # of the first: it has not got the cut yet
        there.sink.silenced(9 * WORD, there.cuts[-1])
        await there.works()

        assert (first.heard, asked.heard) == ("one two three", "")
        assert not there.mouth.agenda.asked
        await there.plays(11)
        assert asked.heard == "may I"
        await there.plays(16)
        assert asked.is_heard


@pytest.mark.parametrize("numbers", [(1, 2), (0, 0)], ids=["numbered", "in their order"])
async def test_a_late_answer_to_one_cut_is_none_to_the_next(
    monkeypatch: pytest.MonkeyPatch, numbers: tuple[int, int]
) -> None:
    """A page of before gives no numbers, and answers in the order in which it was told."""
    late, next_one = numbers
    async with page(monkeypatch) as there:
        await there.has_played(3, TEXT)
        await there.mouth.put_aside()
        second = there.mouth.say("alpha beta gamma delta epsilon zeta")
        await there.works()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(there.mouth.put_aside)
            await there.answers_in_time(9, number=late)  # to the first: it had played nine
            await there.works()
            there.sink.silenced(11 * WORD, next_one)

        assert second.heard == "alpha beta"


def test_an_answer_may_come_without_a_number() -> None:
    assert read_text('{"t": "silenced", "played": 7}') == Silenced(7)


async def test_an_answer_that_was_given_already_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with page(monkeypatch) as there:
        said = there.mouth.say(TEXT, run="r-1")
        await there.works()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(there.mouth.put_aside)
            await there.answers_in_time(3)
        await there.mouth.go_on()  # which cuts too, and is not answered
        await there.works()
        there.sink.silenced(6 * WORD, 1)
        there.sink.silenced(6 * WORD, 77)
        await there.works()

        assert said.heard == "one two three"


async def test_a_page_that_has_missed_a_cut_is_followed_again_from_the_next_that_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with page(monkeypatch) as there:
        await there.has_played(3, TEXT)
        await there.mouth.put_aside()
        await there.mouth.put_aside()
        there.sink.silenced(9 * WORD, 2)
        second = there.mouth.say("alpha beta gamma delta epsilon zeta")
        await there.works()
        await there.plays(10)

        assert second.heard == "alpha"


# ── while a page has not said yet how much it had played ─────────────────────────────────────────


async def takes_back(mouth: Mouth, said: Utterance) -> None:
    await mouth.take_back(lambda one: one is said)


async def keeps(mouth: Mouth, said: Utterance) -> None:
    await mouth.keep(said.run)


async def breaks_off(mouth: Mouth, said: Utterance) -> None:
    await mouth.break_off(said, "")


STOPS: dict[str, Stop] = {
    "taken back": takes_back,
    "kept": keeps,
    "broken off": breaks_off,
}


@pytest.mark.parametrize("stop", STOPS.values(), ids=STOPS)
async def test_no_more_is_played_of_what_was_stopped_however_late_the_page_answers(
    monkeypatch: pytest.MonkeyPatch, stop: Stop
) -> None:
    async with page(monkeypatch, within_s=10) as there:
        said = await there.has_played(8, LONG)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop, there.mouth, said)
            await there.works()
            await there.plays(9)  # before it has got the cut: so there would be room for more
            there.sink.silenced(9 * WORD, there.cuts[-1])
        await there.works()
        await there.plays(11)

        assert not there.sent_since_last_cut()
        assert said.heard == "w0 w1 w2 w3 w4 w5 w6 w7 w8"


async def test_two_that_cut_at_once_both_wait_for_the_page_before_anything_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with page(monkeypatch, within_s=10) as there:
        first = await there.has_played(8, LONG)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(takes_back, there.mouth, first)
            await there.works()
            second = there.mouth.say("alpha beta", run="r-2")
            tasks.start_soon(takes_back, there.mouth, second)
            await there.works()
            there.sink.silenced(8 * WORD, 1)
            await there.works()
            assert not there.sent_since_last_cut()
            there.sink.silenced(8 * WORD, 2)
        third = there.mouth.say("gamma delta")
        await there.works()
        await there.plays(10)

        assert (second.heard, third.heard) == ("", "gamma delta")


async def stopped_while_brought_back(there: Page, stop: Stop) -> Utterance:
    """It is put aside after three words, brought back, and stopped before the page has answered."""
    said = await there.has_played(3, TEXT)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(there.mouth.put_aside)
        await there.answers_in_time(3)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(there.mouth.go_on)
        await there.works()
        tasks.start_soon(stop, there.mouth, said)
        await there.works()
        there.sink.silenced(3 * WORD, there.cuts[-1])
    return said


async def test_words_that_are_taken_back_while_they_are_brought_back_are_not_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with page(monkeypatch, within_s=10) as there:
        there.voice.stalls_after = 6  # it is still being made
        said = await stopped_while_brought_back(there, takes_back)
        there.voice.stalls_after = None
        later = there.mouth.say("It was cancelled.")
        await there.works()
        await there.plays(6)

        assert (said.heard, later.heard) == ("one two three", "It was cancelled.")
        assert not there.mouth.is_busy


async def test_words_whose_run_is_held_while_they_are_brought_back_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with page(monkeypatch, within_s=10) as there:
        said = await stopped_while_brought_back(there, keeps)
        later = there.mouth.say("It is paused.")
        await there.works()
        await there.plays(6)

        assert (said.heard, later.heard) == ("one two three", "It is paused.")
        assert there.mouth.agenda.aside == [said]


async def test_what_a_run_says_while_it_is_being_held_waits_for_it_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with page(monkeypatch, within_s=10) as there:
        said = await there.has_played(3, TEXT)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keeps, there.mouth, said)
            await there.works()
            more = there.mouth.say("and more", run="r-1")
            there.sink.silenced(3 * WORD, there.cuts[-1])
        await there.works()
        await there.plays(8)

        assert (said.heard, more.heard) == ("one two three", "")
        assert there.mouth.agenda.aside == [said, more]


async def test_a_page_that_is_gone_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async with page(monkeypatch, within_s=60) as there:
        said = await there.has_played(3, TEXT)
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(there.mouth.put_aside)
                await there.works()
                there.sink.gone()
            await there.mouth.go_on()  # which cuts once more

        assert (said.heard, len(there.cuts)) == ("one two three", 1)

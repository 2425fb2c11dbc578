"""Several lines to one thread: of two people, or of one who has two."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from midflight.agents import Agent
from midflight.control import Control, local
from midflight.journal.phases import Role
from midflight.journal.record import Actor
from voice.studio import ANN, WORD, Scene, line_of, told
from voice.talkers import ANSWER, TEXT, speaker, thinker

pytestmark = pytest.mark.anyio
CARL = Actor("carl", channel="voice")
EVE = Actor("eve", Role.VIEWER)  # whose questions aside are answered with how it stands
Calling = Callable[[Actor], AbstractAsyncContextManager[Scene]]


@asynccontextmanager
async def exchange(clerk: Agent, folder: Path) -> AsyncIterator[tuple[Control, Calling]]:
    async with local("memory:", clerk, workdir=folder, drain_s=0.2) as control:
        yield control, lambda who: line_of(control, clerk, who)


async def comes(control: Control, expected: list[tuple[str, str]]) -> None:
    with anyio.fail_after(5):
        while await told(control) != expected:  # noqa: ASYNC110 - the record is all there is
            await anyio.sleep(0.01)


async def test_what_one_has_heard_to_its_end_is_not_cut_short_by_another_who_hangs_up(
    tmp_path: Path,
) -> None:
    clerk, model = speaker(TEXT, "thirteen")
    async with exchange(clerk, tmp_path) as (control, call), call(CARL) as carl:
        async with call(ANN) as ann:
            await ann.say("Count please")
            await ann.hears(4)
            await carl.hears(12)
            await carl.rests()
        await carl.room.wait(1)
        await comes(control, [(TEXT, "")])

        await carl.say("And what now")
        await carl.rests()
        said = [turn.text for turn in model.prompts[-1].turns if turn.role == "assistant"]
        assert said == [TEXT]


async def test_who_still_listens_when_another_hangs_up_is_believed_in_the_end(
    tmp_path: Path,
) -> None:
    clerk, _ = speaker(TEXT)
    async with exchange(clerk, tmp_path) as (control, call):
        async with call(CARL) as carl:
            async with call(ANN) as ann:
                await ann.say("Count please")
                await ann.hears(4)
                await carl.hears(2)
            await comes(control, [("one two three four", "cut short")])
            await carl.hears(8)
        await comes(control, [("one two three four five six seven eight", "cut short")])


async def test_the_furthest_counts_also_where_it_is_told_first(tmp_path: Path) -> None:
    clerk, _ = speaker(TEXT)
    async with exchange(clerk, tmp_path) as (control, call):
        async with call(CARL) as carl, call(ANN) as ann:
            await ann.say("Count please")
            await ann.hears(6)
            await carl.hears(2)
        await comes(control, [("one two three four five six", "cut short")])


async def test_an_answer_that_one_has_left_is_heard_if_another_has_heard_it_to_its_end(
    tmp_path: Path,
) -> None:
    ends = anyio.Event()
    clerk, _ = thinker(ends)
    async with exchange(clerk, tmp_path) as (control, call), call(CARL) as carl:
        async with call(ANN) as ann:
            await ann.say("Count please")
            await ann.hears(4)
        ends.set()
        await control.ended((await control.runs())[0].journal)
        await carl.hears(14)
        await carl.rests()
        await comes(control, [("one two three four", "cut short"), (ANSWER, "")])


async def test_who_calls_again_and_hears_the_answer_to_its_end_has_heard_it(
    tmp_path: Path,
) -> None:
    ends = anyio.Event()
    clerk, _ = thinker(ends)
    async with exchange(clerk, tmp_path) as (control, call):
        async with call(ANN) as ann:
            await ann.say("Count please")
            await ann.hears(4)
        async with call(ANN) as ann:
            ends.set()
            await ann.hears(14)
            await ann.rests()
        assert ann.room.sink.played == 14 * WORD
        await comes(control, [("one two three four", "cut short"), (ANSWER, "")])


async def test_a_question_aside_in_the_midst_of_an_answer_is_not_taken_for_its_end(
    tmp_path: Path,
) -> None:
    ends = anyio.Event()
    clerk, _ = thinker(ends)
    async with exchange(clerk, tmp_path) as (control, call), call(CARL) as carl:
        async with call(ANN) as ann:
            await ann.say("Count please")
            await ann.hears(4)
        run = (await control.runs())[0].journal
        aside = await control.ask_aside(run, "How far are you?", who=EVE)
        await carl.room.wait(1)
        ends.set()
        await control.ended(run)
        await carl.rests()

        assert carl.spoken() == f"{ANSWER} {aside.status}"
        await comes(control, [("one two three four", "cut short"), (ANSWER, "")])


# ── two lines of one person ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pauses", [False, True])
@pytest.mark.parametrize("other", [ANN, CARL], ids=["their other one", "somebody else's"])
async def test_a_redirect_on_one_line_ends_on_the_other_what_it_ends_and_the_next_is_spoken(
    tmp_path: Path, other: Actor, pauses: bool
) -> None:
    clerk, _ = thinker(anyio.Event(), "thirteen")
    async with exchange(clerk, tmp_path) as (_, call), call(ANN) as one, call(other) as two:
        await one.say("Count please")
        await one.hears(4)
        await two.hears(4)
        if pauses:
            await one.say("Wait")
            await two.room.wait(1)
        await one.say("No, only the second half")
        await one.rests()
        assert await two.room.until(lambda: two.spoken().endswith("thirteen"))
        await two.rests()

        assert two.room.sink.played < 6 * WORD
        assert one.spoken().endswith("thirteen")


async def test_a_cancel_on_one_line_is_told_on_the_other(tmp_path: Path) -> None:
    clerk, _ = thinker(anyio.Event())
    async with exchange(clerk, tmp_path) as (control, call), call(ANN) as one, call(ANN) as two:
        await one.say("Count please")
        await one.hears(4)
        await one.say("Stop")
        await one.room.wait(3)
        await one.say("Yes")
        await control.ended((await control.runs())[0].journal)
        assert await two.room.until(lambda: two.spoken().endswith("It was cancelled."))
        await one.rests()
        assert "It was cancelled." not in one.spoken()

"""A run that is begun elsewhere, or driven there: what its model says is spoken as it comes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import anyio
import pytest

from midflight.assistant import Profile, assistant
from midflight.control import Control, local
from midflight.journal.events import TextStreamed
from midflight.journal.record import Recorded
from midflight.models.scripted import ScriptedModel, say
from midflight.stores.hints import Delta
from midflight.stores.protocol import LiveWatch, Query
from voice.studio import ANN, THREAD, WORD, line_of
from voice.talkers import TEXT

pytestmark = pytest.mark.anyio
ANSWER = f"{TEXT}. And then there is no more."
LONG = " ".join(f"{number}: {TEXT}." for number in range(1, 6)) + " And then there is no more."


async def kept(control: Control, run: str) -> None:
    """Until something of what its model says is on record."""
    with anyio.fail_after(10):
        async with control.store.watch({run: 0}) as news:
            async for record in news:
                if isinstance(record.event, TextStreamed):
                    return


@pytest.mark.parametrize("late", [False, True], ids=["from its beginning", "in the midst of it"])
async def test_an_answer_is_spoken_once_while_its_model_gives_it_in_another_process(
    tmp_path: Path, late: bool
) -> None:
    ends = anyio.Event()
    model = ScriptedModel([say(ANSWER, pieces=9, until=ends)])
    clerk = assistant("clerk", Profile(model, actions=()), delegates=False)
    store = f"sqlite:{tmp_path}/runs.db"  # of which each has a connection, and nothing in common
    async with (
        local(store, clerk, workdir=tmp_path, drain_s=0.2) as there,
        local(store, workdir=tmp_path, drain_s=0.2) as here,
    ):
        if late:
            turn = await there.converse(clerk, THREAD, [("k", "Count please")], key="k", who=ANN)
            await kept(there, turn.run)
        async with line_of(here, clerk, ANN) as phone:
            if not late:
                await there.converse(clerk, THREAD, [("k", "Count please")], key="k", who=ANN)
                with anyio.fail_after(10):  # it is kept every two seconds
                    while phone.room.sink.played < 4 * WORD:
                        await phone.passes(0.1)
                        await anyio.sleep(0.05)
            assert not model.asked[0].ended  # and goes on
            ends.set()
            with anyio.fail_after(10):
                while "no more." not in phone.spoken():
                    await phone.passes(0.1)
                    await anyio.sleep(0.05)
            await phone.rests()

        assert phone.spoken() == ANSWER
        assert phone.room.sink.played == len(ANSWER.split()) * WORD
        lines = await here.transcript(THREAD)
        said = [(line.text, line.status) for line in lines if line.kind == "said: text"]
        assert said == [(ANSWER, "")]


def letters(text: str) -> str:
    """Of a text that is spoken as it comes: where it was parted is chance."""
    return "".join(text.split())


class LateEcho:
    """What steps say comes only after the record of it, as over a slow way from their process."""

    def __init__(self, news: LiveWatch) -> None:
        self._news, self.add = news, news.add

    async def __aiter__(self) -> AsyncIterator[Recorded | Delta]:
        late: list[Delta] = []
        async for item in self._news:
            if isinstance(item, Delta):
                late.append(item)
                continue
            yield item
            if isinstance(item.event, TextStreamed):
                for delta in late:
                    yield delta
                late.clear()


@pytest.mark.postgres
@pytest.mark.parametrize("first", ["the echo", "the record"])
async def test_an_answer_that_is_both_echoed_and_kept_is_spoken_once_whichever_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_address: str, first: str
) -> None:
    model = ScriptedModel([say(LONG, piece=5, pause=0.06)])  # for longer than nothing is kept
    clerk = assistant("clerk", Profile(model, actions=()), delegates=False)
    store = f"{postgres_address}&schema=test_{uuid4().hex}"
    async with (
        local(store, clerk, workdir=tmp_path, drain_s=0.2) as there,
        local(store, workdir=tmp_path, drain_s=0.2) as here,
    ):
        watch = here.watch_live

        @asynccontextmanager
        async def watched_late(cursors: dict[str, int]) -> AsyncIterator[LateEcho]:
            async with watch(cursors) as news:
                yield LateEcho(news)

        if first == "the record":
            monkeypatch.setattr(here, "watch_live", watched_late)
        async with line_of(here, clerk, ANN) as phone:
            turn = await there.converse(clerk, THREAD, [("k", "Count please")], key="k", who=ANN)
            with anyio.fail_after(30):
                while not letters(phone.spoken()).endswith("nomore."):
                    await phone.passes(0.1)
                    await anyio.sleep(0.02)
            await phone.rests()

        kept = [
            record.event
            for record in await here.store.read(turn.run)
            if isinstance(record.event, TextStreamed)
        ]
        assert len(kept) > 1
        assert letters(phone.spoken()) == letters(LONG)


async def test_a_run_that_begins_while_the_line_is_opened_is_spoken_as_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedModel([say(ANSWER, pieces=9, until=anyio.Event())])
    clerk = assistant("clerk", Profile(model, actions=()), delegates=False)
    async with local("memory:", clerk, workdir=tmp_path, drain_s=0.2) as control:
        look = control.runs

        async def begun_meanwhile(query: Query) -> object:
            monkeypatch.setattr(control, "runs", look)
            run = await control.start(clerk, "Count please", thread=THREAD, who=ANN)
            await control.until(run, lambda state: bool(state.open))
            return await look(query)

        monkeypatch.setattr(control, "runs", begun_meanwhile)
        async with line_of(control, clerk, ANN) as phone:
            await phone.hears(4)

"""What steps say is heard by who watches through another process, and only then passed on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import anyio
import asyncpg
import pytest
from msgspec import Raw

from midflight.stores.hints import Began, Delta, LiveCall, Voice
from midflight.stores.postgres import PostgresStore, echo, postgres_news
from midflight.stores.protocol import LiveWatch
from stores.runs import RUN, running

pytestmark = [pytest.mark.postgres, pytest.mark.anyio]

SOON_S = 20.0
ONCE = pytest.mark.usefixtures("once")


@pytest.fixture
def schema() -> str:
    return f"test_{uuid4().hex}"


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not heard at once is not said again by itself, nor forgotten."""
    monkeypatch.setattr(postgres_news, "POLL_S", 1000.0)
    monkeypatch.setattr(echo, "AGAIN_S", 1000.0)
    monkeypatch.setattr(echo, "FORGET_S", 1000.0)


@pytest.fixture
async def here(postgres_address: str, schema: str) -> AsyncIterator[PostgresStore]:
    """Where the run is driven."""
    async with PostgresStore.open(postgres_address, schema=schema) as store:
        await running(store)
        yield store


@pytest.fixture
async def there(
    here: PostgresStore, postgres_address: str, schema: str
) -> AsyncIterator[PostgresStore]:
    """Where somebody watches."""
    async with PostgresStore.open(postgres_address, schema=schema) as store:
        yield store


@asynccontextmanager
async def wiretap(address: str, schema: str) -> AsyncIterator[list[str]]:
    """Everything that is said between the processes."""
    connection: Any = await asyncpg.connect(address)
    heard: list[str] = []
    await connection.add_listener(
        f"midflight_{schema}_says", lambda *message: heard.append(message[3])
    )
    try:
        yield heard
    finally:
        await connection.close()


async def read(watch: LiveWatch, until: Callable[[str], bool], text: str = "") -> str:
    """The text so far, once it is as expected."""
    with anyio.fail_after(SOON_S):
        async for item in watch:
            if isinstance(item, Delta):
                assert item.offset <= len(text)
                text = text[: item.offset] + item.text
                if until(text):
                    return text
    raise AssertionError


def speaker(store: PostgresStore, attempt: int = 4) -> Voice:
    return store.voices.begin(RUN, "tell", attempt)


@ONCE
async def test_a_word_is_heard_elsewhere_at_once(here: PostgresStore, there: PostgresStore) -> None:
    async with there.watch_live({RUN: 3}) as watch:
        await anyio.sleep(0.1)
        voice = speaker(here)
        for word in ("one ", "two ", "three"):
            voice.say(word)
            await anyio.sleep(0.05)
        with anyio.fail_after(SOON_S):
            assert await read(watch, lambda text: text.endswith("three")) == "one two three"


@ONCE
async def test_who_comes_late_gets_what_was_said_so_far(
    here: PostgresStore, there: PostgresStore
) -> None:
    voice = speaker(here)
    voice.say("long ago, ")
    async with there.watch_live({RUN: 3}) as watch:
        with anyio.fail_after(SOON_S):
            assert await read(watch, lambda text: bool(text)) == "long ago, "
        voice.say("and now")
        told = await read(watch, lambda text: "now" in text, "long ago, ")

        assert told == "long ago, and now"


async def test_a_read_that_begins_is_told_elsewhere_with_what_it_was_called_with(
    here: PostgresStore, there: PostgresStore
) -> None:
    call = LiveCall("Look", "shop.find", Raw(b'{"args":["tea"],"kwargs":{}}'))
    async with there.watch_live({RUN: 3}) as watch:
        watch.hear_calls()
        await anyio.sleep(0.1)
        here.voices.begin(RUN, "look", 0, call)
        with anyio.fail_after(SOON_S):
            async for item in watch:
                if isinstance(item, Began):
                    break

    assert (item.step, item.call.tool, bytes(item.call.input)) == (
        "look",
        "shop.find",
        bytes(call.input),
    )


async def test_a_long_text_of_any_letters_comes_whole(
    here: PostgresStore, there: PostgresStore
) -> None:
    said = '\x01"ü🙂\\' * 5000
    async with there.watch_live({RUN: 3}) as watch:
        await anyio.sleep(0.1)
        speaker(here).say(said)

        assert await read(watch, lambda text: len(text) == len(said)) == said


async def test_half_a_sign_and_a_name_without_end_stop_nobody(
    here: PostgresStore, there: PostgresStore
) -> None:
    async with there.watch_live({RUN: 3}) as watch:
        await anyio.sleep(0.1)
        here.voices.begin(RUN, "x" * 9000, 4).say("too long a name")
        speaker(here).say("half a \ud83d sign")

        assert (
            await read(watch, lambda text: "sign" in text)
            == "half a \N{REPLACEMENT CHARACTER} sign"
        )


async def test_nothing_is_passed_on_while_nobody_listens_elsewhere(
    here: PostgresStore, postgres_address: str, schema: str
) -> None:
    async with wiretap(postgres_address, schema) as heard, here.watch_live({RUN: 3}):
        await anyio.sleep(0.1)
        speaker(here).say("only for those who are here")
        await anyio.sleep(0.3)

        assert not [letter for letter in heard if "only" in letter]


async def test_nothing_more_is_passed_on_when_nobody_listens_any_more(
    here: PostgresStore,
    there: PostgresStore,
    postgres_address: str,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(echo, "FORGET_S", 0.5)
    monkeypatch.setattr(echo, "AGAIN_S", 0.1)
    voice = speaker(here)
    async with wiretap(postgres_address, schema) as heard:
        async with there.watch_live({RUN: 3}) as watch:
            voice.say("heard")
            assert await read(watch, lambda text: "heard" in text)
        await anyio.sleep(2.0)
        voice.say("unheard-of")
        await anyio.sleep(0.3)

        assert not [letter for letter in heard if "unheard" in letter]


async def test_a_lost_piece_is_asked_for_again(
    here: PostgresStore, there: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with there.watch_live({RUN: 3}) as watch:
        await anyio.sleep(0.1)
        voice = speaker(here)
        voice.say("one ")
        await anyio.sleep(0.1)
        echo: Any = there._appender._hub.overheard
        with monkeypatch.context() as deaf:
            deaf.setattr(echo, "_listen", lambda words: None)
            voice.say("two ")
            await anyio.sleep(0.1)
        voice.say("three")

        assert await read(watch, lambda text: text.endswith("three")) == "one two three"


@ONCE
async def test_a_voice_that_has_ended_is_not_told_to_newcomers(
    here: PostgresStore, there: PostgresStore
) -> None:
    async with there.watch_live({RUN: 3}) as watch:
        await anyio.sleep(0.1)
        voice = speaker(here)
        voice.say("over")
        await read(watch, lambda text: text == "over")
        assert there.voices.of(RUN)
        here.voices.end(voice)
        with anyio.fail_after(SOON_S):
            while there.voices.of(RUN):  # noqa: ASYNC110 - nobody is told of it
                await anyio.sleep(0.01)

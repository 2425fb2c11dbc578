"""Texts for people and values: what is mended, what is refused, and what is whose."""

from __future__ import annotations

import asyncio
import math
import signal
from collections.abc import Callable
from typing import Any

import anyio
import msgspec
import pytest

from midflight.plain import NotPlain, check
from midflight.runtime import foreign, values
from scenarios import odd

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("fine", "fine"),
        ("naïve ☕", "naïve ☕"),
        (odd.HALF, "caf�"),
        ("a\0b", "a␀b"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("x" * 20_010, "x" * 20_000 + " … (10 characters more)"),
        (5, "5"),
        (odd.TextOfItsOwn("own"), "own"),
        (odd.Broken(), "(its text cannot be shown)"),
    ],
    ids=lambda one: repr(type(one).__name__),
)
def test_a_text_for_people_is_made_storable_and_shows_what_was_changed(
    said: Any, stored: str
) -> None:
    assert foreign.text(said) == stored
    msgspec.json.encode(foreign.text(said))


@pytest.mark.parametrize("what", odd.RAISED)
def test_every_error_has_words_that_can_be_stored(what: str) -> None:
    words = foreign.words(odd.RAISED[what]())
    assert 0 < len(words) < 21_000
    assert msgspec.json.decode(msgspec.json.encode(words)) == words


@pytest.mark.parametrize("what", odd.RETURNED)
def test_a_value_that_json_does_not_give_back_is_refused_with_its_place(what: str) -> None:
    raw, error = values.storable("step", odd.RETURNED[what]())
    assert bytes(raw) == b"null"
    assert error.startswith("its result cannot be stored: ")
    msgspec.json.encode(error)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"a": [1, math.nan]}, "the value['a'][1] is NaN, which JSON cannot hold"),
        ({"a": {5: "tea"}}, "the value['a'] has the key 5 (int): keys must be text"),
        ([odd.HALF], "the value[0] holds half of a character"),
        (odd.circle(), "the value[1]['again'] contains itself"),
        (odd.nested(600), "the value is nested more than 200 levels deep"),
        ([None, object()], "the value[1] is of type object, which is not plain data"),
    ],
    ids=["NaN", "key", "half", "circle", "deep", "object"],
)
def test_what_is_wrong_with_a_value_is_said_in_words(value: Any, why: str) -> None:
    with pytest.raises(NotPlain) as refused:
        check(value, "the value")
    assert str(refused.value).startswith(why)


# ── whose it is ──────────────────────────────────────────────────────────────────────────────


async def caught(raising: Callable[[], None]) -> bool:
    """Whether what comes out of a call ends us, asked as a step asks."""
    try:
        raising()
    except BaseException as error:  # noqa: BLE001 - that is the question
        return foreign.ends_us(error, asyncio.current_task())
    raise AssertionError("nothing was raised")


def raise_it(kind: type[BaseException]) -> Callable[[], None]:
    def raising() -> None:
        raise kind

    return raising


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit, ValueError])
async def test_what_a_line_of_a_tool_raises_is_its_own(kind: type[BaseException]) -> None:
    assert not await caught(raise_it(kind))


async def test_what_a_signal_brings_ends_the_process() -> None:
    def wait() -> None:
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert await caught(wait)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
async def test_what_a_handler_of_a_signal_raises_ends_the_process(
    kind: type[BaseException],
) -> None:
    def handler(*_: object) -> None:
        raise kind

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        assert await caught(lambda: signal.raise_signal(signal.SIGUSR1))
    finally:
        signal.signal(signal.SIGUSR1, before)


async def test_a_coroutine_that_is_closed_is_closed() -> None:
    """The collector closes it outside of its task: then the GeneratorExit is nobody's failure."""
    ours: list[asyncio.Task[Any] | None] = []

    async def note() -> None:
        ours.append(asyncio.current_task())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(note)
    assert foreign.ends_us(GeneratorExit(), ours[0])


@pytest.mark.parametrize(
    ("wanted", "waits"),
    [
        (5, 5.0),
        (3_600, 3_600.0),
        (1_795_000_000, 3_600.0),
        (1e300, 3_600.0),
        (10**400, 0.0),
        (math.inf, 0.0),
        (math.nan, 0.0),
        (-1, 0.0),
        ("soon", 0.0),
    ],
)
def test_nobody_waits_for_more_than_an_hour_because_an_error_says_so(
    wanted: object, waits: float
) -> None:
    error = ValueError()
    error.retry_after = wanted  # type: ignore[attr-defined]
    assert foreign.retry_after(error) == waits

"""Leaving a stream closes its connection: generation stops at the provider, and is not paid for."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from midflight.models.model import Reply, TextDelta, complete
from models.conftest import ASKING, Opened
from models.standin import StandIn, says

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SLOW = {"between_s": 0.02}


async def test_leaving_the_block_closes_the_connection(standin: StandIn, opened: Opened) -> None:
    standin.script(says(*["word "] * 200, **SLOW))

    async with opened().stream(ASKING) as pieces:
        first = await anext(aiter(pieces))

    assert first == TextDelta("word ")
    await standin.requests[0].closed()


@pytest.mark.parametrize("when", ["before the headers", "before the first token", "in the middle"])
async def test_cancelling_the_task_closes_the_connection(
    standin: StandIn, opened: Opened, when: str
) -> None:
    delay = {"before the headers": "headers_after_s", "before the first token": "first_after_s"}
    standin.script(says(*["word "] * 200, **SLOW, **({delay[when]: 9} if when in delay else {})))
    told = anyio.Event()

    async with anyio.create_task_group() as group:
        group.start_soon(complete, opened(), ASKING, lambda _: told.set())
        request = await standin.asked()
        if when not in delay:
            await told.wait()
        group.cancel_scope.cancel()

    await request.closed()


async def test_one_edge_cancel_of_the_task_is_enough(standin: StandIn, opened: Opened) -> None:
    standin.script(says(*["word "] * 200, **SLOW))
    told = asyncio.Event()
    task = asyncio.get_running_loop().create_task(complete(opened(), ASKING, lambda _: told.set()))
    with anyio.fail_after(10):
        await told.wait()

    task.cancel()
    with anyio.fail_after(10), pytest.raises(asyncio.CancelledError):
        await task

    await standin.requests[0].closed()


@pytest.mark.slow
async def test_an_aborted_call_is_seen_closed_within_50_ms(
    standin: StandIn, opened: Opened
) -> None:
    loop, model, took = asyncio.get_running_loop(), opened(), list[float]()
    standin.answer_by(lambda _: says(*["word "] * 500, **SLOW))

    for number in range(100):
        async with model.stream(ASKING) as pieces:
            await anext(aiter(pieces))
            left = loop.time()
        took.append(await standin.requests[number].closed() - left)

    # the slowest are measured by `make bench-assistant`: here other programs may have the cores
    assert sorted(took)[50] < 0.05, f"slowest: {sorted(took)[-3:]}"


async def test_an_error_of_the_reader_is_its_own(standin: StandIn, opened: Opened) -> None:
    standin.script(says(*["word "] * 200, **SLOW))

    with pytest.raises(ZeroDivisionError):
        async with opened().stream(ASKING) as pieces:
            async for _ in pieces:
                raise ZeroDivisionError

    await standin.requests[0].closed()


async def test_a_model_goes_on_after_an_abort(standin: StandIn, opened: Opened) -> None:
    standin.script(says(*["word "] * 200, **SLOW), says("Hello"))
    model = opened()

    async with model.stream(ASKING) as pieces:
        await anext(aiter(pieces))
    reply = await complete(model, ASKING)

    assert isinstance(reply, Reply)
    assert reply.text == "Hello"


async def test_no_connection_outlives_its_call(standin: StandIn, opened: Opened) -> None:
    standin.script(says("Hello"), says("Hello"))
    model = opened()

    for number in range(2):
        await complete(model, ASKING)
        request = standin.requests[number]
        with anyio.fail_after(10):
            await request.left()

        assert request.finished
        assert request.headers["connection"] == "close"

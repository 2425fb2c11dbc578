"""Who appends to a journal does it one at a time, in the order of coming."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import anyio
import pytest

from midflight.runtime.unwritten import Turn

pytestmark = pytest.mark.anyio


async def test_each_has_its_turn_in_the_order_of_coming() -> None:
    turn, order = Turn(), list[int]()

    async def take(number: int) -> None:
        async with turn:
            order.append(number)
            await anyio.lowlevel.checkpoint()
            assert order[-1] == number, "another was let in meanwhile"

    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(take, number)

    assert order == [0, 1, 2, 3, 4]
    assert not turn.taken


@pytest.mark.parametrize("already_his", [False, True], ids=["in the queue", "just as it is his"])
async def test_who_gives_up_waiting_keeps_nobody_out(already_his: bool) -> None:
    turn, done = Turn(), list[str]()
    waiting: list[asyncio.Task[object] | None] = []

    async def impatient() -> None:
        waiting.append(asyncio.current_task())
        with suppress(asyncio.CancelledError):
            async with turn:
                done.append("impatient")

    async def patient() -> None:
        async with turn:
            done.append("patient")

    def give_up() -> None:
        (task,) = waiting
        assert task is not None
        task.cancel()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            async with turn:
                tasks.start_soon(impatient)
                tasks.start_soon(patient)
                await anyio.wait_all_tasks_blocked()
                if not already_his:
                    give_up()
                    await anyio.wait_all_tasks_blocked()
            if already_his:
                give_up()

    assert done == ["patient"]
    assert not turn.taken


async def test_a_turn_that_ends_badly_ends() -> None:
    turn = Turn()
    with pytest.raises(RuntimeError):
        async with turn:
            raise RuntimeError("the store is broken")

    assert not turn.taken

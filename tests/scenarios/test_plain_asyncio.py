"""In a program that anyio does not run: where sniffio is installed, anyio knows the loop of a task.

What begins a task from a callback of the loop (a timer, another process's nudge, a thread's word)
must not depend on that. Other stories are run by anyio's own plugin and would not notice.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest
import sniffio

from midflight.agents import Agent, agent
from midflight.control import Control, local
from midflight.journal.phases import Phase
from midflight.run import Run
from midflight.stores.sqlite import SqliteStore
from midflight.tools.declaration import tool
from midflight.tools.progress import emit

Story = Callable[[Control, Path], Awaitable[None]]


@tool(effect="read", stall=0.05)
async def hang() -> None:
    await anyio.sleep_forever()


@tool(effect="read", runs="thread")
def speak() -> None:
    emit("half of a sentence")


@agent(evict=False)
async def hanging(run: Run) -> None:
    await run.step("Hang", hang)


@agent()
async def parent(run: Run) -> str:
    child = await run.spawn(speaking, "speak")
    await child.result()
    return "both"


@agent()
async def speaking(run: Run) -> None:
    await run.step("Speak", speak)


async def is_shown_as_stalled(control: Control, _path: Path) -> None:
    run = await control.start(hanging, "work")
    await control.until(run, lambda state: len(state.notices) == 1)


async def hears_another_store_on_its_file(control: Control, path: Path) -> None:
    run = await control.start(hanging, "work")
    await control.until(run, lambda state: state.phase is Phase.RUNNING)
    async with SqliteStore.open(path) as other:
        await Control(other).cancel(run)
    assert (await control.ended(run)).phase is Phase.CANCELLED


async def hears_the_end_of_its_child(control: Control, _path: Path) -> None:
    run = await control.start(parent, "work")
    assert await control.result(run) == "both"


@pytest.mark.parametrize(
    "story", [is_shown_as_stalled, hears_another_store_on_its_file, hears_the_end_of_its_child]
)
def test_a_run_in_a_plain_asyncio_program(story: Story, tmp_path: Path) -> None:
    troubles: list[object] = []
    agents: tuple[Agent, ...] = (hanging, parent, speaking)

    async def program() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, about: troubles.append(about))
        path = tmp_path / "journals.db"
        with anyio.fail_after(10):
            async with local(path, *agents, workdir=tmp_path / "work") as control:
                await story(control, path)

    assert sniffio.current_async_library_cvar.get() is None, "or nothing would be shown by this"
    contextvars.Context().run(asyncio.run, program())

    assert troubles == []

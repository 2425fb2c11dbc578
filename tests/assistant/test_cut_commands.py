"""A command that a person cuts: the model is told so in plain words, and sees no raw internals."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from assistant.conftest import Open
from midflight.assistant import Profile, assistant
from midflight.control import Control
from midflight.models.model import Prompt
from midflight.models.scripted import ScriptedModel, call, say
from midflight.tools.shell import shell_tool

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60), pytest.mark.slow]
COMMAND = "echo begun; echo 1 > part; sleep 60; echo done"
INTERNALS = ("input_tokens", "call-0", "verdict", "exit_code", "aborted:", "usd")


async def cut(
    driving: Open, folder: Path, name: str, how: Callable[[Control, str], Awaitable[None]]
) -> Prompt:
    """What the model is asked after a command was cut."""
    model = ScriptedModel([call(name, command=COMMAND), say("I see.")], name=f"{name}-model")
    shell = shell_tool(folder, name=name, approval=False, untrusted=False)
    works = assistant(name, Profile(model, [shell]))
    async with driving(works) as control:
        run = await control.start(works, "Build it")
        with anyio.fail_after(30):
            while not (folder / "part").exists():  # noqa: ASYNC110 - another process writes it
                await anyio.sleep(0.02)
        await how(control, run)
        with anyio.fail_after(30):
            while len(model.prompts) < 2:  # noqa: ASYNC110
                await anyio.sleep(0.02)
        await control.ended(run)
        return model.prompts[1]


async def stopped(control: Control, run: str) -> None:
    await control.pause(run)
    (attempt,) = (await control.state(run)).open
    await control.stop_effect(run, attempt)
    await control.until(run, lambda state: state.phase == "paused")


async def test_a_command_that_was_stopped_for_a_redirect(driving: Open, tmp_path: Path) -> None:
    async def how(control: Control, run: str) -> None:
        await stopped(control, run)
        await control.redirect(run, "Look elsewhere", resume=True)

    prompt = await cut(driving, tmp_path, "cut_redirect", how)

    (result,) = [turn.text for turn in prompt.turns if turn.role == "tool"]
    assert re.fullmatch(
        r"A person has stopped it after \d+\.\d s, before it was done\. It may have partly "
        r"happened\. Its output until then:\nbegun",
        result,
    )


async def test_a_command_that_was_stopped_and_given_up(driving: Open, tmp_path: Path) -> None:
    async def how(control: Control, run: str) -> None:
        await stopped(control, run)
        await control.resume(run)
        state = await control.until(run, lambda state: bool(state.questions))
        await control.answer(run, next(iter(state.questions)), "fail")

    prompt = await cut(driving, tmp_path, "cut_given_up", how)

    (result,) = [turn.text for turn in prompt.turns if turn.role == "tool"]
    assert "A person has stopped it after " in result
    assert result.endswith("It may have partly happened. Its output until then:\nbegun")


async def test_a_command_of_a_run_that_was_cancelled(driving: Open, tmp_path: Path) -> None:
    async def how(control: Control, run: str) -> None:
        await control.cancel(run)
        await control.ended(run)
        await control.send((await control.state(run)).thread, "what happened?")

    prompt = await cut(driving, tmp_path, "cut_cancel", how)

    (told,) = [turn.text for turn in prompt.turns if turn.role == "assistant"]
    assert not [word for word in INTERNALS if word in told], told
    assert "A person has cancelled the run and so stopped it after " in told
    assert "It may have partly happened. Its output until then:\nbegun" in told
    assert COMMAND in told

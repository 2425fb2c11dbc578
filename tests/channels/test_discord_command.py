"""``midflight discord`` as people start it: a real process, killed and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import Process

from channels.conftest import ANN
from channels.stand_in import TOKEN, Person, StandIn
from midflight.cli.main import main
from scenarios.stories import environment

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(90)]


@asynccontextmanager
async def bot(discord: StandIn, folder: Path, token: str = TOKEN) -> AsyncIterator[Process]:
    """A bot in a process of its own, which is gone when the block ends."""
    addresses = {
        "DISCORD_REST": f"{discord.address}/api/v10",
        "DISCORD_GATEWAY": discord.gateway.address,
        "DISCORD_TOKEN": token,
    }
    command = [sys.executable, "-m", "channels.launch_bot", "discord", "channels.mortal_bot:works"]
    with (folder / "log").open("ab") as log:
        process = await anyio.open_process(
            [*command, "--allow", f"{ANN.id}=ann:controller"],
            cwd=folder,
            env=environment() | addresses,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        with anyio.fail_after(20):
            await process.wait()


async def test_killed_in_the_middle_it_goes_on_where_it_was(
    discord: StandIn, ann: Person, tmp_path: Path
) -> None:
    chat = ann.dm()
    async with bot(discord, tmp_path):
        await discord.until(lambda: discord.gateway.identified, 30.0)
        await ann.says(chat, "look")
        await discord.until(lambda: (tmp_path / "begun").exists())
        status = await discord.until_shown(chat, "**Running** look")
    await discord.gateway.drop()
    missed = await ann.says(chat, "are you there?")
    (tmp_path / "go").touch()
    async with bot(discord, tmp_path) as second:
        await discord.until(lambda: "✔ **Done** look" in status.content, 30.0)
        await discord.until_shown(chat, f"✔ **Done** {missed.content}", 30.0)
        second.send_signal(signal.SIGTERM)
        with anyio.fail_after(20):
            assert await second.wait() == 0

    assert discord.text(chat).count("**Running**") == 0
    assert discord.text(chat).count("I have seen it.") == 2  # once for each that was asked


async def test_what_is_wrong_is_said_in_one_line(
    discord: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with bot(discord, tmp_path, token="not-good") as process:
        with anyio.fail_after(40):
            assert await process.wait() == 1
    said = (tmp_path / "log").read_text(encoding="utf-8")
    assert "midflight: Discord does not accept the token any more" in said
    assert "Traceback" not in said
    assert "not-good" not in said


def test_without_its_extra_it_says_which_one_it_needs(tmp_path: Path) -> None:
    code = (
        "import importlib.util as u, sys; f = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'discord' else f(name, *more)\n"
        "from midflight.cli.main import main; sys.exit(main(['discord', 'any:thing']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 5
    assert "pip install 'midflight[discord]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_it_does_not_begin_without_a_token_or_without_anybody_who_may_use_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = "channels.mortal_bot:works"
    monkeypatch.delenv("DISCORD_TOKEN", raising=False)
    assert main(["discord", agent, "--allow", "1=controller"]) == 1
    assert "set DISCORD_TOKEN" in capsys.readouterr().err
    monkeypatch.setenv("DISCORD_TOKEN", "x")
    assert main(["discord", agent]) == 1
    assert "name somebody with --allow" in capsys.readouterr().err
    assert main(["discord", agent, "--allow", "1=king"]) == 1
    assert "'king' is no role" in capsys.readouterr().err
    assert os.environ["DISCORD_TOKEN"] == "x"

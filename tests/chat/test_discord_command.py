"""``midflight discord`` as people start it: a real process, killed and started again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import Process

from chat.conftest import ANN
from chat.person import Person
from chat.stand_in import TOKEN, StandIn
from midflight.control.remote import RemoteControl
from midflight.interfaces.cli.main import main
from midflight.interfaces.http.access.keyring import Keyring
from midflight.journal.phases import Role
from midflight.stores import open_store
from midflight.stores.protocol import Query
from scenarios.stories import environment

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(90)]

AGENT = "chat.mortal_bot:works"
STARTS_S = 30.0  # a process, on a busy machine


@asynccontextmanager
async def bot(
    discord: StandIn, folder: Path, *options: str, token: str = TOKEN
) -> AsyncIterator[Process]:
    """A bot in a process of its own, which is killed when the block ends."""
    addresses = {
        "DISCORD_REST": f"{discord.address}/api/v10",
        "DISCORD_GATEWAY": discord.gateway.address,
        "DISCORD_TOKEN": token,
    }
    command = ["chat.launch_bot", "discord", AGENT, "--allow", f"{ANN.id}=ann:controller"]
    async with started(folder, *command, *options, env=addresses) as process:
        yield process


@asynccontextmanager
async def started(
    folder: Path, module: str, *arguments: str, env: dict[str, str] | None = None
) -> AsyncIterator[Process]:
    with (folder / "log").open("ab") as log:
        process = await anyio.open_process(
            [sys.executable, "-m", module, *arguments],
            cwd=folder,
            env=environment() | (env or {}),
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
        await discord.until(lambda: discord.gateway.identified, STARTS_S)
        await ann.says(chat, "look")
        await discord.until(lambda: (tmp_path / "begun").exists())
        status = await discord.until_shown(chat, "**Running** look")
    await discord.gateway.drop()
    missed = await ann.says(chat, "are you there?")
    (tmp_path / "go").touch()
    async with bot(discord, tmp_path) as second:
        await discord.until(lambda: "✔ **Done** look" in status.content, STARTS_S)
        await discord.until_shown(chat, f"✔ **Done** {missed.content}", STARTS_S)
        await discord.until(lambda: discord.text(chat).count("I have seen it.") >= 2)
        second.send_signal(signal.SIGTERM)
        with anyio.fail_after(20):
            assert await second.wait() == 0

    assert discord.text(chat).count("**Running**") == 0
    assert discord.text(chat).count("I have seen it.") == 2  # once for each that was asked


async def test_killed_between_a_press_and_its_answer_the_next_life_answers_it(
    discord: StandIn, ann: Person, tmp_path: Path
) -> None:
    chat = ann.dm()
    async with bot(discord, tmp_path):
        await discord.until(lambda: discord.gateway.identified, STARTS_S)
        await ann.says(chat, "look")
        await discord.until(lambda: (tmp_path / "begun").exists())
        status = await discord.until_shown(chat, "**Running** look")
        discord.hold_answers = anyio.Event()
        pressed = await ann.presses(status, "Cancel")
        await discord.until(lambda: discord.held)
    discord.hold_answers = None
    await discord.gateway.drop()
    assert pressed.answers == []

    async with bot(discord, tmp_path):
        await discord.until(lambda: pressed.answers, STARTS_S)
        assert "**Cancel** is on record" in pressed.text
        await discord.until(lambda: "⏹ **Cancelled**" in status.content)
        assert len(pressed.answers) == 1
    store = f"sqlite:{tmp_path}/midflight.db"
    async with open_store(store) as journals:
        (row,) = await journals.rows(Query())
        names = [record.event.stored_name() for record in await journals.read(row.journal)]
    assert names.count("cancel.requested") == 1


async def test_attached_to_a_server_it_drives_nothing_and_the_server_does(
    discord: StandIn, ann: Person, tmp_path: Path
) -> None:
    chat, log = ann.dm(), tmp_path / "log"
    async with started(tmp_path, "midflight", "serve", AGENT, "--port", "0", "--json"):
        await discord.until(lambda: (tmp_path / "midflight.db").exists(), STARTS_S)
        async with bot(discord, tmp_path, "--attach", "--json") as attached:
            await discord.until(lambda: '"drives":' in log.read_text("utf-8"), STARTS_S)
            await ann.says(chat, "look")
            status = await discord.until_shown(chat, "**Running** look", STARTS_S)
            await ann.says(chat, "stop")
            asks = await discord.until_shown(chat, "Paused. Cancel?")
            await discord.until(lambda: "⏸ **Paused**" in status.content)
            await ann.presses(asks, "Resume")
            (tmp_path / "go").touch()
            await discord.until_shown(chat, "I have seen it.")
            await discord.until(lambda: "✔ **Done**" in status.content)
            attached.send_signal(signal.SIGTERM)
            with anyio.fail_after(20):
                assert await attached.wait() == 0
    said = log.read_text(encoding="utf-8")
    greeting = {"name": "midflight", "agent": "mortal-bot", "store": "midflight.db"}
    assert json.dumps(greeting | {"drives": False}, separators=(",", ":")) in said


async def test_what_was_begun_over_http_goes_on_in_discord_and_each_sees_what_the_other_says(
    discord: StandIn, ann: Person, tmp_path: Path
) -> None:
    chat, thread = ann.dm(), "t-on-the-page"
    keys = tmp_path / "keys.json"
    token = Keyring(keys).issue("pat", Role.CONTROLLER)
    served = ("midflight", "serve", AGENT, "--port", "0", "--json", "--keys", str(keys))
    async with started(tmp_path, *served):
        url = await discord.until(lambda: _address(tmp_path / "log"), STARTS_S)
        async with (
            bot(discord, tmp_path, "--attach"),
            RemoteControl.open(url, token) as page,
        ):
            await discord.until(lambda: discord.gateway.identified, STARTS_S)
            await page.start("mortal-bot", "look", thread=thread)
            going_on = await ann.commands(chat, "continue", thread=thread)
            await discord.until(lambda: "goes on with" in going_on.text)
            await discord.until_shown(chat, "**Running** look", STARTS_S)
            await page.send(thread, "from the page")
            await discord.until_shown(chat, "**pat** (http): from the page")
            await ann.says(chat, "from a phone")
            with anyio.fail_after(STARTS_S):
                async for record in page.watch(thread):
                    if getattr(record.event, "text", "") == "from a phone":
                        break
            (tmp_path / "go").touch()
            await discord.until_shown(chat, "I have seen it.", STARTS_S)
            said = [line.text for line in await page.transcript(thread) if line.kind == "message"]
    assert sorted(said) == ["from a phone", "from the page"]
    assert "): from a phone" not in discord.text(chat)
    assert discord.text(chat).count("): from the page") == 1


def _address(log: Path) -> str:
    """Where the server is, once it has said so."""
    found = re.search(r'"url":"([^"]+?)/#', log.read_text(encoding="utf-8"))
    return found[1] if found else ""


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
        "from midflight.interfaces.cli.main import main; sys.exit(main(['discord', 'any:thing']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 5
    assert "pip install './midflight[discord]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_it_does_not_begin_without_a_token_or_anybody_who_may_use_it_or_a_store_to_attach_to(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISCORD_TOKEN", raising=False)
    assert main(["discord", AGENT, "--allow", "1=controller"]) == 1
    assert "set DISCORD_TOKEN" in capsys.readouterr().err
    monkeypatch.setenv("DISCORD_TOKEN", "x")
    assert main(["discord", AGENT]) == 1
    assert "name somebody with --allow" in capsys.readouterr().err
    assert main(["discord", AGENT, "--allow", "1=king"]) == 1
    assert "'king' is not a role" in capsys.readouterr().err
    assert main(["discord", AGENT, "--allow", "1=controller", "--attach"]) == 3
    assert "there is no store midflight.db here" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert os.environ["DISCORD_TOKEN"] == "x"

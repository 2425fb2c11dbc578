"""MCP servers as real processes: whose word counts, and what happens when one dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import pytest

from midflight.errors import InvalidRequest, InvalidTool
from midflight.journal.phases import Effect
from midflight.tools.declaration import Tool, ToolFailed, ToolRefused
from midflight.tools.mcp import McpServer
from midflight.tools.options import EffectName
from midflight.tools.secret import Secret
from midflight.tools.specs import parse, spec
from ports import free_port
from tools.processes import HERE, alive, driver_environment, gone_within

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SERVER = str(HERE / "mcp_server.py")
OWNER = str(HERE / "mcp_owner.py")
READS: dict[str, EffectName] = dict.fromkeys(
    ("search", "much", "picture", "environment", "fail"), "read"
)


def stand_in(folder: Path, name: str, *words: str, **options: object) -> McpServer:
    command = (sys.executable, SERVER, str(folder), *words)
    return McpServer.stdio(*command, name=name, effects=READS, **options)  # type: ignore[arg-type]


def called(server: McpServer, name: str) -> Tool:
    (found,) = (each for each in server.tools if each.name == f"{server.name}.{name}")
    return found


def done(folder: Path) -> list[str]:
    path = folder / "done"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


# ── whose word counts ────────────────────────────────────────────────────────────────────────


async def test_what_a_tool_does_is_what_we_have_listed_and_not_what_it_says(tmp_path: Path) -> None:
    async with stand_in(tmp_path, "listed") as server:
        search, send = called(server, "search"), called(server, "send")

        assert (search.effect, search.approval) == (Effect.READ, None)
        assert send.effect is Effect.ONCE  # in spite of its readOnlyHint
        assert send.approval is not None
        assert "harmless" not in send.approval.rule  # a person reads our words, not the server's
        assert "Perfectly harmless" in spec(send).description
        assert spec(send).name == "listed_send"


async def test_arguments_are_checked_by_the_schema_of_the_server(tmp_path: Path) -> None:
    async with stand_in(tmp_path, "checked") as server:
        search = called(server, "search")

        assert parse(search, '{"text": "a"}') == {"text": "a"}
        with pytest.raises(InvalidRequest, match="argument text: expected string, got 3"):
            parse(search, '{"text": 3}')


async def test_an_answer_is_text_and_data_within_bounds(tmp_path: Path) -> None:
    async with stand_in(tmp_path, "answers") as server:
        found = await called(server, "search")(text="tea", limit=2)
        failed = await called(server, "fail")()
        much = await called(server, "much")()
        picture = await called(server, "picture")()

    assert (found.text, found.data) == ("tea 0\ntea 1", {"result": ["tea 0", "tea 1"]})
    assert failed.error
    assert len(much.text) == 200_000
    assert "of 5,000,000" in much.note
    assert (picture.text, picture.note) == ("", "1 parts that are no text are not shown")


async def test_a_tool_that_has_changed_since_it_was_listed_is_not_called(tmp_path: Path) -> None:
    async with stand_in(tmp_path, "evil") as server:
        before = called(server, "send")
        await called(server, "turn_evil")()

        with pytest.raises(ToolRefused, match="has changed its tool send since it was listed"):
            await before(to="ann")
        assert done(tmp_path) == []

        await server.refresh()
        after = called(server, "send")
        assert after.approval != before.approval  # so it is asked again
        await after(to="ann")
        assert done(tmp_path) == ["sent to ann and eve@example.org"]


async def test_a_server_sees_nothing_of_our_environment_but_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "hush-hush")
    async with stand_in(tmp_path, "env", env={"MODE": "test"}) as server:
        seen = (await called(server, "environment")()).data

    assert "hush-hush" not in seen.values()
    assert seen["MODE"] == "test"


# ── when it dies ─────────────────────────────────────────────────────────────────────────────


async def test_a_server_that_dies_in_a_call_leaves_it_in_doubt_and_is_started_again(
    tmp_path: Path,
) -> None:
    async with stand_in(tmp_path, "dies") as server:
        with pytest.raises(ToolFailed, match="did not answer") as failed:
            await called(server, "die")(after="all")

        assert "The call may have taken effect" in str(failed.value)
        assert not isinstance(failed.value, ToolRefused)  # which would say: nothing was done
        assert done(tmp_path) == ["died all"]
        assert (await called(server, "search")(text="a", limit=1)).text == "a 0"


async def test_a_server_that_cannot_be_started_again_is_proven_not_asked(
    tmp_path: Path,
) -> None:
    program = tmp_path / "program.py"
    program.write_text(Path(SERVER).read_text(encoding="utf-8"), encoding="utf-8")
    async with McpServer.stdio(sys.executable, str(program), str(tmp_path), name="gone") as server:
        send = called(server, "send")
        program.write_text("raise SystemExit('no more')", encoding="utf-8")
        with pytest.raises(ToolFailed):
            await called(server, "die")()

        with anyio.fail_after(30), pytest.raises(ToolRefused, match=r"Nothing was asked\."):
            await send(to="ann")
    with pytest.raises(ToolRefused, match="is not open"):
        await send(to="ann")
    assert done(tmp_path) == ["died "]


@pytest.mark.parametrize("program", ["print('hello', flush=True)", "import time; time.sleep(600)"])
async def test_a_program_that_is_no_server_is_given_up_in_time(
    tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setattr("midflight.tools.mcp.CONNECT_S", 0.5)
    no_server = McpServer.stdio(sys.executable, "-c", f"{program} # {token}", name="no-server")

    with anyio.fail_after(20), pytest.raises(ToolRefused, match="cannot be used"):
        async with no_server:
            raise AssertionError("it was opened")

    assert gone_within(20, token)


def test_a_program_that_is_not_there_is_refused_where_it_is_named() -> None:
    with pytest.raises(InvalidTool, match="no-such-program"):
        McpServer.stdio("no-such-program", name="absent")


async def test_one_who_is_cancelled_in_a_call_waits_no_longer(tmp_path: Path) -> None:
    async def cancel_when_it_dawdles(limit: anyio.CancelScope) -> None:
        with anyio.fail_after(30):
            while not done(tmp_path):  # noqa: ASYNC110 - another process writes it
                await anyio.sleep(0.01)
        limit.cancel()

    async with stand_in(tmp_path, "dawdles") as server, anyio.create_task_group() as tasks:
        with anyio.fail_after(40), anyio.CancelScope() as limit:
            tasks.start_soon(cancel_when_it_dawdles, limit)
            await called(server, "dawdle")()
        assert limit.cancelled_caught

    assert done(tmp_path) == ["dawdling"]


async def test_many_calls_at_once_share_one_server(tmp_path: Path) -> None:
    found: list[str] = []
    async with stand_in(tmp_path, "shared") as server:
        search = called(server, "search")

        async def ask(number: int) -> None:
            found.append((await search(text=str(number), limit=1)).text)

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(ask, number)

    assert sorted(found) == sorted(f"{number} 0" for number in range(20))


# ── nothing outlives us ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stubborn", [False, True], ids=["ends by itself", "does not end"])
async def test_closing_ends_the_server_and_all_that_it_has_started(
    tmp_path: Path, token: str, stubborn: bool
) -> None:
    words = (token,) if not stubborn else (token, "stubborn")
    server = McpServer.stdio(
        sys.executable,
        str(HERE / "mcp_stubborn.py"),
        str(tmp_path),
        *words,
        name=f"litters-{stubborn}",
    )
    async with server:
        await called(server, "litter")(token=token)
        assert len(alive(token)) >= 2
    assert gone_within(20, token)


@contextmanager
def owner(folder: Path, token: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has opened a stubborn server."""
    process = subprocess.Popen(
        [sys.executable, OWNER, str(folder), token],
        stdout=subprocess.PIPE,
        text=True,
        env=driver_environment(),
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)
        assert process.stdout is not None
        process.stdout.close()


def test_kill_9_of_us_ends_the_server_and_all_that_it_has_started(
    tmp_path: Path, token: str
) -> None:
    with owner(tmp_path, token) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "littered"
        assert len(set(alive(token)) - {process.pid}) >= 2
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)

        assert gone_within(20, token)


# ── by HTTP ──────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def served(
    folder: Path, token: str
) -> AsyncIterator[tuple[int, list[subprocess.Popen[bytes]]]]:
    port = free_port()
    processes: list[subprocess.Popen[bytes]] = [serving(folder, port, token)]
    try:
        await reachable(port)
        yield port, processes
    finally:
        for process in processes:
            process.kill()
            process.wait(10)


def serving(folder: Path, port: int, token: str) -> subprocess.Popen[bytes]:
    log = (folder / "log").open("ab")
    with log:
        return subprocess.Popen(
            [sys.executable, SERVER, str(folder), str(port), token], stdout=log, stderr=log
        )


async def reachable(port: int) -> None:
    until = time.monotonic() + 40
    while time.monotonic() < until:
        try:
            await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
        except OSError:
            await anyio.sleep(0.05)
        else:
            return
    raise AssertionError("the server did not come up")


async def test_a_server_by_http_dies_in_a_call_and_is_found_again(
    tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRM_TOKEN", "hush")
    async with (
        served(tmp_path, token) as (port, processes),
        McpServer.http(
            f"http://127.0.0.1:{port}/mcp",
            name="far",
            effects=READS,
            headers={"Authorization": Secret("CRM_TOKEN")},
        ) as server,
    ):
        search = called(server, "search")
        assert (await search(text="a", limit=1)).text == "a 0"

        with anyio.fail_after(30), pytest.raises(ToolFailed):
            await called(server, "die")()
        with anyio.fail_after(60), pytest.raises(ToolRefused, match="Nothing was asked"):
            await search(text="b", limit=1)

        processes.append(serving(tmp_path, port, token))
        await reachable(port)
        assert (await search(text="c", limit=1)).text == "c 0"


def test_without_the_extra_it_says_which_one_is_missing() -> None:
    code = "import sys; sys.modules['mcp'] = None; import midflight.tools.mcp"
    missing = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )

    assert "pip install './midflight[mcp]'" in missing.stderr

"""Networks that fail and servers that go: nothing twice, nothing lost, no endless wait."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest

from midflight import errors
from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.control.remote import RemoteControl, found_token
from midflight.control.remote.link import checked_url, keep_token
from midflight.interfaces.app import create_app
from midflight.interfaces.http.access.access import Access
from midflight.interfaces.http.access.keyring import Keyring
from midflight.interfaces.http.access.quotas import Quotas
from midflight.journal.phases import Phase, Role
from midflight.run import Run
from midflight.stores.hints import Delta
from midflight.tools.declaration import tool
from midflight.tools.progress import emit
from ports import free_port
from remote.bridge import Bridge, bridged
from scenarios.conftest import Open
from scenarios.stage import Stage
from server.house import PATIENT, House, opened, serving

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(60)]


def quick(
    house: House, port: int = 0, role: Role = Role.CONTROLLER
) -> AbstractAsyncContextManager[RemoteControl]:
    url = f"http://127.0.0.1:{port or house.port}"
    return RemoteControl.open(url, house.tokens[role], patience_s=20.0)


@asynccontextmanager
async def over_a_bridge(
    control: Control, *agents: Agent
) -> AsyncIterator[tuple[Bridge, RemoteControl]]:
    async with (
        opened(control, agents) as house,
        bridged(house.port) as bridge,
        quick(house, bridge.port) as remote,
    ):
        yield bridge, remote


async def test_a_verb_whose_answer_is_lost_is_repeated_and_done_once(driving: Open) -> None:
    stage = Stage("trouble-lost")
    stage.gate("shop")
    look = stage.reader()

    @agent("looks")
    async def looks(run: Run) -> None:
        await run.step("Look", look, "shop")

    async with driving(looks) as control, over_a_bridge(control, looks) as (bridge, remote):
        bridge.mute = 1
        run = await remote.start("looks", "")
        assert len(await control.runs()) == 1
        bridge.mute = 2
        await bridge.cut()
        sent = await remote.send(run, "hello")
        lines = await control.transcript((await control.state(run)).thread)
        assert [line.position for line in lines if line.kind == "message"] == [sent.position]
        assert bridge.mute == 0
        await control.cancel(run)
        await control.ended(run)


async def test_a_kill_that_may_have_arrived_is_not_repeated_by_itself(driving: Open) -> None:
    async with (
        driving() as control,
        opened(control) as house,
        bridged(house.port) as bridge,
        quick(house, bridge.port, Role.OPERATOR) as remote,
    ):
        bridge.mute = 1
        with pytest.raises(errors.ServerAway, match="not known whether"):
            await remote.kill("all")
        assert len(await control.switches()) == 1
        assert [request.count(b"POST") for request in bridge.requests].count(1) == 1


async def test_a_watch_goes_on_over_cuts_without_a_gap_or_a_repeat(driving: Open) -> None:
    async def tell(number: int) -> str:
        for word in range(5):
            emit(f"{number}.{word} ")
            await anyio.sleep(0.005)
        return "x" * 200

    speak = tool(effect="read", name="trouble.tell")(tell)

    @agent("talks")
    async def talks(run: Run) -> None:
        for number in range(20):
            await run.step(f"Tell {number}", speak, number)

    seen: list[bool] = []
    async with (
        driving(talks) as control,
        opened(control, [talks]) as house,
        bridged(house.port) as bridge,
    ):
        url, token = f"http://127.0.0.1:{bridge.port}", house.tokens[Role.VIEWER]
        async with RemoteControl.open(url, token, connected=seen.append) as remote:
            run = await control.start(talks, "")
            bridge.cut_after = 3_000  # every connection ends after so many bytes
            positions: list[int] = []
            texts: dict[str, str] = {}
            async with remote.watch_live({run: 0}) as news:
                async for item in news:
                    if isinstance(item, Delta):
                        before = texts.get(item.step, "")
                        assert item.offset <= len(before)
                        texts[item.step] = before[: item.offset] + item.text
                        continue
                    positions.append(item.position)
                    if item.event.stored_name() == "run.finished":
                        break
    assert positions == list(range(1, len(positions) + 1))
    assert bridge.crossings > 3
    assert False in seen
    assert seen[-1] is True


async def test_a_request_that_finds_nobody_tells_so_as_a_watch_would(driving: Open) -> None:
    seen: list[bool] = []
    async with driving() as control, opened(control, []) as house, bridged(house.port) as bridge:
        url, token = f"http://127.0.0.1:{bridge.port}", house.tokens[Role.VIEWER]
        async with RemoteControl.open(url, token, patience_s=0, connected=seen.append) as remote:
            await remote.runs()
            assert seen == [True]
            bridge.cut_after = 0
            with pytest.raises(errors.ServerAway):
                await remote.runs()
            assert seen == [True, False]


async def test_waiting_for_an_end_outlasts_a_restart_of_the_server(driving: Open) -> None:
    stage = Stage("trouble-restart")
    gate = stage.gate("shop")
    look = stage.reader()

    @agent("waits")
    async def waits(run: Run) -> str:
        found: str = await run.step("Look", look, "shop")
        return found

    keyring = Keyring()
    token = keyring.issue("ann", Role.CONTROLLER)
    found: list[object] = []
    async with driving(waits) as control, bridged(port=1) as bridge:
        run = await control.start(waits, "")
        app = partial(create_app, control, access=Access(keyring), quotas=PATIENT)

        async def wait_for_it() -> None:
            url = f"http://127.0.0.1:{bridge.port}"
            async with RemoteControl.open(url, token, away_s=20) as remote:
                found.append(await remote.result(run))

        async with anyio.create_task_group() as tasks:
            async with serving(app()) as bridge.to:
                tasks.start_soon(wait_for_it)
                await _until(lambda: bool(bridge.requests))
            gate.set()
            await control.ended(run)
            while_away = bridge.crossings
            await _until(lambda: bridge.crossings > while_away)
            async with serving(app()) as bridge.to:
                await _until(lambda: bool(found))
    assert found == ["SHOP"]
    assert bridge.crossings > 2


async def _until(ready: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not ready():  # noqa: ASYNC110 - nobody tells us
            await anyio.sleep(0.01)


async def test_a_server_that_is_away_is_said_in_time_and_that_nothing_was_changed() -> None:
    port = free_port()
    async with RemoteControl.open(f"http://127.0.0.1:{port}", "x", patience_s=0.5, away_s=0.5) as c:
        with anyio.fail_after(10), pytest.raises(errors.ServerAway, match="Nothing was changed"):
            await c.pause("r-1")
        with anyio.fail_after(10), pytest.raises(errors.ServerAway, match=f"127.0.0.1:{port}"):
            async with c.watch("r-1") as news:
                async for _ in news:
                    pass


async def test_a_server_that_says_nothing_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("midflight.control.remote.remote_journals.SILENCE_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        async with RemoteControl.open(url, "x", away_s=1.0) as remote:
            with anyio.fail_after(10), pytest.raises(errors.ServerAway):
                async with remote.watch("r-1") as news:
                    async for _ in news:
                        pass


async def test_a_wrong_token_is_refused_at_once(driving: Open) -> None:
    async with (
        driving() as control,
        opened(control) as house,
        RemoteControl.open(house.url, "mf_wrong") as remote,
    ):
        with anyio.fail_after(20), pytest.raises(errors.NotAdmitted, match="token is not valid"):
            await remote.runs()
        with anyio.fail_after(20), pytest.raises(errors.NotAdmitted):
            async with remote.watch("r-1") as news:
                async for _ in news:
                    pass


async def test_what_is_no_server_of_ours_is_said_so() -> None:
    async def other(scope: object, receive: object, send: object) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": []})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": b"<h1>Not here</h1>"})  # type: ignore[operator]

    async with (
        serving(other) as port,
        RemoteControl.open(f"http://127.0.0.1:{port}", "x") as remote,
    ):
        with pytest.raises(errors.ServerFailed, match="not as a Midflight server"):
            await remote.runs()


async def test_who_asks_too_quickly_waits_and_is_answered(driving: Open) -> None:
    narrow = Quotas(requests_per_s=20, burst=2)
    async with (
        driving() as control,
        opened(control, quotas=narrow) as house,
        quick(house) as remote,
    ):
        with anyio.fail_after(10):
            for _ in range(4):
                assert await remote.runs() == []


async def test_a_name_that_the_server_would_not_believe_is_not_taken(driving: Open) -> None:
    async with (
        driving() as control,
        opened(control) as house,
        quick(house) as remote,
    ):
        who = await remote.me()
        assert (who.by, who.role) == ("the-controller", Role.CONTROLLER)
        with pytest.raises(errors.InvalidRequest, match="the token says who asks"):
            await remote.pause("r-1", who=who)


async def test_an_odd_id_goes_nowhere_else(driving: Open) -> None:
    async with (
        driving() as control,
        opened(control) as house,
        quick(house) as remote,
    ):
        for odd in ("r-1/../../v1/agents", "r-1?x=1", "r-1#x", "r-\n", "x"):
            with pytest.raises((errors.JournalNotFound, errors.InvalidRequest)):
                await remote.state(odd)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("127.0.0.1:8321", "not the address"),
        ("ftp://x", "not the address"),
        ("http://[::1", "not the address"),
        ("http://127.0.0.1:1/#code=mf_x", "must not hold a user name, a password"),
        ("http://ann:secret@127.0.0.1:1", "must not hold a user name, a password"),
        ("http://agents.example.com", "another machine"),
    ],
)
def test_a_token_goes_only_where_it_is_safe(url: str, why: str) -> None:
    with pytest.raises(errors.MidflightError, match=why) as refused:
        checked_url(url)
    assert "secret" not in str(refused.value)
    assert checked_url("http://agents.example.com/", insecure=True) == "http://agents.example.com"
    assert checked_url("https://agents.example.com") == "https://agents.example.com"


def test_a_token_comes_from_the_environment_or_from_a_file_of_its_owner_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("MIDFLIGHT_TOKEN", raising=False)
    monkeypatch.delenv("MIDFLIGHT_TOKEN_FILE", raising=False)
    assert found_token() == ""
    kept = keep_token("mf_kept")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert found_token() == "mf_kept"
    monkeypatch.setenv("MIDFLIGHT_TOKEN", "mf_env")
    assert found_token() == "mf_env"
    assert found_token(kept) == "mf_kept"  # what is named counts first

    kept.chmod(0o640)
    with pytest.raises(errors.NotAdmitted, match="chmod 600"):
        found_token(kept)
    kept.chmod(0o600)
    kept.write_text("two words\n", encoding="utf-8")
    with pytest.raises(errors.NotAdmitted, match="does not hold a token"):
        found_token(kept)
    with pytest.raises(errors.NotAdmitted, match="no token file"):
        found_token(tmp_path / "nowhere")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo, 0o600)
    with pytest.raises(errors.NotAdmitted, match="not an ordinary file"):
        found_token(fifo)


@pytest.mark.parametrize("odd", ["mf_a\nb", "mf_a\x7fb", "mf_a b", "mf_ä", "mf_\u202eb"])
async def test_a_token_that_no_request_can_carry_is_refused_wherever_it_is_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: str
) -> None:
    kept = tmp_path / "token"
    kept.write_text(odd, encoding="utf-8")
    kept.chmod(0o600)
    monkeypatch.setenv("MIDFLIGHT_TOKEN", odd)

    for path in (None, kept):
        with pytest.raises(errors.NotAdmitted, match="does not hold a token") as refused:
            found_token(path)
        assert "mf_" not in str(refused.value)
    with pytest.raises(errors.NotAdmitted, match="does not hold a token"):
        async with RemoteControl.open("http://127.0.0.1:9", odd):
            pass


async def test_a_state_read_while_the_run_moves_on_is_of_one_moment(driving: Open) -> None:
    stage = Stage("trouble-state")
    look = stage.reader()

    @agent("long")
    async def long(run: Run) -> None:
        for number in range(700):
            await run.step(f"Look {number}", look, str(number))

    async with (
        driving(long) as control,
        opened(control, [long]) as house,
        quick(house) as remote,
    ):
        run = await control.start(long, "")
        states = [await remote.state(run) for _ in range(5)]
        assert [s.head for s in states] == sorted(s.head for s in states)
        end = await remote.ended(run)
        assert (end.phase, end.spent.steps) == (Phase.DONE, 700)

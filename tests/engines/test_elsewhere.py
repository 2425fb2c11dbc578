"""Servers and workers on different machines: every door leads to every run."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx

from engines import fleet_world
from engines.conftest import ON_RESTATE, Hired
from engines.elsewhere import read_out, serving
from engines.fleet import PATHS
from midflight.control.remote import RemoteControl
from midflight.journal.phases import Phase
from server.viewer import Viewer

pytestmark = ON_RESTATE

SOON_S = 0.4


async def test_what_is_started_at_one_server_is_steered_at_another(
    hired: Hired, postgres_address: str
) -> None:
    async with hired(1) as (control, workers):
        with ExitStack() as servers:
            doors = [
                servers.enter_context(serving(control, workers, postgres_address, name))
                for name in "ab"
            ]
            async with RemoteControl.open(*doors[0]) as one, RemoteControl.open(*doors[1]) as other:
                run = await one.start("busy", "0")
                await other.pause(run)
                await one.until(run, lambda state: state.phase is Phase.PAUSED)
                await other.redirect(run, "40")
                await one.resume(run)
                await other.until(run, lambda state: state.brief == "40")
                await one.cancel(run)
                assert (await other.ended(run)).phase is Phase.CANCELLED

                asked = await one.start("asker", "ask")
                state = await other.until(asked, lambda state: bool(state.questions))
                await other.answer(asked, next(iter(state.questions)), "tea")
                assert await one.result(asked) == "tea"

                stopped = await other.start("lingerer", "for ever")
                await one.until(stopped, lambda state: state.phase is Phase.RUNNING)
                await one.kill("agent:lingerer", reason="enough")
                assert (await other.ended(stopped)).phase is Phase.KILLED
                await other.release("agent:lingerer")


async def midflight(*arguments: str, **environment: str) -> dict[str, Any]:
    """What a command of the terminal answers, as JSON."""
    done = await anyio.run_process(
        [sys.executable, "-m", "midflight", *arguments, "--json"],
        env=os.environ | {"PYTHONPATH": PATHS} | environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


async def test_the_terminal_steers_it_through_the_store_and_through_any_server(
    hired: Hired, postgres_address: str
) -> None:
    async with hired(1) as (control, workers):
        schema = control.store._server._schema  # type: ignore[attr-defined]
        at_store = ("--store", f"{postgres_address}&schema={schema}")
        with serving(control, workers, postgres_address) as (url, token):
            at_server = ("--server", url)
            run = await control.start(fleet_world.busy, "0")
            await control.until(run, lambda state: state.head > 5)

            paused = await midflight("pause", run, *at_store)
            assert (paused["verb"], paused["delivery"]) == ("pause", "applied")
            assert (await control.state(run)).phase is Phase.PAUSED

            resumed = await midflight("resume", run, *at_server, MIDFLIGHT_TOKEN=token)
            assert (resumed["verb"], resumed["delivery"]) == ("resume", "applied")
            assert (await control.state(run)).phase is Phase.RUNNING

            await midflight("cancel", run, "--yes", *at_server, MIDFLIGHT_TOKEN=token)
            assert (await control.state(run)).phase is Phase.CANCELLED


async def agui(door: tuple[str, str], run_id: str, **said: Any) -> list[dict[str, Any]]:
    """One turn with an agent, as a client of AG-UI takes it: what it is told."""
    url, token = door
    turn = {"threadId": "T", "runId": run_id, "messages": [], **said}
    headers = {"authorization": f"Bearer {token}", "accept": "text/event-stream"}
    async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False) as client:
        answer = await client.post("/v1/agents/asker/agui", json=turn, timeout=30)
    assert answer.status_code == 200, answer.text
    lines = answer.text.splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


async def test_a_conversation_begun_at_one_server_is_gone_on_with_and_seen_at_another(
    hired: Hired, postgres_address: str
) -> None:
    async with hired(1) as (control, workers):
        with ExitStack() as servers:
            here, there = (
                servers.enter_context(serving(control, workers, postgres_address, name))
                for name in "ab"
            )
            first = await agui(here, "X", messages=[{"id": "m", "role": "user", "content": "ask"}])
            (asked,) = first[-1]["outcome"]["interrupts"]
            run = asked["id"].partition(":")[0]
            page = Viewer(urlsplit(there[0]).port or 0, there[1], [run])
            async with anyio.create_task_group() as beside:
                beside.start_soon(page.until_ended, run)
                with anyio.fail_after(30):
                    while run not in page.views:  # noqa: ASYNC110 - it comes by a socket
                        await anyio.sleep(0.01)
                answer = {"interruptId": asked["id"], "status": "resolved", "payload": "tea"}
                second = await agui(there, "Y", resume=[answer])

            assert second[-1]["outcome"]["type"] == "success"
            assert await control.result(run) == "tea"
            phases = [view["phase"] for journal, view in page.history if journal == run]
            assert (phases[0], phases[-1]) == ("waiting", "done")


async def test_what_a_step_says_is_read_on_another_machine_while_it_says_it(
    hired: Hired, postgres_address: str
) -> None:
    async with hired(1) as (control, workers):
        with serving(control, workers, postgres_address) as door:
            async with RemoteControl.open(*door) as remote:
                run = await remote.start("teller", "100")
                text, late = await read_out(remote, run)

    assert [word.partition("@")[0] for word in text.split()] == [str(n) for n in range(100)]
    assert statistics.median(late) <= SOON_S  # how late the latest are: `make bench-scale`


def test_a_store_that_others_cannot_reach_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "midflight", "worker", "engines.fleet_world", "--engine", "restate"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": PATHS},
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 1
    assert "their store must be Postgres" in done.stderr
    assert "Traceback" not in done.stderr

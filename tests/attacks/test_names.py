"""Names that give rights, and places where others could look."""

from __future__ import annotations

import stat
from pathlib import Path

import httpx
import pytest

from midflight.agents import agent
from midflight.control import Control
from midflight.errors import InvalidRequest, NotAllowed
from midflight.interfaces.app import create_app
from midflight.interfaces.http.access.access import HERE, Access
from midflight.interfaces.http.access.keyring import Keyring
from midflight.journal.phases import Role
from midflight.journal.record import Actor
from midflight.run import Run
from midflight.stores.memory import MemoryStore
from midflight.telemetry import _label, _shown
from scenarios.conftest import Open
from scenarios.rests import asked

pytestmark = pytest.mark.anyio


async def test_who_is_named_like_a_role_has_no_more_right_than_their_own(driving: Open) -> None:
    @agent()
    async def clerk(run: Run) -> None:
        await run.ask("Really?", answerers=["operator"])

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        question = (await asked(control, run)).position
        with pytest.raises(NotAllowed):
            await control.answer(run, question, "yes", who=Actor(by="operator"))
        await control.answer(run, question, "yes", who=Actor(by="olga", role=Role.OPERATOR))
        await control.ended(run)


@pytest.mark.parametrize("name", ["operator", "Controller", "viewer"])
def test_no_key_is_made_under_the_name_of_a_role(name: str) -> None:
    with pytest.raises(InvalidRequest, match="the name of a role"):
        Keyring().issue(name, Role.VIEWER)


async def test_nobody_else_on_the_machine_can_look_into_the_folder_of_a_run(
    driving: Open,
) -> None:
    folders: list[Path] = []

    @agent()
    async def clerk(run: Run) -> None:
        folders.append(Path(run.workdir))

    async with driving(clerk) as control:
        await control.ended(await control.start(clerk, "work"))
    (folder,) = folders
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_a_folder_that_others_could_read_is_closed_when_its_run_goes_on(
    driving: Open,
) -> None:
    folders: list[Path] = []

    @agent()
    async def clerk(run: Run) -> None:
        Path(run.workdir).chmod(0o755)  # as an earlier release has made it
        folders.append(Path(run.workdir))

    async with driving(clerk) as control:
        await control.ended(await control.start(clerk, "work"))
    (folder,) = folders
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_behind_tls_browsers_are_told_so_and_the_cookie_is_of_this_host_alone() -> None:
    keyring = Keyring()
    access = Access(keyring, hosts=(*HERE, "desk.example"), public_url="https://desk.example")
    app = create_app(Control(MemoryStore()), access=access)
    transport = httpx.ASGITransport(app)
    url = "https://desk.example"
    async with httpx.AsyncClient(transport=transport, base_url=url) as browser:
        headers = {"origin": url, "x-midflight": "1"}
        come_in = await browser.post(
            "/v1/session", json={"code": keyring.code("ann")}, headers=headers
        )
        cookie = come_in.headers["set-cookie"]
        assert cookie.startswith("__Host-midflight_")
        assert "Secure" in cookie
        assert "Path=/;" in cookie
        assert "max-age" in come_in.headers["strict-transport-security"]
        page = {"x-midflight-page": come_in.json()["page_secret"]}
        assert (await browser.get("/v1/me", headers=page)).status_code == 200
        left = await browser.post("/v1/leave", headers=headers | page)
        assert "Secure" in left.headers["set-cookie"]
        assert (await browser.get("/v1/me", headers=page)).status_code == 401


def test_a_span_is_named_by_what_is_done_and_not_by_what_it_is_done_to() -> None:
    assert _label("read_file: salaries.csv") == "read_file"
    assert _label("Look around") == "Look around"
    assert "salaries" not in _shown("read_file: salaries.csv:9f86d0#2")
    assert _shown("read_file: salaries.csv:9f86d0#2") == "read_file:9f86d0#2"
    assert _shown("Look:9f86d0") == "Look:9f86d0"

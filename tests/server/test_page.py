"""The page's files: open to all, harmless, and never a way to anything else."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType

import httpx
import pytest
from fastapi import FastAPI

from midflight.agents import agent
from midflight.control import Control
from midflight.interfaces.app import create_app
from midflight.interfaces.http import page
from midflight.journal.phases import Role
from midflight.run import Run
from midflight.stores.memory import MemoryStore
from server.house import House, opened, serving
from server.reader import status_of

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
ROOT = Path(__file__).resolve().parent.parent.parent


@agent("idle")
async def idle(run: Run) -> None:
    await run.ask("And now?")


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of three files."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text('<head><base href="/"></head>Hello', encoding="utf-8")
    (tmp_path / "assets/app-1.js").write_text("let a = 1;" * 100, encoding="utf-8")
    (tmp_path / "assets/font-1.woff2").write_bytes(b"wOF2")
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    monkeypatch.setattr(page, "WEB", tmp_path)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with opened(Control(MemoryStore()), [idle]) as there:
        yield there


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize("path", ["/", "/runs/r-1", "/threads/t-1"])
async def test_the_app_is_given_to_everybody_and_asked_for_anew_each_time(
    house: House, path: str
) -> None:
    async with house.client(None) as http:
        answer = await http.get(path)

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.text == '<head><base href="/"></head>Hello'
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-content-type-options"] == "nosniff"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.usefixtures("built")
async def test_an_asset_never_changes_and_is_packed_for_who_can_unpack_it(house: House) -> None:
    async with house.client(None) as http:
        packed = await http.get("/assets/app-1.js", headers={"accept-encoding": "gzip"})
        bare = await http.get("/assets/app-1.js", headers={"accept-encoding": "identity"})
        font = await http.get("/assets/font-1.woff2")

    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in bare.headers
    assert packed.text == bare.text == "let a = 1;" * 100
    assert "immutable" in bare.headers["cache-control"]
    assert "javascript" in bare.headers["content-type"]
    assert font.content == b"wOF2"


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize(
    "path",
    [
        "/assets/../secret.txt",
        "/assets/..%2fsecret.txt",
        "/assets/%2e%2e/secret.txt",
        "/assets//etc/passwd",
        "/assets/",
        "/assets/nothing.js",
        "/secret.txt",
        "/index.html",
        "/runs/r-1/../../secret.txt",
    ],
)
async def test_no_path_leads_to_another_file(house: House, path: str) -> None:
    lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{house.port}"]
    status, body = await status_of(house.port, lines)

    assert status in {401, 404}
    assert "secret" not in str(body)


@pytest.mark.usefixtures("built")
async def test_only_looking_is_open_and_only_at_the_page(house: House) -> None:
    async with house.client(None) as http:
        assert (await http.post("/", json={})).status_code == 401
        assert (await http.get("/v1/runs")).status_code == 401
        assert (await http.get("/", headers={"host": "evil.example"})).status_code == 421
        assert (await http.get("/?token=abc")).status_code == 400
        assert (await http.head("/")).status_code == 200


@pytest.mark.usefixtures("built")
async def test_where_it_is_mounted_the_page_knows_its_base() -> None:
    mine = FastAPI()
    mine.mount("/agents", create_app(Control(MemoryStore())))
    async with (
        serving(mine) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http,
    ):
        assert '<base href="/agents/">' in (await http.get("/agents/runs/r-1")).text
        assert (await http.get("/agents/assets/app-1.js")).status_code == 200


async def test_a_copy_without_the_page_says_so(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "WEB", tmp_path / "nowhere")
    async with house.client(None) as http:
        answer = await http.get("/")

    assert answer.status_code == 503
    assert "was not built" in answer.text
    assert "make web" in answer.text


async def test_runs_are_found_by_their_words(house: House) -> None:
    async with house.client() as http:
        for brief in ("Churn of June", "Churn of May", "Invoices"):
            await http.post("/v1/runs", json={"agent": "idle", "brief": brief})
        found = (await http.get("/v1/runs", params={"search": "churn JUNE"})).json()

    assert [row["title"] for row in found["rows"]] == ["Churn of June"]


async def test_a_viewer_declines_nothing(house: House) -> None:
    async with house.client(Role.VIEWER) as http, house.client() as controller:
        started = await controller.post("/v1/runs", json={"agent": "idle", "brief": "wait"})
        run = started.json()["run"]
        answer = await http.post(f"/v1/runs/{run}/decline", json={"question": 3})

    assert (answer.status_code, answer.json()["changed"]) == (403, False)


def test_the_types_of_the_page_are_those_of_the_server(types: ModuleType) -> None:
    assert types.OUT.read_text(encoding="utf-8") == types.written(), "run `make web-types`"


@pytest.fixture
def types() -> ModuleType:
    """``scripts/web_types.py``."""
    spec = importlib.util.spec_from_file_location("web_types", ROOT / "scripts/web_types.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

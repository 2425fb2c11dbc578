"""What ``deploy/compose.yaml`` says is true of the commands, routes and times that there are."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import anyio
import pytest
import typer.main
import yaml  # type: ignore[import-untyped]
from starlette.routing import Route

from engines.conftest import RestateHost
from midflight.cli import serve, worker
from midflight.cli.placing import placing
from midflight.engines.leaving import GRACE_S
from midflight.run import Run, agent
from midflight.server.routes_house import router

COMPOSE = Path(__file__).parents[2] / "deploy" / "compose.yaml"
APPS = {"serve": serve.app, "worker": worker.app}
OURS = ("server", "worker-v1")
SECRET = re.compile(r"pass(word|file)?|secret|token|key", re.IGNORECASE)


@pytest.fixture
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
    return found


def options(service: dict[str, Any]) -> dict[str, Any]:
    """What its command is given, read by the command itself."""
    text = re.sub(r"\$\{\w+:\?[^}]*\}", "agents.example.com", service["command"])
    name, *arguments = shlex.split(text)
    command = typer.main.get_command(APPS[name])
    return dict(command.make_context(name, arguments).params)


def seconds(text: str) -> float:
    number, unit = re.fullmatch(r"(\d+)(s|m)", text).groups()  # type: ignore[union-attr]
    return float(number) * {"s": 1, "m": 60}[unit]


def health(service: dict[str, Any]) -> str:
    """The URL that its health check asks for."""
    (url,) = re.findall(r"http://[^\s']+", service["healthcheck"]["test"][-1])
    return str(url)


@pytest.mark.parametrize("name", OURS)
def test_the_commands_are_ones_that_the_program_understands(
    name: str, services: dict[str, Any]
) -> None:
    service = services[name]
    given, places = options(service), service["environment"]

    placed = placing(given["engine"], places["MIDFLIGHT_STORE"], places["MIDFLIGHT_RESTATE"])
    assert placed.engine == "restate"
    assert str(given["port"]) in health(service)


@pytest.mark.parametrize("name", OURS)
def test_nobody_is_killed_before_their_runs_had_time_to_rest(
    name: str, services: dict[str, Any]
) -> None:
    patience = options(services[name])["drain"] + GRACE_S
    patience += worker.ANSWERS_S if name != "server" else 0

    assert seconds(services[name]["stop_grace_period"]) > patience


def test_workers_are_registered_under_their_own_name_and_port(services: dict[str, Any]) -> None:
    given = options(services["worker-v1"])
    uri = urlsplit(given["uri"])

    assert (uri.hostname, uri.port) == ("worker-v1", given["port"])


def test_the_servers_health_check_names_a_route_that_it_has(services: dict[str, Any]) -> None:
    paths = {route.path for route in router.routes if isinstance(route, Route)}

    assert urlsplit(health(services["server"])).path in paths


@pytest.mark.anyio
@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.node
async def test_a_worker_answers_its_health_check(
    services: dict[str, Any], restate_host: RestateHost
) -> None:
    @agent("healthy")
    async def clerk(run: Run) -> None:
        pass

    path = urlsplit(health(services["worker-v1"])).path
    async with restate_host(clerk):
        url = f"http://127.0.0.1:{restate_host.link.port}{path}"
        answer = await anyio.to_thread.run_sync(urlopen, url, None, 5)
        assert answer.status == 200
        answer.close()


def test_a_frozen_worker_is_noticed_in_time_although_the_second_try_leads_there_too(
    services: dict[str, Any],
) -> None:
    told = services["restate"]["environment"]
    kept = "RESTATE_WORKER__INVOKER__HTTP2_KEEP_ALIVE_"

    assert 2 * (seconds(told[f"{kept}INTERVAL"]) + seconds(told[f"{kept}TIMEOUT"])) < 20


def test_every_service_is_looked_after_and_bounded(services: dict[str, Any]) -> None:
    for service in services.values():
        assert {"test", "interval", "timeout", "retries"} <= service["healthcheck"].keys()
        assert {"cpus", "memory"} == service["deploy"]["resources"]["limits"].keys()


def test_no_secret_is_written_down(services: dict[str, Any]) -> None:
    for service in services.values():
        for name, value in service["environment"].items():
            assert not SECRET.search(name) or str(value).startswith("/run/secrets/"), name
            assert "@" not in value or re.search(r"//\w+@", value), name  # a user, no password

"""What ``deploy/compose.yaml`` says is true of the commands, routes and times that there are."""

from __future__ import annotations

import re
import shlex
from typing import Any
from urllib.parse import urlsplit

import pytest
import typer.main
from starlette.routing import Route

from engines.composed import COMPOSE, health, mebibytes, options, seconds, services
from midflight.engines.local_engine import GRACE_S
from midflight.interfaces.cli.arguments import placing
from midflight.interfaces.cli.commands import serve_command, token_command, worker_command
from midflight.interfaces.http.routes_server import router

OURS = ("server", "worker-v1")
SECRET = re.compile(r"pass(word|file)?|secret|token|key", re.IGNORECASE)


@pytest.fixture(name="services")
def composed() -> dict[str, Any]:
    return services()


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
    patience += serve_command.REQUESTS_S if name == "server" else worker_command.ANSWERS_S

    assert seconds(services[name]["stop_grace_period"]) > patience


def test_a_link_is_made_in_the_file_of_keys_that_the_server_reads(services: dict[str, Any]) -> None:
    head = COMPOSE.read_text(encoding="utf-8").replace("\\\n#", "")
    (said,) = re.findall(r"exec server midflight token (.*?)  +#", head)
    command = typer.main.get_command(token_command.app)
    made = command.make_context("token", shlex.split(said)).params

    server = options(services["server"])
    assert made["keys"] == server["keys"]
    assert made["link"].startswith("https://")
    assert server["public_url"] == "https://agents.example.com"


def test_workers_are_registered_under_their_own_name_and_port(services: dict[str, Any]) -> None:
    given = options(services["worker-v1"])
    uri = urlsplit(given["uri"])

    assert (uri.hostname, uri.port) == ("worker-v1", given["port"])


def test_workers_have_an_image_of_their_own_that_a_build_of_others_leaves_alone(
    services: dict[str, Any],
) -> None:
    assert services["worker-v1"]["image"] == "agents:v1"
    assert "image" not in services["server"]


def test_the_servers_health_check_names_a_route_that_it_has(services: dict[str, Any]) -> None:
    paths = {route.path for route in router.routes if isinstance(route, Route)}

    assert urlsplit(health(services["server"])).path in paths


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


def test_restate_is_told_to_leave_room_for_calls_below_its_limit(services: dict[str, Any]) -> None:
    """Else its cache grows until the system ends it, and with it every call."""
    cache = mebibytes(services["restate"]["environment"]["RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE"])
    limit = mebibytes(services["restate"]["deploy"]["resources"]["limits"]["memory"])

    assert cache <= limit / 2


def test_no_secret_is_written_down(services: dict[str, Any]) -> None:
    for service in services.values():
        for name, value in service["environment"].items():
            assert not SECRET.search(name) or str(value).startswith("/run/secrets/"), name
            assert "@" not in value or re.search(r"//\w+@", value), name  # a user, no password

"""The way back that is printed leads to where the command has worked, whatever is set elsewhere."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from cli.scene import Scene
from midflight.interfaces.cli.target import Where, where_of

URL, OTHER = "http://127.0.0.1:8321", "http://127.0.0.1:9999"
PLACES = [
    Where(store="midflight.db"),
    Where(store="other.db"),
    Where(store="with a space.db"),
    Where(store="postgresql://ann@db/runs?schema=a&b"),
    Where(server=URL),
    Where(server=URL, token_file="my token"),
]
SETTINGS: list[dict[str, str]] = [
    {},
    {"MIDFLIGHT_STORE": "midflight.db"},
    {"MIDFLIGHT_STORE": "other.db"},
    {"MIDFLIGHT_SERVER": URL},
    {"MIDFLIGHT_SERVER": OTHER},
    {"MIDFLIGHT_SERVER": OTHER, "MIDFLIGHT_STORE": "other.db"},
]


@pytest.mark.parametrize("where", PLACES, ids=str)
@pytest.mark.parametrize("environment", SETTINGS, ids=str)
def test_a_command_that_is_printed_works_at_the_same_place(
    where: Where, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MIDFLIGHT_STORE", "MIDFLIGHT_SERVER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    called, verb, scope, *options = shlex.split(where.command("release", "all"))

    assert [called, verb, scope] == ["midflight", "release", "all"]
    told = dict(zip(options[::2], options[1::2], strict=True))
    given = [told.get(name, "") for name in ("--store", "--server", "--token-file")]
    assert where_of(*given) == where


def test_what_is_set_already_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIDFLIGHT_STORE", "other.db")
    assert Where(store="other.db").command("runs") == "midflight runs"


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_release_that_a_kill_names_releases_what_it_has_stopped(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    for store in ("a.db", "b.db"):
        scene.said("run", "cli.staff:asker", "tea", "--detach", "--store", store)
    told = scene.said("kill", "all", "--yes", "--store", "b.db", MIDFLIGHT_STORE="a.db")
    back = shlex.split(told.split("Release with: midflight ")[1].split("\n")[0])
    assert "all may move again" in scene.said(*back, MIDFLIGHT_STORE="a.db")

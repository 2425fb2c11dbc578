"""The table of verbs and doors is what is there: every verb of ``Control``, by names that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from midflight.channels.discord_commands import commands_for
from midflight.cli.lazily import imported
from midflight.cli.main import COMMANDS
from midflight.control import Control
from midflight.control.remote import RemoteControl
from midflight.server import routes_events, routes_house, routes_runs, routes_threads
from midflight.tui.slash import SLASH

ROOT = Path(__file__).resolve().parent.parent
DOORS = ("Python", "command", "HTTP", "terminal app", "page", "Discord")
Row = dict[str, str]


def table() -> list[Row]:
    """The rows of the table, by the names of its columns."""
    page = (ROOT / "docs/how-to/controls.md").read_text(encoding="utf-8")
    part = page.split("## The same through every door")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    assert cells(lines[0]) == list(DOORS)
    return [dict(zip(DOORS, cells(line), strict=True)) for line in lines[2:]]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def names(cell: str) -> list[str]:
    """What stands in code."""
    return re.findall(r"`([^`]+)`", cell)


ROWS = table()


def test_every_verb_of_control_has_its_row_and_every_row_a_verb() -> None:
    verbs = {name for name in dir(Control) if not name.startswith("_")}
    listed = [name for row in ROWS for name in names(row["Python"])]
    assert set(listed) == verbs
    assert len(listed) == len(verbs)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: names(row["Python"])[0])
class TestARow:
    def test_has_a_name_or_a_reason_at_every_door(self, row: Row) -> None:
        assert all(row[door] for door in DOORS)

    def test_is_a_method_on_a_store_and_over_http(self, row: Row) -> None:
        assert all(hasattr(RemoteControl, name) for name in names(row["Python"]))

    def test_names_commands_and_options_that_are_there(self, row: Row) -> None:
        for name in names(row["command"]):
            command, *options = name.split()
            if command.startswith("--"):  # of every verb
                command, options = "pause", [command]
            assert command in COMMANDS
            known = {option for each in imported(command).params for option in each.opts}
            assert set(options) <= known

    def test_names_routes_that_are_there(self, row: Row) -> None:
        assert set(names(row["HTTP"])) <= ROUTES

    def test_names_words_of_the_terminal_app(self, row: Row) -> None:
        assert set(names(row["terminal app"])) <= {f"/{word}" for word in SLASH}

    def test_names_what_is_written_on_the_page(self, row: Row) -> None:
        assert all(name in PAGE for name in names(row["page"]))

    def test_names_commands_of_discord(self, row: Row) -> None:
        assert set(names(row["Discord"])) <= DISCORD


ROUTES = {
    f"{method} {route.path}"
    for module in (routes_runs, routes_threads, routes_house, routes_events)
    for route in module.router.routes
    for method in getattr(route, "methods", ())
}
PAGE = "\n".join(
    path.read_text(encoding="utf-8")
    for path in (ROOT / "web/src").rglob("*.ts*")
    if "generated" not in path.parts
)
DISCORD = {f"/{command.name}" for command in commands_for(None)}  # type: ignore[arg-type]

"""Every verb of the table at every door: there, or absent for a reason, and the same everywhere.

The page docs/how-to/controls.md names each verb at each door. Here it is checked that those names
exist, that each door takes what the table says, needs the role that it says, leaves one record in
the audit, the same as any other door does, and gives the same acknowledgement or refusal.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_type_hints

import anyio
import pytest
from starlette.routing import Route

from doors import presses
from doors.presses import KEY, Scene, worker
from midflight.client import Client
from midflight.control import Control
from midflight.control.any_control import AnyControl
from midflight.control.local_control import handlers
from midflight.control.recorder import Recorder
from midflight.control.remote import RemoteControl
from midflight.control.todos import Todos
from midflight.control.verbs import VERBS, Verb
from midflight.engines.local_engine import NoEngine
from midflight.errors import MidflightError, NotAllowed
from midflight.handles import RunHandle, ThreadHandle
from midflight.interfaces.chat.discord_interactions import commands_for
from midflight.interfaces.cli.console import person
from midflight.interfaces.cli.main import COMMANDS, imported, main
from midflight.interfaces.http import routes_journals, routes_server
from midflight.interfaces.http.bodies import BODIES
from midflight.interfaces.tui.slash_commands import SLASH
from midflight.journal.phases import Role, rank
from midflight.journal.record import Actor
from midflight.stores import open_store
from midflight.stores.memory import MemoryStore
from server.house import opened

ROOT = Path(__file__).resolve().parent.parent.parent
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


# ── the page that names them ─────────────────────────────────────────────────────────────────


def test_every_verb_of_control_has_its_row_and_every_row_a_verb() -> None:
    verbs = {name for name in dir(Control) if not name.startswith("_")}
    listed = [name for row in ROWS for name in names(row["Python"])]
    assert set(listed) == verbs
    assert len(listed) == len(verbs)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: names(row["Python"])[0])
class TestARow:
    def test_has_a_name_or_a_reason_at_every_door(self, row: Row) -> None:
        assert all(row[door] for door in DOORS)

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
    for router in (routes_journals.run_router, routes_journals.thread_router, routes_server.router)
    for route in router.routes
    if isinstance(route, Route)
    for method in route.methods or ()
}
PAGE = "\n".join(
    path.read_text(encoding="utf-8")
    for path in (*(ROOT / "web/src").rglob("*.ts*"), *(ROOT / "src/midflight/view").glob("*.py"))
    if "generated" not in path.parts
)
"""The page, and the words that it is sent."""
DISCORD = {f"/{command.name}" for command in commands_for(None)}  # type: ignore[arg-type]


# ── what each door has and takes ─────────────────────────────────────────────────────────────

EACH = pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)


def taken(verb: Verb) -> list[str]:
    return [argument.name for argument in verb.takes]


@EACH
def test_a_control_has_a_method_that_takes_what_the_table_says(verb: Verb) -> None:
    method = inspect.signature(getattr(AnyControl, verb.name))
    own = [p for p in method.parameters.values() if p.name not in {"self", "by", "who"}]
    target, *others = own if verb.name != "converse" else [own[1], own[0], *own[2:]]
    assert target.name == verb.on.replace("run or thread", "to")
    assert sorted(p.name for p in others) == sorted(taken(verb))
    needed = {p.name for p in others if p.default is inspect.Parameter.empty}
    assert needed == {argument.name for argument in verb.takes if argument.needed}
    hints = get_type_hints(getattr(AnyControl, verb.name))
    if verb.key:
        assert ("RunBy" in str(hints["by"])) == verb.expect


@EACH
def test_a_control_over_http_is_no_exception(verb: Verb) -> None:
    assert getattr(RemoteControl, verb.name) is getattr(Control, verb.name)


def test_every_verb_has_one_handler() -> None:
    record = Recorder(MemoryStore(), NoEngine(), presses.numbered())
    assert handlers(record, Todos(record)).keys() == VERBS.keys()


@EACH
def test_a_server_has_its_routes_and_their_bodies_hold_what_the_table_says(verb: Verb) -> None:
    assert {f"POST {path}" for path in verb.paths} <= ROUTES
    if verb.name in BODIES:
        fields = BODIES[verb.name].model_fields
        assert fields.keys() - {"expect"} == set(taken(verb))
        assert ("expect" in fields) == verb.expect
        needed = {name for name, field in fields.items() if field.is_required()}
        assert needed <= {argument.name for argument in verb.takes if argument.needed}


@EACH
def test_a_handle_has_it_or_there_is_a_reason(verb: Verb) -> None:
    if verb.name in presses.NO_HANDLE or verb.name in {"answer", "decline"}:
        return  # of a question, whose handle knows its position
    kinds = {"agent": Client, "scope": Client, "thread": ThreadHandle}
    method = inspect.signature(getattr(kinds.get(verb.on, RunHandle), verb.name))
    takes = {*taken(verb), *verb.options, "self", "agent", "scope", "thread"} - {"who"}
    assert set(method.parameters) <= takes
    assert set(taken(verb)) <= set(method.parameters)


def test_every_other_door_has_each_verb_or_a_reason() -> None:
    at = Scene("r-1", "t-1", 1)
    shell = {name for name in VERBS if presses.command(name, at)} | {"answer", "decline"}
    assert shell ^ presses.NO_COMMAND.keys() == VERBS.keys()
    assert {slash.verb for slash in SLASH.values()} ^ presses.NO_SLASH.keys() == VERBS.keys()
    chat = presses.PRESSES.keys() | presses.TOLD.keys()
    assert chat ^ presses.NO_CHAT.keys() == VERBS.keys()


# ── what each door brings about ──────────────────────────────────────────────────────────────

WHO = Actor(by="the-operator", role=Role.OPERATOR)


async def outcome(doing: Any) -> Any:
    """Return what a press gives: its answer, or its refusal in words."""
    try:
        return await doing
    except MidflightError as error:
        return type(error).__name__, str(error)


async def begun(who: Actor, verb: Verb) -> tuple[Control, Scene, int]:
    store = MemoryStore(lambda: 1_700_000_000.0)
    at = await presses.scene(store, who, ended=verb.name == "fork")
    return Control(store, who=who, ids=presses.numbered()), at, len(await store.audit_page(0))


def by(verb: Verb) -> dict[str, Any]:
    return {"key": KEY} if verb.key else {}


async def directly(verb: Verb, who: Actor) -> tuple[Any, list[tuple[str, str, str]]]:
    """Return the answer to a verb that is called on a control, and its record."""
    control, at, before = await begun(who, verb)
    answer = await outcome(presses.pressed(control, verb.name, at, **by(verb)))
    return answer, await presses.recorded(control.store, before)


@asynccontextmanager
async def over_http(
    verb: Verb, role: Role
) -> AsyncIterator[tuple[RemoteControl, Scene, Control, int]]:
    who = Actor(by=f"the-{role}", role=role, channel="http")
    control, at, before = await begun(who, verb)
    async with (
        opened(control, [worker]) as house,
        RemoteControl.open(house.url, house.tokens[role], patience_s=5) as remote,
    ):
        yield remote, at, control, before


@EACH
@pytest.mark.anyio
async def test_over_http_it_is_answered_refused_and_recorded_as_here(verb: Verb) -> None:
    answer, record = await directly(verb, WHO)
    async with over_http(verb, Role.OPERATOR) as (remote, at, control, before):
        there = await outcome(presses.pressed(remote, verb.name, at, **by(verb)))
        assert (there, await presses.recorded(control.store, before)) == (answer, record)
    assert [action for action, _, _ in record] == [verb.said]


@EACH
@pytest.mark.parametrize("role", Role)
@pytest.mark.anyio
async def test_it_needs_the_role_that_the_table_says_here_and_over_http(
    verb: Verb, role: Role
) -> None:
    who = Actor(by=f"the-{role}", role=role)
    control, at, _ = await begun(who, verb)
    answers = [await outcome(presses.pressed(control, verb.name, at, **by(verb)))]
    async with over_http(verb, role) as (remote, there, _, _):
        answers.append(await outcome(presses.pressed(remote, verb.name, there, **by(verb))))
    kept_out = [isinstance(one, tuple) and one[0] == NotAllowed.__name__ for one in answers]
    assert kept_out == [rank(role) < rank(verb.role)] * 2


@EACH
@pytest.mark.anyio
async def test_by_a_handle_it_is_answered_refused_and_recorded_as_on_a_control(verb: Verb) -> None:
    if verb.name in presses.NO_HANDLE:
        return
    answer, record = await directly(verb, WHO)
    control, at, before = await begun(WHO, verb)
    there = await outcome(presses.handled(Client(control, WHO), verb.name, at))
    assert (there, await presses.recorded(control.store, before)) == (answer, record)


@EACH
@pytest.mark.anyio
async def test_behind_a_slash_it_is_refused_and_recorded_as_on_a_control(verb: Verb) -> None:
    if verb.name in presses.NO_SLASH:
        return
    _, record = await directly(verb, WHO)
    control, at, before = await begun(WHO, verb)
    await outcome(presses.slashed(control, verb.name, at, WHO))
    assert await presses.recorded(control.store, before) == record


@EACH
@pytest.mark.anyio
async def test_in_a_chat_it_is_refused_and_recorded_as_on_a_control(verb: Verb) -> None:
    if verb.name in presses.NO_CHAT:
        return
    _, record = await directly(verb, WHO)
    control, at, before = await begun(WHO, verb)
    await outcome(presses.chatted(control, verb.name, at, WHO))
    assert await presses.recorded(control.store, before) == record


@EACH
def test_in_a_shell_it_is_refused_and_recorded_as_on_a_control(
    verb: Verb, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address, who = str(tmp_path / "runs.db"), Actor(by=person(), role=Role.OPERATOR, channel="cli")

    async def set_up() -> tuple[Scene, int, list[tuple[str, str, str]]]:
        async with open_store(address) as store:
            at = await presses.scene(store, who, ended=verb.name == "fork")
            return at, len(await store.audit_page(0)), (await directly(verb, who))[1]

    async def look(before: int) -> list[tuple[str, str, str]]:
        async with open_store(address) as store:
            return await presses.recorded(store, before)

    at, before, record = anyio.run(set_up)
    typed = presses.command(verb.name, at)
    if typed:
        main([*typed, "--store", address])
        assert anyio.run(look, before) == record, capsys.readouterr()

"""What people and models write never becomes a secret, and a secret never becomes a line of log."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from midflight.agents import agent
from midflight.errors import InvalidRequest, StepFailed
from midflight.interfaces.cli.console import LogLines
from midflight.journal.phases import Phase
from midflight.run import Run
from midflight.tools.declaration import tool
from midflight.tools.secret import Secret
from midflight.tools.specs import parse
from scenarios.conftest import Open
from scenarios.rests import asked

pytestmark = pytest.mark.anyio

FORGED: dict[str, Any] = {"$secret": "OF_THE_SERVER"}


@pytest.fixture(autouse=True)
def of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_SERVER", "tr3asure")
    monkeypatch.setenv("CRM_TOKEN", "hush-hush-4711")


SENT: list[Any] = []


@tool(effect="once", name="attacks.post", approval=True)
async def post(to: str, token: Any, body: Any = "") -> str:
    SENT.append([each.reveal() if isinstance(each, Secret) else each for each in (token, body)])
    return "posted"


@agent()
async def clerk(run: Run) -> str:
    try:
        return str(await run.step("Post", post, "ann", Secret("CRM_TOKEN"), body="hello"))
    except StepFailed as failed:
        return f"failed: {failed}"


OWN = {"$secret": "CRM_TOKEN"}


@pytest.mark.parametrize(
    ("edit", "sent"),
    [
        ({"args": ["eve", FORGED]}, None),
        ({"kwargs": {"body": FORGED}}, None),
        ({"kwargs": {"body": {"deep": [FORGED]}}}, None),
        ({"kwargs": {"body": OWN}}, None),
        ({"args": ["eve", [OWN]]}, None),
        ({"args": ["bob", OWN]}, ["hush-hush-4711", "hello"]),
        ({"kwargs": {"body": "good bye"}}, ["hush-hush-4711", "good bye"]),
    ],
)
async def test_an_edit_refers_to_no_secret_but_those_that_the_code_put_at_that_place(
    driving: Open, edit: Any, sent: Any
) -> None:
    SENT.clear()
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        question = await asked(control, run)
        await control.answer(run, question.position, {"edit": edit})
        result = await control.result(run)

    assert ([sent] if sent else []) == SENT
    assert ("Only a program can pass a secret" in str(result)) == (sent is None)


async def test_arguments_of_a_model_refer_to_no_secret() -> None:
    @tool(effect="read", name="attacks.look")
    async def look(what: Any) -> str:
        return ""

    for arguments in ('{"what": {"$secret": "HOME"}}', '{"what": [{"a": {"$secret": "HOME"}}]}'):
        with pytest.raises(InvalidRequest, match="Only a program can pass a secret"):
            parse(look, arguments)


async def test_data_that_look_like_a_secret_are_not_put_on_record(driving: Open) -> None:
    @tool(effect="write", name="attacks.keep")
    async def keep(what: Any) -> None:
        SENT.append(what)

    @agent()
    async def careless(run: Run) -> None:
        await run.step("Keep", keep, {"from a form": [FORGED]})

    SENT.clear()
    async with driving(careless) as control:
        state = await control.ended(await control.start(careless, "work"))

    assert (state.phase, SENT) == (Phase.FAILED, [])
    assert "Only a program can pass a secret" in state.error


async def test_a_traceback_is_logged_with_dots_where_a_secret_was(
    driving: Open, caplog: pytest.LogCaptureFixture
) -> None:
    @tool(effect="read", name="attacks.fail")
    async def fail(token: Secret) -> None:
        raise ValueError(f"401 for Bearer {token.reveal()}")

    @agent()
    async def unlucky(run: Run) -> None:
        try:
            await run.step("Look", fail, Secret("CRM_TOKEN"))
        except StepFailed as failed:
            raise RuntimeError("it cannot go on") from failed

    async with driving(unlucky) as control:
        await control.ended(await control.start(unlucky, "work"))

    (record,) = [r for r in caplog.records if getattr(r, "action", "") == "agent_failed"]
    for form in (logging.Formatter(), LogLines()):
        told = form.format(record)
        assert "hush-hush" not in told
        assert "401 for Bearer" in told
        assert "it cannot go on" in told


def test_a_log_of_others_holds_no_secret_either() -> None:
    Secret("CRM_TOKEN").reveal()
    try:
        raise ValueError("no hush-hush-4711")
    except ValueError as error:
        trouble = (ValueError, error, error.__traceback__)
    record = logging.makeLogRecord({"msg": "for hush-hush-4711", "exc_info": trouble})

    assert "hush-hush" not in LogLines().format(record)

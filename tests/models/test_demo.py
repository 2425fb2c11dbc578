"""The demo model works with the tools it is given, and never passes for more than it is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import anyio
import pytest

from midflight.models.demo_model import DemoModel
from midflight.models.model import Model, Prompt, Reply, TextDelta, ToolSpec, Turn, complete

pytestmark = pytest.mark.anyio


def spec(name: str, *required: str) -> ToolSpec:
    properties = {each: {"type": "string"} for each in required}
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return ToolSpec(name, name, schema)


TOOLS = (
    spec("list_files", "path"),
    spec("read_file", "path"),
    spec("write_file", "path", "content", "version"),
    spec("shell", "command"),
)
FILES = {"plan.md": "Ship it on Friday.", "sales.csv": "ann,3\nbob,5"}


async def work(model: Model, *turns: Turn, files: dict[str, str]) -> tuple[list[Any], str]:
    """A loop as an agent has it: what was called, and what was said at the end."""
    conversation, called = list(turns), list[Any]()
    for _ in range(10):
        reply = await complete(model, Prompt("", tuple(conversation), TOOLS))
        conversation.append(reply.as_turn())
        if not reply.calls:
            return called, reply.text
        for call in reply.calls:
            given = call.as_object()
            called.append((call.name, given.get("path", given.get("command"))))
            conversation.append(Turn("tool", act(call.name, given, files), call_id=call.id))
    raise AssertionError("it does not come to an end")


def act(name: str, given: Any, files: dict[str, str]) -> str:
    match name:
        case "list_files":
            return json.dumps(sorted(files))
        case "read_file":
            return files[given["path"]]
        case "write_file":
            assert given["version"] == ""
            files[given["path"]] = given["content"]
            return "written"
        case _:
            return "ran"


def quick() -> DemoModel:
    return DemoModel(pace=0, think=0)


async def test_it_makes_a_report_of_the_files_it_finds() -> None:
    files = dict(FILES)

    called, said = await work(quick(), Turn("user", "Make a report, please."), files=files)

    assert [name for name, _ in called] == ["list_files", "read_file", "read_file", "write_file"]
    assert "Ship it on Friday." in files["report.md"]
    assert "demo model" in files["report.md"]
    assert said.startswith("(demo model)")


async def test_a_report_that_is_there_is_not_written_over() -> None:
    files = {**FILES, "report.md": "mine"}

    await work(quick(), Turn("user", "Make a report."), files=files)

    assert files["report.md"] == "mine"
    assert "report-2.md" in files


async def test_it_writes_a_note_and_runs_a_command() -> None:
    files = dict(FILES)

    noted, _ = await work(quick(), Turn("user", "Write a note: call Ann"), files=files)
    ran, _ = await work(quick(), Turn("user", "Please run `make test`"), files=files)

    assert noted[-1] == ("write_file", "note.md")
    assert "call Ann" in files["note.md"]
    assert ran == [("shell", "make test")]


async def test_it_lists_files() -> None:
    _, said = await work(quick(), Turn("user", "Which files are there?"), files=dict(FILES))

    assert "plan.md, sales.csv" in said


async def test_a_question_in_the_middle_is_answered_and_the_work_goes_on() -> None:
    first = await complete(quick(), Prompt("", (Turn("user", "Make a report"),), TOOLS))
    turns = (
        Turn("user", "Make a report"),
        first.as_turn(),
        Turn("tool", '["plan.md"]', call_id=first.calls[0].id),
        Turn("user", "What are you up to?"),
    )

    reply = await complete(quick(), Prompt("", turns, TOOLS))

    assert "working on “Make a report”. So far: list_files." in reply.text
    assert [call.name for call in reply.calls] == ["read_file"]


async def test_a_side_question_without_tools_is_answered_in_words() -> None:
    turns = (Turn("user", "Make a report"), Turn("user", "How far are you?"))

    reply = await complete(quick(), Prompt("", turns))

    assert reply.calls == ()
    assert "So far: nothing yet" in reply.text


@pytest.mark.parametrize("wish", ["Prove the Riemann hypothesis", "", "?"])
async def test_what_it_does_not_understand_it_says(wish: str) -> None:
    reply = await complete(quick(), Prompt("", (Turn("user", wish),), TOOLS))

    assert reply.calls == ()
    assert reply.text.startswith("(demo model)")


async def test_without_the_tool_it_needs_it_says_so() -> None:
    turns = (Turn("user", "Make a report"),)

    reply = await complete(quick(), Prompt("", turns, (spec("send_mail", "to"),)))

    assert "if I am given the tools" in reply.text


@pytest.mark.parametrize(
    ("message", "choice"),
    [
        ("Also mind the EU customers", "incorporate"),
        ("Later, mail it to Bob", "defer"),
        ("When you're done, tidy up", "defer"),
        ("Do the invoices instead", "switch"),
        ("First do the invoices", "switch"),
        ("This is urgent: the site is down", "switch"),
    ],
)
async def test_messages_are_sorted_by_simple_words(message: str, choice: str) -> None:
    actions = {"type": "string", "enum": ["incorporate", "switch", "defer"]}
    properties = {"action": actions, "reason": {"type": "string"}, "ids": {"type": "array"}}
    schema = {"type": "object", "properties": properties, "required": ["action", "reason"]}
    tools = (ToolSpec("triage", "Choose.", schema),)

    reply = await complete(quick(), Prompt("", (Turn("user", message),), tools, choice="triage"))

    (call,) = reply.calls
    assert call.name == "triage"
    assert call.as_object()["action"] == choice
    assert call.as_object()["reason"].startswith("(demo model)")


async def test_it_is_free_and_says_that_its_figures_are_guessed() -> None:
    spent = (await complete(quick(), Prompt("", (Turn("user", "hello"),)))).spent

    assert (spent.usd, spent.model, spent.estimated) == (0.0, "demo model", True)
    assert quick().name == "demo model"


async def test_it_speaks_word_by_word_and_can_be_stopped() -> None:
    heard: list[str] = []

    def three_words(word: str) -> None:
        heard.append(word)
        if len(heard) == 3:
            scope.cancel()

    with anyio.CancelScope() as scope:
        prompt = Prompt("", (Turn("user", "Tell me all you know"),), TOOLS)
        await complete(DemoModel(pace=0.01, think=0), prompt, three_words)

    assert heard == ["(demo ", "model) ", "I "]


async def test_the_code_in_the_docs_asks_it(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).parents[2] / "docs" / "models.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    scope: dict[str, Any] = {}
    exec(compile(code, page.name, "exec"), scope)
    scope["model"] = quick()

    said = await scope["ask"]()

    assert said.startswith("(demo model)")
    assert capsys.readouterr().out


async def test_its_pieces_are_its_text() -> None:
    async with quick().stream(Prompt("", (Turn("user", "hello"),), TOOLS)) as stream:
        pieces = [piece async for piece in stream]

    reply = pieces[-1]
    assert isinstance(reply, Reply)
    assert "".join(p.text for p in pieces if isinstance(p, TextDelta)) == reply.text

"""A schema from a stranger fetches nothing, reads nothing and stops nobody else."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from midflight.agents import agent
from midflight.errors import InvalidRequest
from midflight.run import Run
from midflight.schemas import TooMuchWork, check_schema, misfit
from midflight.tools.declaration import tool
from midflight.tools.mcp import McpServer
from midflight.tools.specs import parse
from scenarios.conftest import Open
from scenarios.rests import asked

pytestmark = pytest.mark.anyio

HERE = Path(__file__).parent
QUICK_S = 3.0  # generous: the machine may be busy, and what is caught takes minutes


@contextmanager
def eavesdropping() -> Iterator[tuple[int, list[bytes]]]:
    """A port on loopback, and what was sent to it."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        over = threading.Event()

        def listen() -> None:
            while not over.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                with connection:
                    connection.settimeout(1)
                    heard.append(connection.recv(1_000))

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield listener.getsockname()[1], heard
        finally:
            over.set()
            thread.join()


def hidden_below_an_unknown_keyword(url: str) -> dict[str, Any]:
    """All of its references begin with #, and one is to a part that calls itself ``url``."""
    return {
        "type": "object",
        "properties": {"a": {"$ref": "#/unknown/part"}},
        "unknown": {"part": {"$id": url, "$ref": "#/more"}},
    }


def doubling(levels: int) -> dict[str, Any]:
    """Each level refers twice to the next: 2 ** levels evaluations from a few hundred bytes."""
    parts: dict[str, Any] = {
        f"n{n}": {"allOf": [{"$ref": f"#/$defs/n{n + 1}"}, {"$ref": f"#/$defs/n{n + 1}"}]}
        for n in range(levels)
    }
    return {"$ref": "#/$defs/n0", "$defs": {**parts, f"n{levels}": {"type": "object"}}}


def repeated(part: dict[str, Any], times: int = 450, of_that: int = 30) -> dict[str, Any]:
    """Apply one part many times: 13,500 keywords from a few kilobytes."""
    return {
        "$defs": {"all": {"allOf": [part] * times}},
        "allOf": [{"$ref": "#/$defs/all"}] * of_that,
    }


async def test_a_part_that_calls_itself_by_a_url_is_refused_and_nothing_is_fetched() -> None:
    with eavesdropping() as (port, heard):
        schema = hidden_below_an_unknown_keyword(f"http://127.0.0.1:{port}/secret")
        with pytest.raises(InvalidRequest, match=r"contains \$id"):
            check_schema(schema)
        with pytest.raises(Exception):  # noqa: B017, PT011 - whatever it says, it does not ask
            misfit({"a": 1}, schema)
    assert heard == []


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:9/x"},
        {"$ref": "file:///etc/passwd"},
        {"properties": {"a": {"items": {"$ref": "other.json"}}}},
        {"unknown": [{"deep": {"$ref": "file:///etc/passwd"}}]},
        {"$defs": {"a": {"$id": "urn:x"}}},
        {"unknown": {"$anchor": "here"}},
        {"$dynamicRef": "#here", "$defs": {"a": {"$dynamicAnchor": "here"}}},
        {"$schema": "http://127.0.0.1:9/dialect"},
        {"properties": {"a": {"$schema": "http://json-schema.org/draft-04/schema#"}}},
        {"$ref": "#/unknown/part", "unknown": {"part": {"type": "string"}}},
        {"$ref": "#/default", "default": {"$id": "http://127.0.0.1:9/x"}},
        {"$ref": "#/$defs/absent"},
    ],
)
def test_what_refers_to_anything_outside_or_out_of_sight_is_refused(schema: Any) -> None:
    with pytest.raises(InvalidRequest, match="schema of a question"):
        check_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"$id": {"type": "string"}, "$ref": {"type": "string"}}},
        {"enum": [{"$id": "of a record"}], "x-details": {"$ref": "http://example.org"}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {}},
        {"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {"type": "string"}}},
        {"items": {"$ref": "#"}},
    ],
)
def test_names_and_data_may_look_like_keywords(schema: Any) -> None:
    check_schema(schema)


def test_depth_size_and_number_of_parts_are_bounded() -> None:
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = {"not": deep}
    for schema, why in [
        (deep, "deep"),
        ({"allOf": [{}] * 5_000}, "parts"),
        ({"title": "x" * 70_000}, "bytes"),
        ({"pattern": "a" * 5_000}, "pattern"),
    ]:
        began = time.monotonic()
        with pytest.raises(InvalidRequest, match=why):
            check_schema(schema)
        assert time.monotonic() - began < QUICK_S


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (doubling(30), {}),
        ({"anyOf": [doubling(30)["$defs"]["n30"], {"$ref": "#"}], **doubling(30)}, {}),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"items": {"$ref": "#"}}] * 2}}},
            json.loads("[" * 40 + "]" * 40),
        ),
        ({"uniqueItems": True}, [{"n": n} for n in range(20_000)]),
        ({"items": {"enum": list(range(10_000))}}, ["no"] * 20_000),
        (
            {"anyOf": [{"type": "string"}] * 900, "items": {"anyOf": [{"type": "string"}] * 90}},
            ["x" * 200_000] * 1 + [0] * 500,
        ),
        (
            {
                "unevaluatedProperties": False,
                "dependentSchemas": {"a": {"$ref": "#/$defs/n0"}, "b": {"$ref": "#/$defs/n0"}},
                "$defs": doubling(30)["$defs"],
            },
            {"a": 1, "b": 2},
        ),
        (repeated({"items": {}}), list(range(150))),
        (repeated({"contains": {}, "minContains": 150}), list(range(150))),
        (repeated({"unevaluatedItems": {}}), list(range(150))),
        (repeated({"additionalProperties": {}}), {str(n): n for n in range(150)}),
        (repeated({"propertyNames": {}}), {str(n): n for n in range(150)}),
        (repeated({"unevaluatedProperties": {}}), {str(n): n for n in range(150)}),
        ({"prefixItems": [True], "unevaluatedItems": False}, list(range(30_000))),
        ({"anyOf": [False] * 900}, "x" * 2_000_000),
    ],
)
def test_a_schema_that_explodes_is_given_up_in_a_moment(schema: Any, value: Any) -> None:
    check_schema(schema)
    began = time.process_time()
    try:
        misfit(value, schema)
    except InvalidRequest as error:
        assert "takes more work than is allowed" in str(error)  # noqa: PT017 - or it has an answer
    assert time.process_time() - began < QUICK_S / 2


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [False] * 900},
        {"anyOf": [{"$ref": "#/$defs/none"}] * 900, "$defs": {"none": False}},
        {"anyOf": [{"not": {}}] * 400},
    ],
)
def test_what_false_forbids_is_not_repeated_without_end(schema: Any) -> None:
    check_schema(schema)
    tracemalloc.start()
    try:
        with pytest.raises(TooMuchWork):
            misfit("x" * 200_000, schema)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_false_is_named_in_what_somebody_is_told() -> None:
    told = misfit({"a": 1}, {"properties": {"a": False}})
    assert told is not None
    assert (told.json_path, told.message) == ("$.a", "False schema does not allow 1")


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"pattern": "(?i)[a-\U0010ffff]" + str(n)} for n in range(400)]},
        {"patternProperties": {"[a-\uffff]" + str(n): {} for n in range(400)}},
        {"allOf": [{"pattern": "(?i)[a-\\U0010ffff]" + str(n)} for n in range(400)]},
        {"pattern": "[a-\U0010ffff]" * 190},
    ],
)
def test_patterns_that_take_long_to_read_are_refused(schema: Any) -> None:
    began = time.process_time()
    with pytest.raises(InvalidRequest, match="patterns that take too long to compile"):
        check_schema(schema)
    assert time.process_time() - began < 0.5


@pytest.mark.slow
async def test_an_answer_with_a_pattern_that_never_ends_stops_nobody_else(
    driving: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midflight.schemas.evaluation.DEADLINE_S", 2.0)

    @agent()
    async def clerk(run: Run) -> None:
        await run.ask("Well?", schema={"type": "string", "pattern": "^(a+)+$"})

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        question = (await asked(control, run)).position
        beats = 0

        async def live() -> None:
            nonlocal beats
            while True:
                await anyio.sleep(0.01)
                beats += 1

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(live)
            with pytest.raises(InvalidRequest, match="could not be checked within"):
                await control.answer(run, question, "a" * 40 + "!")
            tasks.cancel_scope.cancel()
        assert beats > 50
        with pytest.raises(InvalidRequest, match="does not match"):
            await control.answer(run, question, "b")
        await control.answer(run, question, "aaa")
        await control.ended(run)


async def test_arguments_that_are_only_many_are_checked_all_the_same() -> None:
    from midflight.tools.specs import parsed

    rows = [{"name": "n", "age": 3}] * 6_000
    row = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"minimum": 0}}}
    schema = {"type": "object", "properties": {"rows": {"type": "array", "items": row}}}
    declared = tool(effect="read", name="attack.many", schema=schema)(_takes_rows)

    assert await parsed(declared, json.dumps({"rows": rows})) == {"rows": rows}
    with pytest.raises(InvalidRequest, match="minimum"):
        await parsed(declared, json.dumps({"rows": [*rows, {"age": -1}]}))


async def _takes_rows(**arguments: Any) -> None: ...


@pytest.mark.slow
async def test_hostile_tools_of_a_server_are_left_out_and_the_others_can_be_called(
    tmp_path: Path,
) -> None:
    with eavesdropping() as (port, heard):
        url = f"http://127.0.0.1:{port}/secret"
        schemas = {
            "hidden": hidden_below_an_unknown_keyword(url),
            "remote": {"type": "object", "properties": {"a": {"$ref": url}}},
            "good": {"type": "object", "properties": {"a": {"type": "string"}}},
            "exploding": {"type": "object", **doubling(30)},
        }
        listing = tmp_path / "schemas.json"
        listing.write_text(json.dumps(schemas), encoding="utf-8")
        command = (sys.executable, str(HERE / "mcp_hostile.py"), str(listing))
        async with McpServer.stdio(*command, name="hostile") as server:
            assert set(server.left_out) == {"hidden", "remote"}
            assert all(why.startswith("its schema ") for why in server.left_out.values())
            good, exploding = server.tools
            assert parse(good, '{"a": "b"}') == {"a": "b"}
            began = time.monotonic()
            with pytest.raises(InvalidRequest):
                parse(exploding, "{}")
            assert time.monotonic() - began < QUICK_S
    assert heard == []

"""Whatever the OpenAPI document allows, and more, is answered as it says, and never by a 5xx."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import anyio
import pytest
import schemathesis
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from midflight.control import Control, local
from midflight.kernel.phases import Role
from midflight.run import Run, agent
from midflight.server.app import create_app
from midflight.stores.memory import MemoryStore
from server.house import House, opened

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
]


@agent("idle")
async def idle(run: Run) -> str:
    answer = await run.ask("And now?", schema={"type": "string"})
    return str(answer.payload)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A server in a thread, with an engine behind it and a run in the middle of its work."""
    folder = tmp_path_factory.mktemp("schema")
    with ExitStack() as stack, start_blocking_portal() as portal:
        store = f"sqlite:{folder / 'journals.db'}"
        control = stack.enter_context(
            portal.wrap_async_context_manager(local(store, idle, workdir=folder, drain_s=1))
        )
        there = stack.enter_context(portal.wrap_async_context_manager(opened(control, [idle])))

        async def begin() -> None:
            for name in ("r-0192", "r-0193"):
                await control.start(idle, "wait", key=name)
            await anyio.sleep(0.1)

        portal.call(begin)
        yield there
        stack.close()


def operations() -> dict[str, Any]:
    """Each method of each path. The stream is left out, as it does not end: see test_events."""
    described = create_app(Control(MemoryStore())).openapi()
    whole = schemathesis.openapi.from_dict(described).exclude(path="/v1/events")
    every: Iterable[Any] = whole.get_all_operations()
    return {found.ok().label: found.ok() for found in every}


OPERATIONS = operations()


@pytest.mark.parametrize("mode", list(GenerationMode), ids=str)
@pytest.mark.parametrize("label", OPERATIONS)
def test_every_route_answers_as_the_document_says(
    house: House, label: str, mode: GenerationMode
) -> None:
    headers = {"authorization": f"Bearer {house.tokens[Role.OPERATOR]}"}

    @settings(
        max_examples=10,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )
    @given(case=OPERATIONS[label].as_strategy(generation_mode=mode))
    def holds(case: Any) -> None:
        case.call_and_validate(base_url=house.url, headers=headers, checks=CHECKS)

    try:
        holds()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE, "it takes nothing at all"


def test_the_document_describes_every_verb_with_an_example(house: House) -> None:
    described = house.app.openapi()
    verbs = {
        "pause",
        "resume",
        "redirect",
        "cancel",
        "answer",
        "decline",
        "raise_limits",
        "stop_effect",
    }
    verbs |= {"take_over", "hand_back", "undo", "fork", "recover"}
    for verb in verbs:
        operation = described["paths"][f"/v1/runs/{{run}}/{verb}"]["post"]
        assert operation["description"]
        answered = operation["responses"].get("200") or operation["responses"]["201"]
        assert answered["content"]["application/json"]["schema"]["$ref"].endswith("/Accepted")
    assert described["components"]["schemas"]["Redirect"]["examples"]
    assert described["security"] == [{"token": []}]

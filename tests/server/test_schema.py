"""Whatever the OpenAPI document allows, and more, is answered as it says, and never by a 5xx.

Most of it is asked of a run, a thread and an agent that are there, or it would only show how
strangers are turned away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import anyio
import pytest
import schemathesis
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, given, settings
from hypothesis import Phase as Trying
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from midflight.agents import agent
from midflight.control import Control, local
from midflight.interfaces.app import create_app
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor
from midflight.run import Run
from midflight.stores.memory import MemoryStore
from server.house import House, opened

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
]


ANYTHING = ["string", "number", "boolean", "object", "array", "null"]


@agent("idle")
async def idle(run: Run) -> str:
    answer = await run.ask("And now?", schema={"type": ANYTHING})
    return str(answer.payload)


class Town:
    """A server in a thread, with an engine behind it."""

    def __init__(self, house: House, control: Control, portal: BlockingPortal) -> None:
        self.house, self._control, self._portal = house, control, portal

    def begin(self) -> dict[str, Any]:
        """A run that waits for an answer, and what else is there, by the names of parameters."""
        return self._portal.call(self._begin)

    async def _begin(self) -> dict[str, Any]:
        control = self._control
        for switch in await control.switches():  # somebody has tried the kill
            await control.release(switch.scope, who=Actor("olga", Role.OPERATOR))
        run = await control.start(idle, "wait")
        with anyio.fail_after(10):
            while (state := await control.state(run)).phase is not Phase.WAITING:  # noqa: ASYNC110
                await anyio.sleep(0.005)
        (question,) = state.questions
        return {
            "run": run,
            "thread": state.thread,
            "name": idle.name,
            "agent": idle.name,
            "question": question,
        }


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    folder = tmp_path_factory.mktemp("schema")
    with ExitStack() as stack, start_blocking_portal() as portal:
        store = f"sqlite:{folder / 'journals.db'}"
        control = stack.enter_context(
            portal.wrap_async_context_manager(local(store, idle, workdir=folder, drain_s=1))
        )
        there = stack.enter_context(portal.wrap_async_context_manager(opened(control, [idle])))
        yield Town(there, control, portal)
        stack.close()


def operations() -> dict[str, Any]:
    """Each method of each path. The stream is left out, as it does not end: see test_events."""
    described = create_app(Control(MemoryStore())).openapi()
    whole = schemathesis.openapi.from_dict(described).exclude(path="/v1/events")
    every: Iterable[Any] = whole.get_all_operations()
    return {found.ok().label: found.ok() for found in every}


OPERATIONS = operations()


RUN_VERBS = ("fork", "resume", "recover", "stop_effect", "hand_back", "undo")
THREAD_VERBS = ("edit_message", "withdraw_message", "overrule", "do_now", "remove_todo")
NEEDS_MORE = {
    f"POST /v1/{place}"
    for place in (
        "session",
        *(f"runs/{{run}}/{verb}" for verb in RUN_VERBS),
        *(f"threads/{{thread}}/{verb}" for verb in THREAD_VERBS),
    )
} | {
    "GET /v1/runs/{run}/result",
    "GET /v1/runs/{run}/deliveries/{position}",
    "GET /v1/threads/{thread}/deliveries/{position}",
    "POST /v1/runs/{run}/raise_limits",
}
"""What a run that waits refuses, and what has to name a cap, a position or a code that is there."""


@pytest.mark.parametrize("mode", list(GenerationMode), ids=str)
@pytest.mark.parametrize("label", OPERATIONS)
def test_every_route_answers_as_the_document_says(
    town: Town, label: str, mode: GenerationMode
) -> None:
    headers = {"authorization": f"Bearer {town.house.tokens[Role.OPERATOR]}"}
    real, answered, turns = town.begin(), Counter[int](), count()

    @settings(
        max_examples=10,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Trying.explicit, Trying.generate],
    )
    @given(case=OPERATIONS[label].as_strategy(generation_mode=mode))
    def holds(case: Any) -> None:
        if next(turns) % 5 != 4:  # one in five is about what is not there
            name_what_is_there(case, real | ({"scope": "all"} if "/operator/" in label else {}))
        answer = case.call_and_validate(base_url=town.house.url, headers=headers, checks=CHECKS)
        answered[answer.status_code // 100] += 1

    try:
        holds()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE, "it takes nothing at all"
    if mode is GenerationMode.POSITIVE:
        assert answered[2] or label in NEEDS_MORE, "nothing that was asked was done"


def name_what_is_there(case: Any, real: dict[str, Any]) -> None:
    """Keep what was made up, but for the names."""
    for name in real.keys() & (case.path_parameters or {}).keys():
        case.path_parameters[name] = real[name]
    if isinstance(case.body, dict):
        for name in real.keys() & case.body.keys():
            case.body[name] = real[name]


def test_the_document_describes_every_verb_with_an_example(town: Town) -> None:
    described = town.house.app.openapi()
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
        assert answered["content"]["application/json"]["schema"]["$ref"].endswith("/Ack")
    assert described["components"]["schemas"]["Redirect"]["examples"]
    assert described["security"] == [{"token": []}]

"""An MCP server that dies in a call: a person is asked whether it happened, and the run goes on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from assistant.conftest import Open
from assistant.desk import last
from midflight.assistant import Profile, assistant
from midflight.journal.record import Actor
from midflight.models.scripted import ScriptedModel, call, say
from midflight.tools.mcp import McpServer
from midflight.tools.options import EffectName
from tools.processes import HERE

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(60)]

ANN = Actor("ann")
SERVER = str(HERE / "mcp_server.py")


async def test_the_run_asks_whether_it_happened_and_goes_on_with_a_server_that_is_back(
    driving: Open, tmp_path: Path
) -> None:
    command = (sys.executable, SERVER, str(tmp_path))
    effects: dict[str, EffectName] = {"search": "read"}
    async with McpServer.stdio(*command, name="mortal", effects=effects, outside=False) as server:
        script = [call("mortal_die"), call("mortal_search", text="tea"), say("all is well")]
        model = ScriptedModel(script, name="mcp-model")
        works = assistant("mcp-clerk", Profile(model, server.tools))

        async with driving(works) as control:
            run = await control.start(works, "Work")
            state = await control.until(run, lambda s: bool(s.questions))
            (consent,) = state.questions.values()
            await control.answer(run, consent.position, "approve", who=ANN)
            state = await control.until(
                run, lambda s: any(q.kind != "approval" for q in s.questions.values())
            )
            (doubt,) = state.questions.values()
            assert "die" in doubt.message
            await control.answer(run, doubt.position, "happened", who=ANN)

            assert await control.result(run) == "all is well"
            assert "tea" in last(model.prompts[2])

"""The agent over more than one life: killed, or called with other tools; and in both modes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from assistant.conftest import Open
from assistant.desk import Office, clerk, last, until
from forks import Forked
from midflight.agents import Agent
from midflight.assistant import Profile, assistant
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.journal.phases import Phase
from midflight.journal.record import Actor
from midflight.models.model import Prompt
from midflight.models.scripted import Line, ScriptedModel, call, call_all, say
from midflight.stores.memory import MemoryStore
from midflight.tools.declaration import tool
from scenarios.cord import doomed
from scenarios.stories import environment

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]

ANN = Actor("ann")
PROGRAM = Path(__file__).parent / "mortal.py"


@pytest.mark.slow
async def test_killed_in_the_middle_of_a_batch_it_goes_on_there_and_repeats_nothing(
    tmp_path: Path,
) -> None:
    lives: list[subprocess.Popen[bytes]] = []

    def starts() -> None:
        lives.append(Forked([sys.executable, PROGRAM, tmp_path], env=environment()))

    try:
        starts()
        await until((tmp_path / "begun").exists)
        lives[0].kill()
        assert lives[0].wait() == -9
        (tmp_path / "go").touch()
        starts()
        await until((tmp_path / "result").exists)
    finally:
        for life in lives:
            life.kill()
            life.wait()

    assert (tmp_path / "ledger").read_text(encoding="utf-8").split() == ["first", "second"]
    asked = (tmp_path / "asked").read_text(encoding="utf-8").splitlines()
    assert asked == ["[]", "['noted first', 'seen', 'noted second']"]


def with_tools(*names: str, gate: anyio.Event | None) -> tuple[Agent, ScriptedModel]:
    async def look() -> str:
        """Look."""
        return "seen"

    def script(prompt: Prompt) -> Line:
        return call("nothing") if len(prompt.turns) == 1 else say("end", until=gate)

    model = ScriptedModel(script, name="changing")
    tools = [tool(effect="read", name=f"changing.{name}")(look) for name in names]
    return assistant("changing", Profile(model, tools)), model


async def test_a_refused_call_is_the_same_step_when_there_are_other_tools(tmp_path: Path) -> None:
    store = MemoryStore()
    before, model = with_tools("look", gate=anyio.Event())
    async with doomed(store, before, workdir=tmp_path) as control:
        run = await control.start(before, "work")
        await until(lambda: len(model.asked) == 2)
    after, _ = with_tools("look", "more", gate=None)
    async with LocalEngine.open(store, [after], workdir=tmp_path, sweep_s=0.05) as engine:
        with anyio.fail_after(20):
            assert await Control(store, engine).result(run) == "end"


async def test_what_had_begun_before_a_redirect_is_told_the_same_after_a_crash(
    tmp_path: Path,
) -> None:
    async def pay(to: str) -> str:
        """Pay."""
        raise RuntimeError("connection lost")

    pays = tool(effect="once", name="retold.pay")(pay)
    told: list[str] = []

    def made(gate: anyio.Event | None) -> Agent:
        def script(prompt: Prompt) -> Line:
            if len(prompt.turns) == 1:
                return call("retold_pay", to="bob")
            told.append(next(turn.text for turn in prompt.turns if turn.role == "tool"))
            return say("ok", until=gate)

        return assistant("retold", Profile(ScriptedModel(script, name="retold"), [pays]))

    store, never = MemoryStore(), anyio.Event()
    before = made(never)
    async with doomed(store, before, workdir=tmp_path) as control:
        run = await control.start(before, "Pay")
        await control.until(run, lambda s: bool(s.questions))
        await control.redirect(run, "Something else", who=ANN)
        await until(lambda: len(told) == 1)
    after = made(None)
    async with LocalEngine.open(store, [after], workdir=tmp_path, sweep_s=0.05) as engine:
        with anyio.fail_after(20):
            assert await Control(store, engine).result(run) == "ok"

    assert "whether it happened is not known" in told[0]
    assert set(told) == {told[0]}


async def test_in_boundary_mode_a_look_is_finished_before_a_pause_and_a_redirect(
    driving: Open,
) -> None:
    office = Office("steady")
    office.gate("slow")
    both = call_all(("steady_look", {"what": "slow"}), ("steady_note", {"text": "n"}))
    works, model, _ = clerk("steady", [both, say("turned")], office, mode="boundary")

    async with driving(works) as control:
        run = await control.start(works, "Look")
        await office.until_begun("slow")
        await control.pause(run, who=ANN)
        await control.redirect(run, "Only look", who=ANN)
        await anyio.sleep(0.1)
        assert (await control.state(run)).phase is Phase.PAUSING
        office.gate("slow").set()
        await control.until(run, lambda s: s.phase is Phase.PAUSED)
        await control.resume(run, who=ANN)

        assert await control.result(run) == "turned"
        assert office.begun == ["slow"]
        results = [turn.text for turn in model.prompts[-1].turns if turn.role == "tool"]
        assert results[0] == "slow is fine"
        assert results[1].startswith("Skipped")
        assert "Only look" in last(model.prompts[-1])

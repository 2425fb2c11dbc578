"""A triage that ignores its end: it has no effects, so nobody waits for it for long."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.conversation import Choice, TriageView
from midflight.journal import events as e
from midflight.journal.phases import Outcome, Phase
from midflight.run import Run
from scenarios.chat import ANN, until_chosen, until_runs
from scenarios.company import events
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("midflight.runtime.steps.tool_call.GRACE_S", 0.05)
    monkeypatch.setattr("midflight.runtime.steps.tool_call.STUBBORN_S", 0.2)


class Deaf:
    """Is told to end, and goes on."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.told = 0
        self.calls = 0

    async def __call__(self, view: TriageView) -> Sequence[Choice]:
        self.calls += 1
        self.begun.set()
        while True:
            try:
                await anyio.sleep_forever()
            except GeneratorExit:
                raise  # the interpreter's own end; who ignores that keeps the process
            except BaseException:  # noqa: BLE001 - which is what the story is about
                self.told += 1


def working(stage: Stage, deaf: Deaf) -> Agent:
    look = stage.reader()
    stage.gate("one")

    @agent(stage.name, converses=True, triage=deaf.__call__, triage_after=0.01)
    async def works(run: Run) -> list[str]:
        await run.step("Look", look, run.brief)
        return [message.text for message in await run.inbox()]

    return works


async def triages(control: Control, run: str) -> list[tuple[Outcome, str]]:
    begun = [
        record.position
        for record in await control.store.read(run)
        if isinstance(record.event, e.AttemptStarted) and record.event.step.startswith("triage:")
    ]
    settled: list[e.AttemptSettled] = await events(control.store, run, e.AttemptSettled)
    return [(ended.outcome, ended.error) for ended in settled if ended.attempt in begun]


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["cancel", "pause", "end"])
async def test_a_deaf_triage_holds_no_cancel_no_pause_and_no_end(driving: Open, verb: str) -> None:
    stage, deaf = Stage(f"deaf-{verb}"), Deaf()
    works = working(stage, deaf)

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        sent = await control.send(run, "hello", who=ANN)
        with anyio.fail_after(10):
            await deaf.begun.wait()
        match verb:
            case "cancel":
                await control.cancel(run, who=ANN)
            case "pause":
                await control.pause(run, who=ANN)
            case _:
                stage.gate("one").set()

        with anyio.fail_after(10):
            await control.until(run, lambda s: not s.alive or s.phase is Phase.PAUSED)
        ((outcome, why),) = await triages(control, run)
        assert outcome is Outcome.ABORTED
        assert why in {"cancelled", "paused", "its function has ended"}
        assert deaf.told > 0
        if verb == "end":  # what it has not chosen about begins the next run
            assert len(await until_runs(control, sent.run, 2)) == 2


@pytest.mark.slow
async def test_a_triage_that_takes_too_long_and_is_deaf_is_left_and_its_messages_are_read(
    driving: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midflight.runtime.threads.thread_triage.TRIAGE_S", 0.1)
    monkeypatch.setattr("midflight.runtime.threads.thread_triage.GRACE_S", 0.05)
    stage, deaf = Stage("deaf-late"), Deaf()
    works = working(stage, deaf)

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("one")
        chosen = await until_chosen(control, await control.send(run, "hello", who=ANN))

        assert (chosen.choice, chosen.why) == ("incorporate", "no end within 20 s")
        stage.gate("one").set()
        assert await control.result(run) == ["hello"]
        assert deaf.calls == 1
        assert await triages(control, run) == [(Outcome.ABORTED, "no end within 20 s")]

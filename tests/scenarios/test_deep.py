"""A for B for C, and kill -9 in the middle: C, B and A come to their ends in that order."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from midflight.control import Control
from midflight.journal.phases import Cause, Phase
from midflight.stores.sqlite import SqliteStore
from scenarios.chat import ANN, runs_of
from scenarios.stories import environment

pytestmark = [pytest.mark.slow, pytest.mark.anyio, pytest.mark.timeout(90)]

PROGRAM = Path(__file__).parent / "deep.py"


class Program:
    """The process that drives; it may be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lives: list[subprocess.Popen[bytes]] = []

    def starts(self) -> subprocess.Popen[bytes]:
        life = subprocess.Popen([sys.executable, str(PROGRAM), str(self.folder)], env=environment())
        self.lives.append(life)
        return life

    def dies(self) -> None:
        self.lives[-1].kill()
        assert self.lives[-1].wait() == -9

    async def until(self, name: str) -> None:
        with anyio.fail_after(40):
            while not (self.folder / name).exists():  # noqa: ASYNC110 - another process
                await anyio.sleep(0.01)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    program = Program(tmp_path)
    yield program
    for life in program.lives:
        life.kill()
        life.wait()


@pytest.mark.parametrize("kills", [1, 3])
async def test_three_levels_deep_and_killed_they_end_in_order_with_their_results(
    program: Program, kills: int
) -> None:
    program.starts()
    await program.until("begun A")
    thread = (program.folder / "thread").read_text(encoding="utf-8")
    async with SqliteStore.open(program.folder / "journals.db") as store:
        control = Control(store)
        for text in ("urgent B", "urgent C"):
            await control.send(thread, text, who=ANN)
            await program.until(f"begun {text}")
        await control.send(thread, "and this for C", who=ANN)
        a, b, c = [row.journal for row in await runs_of(control, thread)]
        for parked in (a, b):
            state = await control.until(parked, lambda state: state.phase is Phase.PAUSED)
            assert state.holds == {Cause.PARKED}
        for _ in range(kills):
            program.dies()
            (program.folder / "begun urgent C").unlink()
            program.starts()
            await program.until("begun urgent C")
        program.dies()
        (program.folder / "go").touch()
        last = program.starts()
        with anyio.fail_after(40):
            for run in (c, b, a):
                await control.ended(run)

        ends = [(await control.state(run)).at for run in (c, b, a)]
        assert ends == sorted(ends)
        assert await control.result(a) == ["A"]
        assert await control.result(b) == ["urgent B"]
        told = await control.result(c)
        rest = await runs_of(control, thread)
        heard = told[1:] or [await control.result(rest[3].journal)]
        assert (told[0], len(heard)) == ("urgent C", 1)
        assert "and this for C" in str(heard)
        assert await control.todos(thread) == []
    last.wait(20)
    lines = (program.folder / "ledger").read_text(encoding="utf-8").splitlines()
    done = [text.partition(" ")[2] for text in dict.fromkeys(lines) if "this for" not in text]
    assert done[-3:] == ["urgent C done", "urgent B done", "A done"]

"""SIGTERM, Ctrl-C, a closed terminal: a process leaves in good order, the next one goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from forks import Forked
from midflight.journal.phases import Cause, Outcome, Phase
from midflight.journal.state import RunState
from midflight.stores.sqlite import SqliteStore
from scenarios.stories import environment

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

PROGRAM = Path(__file__).parent / "leaver.py"
RUN = "r-library-one"


class Program:
    """A program that drives one run, as somebody would write it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lives: list[subprocess.Popen[bytes]] = []

    def starts(self, what: str, *, drain_s: float = 10.0) -> subprocess.Popen[bytes]:
        life: subprocess.Popen[bytes] = Forked(
            [sys.executable, str(PROGRAM), str(self.folder), what, str(drain_s)],
            env=environment(),
        )
        self.lives.append(life)
        return life

    def until(self, name: str) -> None:
        """Wait for a file that the program writes when it gets somewhere."""
        deadline = time.monotonic() + 40
        while not (self.folder / name).exists():
            assert time.monotonic() < deadline, f"{name} did not come"
            time.sleep(0.005)

    async def until_draining(self) -> None:
        with anyio.fail_after(40):
            while Cause.DRAIN not in (await self.state()).holds:  # noqa: ASYNC110 - another process
                await anyio.sleep(0.01)

    def lets_go(self) -> None:
        (self.folder / "go").touch()

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()

    async def state(self) -> RunState:
        async with SqliteStore.open(self.folder / "journals.db") as store:
            state = await store.load(RUN)
        assert isinstance(state, RunState)
        return state


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    running = Program(tmp_path)
    yield running
    for life in running.lives:
        life.kill()
        life.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_read_is_ended_the_run_held_and_the_program_ends_with_zero(
    program: Program, number: signal.Signals
) -> None:
    life = program.starts("read")
    program.until("begun")
    life.send_signal(number)

    assert life.wait(30) == 0
    assert program.has("behind the block"), "the program went on and ended by itself"
    state = await program.state()
    assert (state.phase, state.holds, state.driver) == (Phase.PAUSED, {Cause.DRAIN}, "")

    program.lets_go()
    assert program.starts("read").wait(40) == 0
    state = await program.state()
    assert (state.phase, state.holds) == (Phase.DONE, set())


async def test_an_effect_in_flight_has_its_time_and_nothing_begins_after_it(
    program: Program,
) -> None:
    life = program.starts("effect")
    program.until("begun")
    life.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        life.wait(0.5)
    program.lets_go()

    assert life.wait(30) == 0
    state = await program.state()
    assert (state.phase, len(state.effects), state.driver) == (Phase.PAUSED, 1, "")
    assert program.starts("effect").wait(40) == 0
    state = await program.state()
    assert (state.phase, len(state.effects)) == (Phase.DONE, 2)


async def test_what_does_not_end_in_time_is_cut_short_on_record_and_asked_about(
    program: Program,
) -> None:
    life = program.starts("effect", drain_s=1)
    program.until("begun")
    life.send_signal(signal.SIGTERM)

    assert life.wait(30) == 0
    state = await program.state()
    (effect,) = state.effects.values()
    assert (state.phase, state.driver, state.open) == (Phase.PAUSED, "", {})
    assert (effect.outcome, effect.why) == (Outcome.UNKNOWN, "aborted: its process is ending")

    program.lets_go()
    program.starts("effect")
    program.until("asked")
    (question,) = (await program.state()).questions.values()
    assert "was lost" not in question.message


async def test_what_proves_that_it_was_cut_short_in_time_is_done_again_unasked(
    program: Program,
) -> None:
    life = program.starts("careful", drain_s=1)
    program.until("begun")
    life.send_signal(signal.SIGTERM)
    assert life.wait(30) == 0
    (effect,) = (await program.state()).effects.values()
    assert effect.outcome is Outcome.NOT_DONE

    program.lets_go()
    assert program.starts("careful").wait(40) == 0
    assert (await program.state()).phase is Phase.DONE


async def test_a_thread_that_does_not_end_does_not_keep_the_process(program: Program) -> None:
    """It is left behind, and on record as something that may still act."""
    life = program.starts("thread", drain_s=0.2)
    program.until("begun")
    life.send_signal(signal.SIGTERM)

    assert life.wait(30) == 0
    (effect,) = (await program.state()).effects.values()
    assert (effect.outcome, effect.at_work) == (Outcome.UNKNOWN, True)
    assert effect.why.endswith("and may still act")


@pytest.mark.parametrize("what", ["effect", "thread"])
async def test_a_second_signal_ends_it_at_once(program: Program, what: str) -> None:
    life = program.starts(what, drain_s=600)
    program.until("begun")
    life.send_signal(signal.SIGTERM)
    await program.until_draining()
    assert life.poll() is None
    life.send_signal(signal.SIGTERM)

    assert life.wait(30) == -signal.SIGTERM
    state = await program.state()
    assert (state.phase, len(state.open)) == (Phase.PAUSING, 1)
    program.lets_go()
    program.starts(what)
    program.until("asked")


@pytest.mark.parametrize("first", [signal.SIGHUP, signal.SIGINT])
async def test_a_terminal_that_closes_may_say_so_several_times_and_hurries_nobody(
    program: Program, first: signal.Signals
) -> None:
    life = program.starts("effect")
    program.until("begun")
    life.send_signal(first)
    if first is not signal.SIGHUP:  # or the system may deliver them in another order
        await program.until_draining()
    for _ in range(3):
        life.send_signal(signal.SIGHUP)
    await program.until_draining()
    life.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        life.wait(0.3)
    program.lets_go()

    assert life.wait(30) == 0
    state = await program.state()
    assert (state.phase, len(state.effects), state.open) == (Phase.PAUSED, 1, {})


async def test_a_thread_that_does_not_end_does_not_outlast_a_closed_terminal(
    program: Program,
) -> None:
    life = program.starts("thread", drain_s=0.2)
    program.until("begun")
    life.send_signal(signal.SIGHUP)

    assert life.wait(30) == 0
    (effect,) = (await program.state()).effects.values()
    assert effect.outcome is Outcome.UNKNOWN
    assert "may still act" in effect.why


async def test_what_was_begun_with_nohup_goes_on_when_its_terminal_closes(
    program: Program,
) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # inherited by what is started
    try:
        life = program.starts("effect")
    finally:
        signal.signal(signal.SIGHUP, before)
    program.until("begun")
    life.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        life.wait(0.3)
    program.lets_go()

    assert life.wait(30) == 0
    assert (await program.state()).phase is Phase.DONE


async def test_killed_in_the_middle_of_a_drain_the_run_is_taken_up_all_the_same(
    program: Program,
) -> None:
    life = program.starts("effect")
    program.until("begun")
    life.send_signal(signal.SIGTERM)
    await program.until_draining()
    life.kill()
    life.wait(30)
    assert (await program.state()).holds == {Cause.DRAIN}

    program.lets_go()
    program.starts("effect")
    program.until("asked")
    state = await program.state()
    assert state.holds == set()


async def test_a_program_that_did_not_ask_for_it_dies_of_the_signal_as_ever(
    program: Program,
) -> None:
    life = program.starts("unasked")
    program.until("begun")
    life.send_signal(signal.SIGTERM)

    assert life.wait(30) == -signal.SIGTERM

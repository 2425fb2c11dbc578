"""Commands under a supervisor: how they end, what is kept, and that a cancel leaves nothing."""

from __future__ import annotations

import asyncio
import gc
import operator
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from midflight.errors import ProcessNotStarted
from midflight.tools.processes import supervised
from midflight.tools.processes.process import Ended, ended_of, run_process
from midflight.tools.processes.supervisor import children_of
from tools.processes import WEAK_SUPERVISOR, alive, cancelled_when_up, gone_within, tree

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="the proof needs Linux"),
]


def sh(script: str, token: str = "") -> list[str]:
    return ["/bin/sh", "-c", script, token]


@pytest.fixture
def weak(monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor has the weakness that the tool's environment names."""
    monkeypatch.setattr(supervised, "SUPERVISOR", WEAK_SUPERVISOR)


def weakness(name: str) -> dict[str, str]:
    return {**os.environ, "WEAKNESS": name}


async def test_a_command_that_ends_well() -> None:
    ended = await run_process(["echo", "hello"])

    assert ended == Ended(
        returncode=0,
        signal=None,
        stdout=b"hello\n",
        stderr=b"",
        started=True,
        proven_dead=True,
    )


async def test_an_exit_code_and_a_signal_are_results() -> None:
    failed = await run_process(sh("echo oh >&2; exit 3"))
    crashed = await run_process(sh("kill -SEGV $$"))

    assert (failed.returncode, failed.signal, failed.stderr) == (3, None, b"oh\n")
    assert (crashed.returncode, crashed.signal) == (None, signal.SIGSEGV)
    assert failed.how() == "ended with exit code 3"
    assert crashed.how() == "was ended by SIGSEGV"


async def test_stdin_arrives_whole_and_ends() -> None:
    ended = await run_process(["wc", "-c"], stdin=b"x" * 1_000_000)

    assert ended.stdout.strip() == b"1000000"


async def test_stdin_that_nobody_reads_holds_nothing_up() -> None:
    closed = await run_process(sh("exec <&-; echo done"), stdin=b"x" * 1_000_000)
    ignored = await run_process(["true"], stdin=b"x" * 1_000_000)
    empty = await run_process(["cat"])

    assert (closed.stdout, ignored.returncode, empty.stdout) == (b"done\n", 0, b"")


async def test_of_too_much_output_the_beginning_and_the_end_are_kept() -> None:
    script = "echo first; head -c 3000000 /dev/zero; echo last"
    seen: list[int] = []

    ended = await run_process(
        sh(script), output_max=100, on_output=lambda _, data: seen.append(len(data))
    )

    assert ended.stdout.startswith(b"first\n\0")
    assert ended.stdout.endswith(b"\0last\n")
    assert b"2,999,911 bytes cut" in ended.stdout
    assert len(ended.stdout) < 150
    assert sum(seen) == 3_000_011


async def test_output_is_passed_on_while_the_command_runs(token: str) -> None:
    seen: list[tuple[str, bytes]] = []

    ended = await cancelled_when_up(sh("echo one; sleep 1000", token))
    await run_process(sh("echo out; echo err >&2"), on_output=lambda *part: seen.append(part))

    assert ended.stdout == b"one\n"
    assert sorted(seen) == [("stderr", b"err\n"), ("stdout", b"out\n")]


async def test_a_command_gets_just_the_environment_streams_and_signals_that_it_should(
    tmp_path: Path,
) -> None:
    look = (
        "import os, signal; print(sorted(os.environ.items()), len(os.listdir('/proc/self/fd')),"
        "signal.getsignal(signal.SIGTERM), os.getsid(0) == os.getpid(), os.getcwd())"
    )
    python = [sys.executable, "-I", "-S", "-c", look]

    plain = await run_process(["env"], env={"A": "ä=1"})
    locale = await run_process(["env"], env={"LC_CTYPE": "C"})
    python_looks = await run_process(python, env={"LC_ALL": "C.UTF-8"}, cwd=tmp_path)

    mark, *rest = sorted(plain.stdout.decode().splitlines(), reverse=True)
    assert mark.startswith("MIDFLIGHT_PROCESS=")
    assert rest == ["A=ä=1"]
    assert b"LC_CTYPE=C\n" in locale.stdout
    assert python_looks.stdout.decode().split(")] ")[1].strip() == f"4 0 True {tmp_path}"


async def test_what_cannot_be_started_says_why_and_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    for command, cwd, why in (
        ([str(tmp_path / "absent")], None, "No such file"),
        ([str(tmp_path / "plain")], None, "Permission denied"),
        (["true"], tmp_path / "absent", "No such file"),
        (["true", "x" * 10_000_000], None, "Argument list too long"),
        (["true", "a\0b"], None, "null byte"),
        ([], None, "empty"),
    ):
        with pytest.raises(ProcessNotStarted, match=f"{why}.*Nothing was run"):
            await run_process(command, cwd=cwd)


async def test_a_supervisor_that_does_not_come_up_means_that_nothing_was_run(
    weak: None, tmp_path: Path
) -> None:
    with pytest.raises(ProcessNotStarted, match="watches over it did not start"):
        await run_process(["touch", str(tmp_path / "made")], env=weakness("dies before the start"))
    assert not (tmp_path / "made").exists()


async def test_what_a_command_leaves_behind_may_finish_at_once_or_is_ended(
    token: str, weak: None
) -> None:
    script = "(sleep 0.02; echo late) & setsid sleep 1000 & exit 5"
    ended = await run_process(sh(script, token), env=weakness("patient"))
    script = "setsid sh -c 'sleep 1000' $0 & echo ok"
    daemons = await run_process(sh(script, token), env=weakness("none"))

    assert (ended.returncode, ended.stdout, ended.proven_dead) == (5, b"late\n", True)
    assert (daemons.stdout, daemons.proven_dead, alive(token)) == (b"ok\n", True, [])


async def test_a_timeout_ends_everything_and_keeps_the_output(token: str) -> None:
    ended = await run_process(sh("echo begun; sleep 1000", token), timeout_s=2)

    assert (ended.timed_out, ended.signal, ended.stdout) == (True, signal.SIGKILL, b"begun\n")
    assert (ended.proven_dead, alive(token)) == (True, [])


async def test_a_cancel_kills_child_session_daemon_and_one_that_ignores_signals(token: str) -> None:
    ended = await cancelled_when_up(tree(token, "child", "session", "daemon", "stubborn"))

    assert alive(token) == []
    assert ended.proven_dead
    assert (ended.signal, ended.stdout, ended.survivors) == (signal.SIGKILL, b"up\n", ())


@pytest.mark.parametrize("kind", ["storm", "runaway"])
async def test_a_cancel_ends_what_forks_as_fast_as_it_can(token: str, kind: str) -> None:
    ended = await cancelled_when_up(tree(token, kind))

    assert (ended.proven_dead, alive(token)) == (True, [])


async def test_repeated_native_cancels_do_not_shorten_the_wait_for_the_proof(
    token: str, weak: None, tmp_path: Path
) -> None:
    cancels, enough = 0, tmp_path / "enough"

    async def again_and_again(task: asyncio.Task[Any]) -> None:
        nonlocal cancels
        while not task.done():
            cancels += 1
            task.cancel(f"cancel {cancels}")
            if cancels == 25:
                enough.touch()
            await asyncio.sleep(0.005)

    env = weakness("slow") | {"UNTIL": str(enough)}
    ended = await cancelled_when_up(
        tree(token, "session", "daemon"), cancel=again_and_again, env=env
    )

    assert cancels > 20
    assert (ended.proven_dead, alive(token)) == (True, [])


async def test_a_scope_of_anyio_waits_for_the_proof_without_spinning(
    token: str, weak: None
) -> None:
    up = anyio.Event()

    async def tool() -> None:
        await run_process(
            tree(token, "daemon"), on_output=lambda *_: up.set(), env=weakness("slow")
        )

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tool)
        await up.wait()
        gc.collect()  # or it may fall into what is measured
        began = time.process_time()
        tasks.cancel_scope.cancel()
    used = time.process_time() - began

    assert alive(token) == []
    assert used < 0.05  # of the 0.3 s that it took


async def test_the_cancel_that_comes_out_is_the_one_that_went_in(token: str) -> None:
    with pytest.raises(TimeoutError) as timed_out:
        async with asyncio.timeout(None) as timeout:
            await run_process(
                sh("echo begun; sleep 1000", token), on_output=lambda *_: timeout.reschedule(0)
            )

    ended = ended_of(timed_out.value)
    assert ended is not None
    assert (ended.stdout, ended.proven_dead) == (b"begun\n", True)
    assert ended_of(ValueError("something else")) is None
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_one_who_is_already_cancelled_starts_nothing(tmp_path: Path) -> None:
    task = asyncio.get_running_loop().create_task(run_process(["touch", str(tmp_path / "made")]))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with anyio.CancelScope() as scope:
        scope.cancel()
        await run_process(["touch", str(tmp_path / "made")])

    assert not (tmp_path / "made").exists()


async def test_a_cancel_during_the_start_leaves_nothing_either(token: str) -> None:
    outcomes = set()
    for delay_ms in range(0, 40, 2):
        task = asyncio.get_running_loop().create_task(run_process(tree(token, "daemon")))
        await asyncio.sleep(0)
        await asyncio.sleep(delay_ms / 1000)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as cancelled:
            await task
        ended = ended_of(cancelled.value)
        assert ended is None or ended.proven_dead
        outcomes.add(None if ended is None else ended.started)
        assert alive(token) == []

    assert False in outcomes


async def test_a_listener_that_fails_ends_the_command_and_is_heard_of(token: str) -> None:
    def fail(_: str, __: bytes) -> None:
        raise LookupError("no such page")

    with pytest.raises(LookupError, match="no such page"):
        await run_process(sh("echo begun; sleep 1000", token), on_output=fail)
    assert alive(token) == []


async def test_a_coroutine_that_is_thrown_away_takes_its_processes_with_it(token: str) -> None:
    coroutine = run_process(sh("sleep 1000", token))
    with suppress(StopIteration):
        coroutine.send(None)  # the checkpoint
        coroutine.send(None)  # the start
    await asyncio.sleep(0.1)
    coroutine.close()
    assert gone_within(20, token)


async def test_a_supervisor_hears_no_signal_but_the_last_and_wakes_when_it_was_stopped(
    token: str,
) -> None:
    polite = await run_process(
        sh("for s in TERM INT HUP QUIT; do kill -$s $PPID; done; sleep 0.05; echo ok")
    )
    stopped = await cancelled_when_up(sh("kill -STOP $PPID; echo up; sleep 1000", token))

    assert (polite.stdout, polite.proven_dead) == (b"ok\n", True)
    assert (stopped.proven_dead, alive(token)) == (True, [])


async def test_a_tool_that_kills_its_supervisor_is_found_again_and_nothing_is_called_proven(
    token: str,
) -> None:
    script = "setsid sh -c 'sleep 1000' $0 & echo begun; kill -KILL $PPID; sleep 1000"

    ended = await run_process(sh(script, token))

    assert (ended.stdout, ended.returncode, ended.signal) == (b"begun\n", None, None)
    assert (ended.started, ended.proven_dead, ended.survivors) == (True, False, ())
    assert alive(token) == []


async def test_a_supervisor_that_hangs_is_given_up(
    token: str, weak: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised, "MARGIN_S", 0.1)

    ended = await cancelled_when_up(
        sh("echo up; sleep 1000", token), env=weakness("hangs"), end_grace_s=0.1
    )

    assert (ended.stdout, ended.proven_dead, alive(token)) == (b"up\n", False, [])


async def test_who_cannot_be_killed_is_named_in_bounded_time(token: str, weak: None) -> None:
    with anyio.fail_after(20):
        ended = await cancelled_when_up(
            sh("sleep 1000 & sleep 1000 & echo up; wait", token),
            env=weakness("cannot kill"),
            end_grace_s=0.2,
        )

    assert not ended.proven_dead
    assert len(ended.survivors) == 3
    for pid in ended.survivors:
        os.kill(pid, signal.SIGKILL)


async def test_without_lists_of_children_every_process_is_asked(token: str, weak: None) -> None:
    ended = await cancelled_when_up(
        tree(token, "child", "session", "daemon"), env=weakness("no lists of children")
    )

    assert (ended.proven_dead, alive(token)) == (True, [])


async def test_elsewhere_than_on_linux_the_group_is_killed_and_nothing_is_called_proven(
    token: str, weak: None
) -> None:
    ended = await cancelled_when_up(tree(token, "child", "daemon"), env=weakness("not on Linux"))

    assert (ended.proven_dead, ended.signal, ended.survivors) == (False, signal.SIGKILL, ())
    with anyio.fail_after(10):  # not proven: what was killed may take a moment to go
        while len(alive(token)) != 1:  # noqa: ASYNC110 - the daemon, which has left the group
            await anyio.sleep(0.01)


@pytest.fixture
def nothing_leaks() -> Iterator[None]:
    """What other tests have left is gone before or goes meanwhile; what is ours stays for good."""

    def ours() -> list[int]:
        gc.collect()
        return [len(os.listdir("/proc/self/fd")), len(children_of(os.getpid()))]

    before = ours()
    yield
    until = time.monotonic() + 10
    while any(map(operator.gt, ours(), before)):
        assert time.monotonic() < until, f"{before} before, {ours()} after"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_leaks")
async def test_fifty_runs_leak_no_pipe_and_no_zombie(token: str) -> None:
    for number in range(50):
        if number % 5 == 0:
            await cancelled_when_up(sh("echo up; sleep 1000", token))
        elif number % 5 == 1:
            with suppress(ProcessNotStarted):
                await run_process(["/absent"])
        else:
            await run_process(["cat"], stdin=b"x" * 100_000)
    assert alive(token) == []


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_leaks")
async def test_many_run_and_are_cancelled_at_once(token: str) -> None:
    proven = []

    async def one() -> None:
        ended = await cancelled_when_up(tree(token, "daemon", "session"))
        proven.append(ended.proven_dead)

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(one)

    assert (proven, alive(token)) == ([True] * 20, [])

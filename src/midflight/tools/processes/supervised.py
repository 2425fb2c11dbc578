"""One tool under its supervisor, as the event loop of the driver sees it; and lost supervisors.

Everything happens in callbacks on pipes. No task and no thread is needed that could be cancelled
or starved: a task that waits may be cancelled at any time and come back to wait on.

Processes of one user may kill each other, so a supervisor can be lost, and with it the proof that
its tool has ended. Its processes are found again by a mark in the environment, which every process
of a tool inherits. That ends honest programs that went wrong. A program that wipes its environment
*and* kills its supervisor escapes: hold such programs with another user, a container or a cgroup.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any, Final

import anyio
import msgspec

from midflight.errors import ProcessNotStarted
from midflight.inputs import new_id
from midflight.tools.processes.supervisor import (
    parent_of,
    processes,
    send,
    stop_tree,
)

SUPERVISOR: Final = str(Path(__file__).with_name("supervisor.py"))
MARK: Final = "MIDFLIGHT_PROCESS"
CHUNK: Final = 1 << 16  # bytes; the default capacity of a pipe
DRAIN_READS_MAX: Final = 64  # a survivor that cannot be killed may go on writing
MARGIN_S: Final = 2.0  # by which a supervisor may be late with its report before we give it up
OVERTIME_S: Final = 1.0  # after which a supervisor ends a tool by itself: we may be frozen
REAP_MAX_S: Final = 0.5  # it blocks the event loop, and a process that can be killed dies in 1 ms
RETRY_S: Final = 0.001

limit: Final = contextvars.ContextVar[float | None]("midflight_limit", default=None)
"""Until when what is started here may run, by the steady clock: inside an effect, its timeout."""

_driver: Final = new_id()  # the number of a process may mean another one in another container
_counter: Final = count()
_kept: Final[set[int]] = set()  # locks that supervisors hold
_live: Final[set[str]] = set()  # marks of the tools that a supervisor looks after
_lost_tools: Final[set[int]] = set()


@contextmanager
def outlived(lock: int | None) -> Iterator[None]:
    """Have each supervisor that is started inside hold this lock until its tool is dead.

    A process that can take the lock of a killed driver then knows that the tools of that driver
    are dead as well, and not only about to be.
    """
    files = set() if lock is None else {lock}
    _kept.update(files)
    try:
        yield
    finally:
        _kept.difference_update(files)


class Report(msgspec.Struct, frozen=True):
    """The report of the supervisor, all its lines together."""

    starting: int = 0
    started: int = 0  # the tool's process
    errno: int = 0  # why it could not be started
    ended: int = 0
    aborted: int = 0  # rather than over by itself
    overtime: int = 0  # and by the supervisor, which did not wait for us
    code: int | None = None
    proven: int = 0
    survivors: tuple[int, ...] = ()


class Supervised:
    """Start a command; hand its output to ``take``; know when it and all its descendants ended.

    ``extra`` names one more stream from the tool to us; its number is the command's last argument.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None,
        env: Mapping[str, str] | None,
        stdin: bytes,
        extra: str = "",
        take: Callable[[str, bytes], None],
        grace_s: float,
    ) -> None:
        self.failure: BaseException | None = None  # what ``take`` raised
        self.late = False
        self.report = Report()
        self._take = take
        self._grace_s = grace_s
        self._unsent = memoryview(stdin)
        self._facts: dict[str, Any] = {}
        self._heard = b""
        self._aborted = False
        self._over = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._timers: list[asyncio.TimerHandle] = []
        self._ours: set[int] = set()
        self._theirs: list[int] = []
        self._mark = f"{_prefix()}{next(_counter)}"
        _live.add(self._mark)
        try:
            self._start(command, extra, cwd=cwd, env=os.environ if env is None else env)
        except BaseException as error:
            _live.discard(self._mark)
            self._close()
            if isinstance(error, OSError | ValueError):
                raise ProcessNotStarted(command[0], str(error)) from error
            raise
        finally:
            for pipe in self._theirs:
                os.close(pipe)
        self._listen()

    def _start(
        self,
        command: Sequence[str],
        extra: str,
        *,
        cwd: str | os.PathLike[str] | None,
        env: Mapping[str, str],
    ) -> None:
        control, self._control = self._pipe(ours=1)
        self._status, status = self._pipe(ours=0)
        stdin, self._stdin = self._pipe(ours=1) if self._unsent else (subprocess.DEVNULL, -1)
        names = ("stdout", "stderr", extra) if extra else ("stdout", "stderr")
        pipes = [self._pipe(ours=0) for _ in names]
        self._streams = dict(zip(names, (ours for ours, _ in pipes), strict=True))
        stdout, stderr, *rest = (theirs for _, theirs in pipes)
        ctype = f"={env['LC_CTYPE']}" if "LC_CTYPE" in env else ""
        kept = ",".join(map(str, _kept))
        until = limit.get()
        over_at = "" if until is None else until + OVERTIME_S
        numbers = (control, status, os.getpid(), over_at, self._grace_s, kept)
        program = [sys.executable, "-I", "-S", "-X", "utf8", SUPERVISOR]
        # This blocks for the 1 ms of a vfork, and in return no cancel can fall into the start.
        self._process = subprocess.Popen(
            [*program, *map(str, numbers), ctype, *command, *map(str, rest)],
            cwd=cwd,
            env={**env, MARK: self._mark},
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=(control, status, *rest, *_kept),
            start_new_session=True,  # Ctrl-C in a terminal is for the driver to hear
        )

    def _pipe(self, *, ours: int) -> tuple[int, int]:
        ends = os.pipe()
        self._ours.add(ends[ours])
        self._theirs.append(ends[1 - ours])
        return ends

    def _listen(self) -> None:
        for pipe in self._ours:
            os.set_blocking(pipe, False)
        self._loop.add_reader(self._status, self._on_status)
        for name, pipe in self._streams.items():
            self._loop.add_reader(pipe, self._on_stream, name, pipe)
        if self._unsent:
            self._loop.add_writer(self._stdin, self._on_stdin)

    def abort(self) -> None:
        """Have the whole tree killed. Safe to call at any time and again."""
        if self._aborted or self._over.is_set():
            return
        self._aborted = True
        with suppress(OSError):  # the supervisor may just have ended
            os.write(self._control, b"x")
        self._process.send_signal(signal.SIGCONT)  # in case its tool has stopped it
        self._timers.append(self._loop.call_later(self._grace_s + MARGIN_S, self._give_up))

    def abort_after(self, seconds: float) -> None:
        """Abort when so much time has passed."""
        self._timers.append(self._loop.call_later(seconds, self._on_late))

    def _on_late(self) -> None:
        self.late = True
        self.abort()

    async def over(self) -> None:
        """Wait for the end. A cancelled wait changes nothing; wait again."""
        await self._over.wait()

    async def over_for_certain(self) -> None:
        """Wait for the end of what was aborted, however often the waiting task is cancelled.

        The wait is bounded by the timer that ``abort`` has set. The scope stops anyio's cancels,
        which come at every turn of the loop; native ones come through it and are left aside here:
        the caller is about to raise the one that it has already got.
        """
        with anyio.CancelScope(shield=True):
            while not self._over.is_set():
                with suppress(asyncio.CancelledError):
                    await self._over.wait()

    def leave(self) -> None:
        """Let go of it, also before its end: the supervisor then ends the tool, as if we had died.

        That happens when the waiting coroutine is thrown away, so nobody is left to be told.
        """
        if not self._over.is_set():
            self._close()
            Thread(target=self._take_leave, name="midflight-leave", daemon=True).start()

    def _take_leave(self) -> None:
        self._process.wait()  # or it would remain as a zombie
        _live.discard(self._mark)

    def _close(self) -> None:
        for timer in self._timers:
            timer.cancel()
        for pipe in list(self._ours):
            self._drop(pipe)

    def _drop(self, pipe: int) -> None:
        if pipe in self._ours:
            self._ours.remove(pipe)
            if not self._loop.is_closed():
                self._loop.remove_reader(pipe)
                self._loop.remove_writer(pipe)
            os.close(pipe)

    def _on_stdin(self) -> None:
        try:
            self._unsent = self._unsent[os.write(self._stdin, self._unsent[:CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:  # nobody reads it any more, which is the tool's right
            self._unsent = self._unsent[:0]
        if not self._unsent:
            self._drop(self._stdin)

    def _on_stream(self, name: str, pipe: int) -> bool:
        """Read once; say whether there may be more."""
        try:
            data = os.read(pipe, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._drop(pipe)
            return False
        try:
            self._take(name, data)
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits for the end
            self.failure = self.failure or error
            self.abort()
        return True

    def _on_status(self) -> None:
        try:
            data = os.read(self._status, CHUNK)
        except BlockingIOError:
            return
        self._heard += data
        *lines, self._heard = self._heard.split(b"\n")
        for line in lines:
            self._facts |= msgspec.json.decode(line)
        if not data or self._facts.keys() & {"ended", "errno"}:
            self._process.wait()  # that was the last it did: this does not block
            self._finish()

    def _give_up(self) -> None:
        """The supervisor does not answer: end it, and let the orphans be searched for."""
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(MARGIN_S)
        self._finish()

    def _finish(self) -> None:
        for name, pipe in self._streams.items():
            for _ in range(DRAIN_READS_MAX):
                if pipe not in self._ours or not self._on_stream(name, pipe):
                    break
        self.report = msgspec.convert(self._facts, Report)
        _live.discard(self._mark)
        if not (self.report.ended or self.report.errno):  # what carries the mark is an orphan
            if self.report.started:
                _lost_tools.add(self.report.started)
            self.report = msgspec.structs.replace(self.report, survivors=reap_orphans())
        self._close()
        self._over.set()


# ── orphans: processes whose supervisor was lost ─────────────────────────────────────────────


def reap_orphans() -> tuple[int, ...]:
    """End all processes whose supervisor, started by this process, was lost; return survivors.

    ``Supervised`` calls it by itself. Call ``become_subreaper`` once at the start of a program
    that owns its process, as servers do: orphans then become children of this process, so that
    the dead ones can be waited for here and no other process has to. It is not done unasked, since
    daemons that other libraries start would become children of this process too.
    """
    killed: set[int] = set()
    until = time.monotonic() + REAP_MAX_S
    while True:
        found = _orphans()
        killed.update(found)
        for pid in found:
            send(pid, signal.SIGKILL)
        coming = _take_leave(killed | _lost_tools)
        _lost_tools.intersection_update(coming)
        if not (found or coming) or time.monotonic() > until:
            return tuple(found)
        time.sleep(RETRY_S)


def _prefix() -> str:
    return f"{os.getpid()}.{_driver}."  # a fork of this process shares the second part only


def _orphans() -> list[int]:
    """Stop lost tools and all that carries a mark of ours that is not live, with descendants."""
    if sys.platform != "linux":
        return []
    found: list[int] = []
    for pid in processes():
        if _is_orphan(pid) and _stop(pid):
            found += [pid, *stop_tree(pid)]
    for pid in _lost_tools:
        if parent_of(pid) == os.getpid():  # adopted: the number is still its own
            send(pid, signal.SIGSTOP)
            found += [pid, *stop_tree(pid)]
    return found


def _is_orphan(pid: int) -> bool:
    ours = f"{MARK}={_prefix()}".encode()
    with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as environment:
        for entry in environment.read().split(b"\0"):
            if entry.startswith(ours):
                return entry.decode().partition("=")[2] not in _live
    return False


def _stop(pid: int) -> bool:
    """Stop it if it is still the one we mean: its number may have passed to a stranger."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if _is_orphan(pid):
            signal.pidfd_send_signal(handle, signal.SIGSTOP)
            return True
    except OSError:
        return False
    finally:
        os.close(handle)
    return False


def _take_leave(pids: set[int]) -> set[int]:
    """Wait for dead children of ours; return those that are or will be our children."""
    for pid in pids:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    parents = {os.getpid(), *pids}  # the children of one that is dying become ours next
    return {pid for pid in pids if parent_of(pid) in parents}

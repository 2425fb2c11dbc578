"""A program that starts one tool and does not end before every process of the tool has ended.

    python -I -S -X utf8 supervisor.py CONTROL STATUS DRIVER UNTIL GRACE KEPT CTYPE COMMAND [ARG …]

It runs as a process of its own and imports nothing of Midflight: it must start fast, stay small and
outlive a driver that was killed. CONTROL and STATUS are numbers of inherited pipes. A byte on
CONTROL means "abort", its end means that the driver DRIVER is gone; both have the same effect. It
reports to STATUS in lines of JSON. Where a library starts us and hands no pipes on, both are
``-``: then SIGTERM means "abort", and nobody is told anything. At UNTIL, if that is given, by the
clock that also runs while the machine sleeps, the tool is ended although nobody asks for it: the
driver may be frozen, and others rely on its timeout. KEPT are numbers of files, with commas, that
we hold open to our end: locks of the driver, whose death is then not seen before the death of the
tool.

It finds all of them: on Linux it is a *child subreaper*, so a process whose parent ends becomes its
child, whatever session or group that process has moved to. Hence, when `waitpid` says that there
are no children left, there are no descendants left either. That is the proof; signals and lists
only bring it about. Elsewhere it kills the tool's process group and says that nothing is proven.

Not covered: processes started for the tool by somebody else (a container engine, cron, a service
manager), and a tool that kills its supervisor; for the second see ``supervised.py``.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from contextlib import suppress
from typing import NoReturn

PR_SET_CHILD_SUBREAPER = 36
LINUX = sys.platform == "linux"
WALL = 0x40000000 if LINUX else 0  # also children made by an odd clone()
IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
RESET = (*IGNORED, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)  # Python ignores PIPE and XFSZ
LINGER_S = 0.1  # what the tool left behind may finish by itself: `> >(tee log)` outlives its shell
DRIVER_CHECK_S = 1.0  # if a fork of the driver holds CONTROL open, its end is never seen
HAS_LISTS = os.path.exists(f"/proc/self/task/{os.getpid()}/children")  # a build option of Linux
RETRY_S = 0.01  # between two attempts to end the tree, unless a child ends before


def become_subreaper() -> bool:
    """Ask the kernel to give us the orphans among our descendants."""
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def now() -> float:
    """Return the time by the clock that UNTIL refers to."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if LINUX else time.monotonic()


def children_of(pid: int) -> list[int]:
    """The children of all threads of a process; none if it is gone."""
    if not HAS_LISTS:
        return [child for child in processes() if parent_of(child) == pid]
    found: list[int] = []
    with suppress(OSError):  # it ended meanwhile
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as listed:
                found += map(int, listed.read().split())
    return found


def processes() -> list[int]:
    """All that can be seen; none where there is no /proc."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def parent_of(pid: int) -> int:
    """The parent of a process, 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[1])  # its name may contain anything
    except OSError:
        return 0


def stop_tree(root: int) -> list[int]:
    """Stop all descendants, parents first, and list them.

    Each is stopped before it is asked for its children: it can then neither start more nor wait
    for those it has, so no number in the list can pass to a stranger before we use it.
    """
    found: dict[int, None] = {}
    waiting = children_of(root)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found[pid] = None
            send(pid, signal.SIGSTOP)
            waiting += children_of(pid)
    return list(found)


def send(pid: int, number: signal.Signals) -> None:
    """Signal a process. It may be gone, or belong to somebody else: the proof will tell."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def without_pipes() -> tuple[int, int, int]:
    """A CONTROL and a STATUS of our own, and where to write what comes in by signal."""
    control, sender = os.pipe()
    return control, os.open(os.devnull, os.O_WRONLY), sender


class Supervisor:
    """The tool, the two pipes, and what is known of the tool's end."""

    def __init__(
        self,
        control: int,
        status: int,
        driver: int,
        until: float,
        grace_s: float,
        kept: list[int],
    ) -> None:
        self.status = status
        self.driver = driver
        self.until = until
        self.overtime = False
        self.grace_s = grace_s
        self.tool = 0
        self.tool_end: int | None = None
        self.subreaper = become_subreaper()  # layer orphans-of-process-tool-come
        self.wake, wake_sender = os.pipe()
        for pipe in (self.wake, wake_sender):
            os.set_blocking(pipe, False)
        signal.set_wakeup_fd(wake_sender, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)
        for file in (control, status, *kept):
            os.set_inheritable(file, False)  # the tool could speak in our name
        self.control, self.children, self.news = select.poll(), select.poll(), select.poll()
        for poll, pipes in (
            (self.control, (control,)),
            (self.children, (self.wake,)),
            (self.news, (control, self.wake)),
        ):
            for pipe in pipes:
                poll.register(pipe, select.POLLIN)

    def start(self, command: list[str], environment: dict[bytes, bytes]) -> None:
        """Start the tool in a session of its own, with our streams; then let go of them."""
        self.tool = os.posix_spawnp(
            command[0], command, environment, setsid=True, setsigmask=(), setsigdef=RESET
        )
        self.report(started=self.tool)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):  # else nobody would ever see the tool close them
            os.dup2(nothing, stream)
        os.close(nothing)

    def aborted(self) -> bool:
        """Return whether the driver has asked for the end, or is gone; or no time is left."""
        self.overtime = self.overtime or now() >= self.until  # layer supervisor-ends-tool-by-itself
        return self.overtime or bool(self.control.poll(0)) or os.getppid() != self.driver

    def reap(self) -> bool:
        """Take leave of every child that has ended; say whether any child is left."""
        while True:
            try:
                pid, end = os.waitpid(-1, os.WNOHANG | WALL)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.tool:
                self.tool_end = end

    def wait(self, news: select.poll, seconds: float) -> None:
        """Wait for news, or for so long."""
        news.poll(seconds * 1000)
        with suppress(BlockingIOError):
            os.read(self.wake, 4096)

    def watch(self) -> None:
        """Return when the tool has ended, and what it left behind has had its moment."""
        while self.reap() and self.tool_end is None and not self.aborted():
            self.wait(self.news, max(0, min(DRIVER_CHECK_S, self.until - now())))
        until = time.monotonic() + LINGER_S
        while self.reap() and not self.aborted() and time.monotonic() < until:
            self.wait(self.news, LINGER_S)

    def end_tree(self) -> list[int]:
        """Kill until no process is left; after the grace, list those that could not be killed."""
        until = time.monotonic() + self.grace_s
        while True:
            with suppress(ProcessLookupError, PermissionError):
                if not self.subreaper:
                    os.killpg(self.tool, signal.SIGKILL)
            found = stop_tree(os.getpid())
            for pid in found:
                send(pid, signal.SIGKILL)
            if not self.reap():
                return []
            if time.monotonic() > until:
                return [pid for pid in found if os.path.exists(f"/proc/{pid}")]
            self.wait(self.children, RETRY_S)

    def report(self, **facts: int | list[int] | None) -> None:
        """Tell the driver. All values are numbers, so that JSON needs no library."""
        pairs = (f'"{name}":{"null" if fact is None else fact}' for name, fact in facts.items())
        with suppress(OSError):  # nobody may be left to be told
            os.write(self.status, b"{%s}\n" % ",".join(pairs).encode())


def main(arguments: list[str]) -> NoReturn:
    """Start, watch, end, report."""
    control, status, driver, until, grace_s, held, ctype = arguments[:7]
    by_signal = control == "-"
    pipes = without_pipes() if by_signal else (int(control), int(status), -1)
    kept = [int(file) for file in held.split(",") if file]
    supervisor = Supervisor(*pipes[:2], int(driver), float(until or "inf"), float(grace_s), kept)
    if by_signal:
        # layer sigterm-ends-tree-and-not-only
        signal.signal(signal.SIGTERM, lambda *_: os.write(pipes[2], b"x") and None)
    environment = dict(os.environb)
    environment.pop(b"LC_CTYPE", None)  # Python may have set it for itself: only CTYPE is theirs
    if ctype:
        environment[b"LC_CTYPE"] = os.fsencode(ctype.removeprefix("="))
    if not supervisor.aborted():
        supervisor.report(starting=1)  # without this line nothing was run, whatever happens to us
        try:
            supervisor.start(arguments[7:], environment)
        except OSError as error:
            supervisor.report(errno=error.errno)
            os._exit(0)
        supervisor.watch()
    aborted = int(supervisor.tool_end is None)
    survivors = supervisor.end_tree() if supervisor.tool else []
    end = supervisor.tool_end
    code = os.waitstatus_to_exitcode(end) if end is not None else None
    proven = int((supervisor.subreaper or not supervisor.tool) and not survivors)
    late = int(supervisor.overtime and aborted)
    supervisor.report(
        ended=1, aborted=aborted, overtime=late, code=code, proven=proven, survivors=survivors
    )
    os._exit(0)  # the end of the STATUS pipe tells the driver that we are gone: be quick


if __name__ == "__main__":
    main(sys.argv[1:])

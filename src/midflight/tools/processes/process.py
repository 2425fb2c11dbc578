"""Commands and functions in processes of their own, which can be ended for certain.

Their output is kept within bounds: the beginning and the end of each stream.
"""

from __future__ import annotations

import asyncio
import io
import os
import pickle
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, ParamSpec, TypeVar, cast

import msgspec
from anyio.lowlevel import checkpoint

from midflight.errors import CallFailed, CallRefused, ProcessNotStarted
from midflight.tools.processes.callee import MAIN
from midflight.tools.processes.supervised import Supervised
from midflight.tools.progress import output_of_process

P = ParamSpec("P")
T = TypeVar("T")
OnOutput = Callable[[str, bytes], None]
"""Called with ``"stdout"`` or ``"stderr"`` and what has just come, on the event loop."""

OUTPUT_MAX: Final = 1 << 20  # bytes of each stream; a journal or a model takes no more anyway
END_GRACE_S: Final = 5.0  # to kill a tree; 2 ms is usual, a process in a device driver may hang
_CARRIED: Final = "midflight_ended"

CALLER: Final = (sys.executable, "-P", "-u", str(Path(__file__).with_name("callee.py")))
"""The command that makes a call; the number of the result's pipe is to follow.

``-P``: the folder of the program holds modules named like those of the standard library.
``-u``: the function's output is not buffered there, so a kill loses none of it.
"""
WRAPPERS: Final = ("function", "__wrapped__")
"""Where a decorated function is kept: by ``@tool``, by ``functools.wraps``."""


class Kept:
    """The beginning and the end of a stream: programs say first what they do, last what failed."""

    def __init__(self, limit: int) -> None:
        self._head_max = limit // 2
        self._tail_max = limit - limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._cut = 0

    def add(self, data: bytes) -> None:
        """Take what has come."""
        room = max(self._head_max - len(self._head), 0)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._tail_max:  # seldom, because it moves what is kept
            self._trim()

    def whole(self) -> bytes:
        """All that is kept, with a note where something is missing."""
        self._trim()
        note = f"\n[… {self._cut:,} bytes cut …]\n".encode() if self._cut else b""
        return bytes(self._head) + note + bytes(self._tail)

    def _trim(self) -> None:
        excess = max(len(self._tail) - self._tail_max, 0)
        del self._tail[:excess]
        self._cut += excess


class Output:
    """The streams of a tool: two that are kept in part and passed on, and a result kept whole."""

    def __init__(self, limit: int, on_output: OnOutput | None) -> None:
        self.stdout = Kept(limit)
        self.stderr = Kept(limit)
        self.result = bytearray()
        self._on_output = on_output

    def take(self, name: str, data: bytes) -> None:
        """Take what has come from one of them."""
        if name == "result":
            self.result += data
            return
        (self.stdout if name == "stdout" else self.stderr).add(data)
        if self._on_output is not None:
            self._on_output(name, data)


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a command. Of ``returncode`` and ``signal`` at most one is known."""

    returncode: int | None
    signal: int | None
    stdout: bytes
    stderr: bytes
    started: bool
    """False: it is certain that nothing was run."""
    proven_dead: bool
    """Neither the command nor any of its descendants is left."""
    survivors: tuple[int, ...] = ()
    """Processes that could not be killed."""
    timed_out: bool = False

    def how(self) -> str:
        """Say in words for people how the command ended."""
        if self.signal is not None:
            names = {known.value: known.name for known in signal.Signals}
            return f"was ended by {names.get(self.signal, f'signal {self.signal}')}"
        if self.returncode is not None:
            return f"ended with exit code {self.returncode}"
        return "ended in an unknown way" if self.started else "was not started"


def ended_of(error: BaseException) -> Ended | None:
    """Return the end of a command from the ``CancelledError`` that its cancelled caller got.

    It is an attribute and not a subclass, because ``asyncio.timeout`` and ``TaskGroup`` of Python
    3.11 take no subclass of ``CancelledError`` for a cancel.
    """
    seen: set[int] = set()
    next_error: BaseException | None = error
    while next_error is not None and id(next_error) not in seen:
        seen.add(id(next_error))
        carried = getattr(next_error, _CARRIED, None)
        if isinstance(carried, Ended):
            return carried
        next_error = next_error.__cause__ or next_error.__context__
    return None


async def run_process(
    command: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    on_output: OnOutput | None = None,
    output_max: int = OUTPUT_MAX,
    timeout_s: float | None = None,
    end_grace_s: float = END_GRACE_S,
) -> Ended:
    """Run a command to its end. An exit code is a result; only a failed start raises.

    ``env`` replaces the environment of this process; the variable ``MIDFLIGHT_PROCESS`` is added.
    Of each stream ``output_max`` bytes are kept, half from the beginning and half from the end.
    Inside a step what is printed is what the step says so far, unless ``on_output`` takes it.
    After ``timeout_s`` everything is killed and the result says so; inside a step that touches the
    world also after its tool's timeout, by the supervisor itself if this process is frozen.

    If the calling task is cancelled, everything is killed, and the ``CancelledError`` goes on when
    that is done, or when it has proved impossible for ``end_grace_s``. More cancels meanwhile do
    not hasten it. ``ended_of(error)`` then gives the output so far.
    """
    if not command:
        raise ProcessNotStarted("", "the command is empty")
    job = partial(Supervised, command, cwd=cwd, env=env, stdin=stdin, grace_s=end_grace_s)
    return await _run(
        command[0], job, Output(output_max, on_output or output_of_process()), timeout_s
    )


async def call_in_process(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function of a module in a fresh interpreter, and return or raise what it does.

    Arguments and result are pickled, so the other process is trusted as much as its function. What
    it prints is dropped outside a step; see ``call_with_output``. An async function is run to its
    end. A cancel kills the interpreter and all that it has started, whatever it is doing, as in
    ``run_process``.
    """
    value, _ = await call_with_output(function, args, kwargs)
    return cast("T", value)


async def call_with_output(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] = MappingProxyType({}),
    *,
    on_output: OnOutput | None = None,
) -> tuple[Any, Ended]:
    """Like ``call_in_process``, and with what the function has printed."""
    title, call = _packed(function, args, kwargs)
    job = partial(
        Supervised,
        CALLER,
        cwd=None,
        env=None,
        stdin=call,
        extra="result",
        grace_s=END_GRACE_S,
    )
    output = Output(OUTPUT_MAX, on_output or output_of_process())
    ended = await _run(title, job, output, None)
    if not output.result:
        said = ended.stderr.decode(errors="replace").strip()
        raise CallFailed(title, f"its process {ended.how()} before it returned", traceback=said)
    return _unpacked(title, bytes(output.result)), ended


async def _run(
    title: str,
    start: Callable[..., Supervised],
    output: Output,
    timeout_s: float | None,
) -> Ended:
    await checkpoint()  # a task that is cancelled already starts nothing
    job = start(take=output.take)
    try:
        if timeout_s is not None:
            job.abort_after(timeout_s)
        await job.over()
    except asyncio.CancelledError as cancelled:
        job.abort()
        await job.over_for_certain()
        ended = _ended(job, output)
        setattr(cancelled, _CARRIED, ended)
        cancelled.add_note(f"{title} {ended.how()}; proven dead: {ended.proven_dead}.")
        raise
    finally:
        job.leave()
    if job.failure is not None:
        raise job.failure
    if job.report.errno:
        raise ProcessNotStarted(title, os.strerror(job.report.errno))
    ended = _ended(job, output)
    if not ended.started and not ended.timed_out:
        said = ended.stderr.decode(errors="replace").strip()
        why = (
            f"Midflight's process that watches over it did not start ({said or 'no reason given'})"
        )
        raise ProcessNotStarted(title, why)
    return ended


def _ended(job: Supervised, output: Output) -> Ended:
    report = job.report
    code = report.code
    started = bool(report.starting) and not report.errno
    return Ended(
        returncode=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        stdout=output.stdout.whole(),
        stderr=output.stderr.whole(),
        started=started,
        proven_dead=bool(report.proven) or not started,
        survivors=report.survivors,
        timed_out=bool(report.overtime)
        or (job.late and (bool(report.aborted) or not report.ended)),
    )


# ── a call and its answer as bytes, for ``callee.py`` ────────────────────────────────────────


def _packed(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[str, bytes]:
    """The function's name for people, and the call as bytes."""
    module, name = _place(function)
    title = f"{module}.{name}"
    try:
        arguments = pickle.dumps((tuple(args), dict(kwargs)))
    except Exception as error:
        raise CallRefused(title, f"its arguments cannot be pickled ({error})") from error
    needs_main = module == "__main__" or b"__main__" in arguments
    where = {
        "path": sys.path,
        "main": _main(title) if needs_main else {},
        "module": module,
        "name": name,
    }
    return title, pickle.dumps(where) + arguments


def _unpacked(title: str, answer: bytes) -> Any:
    """Return or raise what the function did.

    An ordinary exception comes back as itself, with a ``CallFailed`` that holds the traceback as
    its cause. One that cannot be sent, or that means something to this process (``SystemExit``),
    comes back as that ``CallFailed``.
    """
    reader = io.BytesIO(answer)
    about = pickle.load(reader)
    outcome = about["outcome"]
    sys.modules.setdefault(MAIN, sys.modules["__main__"])  # what it is called over there
    try:
        value = pickle.load(reader)
    except Exception as error:
        if outcome == "returned":
            raise CallFailed(title, f"its result cannot be unpickled here ({error})") from error
        value = None
    if outcome == "returned":
        return value
    kind, message = about["kind"], about["message"]
    why = {
        "not loaded": f"it could not be loaded there: {kind}: {message}",
        "raised": f"{kind}: {message}",
        "not sendable": f"its result cannot be sent back ({kind}: {message})",
    }[outcome]
    failed = CallFailed(title, why, kind=kind, traceback=about["traceback"])
    if outcome == "raised" and isinstance(value, Exception):
        raise value from failed
    raise failed


def _place(function: Callable[..., Any]) -> tuple[str, str]:
    """Where a new interpreter finds this very function: a module, and a path in it."""
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None)
    title = f"{module}.{name}" if name else repr(function)
    if not isinstance(module, str) or not isinstance(name, str):
        raise CallRefused(title, "it has no name to import it by; define it with def in a module")
    if "<" in name:
        raise CallRefused(
            title, "it is a lambda or a local function; define it at the top level of a module"
        )
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    while found is not None and found != function:
        inner = next((inner for inner in WRAPPERS if hasattr(found, inner)), None)
        found = getattr(found, inner) if inner else None
        name = f"{name}.{inner}"
    if found is None:
        raise CallRefused(title, "its module has something else under this name")
    return module, name


def _main(title: str) -> dict[str, str]:
    """Return the main program by its name after ``python -m``, or else by its file."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return {"name": spec.name}
    path = getattr(main, "__file__", None)
    if path is None:
        raise CallRefused(title, "the main program is not a file that could be loaded again")
    return {"path": str(Path(path).resolve())}
